//! invoke

pub mod named_item;
pub(crate) mod agent_config;
pub mod callable;
pub mod command;
pub mod directive_hook;
pub mod directives;
pub mod skill;
pub mod subagent;
pub mod trigger;
