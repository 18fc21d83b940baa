//! `cargo xtask corpora DIR`: holds the floor against the command lines of other guards. An example of
//! `cotter-tools` judges them; nothing of them is run.

use std::fs;

use crate::{command, failure::Failure};

/// What is printed about rows whose verdict differs from the wanted one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows {
    Counted,
    Shown,
}

pub(crate) fn run(folder: &str, rows: Rows) -> Result<(), Failure> {
    // The example runs in the root of the workspace.
    let folder = fs::canonicalize(folder)
        .map_err(|error| Failure::new(format!("{folder} was not read")).with_cause(error))?;
    let folder = folder.to_str().ok_or_else(|| Failure::new("the folder's name is not text"))?;
    let rows = match rows {
        Rows::Counted => "",
        Rows::Shown => " -- --rows",
    };
    let line = format!("cargo run -q -p cotter-tools --example corpora --locked{rows}");
    command::run(&line, &[("COTTER_CORPORA", folder)])
}
