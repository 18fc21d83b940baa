//! Folders and files: the workspace of a run, paths with links resolved, files opened without following
//! links.
//!
//! This room resolves and opens paths. [`permission`](crate::permission) decides if a call may touch them.

pub mod workspace;
pub mod paths;
pub mod open;
pub mod file_views;
pub mod git;
pub mod declared_file;
