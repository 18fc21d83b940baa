//! Tests of the `cotter` binary from outside: whole outputs, exit codes, files.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(clippy::too_many_lines, reason = "whole outputs are long")]

mod support;

mod help;
mod hooks;
mod hook_files;
mod hook_limits;
mod hook_shortage;
mod hooks_try;
mod author;
mod new_user;
mod profiles;
mod checks;
mod claude_files;
mod claude_hooks;
mod commands;
mod run;
mod schema;
mod stream;
mod settings;
mod models;
mod providers;
mod keys;
mod sessions;
mod skills;
mod ledger;
mod looks;
mod terminal;
mod signals;
mod explain;
mod ordinary_hooks;
mod permissions;
mod no_view;
mod trust;
mod trust_view;
mod trusted_state;
mod trusted_text;
mod named_files;
mod hook_roots;
mod reload;
mod spaces;
mod spaces_git;
mod free;
