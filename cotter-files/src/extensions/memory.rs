//! Memory files: `AGENTS.md` and `CLAUDE.md`, from the project's root down to the working folder, and the
//! person's own. Each file becomes a section of the system prompt under its file name.
//!
//! A line may import another file: `@docs/style.md`, relative to the folder of the importing file. An
//! imported file must be inside the readable roots and no secret, and is read once. The depth of imports and
//! the total size are limited. Every file that is skipped is reported.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    folder::diagnostic::{Diagnostic, Severity},
    folder::walk::read,
};
use cotter::{
    Registry, Workspace,
    permission::secret_files::is_secret,
    text::{self, tags::escape_tags_of},
};

/// The names of memory files, in the order in which they are read.
pub const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The maximum size of one file, and of all files together, in bytes.
const MAX_FILE_BYTES: usize = 64 * 1024;
const MAX_TOTAL_BYTES: usize = 192 * 1024;

/// The maximum depth of imports.
const MAX_IMPORT_DEPTH: usize = 5;

/// A memory file, as a section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryFile {
    /// The path of the file, without links.
    pub path: PathBuf,
    /// The contents of the file.
    pub text: String,
}

impl MemoryFile {
    /// The section of the system prompt.
    pub fn section(&self) -> String {
        let path = text::show_line(&self.path.to_string_lossy()).into_owned();
        let path = path.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        let text = text::escape_note_tags(&escape_tags_of(&self.text, "memory"));
        format!("<memory file=\"{path}\">\n{text}\n</memory>")
    }
}

/// Memory files in the order of the prompt, and diagnostics about the skipped ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryFiles {
    /// The memory files.
    pub files: Vec<MemoryFile>,
    /// The skipped files, and why.
    pub diagnostics: Vec<Diagnostic>,
}

impl MemoryFiles {
    /// Registers every file as a section of the system prompt.
    pub fn register(&self, unit: &mut Registry) {
        for file in &self.files {
            unit.section(text::show_line(&file.path.to_string_lossy()), &file.section());
        }
    }
}

/// Reads the memory files of a workspace: the person's own folder first, then from the project's root down to
/// the working folder. `allows` returns why a path without links must not be read, if so.
pub fn load(
    workspace: &Workspace,
    own: Option<&Path>,
    allows: &dyn Fn(&Path) -> Result<(), String>,
) -> MemoryFiles {
    let mut reader = MemoryReader {
        workspace,
        own,
        allows,
        root: None,
        memory: MemoryFiles::default(),
        bytes_left: MAX_TOTAL_BYTES,
    };
    if let Some(folder) = own {
        reader.folder(folder);
    }
    reader.root = Some(workspace.project());
    let mut folders: Vec<_> = workspace
        .cwd()
        .ancestors()
        .take_while(|folder| folder.starts_with(workspace.project()))
        .collect();
    folders.reverse();
    for folder in folders {
        reader.folder(folder);
    }
    reader.memory
}

struct MemoryReader<'a> {
    workspace: &'a Workspace,
    own: Option<&'a Path>,
    allows: &'a dyn Fn(&Path) -> Result<(), String>,
    /// The folder that imports must not leave; `None` for the person's own files.
    root: Option<&'a Path>,
    memory: MemoryFiles,
    bytes_left: usize,
}

impl MemoryReader<'_> {
    fn folder(&mut self, folder: &Path) {
        for name in NAMES {
            let path = folder.join(name);
            if fs::symlink_metadata(&path).is_ok() {
                self.file(&path, &path, None, &mut vec![]);
            }
        }
    }

    fn warn(&mut self, path: &Path, line: Option<usize>, message: impl Into<String>) {
        let diagnostic = Diagnostic::new(path, line, Severity::Warning, message);
        self.memory.diagnostics.push(diagnostic);
    }

    /// Reads a file that another file imports at a line, or that is a memory file itself.
    fn file(
        &mut self,
        path: &Path,
        importer: &Path,
        line: Option<usize>,
        import_stack: &mut Vec<PathBuf>,
    ) {
        let shown = text::show_line(&path.to_string_lossy()).into_owned();
        let Ok(real) = fs::canonicalize(path) else {
            return self.warn(importer, line, format!("file {shown} not found"));
        };
        if import_stack.contains(&real) {
            return self.warn(
                importer,
                line,
                format!("{shown} imports itself through other files"),
            );
        }
        if self.memory.files.iter().any(|file| file.path == real) {
            return;
        }
        if let Err(why) = self.check_read(&real) {
            return self.warn(importer, line, format!("{shown} {why}"));
        }
        if import_stack.len() >= MAX_IMPORT_DEPTH {
            return self.warn(
                importer,
                line,
                format!("imports are more than {MAX_IMPORT_DEPTH} deep"),
            );
        }
        let (bytes, length) = match read(&real, MAX_FILE_BYTES) {
            Ok(read) => read,
            Err(error) => {
                return self.warn(importer, line, format!("{shown} cannot be read: {error}"));
            }
        };
        let contents = String::from_utf8_lossy(&bytes);
        let contents =
            crate::extensions::skills::tidy(contents.strip_prefix('\u{feff}').unwrap_or(&contents));
        if contents.len() > self.bytes_left {
            let message = format!(
                "{shown} is skipped: all memory files together may have {MAX_TOTAL_BYTES} bytes"
            );
            return self.warn(importer, line, message);
        }
        if length > MAX_FILE_BYTES as u64 {
            self.warn(&real, None, format!("only its first {MAX_FILE_BYTES} bytes are used"));
        }
        self.bytes_left -= contents.len();
        if !contents.trim().is_empty() {
            self.memory.files.push(MemoryFile { path: real.clone(), text: contents.clone() });
        }
        import_stack.push(real.clone());
        for (line, import) in imports(&contents) {
            let path = self.resolved(import, &real);
            self.file(&path, &real, Some(line), import_stack);
        }
        import_stack.pop();
    }

    /// Checks that a file may be read: a memory file of the person's own folder, or any file that calls may
    /// read, for a project's memory file below its root. An error is the reason.
    fn check_read(&self, real: &Path) -> Result<(), String> {
        let own = self.own.and_then(|own| fs::canonicalize(own).ok());
        let is_own = own.is_some_and(|own| {
            real.parent() == Some(&own) && NAMES.iter().any(|name| real.ends_with(name))
        });
        let is_outside = self.root.is_some_and(|root| !real.starts_with(root));
        match is_secret(real) || is_outside || !is_own && !self.workspace.is_readable(real) {
            true => Err("is outside the folders that may be read".into()),
            false => (self.allows)(real),
        }
    }

    fn resolved(&self, import: &str, from: &Path) -> PathBuf {
        match (import.strip_prefix("~/"), self.workspace.home()) {
            (Some(below), Some(home)) => home.join(below),
            _ => from.parent().unwrap_or(Path::new("/")).join(import),
        }
    }
}

/// The files that a text imports, each with its line. Code contains no imports.
fn imports(text: &str) -> Vec<(usize, &str)> {
    let mut found = vec![];
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backticks is code.
        let plain = line.split('`').step_by(2);
        for word in plain.flat_map(str::split_whitespace) {
            let Some(path) = word.strip_prefix('@') else { continue };
            let path = path.trim_end_matches(['.', ',', ';', ':', ')', '!', '?']);
            let is_path = path.contains('/') || Path::new(path).extension().is_some();
            if is_path && !path.contains('@') {
                found.push((number, path));
            }
        }
    }
    found
}
