//! The folders and files of Cotter on this machine, the workspace of a run, and the operator's switches.

pub(crate) mod operator_switches;

use std::{
    env, fs,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use cotter::Workspace;
pub(crate) use cotter_files::folder::links::leads_through;
use cotter_files::{folder::links, trust::store::TrustStore};

use crate::error::CliError;

/// The operator's settings.
pub(crate) const OPERATOR_SETTINGS: &str = "/etc/cotter/settings.json";

/// Finds the workspace of a run: the folder that was typed, else the current one, and its project.
pub(crate) fn find_workspace(typed: Option<&Path>) -> Result<Workspace, CliError> {
    let typed = typed.unwrap_or(Path::new("."));
    let cannot = |cause: io::Error| {
        let failure = CliError::new(format!("cannot work in {}", typed.display()));
        failure.with_cause(cause).with_hint("`--cwd DIR` names a folder that exists")
    };
    let folder = typed.canonicalize().map_err(cannot)?;
    if !folder.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory.into()));
    }
    Ok(Workspace::new(&folder).with_project(project_root(&folder)))
}

/// The person's settings. `None` without any home.
pub(crate) fn user_settings() -> Option<PathBuf> {
    Some(config()?.join("settings.json"))
}

/// The person's keys to providers. `None` without any home.
pub(crate) fn credentials() -> Option<PathBuf> {
    Some(config()?.join("credentials.json"))
}

/// `COTTER_HOME`, else the config home: the person's settings, and their own extensions beside them.
pub(crate) fn config() -> Option<PathBuf> {
    match variable("COTTER_HOME") {
        Some(folder) => Some(folder),
        None => Some(base("XDG_CONFIG_HOME", ".config")?.join("cotter")),
    }
}

/// The person's own spaces. `None` without any home.
pub(crate) fn spaces() -> Option<PathBuf> {
    Some(config()?.join("spaces"))
}

/// The file that says where each of them came from. `None` without any home.
pub(crate) fn spaces_lock_file() -> Option<PathBuf> {
    Some(config()?.join("spaces.lock.json"))
}

/// The person's home folder.
pub(crate) fn folder() -> Option<PathBuf> {
    variable("HOME").filter(|folder| folder.is_absolute())
}

/// Everything of ours on this machine: settings, keys, sessions, memory. Closed to every call.
pub(crate) fn own_folders() -> Vec<PathBuf> {
    let data = base("XDG_DATA_HOME", ".local/share").map(|data| data.join("cotter"));
    let usual = folder().map(|home| home.join(".config/cotter"));
    config().into_iter().chain(usual).chain(data).chain(["/etc/cotter".into()]).collect()
}

/// There is no home, and something was to be kept there.
pub(crate) fn no_config() -> CliError {
    CliError::new("there is no place for settings: neither `COTTER_HOME` nor `HOME` is set")
        .with_hint("set `HOME`")
}

/// Writes a file of the person's whole or not at all, readable by them alone unless it was there and
/// was not. A folder that is made for it is theirs alone too.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    // A link stays one: what it leads to is written.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    write_whole(&path, bytes).map_err(|cause| {
        CliError::new(format!("cannot write {}", path.display())).with_cause(cause)
    })
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    builder.create(folder)?;
    let before = fs::metadata(path).ok();
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let written = options.open(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        before.iter().try_for_each(|before| file.set_permissions(before.permissions()))?;
        file.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&beside, path));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done?;
    fs::File::open(folder)?.sync_all()
}

/// Whether a file of the person's usual config home is one that the project brings. It is the person's
/// also where the project contains it, if the project is their home folder or above it.
pub(crate) fn is_brought_by(path: &Path, project: &Path) -> bool {
    // One that is named may be anywhere, and so in the project.
    let is_usual = variable("COTTER_HOME").is_none();
    !(is_usual && contains_home(project)) && leads_through(path, project)
}

/// Whether the project is the home folder, or above it.
fn contains_home(project: &Path) -> bool {
    folder().is_some_and(|home| links::is_above(project, &home))
}

/// The folder of all sessions.
pub(crate) fn sessions() -> Result<PathBuf, CliError> {
    let data = base("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        CliError::new("there is no place for sessions: neither `XDG_DATA_HOME` nor `HOME` is set")
            .with_hint("set `HOME`, or run with `--no-session`")
    })?;
    Ok(data.join("cotter/sessions"))
}

/// The folder of what is remembered, a folder per project. `None` without any home.
pub(crate) fn memory() -> Option<PathBuf> {
    Some(base("XDG_DATA_HOME", ".local/share")?.join("cotter/memory"))
}

/// The file of what MCP servers were seen to offer. `None` without any home.
pub(crate) fn mcp_definitions() -> Option<PathBuf> {
    Some(base("XDG_DATA_HOME", ".local/share")?.join("cotter/mcp.json"))
}

/// The mark that somebody was told of files for Claude Code in their home folder. `None` without any home.
pub(crate) fn told_of_claude() -> Option<PathBuf> {
    Some(base("XDG_DATA_HOME", ".local/share")?.join("cotter/told-of-claude"))
}

/// The folder of what is trusted on this machine. `None` without any home.
pub(crate) fn trust() -> Option<PathBuf> {
    Some(base("XDG_DATA_HOME", ".local/share")?.join("cotter/trust"))
}

/// The nearest folder upward with `.git`; without one, that with `.cotter`, or with one that was trusted
/// and is gone; else the folder itself. So a `.cotter` further down in a repository does not hide the one
/// at its root, which may have gates.
pub(crate) fn project_root(folder: &Path) -> &Path {
    let marked = |mark: &str| folder.ancestors().find(|above| above.join(mark).exists());
    let marked = marked(".git").or_else(|| marked(".cotter"));
    marked.or_else(|| once_trusted(folder)).unwrap_or(folder)
}

fn once_trusted(folder: &Path) -> Option<&Path> {
    let records = TrustStore::open(trust()?).list().ok()?;
    let is_one = |above: &&Path| {
        let folders = [".cotter", ".claude", ".agents"].map(|name| above.join(name));
        records.iter().any(|record| folders.contains(&record.source))
    };
    folder.ancestors().find(is_one)
}

/// A base folder of the XDG kind; what is not absolute does not count there.
fn base(name: &str, below_home: &str) -> Option<PathBuf> {
    let given = variable(name).filter(|folder| folder.is_absolute());
    given.or_else(|| Some(variable("HOME")?.join(below_home)))
}

/// A variable's text. An empty one is none.
pub(crate) fn text_variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// A variable's folder. An empty one is none.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
