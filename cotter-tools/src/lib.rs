//! Tools of an agent that works on a real machine.

pub mod shell;
