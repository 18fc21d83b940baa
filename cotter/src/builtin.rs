//! The extensions of the library: the kernel gates, which every agent has and nothing disables, the tools
//! [`Read`] and [`List`], and the optional [`commands`], [`skills`] and [`subagents`]. They use only the API
//! that any extension may use.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, builtin};
//! use cotter_test::ScriptedModel;
//!
//! let agent = Agent::builder(ScriptedModel::new([]))
//!     .tool(builtin::Read::default())
//!     .extend(builtin::subagents)
//!     .extend(builtin::commands)
//!     .build()?;
//! let list = agent.process_request("/agents").await?.text();
//! assert!(list.starts_with("@general: "), "{list}");
//! # Ok(())
//! # }
//! ```

mod gates;
mod tools;
mod commands;
mod skills;
mod subagents;

pub use crate::builtin::{
    commands::commands,
    gates::protected_paths::{PROTECTED, is_protected},
    skills::skills,
    subagents::subagents,
    tools::{list::List, read::Read},
};
use crate::registry::Registry;

/// Registers the kernel gates. Each is asked about every call, and nothing disables them.
pub(crate) fn register(registry: &mut Registry) {
    gates::project_roots::register(registry);
    gates::system_directories::register(registry);
    gates::own_files::register(registry);
    gates::protected_paths::register(registry);
    gates::doubts::register(registry);
    gates::secret_then_network::register(registry);
}
