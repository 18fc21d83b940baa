//! Everything that a host of Cotter reads from folders: settings, command hooks and their dialects, skills,
//! commands, agents, spaces, profiles, and the trust in all of them.
//!
//! The crate reads and watches files and registers what they declare. It starts no process and asks no
//! person. To start processes, a host passes in a [`HookHost`](command_hook::HookHost). To ask a person, a
//! host puts the question itself and calls [`TrustStore`](trust::TrustStore) with the answer.

// The rooms, from top to bottom: a room uses only the rooms below it.

// Checks of files before they are used.
pub mod check;
// Spaces: folders that are extensions, each loaded and unloaded as one owner.
pub mod space;
// Files that were written for Claude Code: settings, hooks, plugins.
pub mod claude;
// Profiles: an agent and its actions, in `agent.json`.
pub mod profile;
// Skills, commands, agents and memory in files.
pub mod extensions;
// The meaning of the keys in a settings file.
pub mod settings;
// Hooks that are programs, and their dialects.
pub mod command_hook;
// Snapshots of folders, and the trust in them.
pub mod trust;
// Extension folders: finding and opening files, diagnostics.
pub mod folder;
// JSON with comments, in which every value knows its location.
pub mod document;
