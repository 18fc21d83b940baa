//! A walk through folders, in order. It follows no link, and skips ignored files, hidden files that
//! are not asked for by name, and closed paths.

use std::{
    ffi::OsStr,
    io::Read,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use cotter::{
    ToolError, Workspace,
    fs::open::{self, Folder},
};
use globset::{GlobBuilder, GlobMatcher};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use crate::files::change::refused;

/// The most bytes of an ignore file that are read.
const IGNORE_BYTES: u64 = 1024 * 1024;

/// A pattern for paths below a folder. Without a slash it matches at any depth.
pub(crate) struct Pattern {
    whole: GlobMatcher,
    /// The names in it that begin with a dot: hidden files are visited if one matches.
    hidden: Vec<GlobMatcher>,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, ToolError> {
        let plain = text.trim_start_matches("./");
        let mut names = Path::new(plain).components();
        if names.any(|name| !matches!(name, Component::Normal(_) | Component::CurDir)) {
            let message = "a pattern matches paths below a folder; name another folder with `path`";
            return Err(refused(format!("`{text}`: {message}")));
        }
        let whole = if plain.contains('/') { plain.to_owned() } else { format!("**/{plain}") };
        let glob = |pattern: &str| {
            let built = GlobBuilder::new(pattern).literal_separator(true).build();
            built.map(|glob| glob.compile_matcher())
        };
        let hidden = plain.split('/').filter(|name| name.starts_with('.'));
        let hidden = hidden.filter_map(|name| glob(name).ok()).collect();
        let whole = glob(&whole).map_err(|cause| refused(cause.to_string()))?;
        Ok(Pattern { whole, hidden })
    }

    pub(crate) fn matches(&self, below: &Path) -> bool {
        self.whole.is_match(below)
    }
}

/// A walk through everything below a folder.
pub(crate) struct FileWalk<'a> {
    root: PathBuf,
    workspace: &'a Workspace,
    pattern: Option<&'a Pattern>,
    cancel: &'a CancellationToken,
    /// The entries still to visit, the next one last.
    pending: Vec<PendingEntry>,
}

struct PendingEntry {
    path: PathBuf,
    kind: FileType,
    ignores: Rc<Ignores>,
}

/// An entry of a walk: its path, and its path below the start folder.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) below: PathBuf,
    pub(crate) kind: FileType,
}

impl<'a> FileWalk<'a> {
    /// A walk through a folder, by its path without links.
    pub(crate) fn new(
        root: &Path,
        workspace: &'a Workspace,
        pattern: Option<&'a Pattern>,
        cancel: &'a CancellationToken,
    ) -> std::io::Result<Self> {
        let folder = Folder::open(root)?;
        let outermost = workspace.read_roots().filter(|read_root| root.starts_with(read_root));
        let outermost =
            outermost.max_by_key(|read_root| read_root.as_os_str().len()).unwrap_or(root);
        let mut ignores = Rc::new(Ignores::default());
        let mut outer: Vec<_> =
            root.ancestors().take_while(|at| at.starts_with(outermost)).collect();
        while let Some(at) = outer.pop() {
            ignores = Ignores::below(&ignores, at);
        }
        let mut walk = FileWalk { root: root.into(), workspace, pattern, cancel, pending: vec![] };
        walk.enter(&folder, root, &ignores)?;
        Ok(walk)
    }

    /// The next entry; `None` at the end, or when the run was aborted.
    pub(crate) fn next(&mut self) -> Option<FoundFile> {
        while let Some(PendingEntry { path, kind, ignores }) = self.pending.pop() {
            if self.cancel.is_cancelled() {
                return None;
            }
            if kind == FileType::Directory {
                // Skip a folder that cannot be opened, or that is a link by now.
                if let Ok(folder) = Folder::open(&path) {
                    let ignores = Ignores::below(&ignores, &path);
                    let _ = self.enter(&folder, &path, &ignores);
                }
                continue;
            }
            let below = path.strip_prefix(&self.root).unwrap_or(&path).to_owned();
            return Some(FoundFile { path, below, kind });
        }
        None
    }

    /// Adds the entries of a folder to the pending ones, in order.
    fn enter(
        &mut self,
        folder: &Folder,
        path: &Path,
        ignores: &Rc<Ignores>,
    ) -> std::io::Result<()> {
        let mut entries = folder.entries()?;
        entries.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (name, kind) in entries {
            let path = path.join(&name);
            let is_folder = kind == FileType::Directory;
            let is_skipped = self.is_hidden(&name)
                || self.workspace.is_closed(&path)
                || ignores.ignores_path(&path, is_folder);
            if !is_skipped {
                self.pending.push(PendingEntry { path, kind, ignores: ignores.clone() });
            }
        }
        Ok(())
    }

    fn is_hidden(&self, name: &OsStr) -> bool {
        let named = |pattern: &Pattern| pattern.hidden.iter().any(|glob| glob.is_match(name));
        name.as_encoded_bytes().starts_with(b".") && !self.pattern.is_some_and(named)
    }
}

/// The ignore files of a folder and its parents. The innermost match wins.
#[derive(Default)]
struct Ignores {
    outer: Option<Rc<Ignores>>,
    files: Vec<Gitignore>,
}

impl Ignores {
    /// Adds the ignore files of a folder. `.ignore` wins over `.gitignore`, and that over git's own
    /// list.
    fn below(outer: &Rc<Ignores>, folder: &Path) -> Rc<Self> {
        let names = [".ignore", ".gitignore", ".git/info/exclude"];
        let files: Vec<_> = names.iter().filter_map(|name| read(folder, name)).collect();
        match files.is_empty() {
            true => outer.clone(),
            false => Rc::new(Ignores { outer: Some(outer.clone()), files }),
        }
    }

    /// True if a path is ignored.
    fn ignores_path(&self, path: &Path, is_folder: bool) -> bool {
        let outcomes = self.files.iter().map(|file| file.matched(path, is_folder));
        for outcome in outcomes {
            match outcome {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        self.outer.as_ref().is_some_and(|outer| outer.ignores_path(path, is_folder))
    }
}

/// An ignore file, if there is one. An invalid line is skipped, as git does.
fn read(folder: &Path, name: &str) -> Option<Gitignore> {
    let file = open::file(&folder.join(name)).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = vec![];
    file.take(IGNORE_BYTES).read_to_end(&mut bytes).ok()?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&bytes).lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abort_ends_a_walk() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let (workspace, cancel) = (Workspace::new(&root), CancellationToken::new());
        let mut walk = FileWalk::new(&root, &workspace, None, &cancel).unwrap();
        assert_eq!(walk.next().map(|found| found.below), Some("a".into()));
        cancel.cancel();
        assert!(walk.next().is_none());
    }

    #[test]
    fn closed_folders_are_not_entered_and_linked_ignore_files_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(root.join("own")).unwrap();
        std::fs::write(root.join("own/keys"), "").unwrap();
        std::fs::write(root.join("a.rs"), "").unwrap();
        std::fs::write(root.join("../rules"), "*.rs\n").unwrap();
        std::os::unix::fs::symlink("../rules", root.join(".gitignore")).unwrap();
        let workspace = Workspace::new(&root).with_closed([root.join("own")]);
        let cancel = CancellationToken::new();
        let mut walk = FileWalk::new(&root, &workspace, None, &cancel).unwrap();
        assert_eq!(walk.next().map(|found| found.below), Some("a.rs".into()));
        assert!(walk.next().is_none());
    }
}
