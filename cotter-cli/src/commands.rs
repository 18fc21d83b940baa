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
