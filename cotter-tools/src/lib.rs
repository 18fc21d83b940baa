//! Tools of an agent that works on a real machine: its shell, its files, the network, a memory, other
//! agents, the person, and servers of the Model Context Protocol.
//!
//! Each module is an extension or a [`cotter::Hook`]; a program takes those it wants. What a call touches
//! is said before it runs, so that the permission floor can decide: for commands that is [`shell`], which
//! reads them as bash would.

pub mod shell;
mod environment;
#[cfg(unix)]
pub mod process;
#[cfg(unix)]
pub mod confine;
#[cfg(unix)]
pub mod bash;
#[cfg(unix)]
pub mod background;
#[cfg(unix)]
pub mod hooks;
#[cfg(unix)]
pub mod files;
pub mod fetch;
pub mod webhook;
mod picture;
pub mod ask_user;
pub mod delegate;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mcp")]
pub mod mcp;
