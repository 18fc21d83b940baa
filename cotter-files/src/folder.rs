//! Folders of extensions before anybody knows what their files mean: where files are, how they are found and
//! opened safely, front matter, and remarks about files for their authors.

pub mod file_kind;
pub(crate) mod layout;
pub(crate) mod walk;
pub mod links;
pub mod front_matter;
pub mod diagnostic;
