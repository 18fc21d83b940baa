//! What comes with the library: the kernel's gates, which every agent has and nothing switches off,
//! the first tools, and two extensions a program may take or leave, [`subagents`] and [`commands`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, builtin};
//! use cotter_test::Scripted;
//!
//! let agent = Agent::builder(Scripted::new([]))
//!     .tool(builtin::Read::default())
//!     .extend(builtin::subagents)
//!     .extend(builtin::commands)
//!     .build()?;
//! let told = agent.process_request("/agents").await?.text();
//! assert!(told.starts_with("@general: "), "{told}");
//! # Ok(())
//! # }
//! ```

mod commands;
mod list;
mod project_roots;
mod read;
mod subagents;

pub use self::{commands::commands, list::List, read::Read, subagents::subagents};
use crate::ext::{Origin, Owner, Registry};

/// The owner of the kernel's own registrations.
pub(crate) fn owner() -> Owner {
    Owner::new(Origin::Kernel, "cotter")
}

/// Registers the kernel's gates.
pub(crate) fn register(registry: &mut Registry) {
    project_roots::register(registry);
}
