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

/// The operator's settings file.
pub(crate) const OPERATOR_SETTINGS: &str = "/etc/cotter/settings.json";

/// Finds the workspace of a run: the folder that was typed, else the current one, and its project.
pub(crate) fn find_workspace(typed: Option<&Path>) -> Result<Workspace, CliError> {
    let typed = typed.unwrap_or(Path::new("."));
    let cannot = |cause: io::Error| {
        let failure = CliError::new(format!("cannot work in {}", typed.display()));
        failure.with_cause(cause).with_hint("`--cwd DIR` needs an existing folder")
    };
    let folder = typed.canonicalize().map_err(cannot)?;
    if !folder.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory.into()));
    }
    Ok(Workspace::new(&folder).with_project(project_root(&folder)))
}

/// Returns the person's settings file. `None` without a home folder.
pub(crate) fn user_settings() -> Option<PathBuf> {
    Some(config()?.join("settings.json"))
}

/// Returns the file of the person's keys for providers. `None` without a home folder.
pub(crate) fn credentials() -> Option<PathBuf> {
    Some(config()?.join("credentials.json"))
}

/// Returns the person's config folder: `COTTER_HOME`, else the config home. It holds their settings and
/// extensions.
pub(crate) fn config() -> Option<PathBuf> {
    match path_variable("COTTER_HOME") {
        Some(folder) => Some(folder),
        None => Some(xdg_folder("XDG_CONFIG_HOME", ".config")?.join("cotter")),
    }
}

/// Returns the folder of the person's own spaces. `None` without a home folder.
pub(crate) fn spaces() -> Option<PathBuf> {
    Some(config()?.join("spaces"))
}

/// Returns the file with the source of each of the person's spaces. `None` without a home folder.
pub(crate) fn spaces_lock_file() -> Option<PathBuf> {
    Some(config()?.join("spaces.lock.json"))
}

/// Returns the person's home folder, if its path is absolute.
pub(crate) fn person_home() -> Option<PathBuf> {
    path_variable("HOME").filter(|folder| folder.is_absolute())
}

/// Returns all folders of Cotter on this machine: settings, keys, sessions, memory. They are closed to every
/// call.
pub(crate) fn own_folders() -> Vec<PathBuf> {
    let data = xdg_folder("XDG_DATA_HOME", ".local/share").map(|data| data.join("cotter"));
    let default = person_home().map(|home| home.join(".config/cotter"));
    config().into_iter().chain(default).chain(data).chain(["/etc/cotter".into()]).collect()
}

/// Creates the error for a file that cannot be stored because there is no home folder.
pub(crate) fn no_config() -> CliError {
    CliError::new("cannot find the settings folder: neither `COTTER_HOME` nor `HOME` is set")
        .with_hint("set `HOME`")
}

/// Writes a file of the person atomically. A new file, and a new folder for it, is readable by them alone; an
/// existing file keeps its mode.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    // A link stays a link: its target is written.
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
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    builder.create(folder)?;
    let old = fs::metadata(path).ok();
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let written = options.open(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        old.iter().try_for_each(|old| file.set_permissions(old.permissions()))?;
        file.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done?;
    fs::File::open(folder)?.sync_all()
}

/// True if a file of the person's config folder belongs to the project. In the default config folder a file
/// stays the person's own, even if the project is their home folder or above it.
pub(crate) fn belongs_to_project(path: &Path, project: &Path) -> bool {
    // A folder named by `COTTER_HOME` may be anywhere, so also inside the project.
    let is_default = path_variable("COTTER_HOME").is_none();
    !(is_default && contains_home(project)) && leads_through(path, project)
}

/// True if the project is the home folder, or above it.
fn contains_home(project: &Path) -> bool {
    person_home().is_some_and(|home| links::is_above(project, &home))
}

/// Returns the folder of all sessions.
pub(crate) fn sessions() -> Result<PathBuf, CliError> {
    let data = xdg_folder("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        CliError::new(
            "cannot find the folder for sessions: neither `XDG_DATA_HOME` nor `HOME` is set",
        )
        .with_hint("set `HOME`, or run with `--no-session`")
    })?;
    Ok(data.join("cotter/sessions"))
}

/// Returns the folder of memory, which has one folder per project. `None` without a home folder.
pub(crate) fn memory() -> Option<PathBuf> {
    Some(xdg_folder("XDG_DATA_HOME", ".local/share")?.join("cotter/memory"))
}

/// Returns the file of the tool definitions that MCP servers offered. `None` without a home folder.
pub(crate) fn mcp_definitions() -> Option<PathBuf> {
    Some(xdg_folder("XDG_DATA_HOME", ".local/share")?.join("cotter/mcp.json"))
}

/// Returns the file that exists once the person has seen the notice about files for Claude Code in their home
/// folder. `None` without a home folder.
pub(crate) fn claude_notice_marker() -> Option<PathBuf> {
    Some(xdg_folder("XDG_DATA_HOME", ".local/share")?.join("cotter/told-of-claude"))
}

/// Returns the folder of trust records on this machine. `None` without a home folder.
pub(crate) fn trust() -> Option<PathBuf> {
    Some(xdg_folder("XDG_DATA_HOME", ".local/share")?.join("cotter/trust"))
}

/// Returns the folder of the yeses that a person gave to the working copy of a folder, each for one terminal.
/// `None` without a home folder.
pub(crate) fn working_copies() -> Option<PathBuf> {
    Some(xdg_folder("XDG_DATA_HOME", ".local/share")?.join("cotter/runtime/here"))
}

/// Returns the nearest folder upward with `.git`. Without one: the nearest with `.cotter`, then the nearest
/// with a trusted `.cotter` that is gone, then the folder itself. So a `.cotter` further down in a repository
/// does not hide the one at its root, which may have gates.
pub(crate) fn project_root(folder: &Path) -> &Path {
    let marked = |mark: &str| folder.ancestors().find(|above| above.join(mark).exists());
    let marked = marked(".git").or_else(|| marked(".cotter"));
    marked.or_else(|| find_trusted_root(folder)).unwrap_or(folder)
}

fn find_trusted_root(folder: &Path) -> Option<&Path> {
    let records = TrustStore::open(trust()?).list().ok()?;
    let was_trusted = |above: &&Path| {
        let folders = [".cotter", ".claude", ".claude/settings.local.json", ".agents"]
            .map(|name| above.join(name));
        records.iter().any(|record| folders.contains(&record.source))
    };
    folder.ancestors().find(was_trusted)
}

/// Returns an XDG base folder. A path in the variable that is not absolute is ignored.
fn xdg_folder(name: &str, below_home: &str) -> Option<PathBuf> {
    let given = path_variable(name).filter(|folder| folder.is_absolute());
    given.or_else(|| Some(path_variable("HOME")?.join(below_home)))
}

/// Returns the text of a variable. `None` if it is empty or blank.
pub(crate) fn text_variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Returns the path in a variable. `None` if it is empty.
fn path_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
