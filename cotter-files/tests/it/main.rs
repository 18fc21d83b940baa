//! Tests of the files that a host reads, through the public API only.

#![expect(clippy::unwrap_used, reason = "what cannot be had fails the test, also in its helpers")]
#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

mod command_hooks;
mod extension_files;
mod odd_files;
mod state;
mod trust;
mod spaces;
mod examples;
