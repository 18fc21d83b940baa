//! What comes with the library: the kernel's gates, which every agent has and nothing switches off,
//! the first tools, and three extensions a program may take or leave, [`subagents`], [`commands`] and
//! [`skills`].
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
mod doubts;
mod list;
mod own_files;
mod project_roots;
mod protected_paths;
mod read;
mod secrets;
mod skills;
mod subagents;
mod system_directories;

pub use self::{
    commands::commands,
    list::List,
    protected_paths::{PROTECTED, is_protected},
    read::Read,
    secrets::is_secret,
    skills::skills,
    subagents::subagents,
};
use crate::ext::{Origin, Owner, Registry};

/// The owner of the kernel's own registrations.
pub(crate) fn owner() -> Owner {
    Owner::new(Origin::Kernel, "cotter")
}

/// Registers the kernel's gates. Each is asked about every call, and nothing switches one off.
pub(crate) fn register(registry: &mut Registry) {
    project_roots::register(registry);
    system_directories::register(registry);
    own_files::register(registry);
    protected_paths::register(registry);
    doubts::register(registry);
    secrets::register(registry);
}
