//! fs

pub(crate) mod file_views;
pub(crate) mod git;
pub(crate) mod open;
pub(crate) mod paths;
pub(crate) mod workspace;
