//! Tools of an agent that works on a real machine: its shell, its files, the network, a memory, other
//! agents, the person, and servers of the Model Context Protocol.
//!
//! Each module is an extension or a [`cotter::Hook`]; a program takes those it wants. What a call touches
//! is said before it runs, so that the permission floor can decide: for commands that is [`shell`], which
//! reads them as bash would.

pub mod agents;
pub mod bash;
pub mod confine;
pub mod fetch;
pub mod files;
pub mod hooks;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "memory")]
pub mod memory;
pub mod process;
pub mod shell;
