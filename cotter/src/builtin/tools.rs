//! Tools that need nothing but the workspace.

pub(crate) mod list;
pub(crate) mod read;
