//! Plugins: folders with skills, agents, commands, hooks and servers, under one name.
//!
//! ```text
//! .claude-plugin/plugin.json   the manifest; .plugin/plugin.json and plugin.json also count; optional
//! skills/  agents/  commands/  and the folders that the manifest names
//! hooks/hooks.json             hooks of the claude dialect, or `hooks` of the manifest
//! .mcp.json                    servers, or `mcpServers` of the manifest
//! mcp.json                     servers of Agent Plugins, whose manifest is plugin.json
//! ```
//!
//! Reading a plugin runs and installs nothing. A path in a manifest must stay in the plugin. Commands are
//! called `plugin:name`. Names of skills and agents have no colon, so they are called `plugin-name`, which is
//! reported.
//!
//! A gate may be in any file of hooks. A file of hooks that cannot be read is listed in [`Plugin::broken`];
//! the user of the plugin has to decide how to proceed.

#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    claude::{self, agent_plugin},
    command_hook::entry::{CommandHook, CommandLine},
    document::{Document, Node, location::SettingsError},
};
use crate::{
    extensions::{LoadContext, LoadedFolder, agents, commands, skills},
    folder::{
        diagnostic::{Diagnostic, Severity},
        file_kind::FileKind,
        layout::PluginLayout,
        walk::{self, nearest_name},
    },
};
use cotter::{host::check_name, invoke::named_item::NameKind, text};

/// The possible paths of a manifest. All existing ones are read: a gate may be in any of them.
const MANIFESTS: [&str; 3] =
    [".claude-plugin/plugin.json", ".plugin/plugin.json", agent_plugin::MANIFEST];
const HOOKS: &str = "hooks/hooks.json";
const SERVERS: &str = ".mcp.json";

/// The placeholders for the folder of a plugin.
const ROOTS: [&str; 2] = ["${CLAUDE_PLUGIN_ROOT}", "${PLUGIN_ROOT}"];

/// Parts of a plugin that other programs read and Cotter does not.
const FOREIGN_PARTS: [&str; 10] = [
    ".codex-plugin",
    ".cursor-plugin",
    ".github/plugin",
    ".lsp.json",
    "gemini-extension.json",
    "monitors",
    "output-styles",
    "rules",
    "settings.json",
    "themes",
];

/// The maximum size of a JSON file in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Keys of a manifest that only describe the plugin.
const DESCRIPTIVE_KEYS: [&str; 10] = [
    "$schema",
    "name",
    "displayName",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
];

/// The functions by which the layout of a folder finds plugins.
pub(crate) const LAYOUT: PluginLayout = PluginLayout {
    is_plugin: is_plugin_folder,
    paths: |root, kind| Some(Plugin::load(root).ok()??.paths(kind).to_vec()),
};

/// True if a folder has a file that marks it as a plugin.
fn is_plugin_folder(folder: &Path) -> bool {
    MANIFESTS.iter().chain([&HOOKS]).any(|path| folder.join(path).symlink_metadata().is_ok())
}

/// A plugin as its folder declares it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plugin {
    /// The name of the plugin, and the prefix of the names in it.
    pub name: SmolStr,
    /// The folder of the plugin, and the value of `${CLAUDE_PLUGIN_ROOT}`.
    pub root: PathBuf,
    /// Files with hooks of the claude dialect.
    pub hooks: Vec<PluginFile>,
    /// Files with servers of the Model Context Protocol.
    pub servers: Vec<PluginFile>,
    /// Diagnostics about the plugin.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that may have held a gate and cannot be read: without them the plugin is looser than intended.
    pub broken: Vec<Diagnostic>,
    skills: Vec<PathBuf>,
    agents: Vec<PathBuf>,
    commands: Vec<PathBuf>,
}

/// A JSON file of a plugin, or a part of its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The contents of the file.
    pub text: String,
}

/// The contents of a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PluginFileKind {
    Hooks,
    Servers,
}

impl PluginFileKind {
    /// The key of the manifest for such a file.
    fn key(self) -> &'static str {
        match self {
            PluginFileKind::Hooks => "hooks",
            PluginFileKind::Servers => "mcpServers",
        }
    }
}

/// The data of one manifest about the plugin as a whole.
#[derive(Default)]
struct PluginManifest {
    name: Option<String>,
    /// The version of Agent Plugins that the manifest follows.
    version: Option<agent_plugin::Version>,
}

/// Reads files of a plugin, by their path from its root. `None` if there is no such file.
pub type PluginFileSource<'a> = &'a dyn Fn(&Path) -> Option<Result<Vec<u8>, String>>;

impl Plugin {
    /// Reads the plugin in a folder; `None` if no part of a plugin is in it. An error says why it cannot be
    /// read.
    pub fn load(root: &Path) -> Result<Option<Self>, Diagnostic> {
        let rejected = |why: String| Diagnostic::new(root, None, Severity::Rejected, why);
        let real = fs::canonicalize(root);
        let real = real.map_err(|cause| rejected(format!("it cannot be read: {cause}")))?;
        if !real.is_dir() {
            return Err(rejected("it is not a folder".into()));
        }
        let mut plugin = Plugin::read(&real, &|path| read(&real, path))?;
        if plugin.is_empty(&real) {
            return Ok(None);
        }
        let others = FOREIGN_PARTS.iter().map(|name| (*name).to_owned());
        for name in others.chain(agent_plugin::foreign_folders(&real)) {
            if real.join(&name).symlink_metadata().is_ok() {
                let why = "it is not honoured".into();
                plugin.report(Path::new(&name), None, Severity::Warning, why);
            }
        }
        Ok(Some(plugin))
    }

    /// Reads a plugin through `read_file`, for example from a snapshot or a copy.
    pub fn read(root: &Path, read_file: PluginFileSource<'_>) -> Result<Self, Diagnostic> {
        let folder = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut plugin = Plugin {
            name: SmolStr::default(),
            root: root.into(),
            hooks: vec![],
            servers: vec![],
            diagnostics: vec![],
            broken: vec![],
            skills: vec!["skills".into()],
            agents: vec!["agents".into()],
            commands: vec!["commands".into()],
        };
        let (mut name, mut version, mut manifests) = (None, None, 0);
        for path in MANIFESTS.map(Path::new) {
            let Some(bytes) = read_file(path) else { continue };
            let manifest = plugin.manifest(path, bytes, read_file)?;
            (name, version, manifests) = (name.or(manifest.name), manifest.version, manifests + 1);
        }
        plugin.set_name(name.unwrap_or(folder))?;
        plugin.file(PluginFileKind::Hooks, Path::new(HOOKS), read_file);
        plugin.file(PluginFileKind::Servers, Path::new(SERVERS), read_file);
        match version {
            Some(agent_plugin::Version::Known) => plugin.portable_servers(read_file),
            // The meaning of its parts is unknown, but hooks are not part of any version.
            Some(agent_plugin::Version::Unknown) if manifests == 1 => plugin.drop_unknown_parts(),
            _ => plugin.report_unread_servers(read_file),
        }
        Ok(plugin)
    }

    /// All paths that parts of the plugin are read from, existing or not.
    pub fn source_paths(&self) -> Vec<PathBuf> {
        let default_paths =
            MANIFESTS.iter().chain(&[HOOKS, SERVERS, agent_plugin::SERVERS]).map(Path::new);
        let named_paths = self.skills.iter().chain(&self.agents).chain(&self.commands);
        let mut paths: Vec<_> = default_paths
            .chain(named_paths.map(PathBuf::as_path))
            .map(|path| self.root.join(path))
            .collect();
        let files = self.hooks.iter().chain(&self.servers).map(|file| file.path.clone());
        paths.extend(files);
        paths.sort();
        paths.dedup();
        paths
    }

    /// The paths of its skills, agents or commands, from its root.
    fn paths(&self, kind: FileKind) -> &[PathBuf] {
        match kind {
            FileKind::Skills => &self.skills,
            FileKind::Agents => &self.agents,
            FileKind::Commands => &self.commands,
            _ => &[],
        }
    }

    /// Drops everything but its hooks.
    pub fn keep_only_hooks(&mut self) {
        self.servers.clear();
        self.skills.clear();
        self.agents.clear();
        self.commands.clear();
    }

    /// Drops everything but the hooks of a plugin of an unknown version, and reports it.
    fn drop_unknown_parts(&mut self) {
        self.keep_only_hooks();
        let why = "its skills, agents, commands and servers are skipped".into();
        self.report(Path::new(""), None, Severity::Rejected, why);
    }

    fn is_empty(&self, root: &Path) -> bool {
        let folders = self.skills.iter().chain(&self.agents).chain(&self.commands);
        let exists = |path: &Path| root.join(path).exists();
        let has_manifest = MANIFESTS.iter().any(|path| exists(Path::new(path)));
        let has_files =
            !self.hooks.is_empty() || !self.servers.is_empty() || !self.broken.is_empty();
        !has_manifest && !has_files && !folders.into_iter().any(|path| exists(path))
    }

    /// Sets the name of the plugin, or the nearest valid one.
    fn set_name(&mut self, written: String) -> Result<(), Diagnostic> {
        let name = match check_name(NameKind::Command, &written) {
            Ok(()) if !written.contains(':') => Some(written.clone()),
            _ => nearest_name(NameKind::Skill, &written),
        };
        let why = || format!("`{}` cannot be the name of a plugin", text::show_line(&written));
        self.name = name.ok_or_else(|| self.rejected(Path::new(""), None, why()))?.into();
        if self.name != written {
            let why = format!("{}; the name `{}` is used instead", why(), self.name);
            self.report(Path::new(""), None, Severity::Repaired, why);
        }
        Ok(())
    }

    /// Reads a manifest: the name, and the paths beyond the usual ones.
    fn manifest(
        &mut self,
        path: &Path,
        bytes: Result<Vec<u8>, String>,
        read_file: PluginFileSource<'_>,
    ) -> Result<PluginManifest, Diagnostic> {
        let bytes = bytes.map_err(|why| self.rejected(path, None, why))?;
        let shown = self.root.join(path);
        let to_diagnostic = |why: SettingsError| settings_diagnostic(&shown, &why);
        let document =
            Document::parse_bytes(&shown.display().to_string(), &bytes).map_err(to_diagnostic)?;
        let object = document.root().object().map_err(to_diagnostic)?;
        let name = object
            .get("name")
            .map(|node| node.non_empty_string())
            .transpose()
            .map_err(to_diagnostic)?;
        let name = name.map(str::to_owned);
        let version = match path == Path::new(agent_plugin::MANIFEST) {
            true => self.read_portable_version(path, &object, name.as_deref()),
            false => None,
        };
        for (key, node) in object.members().filter(|(key, _)| !DESCRIPTIVE_KEYS.contains(key)) {
            let line = Some(node.location().line() as usize);
            match key {
                _ if version == Some(agent_plugin::Version::Unknown) && key != "hooks" => {
                    continue;
                }
                "skills" => self.add_named_paths(path, node, |plugin| &mut plugin.skills),
                "agents" => self.add_named_paths(path, node, |plugin| &mut plugin.agents),
                "commands" => self.add_named_paths(path, node, |plugin| &mut plugin.commands),
                "hooks" => self.add_named_files(PluginFileKind::Hooks, path, node, read_file),
                "mcpServers" => {
                    self.add_named_files(PluginFileKind::Servers, path, node, read_file)
                }
                "extensions" if version.is_some() => self.report_foreign_parts(path, node),
                _ => {
                    if let Some(why) = claude::explain_misplaced_key(key) {
                        self.fail(PluginFileKind::Hooks, path, line, why);
                        continue;
                    }
                    let key = text::cut_chars(&text::show_line(key), 60).into_owned();
                    let why = format!("`{key}` is not honoured");
                    self.report(path, line, Severity::Warning, why);
                    continue;
                }
            }
            if version == Some(agent_plugin::Version::Known) && key != "extensions" {
                let why =
                    format!("`{key}` is not part of Agent Plugins; it is read as in other plugins");
                self.report(path, line, Severity::Warning, why);
            }
        }
        Ok(PluginManifest { name, version })
    }

    /// Adds folders and files that a manifest names.
    fn add_named_paths(
        &mut self,
        path: &Path,
        node: Node<'_>,
        list: impl Fn(&mut Self) -> &mut Vec<PathBuf>,
    ) {
        for node in each(node) {
            match node.string().map_err(|why| why.message().to_owned()).and_then(path_in_plugin) {
                Ok(inside) if list(self).contains(&inside) => {}
                Ok(inside) => list(self).push(inside),
                Err(why) => {
                    let line = Some(node.location().line() as usize);
                    self.report(path, line, Severity::Rejected, why);
                }
            }
        }
    }

    /// Adds JSON files that a manifest names, or the objects in the manifest itself.
    fn add_named_files(
        &mut self,
        of: PluginFileKind,
        path: &Path,
        node: Node<'_>,
        read_file: PluginFileSource<'_>,
    ) {
        for node in each(node) {
            let line = Some(node.location().line() as usize);
            if let Ok(object) = node.object() {
                let inner = match object.get(of.key()) {
                    Some(inner) => inner,
                    None => node,
                };
                let text = serde_json::json!({ of.key(): inner.to_json() }).to_string();
                match inner.object() {
                    Ok(_) => self.add_file(of, PluginFile { path: self.root.join(path), text }),
                    Err(why) => self.fail(of, path, line, why.message().to_owned()),
                }
                continue;
            }
            match node.string().map_err(|why| why.message().to_owned()).and_then(path_in_plugin) {
                Ok(inside) if read_file(&inside).is_some() => self.file(of, &inside, read_file),
                Ok(inside) => {
                    let shown = text::show_line(&inside.to_string_lossy()).into_owned();
                    self.fail(of, path, line, format!("file `{shown}` not found"));
                }
                Err(why) => self.fail(of, path, line, why),
            }
        }
    }

    /// Adds a JSON file, if it exists and was not added yet.
    fn file(&mut self, of: PluginFileKind, inside: &Path, read_file: PluginFileSource<'_>) {
        let path = self.root.join(inside);
        let Some(read) = read_file(inside) else { return };
        if self.list(of).iter().any(|file| file.path == path)
            || self.broken.iter().any(|diagnostic| diagnostic.path == path)
        {
            return;
        }
        let text = read.and_then(|bytes| match bytes.len() > MAX_BYTES {
            true => Err(format!("it has more than {MAX_BYTES} bytes")),
            false => {
                String::from_utf8(bytes).map_err(|_| "a byte in the file is not UTF-8".to_owned())
            }
        });
        match text {
            Err(why) => self.fail(of, inside, None, why),
            Ok(text) if of == PluginFileKind::Hooks => self.read_hooks(inside, text),
            Ok(text) => self.add_file(of, PluginFile { path, text }),
        }
    }

    /// Reads a file of hooks.
    fn read_hooks(&mut self, inside: &Path, text: String) {
        let path = self.root.join(inside);
        let document = Document::parse(&path.display().to_string(), &text);
        let checked = document.and_then(|document| {
            let root = document.root().object()?;
            root.get("hooks").map(|hooks| hooks.object()).transpose()?;
            let is_event = |(key, _): (&str, Node<'_>)| claude::point_of(key).is_some();
            let (hooks, events) = (root.get("hooks").is_some(), root.members().any(is_event));
            if !hooks && !events {
                claude::check(&document)?;
            }
            Ok((hooks, events))
        });
        let text = text.trim_start_matches('\u{feff}');
        match checked {
            Err(why) => self.broken.push(settings_diagnostic(&path, &why)),
            Ok((true, _)) => {
                self.add_file(PluginFileKind::Hooks, PluginFile { path, text: text.into() })
            }
            Ok((false, true)) => {
                let why = "its events are not inside `hooks`: they are read as if they were".into();
                self.report(inside, None, Severity::Repaired, why);
                // The closing brace is on a line of its own, so that the line numbers of the entries stay.
                self.add_file(
                    PluginFileKind::Hooks,
                    PluginFile { path, text: format!("{{\"hooks\": {text}\n}}") },
                );
            }
            Ok((false, false)) => {
                self.report(inside, None, Severity::Warning, "it has no key `hooks`".into());
            }
        }
    }

    /// Adds a file, unless one with the same text is there. A file of hooks in which a gate would be lost is
    /// broken.
    pub(crate) fn add_file(&mut self, of: PluginFileKind, file: PluginFile) {
        if of == PluginFileKind::Hooks {
            let document = Document::parse(&file.path.display().to_string(), &file.text);
            if let Err(why) = document.and_then(|document| claude::check(&document)) {
                return self.broken.push(settings_diagnostic(&file.path, &why));
            }
        }
        let list = self.list(of);
        if !list.iter().any(|other| other.text == file.text) {
            list.push(file);
        }
    }

    fn list(&mut self, of: PluginFileKind) -> &mut Vec<PluginFile> {
        match of {
            PluginFileKind::Hooks => &mut self.hooks,
            PluginFileKind::Servers => &mut self.servers,
        }
    }

    /// Reports a file that cannot be read. A missing server is a diagnostic; missing hooks may have been a
    /// gate.
    pub(crate) fn fail(
        &mut self,
        of: PluginFileKind,
        path: &Path,
        line: Option<usize>,
        why: String,
    ) {
        let diagnostic = self.rejected(path, line, why);
        match of {
            PluginFileKind::Hooks => self.broken.push(diagnostic),
            PluginFileKind::Servers => self.diagnostics.push(diagnostic),
        }
    }

    pub(crate) fn report(
        &mut self,
        path: &Path,
        line: Option<usize>,
        severity: Severity,
        message: String,
    ) {
        let path = self.path(path);
        self.diagnostics.push(Diagnostic::new(&path, line, severity, message));
    }

    fn rejected(&self, path: &Path, line: Option<usize>, why: String) -> Diagnostic {
        Diagnostic::new(&self.path(path), line, Severity::Rejected, why)
    }

    /// A path in the plugin. Joining an empty path would append a slash.
    fn path(&self, inside: &Path) -> PathBuf {
        if inside.as_os_str().is_empty() { self.root.clone() } else { self.root.join(inside) }
    }

    /// The skills, commands and agents of the plugin, read from its folder or from a copy, under the plugin's
    /// names.
    pub fn extensions(&self, folder: &Path, loading: &LoadContext) -> LoadedFolder {
        let links = loading.links(folder);
        let mut loaded = LoadedFolder::empty(loading);
        for path in &self.skills {
            let (mut skills, mut diagnostics) = skills::load(&folder.join(path), &links);
            loaded.skills.append(&mut skills);
            loaded.diagnostics.append(&mut diagnostics);
        }
        for path in &self.commands {
            let (mut commands, mut diagnostics) = commands::load(&folder.join(path), &links);
            loaded.commands.append(&mut commands);
            loaded.diagnostics.append(&mut diagnostics);
        }
        for path in &self.agents {
            let (mut agents, mut diagnostics) = agents::load(&folder.join(path), &links);
            loaded.agents.append(&mut agents);
            loaded.diagnostics.append(&mut diagnostics);
        }
        self.rename(&mut loaded);
        loaded.keep_first();
        loaded
    }

    fn rename(&self, loaded: &mut LoadedFolder) {
        let own: Vec<_> = loaded.skills.iter().map(|skill| skill.name.clone()).collect();
        let mut warnings = vec![];
        let mut new_name = |kind: NameKind, name: &SmolStr, path: &Path| {
            let published = format_smolstr!("{}:{name}", self.name);
            if check_name(kind, &published).is_ok() {
                return published;
            }
            let ours = format_smolstr!("{}-{name}", self.name);
            let ours = if check_name(kind, &ours).is_ok() { ours } else { name.clone() };
            let why = format!("its name here is `{ours}`, not `{published}`");
            warnings.push(Diagnostic::new(path, None, Severity::Warning, why));
            ours
        };
        for skill in loaded.skills.iter_mut().filter_map(Arc::get_mut) {
            skill.name = new_name(NameKind::Skill, &skill.name, &skill.path);
        }
        for command in loaded.commands.iter_mut().filter_map(Arc::get_mut) {
            command.name = new_name(NameKind::Command, &command.name, &command.path);
        }
        for agent in &mut loaded.agents {
            agent.config.name = new_name(NameKind::Subagent, &agent.config.name, &agent.path);
            for skill in agent.config.skills.iter_mut().filter(|skill| own.contains(skill)) {
                let ours = format_smolstr!("{}-{skill}", self.name);
                *skill =
                    if check_name(NameKind::Skill, &ours).is_ok() { ours } else { skill.clone() };
            }
        }
        loaded.diagnostics.append(&mut warnings);
    }

    /// The hooks of the plugin. `source` returns the properties that the hooks of a file share.
    pub fn command_hooks(
        &self,
        source: impl Fn(&Path) -> claude::ClaudeFile,
    ) -> (Vec<CommandHook>, Vec<Diagnostic>) {
        let (mut hooks, mut diagnostics) = (vec![], vec![]);
        for PluginFile { path, text } in &self.hooks {
            let plugin = claude::PluginPaths { root: self.root.clone(), data: None };
            let source = source(path).with_plugin(plugin);
            match Document::parse(&path.display().to_string(), text) {
                Ok(document) => {
                    let (mut found, mut more) = claude::read(&document, &source);
                    found.iter_mut().for_each(|hook| unify_placeholders(&mut hook.command));
                    let found = claude::drop_repeats(&hooks, found);
                    hooks.extend(found);
                    diagnostics.append(&mut more);
                }
                Err(why) => {
                    let line = why.location().map(|location| location.line() as usize);
                    diagnostics.push(Diagnostic::new(
                        path,
                        line,
                        Severity::Rejected,
                        why.message(),
                    ));
                }
            }
        }
        (hooks, diagnostics)
    }

    /// The entry of a server, with the placeholders of its folder replaced. The inserted path stays literal,
    /// also where variables are replaced later.
    pub fn fill_server(&self, mut server: Value) -> Value {
        let root = self.root.to_string_lossy();
        // Each `$` is escaped separately: the text after it may be the author's.
        let literal = root.replace('$', "${:-$}");
        for (key, value) in server.as_object_mut().into_iter().flatten() {
            match KEYS_WITH_VARIABLES.contains(&key.as_str()) {
                true => fill_in(value, &literal),
                false => fill_in(value, &root),
            }
        }
        server
    }
}

/// Keys of a server in whose texts `${NAME}` is a variable.
const KEYS_WITH_VARIABLES: [&str; 3] = ["args", "env", "headers"];

/// Replaces the placeholders of a plugin's folder in the strings of a value, once.
fn fill_in(value: &mut Value, root: &str) {
    match value {
        Value::String(text) => {
            let [theirs, ours] = ROOTS;
            let parts = text.split(theirs).map(|part| part.replace(ours, root));
            *text = parts.collect::<Vec<_>>().join(root);
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fill_in(value, root)),
        Value::Object(members) => members.values_mut().for_each(|value| fill_in(value, root)),
        _ => {}
    }
}

/// Replaces the second placeholder of a plugin's folder by the first, the only one that hooks know.
fn unify_placeholders(command: &mut CommandLine) {
    let [theirs, ours] = ROOTS;
    match command {
        CommandLine::Shell(line) => *line = line.replace(ours, theirs),
        CommandLine::Words(words) => {
            words.iter_mut().for_each(|word| *word = word.replace(ours, theirs));
        }
    }
}

/// Reads a file of a plugin's folder, also through links that stay in the folder.
fn read(root: &Path, inside: &Path) -> Option<Result<Vec<u8>, String>> {
    let path = root.join(inside);
    let cannot = |cause: io::Error| format!("it cannot be read: {cause}");
    let is_missing = |cause: &io::Error| cause.kind() == io::ErrorKind::NotFound;
    let mut parents = path.ancestors().take_while(|parent| *parent != root);
    let found = match fs::canonicalize(&path) {
        Ok(found) => found,
        // A broken link may have had a target, and a file in place of a folder may have been a folder.
        Err(cause) if is_missing(&cause) && !parents.any(Path::is_symlink) => return None,
        Err(cause) => return Some(Err(cannot(cause))),
    };
    if !found.starts_with(root) {
        return Some(Err("it is a link to a path outside the plugin".into()));
    }
    Some(walk::read(&found, MAX_BYTES + 1).map(|(bytes, _)| bytes).map_err(cannot))
}

pub(crate) fn settings_diagnostic(path: &Path, why: &SettingsError) -> Diagnostic {
    let line = why.location().map(|location| location.line() as usize);
    Diagnostic::new(path, line, Severity::Rejected, why.message())
}

/// The node itself, or each item of a list.
fn each(node: Node<'_>) -> Vec<Node<'_>> {
    node.list().map_or_else(|_| vec![node], Iterator::collect)
}

/// A path from the root of a plugin that stays in the plugin.
pub(crate) fn path_in_plugin(path: &str) -> Result<PathBuf, String> {
    let shown = || text::cut_chars(&text::show_line(path), 60).into_owned();
    let below = ROOTS.iter().find_map(|root| path.strip_prefix(root)?.strip_prefix('/'));
    let parts = Path::new(below.unwrap_or(path)).components();
    let parts = parts.filter(|part| *part != Component::CurDir);
    let inside: PathBuf = parts.clone().collect();
    let stays = parts.clone().all(|part| matches!(part, Component::Normal(_)));
    match stays && !inside.as_os_str().is_empty() {
        true => Ok(inside),
        false => Err(format!("`{}` is not a path inside the plugin", shown())),
    }
}
