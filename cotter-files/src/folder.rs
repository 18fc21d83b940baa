//! Extension folders, before their files get a meaning: where files are, how they are found and opened
//! safely, front matter, and diagnostics about files for their authors.

pub mod file_kind;
pub(crate) mod layout;
pub(crate) mod walk;
pub mod links;
pub mod front_matter;
pub mod diagnostic;
