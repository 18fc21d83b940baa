//! Tools of an agent that works on a real machine.

#[cfg(feature = "mcp")]
pub mod mcp;
