//! agents

pub mod ask_user;
pub mod delegate;
