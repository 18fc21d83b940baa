//! `cargo xtask bench`: the benches of the core. They print their own table.

use crate::{command, failure::Failure};

const BENCH: &str = "cargo bench -p cotter --bench spine --locked";

pub(crate) fn run() -> Result<(), Failure> {
    command::run(BENCH, &[])
}

pub(crate) fn run_matching(filter: &str) -> Result<(), Failure> {
    command::run(&format!("{BENCH} -- {filter}"), &[])
}
