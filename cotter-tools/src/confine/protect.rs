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

use crate::confine::rights;

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

/// The most folders of submodules that are looked at.
const MAX_MODULES: usize = 4_000;

/// What git itself writes in the folder of a submodule.
const GIT_DATA: [&str; 5] = ["hooks", "info", "logs", "objects", "refs"];

/// The protected paths of a repository with its submodules and worktrees. A submodule may be anywhere below
/// `modules`. What cannot be looked at is protected as a whole.
pub(crate) fn protected_in_repository(git: &Path) -> Vec<PathBuf> {
    if !rights::is_listable(git) {
        return vec![git.into()];
    }
    let mut paths = protected_in_git_folder(git);
    for inner in ["modules", "worktrees"].map(|name| git.join(name)) {
        let Some(folders) = git_folders_below(&inner) else {
            paths.push(inner);
            continue;
        };
        paths.extend(folders.into_iter().flat_map(|folder| match rights::is_listable(&folder) {
            true => protected_in_git_folder(&folder),
            false => vec![folder],
        }));
    }
    paths
}

/// The folders below a folder, except git's data. `None`: there are too many, or it cannot be listed.
fn git_folders_below(folder: &Path) -> Option<Vec<PathBuf>> {
    if !rights::is_listable(folder) {
        return folder.symlink_metadata().is_err().then(Vec::new);
    }
    let (mut found, mut pending) = (vec![], vec![folder.to_path_buf()]);
    while let Some(folder) = pending.pop() {
        let is_git = folder.join("config").symlink_metadata().is_ok();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_data = || is_git && GIT_DATA.iter().any(|name| entry.file_name() == *name);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_data() {
                found.push(entry.path());
                pending.push(entry.path());
            }
        }
        if found.len() > MAX_MODULES {
            return None;
        }
    }
    Some(found)
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
        let in_submodules = |git: &PathBuf| {
            let modules = git_folders_below(&git.join("modules"));
            modules.is_none_or(|all| all.iter().any(|module| names_programs(module, true)))
        };
        git_folders.iter().any(|git| in_config(git) || in_submodules(git))
    })
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
