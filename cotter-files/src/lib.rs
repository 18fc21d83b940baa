//! What a host of Cotter reads from folders: settings, command hooks and their dialects, skills,
//! commands, agents, spaces, profiles, and the trust in all of them.
//!
//! The crate reads and watches files and registers what they declare. It starts no process and asks no
//! person: a host passes in a [`HookHost`](command_hook::HookHost) for the one and calls
//! [`TrustStore`](trust::TrustStore) after the other.

// The rooms, from the top to the bottom: each uses only those that stand under it.

// Checks of files before they are used.
pub mod check;
// Spaces: a folder that is an extension, loaded whole and unloaded whole.
pub mod space;
// Files that were written for Claude Code: settings, hooks, plugins.
pub mod claude;
// Profiles: an agent and its actions, in `agent.json`.
pub mod profile;
// Skills, commands, agents and memory in files.
pub mod extensions;
// The meaning of a settings file's keys.
pub mod settings;
// Hooks that are programs, and their dialects.
pub mod command_hook;
// Snapshots, and whether somebody trusts them.
pub mod trust;
// Files of a folder: found, opened, remarked on.
pub mod folder;
// JSON with comments, in which every value knows its place.
pub mod document;
