//! folder

pub mod front_matter;
pub(crate) mod layout;
pub(crate) mod walk;
