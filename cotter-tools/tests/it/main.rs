//! The tools from outside, through their public API only, by topic.

#![expect(clippy::unwrap_used, reason = "what cannot be had fails the test, also in its helpers")]
#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

mod kit;
mod machine;
mod scratch;

mod verdicts;
mod everyday;
mod corpus;
mod conformance;
mod decision;
mod scripts;
mod properties;
mod oracle;
mod processes;
mod bash;
mod confine;
mod attacks;
mod background;
mod hooks;
mod hook_files;
mod prefixes;
mod claude_handlers;
mod claude_hooks;
mod files;
mod races;
mod fetch;
mod ask_user;
mod delegate;
mod memory;
#[cfg(feature = "mcp")]
mod mcp;
mod examples;
