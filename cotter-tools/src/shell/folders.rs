//! The folders in which a command may run.

use std::{path::PathBuf, rc::Rc};

use cotter::Workspace;

/// The most possible folders of one command; with more, the folder is unknown.
const MAX_FOLDERS: usize = 4;

/// The folders in which a command may run, each as a workspace with that working folder. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Folders(Rc<[Workspace]>);

impl Folders {
    pub(crate) fn of(workspace: &Workspace) -> Self {
        Folders(Rc::new([workspace.clone()]))
    }

    pub(crate) fn unknown() -> Self {
        Folders(Rc::new([]))
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[Workspace] {
        &self.0
    }

    /// The only folder, if there is just one.
    pub(crate) fn only(&self) -> Option<&Workspace> {
        match &*self.0 {
            [workspace] => Some(workspace),
            _ => None,
        }
    }

    /// The folders after a change to one of these paths.
    pub(crate) fn entered(base: &Workspace, paths: &[PathBuf]) -> Self {
        match paths.len() <= MAX_FOLDERS {
            true => Folders(paths.iter().map(|path| base.clone().with_cwd(path)).collect()),
            false => Folders::unknown(),
        }
    }

    /// The folders of either; unknown if one of them is.
    pub(crate) fn join(&self, other: &Folders) -> Self {
        if Rc::ptr_eq(&self.0, &other.0) {
            return self.clone();
        }
        if self.is_unknown() || other.is_unknown() {
            return Folders::unknown();
        }
        let mut joined = self.0.to_vec();
        for workspace in &*other.0 {
            if !joined.iter().any(|known| known.cwd() == workspace.cwd()) {
                joined.push(workspace.clone());
            }
        }
        if joined.len() > MAX_FOLDERS { Folders::unknown() } else { Folders(joined.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn joined_folders_are_those_of_both_or_unknown() {
        let base = Workspace::new(Path::new("/work"));
        let entered = |paths: &[&str]| {
            Folders::entered(&base, &paths.iter().map(PathBuf::from).collect::<Vec<_>>())
        };
        let shown = |folders: &Folders| -> Vec<_> {
            folders.as_slice().iter().map(|folder| folder.cwd().display().to_string()).collect()
        };
        let (one, two) = (Folders::of(&base), entered(&["/work/a", "/work/b"]));
        assert_eq!(shown(&one.join(&two)), ["/work", "/work/a", "/work/b"]);
        assert_eq!(shown(&two.join(&entered(&["/1", "/2", "/3"]))), [""; 0]);
        assert_eq!(shown(&one.join(&Folders::unknown())), [""; 0]);
    }
}
