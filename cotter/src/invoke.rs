//! Items that are called by name: directives, commands, skills and subagents, and the config of an agent.
//! This room defines them and parses their names; the room `run` calls them.

pub mod named_item;
pub mod callable;
pub mod directives;
pub mod directive_hook;
pub mod command;
pub mod skill;
pub mod trigger;
pub mod subagent;
pub(crate) mod agent_config;
