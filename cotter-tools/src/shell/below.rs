//! What a command comes across that goes through a folder with all it holds: links that lead outside,
//! secrets, files that decide what runs later.

use std::path::{Path, PathBuf};

use cotter::{Workspace, builtin::is_protected, fs::paths, permission::secret_files::is_secret};

use crate::shell::{glob, index};

/// The most entries that are looked at.
const MOST: usize = 10_000;

/// How a command goes through folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deep {
    /// It reads what links lead to.
    pub follows: bool,
    /// It minds only files of these names; of any where there are none.
    pub names: Vec<String>,
    /// It looks only into files that git tracks.
    pub tracked: bool,
}

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct Below {
    /// Where links lead to that may not be read.
    pub outside: Vec<PathBuf>,
    pub secrets: Vec<PathBuf>,
    pub protected: Vec<PathBuf>,
    /// There is more than was looked at.
    pub more: bool,
}

/// The repository that a folder belongs to.
pub(crate) fn repository(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// Looks through a folder. Links are not followed: what lies in the project is looked at by itself.
pub(crate) fn look(folder: &Path, deep: &Deep, place: &Workspace) -> Below {
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
                // Nothing in there has a name that anybody chose.
                Ok(kind) if kind.is_dir() && path.ends_with(".git/objects") => {}
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) if kind.is_symlink() && deep.follows && minded() => {
                    let target = paths::touched(&path.to_string_lossy(), place).into_iter().next();
                    below.outside.extend(target.filter(|target| !place.is_readable(target)));
                }
                Ok(kind) if kind.is_file() && minded() => {
                    if is_protected(&path, place) {
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
