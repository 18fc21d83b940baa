//! Plugins: folders that bring skills, agents, commands, hooks and servers together, under one name.
//!
//! ```text
//! .claude-plugin/plugin.json   the manifest, or .plugin/plugin.json, or none
//! skills/  agents/  commands/  and what the manifest names besides
//! hooks/hooks.json             hooks of the claude dialect, or `hooks` of the manifest
//! .mcp.json                    servers, or `mcpServers` of the manifest
//! ```
//!
//! Nothing in it is run or installed here. What a manifest names must lie in the plugin. Commands are called
//! `plugin:name`; a skill or an agent, whose names have no colon, `plugin-name`, which is told.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use smol_str::{SmolStr, format_smolstr};

use super::{
    Diagnostic, FileKind, Loaded, Loading, Severity, agents, commands, skills,
    walk::{self, nearest_name},
};
use crate::{
    command_hook::{CommandHook, claude},
    ext::{Kind, check_name},
    settings::{Document, Node, SettingsError},
    text,
};

/// Where a manifest may be, the first that is there.
const MANIFESTS: [&str; 2] = [".claude-plugin/plugin.json", ".plugin/plugin.json"];
const HOOKS: &str = "hooks/hooks.json";
const SERVERS: &str = ".mcp.json";

/// The most bytes of a file of JSON.
const MOST_BYTES: usize = 1024 * 1024;

/// Keys of a manifest that say what the plugin is.
const ABOUT: [&str; 10] = [
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

/// Whether a folder says that it is a plugin.
pub(super) fn is_one(folder: &Path) -> bool {
    MANIFESTS.iter().chain([&HOOKS]).any(|path| folder.join(path).symlink_metadata().is_ok())
}

/// A plugin as its folder tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plugin {
    /// Its name: what its names begin with.
    pub name: SmolStr,
    /// Where it lies: what `${CLAUDE_PLUGIN_ROOT}` stands for.
    pub root: PathBuf,
    /// Files with hooks of the claude dialect.
    pub hooks: Vec<Brought>,
    /// Files with servers of the Model Context Protocol.
    pub servers: Vec<Brought>,
    /// What is to be said about it.
    pub diagnostics: Vec<Diagnostic>,
    skills: Vec<PathBuf>,
    agents: Vec<PathBuf>,
    commands: Vec<PathBuf>,
}

/// A file of JSON that a plugin brings, or a part of its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Brought {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Reads files of a plugin, by their path from its root. `None`: there is none.
pub type Reads<'a> = &'a dyn Fn(&Path) -> Option<Result<Vec<u8>, String>>;

impl Plugin {
    /// The plugin of a folder. An error says why it is none.
    pub fn load(root: &Path) -> Result<Self, Diagnostic> {
        let rejected = |why: String| Diagnostic::new(root, None, Severity::Rejected, why);
        let real = fs::canonicalize(root);
        let real = real.map_err(|cause| rejected(format!("it cannot be read: {cause}")))?;
        let plugin = Plugin::read(&real, &|path| {
            let path = real.join(path);
            path.symlink_metadata().ok()?;
            let read = walk::read(&path, MOST_BYTES + 1).map(|(bytes, _)| bytes);
            Some(read.map_err(|cause| format!("it cannot be read: {cause}")))
        })?;
        match plugin.is_empty(&real) {
            true => Err(rejected("it is no plugin: nothing of one is in it".into())),
            false => Ok(plugin),
        }
    }

    /// The same of what is read otherwise: a snapshot, a copy.
    pub fn read(root: &Path, reads: Reads<'_>) -> Result<Self, Diagnostic> {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut plugin = Plugin {
            name: SmolStr::default(),
            root: root.into(),
            hooks: vec![],
            servers: vec![],
            diagnostics: vec![],
            skills: vec!["skills".into()],
            agents: vec!["agents".into()],
            commands: vec!["commands".into()],
        };
        let manifest = MANIFESTS.iter().find_map(|path| Some((*path, reads(Path::new(path))?)));
        let named = match manifest {
            None => None,
            Some((path, bytes)) => plugin.manifest(Path::new(path), bytes, reads)?,
        };
        let named = named.unwrap_or(name);
        let name = match check_name(Kind::Command, &named) {
            Ok(()) if !named.contains(':') => Some(named.clone()),
            _ => nearest_name(Kind::Skill, &named),
        };
        let why = || format!("`{}` cannot be the name of a plugin", text::show_line(&named));
        plugin.name = name.ok_or_else(|| plugin.rejected(Path::new(""), None, why()))?.into();
        if plugin.name != named {
            let why = format!("{}: it is called `{}`", why(), plugin.name);
            plugin.say(Path::new(""), None, Severity::Repaired, why);
        }
        plugin.file(Path::new(HOOKS), reads, |plugin| &mut plugin.hooks);
        plugin.file(Path::new(SERVERS), reads, |plugin| &mut plugin.servers);
        Ok(plugin)
    }

    /// Where its skills, agents or commands are, from its root.
    pub(super) fn paths(&self, kind: FileKind) -> &[PathBuf] {
        match kind {
            FileKind::Skills => &self.skills,
            FileKind::Agents => &self.agents,
            FileKind::Commands => &self.commands,
            _ => &[],
        }
    }

    fn is_empty(&self, root: &Path) -> bool {
        let folders = self.skills.iter().chain(&self.agents).chain(&self.commands);
        let manifest = MANIFESTS.iter().any(|path| root.join(path).exists());
        let brings = !self.hooks.is_empty() || !self.servers.is_empty();
        !manifest && !brings && !folders.into_iter().any(|path| root.join(path).exists())
    }

    /// What a manifest says: the name, and what it names besides the usual places.
    fn manifest(
        &mut self,
        path: &Path,
        bytes: Result<Vec<u8>, String>,
        reads: Reads<'_>,
    ) -> Result<Option<String>, Diagnostic> {
        let bytes = bytes.map_err(|why| self.rejected(path, None, why))?;
        let shown = self.root.join(path);
        let of = |why: SettingsError| {
            let line = why.place().map(|place| place.line() as usize);
            Diagnostic::new(&shown, line, Severity::Rejected, why.message())
        };
        let document = Document::parse_bytes(&shown.display().to_string(), &bytes).map_err(of)?;
        let object = document.root().object().map_err(of)?;
        for (key, node) in object.members().filter(|(key, _)| !ABOUT.contains(key)) {
            let line = Some(node.place().line() as usize);
            match key {
                "skills" => self.named(path, node, |plugin| &mut plugin.skills),
                "agents" => self.named(path, node, |plugin| &mut plugin.agents),
                "commands" => self.named(path, node, |plugin| &mut plugin.commands),
                "hooks" => self.brought(path, "hooks", node, reads, |plugin| &mut plugin.hooks),
                "mcpServers" => {
                    self.brought(path, "mcpServers", node, reads, |plugin| &mut plugin.servers);
                }
                _ => {
                    let key = text::clip(&text::show_line(key), 60).into_owned();
                    let why = format!("`{key}` is not honoured");
                    self.say(path, line, Severity::Warning, why);
                }
            }
        }
        let name =
            object.get("name").map(|node| node.non_empty_string()).transpose().map_err(of)?;
        Ok(name.map(str::to_owned))
    }

    /// Folders and files that a manifest names.
    fn named(
        &mut self,
        path: &Path,
        node: Node<'_>,
        list: impl Fn(&mut Self) -> &mut Vec<PathBuf>,
    ) {
        for (line, inside) in paths(node) {
            match inside {
                Ok(inside) if list(self).contains(&inside) => {}
                Ok(inside) => list(self).push(inside),
                Err(why) => self.say(path, Some(line), Severity::Rejected, why),
            }
        }
    }

    /// Files of JSON that a manifest names, or what stands right in it.
    fn brought(
        &mut self,
        path: &Path,
        key: &str,
        node: Node<'_>,
        reads: Reads<'_>,
        list: fn(&mut Self) -> &mut Vec<Brought>,
    ) {
        if let Ok(object) = node.object() {
            let inner = if object.get(key).is_some() {
                node.to_json()
            } else {
                serde_json::json!({ key: node.to_json() })
            };
            let brought = Brought { path: self.root.join(path), text: inner.to_string() };
            return list(self).push(brought);
        }
        for (line, inside) in paths(node) {
            let found = inside.and_then(|inside| {
                let before = list(self).len();
                self.file(&inside, reads, list);
                let there = list(self).len() > before || inside == Path::new(HOOKS);
                let shown = text::show_line(&inside.to_string_lossy()).into_owned();
                there.then_some(()).ok_or_else(|| format!("there is no `{shown}`"))
            });
            if let Err(why) = found {
                self.say(path, Some(line), Severity::Rejected, why);
            }
        }
    }

    /// A file of JSON, where it is there and was not taken yet.
    fn file(
        &mut self,
        inside: &Path,
        reads: Reads<'_>,
        list: impl Fn(&mut Self) -> &mut Vec<Brought>,
    ) {
        let path = self.root.join(inside);
        if list(self).iter().any(|brought| brought.path == path) {
            return;
        }
        let text = reads(inside).map(|read| {
            let bytes = read.and_then(|bytes| match bytes.len() > MOST_BYTES {
                true => Err(format!("it has more than {MOST_BYTES} bytes")),
                false => Ok(bytes),
            })?;
            String::from_utf8(bytes).map_err(|_| "a byte of it is not UTF-8".to_owned())
        });
        match text {
            None => {}
            Some(Ok(text)) => list(self).push(Brought { path, text }),
            Some(Err(why)) => self.say(inside, None, Severity::Rejected, why),
        }
    }

    fn say(&mut self, path: &Path, line: Option<usize>, severity: Severity, what: String) {
        let path = self.path(path);
        self.diagnostics.push(Diagnostic::new(&path, line, severity, what));
    }

    fn rejected(&self, path: &Path, line: Option<usize>, why: String) -> Diagnostic {
        Diagnostic::new(&self.path(path), line, Severity::Rejected, why)
    }

    /// A path in it. Joining nothing would end it in a slash.
    fn path(&self, inside: &Path) -> PathBuf {
        if inside.as_os_str().is_empty() { self.root.clone() } else { self.root.join(inside) }
    }

    /// Its skills, commands and agents, read from the folder itself or from a copy of it, under the names
    /// they have as this plugin's.
    pub fn extensions(&self, folder: &Path, loading: &Loading) -> Loaded {
        let links = loading.links(folder);
        let mut loaded = Loaded::nothing(loading);
        for path in &self.skills {
            let (mut skills, mut told) = skills::load(&folder.join(path), &links);
            loaded.skills.append(&mut skills);
            loaded.diagnostics.append(&mut told);
        }
        for path in &self.commands {
            let (mut commands, mut told) = commands::load(&folder.join(path), &links);
            loaded.commands.append(&mut commands);
            loaded.diagnostics.append(&mut told);
        }
        for path in &self.agents {
            let (mut agents, mut told) = agents::load(&folder.join(path), &links);
            loaded.agents.append(&mut agents);
            loaded.diagnostics.append(&mut told);
        }
        self.rename(&mut loaded);
        loaded.keep_first();
        loaded
    }

    fn rename(&self, loaded: &mut Loaded) {
        let own: Vec<_> = loaded.skills.iter().map(|skill| skill.name.clone()).collect();
        let mut told = vec![];
        let mut called = |kind: Kind, name: &SmolStr, path: &Path| {
            let published = format_smolstr!("{}:{name}", self.name);
            if check_name(kind, &published).is_ok() {
                return published;
            }
            let ours = format_smolstr!("{}-{name}", self.name);
            let ours = if check_name(kind, &ours).is_ok() { ours } else { name.clone() };
            let why = format!("it is called `{ours}` here, not `{published}`");
            told.push(Diagnostic::new(path, None, Severity::Warning, why));
            ours
        };
        for skill in loaded.skills.iter_mut().filter_map(Arc::get_mut) {
            skill.name = called(Kind::Skill, &skill.name, &skill.path);
        }
        for command in loaded.commands.iter_mut().filter_map(Arc::get_mut) {
            command.name = called(Kind::Command, &command.name, &command.path);
        }
        for agent in &mut loaded.agents {
            agent.config.name = called(Kind::Subagent, &agent.config.name, &agent.path);
            for skill in agent.config.skills.iter_mut().filter(|skill| own.contains(skill)) {
                let ours = format_smolstr!("{}-{skill}", self.name);
                *skill = if check_name(Kind::Skill, &ours).is_ok() { ours } else { skill.clone() };
            }
        }
        loaded.diagnostics.append(&mut told);
    }

    /// Its hooks. `source` says what holds for those of a file.
    pub fn command_hooks(
        &self,
        source: impl Fn(&Path) -> claude::Source,
    ) -> (Vec<CommandHook>, Vec<Diagnostic>) {
        let (mut hooks, mut told) = (vec![], vec![]);
        for Brought { path, text } in &self.hooks {
            let plugin = claude::Plugin { root: self.root.clone(), data: None };
            let source = source(path).with_plugin(plugin);
            let text = text.replace("${PLUGIN_ROOT}", "${CLAUDE_PLUGIN_ROOT}");
            match Document::parse(&path.display().to_string(), &text) {
                Ok(document) => {
                    let (found, mut said) = claude::read(&document, &source);
                    let found = claude::without_repeats(&hooks, found);
                    hooks.extend(found);
                    told.append(&mut said);
                }
                Err(why) => {
                    let line = why.place().map(|place| place.line() as usize);
                    told.push(Diagnostic::new(path, line, Severity::Rejected, why.message()));
                }
            }
        }
        (hooks, told)
    }

    /// Its files of servers, with its folder filled in where they leave it open.
    pub fn server_files(&self) -> impl Iterator<Item = Brought> {
        let root = serde_json::Value::from(self.root.to_string_lossy()).to_string();
        let root = root.trim_matches('"').to_owned();
        self.servers.iter().map(move |Brought { path, text }| {
            let text = text.replace("${CLAUDE_PLUGIN_ROOT}", &root);
            Brought { path: path.clone(), text: text.replace("${PLUGIN_ROOT}", &root) }
        })
    }
}

/// The paths that a key names, each with its line; those that lead out are errors.
fn paths(node: Node<'_>) -> Vec<(usize, Result<PathBuf, String>)> {
    let one = |node: &Node<'_>| {
        let line = node.place().line() as usize;
        (line, node.string().map_err(|why| why.message().to_owned()).and_then(inside))
    };
    match node.list() {
        Ok(list) => list.map(|node| one(&node)).collect(),
        Err(_) => vec![one(&node)],
    }
}

/// A path from the root of a plugin that stays in it.
fn inside(path: &str) -> Result<PathBuf, String> {
    let shown = || text::clip(&text::show_line(path), 60).into_owned();
    let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
    let inside: PathBuf = parts.clone().collect();
    let stays = parts.clone().all(|part| matches!(part, Component::Normal(_)));
    match stays && !inside.as_os_str().is_empty() {
        true => Ok(inside),
        false => Err(format!("`{}` does not lead to something in the plugin", shown())),
    }
}
