//! Checks the content of a folder that a command reads recursively: links that lead outside,
//! secrets, files that decide what runs later.

use std::path::{Path, PathBuf};

use cotter::{Workspace, builtin::is_protected, fs::paths, permission::secret_files::is_secret};

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
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let Some(left_entries) = entries_left.checked_sub(1) else {
                findings.is_truncated = true;
                return findings;
            };
            *entries_left = left_entries;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let is_relevant =
                || read.names.is_empty() || read.names.iter().any(|p| glob::fits(p, &name));
            match entry.file_type() {
                // Git chooses the names of objects, so they say nothing about the content.
                Ok(kind) if kind.is_dir() && path.ends_with(".git/objects") => {}
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) if kind.is_symlink() && read.follows_links && is_relevant() => {
                    let target =
                        paths::touched_paths(&path.to_string_lossy(), workspace).into_iter().next();
                    findings.outside.extend(target.filter(|target| !workspace.is_readable(target)));
                }
                Ok(kind) if kind.is_file() && is_relevant() => {
                    if is_protected(&path, workspace) {
                        findings.protected.push(path.clone());
                    }
                    if is_secret(&path) {
                        findings.secrets.push(path);
                    }
                }
                _ => {}
            }
        }
    }
    findings
}
