//! Tests of the core through its public API only.

#![expect(clippy::unwrap_used, reason = "what cannot be had fails the test, also in its helpers")]
#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

mod kit;
mod long_sessions;
mod conformance;
mod directives;
mod directive_hooks;
mod skills;
mod triggers;
mod mentions;
mod compaction;
mod controls;
mod tools_live;
mod unchanged;
mod builtins;
mod points;
mod loops;
mod attempts;
mod thinking;
mod limits;
mod aborts;
mod gates;
mod outside;
mod trial;
mod folding;
mod pipeline;
mod questions;
mod registry;
mod registry_stress;
mod reloaded_index;
mod commands;
mod custom_entries;
mod context;
mod cache_break;
mod unified_context;
mod model_directory;
mod hook_trait;
mod children;
mod ledger;
mod stores;
mod damage;
mod crash;
mod structure;
mod formats;
mod examples;
mod attacks;
mod attacks_models;
mod attacks_surface;
