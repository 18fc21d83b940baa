//! What a host of Cotter reads from folders: settings, command hooks and their dialects, skills,
//! commands, agents, spaces, profiles, and the trust in all of them.
//!
//! The crate reads and watches files and registers what they declare. It starts no process and asks no
//! person: a host passes in a [`HookHost`](command_hook::HookHost) for the one and calls
//! [`TrustStore`](trust::TrustStore) after the other.

pub mod claude;
pub mod command_hook;
pub mod document;
pub mod extensions;
pub mod folder;
pub mod profile;
pub mod settings;
pub mod space;
pub mod trust;
