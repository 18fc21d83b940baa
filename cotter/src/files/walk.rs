//! The files of a folder, found and opened so that nothing outside of it is read: no link is followed,
//! hidden names are passed over, and there is an end to depth and number.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{Diagnostic, Severity};
use crate::open;

/// How deep folders are looked into, and how many files are taken.
const DEEPEST: usize = 8;
const MOST_FILES: usize = 4_000;
/// How many names are looked at, those of folders and of other files included.
pub(super) const MOST_NAMES: usize = 20_000;

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// As it is shown: below the folder as it was named.
    pub(super) shown: PathBuf,
    /// As it is opened: without links.
    pub(super) real: PathBuf,
    /// Below the folder.
    pub(super) relative: PathBuf,
}

impl Found {
    /// The file's name without its ending.
    pub(super) fn stem(&self) -> String {
        self.relative.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The file's ending, in small letters.
    pub(super) fn ending(&self) -> String {
        self.relative.extension().unwrap_or_default().to_string_lossy().to_lowercase()
    }

    pub(super) fn rejected(&self, line: Option<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.shown, line, Severity::Rejected, message)
    }

    pub(super) fn warning(&self, line: Option<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.shown, line, Severity::Warning, message)
    }

    /// Its beginning, and how long it is.
    pub(super) fn head(&self, most: usize) -> Result<(Vec<u8>, u64), Diagnostic> {
        read(&self.real, most).map_err(|error| self.rejected(None, told(&error)))
    }
}

/// The beginning of a file by a path without links, and how long the file is.
pub(super) fn read(path: &Path, most: usize) -> io::Result<(Vec<u8>, u64)> {
    let file = open::file(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = vec![];
    file.take(most as u64).read_to_end(&mut bytes)?;
    Ok((bytes, about.len()))
}

fn told(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// What a folder holds.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) files: Vec<Found>,
    pub(super) diagnostics: Vec<Diagnostic>,
    names: usize,
}

/// Every file below a folder, in order, or the one file that was named. A folder that is not there holds
/// nothing. `stop_at` says of the names in a folder whether it is one thing: then that file alone counts.
pub(super) fn walk(root: &Path, stop_at: Option<&str>) -> Walked {
    let mut walked = Walked::default();
    let Ok(real) = fs::canonicalize(root) else { return walked };
    if real.is_file() {
        let relative = PathBuf::from(real.file_name().unwrap_or_default());
        walked.files.push(Found { shown: root.into(), real, relative });
        return walked;
    }
    walked.folder(root, &real, Path::new(""), 0, stop_at);
    walked
}

impl Walked {
    fn folder(
        &mut self,
        root: &Path,
        real: &Path,
        relative: &Path,
        depth: usize,
        stop_at: Option<&str>,
    ) {
        let shown = |name: &Path| root.join(relative).join(name);
        let reject =
            |path: &Path, message: String| Diagnostic::new(path, None, Severity::Rejected, message);
        let entries = match names(&real.join(relative)) {
            Ok(entries) => entries,
            Err(error) => {
                self.diagnostics.push(reject(&root.join(relative), told(&error)));
                return;
            }
        };
        let whole = stop_at.filter(|stop| entries.iter().any(|(name, _)| name == Path::new(stop)));
        for (name, kind) in entries {
            if whole.is_some_and(|stop| name != Path::new(stop)) {
                continue;
            }
            self.names += 1;
            if self.names > MOST_NAMES || self.files.len() >= MOST_FILES {
                let message = "it holds too much: the rest is left out".to_owned();
                if self.diagnostics.last().is_none_or(|last| last.message != message) {
                    self.diagnostics.push(reject(root, message));
                }
                return;
            }
            let below = relative.join(&name);
            if kind.is_symlink() {
                let message = "it is a link, and links are not followed".to_owned();
                self.diagnostics.push(reject(&shown(&name), message));
            } else if kind.is_dir() && depth >= DEEPEST {
                let message = format!("it lies more than {DEEPEST} folders deep");
                self.diagnostics.push(reject(&shown(&name), message));
            } else if kind.is_dir() {
                self.folder(root, real, &below, depth + 1, stop_at);
            } else if kind.is_file() {
                let found = Found { shown: shown(&name), real: real.join(&below), relative: below };
                self.files.push(found);
            } else {
                self.diagnostics.push(reject(&shown(&name), "it is no file".to_owned()));
            }
        }
    }
}

/// The names in a folder that are not hidden, in order; one more than [`MOST_NAMES`] at most.
pub(super) fn names(folder: &Path) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    let mut names = vec![];
    for entry in fs::read_dir(folder)?.take(MOST_NAMES + 1) {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            names.push((PathBuf::from(name), entry.file_type()?));
        }
    }
    names.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}
