//! `cotter schema`: the JSON Schemas of files and hooks in this version.

use std::process::ExitCode;

use cotter::text;

use crate::{error::CliError, terminal::screen::print_stdout, trust};

/// Every schema: its name, its subject and its text. `cargo xtask docs` writes them.
const SCHEMAS: &[(&str, &str, &str)] = &[
    ("settings", "your own settings.json", include_str!("../../../schemas/settings.schema.json")),
    ("project-settings", ".cotter/settings.json of a project", trust::SETTINGS_SCHEMA),
    ("mcp", "a file of MCP servers, for --mcp", include_str!("../../../schemas/mcp.schema.json")),
    (
        "hook-input",
        "the input of a command hook, by point",
        include_str!("../../../schemas/hook-input.schema.json"),
    ),
    (
        "hook-output",
        "the output of a command hook, by point",
        include_str!("../../../schemas/hook-output.schema.json"),
    ),
    ("hook-file", "hooks/*.yaml", include_str!("../../../schemas/hook-file.schema.json")),
    ("space", "manifest.json of a space", include_str!("../../../schemas/space.schema.json")),
    ("skill", "front matter of a skill", include_str!("../../../schemas/skill.schema.json")),
    ("command", "front matter of a command", include_str!("../../../schemas/command.schema.json")),
    ("agent", "front matter of an agent", include_str!("../../../schemas/agent.schema.json")),
    ("profile", "agent.json of a profile", include_str!("../../../schemas/profile.schema.json")),
];

/// Prints one schema, or the names of all.
pub(crate) fn schema(name: Option<&str>) -> Result<ExitCode, CliError> {
    let Some(name) = name else {
        let line = |(name, of, _): &(&str, &str, &str)| format!("{name:<16}  {of}\n");
        return Ok(print_stdout(&SCHEMAS.iter().map(line).collect::<String>()));
    };
    match SCHEMAS.iter().find(|(known, ..)| *known == name) {
        Some((.., schema)) => Ok(print_stdout(schema)),
        None => {
            let failure =
                CliError::usage(format!("there is no schema `{}`", text::show_line(name)));
            let names = SCHEMAS.iter().map(|(known, ..)| *known);
            Err(failure.suggest(name, names, "`cotter schema` lists the schemas"))
        }
    }
}
