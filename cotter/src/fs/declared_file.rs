//! Files that trusted declarations run, such as the script of a hook. Writing one changes what runs.

use std::path::{Path, PathBuf};

use crate::fs::workspace::Workspace;

/// A file that a declaration names, as far as it is known without a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredFile {
    /// An absolute path.
    Absolute(PathBuf),
    /// A path below the project.
    InProject(PathBuf),
    /// A path below the person's home folder.
    AtHome(PathBuf),
}

impl DeclaredFile {
    /// The paths of the file in a workspace: as it is named, and with its links resolved. Empty for a folder, and
    /// for a plain word that names no file.
    pub fn paths(&self, workspace: &Workspace) -> Vec<PathBuf> {
        let named = match self {
            DeclaredFile::Absolute(path) => Some(path.clone()),
            DeclaredFile::InProject(path) => Some(workspace.project().join(path)),
            DeclaredFile::AtHome(path) => workspace.home().map(|home| home.join(path)),
        };
        let Some(named) = named.filter(|path| self.may_be_file(path)) else { return vec![] };
        let real = named.canonicalize().ok().filter(|real| *real != named);
        std::iter::once(named).chain(real).collect()
    }

    fn may_be_file(&self, path: &Path) -> bool {
        let (DeclaredFile::Absolute(named)
        | DeclaredFile::InProject(named)
        | DeclaredFile::AtHome(named)) = self;
        let is_word = named.extension().is_none() && named.components().count() == 1;
        if is_word { path.is_file() } else { !path.is_dir() }
    }
}

/// True if a write touches one of these files: the file itself, or a folder that it is in. The folders of the
/// workspace are left out: a call that names one need not change every file in it.
pub(crate) fn is_touched(written: &Path, files: &[PathBuf], workspace: &Workspace) -> bool {
    let is_root = || workspace.write_roots().any(|root| root == written);
    files.iter().any(|file| file == written || file.starts_with(written) && !is_root())
}
