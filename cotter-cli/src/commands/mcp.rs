//! `cotter mcp`: the stored definitions of MCP servers, and the acceptance of changed ones.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use cotter::text;
use cotter_tools::mcp::{
    definition::Definition,
    pins::{PinnedServer, Pins},
};
use serde_json::json;

use crate::{
    error::CliError,
    paths as home,
    settings::SettingsFiles,
    terminal::{
        screen::say,
        style::{ColorChoice, Style},
    },
};

/// `cotter mcp list`.
pub(crate) fn list(json: bool, when: ColorChoice) -> Result<ExitCode, CliError> {
    let workspace = home::find_workspace(None)?;
    let servers = SettingsFiles::load(None, &workspace, &crate::trust::scan_trust(&workspace))?
        .servers(&[], &workspace)?;
    let (_, pins) = load()?;
    let style = Style::on_stdout(when);
    let mut out = String::new();
    for server in servers.iter() {
        let seen = pins.servers.get(server.name().as_str());
        out += &match json {
            true => json_row(server.name(), seen) + "\n",
            false => text_rows(server.name(), seen, style),
        };
    }
    if out.is_empty() && !json {
        out = "no servers: name some in your settings, under `mcpServers`\n".into();
    }
    Ok(say(&out))
}

fn json_row(name: &str, seen: Option<&PinnedServer>) -> String {
    let names = |list: &BTreeMap<String, Definition>| list.keys().cloned().collect::<Vec<_>>();
    let row = match seen {
        None => json!({"name": name, "seen": false}),
        Some(seen) => json!({
            "name": name,
            "seen": true,
            "accepted": names(&seen.accepted),
            "waiting": names(&seen.waiting),
        }),
    };
    row.to_string()
}

fn text_rows(name: &str, seen: Option<&PinnedServer>, style: Style) -> String {
    let Some(seen) = seen else {
        return format!("{}  {}\n", style.strong(name), style.muted("not started yet"));
    };
    let mut out = format!("{}\n", style.strong(name));
    for (tool, definition) in &seen.accepted {
        let waits = seen.waiting.contains_key(tool);
        let note = if waits { style.warning("  changed, waits") } else { String::new() };
        out += &format!("  {}{note}\n", row(tool, definition));
    }
    for (tool, definition) in
        seen.waiting.iter().filter(|(tool, _)| !seen.accepted.contains_key(*tool))
    {
        out += &format!("  {}{}\n", row(tool, definition), style.warning("  new, waits"));
    }
    if !seen.waiting.is_empty() {
        out += &format!(
            "  {}\n",
            style.muted(&format!("`cotter mcp accept {name}` shows what waits"))
        );
    }
    out
}

fn row(tool: &str, definition: &Definition) -> String {
    let shown = definition.to_json();
    let description = shown["description"].as_str().unwrap_or_default();
    let description = text::show_line(description.lines().next().unwrap_or_default()).into_owned();
    format!("{}  {}", text::show_line(tool), text::clip(&description, 80))
}

/// `cotter mcp accept SERVER [DIGEST]`: shows the changes that wait. With their digest, accepts them.
pub(crate) fn accept(server: &str, digest: Option<&str>) -> Result<ExitCode, CliError> {
    let (path, pins) = load()?;
    let shown = text::show_line(server).into_owned();
    let seen = pins.servers.get(server).ok_or_else(|| {
        CliError::new(format!("no server `{shown}` was seen"))
            .with_hint("`cotter mcp list` shows those there are")
    })?;
    if seen.waiting.is_empty() {
        return Ok(say(&format!("nothing of `{shown}` waits\n")));
    }
    if let Some(digest) = digest {
        let accepted = Pins::accept(&path, server, digest);
        accepted.map_err(|cause| CliError::new("it was not accepted").with_cause(cause))?;
        return Ok(say(&format!("accepted: {}\n", names(seen))));
    }
    let mut out = String::new();
    for (tool, definition) in &seen.waiting {
        if let Some(before) = seen.accepted.get(tool) {
            out += &format!("before: {}\n", text::show_line(&before.to_json().to_string()));
        }
        out += &format!("now:    {}\n", text::show_line(&definition.to_json().to_string()));
    }
    out += &format!("\ncotter mcp accept {shown} {}  accepts this\n", seen.waiting_digest());
    Ok(say(&out))
}

fn names(seen: &PinnedServer) -> String {
    let names = seen.waiting.keys().map(|name| text::show_line(name).into_owned());
    names.collect::<Vec<_>>().join(", ")
}

fn load() -> Result<(PathBuf, Pins), CliError> {
    let path = home::mcp_definitions().ok_or_else(home::no_config)?;
    let pins = Pins::load(&path);
    let pins =
        pins.map_err(|cause| CliError::new("MCP servers cannot be shown").with_cause(cause))?;
    Ok((path, pins))
}
