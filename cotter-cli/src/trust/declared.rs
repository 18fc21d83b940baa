//! The commands of a `.claude` or an `.agents`, shown before the person trusts the folder.

use std::{ffi::OsString, path::Path};

use cotter_files::{
    claude::{
        self, ClaudeEntry,
        plugin::{Plugin, PluginFile},
        project::SETTINGS,
        settings::{check, read_enabled_plugins},
    },
    command_hook::entry::{CommandHook, CommandLine},
    document::Document,
    trust::{
        declared::{DeclaredCommand, Invocation},
        snapshot::Snapshot,
    },
};

use crate::error::CliError;

/// Returns the commands that a `.claude` or an `.agents` declares.
pub(crate) fn declared_commands(snapshot: &Snapshot) -> Result<Vec<DeclaredCommand>, CliError> {
    let mut declared = vec![];
    for name in SETTINGS {
        let Some((_, bytes)) = snapshot.file(Path::new(name)) else { continue };
        let path = match snapshot.source().ends_with(name) {
            true => snapshot.source().to_owned(),
            false => snapshot.source().join(name),
        };
        let document = Document::parse_bytes(&path.display().to_string(), bytes)?;
        check(&document)?;
        let object = document.root().object()?;
        let (hooks, _) = claude::read(&document, &claude::ClaudeFile::new(&path));
        declared.extend(hooks.into_iter().map(|hook| hook_command("", hook)));
        for (name, _) in read_enabled_plugins(&object)?.into_iter().filter(|(_, on)| *on) {
            let what = format!("plugin {name}, switched on");
            let whose = "your home folder, if it is installed: its hooks and servers run";
            declared.push(DeclaredCommand::new(what, Invocation::Remote(whose.into())));
        }
    }
    for name in plugins_in(snapshot) {
        let within = Path::new("plugins").join(&name);
        let read_file = |path: &Path| read(snapshot, &within, path);
        let plugin = Plugin::read(&snapshot.source().join(&within), &read_file);
        let plugin = plugin.map_err(|error| CliError::new(error.to_string()))?;
        if let Some(broken) = plugin.broken.first() {
            return Err(CliError::new(broken.to_string()));
        }
        let (hooks, _) = plugin.command_hooks(|path| claude::ClaudeFile::new(path));
        let of = format!(" of plugin {}", plugin.name);
        declared.extend(hooks.into_iter().map(|hook| hook_command(&of, hook)));
        for file in &plugin.servers {
            declared_servers(&plugin, file, &mut declared)?;
        }
    }
    Ok(declared)
}

/// Reads a file of a plugin from a snapshot. If a file is where a folder is expected, this is an error,
/// because the folder may have declared something.
fn read(snapshot: &Snapshot, within: &Path, path: &Path) -> Option<Result<Vec<u8>, String>> {
    if let Some((_, bytes)) = snapshot.file(&within.join(path)) {
        return Some(Ok(bytes.to_vec()));
    }
    let mut above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    let file = above.find(|above| snapshot.file(&within.join(above)).is_some())?;
    Some(Err(format!("`{}` is not a folder", file.display())))
}

fn declared_servers(
    plugin: &Plugin,
    file: &PluginFile,
    declared: &mut Vec<DeclaredCommand>,
) -> Result<(), CliError> {
    let shown = file.path.display().to_string();
    let document = Document::parse(&shown, &file.text)?;
    let root = document.root().object()?;
    let servers = root.get("mcpServers").unwrap_or_else(|| document.root()).object()?;
    // The placeholders are filled in, as they will be when the servers start.
    let filled = servers.members().map(|(name, node)| (name, plugin.fill_server(node.to_json())));
    let filled = serde_json::Value::from_iter(filled).to_string();
    let document = Document::parse(&shown, &filled)?;
    Ok(crate::trust::declared_servers(document.root(), declared)?)
}

/// Returns the names of the plugins in a folder `.agents`.
fn plugins_in(snapshot: &Snapshot) -> Vec<OsString> {
    if !snapshot.source().ends_with(".agents") {
        return vec![];
    }
    let mut names = snapshot.folders(Path::new("plugins"));
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    names
}

fn hook_command(of: &str, hook: CommandHook) -> DeclaredCommand {
    let entry = ClaudeEntry::of(&hook);
    let event = entry.map_or_else(|| hook.point.name(), |entry| entry.event().name());
    let what = format!("hook {} at {event}{of}", hook.name);
    if let Some((url, named)) = entry.and_then(ClaudeEntry::address) {
        let named = named.join(", ");
        let variables = if named.is_empty() { named } else { format!(", with variables {named}") };
        return DeclaredCommand::new(what + &variables, Invocation::Notified(url.to_owned()));
    }
    let command = match hook.command {
        CommandLine::Words(words) if words.is_empty() => Invocation::Remote("a model".into()),
        CommandLine::Words(words) => Invocation::Words(words),
        CommandLine::Shell(line) => Invocation::Shell(line),
    };
    DeclaredCommand::new(what, command).with_doubt("it runs in place, in the folder of the session")
}
