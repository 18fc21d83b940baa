//! Tools of an agent that works on a real machine.

#[cfg(unix)]
pub mod process;
#[cfg(unix)]
pub mod confine;
#[cfg(unix)]
pub mod bash;
#[cfg(unix)]
pub mod files;
pub mod fetch;
pub mod ask_user;
pub mod delegate;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mcp")]
pub mod mcp;
