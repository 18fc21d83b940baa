//! What a source would run, shown before the person trusts it. The readers of a run read it, from a copy.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
};

use cotter::{Origin, Workspace};
use cotter_files::{
    claude::{
        self, ClaudeEntry,
        project::{self, ClaudeUnit, HomeFolder, SETTINGS},
    },
    command_hook::{
        entry::{CommandHook, CommandLine},
        hook_files::{HookFiles, load_hooks},
    },
    document::{Document, location::SettingsError},
    extensions::{self, LoadContext, LoadedFolder, Severity},
    profile::{ActionKind, Profile, ProfileGrants},
    settings::{
        Settings, SettingsOwner,
        mcp_servers::{McpServer, Servers, Transport},
    },
    space::{self, Space},
    trust::{
        Declared, ScratchCopy,
        declared::{DeclaredCommand, Invocation},
        snapshot::{Snapshot, SnapshotItem},
        store::{Grants, TrustState},
    },
};

use crate::{
    error::CliError,
    paths,
    trust::{SourceKind, TrustSource, replace_copy_paths, show_path},
};

/// Returns everything that a source declares. Fails if a run would fail, or if a person could not be shown
/// what it would run.
pub(crate) fn declared(snapshot: &Snapshot) -> Result<Declared, CliError> {
    check_links(snapshot)?;
    if is_own_space(snapshot) {
        return declared_of_space(snapshot);
    }
    let reader = DeclarationReader::new(snapshot)?;
    let reader = match reader.found.kind() {
        SourceKind::Cotter => reader.read_cotter()?,
        SourceKind::Servers => reader.read_settings_file()?,
        SourceKind::Claude | SourceKind::LocalSettings | SourceKind::Agents => {
            reader.read_claude()?
        }
    };
    Ok(reader.finish())
}

/// Returns everything that a space declares.
pub(crate) fn declared_of_space(snapshot: &Snapshot) -> Result<Declared, CliError> {
    // The errors are those of the space itself, under the paths that its author knows.
    let (manifest, _) = Space::read_strict_parts(snapshot)?;
    let mut reader = DeclarationReader::new(snapshot)?;
    reader.add_space(&manifest.id, Path::new(""), "")?;
    Ok(reader.finish())
}

/// The settings and servers of a trusted source with Cotter's own format, read from its copy.
pub(crate) struct SourceSettings {
    /// The file, as its author knows it.
    pub(crate) path: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) servers: Servers,
}

impl SourceSettings {
    /// Reads the file. `None` if there is none.
    pub(crate) fn read(found: &TrustSource, copy: &Path) -> Result<Option<Self>, CliError> {
        let name = if found.is_folder() { "settings.json" } else { ".mcp.json" };
        let path = if found.is_folder() { found.source.join(name) } else { found.source.clone() };
        let bytes = match std::fs::read(copy.join(name)) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => {
                let failure = CliError::new(format!("cannot read {}", path.display()));
                return Err(failure.with_cause(cause));
            }
        };
        let document = Document::parse_bytes(&path.display().to_string(), &bytes)?;
        let (settings, servers) = match found.is_folder() {
            true => read_own_format(&document, SettingsOwner::Project)?,
            false => (Settings::default(), Servers::from_document(&document)?),
        };
        Ok(Some(SourceSettings { path, settings, servers }))
    }
}

/// Reads the settings and servers of a settings file.
pub(crate) fn read_own_format(
    document: &Document,
    owner: SettingsOwner,
) -> Result<(Settings, Servers), SettingsError> {
    let settings = Settings::from_document(document, owner)?;
    let servers = document.root().object()?.get("mcpServers").map(Servers::read);
    Ok((settings, servers.transpose()?.unwrap_or_default()))
}

/// Reads a source as a run would if it were trusted.
struct DeclarationReader<'a> {
    snapshot: &'a Snapshot,
    copy: ScratchCopy,
    /// The source as if it were trusted, with this copy.
    found: TrustSource,
    declared: Declared,
}

impl<'a> DeclarationReader<'a> {
    fn new(snapshot: &'a Snapshot) -> Result<Self, CliError> {
        let in_temp = ScratchCopy::new(snapshot, &env::temp_dir());
        let copy = in_temp.or_else(|failure| match paths::trust() {
            Some(folder) => ScratchCopy::new(snapshot, &folder).map_err(|_| failure),
            None => Err(failure),
        })?;
        let state = TrustState::Trusted {
            hash: snapshot.hash(),
            copy: copy.folder().to_owned(),
            grants: Grants::default(),
        };
        let found = TrustSource { source: snapshot.source().to_owned(), state };
        Ok(DeclarationReader { snapshot, copy, found, declared: Declared::default() })
    }

    fn finish(mut self) -> Declared {
        self.declared.refused.retain(|found| found.severity == Severity::Rejected);
        replace_copy_paths(&mut self.declared.refused, self.copy.folder(), &self.found.source);
        self.declared
    }

    fn read_cotter(mut self) -> Result<Self, CliError> {
        self = self.read_settings_file()?;
        let hooks = load_hooks(self.copy.folder()).map_err(|mut broken| {
            replace_copy_paths(&mut broken.diagnostics, self.copy.folder(), &self.found.source);
            broken
        })?;
        self.add_hook_files(&hooks, "", Path::new(""));
        self.add_texts(&load_extensions(self.copy.folder(), Origin::Project), "");
        for (path, _) in self.snapshot.items() {
            if let ["agents", name, "agent.json"] =
                path.iter().filter_map(|part| part.to_str()).collect::<Vec<_>>()[..]
            {
                self.add_profile(name, path)?;
            }
        }
        for name in self.snapshot.folders(Path::new("spaces")) {
            let within = Path::new("spaces").join(&name);
            let (manifest, _) = Space::read_strict_parts(&self.snapshot.below(&within))?;
            self.add_space(&manifest.id, &within, &format!("space {}: ", manifest.id))?;
        }
        Ok(self)
    }

    /// Reads `settings.json` of a `.cotter`, or `.mcp.json`.
    fn read_settings_file(mut self) -> Result<Self, CliError> {
        let read = SourceSettings::read(&self.found, self.copy.folder())?;
        if let Some(SourceSettings { settings, servers, .. }) = read {
            self.declared.commands.extend(settings.hooks.iter().map(|hook| hook_command("", hook)));
            self.declared.commands.extend(servers.iter().map(server_command));
        }
        Ok(self)
    }

    fn read_claude(mut self) -> Result<Self, CliError> {
        let workspace = Workspace::new(self.found.source.parent().unwrap_or(Path::new("/")));
        let home = HomeFolder { path: None, workspace: &workspace };
        for unit in project::load_project(&self.found, &[], false, &home)? {
            self.add_unit(unit)?;
        }
        for name in SETTINGS {
            let path = self.found.source.join(name);
            let Some((_, bytes)) = self.snapshot.file(Path::new(name)) else { continue };
            let document = Document::parse_bytes(&path.display().to_string(), bytes)?;
            let plugins = claude::settings::read_enabled_plugins(&document.root().object()?)?;
            for (name, _) in plugins.into_iter().filter(|(_, on)| *on) {
                let what = format!("plugin {name}, switched on");
                let whose = "your home folder, if it is installed: its hooks and servers run";
                let command = Invocation::Remote(whose.into());
                self.declared.commands.push(DeclaredCommand::new(what, command));
            }
        }
        if self.found.is_folder() {
            self.add_texts(&load_extensions(self.copy.folder(), Origin::Project), "");
        }
        Ok(self)
    }

    /// Adds a settings file for Claude Code, or a plugin.
    fn add_unit(&mut self, unit: ClaudeUnit) -> Result<(), CliError> {
        if let Some(broken) = unit.broken {
            return Err(CliError::from(broken));
        }
        let plugin = unit.extension_folders.iter().find_map(|folder| folder.plugin.as_ref());
        let of = plugin.map(|plugin| format!(" of plugin {}", plugin.name)).unwrap_or_default();
        let hooks = unit.settings.hooks.iter();
        self.declared.commands.extend(hooks.map(|hook| hook_command(&of, hook)));
        self.declared.commands.extend(unit.servers.iter().map(server_command));
        self.declared.refused.extend(unit.diagnostics);
        for folder in &unit.extension_folders {
            let loaded = match &folder.plugin {
                Some(plugin) => plugin.extensions(&folder.folder, &folder.loading),
                None => extensions::load(&folder.folder, &folder.loading),
            };
            self.add_texts(&loaded, &of);
        }
        Ok(())
    }

    fn add_hook_files(&mut self, hooks: &HookFiles, before: &str, within: &Path) {
        for file in &hooks.files {
            let off = if file.enabled { "" } else { ", switched off" };
            let mut command = hook_command(off, &file.hook);
            command.description.insert_str(0, before);
            self.declared.commands.push(command.in_folder(within));
        }
        self.declared.refused.extend(hooks.diagnostics.iter().cloned());
    }

    /// Adds the commands in the texts of skills and commands.
    fn add_texts(&mut self, loaded: &LoadedFolder, of: &str) {
        let (commands, diagnostics) = loaded.text_commands();
        let doubt = "it runs in the project, as a call of the agent that the gates see";
        self.declared.commands.extend(commands.into_iter().map(|found| {
            let what = format!("text of {} {}{of}", found.kind.as_str(), found.name);
            DeclaredCommand::new(what, Invocation::Shell(found.line)).with_doubt(doubt)
        }));
        self.declared.refused.extend(loaded.diagnostics.iter().cloned().chain(diagnostics));
    }

    /// Adds a space in this source, or the source itself.
    fn add_space(&mut self, id: &str, within: &Path, before: &str) -> Result<(), CliError> {
        let folder = match within == Path::new("") {
            true => self.copy.folder().to_owned(),
            false => self.copy.folder().join(within),
        };
        let space = Space::read(&folder).map_err(|mut broken| {
            replace_copy_paths(&mut broken.diagnostics, self.copy.folder(), &self.found.source);
            CliError::of_space(format!("cannot load space `{id}`"), &broken)
        })?;
        self.add_hook_files(&space.hooks, before, within);
        let of = if before.is_empty() { String::new() } else { format!(" of space {id}") };
        self.add_texts(&space.files, &of);
        Ok(())
    }

    /// Adds the commands that a profile would start and the hosts that it would notify.
    fn add_profile(&mut self, folder: &str, path: &Path) -> Result<(), CliError> {
        let Some((_, bytes)) = self.snapshot.file(path) else { return Ok(()) };
        let shown = self.snapshot.source().join(path).display().to_string();
        let document = Document::parse_bytes(&shown, bytes)?;
        let profile = Profile::from_document(&document, folder, ProfileGrants::for_inspection())?;
        for action in profile.actions {
            let what = format!("profile {}, {}", profile.name, action.name);
            let command = match action.kind {
                ActionKind::Command(line) => invocation(line),
                ActionKind::Webhook(url) => Invocation::Notified(url.text),
                _ => continue,
            };
            let within = path.parent().unwrap_or(Path::new(""));
            self.declared.commands.push(DeclaredCommand::new(what, command).in_folder(within));
        }
        Ok(())
    }
}

fn load_extensions(folder: &Path, origin: Origin) -> LoadedFolder {
    extensions::load(folder, &LoadContext::trusted(origin))
}

/// Refuses a link in the place of a folder that declares something: its target could not be shown.
fn check_links(snapshot: &Snapshot) -> Result<(), CliError> {
    const DECLARE: [&str; 4] = ["hooks", "spaces", "plugins", "agents"];
    let is_text = |path: &Path| {
        path.extension().is_some_and(|end| end == "md" || end == "yaml" || end == "yml")
    };
    for (path, item) in snapshot.items() {
        let top = path.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
        let declares = DECLARE.contains(&top) && !(top == "agents" && is_text(path));
        if matches!(item, SnapshotItem::Link(_)) && declares && path.iter().count() <= 2 {
            let shown = show_path(&snapshot.source().join(path));
            return Err(CliError::new(format!(
                "{shown} is a link, so its contents cannot be shown"
            ))
            .with_hint(
                "replace the link with its target: everything that would run must be shown",
            ));
        }
    }
    Ok(())
}

/// True if a source is one of the person's own spaces.
fn is_own_space(snapshot: &Snapshot) -> bool {
    snapshot.file(Path::new(space::MANIFEST)).is_some()
        && paths::spaces().is_some_and(|own| {
            let own = own.canonicalize().unwrap_or(own);
            snapshot.source().parent() == Some(&own)
        })
}

fn invocation(line: CommandLine) -> Invocation {
    match line {
        CommandLine::Words(words) => Invocation::Words(words),
        CommandLine::Shell(line) => Invocation::Shell(line),
    }
}

/// Describes a hook: its event, and the variables that it gets.
fn hook_command(of: &str, hook: &CommandHook) -> DeclaredCommand {
    let entry = ClaudeEntry::of(hook);
    let event = entry.map_or_else(|| hook.point.name(), |entry| entry.event().name());
    let address = entry.and_then(ClaudeEntry::address);
    let named = address.map_or(&hook.env[..], |(_, named)| named).join(", ");
    let variables = if named.is_empty() { named } else { format!(", with variables {named}") };
    let what = format!("hook {} at {event}{of}{variables}", hook.name);
    if let Some((url, _)) = address {
        return DeclaredCommand::new(what, Invocation::Notified(url.to_owned()));
    }
    let command = match (&hook.command, entry) {
        (CommandLine::Words(words), Some(_)) if words.is_empty() => {
            Invocation::Remote("a model".into())
        }
        (command, _) => invocation(command.clone()),
    };
    let command = DeclaredCommand::new(what, command).confined();
    match entry {
        Some(_) => command.with_doubt("it runs in place, in the folder of the session"),
        None => command,
    }
}

/// Describes a server: the person's variables that it names, variables that it sets, its folder, and local
/// sockets.
fn server_command(server: &McpServer) -> DeclaredCommand {
    let (command, texts, more) = match &server.transport {
        Transport::Stdio { command, args, env, cwd, local_sockets } => {
            let texts: Vec<_> = args.iter().chain(env.values()).collect();
            let sets: Vec<_> = env.keys().map(String::as_str).collect();
            let mut more = String::new();
            if !sets.is_empty() {
                more += &format!(", sets {}", sets.join(", "));
            }
            if let Some(cwd) = cwd {
                more += &format!(", in {}", cwd.display());
            }
            if *local_sockets {
                more += ", with access to local sockets";
            }
            let words = [command].into_iter().chain(args).cloned().collect();
            (Invocation::Words(words), texts, more)
        }
        Transport::Http { url, headers } => {
            let texts = headers.iter().map(|(_, value)| value).collect();
            (Invocation::Remote(url.as_str().into()), texts, String::new())
        }
    };
    let after_marks = texts.into_iter().flat_map(|text| text.split("${").skip(1));
    let named = after_marks.filter_map(|after| after.split(['}', ':']).next());
    let named: BTreeSet<_> = named.filter(|name| !name.is_empty()).collect();
    let mut what = format!("MCP server {}", server.name());
    if !named.is_empty() {
        what += &format!(", with variables {}", named.into_iter().collect::<Vec<_>>().join(", "));
    }
    DeclaredCommand::new(what + &more, command)
        .with_doubt("it runs in the project, not in the trusted copy")
}
