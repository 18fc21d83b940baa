//! What was found on disk during one walk. Nothing is kept for the next one: files change.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    rc::Rc,
};

use cotter::{Workspace, fs::paths};

use crate::shell::index;

/// The most names of a copied folder that are looked at.
const MAX_NAMES: usize = 1500;

/// The memo of one walk.
#[derive(Default)]
pub(crate) struct DiskMemo {
    folders: HashMap<PathBuf, FolderMemo>,
    names: HashMap<PathBuf, Rc<[OsString]>>,
    /// Whether a link may be at a path or below it.
    pub(crate) links: HashMap<PathBuf, bool>,
    /// The tracked files of repositories; `None` if unknown.
    tracked: HashMap<PathBuf, Option<Rc<[PathBuf]>>>,
}

/// The memo of one working folder.
struct FolderMemo {
    resolved: PathBuf,
    touched: HashMap<String, Rc<[PathBuf]>>,
    /// Words that may be files here.
    files: HashMap<String, bool>,
}

impl DiskMemo {
    /// The paths that a word touches, with links resolved.
    pub(crate) fn touched(&mut self, path: &str, workspace: &Workspace) -> Rc<[PathBuf]> {
        let memo = self.folder(workspace);
        if let Some(found) = memo.touched.get(path) {
            return found.clone();
        }
        let found: Rc<[_]> =
            paths::touched_paths_from(path, workspace, || memo.resolved.as_path()).into();
        memo.touched.insert(path.to_owned(), found.clone());
        found
    }

    /// Whether a word may be a file, as `look` says the first time.
    pub(crate) fn may_be_file(
        &mut self,
        name: &str,
        workspace: &Workspace,
        look: impl FnOnce() -> bool,
    ) -> bool {
        let memo = self.folder(workspace);
        match memo.files.get(name) {
            Some(found) => *found,
            None => *memo.files.entry(name.to_owned()).or_insert_with(look),
        }
    }

    /// The names in a folder; empty for a file.
    pub(crate) fn names_in(&mut self, folder: &Path) -> Rc<[OsString]> {
        if let Some(names) = self.names.get(folder) {
            return names.clone();
        }
        let within = folder.read_dir().into_iter().flatten().flatten().take(MAX_NAMES);
        let names: Rc<[_]> = within.map(|entry| entry.file_name()).collect();
        self.names.insert(folder.to_owned(), names.clone());
        names
    }

    /// The files that a repository tracks; `None` if unknown.
    pub(crate) fn tracked(&mut self, repository: &Path) -> Option<Rc<[PathBuf]>> {
        if let Some(files) = self.tracked.get(repository) {
            return files.clone();
        }
        let files = index::tracked(repository);
        let files = files.map(|names| names.iter().map(|name| repository.join(name)).collect());
        self.tracked.insert(repository.to_owned(), files.clone());
        files
    }

    fn folder(&mut self, workspace: &Workspace) -> &mut FolderMemo {
        self.folders.entry(workspace.cwd().to_owned()).or_insert_with(|| FolderMemo {
            resolved: paths::resolve_folder(workspace),
            touched: HashMap::new(),
            files: HashMap::new(),
        })
    }
}
