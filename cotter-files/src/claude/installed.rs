//! Plugins: their folders, which of them are enabled, and their contents. If a gate of a plugin may be lost,
//! nothing starts.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crate::{
    claude::{
        self,
        plugin::Plugin,
        project::{ClaudeUnit, ExtensionFolder, HomeFolder, SETTINGS, home_folder},
        settings::{EnabledPlugins, read_enabled_plugins},
    },
    document::{
        Document, Node,
        location::{SettingsError, SourcedText},
    },
    extensions::LoadContext,
    folder::diagnostic::{Diagnostic, Severity},
    settings::mcp_servers::{McpServer, Servers},
};
use cotter::{Origin, Workspace, text};

/// Reads a plugin that the person's settings name.
pub(crate) fn named_plugin(
    written: &SourcedText,
    home: &HomeFolder<'_>,
) -> Result<ClaudeUnit, SettingsError> {
    let root = match (written.text.strip_prefix("~/"), &home.path) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(&written.text),
    };
    if !root.is_absolute() {
        let error = written.location.error(format!("`{}` is not a whole path", written.text));
        return Err(error.with_hint("begin it with `/` or `~/`"));
    }
    if home.belongs_to_project(&root) {
        let error = written.location.error(format!("`{}` lies in the project", written.text));
        let hint = "what a repository brings is not yours; `.agents/plugins` is behind trust";
        return Err(error.with_hint(hint));
    }
    if !root.is_dir() {
        let error = written.location.error(format!("there is no folder `{}`", written.text));
        let error = error.with_hint("a gate may have been in it: take it out to go on without");
        let mut part = ClaudeUnit::new(&root, Origin::User);
        part.broken = Some(error);
        return Ok(part);
    }
    let way_out = format!("mend it, or take it out of `plugins` at {}", written.location);
    Ok(own_plugin(&root, Origin::User, EmptyFolderPolicy::Broken, &way_out))
}

/// The effect of a folder that should be a plugin and has no part of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyFolderPolicy {
    /// The folder is something else: a warning.
    Told,
    /// The folder is a plugin that lost its contents: an error, because a person relies on the plugin.
    Broken,
}

/// The location of a plugin.
pub(crate) struct PluginLocation<'a> {
    /// The path that its author knows.
    pub(crate) shown: &'a Path,
    /// The folder that the plugin is read from.
    pub(crate) folder: &'a Path,
    pub(crate) origin: Origin,
    pub(crate) empty_folder_policy: EmptyFolderPolicy,
    /// The hint on a broken plugin.
    pub(crate) hint: &'a str,
}

/// Reads a plugin from a folder of the person. A plugin inside the project is an error, whoever names it.
pub(crate) fn read_personal_plugin(
    root: &Path,
    origin: &Origin,
    otherwise: EmptyFolderPolicy,
    home: &HomeFolder<'_>,
    way_out: &str,
) -> ClaudeUnit {
    if !home.belongs_to_project(root) {
        return own_plugin(root, origin.clone(), otherwise, way_out);
    }
    let mut part = ClaudeUnit::new(root, origin.clone());
    let why = "it lies in the project, and is not used as one of yours";
    let told = Diagnostic::new(root, None, Severity::Rejected, why);
    part.broken = Some(broken(&told, way_out));
    part
}

fn own_plugin(
    root: &Path,
    origin: Origin,
    otherwise: EmptyFolderPolicy,
    way_out: &str,
) -> ClaudeUnit {
    let at = PluginLocation {
        shown: root,
        folder: root,
        origin,
        empty_folder_policy: otherwise,
        hint: way_out,
    };
    at.read(|path| claude::ClaudeFile::new(path))
}

impl PluginLocation<'_> {
    /// Reads the contents of the plugin. If a gate may be lost, nothing of the plugin counts, and nothing
    /// starts.
    pub(crate) fn read(&self, source: impl Fn(&Path) -> claude::ClaudeFile) -> ClaudeUnit {
        let PluginLocation { shown, folder, origin, .. } = self;
        let mut part = ClaudeUnit::new(shown, origin.clone());
        let nothing = || {
            let why = "it is no plugin: nothing of one is in it";
            Diagnostic::new(shown, None, Severity::Warning, why)
        };
        let plugin = match (Plugin::load(folder), self.empty_folder_policy) {
            (Ok(Some(plugin)), _) => plugin,
            (Ok(None), EmptyFolderPolicy::Told) => {
                part.told.push(nothing());
                return part;
            }
            (Ok(None), EmptyFolderPolicy::Broken) => return self.broken(part, nothing()),
            (Err(told), _) => return self.broken(part, told),
        };
        let plugin = self.rename_to_author_paths(plugin);
        if let Some(told) = plugin.broken.first() {
            let told = told.clone();
            return self.broken(part, told);
        }
        part.told.extend(plugin.diagnostics.iter().cloned());
        let (hooks, told) = plugin.command_hooks(source);
        part.settings.hooks = hooks;
        part.told.extend(told);
        for file in &plugin.servers {
            part.servers =
                part.servers.or(servers(&plugin, &file.path, &file.text, &mut part.told));
        }
        let loading = LoadContext::trusted(origin.clone());
        let (folder, shown) = (folder.to_path_buf(), shown.to_path_buf());
        part.extension_folders.push(ExtensionFolder {
            folder,
            shown,
            loading,
            plugin: Some(plugin),
        });
        part
    }

    fn broken(&self, mut part: ClaudeUnit, mut told: Diagnostic) -> ClaudeUnit {
        self.rename_path(&mut told.path);
        part.broken = Some(broken(&told, self.hint));
        part
    }

    /// Renames the paths of a plugin that was read from a copy to the paths that its author knows.
    fn rename_to_author_paths(&self, mut plugin: Plugin) -> Plugin {
        plugin.hooks.iter_mut().chain(&mut plugin.servers).for_each(|file| {
            self.rename_path(&mut file.path);
        });
        let told = plugin.diagnostics.iter_mut().chain(&mut plugin.broken);
        told.for_each(|told| self.rename_path(&mut told.path));
        plugin.root = self.shown.to_owned();
        plugin
    }

    /// Renames a path in the plugin to the path that its author knows.
    fn rename_path(&self, path: &mut PathBuf) {
        let real = self.folder.canonicalize().unwrap_or_else(|_| self.folder.to_owned());
        match path.strip_prefix(&real) {
            Ok(within) if within == Path::new("") => *path = self.shown.to_owned(),
            Ok(within) => *path = self.shown.join(within),
            Err(_) if path == self.folder => *path = self.shown.to_owned(),
            Err(_) => {}
        }
    }
}

/// Reads the servers of a plugin. An invalid server is reported and skipped; the others load.
fn servers(plugin: &Plugin, path: &Path, text: &str, told: &mut Vec<Diagnostic>) -> Servers {
    let shown = path.display().to_string();
    let mut reject = |line: Option<u32>, why: &str| {
        let line = line.map(|line| line as usize);
        told.push(Diagnostic::new(path, line, Severity::Rejected, why));
    };
    let document = match Document::parse(&shown, text) {
        Ok(document) => document,
        Err(why) => {
            reject(why.location().map(|location| location.line()), why.message());
            return Servers::default();
        }
    };
    let object = document.root().object().and_then(|root| match root.get("mcpServers") {
        Some(servers) => servers.object(),
        None => Ok(root),
    });
    let object = match object {
        Ok(object) => object,
        Err(why) => {
            reject(why.location().map(|location| location.line()), why.message());
            return Servers::default();
        }
    };
    let mut found = vec![];
    for (name, node) in object.members().filter(|(name, _)| *name != "$schema") {
        let line = Some(node.location().line());
        let filled = plugin.fill_server(node.to_json());
        let one = serde_json::json!({"mcpServers": {name: filled}}).to_string();
        let read = Document::parse(&shown, &one).and_then(|one| Servers::from_document(&one));
        match read {
            Ok(read) => found.extend(read.into_iter().map(|server| rename_server(plugin, server))),
            Err(why) => {
                let name = text::clip(&text::show_line(name), 40).into_owned();
                reject(line, &format!("the server `{name}` cannot be read: {}", why.message()));
            }
        }
    }
    found.into_iter().collect()
}

/// A plugin's server under the name that its tools are published by, if that name is valid.
fn rename_server(plugin: &Plugin, server: McpServer) -> McpServer {
    let name = format!("plugin_{}_{}", plugin.name, server.name());
    let Ok(mut named) = McpServer::new(&name, server.transport.clone()) else { return server };
    named.allow = server.allow.clone();
    named.deny = server.deny.clone();
    named.read_only = server.read_only.clone();
    named.timeout = server.timeout;
    named.start_timeout = server.start_timeout;
    named
}

/// The enabled plugins among those that Claude Code installed. An enabled plugin that is not installed is
/// reported.
pub(crate) fn installed(
    folder: &Path,
    enabled: &EnabledPlugins,
    origin: Origin,
    home: &HomeFolder<'_>,
) -> Vec<ClaudeUnit> {
    let on: Vec<_> = enabled.iter().filter(|(_, (on, _))| *on).collect();
    if on.is_empty() {
        return vec![];
    }
    let path = folder.join("plugins/installed_plugins.json");
    let mut list = ClaudeUnit::new(&path, origin.clone());
    let known = match list_of_installed(&path, home.workspace) {
        Ok(known) => known,
        Err(failure) => {
            let names: Vec<_> = on.iter().map(|(id, _)| format!("`{}`", shown(id))).collect();
            list.broken = Some(failure.with_hint(format!(
                "a gate may be in {}, so nothing runs: mend the file, or leave the folder out with \
                 `\"claude\": {{\"home\": false}}` in your settings",
                names.join(", ")
            )));
            return vec![list];
        }
    };
    let mut parts = vec![];
    for (id, (_, said)) in on {
        let (file, word) = match origin {
            Origin::Project => {
                (&folder.join(SETTINGS[0]), "run with `--safe-mode`, or switch it off for you")
            }
            _ => (said, "or switch it off"),
        };
        let (roots, id) = (known.get(id), shown(id));
        let way_out = format!(
            "mend it, {word}: `\"enabledPlugins\": {{\"{id}\": false}}` in {}",
            file.display()
        );
        if roots.is_none() {
            list.told.push(missing(said, &id));
        }
        for (at, root) in roots.into_iter().flatten().enumerate() {
            let Some(root) = root else {
                let why = format!("`{id}` has no `installPath` that is a whole path");
                let told = Diagnostic::new(&path, None, Severity::Rejected, why);
                list.broken = Some(broken(&told, &way_out));
                continue;
            };
            let mut part =
                read_personal_plugin(root, &origin, EmptyFolderPolicy::Broken, home, &way_out);
            if at > 0 {
                keep_hooks(&mut part);
            }
            parts.push(part);
        }
    }
    let says = !list.told.is_empty() || list.broken.is_some();
    parts.extend(says.then_some(list));
    parts
}

/// Reduces the second installation of a plugin to its hooks, so that the gates of both installations count.
fn keep_hooks(part: &mut ClaudeUnit) {
    part.servers = Servers::default();
    for brings in &mut part.extension_folders {
        brings.plugin.iter_mut().for_each(Plugin::keep_only_hooks);
    }
    let why = "the plugin is installed elsewhere too, and used from there: of this one only its hooks are";
    part.told.push(Diagnostic::new(&part.path, None, Severity::Warning, why));
}

/// A plugin's `name@marketplace`, escaped and shortened for display.
fn shown(id: &str) -> String {
    text::clip(&text::show_line(id), 80).into_owned()
}

/// The diagnostic for a plugin that is enabled and not installed.
fn missing(said: &Path, id: &str) -> Diagnostic {
    let why = format!("the plugin `{id}` is switched on and not installed: nothing of it is used");
    Diagnostic::new(said, None, Severity::Rejected, why)
}

/// The diagnostics for plugins that a project enables while the home folder is not used.
pub(crate) fn report_unused_plugins(switched: &EnabledPlugins) -> Vec<ClaudeUnit> {
    let told = |id: &str, said: &Path| {
        let id = shown(id);
        let why =
            format!("the plugin `{id}` is switched on, and nothing of your home folder is used");
        Diagnostic::new(said, None, Severity::Warning, why)
    };
    units_with_diagnostics(switched, told)
}

/// A unit for each enabled plugin, with nothing but its diagnostic.
fn units_with_diagnostics(
    switched: &EnabledPlugins,
    told: impl Fn(&str, &Path) -> Diagnostic,
) -> Vec<ClaudeUnit> {
    let on = switched.iter().filter(|(_, (on, _))| *on);
    let part = |(id, (_, said)): (&String, &(bool, PathBuf))| ClaudeUnit {
        told: vec![told(id, said)],
        ..ClaudeUnit::new(said, Origin::Project)
    };
    on.map(part).collect()
}

/// The error because of which nothing starts.
fn broken(told: &Diagnostic, way_out: &str) -> SettingsError {
    let hint = format!("a gate may be in it, so nothing runs: {way_out}");
    SettingsError::without_file(told.to_string()).with_hint(hint)
}

/// The installed plugins and their folders, as far as they are known. Without the list file, there are none.
fn list_of_installed(
    path: &Path,
    workspace: &Workspace,
) -> Result<InstalledPlugins, SettingsError> {
    let folder = path.parent().unwrap_or(path);
    if folder.is_symlink() && !folder.exists() {
        let cause = io::Error::other("it is a link that leads nowhere");
        return Err(SettingsError::without_file(format!("{} cannot be read", folder.display()))
            .with_source(cause));
    }
    let Some(document) = Document::load(path)? else { return Ok(InstalledPlugins::new()) };
    let plugins = document.root().object()?.require("plugins")?.object()?;
    Ok(plugins.members().map(|(id, node)| (id.to_owned(), roots(node, workspace))).collect())
}

/// The folders of each plugin, by `name@marketplace`. `None` if a folder is unknown.
type InstalledPlugins = BTreeMap<String, Vec<Option<PathBuf>>>;

/// The projects in which an entry of the list holds, the nearest scope first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum InstallScope {
    Here,
    /// Also used if the scope is unknown.
    Anywhere,
    Elsewhere,
}

/// The folders of a plugin, from one entry or from a list of entries by scope. Entries of other projects
/// count only if there are no others.
fn roots(node: Node<'_>, workspace: &Workspace) -> Vec<Option<PathBuf>> {
    let entries: Vec<_> = node.list().map_or_else(|_| vec![node], Iterator::collect);
    let root = |entry: Node<'_>| {
        let path = entry.object().ok()?.get("installPath")?;
        Some(PathBuf::from(path.string().ok()?)).filter(|path| path.is_absolute())
    };
    let mut found: Vec<_> =
        entries.into_iter().map(|entry| (scope_of_entry(entry, workspace), root(entry))).collect();
    found.sort_by_key(|(holds, _)| *holds);
    if found.first().is_some_and(|(holds, _)| *holds != InstallScope::Elsewhere) {
        found.retain(|(holds, _)| *holds != InstallScope::Elsewhere);
    }
    let mut roots: Vec<Option<PathBuf>> = vec![];
    for (_, root) in found {
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    if roots.is_empty() { vec![None] } else { roots }
}

fn scope_of_entry(entry: Node<'_>, workspace: &Workspace) -> InstallScope {
    let text = |key: &str| entry.object().ok()?.get(key)?.string().ok();
    let (Some("project" | "local"), Some(project)) = (text("scope"), text("projectPath")) else {
        return InstallScope::Anywhere;
    };
    let project = Path::new(project);
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    match workspace.cwd().starts_with(project) {
        true => InstallScope::Here,
        false => InstallScope::Elsewhere,
    }
}

/// The person's plugins that a trusted project enables. They have only the rights of the project.
pub(crate) fn load_project_enabled(
    switched: &EnabledPlugins,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let folder = match home_folder(home, ".claude") {
        Ok(Some(folder)) => folder,
        Ok(None) => {
            return Ok(units_with_diagnostics(switched, |id, said| missing(said, &shown(id))));
        }
        // Nothing starts; the reason was already reported.
        Err(_) => return Ok(vec![]),
    };
    let mut switched = switched.clone();
    // The person's own setting for a plugin wins, whether on or off.
    for name in SETTINGS {
        let Some(document) = Document::load(&folder.join(name))? else { continue };
        for (id, _) in read_enabled_plugins(&document.root().object()?)? {
            switched.remove(&id);
        }
    }
    Ok(installed(&folder, &switched, Origin::Project, home))
}
