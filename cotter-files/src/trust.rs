//! Trust in the contents of a repository or a download: nothing in them runs before a person agreed.
//!
//! Trust is given to contents, not to names. A [`Snapshot`] is everything in a folder that declares hooks,
//! servers or scripts, whatever it is called. A person sees the snapshot ([`view`](mod@view)) and agrees. A
//! [`TrustStore`] stores exactly those bytes under their hash, and they run from there. Any change in the
//! folder changes the hash, and the [`Difference`] is shown.
//!
//! This room prints nothing, asks no person and finds no home folder: a caller names the store's folder and
//! puts the question.

pub mod source;
pub mod snapshot;
pub mod state;
pub mod view;
pub mod declared;
mod diff;
pub mod store;
mod copies;
pub(crate) mod named_files;
pub(crate) mod outside;
pub mod watch;

use std::{error::Error, fmt, io, path::Path};

use cotter::text;

pub use crate::trust::{
    copies::ScratchCopy,
    declared::{Declared, DeclaredCommand, Invocation, Pinning},
    diff::{ChangeKind, DiffLine, Difference, FileChange},
    snapshot::{Hash, MAX_BYTES, MAX_ITEMS, Snapshot, SnapshotItem},
    store::{Grants, TrustRecord, TrustState, TrustStore},
    view::{KnownFile, texts, view},
};

/// An error about a folder that cannot be trusted as it is, or about a store that cannot be used. It names
/// the path.
#[derive(Debug)]
pub struct TrustError {
    message: String,
    hint: Option<String>,
    cause: Option<io::Error>,
}

impl TrustError {
    fn new(path: &Path, what: impl fmt::Display) -> Self {
        TrustError { message: format!("{} {what}", show_path(path)), hint: None, cause: None }
    }

    fn io(what: &str, path: &Path, cause: io::Error) -> Self {
        let message = format!("cannot {what} {}", show_path(path));
        TrustError { message, hint: None, cause: Some(cause) }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        TrustError { hint: Some(hint.into()), ..self }
    }

    /// The hint: what to do about the error, if known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The error on one line, with its hint.
    pub(crate) fn line_with_hint(&self) -> String {
        let hint = self.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.line())
    }

    /// The error on one line, without its hint.
    fn line(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for TrustError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// A path on one line, with every byte visible.
fn show_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    text::show_line(&text::show_bytes(bytes)).into_owned()
}
