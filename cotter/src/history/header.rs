//! header

use crate::history::entry::Timestamp;
use smol_str::SmolStr;
use std::path::{Path, PathBuf};

/// The version of the session format this library writes.
pub(crate) const VERSION: u64 = 1;

/// The first line of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHeader {
    /// The version of the format.
    pub v: u64,
    /// The session's id.
    pub id: SmolStr,
    /// The folder it was started in.
    pub cwd: PathBuf,
    /// When it was made.
    pub created_at: Timestamp,
    /// The session it was forked from.
    pub parent: Option<SmolStr>,
}

impl SessionHeader {
    /// A new session's.
    pub fn new(id: SmolStr, cwd: &Path) -> Self {
        SessionHeader {
            v: VERSION,
            id,
            cwd: cwd.into(),
            created_at: Timestamp::now(),
            parent: None,
        }
    }
}
