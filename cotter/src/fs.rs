//! Folders and files: the workspace of a run, paths with links resolved, files opened without following one.
//!
//! It says what lies where. Whether a call may touch it is decided in [`permission`](crate::permission).

pub mod workspace;
pub mod paths;
pub mod open;
pub mod file_views;
pub mod git;
