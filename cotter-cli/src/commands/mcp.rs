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
    paths,
    settings::SettingsFiles,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
    },
};

/// `cotter mcp list`.
pub(crate) fn list(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let servers = SettingsFiles::load(None, &workspace, &crate::trust::scan_trust(&workspace))?
        .servers(&[], &workspace)?;
    let (_, pins) = load()?;
    let style = Style::on_stdout(color);
    let mut out = String::new();
    for server in servers.iter() {
        let pinned = pins.servers.get(server.name().as_str());
        out += &match json {
            true => json_row(server.name(), pinned) + "\n",
            false => text_rows(server.name(), pinned, style),
        };
    }
    if out.is_empty() && !json {
        out = "no servers: add them to your settings, under `mcpServers`\n".into();
    }
    Ok(print_stdout(&out))
}

fn json_row(name: &str, pinned: Option<&PinnedServer>) -> String {
    let names = |list: &BTreeMap<String, Definition>| list.keys().cloned().collect::<Vec<_>>();
    let row = match pinned {
        None => json!({"name": name, "seen": false}),
        Some(pinned) => json!({
            "name": name,
            "seen": true,
            "accepted": names(&pinned.accepted),
            "waiting": names(&pinned.waiting),
        }),
    };
    row.to_string()
}

fn text_rows(name: &str, pinned: Option<&PinnedServer>, style: Style) -> String {
    let Some(pinned) = pinned else {
        return format!("{}  {}\n", style.strong(name), style.muted("not started yet"));
    };
    let mut out = format!("{}\n", style.strong(name));
    for (tool, definition) in &pinned.accepted {
        let waits = pinned.waiting.contains_key(tool);
        let note = if waits { style.warning("  changed, waits") } else { String::new() };
        out += &format!("  {}{note}\n", row(tool, definition));
    }
    for (tool, definition) in
        pinned.waiting.iter().filter(|(tool, _)| !pinned.accepted.contains_key(*tool))
    {
        out += &format!("  {}{}\n", row(tool, definition), style.warning("  new, waits"));
    }
    if !pinned.waiting.is_empty() {
        out += &format!(
            "  {}\n",
            style.muted(&format!("`cotter mcp accept {name}` shows the changes"))
        );
    }
    out
}

fn row(tool: &str, definition: &Definition) -> String {
    let shown = definition.to_json();
    let description = shown["description"].as_str().unwrap_or_default();
    let description = text::show_line(description.lines().next().unwrap_or_default()).into_owned();
    format!("{}  {}", text::show_line(tool), text::cut_chars(&description, 80))
}

/// `cotter mcp accept SERVER [DIGEST]`: shows the changes that wait. With their digest, accepts them.
pub(crate) fn accept(server: &str, digest: Option<&str>) -> Result<ExitCode, CliError> {
    let (path, pins) = load()?;
    let shown = text::show_line(server).into_owned();
    let pinned = pins.servers.get(server).ok_or_else(|| {
        CliError::new(format!("no tools of a server `{shown}` are stored"))
            .with_hint("`cotter mcp list` shows the servers")
    })?;
    if pinned.waiting.is_empty() {
        return Ok(print_stdout(&format!("no changes of `{shown}` wait\n")));
    }
    if let Some(digest) = digest {
        let accepted = Pins::accept(&path, server, digest);
        accepted.map_err(|cause| CliError::new("cannot accept the changes").with_cause(cause))?;
        return Ok(print_stdout(&format!("accepted: {}\n", names(pinned))));
    }
    let mut out = String::new();
    for (tool, definition) in &pinned.waiting {
        if let Some(before) = pinned.accepted.get(tool) {
            out += &format!("before: {}\n", text::show_line(&before.to_json().to_string()));
        }
        out += &format!("now:    {}\n", text::show_line(&definition.to_json().to_string()));
    }
    out += &format!("\ncotter mcp accept {shown} {}  accepts this\n", pinned.waiting_digest());
    Ok(print_stdout(&out))
}

fn names(pinned: &PinnedServer) -> String {
    let names = pinned.waiting.keys().map(|name| text::show_line(name).into_owned());
    names.collect::<Vec<_>>().join(", ")
}

fn load() -> Result<(PathBuf, Pins), CliError> {
    let path = paths::mcp_definitions().ok_or_else(paths::no_config)?;
    let pins = Pins::load(&path);
    let pins = pins.map_err(|cause| {
        CliError::new("cannot read the stored tools of MCP servers").with_cause(cause)
    })?;
    Ok((path, pins))
}
