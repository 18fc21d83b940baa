//! Tools that need nothing but the workspace.

pub(super) mod list;
pub(super) mod read;
