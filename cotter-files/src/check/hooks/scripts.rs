//! Checks the scripts that hooks name: each must exist, be executable if it is started itself, and have line
//! ends that its interpreter reads.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    command_hook::entry::{CommandHook, CommandLine},
    folder::diagnostic::{Diagnostic, Severity},
};
use cotter::text;

/// Programs that run the script that is their first operand.
const INTERPRETERS: [&str; 13] = [
    "sh", "bash", "dash", "ksh", "zsh", "python", "python3", "node", "bun", "ruby", "perl", "php",
    "source",
];

/// Variables that stand for the folder that paths of a hook begin with.
const FOLDERS: [&str; 4] =
    ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT", "COTTER_PROJECT_DIR"];

/// The number of bytes of a script that are read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The folder in which the scripts of hooks are found.
pub(super) struct ScriptFolder {
    /// The folder that relative paths begin in.
    folder: PathBuf,
    /// The folder that the variables stand for.
    root: PathBuf,
}

/// How a command uses a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptUse {
    Started,
    Interpreted,
}

impl ScriptFolder {
    /// The folder of hooks for Claude Code: a project, or a plugin.
    pub(super) fn of_project(root: &Path) -> Self {
        ScriptFolder { folder: root.to_owned(), root: root.to_owned() }
    }

    /// A `.cotter`, or another folder in Cotter's format. The project is the folder above it.
    pub(super) fn of_cotter(folder: &Path) -> Self {
        let root = folder.parent().unwrap_or(folder).to_owned();
        ScriptFolder { folder: folder.to_owned(), root }
    }

    /// The errors about the scripts of hooks in a file.
    pub(super) fn check(&self, path: &Path, hooks: &[CommandHook]) -> Vec<Diagnostic> {
        let error_of = |hook: &CommandHook| {
            let (script, script_use) = self.script_of(&hook.command)?;
            let why = find_error(&script, script_use)?;
            let shown = text::show_line(&script.to_string_lossy()).into_owned();
            let why = format!("hook `{}`: {shown} {why}", hook.name);
            Some(Diagnostic::new(path, None, Severity::Rejected, why))
        };
        hooks.iter().filter_map(error_of).collect()
    }

    /// The script that a command starts, or gives to an interpreter. `None` if it cannot be told.
    fn script_of(&self, command: &CommandLine) -> Option<(PathBuf, ScriptUse)> {
        let words = match command {
            CommandLine::Words(words) => words.clone(),
            CommandLine::Shell(line) => first_command(line)?,
        };
        let (program, rest) = words.split_first()?;
        let name = program.rsplit('/').next().unwrap_or_default();
        if INTERPRETERS.contains(&name) {
            let operand = rest.first().filter(|word| !word.starts_with('-'))?;
            return Some((self.resolve(operand)?, ScriptUse::Interpreted));
        }
        // A name without a folder is a program of the system.
        let has_folder = program.contains('/') && !program.starts_with('/');
        has_folder.then(|| self.resolve(program)).flatten().map(|path| (path, ScriptUse::Started))
    }

    /// The path that a word means; `None` if it has a variable that is not known.
    fn resolve(&self, word: &str) -> Option<PathBuf> {
        let in_root = FOLDERS.iter().find_map(|name| {
            let plain = word.strip_prefix(&format!("${name}/"));
            plain.or_else(|| word.strip_prefix(&format!("${{{name}}}/")))
        });
        match in_root {
            Some(inside) if !inside.contains('$') => Some(self.root.join(inside)),
            None if !word.contains('$') && !word.starts_with('~') => {
                Some(self.folder.join(word.strip_prefix("./").unwrap_or(word)))
            }
            _ => None,
        }
    }
}

/// The words of the first simple command of a line, without quotes. `None` if it has other syntax.
fn first_command(line: &str) -> Option<Vec<String>> {
    let end = line.find([';', '|', '&', '<', '>', '\n']).unwrap_or(line.len());
    let command = &line[..end];
    if command.contains(['`', '(', '*', '?', '\\', '\'']) || command.contains('=') {
        return None;
    }
    let words = command.split_whitespace();
    Some(words.map(|word| word.replace('"', "")).collect())
}

/// The reason why a script does not run, and the way out.
fn find_error(script: &Path, script_use: ScriptUse) -> Option<String> {
    let Ok(metadata) = fs::metadata(script) else {
        return Some("does not exist: create it, or correct the path".into());
    };
    if !metadata.is_file() {
        return Some("is not a file: name the script itself".into());
    }
    if script_use == ScriptUse::Started && metadata.permissions().mode() & 0o111 == 0 {
        return Some("is not executable: run `chmod +x` on it".into());
    }
    let bytes = match metadata.len() {
        0..=MAX_BYTES => fs::read(script).ok()?,
        _ => return None,
    };
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_shell = script.extension().is_some_and(|end| end == "sh" || end == "bash")
        || first.starts_with(b"#!") && first.windows(2).any(|two| two == b"sh");
    let has_windows_ends = first.starts_with(b"#!") && first.ends_with(b"\r")
        || is_shell && bytes.windows(2).any(|two| two == b"\r\n");
    has_windows_ends.then(|| {
        "has Windows line ends (CRLF), which its interpreter does not read: run `sed -i 's/\\r$//'` \
         on it"
            .into()
    })
}
