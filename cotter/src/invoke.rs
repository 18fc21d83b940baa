//! invoke

pub(crate) mod named_item;
pub(crate) mod agent_config;
pub(crate) mod callable;
pub(crate) mod command;
pub(crate) mod directive_hook;
pub(crate) mod directives;
pub(crate) mod skill;
pub(crate) mod subagent;
pub(crate) mod trigger;
