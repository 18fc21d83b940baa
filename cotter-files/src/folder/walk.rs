//! Finds and opens the files of a folder without reading anything outside the folder. A link is followed if
//! it stays inside, or if the folder is the user's own. Hidden names are skipped, and depth and number are
//! limited.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::folder::{
    diagnostic::{Diagnostic, Severity},
    front_matter::{FieldError, YamlFields, YamlValue},
};
use cotter::{fs::open, host::check_name, invoke::named_item::NameKind};

/// The maximum depth of folders.
const MAX_DEPTH: usize = 16;
/// The maximum number of files.
const MAX_FILES: usize = 4_000;
/// The maximum number of names that are looked at, including folders and other files.
pub(crate) const MAX_NAMES: usize = 20_000;

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundFile {
    /// The path for display: below the folder as the caller named it.
    pub(crate) shown: PathBuf,
    /// The path for opening: without links.
    pub(crate) real: PathBuf,
    /// The path relative to the folder.
    pub(crate) relative: PathBuf,
}

impl FoundFile {
    /// The file's name without its extension.
    pub(crate) fn stem(&self) -> String {
        self.relative.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The file's extension, in lower case.
    pub(crate) fn ending(&self) -> String {
        self.relative.extension().unwrap_or_default().to_string_lossy().to_lowercase()
    }

    pub(crate) fn rejected(&self, line: Option<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.shown, line, Severity::Rejected, message)
    }

    pub(crate) fn warning(&self, line: Option<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.shown, line, Severity::Warning, message)
    }

    /// Returns the item's name. An invalid name is replaced by the nearest valid one, with a diagnostic; if
    /// there is none, the file is rejected.
    pub(crate) fn name(
        &self,
        kind: NameKind,
        written: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<String, Diagnostic> {
        let Err(why) = check_name(kind, written) else { return Ok(written.to_owned()) };
        let name = nearest_name(kind, written).ok_or_else(|| self.rejected(None, why.clone()))?;
        let message = format!("{why}; the name `{name}` is used instead");
        diagnostics.push(Diagnostic::new(&self.shown, None, Severity::Repaired, message));
        Ok(name)
    }

    /// Returns the file's `description`. A list is joined to one text, with a diagnostic.
    pub(crate) fn description(
        &self,
        fields: &YamlFields,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<String, Diagnostic> {
        const KEY: &str = "description";
        let to_diagnostic = |error: FieldError| error.into_diagnostic(&self.shown);
        let Some(field) = fields.get(KEY).filter(|field| matches!(field.value, YamlValue::List(_)))
        else {
            return Ok(fields.text(KEY).map_err(to_diagnostic)?.unwrap_or_default().to_owned());
        };
        let words = fields.words(KEY).map_err(to_diagnostic)?.unwrap_or_default();
        let message = "`description` is a list; it is joined to one text";
        diagnostics.push(Diagnostic::new(
            &self.shown,
            Some(field.line),
            Severity::Repaired,
            message,
        ));
        Ok(words.join(", "))
    }

    /// Reads at most `most` bytes from the start of the file, and the file's length.
    pub(crate) fn read_head(&self, most: usize) -> Result<(Vec<u8>, u64), Diagnostic> {
        read(&self.real, most).map_err(|error| self.rejected(None, read_error_message(&error)))
    }
}

/// Reads at most `most` bytes from the start of a file, and the file's length. `path` has no links.
pub(crate) fn read(path: &Path, most: usize) -> io::Result<(Vec<u8>, u64)> {
    let file = open::file(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = vec![];
    file.take(most as u64).read_to_end(&mut bytes)?;
    Ok((bytes, metadata.len()))
}

/// The nearest valid name for a text: invalid characters become a dash, and the name begins with a letter.
pub(crate) fn nearest_name(kind: NameKind, text: &str) -> Option<String> {
    let mut name = String::new();
    for char in text.chars() {
        let char = if check_name(kind, &format!("a{char}")).is_ok() { char } else { '-' };
        if char != '-' || !name.ends_with('-') {
            name.push(char);
        }
    }
    let name = name.trim_matches('-');
    let is_letter = |char: char| char.is_ascii_alphabetic();
    let name = match name.starts_with(is_letter) {
        true => name.to_owned(),
        false => format!("{}-{name}", kind.as_str()),
    };
    let name: String = name.chars().take(64).collect();
    let has_letter_or_digit = text.chars().any(|char| char.is_ascii_alphanumeric());
    (has_letter_or_digit && check_name(kind, &name).is_ok()).then_some(name)
}

fn read_error_message(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// The rule that says which links are followed.
#[derive(Clone, Debug)]
pub(crate) enum LinkPolicy {
    /// All links: the folder is the user's own, and so are its links.
    Anywhere,
    /// Only links that stay in this folder, whose path has no links.
    Within(PathBuf),
}

impl LinkPolicy {
    /// Allows only links that stay inside a folder.
    pub(crate) fn within(folder: &Path) -> Self {
        LinkPolicy::Within(fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()))
    }

    /// Resolves a link to a path without links and the target's type, or returns the reason not to follow it.
    pub(crate) fn follow(&self, link: &Path) -> Result<(PathBuf, fs::FileType), String> {
        let cannot = |cause: io::Error| format!("it is a broken link: {cause}");
        let real = fs::canonicalize(link).map_err(cannot)?;
        if let LinkPolicy::Within(root) = self
            && !real.starts_with(root)
        {
            return Err("it is a link to a path outside the folder and is not followed".into());
        }
        let kind = fs::symlink_metadata(&real).map_err(cannot)?.file_type();
        Ok((real, kind))
    }
}

/// The files and diagnostics of a walk.
#[derive(Default)]
pub(crate) struct WalkResult {
    pub(crate) files: Vec<FoundFile>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    name_count: usize,
    /// Folders that were reached through links.
    linked_folders: Vec<PathBuf>,
}

/// The settings of a walk: the folder as the caller named it, the file that makes a folder one unit, and the
/// rule for links.
struct WalkOptions<'a> {
    root: &'a Path,
    /// The folder without links.
    real: &'a Path,
    stop_at: Option<&'a str>,
    links: &'a LinkPolicy,
}

/// Returns every file below a folder in order, or the one file that `root` names. A missing folder has no
/// files. In a folder that contains a file `stop_at`, only that file counts.
pub(crate) fn walk(root: &Path, stop_at: Option<&str>, links: &LinkPolicy) -> WalkResult {
    let mut walked = WalkResult::default();
    let real = match links.follow(root) {
        Ok((real, _)) => real,
        // A missing folder has no files.
        Err(_) if root.symlink_metadata().is_err() => return walked,
        Err(why) => {
            walked.diagnostics.push(Diagnostic::new(root, None, Severity::Rejected, why));
            return walked;
        }
    };
    if real.is_file() {
        let relative = PathBuf::from(root.file_name().unwrap_or_default());
        walked.files.push(FoundFile { shown: root.into(), real, relative });
        return walked;
    }
    let options = WalkOptions { root, real: &real, stop_at, links };
    walked.folder(&options, &real, Path::new(""), 0);
    walked
}

impl WalkResult {
    fn folder(&mut self, options: &WalkOptions<'_>, real: &Path, relative: &Path, depth: usize) {
        let entries = match list_names(real) {
            Ok(entries) => entries,
            Err(error) => {
                return self.reject(&options.root.join(relative), read_error_message(&error));
            }
        };
        let is_stop = |name: &Path| options.stop_at.is_some_and(|stop| name == Path::new(stop));
        let is_unit = entries.iter().any(|(name, _)| is_stop(name));
        for (name, kind) in entries {
            if is_unit && !is_stop(&name) {
                continue;
            }
            self.name_count += 1;
            if self.name_count > MAX_NAMES || self.files.len() >= MAX_FILES {
                let message = "it contains too many files: the rest is skipped".to_owned();
                if self.diagnostics.last().is_none_or(|last| last.message != message) {
                    self.reject(options.root, message);
                }
                return;
            }
            self.entry(options, &real.join(&name), &relative.join(&name), kind, depth);
        }
    }

    fn entry(
        &mut self,
        options: &WalkOptions<'_>,
        real: &Path,
        relative: &Path,
        kind: fs::FileType,
        depth: usize,
    ) {
        let shown = options.root.join(relative);
        let (real, kind) = match kind.is_symlink().then(|| options.links.follow(real)) {
            None => (real.to_owned(), kind),
            Some(Err(why)) => return self.reject(&shown, why),
            Some(Ok((real, kind))) => {
                if kind.is_dir()
                    && (self.linked_folders.contains(&real) || options.real.starts_with(&real))
                {
                    let why = "it is a link to a folder that was already searched";
                    return self.reject(&shown, why.into());
                }
                self.linked_folders.extend(kind.is_dir().then(|| real.clone()));
                (real, kind)
            }
        };
        if kind.is_dir() && depth >= MAX_DEPTH {
            self.reject(&shown, format!("it is more than {MAX_DEPTH} folders deep"));
        } else if kind.is_dir() {
            self.folder(options, &real, relative, depth + 1);
        } else if kind.is_file() {
            self.files.push(FoundFile { shown, real, relative: relative.into() });
        } else {
            self.reject(&shown, "it is not a file".to_owned());
        }
    }

    fn reject(&mut self, path: &Path, why: String) {
        self.diagnostics.push(Diagnostic::new(path, None, Severity::Rejected, why));
    }
}

/// The names in a folder without hidden ones, in order. At most [`MAX_NAMES`] + 1 entries are read.
pub(crate) fn list_names(folder: &Path) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    let mut names = vec![];
    for entry in fs::read_dir(folder)?.take(MAX_NAMES + 1) {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            names.push((PathBuf::from(name), entry.file_type()?));
        }
    }
    names.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}
