//! Where things are kept on this machine, and which project a folder belongs to.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// The operator's settings.
pub(crate) const OPERATOR_SETTINGS: &str = "/etc/cotter/settings.json";

/// The person's settings: `COTTER_HOME`, else the config home. `None` without any home.
pub(crate) fn user_settings() -> Option<PathBuf> {
    let folder = match variable("COTTER_HOME") {
        Some(folder) => folder,
        None => base("XDG_CONFIG_HOME", ".config")?.join("cotter"),
    };
    Some(folder.join("settings.json"))
}

/// The folder of all sessions.
pub(crate) fn sessions() -> Result<PathBuf, Failure> {
    let data = base("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        Failure::new("there is no place for sessions: neither `XDG_DATA_HOME` nor `HOME` is set")
            .with_hint("set `HOME`, or run with `--no-session`")
    })?;
    Ok(data.join("cotter/sessions"))
}

/// The nearest folder upward with `.git` or `.cotter`, else the folder itself.
pub(crate) fn project_root(folder: &Path) -> &Path {
    let marked = |folder: &&Path| [".git", ".cotter"].iter().any(|mark| folder.join(mark).exists());
    folder.ancestors().find(marked).unwrap_or(folder)
}

/// A base folder of the XDG kind; what is not absolute does not count there.
fn base(name: &str, below_home: &str) -> Option<PathBuf> {
    let given = variable(name).filter(|folder| folder.is_absolute());
    given.or_else(|| Some(variable("HOME")?.join(below_home)))
}

/// A variable's folder. An empty one is none.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
