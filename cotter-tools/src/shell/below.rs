//! Checks the content of a folder that a command reads recursively: links that lead outside,
//! secrets, files that decide what runs later.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use cotter::{Workspace, builtin::is_protected, fs::paths, permission::secret_files::is_secret};
use ignore::{DirEntry, WalkBuilder};

use crate::shell::{disk::DiskMemo, glob::NamePattern};

/// How a command reads folders recursively.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RecursiveRead {
    /// It follows links.
    pub follows_links: bool,
    /// It reads only files with these names; empty means all.
    pub names: Vec<String>,
    /// It reads only these files.
    pub only: FileFilter,
    /// It reads the whole repository, wherever it starts.
    pub whole_repository: bool,
}

/// The files that a recursive read passes over. A later one passes over more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileFilter {
    /// It reads all.
    #[default]
    Nothing,
    /// It reads what git does not ignore.
    Ignored,
    /// It reads what is neither hidden nor ignored.
    Hidden,
    /// It reads what git tracks.
    Untracked,
}

impl RecursiveRead {
    /// Reads what either of them reads.
    pub(crate) fn join(mut self, other: RecursiveRead) -> Self {
        self.follows_links |= other.follows_links;
        self.only = self.only.min(other.only);
        self.whole_repository |= other.whole_repository;
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
    /// All files.
    pub files: Vec<PathBuf>,
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
    disk: &mut DiskMemo,
    entries_left: &mut usize,
) -> FolderFindings {
    let mut findings = FolderFindings::default();
    let names: Vec<_> = read.names.iter().map(|name| NamePattern::new(name)).collect();
    if read.only == FileFilter::Untracked
        && let Some(repository) = repository(folder)
        && let Some(files) = disk.tracked(repository)
    {
        // Looking at a path is cheap beside looking at the disk.
        let Some(left) = entries_left.checked_sub(files.len() / 100) else {
            findings.is_truncated = true;
            return findings;
        };
        *entries_left = left;
        findings.files = files.iter().filter(|path| path.starts_with(folder)).cloned().collect();
        let secrets = findings.files.iter().filter(|path| is_secret(path) && !is_example(path));
        findings.secrets = secrets.cloned().collect();
        return findings;
    }
    if matches!(read.only, FileFilter::Hidden | FileFilter::Ignored) {
        for entry in listed(folder, read) {
            if !take_one(entries_left) {
                findings.is_truncated = true;
                break;
            }
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                findings.add_found(entry.into_path(), read, &names, workspace);
            }
        }
        return findings;
    }
    let (mut left, mut linked) = (vec![folder.to_owned()], HashSet::new());
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
                Ok(kind) if kind.is_symlink() && read.follows_links => {
                    let target = path.canonicalize().ok().filter(|at| workspace.is_readable(at));
                    match target.filter(|target| target.is_dir() && names.is_empty()) {
                        Some(target) => {
                            left.extend(linked.insert(target.clone()).then_some(target));
                        }
                        None => findings.add_found(path, read, &names, workspace),
                    }
                }
                Ok(kind) if kind.is_file() => findings.add_found(path, read, &names, workspace),
                _ => {}
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

/// The entries of a folder and below it that `rg` or `git add` looks at.
fn listed(folder: &Path, read: &RecursiveRead) -> impl Iterator<Item = DirEntry> {
    let mut walk = WalkBuilder::new(folder);
    walk.follow_links(read.follows_links);
    match read.only {
        FileFilter::Hidden => _ = walk.add_custom_ignore_filename(".rgignore"),
        _ => _ = walk.hidden(false).ignore(false),
    }
    walk.build().flatten()
}

/// True for a file that shows what a secret looks like: `.env.example`.
fn is_example(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    ["example", "sample", "template", "dist"].contains(&&*ending)
}

impl FolderFindings {
    /// Adds a file that was found, or what a link leads to, if it is read and matters.
    fn add_found(
        &mut self,
        path: PathBuf,
        read: &RecursiveRead,
        names: &[NamePattern],
        workspace: &Workspace,
    ) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !names.is_empty() && !names.iter().any(|pattern| pattern.fits(&name)) {
            return;
        }
        let found = match read.follows_links {
            true => paths::touched_paths(&path.to_string_lossy(), workspace).into_iter().next(),
            false => None,
        };
        // Closed files of the folder itself are a matter of the gate for it.
        let leads_elsewhere = found.as_ref().is_some_and(|found| *found != path);
        let path = found.unwrap_or(path);
        if leads_elsewhere && !workspace.is_readable(&path) {
            return self.outside.push(path);
        }
        if is_protected(&path, workspace) {
            self.protected.push(path.clone());
        }
        // `git add` shows nothing.
        if is_secret(&path) && read.only != FileFilter::Ignored {
            self.secrets.push(path.clone());
        }
        self.files.push(path);
    }
}
