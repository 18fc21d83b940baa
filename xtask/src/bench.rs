//! `cargo xtask bench`: the benches of the core, of models and of the command line. They print their own tables.

use crate::{command, failure::Failure};

const BENCHES: [&str; 3] = [
    "cargo bench -p cotter --bench spine --locked",
    "cargo bench -p cotter-models --bench bodies --locked",
    "cargo bench -p cotter-cli --bench start --locked",
];

pub(crate) fn run() -> Result<(), Failure> {
    BENCHES.iter().try_for_each(|bench| command::run(bench, &[]))
}

pub(crate) fn run_matching(filter: &str) -> Result<(), Failure> {
    BENCHES.iter().try_for_each(|bench| command::run(&format!("{bench} -- {filter}"), &[]))
}
