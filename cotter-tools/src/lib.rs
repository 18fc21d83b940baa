//! Tools for an agent on a real machine: shell, files, network, memory, other agents, questions to
//! the person, and servers of the Model Context Protocol.
//!
//! Each module is an extension or a [`cotter::Hook`]; a program takes those it wants. Each tool
//! states what a call touches before it runs, so that the permission floor can decide. For commands
//! this is [`shell`], which parses them as bash does.

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
