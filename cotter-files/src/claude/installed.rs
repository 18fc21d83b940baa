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
        let error = written.location.error(format!("`{}` is not an absolute path", written.text));
        return Err(error.with_hint("begin it with `/` or `~/`"));
    }
    if home.belongs_to_project(&root) {
        let error = written.location.error(format!("`{}` is inside the project", written.text));
        let hint = "move it to `.agents/plugins` of the project, which is used if you trust it";
        return Err(error.with_hint(hint));
    }
    if !root.is_dir() {
        let error = written.location.error(format!("folder `{}` not found", written.text));
        let hint = "the plugin may have a gate: restore the folder, or remove it from `plugins`";
        let error = error.with_hint(hint);
        let mut unit = ClaudeUnit::new(&root, Origin::User);
        unit.broken = Some(error);
        return Ok(unit);
    }
    let hint = format!("fix it, or remove it from `plugins` at {}", written.location);
    Ok(own_plugin(&root, Origin::User, EmptyFolderPolicy::Broken, &hint))
}

/// The effect of a folder that should be a plugin and has no part of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyFolderPolicy {
    /// The folder is something else: a warning.
    Warn,
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

/// Reads a plugin from a folder of the person. A plugin inside the project is an error.
pub(crate) fn read_personal_plugin(
    root: &Path,
    origin: &Origin,
    empty_folder_policy: EmptyFolderPolicy,
    home: &HomeFolder<'_>,
    hint: &str,
) -> ClaudeUnit {
    if !home.belongs_to_project(root) {
        return own_plugin(root, origin.clone(), empty_folder_policy, hint);
    }
    let mut unit = ClaudeUnit::new(root, origin.clone());
    let why = "it is inside the project, so it is not used as your own plugin";
    let diagnostic = Diagnostic::new(root, None, Severity::Rejected, why);
    unit.broken = Some(broken(&diagnostic, hint));
    unit
}

fn own_plugin(
    root: &Path,
    origin: Origin,
    empty_folder_policy: EmptyFolderPolicy,
    hint: &str,
) -> ClaudeUnit {
    let location = PluginLocation { shown: root, folder: root, origin, empty_folder_policy, hint };
    location.read(|path| claude::ClaudeFile::new(path))
}

impl PluginLocation<'_> {
    /// Reads the contents of the plugin. If a gate may be lost, nothing of the plugin counts, and nothing
    /// starts.
    pub(crate) fn read(&self, source: impl Fn(&Path) -> claude::ClaudeFile) -> ClaudeUnit {
        let PluginLocation { shown, folder, origin, .. } = self;
        let mut unit = ClaudeUnit::new(shown, origin.clone());
        let not_a_plugin = || {
            let why = "it is not a plugin: it contains no part of one";
            Diagnostic::new(shown, None, Severity::Warning, why)
        };
        let plugin = match (Plugin::load(folder), self.empty_folder_policy) {
            (Ok(Some(plugin)), _) => plugin,
            (Ok(None), EmptyFolderPolicy::Warn) => {
                unit.diagnostics.push(not_a_plugin());
                return unit;
            }
            (Ok(None), EmptyFolderPolicy::Broken) => return self.broken(unit, not_a_plugin()),
            (Err(diagnostic), _) => return self.broken(unit, diagnostic),
        };
        let plugin = self.rename_to_author_paths(plugin);
        if let Some(diagnostic) = plugin.broken.first() {
            return self.broken(unit, diagnostic.clone());
        }
        unit.diagnostics.extend(plugin.diagnostics.iter().cloned());
        let (hooks, hook_diagnostics) = plugin.command_hooks(source);
        unit.settings.hooks = hooks;
        unit.diagnostics.extend(hook_diagnostics);
        for file in &plugin.servers {
            unit.servers =
                unit.servers.or(servers(&plugin, &file.path, &file.text, &mut unit.diagnostics));
        }
        let loading = LoadContext::trusted(origin.clone());
        let (folder, shown) = (folder.to_path_buf(), shown.to_path_buf());
        unit.extension_folders.push(ExtensionFolder {
            folder,
            shown,
            loading,
            plugin: Some(plugin),
        });
        unit
    }

    fn broken(&self, mut unit: ClaudeUnit, mut diagnostic: Diagnostic) -> ClaudeUnit {
        self.rename_path(&mut diagnostic.path);
        unit.broken = Some(broken(&diagnostic, self.hint));
        unit
    }

    /// Renames the paths of a plugin that was read from a copy to the paths that its author knows.
    fn rename_to_author_paths(&self, mut plugin: Plugin) -> Plugin {
        plugin.hooks.iter_mut().chain(&mut plugin.servers).for_each(|file| {
            self.rename_path(&mut file.path);
        });
        let diagnostics = plugin.diagnostics.iter_mut().chain(&mut plugin.broken);
        diagnostics.for_each(|diagnostic| self.rename_path(&mut diagnostic.path));
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
fn servers(plugin: &Plugin, path: &Path, text: &str, diagnostics: &mut Vec<Diagnostic>) -> Servers {
    let shown = path.display().to_string();
    let mut reject = |line: Option<u32>, why: &str| {
        let line = line.map(|line| line as usize);
        diagnostics.push(Diagnostic::new(path, line, Severity::Rejected, why));
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
        let single = serde_json::json!({"mcpServers": {name: filled}}).to_string();
        let read =
            Document::parse(&shown, &single).and_then(|single| Servers::from_document(&single));
        match read {
            Ok(read) => found.extend(read.into_iter().map(|server| rename_server(plugin, server))),
            Err(why) => {
                let name = text::cut_chars(&text::show_line(name), 40).into_owned();
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
    let wanted: Vec<_> = enabled.iter().filter(|(_, (is_on, _))| *is_on).collect();
    if wanted.is_empty() {
        return vec![];
    }
    let path = folder.join("plugins/installed_plugins.json");
    let mut list = ClaudeUnit::new(&path, origin.clone());
    let installed_roots = match list_of_installed(&path, home.workspace) {
        Ok(installed_roots) => installed_roots,
        Err(failure) => {
            let names: Vec<_> = wanted.iter().map(|(id, _)| format!("`{}`", shown(id))).collect();
            list.broken = Some(failure.with_hint(format!(
                "a gate may be in {}, so nothing runs: fix the file, or disable the folder with \
                 `\"claude\": {{\"home\": false}}` in your settings",
                names.join(", ")
            )));
            return vec![list];
        }
    };
    let mut units = vec![];
    for (id, (_, settings_file)) in wanted {
        let (file, alternative) = match origin {
            Origin::Project => {
                (&folder.join(SETTINGS[0]), "run with `--safe-mode`, or disable it for yourself")
            }
            _ => (settings_file, "or disable it"),
        };
        let (roots, id) = (installed_roots.get(id), shown(id));
        let hint = format!(
            "fix it, {alternative}: `\"enabledPlugins\": {{\"{id}\": false}}` in {}",
            file.display()
        );
        if roots.is_none() {
            list.diagnostics.push(missing(settings_file, &id));
        }
        for (at, root) in roots.into_iter().flatten().enumerate() {
            let Some(root) = root else {
                let why = format!("`{id}` has no `installPath` that is an absolute path");
                let diagnostic = Diagnostic::new(&path, None, Severity::Rejected, why);
                list.broken = Some(broken(&diagnostic, &hint));
                continue;
            };
            let mut unit =
                read_personal_plugin(root, &origin, EmptyFolderPolicy::Broken, home, &hint);
            if at > 0 {
                keep_hooks(&mut unit);
            }
            units.push(unit);
        }
    }
    let has_findings = !list.diagnostics.is_empty() || list.broken.is_some();
    units.extend(has_findings.then_some(list));
    units
}

/// Reduces the second installation of a plugin to its hooks, so that the gates of both installations count.
fn keep_hooks(unit: &mut ClaudeUnit) {
    unit.servers = Servers::default();
    for folder in &mut unit.extension_folders {
        folder.plugin.iter_mut().for_each(Plugin::keep_only_hooks);
    }
    let why = "the plugin is used from another folder: only its hooks are used from this one";
    unit.diagnostics.push(Diagnostic::new(&unit.path, None, Severity::Warning, why));
}

/// A plugin's `name@marketplace`, escaped and shortened for display.
fn shown(id: &str) -> String {
    text::cut_chars(&text::show_line(id), 80).into_owned()
}

/// The diagnostic for a plugin that is enabled and not installed.
fn missing(settings_file: &Path, id: &str) -> Diagnostic {
    let why = format!("the plugin `{id}` is enabled but not installed: nothing of it is used");
    Diagnostic::new(settings_file, None, Severity::Rejected, why)
}

/// The diagnostics for plugins that a project enables while the home folder is not used.
pub(crate) fn report_unused_plugins(enabled: &EnabledPlugins) -> Vec<ClaudeUnit> {
    let diagnose = |id: &str, settings_file: &Path| {
        let id = shown(id);
        let why = format!("the plugin `{id}` is enabled, but nothing of your home folder is used");
        Diagnostic::new(settings_file, None, Severity::Warning, why)
    };
    units_with_diagnostics(enabled, diagnose)
}

/// A unit for each enabled plugin, with nothing but its diagnostic.
fn units_with_diagnostics(
    enabled: &EnabledPlugins,
    diagnose: impl Fn(&str, &Path) -> Diagnostic,
) -> Vec<ClaudeUnit> {
    let wanted = enabled.iter().filter(|(_, (is_on, _))| *is_on);
    let unit = |(id, (_, settings_file)): (&String, &(bool, PathBuf))| ClaudeUnit {
        diagnostics: vec![diagnose(id, settings_file)],
        ..ClaudeUnit::new(settings_file, Origin::Project)
    };
    wanted.map(unit).collect()
}

/// The error because of which nothing starts.
fn broken(diagnostic: &Diagnostic, hint: &str) -> SettingsError {
    let hint = format!("a gate may be in it, so nothing runs: {hint}");
    SettingsError::without_file(diagnostic.to_string()).with_hint(hint)
}

/// The installed plugins and their folders, as far as they are known. Without the list file, there are none.
fn list_of_installed(
    path: &Path,
    workspace: &Workspace,
) -> Result<InstalledPlugins, SettingsError> {
    let folder = path.parent().unwrap_or(path);
    if folder.is_symlink() && !folder.exists() {
        let cause = io::Error::other("it is a broken link");
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
    found.sort_by_key(|(scope, _)| *scope);
    if found.first().is_some_and(|(scope, _)| *scope != InstallScope::Elsewhere) {
        found.retain(|(scope, _)| *scope != InstallScope::Elsewhere);
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
    enabled: &EnabledPlugins,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let folder = match home_folder(home, ".claude") {
        Ok(Some(folder)) => folder,
        Ok(None) => {
            return Ok(units_with_diagnostics(enabled, |id, settings_file| {
                missing(settings_file, &shown(id))
            }));
        }
        // Nothing starts; the reason was already reported.
        Err(_) => return Ok(vec![]),
    };
    let mut enabled = enabled.clone();
    // The person's own setting for a plugin wins, whether on or off.
    for name in SETTINGS {
        let Some(document) = Document::load(&folder.join(name))? else { continue };
        for (id, _) in read_enabled_plugins(&document.root().object()?)? {
            enabled.remove(&id);
        }
    }
    Ok(installed(&folder, &enabled, Origin::Project, home))
}
