//! Paths in a project that decide what runs later.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cotter::{
    Workspace,
    builtin::PROTECTED,
    fs::git::{Worktree, worktree},
};

/// The folders whose entries are looked at: every write root, and those on the way from it to the
/// working folder.
pub(crate) fn folders(place: &Workspace) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = vec![];
    for root in place.write_roots() {
        let way = place.cwd().ancestors().take_while(|folder| folder.starts_with(root));
        for folder in way.chain([root]) {
            if !folders.iter().any(|known| known == folder) {
                folders.push(folder.into());
            }
        }
    }
    folders
}

/// Everything that is protected directly in these folders, there or not.
pub(crate) fn paths(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = vec![];
    for folder in folders {
        let names = PROTECTED.iter().filter(|name| **name != ".git");
        paths.extend(names.map(|name| folder.join(name)));
        paths.push(folder.join(".github/workflows"));
        paths.extend(repository(folder));
    }
    paths
}

/// What in a folder's repository decides what git runs. Everything else in it git itself must write.
fn repository(folder: &Path) -> Vec<PathBuf> {
    let dot_git = folder.join(".git");
    if let Some(git) = worktree(folder) {
        return std::iter::once(dot_git).chain(deciding_in_all(&git.common)).collect();
    }
    // One that is not there yet would come with programs of its own.
    if dot_git.is_dir() { deciding_in_all(&dot_git) } else { vec![dot_git] }
}

/// The same of a repository with its submodules and worktrees.
fn deciding_in_all(git: &Path) -> Vec<PathBuf> {
    let mut paths = deciding(git);
    for inner in ["modules", "worktrees"] {
        let entries = fs::read_dir(git.join(inner)).into_iter().flatten().flatten();
        paths.extend(entries.flat_map(|entry| deciding(&entry.path())));
    }
    paths
}

/// In a folder of git: what names programs, and what says where such names are.
fn deciding(git: &Path) -> Vec<PathBuf> {
    ["hooks", "config", "config.worktree", "commondir", "gitdir"].map(|name| git.join(name)).into()
}

/// What git writes outside a linked worktree for a commit.
pub(crate) fn writes(git: &Worktree) -> Vec<PathBuf> {
    let shared = ["objects", "refs", "logs"].map(|name| git.common.join(name));
    std::iter::once(git.own.clone()).chain(shared).collect()
}

/// Whether a repository's own configuration brings programs that no setting of ours switches off: its
/// filters and drivers have names that only it knows, and what it includes may have more. Looked at are
/// the repositories of the working folder, of the roots and of the folders that are gone to; and their
/// submodules, in which git starts itself again without our settings.
pub(crate) fn brings_programs(place: &Workspace, visited: &[PathBuf]) -> bool {
    let above = place.cwd().ancestors().map(Path::to_path_buf);
    let visited = visited.iter().filter(|path| path.is_dir());
    let visited = visited.flat_map(|path| path.ancestors().map(Path::to_path_buf));
    let mut all: Vec<_> = above.chain(folders(place)).chain(visited).collect();
    all.sort_unstable();
    all.dedup();
    all.iter().any(|folder| {
        let gits = match worktree(folder) {
            Some(git) => vec![git.own, git.common],
            None => vec![folder.join(".git")],
        };
        let configured = |git: &PathBuf| names_programs(git, false);
        let below = |git: &PathBuf| modules(&git.join("modules")).any(|m| names_programs(&m, true));
        gits.iter().any(|git| configured(git) || below(git))
    })
}

/// The folders of git of submodules, as far as they lie side by side.
fn modules(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn names_programs(git: &Path, alone: bool) -> bool {
    ["config", "config.worktree"].iter().any(|name| {
        let Ok(text) = fs::read(git.join(name)) else { return false };
        let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
        let heads = text.lines().filter_map(|line| line.trim_start().strip_prefix('['));
        let name = |head: &str| {
            let end = head.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            head[..end.unwrap_or(head.len())].to_owned()
        };
        let mut names = heads.map(|head| name(head.trim_start()));
        let known = ["diff", "filter", "merge", "include", "includeif", "gpg", "tar"];
        names.any(|name| known.contains(&name.as_str()))
            || alone && (text.contains("fsmonitor") || text.contains("hookspath"))
    })
}
