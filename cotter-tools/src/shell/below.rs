//! Checks the content of a folder that a command reads recursively: links that lead outside,
//! secrets, files that decide what runs later.

use std::path::{Path, PathBuf};

use cotter::{Workspace, builtin::is_protected, fs::paths, permission::secret_files::is_secret};

use crate::shell::{glob, index};

/// The most entries that are checked.
const MOST: usize = 10_000;

/// How a command reads folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deep {
    /// It follows links.
    pub follows: bool,
    /// It reads only files with these names; empty means all.
    pub names: Vec<String>,
    /// It reads only files that git tracks.
    pub tracked: bool,
}

/// The findings.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// Targets of links that may not be read.
    pub outside: Vec<PathBuf>,
    pub secrets: Vec<PathBuf>,
    pub protected: Vec<PathBuf>,
    /// There were more entries than the limit.
    pub more: bool,
}

/// The repository of a folder.
pub(crate) fn repository(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// Checks a folder. Links are not followed: targets within the project are checked by themselves.
pub(crate) fn look(folder: &Path, deep: &Deep, workspace: &Workspace) -> Below {
    let mut below = Below::default();
    if deep.tracked
        && let Some(repository) = repository(folder)
        && let Some(files) = index::tracked(repository)
    {
        let files = files.into_iter().map(|name| repository.join(name));
        below.secrets = files.filter(|path| path.starts_with(folder) && is_secret(path)).collect();
        return below;
    }
    let mut left = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(folder) = left.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST {
                below.more = true;
                return below;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let minded =
                || deep.names.is_empty() || deep.names.iter().any(|p| glob::fits(p, &name));
            match entry.file_type() {
                // Names of git objects are not chosen by anybody.
                Ok(kind) if kind.is_dir() && path.ends_with(".git/objects") => {}
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) if kind.is_symlink() && deep.follows && minded() => {
                    let target =
                        paths::touched_paths(&path.to_string_lossy(), workspace).into_iter().next();
                    below.outside.extend(target.filter(|target| !workspace.is_readable(target)));
                }
                Ok(kind) if kind.is_file() && minded() => {
                    if is_protected(&path, workspace) {
                        below.protected.push(path.clone());
                    }
                    if is_secret(&path) {
                        below.secrets.push(path);
                    }
                }
                _ => {}
            }
        }
    }
    below
}
