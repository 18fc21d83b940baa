//! Tools that reach other agents or the person.

pub mod ask_user;
pub mod delegate;
