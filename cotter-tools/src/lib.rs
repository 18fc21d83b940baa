//! Tools of an agent that works on a real machine.

pub mod shell;
#[cfg(unix)]
pub mod process;
#[cfg(unix)]
pub mod confine;
#[cfg(unix)]
pub mod bash;
#[cfg(unix)]
pub mod background;
