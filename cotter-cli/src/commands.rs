//! The commands, a file each.

pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod hooks;
pub(crate) mod init;
pub(crate) mod ledger;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod names;
pub(crate) mod permissions;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod spaces;
pub(crate) mod trust;

use std::env;

use cotter::text::redact::{Redactor, is_secret_name};

/// Takes secrets out of what leaves the data home: known shapes, and the values of variables whose
/// names say that they are secret.
pub(crate) fn redactor() -> Redactor {
    let secrets = env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        is_secret_name(&name).then_some((name, value))
    });
    secrets.fold(Redactor::new(), |redactor, (name, value)| redactor.with_secret(&name, &value))
}
