//! `cargo xtask oracle`: holds the judge of commands against real bash. An example of `cotter-tools` runs
//! generated commands in a scratch root, as an ordinary user and confined, or refuses to start.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{command, failure::Failure};

/// The extent of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent<'a> {
    /// Two minutes with a fixed seed, and every rule of the judge switched off once.
    Short,
    /// 200,000 executed commands with a new seed.
    Long,
    /// The same with this seed.
    LongFrom(&'a str),
}

/// The seed in CI: a failure there can be repeated.
const CI_SEED: &str = "17";

pub(crate) fn run(extent: Extent<'_>) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    match extent {
        Extent::Short => {
            start("dev", &format!("--rules --seed {CI_SEED} --executed 400 --seconds 60"))?;
            start("dev", &format!("--seed {CI_SEED} --jobs 2 --executed 20000 --seconds 60"))
        }
        Extent::Long => run_long(&now.to_string()),
        Extent::LongFrom(seed) => run_long(seed),
    }
}

fn run_long(seed: &str) -> Result<(), Failure> {
    start("ci", &format!("--seed {seed} --jobs 2 --executed 200000 --seconds 7200 --least 500"))
}

/// Builds the oracle and its stub, then runs it.
fn start(profile: &str, options: &str) -> Result<(), Failure> {
    let build = format!("--profile {profile} -q -p cotter-tools --features faults --locked");
    command::run(&format!("cargo build {build} --example oracle --example oracle_stub"), &[])?;
    command::run(&format!("cargo run {build} --example oracle -- {options}"), &[])
}
