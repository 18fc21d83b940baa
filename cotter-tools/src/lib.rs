//! Tools of an agent that works on a real machine.

pub mod ask_user;
pub mod delegate;
