//! The commands, one file each.

pub(crate) mod run;
pub(crate) mod explain;
pub(crate) mod hooks;
pub(crate) mod skills;
pub(crate) mod names;
pub(crate) mod check;
pub(crate) mod models;
pub(crate) mod mcp;
pub(crate) mod spaces;
pub(crate) mod permissions;
pub(crate) mod trust;
pub(crate) mod sessions;
pub(crate) mod ledger;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod schema;
