//! What a `.claude` or an `.agents` would run, as it is shown before somebody trusts it.

use std::{ffi::OsString, path::Path};

use cotter::{
    command_hook::{CommandHook, CommandLine, Dialect, claude},
    files::plugin::Plugin,
    settings::Document,
    trust::{Declared, Invocation, Snapshot},
};

use super::{SETTINGS, settings::enabled};
use crate::failure::Failure;

/// The commands that a `.claude` or an `.agents` declares.
pub(crate) fn declared(snapshot: &Snapshot) -> Result<Vec<Declared>, Failure> {
    let mut declared = vec![];
    for name in SETTINGS {
        let Some((_, bytes)) = snapshot.file(Path::new(name)) else { continue };
        let path = snapshot.source().join(name);
        let document = Document::parse_bytes(&path.display().to_string(), bytes)?;
        let object = document.root().object()?;
        object.get("hooks").map(|hooks| hooks.object()).transpose()?;
        let (hooks, _) = claude::read(&document, &claude::Source::new(&path));
        declared.extend(hooks.into_iter().map(|hook| of_hook("", hook)));
        for (name, _) in enabled(&object)?.into_iter().filter(|(_, on)| *on) {
            let what = format!("plugin {name}, switched on");
            let whose = "your home folder, if it is installed: its hooks and servers run";
            declared.push(Declared::new(what, Invocation::Elsewhere(whose.into())));
        }
    }
    for name in plugins_in(snapshot) {
        let within = Path::new("plugins").join(&name);
        let reads =
            |path: &Path| snapshot.file(&within.join(path)).map(|(_, bytes)| Ok(bytes.to_vec()));
        let plugin = Plugin::read(&snapshot.source().join(&within), &reads);
        let plugin = plugin.map_err(|told| Failure::new(told.to_string()))?;
        if let Some(broken) = plugin.broken.first() {
            return Err(Failure::new(broken.to_string()));
        }
        let (hooks, _) = plugin.command_hooks(|path| claude::Source::new(path));
        let of = format!(" of plugin {}", plugin.name);
        declared.extend(hooks.into_iter().map(|hook| of_hook(&of, hook)));
        for file in plugin.server_files() {
            let document = Document::parse(&file.path.display().to_string(), &file.text)?;
            let root = document.root().object()?;
            let servers = root.get("mcpServers").unwrap_or_else(|| document.root());
            crate::trust::declared_servers(servers, &mut declared)?;
        }
    }
    Ok(declared)
}

/// The plugins in a folder `.agents`.
fn plugins_in(snapshot: &Snapshot) -> Vec<OsString> {
    if !snapshot.source().ends_with(".agents") {
        return vec![];
    }
    let mut names = snapshot.folders(Path::new("plugins"));
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    names
}

fn of_hook(of: &str, hook: CommandHook) -> Declared {
    let event = match &hook.dialect {
        Dialect::Claude(entry) => entry.event().name(),
        _ => hook.point.name(),
    };
    let what = format!("hook {} at {event}{of}", hook.name);
    let asked = match &hook.dialect {
        Dialect::Claude(entry) => {
            entry.address().map(|(url, named)| (url.to_owned(), named.join(", ")))
        }
        _ => None,
    };
    if let Some((url, named)) = asked {
        let given = if named.is_empty() { named } else { format!(", given {named}") };
        return Declared::new(what + &given, Invocation::Told(url));
    }
    let command = match hook.command {
        CommandLine::Words(words) if words.is_empty() => Invocation::Elsewhere("a model".into()),
        CommandLine::Words(words) => Invocation::Words(words),
        CommandLine::Shell(line) => Invocation::Shell(line),
    };
    Declared::new(what, command).with_doubt("it runs in place, in the folder of the session")
}
