//! The tools that need only the workspace.

pub(super) mod list;
pub(super) mod read;
