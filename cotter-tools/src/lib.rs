//! Tools of an agent that works on a real machine.

pub mod ask_user;
pub mod delegate;
#[cfg(feature = "memory")]
pub mod memory;
