//! Hooks that run in place: their folder is looked at right before each start.

#[cfg(unix)]
use std::path::PathBuf;

#[cfg(unix)]
use crate::{
    text,
    trust::{Hash, Snapshot},
};

/// A folder that must hold what it held when a person trusted it, to the byte.
#[cfg(unix)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The folder.
    pub folder: PathBuf,
    /// What stood for its contents then.
    pub hash: Hash,
}

#[cfg(unix)]
impl Pinned {
    /// Reads the folder again. An error says that it is another, or why it cannot be told.
    pub fn check(&self) -> Result<(), String> {
        let shown = text::show_line(&self.folder.to_string_lossy()).into_owned();
        match Snapshot::take(&self.folder) {
            Ok(now) if now.hash() == self.hash => Ok(()),
            Ok(_) => Err(format!(
                "{shown} is not as it was trusted: `cotter trust` shows the difference"
            )),
            Err(why) => Err(format!("{shown} cannot be held against what was trusted: {why}")),
        }
    }
}

/// There is no trust on this system, so nothing is pinned.
#[cfg(not(unix))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {}

#[cfg(not(unix))]
impl Pinned {
    /// Never asked.
    pub fn check(&self) -> Result<(), String> {
        match *self {}
    }
}
