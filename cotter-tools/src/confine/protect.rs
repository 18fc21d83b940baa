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

/// The folders whose entries are checked: every write root, and the folders between it and the
/// working folder.
pub(crate) fn folders(workspace: &Workspace) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = vec![];
    for root in workspace.write_roots() {
        let between = workspace.cwd().ancestors().take_while(|folder| folder.starts_with(root));
        for folder in between.chain([root]) {
            if !folders.iter().any(|other| other == folder) {
                folders.push(folder.into());
            }
        }
    }
    folders
}

/// The protected paths directly in these folders, existing or not.
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

/// The paths of a folder's repository that decide what git runs. Git itself must write the others.
fn repository(folder: &Path) -> Vec<PathBuf> {
    let dot_git = folder.join(".git");
    if let Some(git) = worktree(folder) {
        return std::iter::once(dot_git).chain(protected_in_repository(&git.common)).collect();
    }
    // A repository that does not exist yet could come with its own programs.
    if dot_git.is_dir() { protected_in_repository(&dot_git) } else { vec![dot_git] }
}

/// The protected paths of a repository with its submodules and worktrees.
pub(crate) fn protected_in_repository(git: &Path) -> Vec<PathBuf> {
    let mut paths = protected_in_git_folder(git);
    for inner in ["modules", "worktrees"] {
        let entries = fs::read_dir(git.join(inner)).into_iter().flatten().flatten();
        paths.extend(entries.flat_map(|entry| protected_in_git_folder(&entry.path())));
    }
    paths
}

/// The files of a git folder that name programs, or that say where such files are.
fn protected_in_git_folder(git: &Path) -> Vec<PathBuf> {
    ["hooks", "config", "config.worktree", "commondir", "gitdir"].map(|name| git.join(name)).into()
}

/// The paths outside a linked worktree that git writes for a commit.
pub(crate) fn writes(git: &Worktree) -> Vec<PathBuf> {
    let shared = ["objects", "refs", "logs"].map(|name| git.common.join(name));
    std::iter::once(git.own.clone()).chain(shared).collect()
}

/// True if a repository's own configuration names programs that our settings cannot switch off: the
/// names of its filters and drivers are known only to it, and included files may have more. Checks
/// the repositories of the working folder, of the roots and of the visited folders, and their
/// submodules, where git starts itself again without our settings.
pub(crate) fn brings_programs(workspace: &Workspace, visited: &[PathBuf]) -> bool {
    let above = workspace.cwd().ancestors().map(Path::to_path_buf);
    let visited = visited.iter().filter(|path| path.is_dir());
    let visited = visited.flat_map(|path| path.ancestors().map(Path::to_path_buf));
    let mut all: Vec<_> = above.chain(folders(workspace)).chain(visited).collect();
    all.sort_unstable();
    all.dedup();
    all.iter().any(|folder| {
        let git_folders = match worktree(folder) {
            Some(git) => vec![git.own, git.common],
            None => vec![folder.join(".git")],
        };
        let in_config = |git: &PathBuf| names_programs(git, false);
        let in_submodules =
            |git: &PathBuf| modules(&git.join("modules")).any(|m| names_programs(&m, true));
        git_folders.iter().any(|git| in_config(git) || in_submodules(git))
    })
}

/// The git folders of submodules that lie side by side.
fn modules(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn names_programs(git: &Path, without_our_settings: bool) -> bool {
    ["config", "config.worktree"].iter().any(|name| {
        let Ok(text) = fs::read(git.join(name)) else { return false };
        let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
        let heads = text.lines().filter_map(|line| line.trim_start().strip_prefix('['));
        let name = |head: &str| {
            let end = head.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            head[..end.unwrap_or(head.len())].to_owned()
        };
        let mut names = heads.map(|head| name(head.trim_start()));
        let program_sections = ["diff", "filter", "merge", "include", "includeif", "gpg", "tar"];
        names.any(|name| program_sections.contains(&name.as_str()))
            || without_our_settings && (text.contains("fsmonitor") || text.contains("hookspath"))
    })
}
