//! Prints the JSON Schemas of files and hooks, each below a line with its name, for `cargo xtask docs`.
//!
//! The schemas of the payloads of hooks come from their types in `cotter`. The types here exist only for their
//! schemas: the readers of files parse by hand, so that an error can name its location. Points and words come
//! from the tables of the readers. `tests/it/schema.rs` checks that the keys are those of the readers too.

#![expect(dead_code, reason = "these types exist only for their schemas")]

mod files;
mod hooks;
mod mcp;
mod profile;
mod settings;
mod shape;

use schemars::Schema;

type Make = fn() -> Schema;

/// Every schema: its name, and the function that makes it.
const SCHEMAS: &[(&str, Make)] = &[
    ("settings", settings::settings),
    ("project-settings", settings::project_settings),
    ("mcp", mcp::file),
    ("hook-input", hooks::input),
    ("hook-output", hooks::output),
    ("hook-file", files::hook),
    ("space", files::manifest),
    ("skill", files::skill),
    ("command", files::command),
    ("agent", files::agent),
    ("profile", profile::profile),
];

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), serde_json::Error> {
    for (name, schema) in SCHEMAS {
        println!("=== {name}.schema.json\n{}", serde_json::to_string_pretty(&schema())?);
    }
    Ok(())
}
