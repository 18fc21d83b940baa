//! The folders that calls may reach besides the project: default folders for daily work, folders from
//! settings and flags, and folders that are closed to every call.

use std::{
    env,
    path::{Path, PathBuf},
};

use cotter::Workspace;
use cotter_files::settings::{AccessSettings, SourcedText};
use cotter_tools::confine::hook_root;

use crate::{error::CliError, paths, terminal::screen};

/// The system folders that calls may read without a question: headers and libraries.
const SYSTEM: [&str; 6] = [
    "/usr/include",
    "/usr/local/include",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/share",
    "/usr/local/share",
];

/// Toolchains and package caches, below the home folder.
const HOME_READABLE: [&str; 21] = [
    ".cargo/bin",
    ".cargo/env",
    ".cargo/config.toml",
    ".cargo/registry",
    ".cargo/git",
    ".rustup",
    ".npm",
    ".nvm",
    ".volta",
    ".asdf",
    ".bun/install",
    ".deno",
    ".pyenv",
    ".local/lib",
    ".local/bin",
    ".cache/pip",
    ".cache/uv",
    "go/pkg/mod",
    ".m2/repository",
    ".gradle/caches",
    ".gem/ruby",
];

/// Package caches that confined commands may write, below the home folder.
const CACHES: [&str; 12] = [
    ".cargo/registry",
    ".cargo/git",
    ".npm",
    ".cache/pip",
    ".cache/uv",
    ".cache/go-build",
    ".cache/ccache",
    ".cache/yarn",
    ".bun/install/cache",
    "go/pkg/mod",
    ".m2/repository",
    ".gradle/caches",
];

/// Adds to the workspace all folders that calls may read or write, and all closed folders.
pub(crate) fn add_access(
    workspace: Workspace,
    access: &AccessSettings,
    added: &[PathBuf],
) -> Result<Workspace, CliError> {
    let home = paths::person_home();
    let at_home = home.iter().flat_map(|home| HOME_READABLE.map(|folder| home.join(folder)));
    let programs = env::var_os("PATH").unwrap_or_default();
    let programs = env::split_paths(&programs).filter(|folder| folder.is_absolute());
    let system = SYSTEM.iter().map(PathBuf::from).chain([env::temp_dir()]).chain(programs);
    let read = system.chain(at_home).map(resolve_links);
    let mut roots = listed_folders(&access.roots, home.as_deref())?;
    for folder in added {
        roots.push(folder.canonicalize().map_err(|cause| {
            CliError::new(format!("cannot add {}", folder.display()))
                .with_cause(cause)
                .with_hint("`--add-dir DIR` needs an existing folder")
        })?);
    }
    let read = read.chain(listed_folders(&access.read_roots, home.as_deref())?);
    let closed = paths::own_folders().into_iter().flat_map(all_paths);
    let workspace = workspace.with_read_roots(read).with_roots(roots).with_closed(closed);
    Ok(match home {
        Some(home) => workspace.with_home(resolve_links(home)),
        None => workspace,
    })
}

/// Returns the cache folders that confined commands may also write.
pub(crate) fn caches(access: &AccessSettings) -> Result<Vec<PathBuf>, CliError> {
    let home = paths::person_home();
    let default = home.iter().flat_map(|home| CACHES.map(|folder| home.join(folder)));
    let default = default.filter(|folder| folder.is_dir()).map(resolve_links);
    Ok(default.chain(listed_folders(&access.caches, home.as_deref())?).collect())
}

/// Returns the folders and log files that hooks of projects may write besides. They need not exist.
pub(crate) fn hook_roots(access: &AccessSettings) -> Result<Vec<PathBuf>, CliError> {
    let home = paths::person_home();
    let check = |root: &SourcedText| {
        let path = absolute_path(root, home.as_deref())?;
        if hook_root::may_be_opened(&path, home.as_deref()) && !is_own(&path) {
            return Ok(resolve_links(path));
        }
        let error = root.location.error(format!("hooks of projects may not write `{}`", root.text));
        Err(error.with_hint("name a folder of logs or a log file, such as `~/.claude/logs`").into())
    };
    access.hook_roots.iter().map(check).collect()
}

/// True for a folder of Cotter, and for what is in one or holds one.
fn is_own(path: &Path) -> bool {
    paths::own_folders().iter().any(|own| path.starts_with(own) || own.starts_with(path))
}

fn absolute_path(path: &SourcedText, home: Option<&Path>) -> Result<PathBuf, CliError> {
    let absolute = match (path.text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(&path.text),
    };
    if absolute.is_absolute() {
        return Ok(absolute);
    }
    let error = path.location.error(format!("`{}` is not an absolute path", path.text));
    Err(error.with_hint("start it with `/` or `~/`").into())
}

/// Returns the folders of a list in a settings file.
fn listed_folders(folders: &[SourcedText], home: Option<&Path>) -> Result<Vec<PathBuf>, CliError> {
    let existing = |folder: &SourcedText| {
        let path = absolute_path(folder, home)?;
        if !path.exists() {
            screen::warn(folder.location.error(format!("folder `{}` not found", folder.text)));
        }
        Ok(resolve_links(path))
    };
    folders.iter().map(existing).collect()
}

/// Returns a folder of Cotter under every path: the given path, the resolved path, and the targets of the
/// links in it. Links to skills, agents and commands are excluded, because their owner may want to edit these
/// texts.
fn all_paths(folder: PathBuf) -> Vec<PathBuf> {
    const TEXTS: [&str; 3] = ["skills", "agents", "commands"];
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let links = links.filter(|entry| !TEXTS.iter().any(|name| entry.file_name() == *name));
    let targets = links.filter_map(|entry| entry.path().canonicalize().ok());
    let mut paths: Vec<_> =
        [folder.clone(), resolve_links(folder)].into_iter().chain(targets).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Resolves the links of a path. A missing folder keeps its path.
fn resolve_links(folder: PathBuf) -> PathBuf {
    folder.canonicalize().unwrap_or(folder)
}
