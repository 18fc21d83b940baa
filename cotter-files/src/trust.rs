//! Trust in what a repository or a download brings: nothing of it runs before a person said so.
//!
//! Trust is given to contents, not to names. A [`Snapshot`] is everything in a folder that declares
//! hooks, servers or scripts, whatever it is called; a person sees it ([`view`](mod@view)) and says yes; the very
//! bytes that were seen are kept by a [`TrustStore`], under their hash, and run from there. Whatever
//! changes in the folder makes it another one, and the [`Difference`] is shown.
//!
//! This prints nothing, asks nobody and finds no home folder: a caller names the store's folder and puts
//! the question.

pub mod source;
pub mod snapshot;
pub mod view;
pub mod declared;
mod diff;
pub mod store;
mod copies;
pub mod watch;

use std::{error::Error, fmt, io, path::Path};

use cotter::text;

pub use crate::trust::{
    declared::{DeclaredCommand, Invocation, Pinning},
    diff::{ChangeKind, DiffLine, Difference, FileChange},
    snapshot::{Hash, MOST_BYTES, MOST_ITEMS, Snapshot, SnapshotItem},
    store::{Grants, TrustRecord, TrustState, TrustStore},
    view::{texts, view},
};

/// A folder that cannot be trusted as it is, or a store that cannot be used. It names the place.
#[derive(Debug)]
pub struct TrustError {
    message: String,
    hint: Option<String>,
    cause: Option<io::Error>,
}

impl TrustError {
    fn new(path: &Path, what: impl fmt::Display) -> Self {
        TrustError { message: format!("{} {what}", shown(path)), hint: None, cause: None }
    }

    fn io(what: &str, path: &Path, cause: io::Error) -> Self {
        let message = format!("cannot {what} {}", shown(path));
        TrustError { message, hint: None, cause: Some(cause) }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        TrustError { hint: Some(hint.into()), ..self }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// All of it on one line, with what to do about it.
    pub(crate) fn told(&self) -> String {
        let hint = self.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.in_short())
    }

    /// All of it on one line.
    fn in_short(&self) -> String {
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

/// A path on one line, every byte of it visible.
fn shown(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    text::show_line(&text::show_bytes(bytes)).into_owned()
}
