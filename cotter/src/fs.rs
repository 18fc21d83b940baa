//! fs

pub mod file_views;
pub mod git;
pub mod open;
pub mod paths;
pub mod workspace;
