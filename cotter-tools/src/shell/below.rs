//! Checks the content of a folder that a command reads recursively: links that lead outside,
//! secrets, files that decide what runs later.

use std::{
    fs::FileType,
    path::{Path, PathBuf},
};

use cotter::{Workspace, builtin::is_protected, fs::paths, permission::secret_files::is_secret};
use ignore::{DirEntry, WalkBuilder};

use crate::shell::{glob, index};

/// How a command reads folders recursively.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RecursiveRead {
    /// It follows links.
    pub follows_links: bool,
    /// It reads only files with these names; empty means all.
    pub names: Vec<String>,
    /// It reads only files that git tracks.
    pub only_tracked: bool,
    /// It passes hidden files over, and those that git ignores.
    pub only_visible: bool,
}

impl RecursiveRead {
    /// Reads what either of them reads.
    pub(crate) fn join(mut self, other: RecursiveRead) -> Self {
        self.follows_links |= other.follows_links;
        self.only_tracked &= other.only_tracked;
        self.only_visible &= other.only_visible;
        match other.names.is_empty() {
            true => self.names.clear(),
            false if self.names.is_empty() => {}
            false => self.names.extend(other.names),
        }
        self
    }
}

/// The findings in a folder.
#[derive(Debug, Default)]
pub(crate) struct FolderFindings {
    /// Targets of links that may not be read.
    pub outside: Vec<PathBuf>,
    pub secrets: Vec<PathBuf>,
    pub protected: Vec<PathBuf>,
    /// There were more entries than the limit.
    pub is_truncated: bool,
}

/// The repository of a folder.
pub(crate) fn repository(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// Checks a folder, as far as `entries_left` allows. Links are not followed: targets within the project are
/// checked by themselves.
pub(crate) fn check_folder(
    folder: &Path,
    read: &RecursiveRead,
    workspace: &Workspace,
    entries_left: &mut usize,
) -> FolderFindings {
    let mut findings = FolderFindings::default();
    if read.only_tracked
        && let Some(repository) = repository(folder)
        && let Some(files) = index::tracked(repository)
    {
        let files = files.into_iter().map(|name| repository.join(name));
        findings.secrets =
            files.filter(|path| path.starts_with(folder) && is_secret(path)).collect();
        return findings;
    }
    if read.only_visible {
        for entry in visible(folder) {
            if !take_one(entries_left) {
                findings.is_truncated = true;
                break;
            }
            if let Some(kind) = entry.file_type() {
                findings.add(entry.into_path(), kind, read, workspace);
            }
        }
        return findings;
    }
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            if !take_one(entries_left) {
                findings.is_truncated = true;
                return findings;
            }
            let path = entry.path();
            match entry.file_type() {
                // Git chooses the names of objects, so they say nothing about the content.
                Ok(kind) if kind.is_dir() && path.ends_with(".git/objects") => {}
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) => findings.add(path, kind, read, workspace),
                Err(_) => {}
            }
        }
    }
    findings
}

/// Counts one entry. False: there are more than are looked at.
fn take_one(entries_left: &mut usize) -> bool {
    let left = entries_left.checked_sub(1);
    *entries_left = left.unwrap_or(0);
    left.is_some()
}

/// The entries of a folder and below it that `rg` looks at: those that are not hidden or ignored.
fn visible(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let mut walk = WalkBuilder::new(folder);
    walk.add_custom_ignore_filename(".rgignore");
    walk.build().flatten()
}

impl FolderFindings {
    /// Adds a file or a link, if it is read and matters.
    fn add(&mut self, path: PathBuf, kind: FileType, read: &RecursiveRead, workspace: &Workspace) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_read = read.names.is_empty() || read.names.iter().any(|p| glob::fits(p, &name));
        if !is_read {
            return;
        }
        if kind.is_symlink() && read.follows_links {
            let target =
                paths::touched_paths(&path.to_string_lossy(), workspace).into_iter().next();
            self.outside.extend(target.filter(|target| !workspace.is_readable(target)));
        } else if kind.is_file() {
            if is_protected(&path, workspace) {
                self.protected.push(path.clone());
            }
            if is_secret(&path) {
                self.secrets.push(path);
            }
        }
    }
}
