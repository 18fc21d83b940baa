//! What every agent has: the kernel's gates, which nothing switches off, and the first tools.

mod list;
mod paths;
mod project_roots;
mod read;

pub use self::{list::List, read::Read};
use crate::ext::{Origin, Owner, Registry};

/// The owner of the kernel's own registrations.
pub(crate) fn owner() -> Owner {
    Owner::new(Origin::Kernel, "cotter")
}

/// Registers the kernel's gates.
pub(crate) fn register(registry: &mut Registry) {
    project_roots::register(registry);
}
