//! Holds the judge of commands against real bash: what a script that passes ran, read and wrote must have been
//! predicted.
//!
//! `cargo xtask oracle` runs it. Scripts are generated from a grammar and made of rows of our tables, and run
//! in a scratch root without any right over the machine. `--rules` switches rules of the judge off, one after the
//! other, and fails if that is not noticed.

#![expect(clippy::unwrap_used, reason = "helpers of the tests fail as tests do")]

mod cover;
mod execution;
mod grammar;
mod inside;
#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../tests/it/kit.rs"]
mod kit;
mod outside;
mod project;
mod scratch;
mod shrink;

use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    cotter_tools::process::run_spawner_if_requested();
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["inside", plan, canary, port] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(inside::run(serde_json::from_str(plan)?, canary, port))
        }
        options => outside::run(options),
    }
}
