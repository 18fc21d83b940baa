//! `cargo xtask bench`: runs the benches of the core, of models and of the command line. They print their own
//! tables.
//!
//! They are built like a release (profile `dist`), or faster in CI (profile `ci`), where they only have to
//! run.

use std::env;

use crate::{command, failure::Failure};

const BENCHES: [&str; 3] =
    ["-p cotter --bench spine", "-p cotter-models --bench bodies", "-p cotter-cli --bench start"];

pub(crate) fn run() -> Result<(), Failure> {
    run_all("")
}

pub(crate) fn run_matching(filter: &str) -> Result<(), Failure> {
    run_all(&format!(" -- {filter}"))
}

fn run_all(filter: &str) -> Result<(), Failure> {
    let profile = if env::var_os("CI").is_some() { "ci" } else { "dist" };
    BENCHES.iter().try_for_each(|bench| {
        command::run(&format!("cargo bench --profile {profile} {bench} --locked{filter}"), &[])
    })
}
