//! Files that were written for other programs: `.claude`, `.agents` and plugins, of the project and of the
//! person's home folder.
//!
//! A project's are behind trust like its `.cotter`: settings, skills, agents and commands are read from the
//! copy that was trusted, and hooks run in place, their folder held against that copy before each start. The
//! home folder's are the person's own once they said that they are to be used.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use cotter::{
    Origin, Owner, Place,
    command_hook::{
        CommandHook, CommandLine, Dialect, OnFailure,
        claude::{self, Pinned},
    },
    files::{Diagnostic, Loading, Severity, plugin::Plugin},
    permission::{Mode, Rule, RuleKind},
    settings::{Document, Node, Object, Permissions, Settings, SettingsError, Source, Written},
    text,
    trust::{Declared, Invocation, Snapshot, Standing},
};
use cotter_tools::mcp::{McpServer, Servers};

use crate::{
    cli::RunArgs,
    failure::Failure,
    home, own_settings,
    screen::Screen,
    style::When,
    terminal::Terminal,
    trust::{Found, Where},
};

/// The settings files of a folder `.claude`, the nearest last.
const SETTINGS: [&str; 2] = ["settings.json", "settings.local.json"];

/// What one file or folder brings, as far as it is used.
#[derive(Default)]
pub(crate) struct Part {
    /// The file or folder, as its author knows it.
    pub(crate) path: PathBuf,
    pub(crate) origin: Option<Origin>,
    /// Whether its hooks may rewrite.
    pub(crate) rewrite: bool,
    /// Rules and hooks.
    pub(crate) settings: Settings,
    pub(crate) servers: Servers,
    /// Skills, commands and agents.
    pub(crate) brings: Vec<Brings>,
    /// What is not honoured, and why.
    pub(crate) told: Vec<Diagnostic>,
    /// Why nothing may start without it: it may have held a gate, and cannot be read.
    pub(crate) broken: Option<Failure>,
}

/// A folder with skills, commands and agents.
pub(crate) struct Brings {
    /// Where they are read from.
    pub(crate) folder: PathBuf,
    /// The same as its author knows it.
    pub(crate) shown: PathBuf,
    pub(crate) loading: Loading,
    /// The plugin it is.
    pub(crate) plugin: Option<Plugin>,
}

impl Part {
    fn new(path: &Path, origin: Origin) -> Self {
        Part { path: path.into(), origin: Some(origin), ..Part::default() }
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> Owner {
        let origin = self.origin.clone().unwrap_or(Origin::Project);
        let owner = Owner::new(origin, self.path.display().to_string());
        if self.rewrite { owner.with_rewrite() } else { owner }
    }
}

/// Whose settings are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Project,
    Own,
}

/// A trusted folder of the project: the copy, what stands for it, and whether it may rewrite.
struct Trusted<'a> {
    copy: &'a Path,
    pinned: Option<Pinned>,
    rewrite: bool,
    /// Whether it is as it was trusted: of another one only rules and hooks stay.
    current: bool,
}

impl<'a> Trusted<'a> {
    fn of(found: &'a Found) -> Option<Self> {
        let (copy, rewrite, current) = match &found.standing {
            Standing::Trusted { copy, grants, .. } => (copy, grants.rewrite, true),
            Standing::Changed { copy, .. } | Standing::Gone { copy, .. } => (copy, false, false),
            _ => return None,
        };
        // A copy goes by its hash.
        let hash =
            copy.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let pinned = hash.map(|hash| Pinned { folder: found.source.clone(), hash });
        Some(Trusted { copy, pinned, rewrite, current })
    }

    fn source(&self, path: &Path) -> claude::Source {
        let source = claude::Source::new(path);
        match &self.pinned {
            Some(pinned) => source.with_pinned(pinned.clone()),
            None => source,
        }
    }
}

/// What a project's `.claude` or `.agents` brings, where somebody trusts it.
pub(crate) fn of_project(found: &Found, home: bool, place: &Place) -> Result<Vec<Part>, Failure> {
    let Some(trusted) = Trusted::of(found) else { return Ok(vec![]) };
    let mut parts = vec![];
    match found.place() {
        Where::Claude => {
            let mut enabled = Enabled::new();
            for name in SETTINGS {
                let Some(bytes) = bytes(&trusted.copy.join(name))? else { continue };
                let path = found.source.join(name);
                let mut part = Part::new(&path, Origin::Project);
                part.rewrite = trusted.rewrite;
                let source = trusted.source(&path);
                enabled.extend(read(&mut part, &bytes, &source, Whose::Project)?);
                parts.push(part);
            }
            if home {
                parts.extend(switched_on_by_project(&enabled, place)?);
            }
        }
        Where::Agents => {
            for name in folders(&trusted.copy.join("plugins"))? {
                let plugin = At {
                    shown: &found.source.join("plugins").join(&name),
                    folder: &trusted.copy.join("plugins").join(&name),
                    origin: Origin::Project,
                    otherwise: Otherwise::Told,
                    way_out: "trust it anew once it is mended, or run without what the project brings: \
                              `--safe-mode`",
                };
                let mut part = plugin.read(|path| trusted.source(path));
                part.rewrite = trusted.rewrite;
                parts.push(part);
            }
        }
        Where::Cotter | Where::Servers => {}
    }
    // By a change nothing becomes looser: rules and hooks stay as they were trusted, nothing else does.
    if !trusted.current {
        for part in &mut parts {
            part.brings.clear();
            part.servers = Servers::default();
        }
    }
    Ok(parts)
}

/// What the home folder brings, where the person said that it is used, and plugins they named.
pub(crate) fn of_person(
    plugins: &[Written],
    home: bool,
    place: &Place,
) -> Result<Vec<Part>, Failure> {
    let mut parts = vec![];
    if home && let Some(folder) = own_folder(place, ".claude") {
        let mut part = Part::new(&folder, Origin::User);
        part.brings.push(own(&folder));
        parts.push(part);
        let mut enabled = Enabled::new();
        for name in SETTINGS {
            let path = folder.join(name);
            let Some(bytes) = bytes(&path)? else { continue };
            let mut part = Part::new(&path, Origin::User);
            enabled.extend(read(&mut part, &bytes, &claude::Source::new(&path), Whose::Own)?);
            parts.push(part);
        }
        parts.extend(installed(&folder, &enabled, Origin::User, place));
    }
    if home && let Some(folder) = own_folder(place, ".agents") {
        let mut part = Part::new(&folder, Origin::User);
        part.brings.push(own(&folder));
        parts.push(part);
        for name in folders(&folder.join("plugins"))? {
            let root = folder.join("plugins").join(name);
            let way_out = "mend it, or take its folder away";
            parts.push(own_plugin(&root, Origin::User, Otherwise::Told, way_out));
        }
    }
    for written in plugins {
        parts.push(named_plugin(written, place)?);
    }
    Ok(parts)
}

fn own(folder: &Path) -> Brings {
    let loading = Loading::trusted(Origin::User);
    Brings { folder: folder.into(), shown: folder.into(), loading, plugin: None }
}

/// A folder of the person's home, where it is theirs: not one that the project brings.
pub(crate) fn own_folder(place: &Place, name: &str) -> Option<PathBuf> {
    let folder = home::folder()?.join(name);
    (folder.is_dir() && !home::is_brought_by(&folder, place.project())).then_some(folder)
}

/// A plugin that the person's settings name.
fn named_plugin(written: &Written, place: &Place) -> Result<Part, Failure> {
    let root = match (written.text.strip_prefix("~/"), home::folder()) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(&written.text),
    };
    if !root.is_absolute() {
        let error = written.place.error(format!("`{}` is not a whole path", written.text));
        return Err(error.with_hint("begin it with `/` or `~/`").into());
    }
    if home::leads_through(&root, place.project()) {
        let error = written.place.error(format!("`{}` lies in the project", written.text));
        let hint = "what a repository brings is not yours; `.agents/plugins` is behind trust";
        return Err(error.with_hint(hint).into());
    }
    if !root.is_dir() {
        let error = written.place.error(format!("there is no folder `{}`", written.text));
        let error = error.with_hint("a gate may have been in it: take it out to go on without");
        let mut part = Part::new(&root, Origin::User);
        part.broken = Some(error.into());
        return Ok(part);
    }
    let way_out = format!("mend it, or take it out of `plugins` at {}", written.place);
    Ok(own_plugin(&root, Origin::User, Otherwise::Broken, &way_out))
}

/// What a folder is where a plugin should be, and nothing of one is in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// Something else, which is told.
    Told,
    /// A plugin that lost all it had: somebody counts on it.
    Broken,
}

/// Where a plugin lies.
struct At<'a> {
    /// As its author knows it.
    shown: &'a Path,
    /// Where it is read from.
    folder: &'a Path,
    origin: Origin,
    otherwise: Otherwise,
    /// What to do where it is broken.
    way_out: &'a str,
}

fn own_plugin(root: &Path, origin: Origin, otherwise: Otherwise, way_out: &str) -> Part {
    let at = At { shown: root, folder: root, origin, otherwise, way_out };
    at.read(|path| claude::Source::new(path))
}

impl At<'_> {
    /// What it brings. Where a gate of it may be lost, nothing of it counts, and nothing starts.
    fn read(&self, source: impl Fn(&Path) -> claude::Source) -> Part {
        let At { shown, folder, origin, .. } = self;
        let mut part = Part::new(shown, origin.clone());
        let nothing = || {
            let why = "it is no plugin: nothing of one is in it";
            Diagnostic::new(shown, None, Severity::Warning, why)
        };
        let plugin = match (Plugin::load(folder), self.otherwise) {
            (Ok(Some(plugin)), _) => plugin,
            (Ok(None), Otherwise::Told) => {
                part.told.push(nothing());
                return part;
            }
            (Ok(None), Otherwise::Broken) => return self.broken(part, nothing()),
            (Err(told), _) => return self.broken(part, told),
        };
        let plugin = self.as_known(plugin);
        if let Some(told) = plugin.broken.first() {
            let told = told.clone();
            return self.broken(part, told);
        }
        part.told.extend(plugin.diagnostics.iter().cloned());
        let (hooks, told) = plugin.command_hooks(source);
        part.settings.hooks = hooks;
        part.told.extend(told);
        for file in plugin.server_files() {
            part.servers =
                part.servers.or(servers(&plugin, &file.path, &file.text, &mut part.told));
        }
        let loading = Loading::trusted(origin.clone());
        let (folder, shown) = (folder.to_path_buf(), shown.to_path_buf());
        part.brings.push(Brings { folder, shown, loading, plugin: Some(plugin) });
        part
    }

    fn broken(&self, mut part: Part, mut told: Diagnostic) -> Part {
        self.name(&mut told.path);
        part.broken = Some(broken(&told, self.way_out));
        part
    }

    /// A plugin that was read from a copy, under the names its author knows.
    fn as_known(&self, mut plugin: Plugin) -> Plugin {
        plugin.hooks.iter_mut().chain(&mut plugin.servers).for_each(|file| {
            self.name(&mut file.path);
        });
        let told = plugin.diagnostics.iter_mut().chain(&mut plugin.broken);
        told.for_each(|told| self.name(&mut told.path));
        plugin.root = self.shown.to_owned();
        plugin
    }

    /// A path in it as its author knows it.
    fn name(&self, path: &mut PathBuf) {
        let real = self.folder.canonicalize().unwrap_or_else(|_| self.folder.to_owned());
        match path.strip_prefix(&real) {
            Ok(within) if within == Path::new("") => *path = self.shown.to_owned(),
            Ok(within) => *path = self.shown.join(within),
            Err(_) if path == self.folder => *path = self.shown.to_owned(),
            Err(_) => {}
        }
    }
}

/// The servers of a plugin, each by itself: one that cannot be read is told and left out.
fn servers(plugin: &Plugin, path: &Path, text: &str, told: &mut Vec<Diagnostic>) -> Servers {
    let shown = path.display().to_string();
    let mut reject = |line: Option<u32>, why: &str| {
        let line = line.map(|line| line as usize);
        told.push(Diagnostic::new(path, line, Severity::Rejected, why));
    };
    let document = match Document::parse(&shown, text) {
        Ok(document) => document,
        Err(why) => {
            reject(why.place().map(|place| place.line()), why.message());
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
            reject(why.place().map(|place| place.line()), why.message());
            return Servers::default();
        }
    };
    let mut found = vec![];
    for (name, node) in object.members().filter(|(name, _)| *name != "$schema") {
        let line = Some(node.place().line());
        let one = serde_json::json!({"mcpServers": {name: node.to_json()}}).to_string();
        let read = Document::parse(&shown, &one).and_then(|one| Servers::from_document(&one));
        match read {
            Ok(read) => found.extend(read.into_iter().map(|server| named(plugin, server))),
            Err(why) => {
                let name = text::clip(&text::show_line(name), 40).into_owned();
                reject(line, &format!("the server `{name}` cannot be read: {}", why.message()));
            }
        }
    }
    found.into_iter().collect()
}

/// A plugin's server, under the name that its tools are published by, where that can be one.
fn named(plugin: &Plugin, server: McpServer) -> McpServer {
    let name = format!("plugin_{}_{}", plugin.name, server.name());
    let Ok(mut named) = McpServer::new(&name, server.transport.clone()) else { return server };
    named.allow = server.allow.clone();
    named.deny = server.deny.clone();
    named.read_only = server.read_only.clone();
    named.timeout = server.timeout;
    named.start_timeout = server.start_timeout;
    named
}

/// Plugins that settings switch on and off, by `name@marketplace`, and the file that says so.
type Enabled = BTreeMap<String, (bool, PathBuf)>;

/// What a settings file says of plugins. A list of versions means that it is on.
fn enabled(object: &Object<'_>) -> Result<Vec<(String, bool)>, SettingsError> {
    let Some(node) = object.get("enabledPlugins") else { return Ok(vec![]) };
    let on = |node: Node<'_>| match node.list() {
        Ok(_) => Ok(true),
        Err(_) => node.bool(),
    };
    node.object()?.members().map(|(id, node)| Ok((id.to_owned(), on(node)?))).collect()
}

/// The plugins that are switched on, of those that Claude Code installed. Those that are not are told.
fn installed(folder: &Path, enabled: &Enabled, origin: Origin, place: &Place) -> Vec<Part> {
    let on: Vec<_> = enabled.iter().filter(|(_, (on, _))| *on).collect();
    if on.is_empty() {
        return vec![];
    }
    let path = folder.join("plugins/installed_plugins.json");
    let mut list = Part::new(&path, origin.clone());
    let shown = |id: &str| text::clip(&text::show_line(id), 80).into_owned();
    let known = match list_of_installed(&path) {
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
        let (root, id) = (known.get(id), shown(id));
        let way_out = format!(
            "mend it, {word}: `\"enabledPlugins\": {{\"{id}\": false}}` in {}",
            file.display()
        );
        match root {
            None => list.told.push(missing(said, &id, &origin)),
            Some(Some(root)) => parts.push(installed_plugin(root, &origin, place, &way_out)),
            Some(None) => {
                let why = format!("`{id}` has no `installPath` that is a whole path");
                let told = Diagnostic::new(&path, None, Severity::Rejected, why);
                list.broken = Some(broken(&told, &way_out));
            }
        }
    }
    let says = !list.told.is_empty() || list.broken.is_some();
    parts.extend(says.then_some(list));
    parts
}

/// What is said of a plugin that is switched on and not installed. A project may name what nobody has.
fn missing(said: &Path, id: &str, origin: &Origin) -> Diagnostic {
    let severity = match origin {
        Origin::Project => Severity::Warning,
        _ => Severity::Rejected,
    };
    let why = format!("the plugin `{id}` is switched on and not installed: nothing of it is used");
    Diagnostic::new(said, None, severity, why)
}

/// Why nothing starts.
fn broken(told: &Diagnostic, way_out: &str) -> Failure {
    let hint = format!("a gate may be in it, so nothing runs: {way_out}");
    Failure::new(told.to_string()).with_hint(hint)
}

/// What is installed, and where it lies, as far as that can be told. No list: nothing is.
fn list_of_installed(path: &Path) -> Result<BTreeMap<String, Option<PathBuf>>, Failure> {
    let Some(document) = Document::load(path)? else { return Ok(BTreeMap::new()) };
    let root = |node: Node<'_>| {
        // One entry, or a list of them by scope.
        let entry = node.list().map_or(Some(node), |mut list| list.next())?;
        let path = entry.object().ok()?.get("installPath")?;
        Some(PathBuf::from(path.string().ok()?)).filter(|path| path.is_absolute())
    };
    let plugins = document.root().object()?.require("plugins")?.object()?;
    Ok(plugins.members().map(|(id, node)| (id.to_owned(), root(node))).collect())
}

/// One that Claude Code installed. What lies in the project is not the person's, whatever a list says.
fn installed_plugin(root: &Path, origin: &Origin, place: &Place, way_out: &str) -> Part {
    if !home::leads_through(root, place.project()) {
        return own_plugin(root, origin.clone(), Otherwise::Broken, way_out);
    }
    let mut part = Part::new(root, origin.clone());
    let why = "it lies in the project, and is not used as one of yours";
    part.told.push(Diagnostic::new(root, None, Severity::Rejected, why));
    part
}

/// Plugins of the person's that a trusted project switches on: they may no more than the project may.
fn switched_on_by_project(switched: &Enabled, place: &Place) -> Result<Vec<Part>, Failure> {
    let Some(folder) = own_folder(place, ".claude") else { return Ok(vec![]) };
    let mut switched = switched.clone();
    // What the person says of a plugin themselves holds, either way.
    for name in SETTINGS {
        let Some(document) = Document::load(&folder.join(name))? else { continue };
        for (id, _) in enabled(&document.root().object()?)? {
            switched.remove(&id);
        }
    }
    Ok(installed(&folder, &switched, Origin::Project, place))
}

/// The most plugins in a folder of them.
const MOST_PLUGINS: usize = 1000;

/// The names of folders in a folder, in order, hidden ones left out. A link to one counts where it is the
/// person's; in what is trusted there is none.
fn folders(folder: &Path) -> Result<Vec<OsString>, Failure> {
    let cannot = |cause: io::Error| {
        Failure::new(format!("{} cannot be read", folder.display())).with_cause(cause)
    };
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(cannot)?,
    };
    let mut names = vec![];
    for entry in entries {
        let name = entry.map_err(cannot)?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") && folder.join(&name).is_dir() {
            names.push(name);
        }
        if names.len() > MOST_PLUGINS {
            let why = format!("{} has more than {MOST_PLUGINS} folders in it", folder.display());
            return Err(Failure::new(why).with_hint("a gate may be in any of them: take some away"));
        }
    }
    names.sort();
    Ok(names)
}

fn bytes(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => {
            Err(Failure::new(format!("{} cannot be read", path.display())).with_cause(cause))
        }
    }
}

/// Keys of a settings file that mean nothing here, and why.
const LEFT_ALONE: &[(&str, &str)] = &[
    ("env", "variables are `environment` in your own settings"),
    ("model", "models are named `provider/model`, in your own settings"),
    ("apiKeyHelper", "keys come from variables or the file of keys"),
    ("sandbox", "how commands are confined is `sandbox` in your own settings"),
    ("mcpServers", "servers stand in `.mcp.json`"),
    ("enableAllProjectMcpServers", "servers of `.mcp.json` are used once they are trusted"),
    ("enabledMcpjsonServers", "servers of `.mcp.json` are used once they are trusted"),
    ("disabledMcpjsonServers", "`tools` of an entry limits a server"),
    ("extraKnownMarketplaces", "nothing is installed from here"),
    ("statusLine", "there is none"),
    ("outputStyle", "there is none"),
];

/// Keys that are read, or that say nothing about what is done.
const READ: [&str; 7] = [
    "$schema",
    "hooks",
    "permissions",
    "enabledPlugins",
    "disableAllHooks",
    "includeCoAuthoredBy",
    "cleanupPeriodDays",
];

/// Reads a settings file into a part; gives the plugins it switches on and off.
fn read(
    part: &mut Part,
    bytes: &[u8],
    source: &claude::Source,
    whose: Whose,
) -> Result<Enabled, Failure> {
    let document = Document::parse_bytes(&part.path.display().to_string(), bytes)?;
    let object = document.root().object()?;
    // What is no object at all may have been meant as a gate.
    object.get("hooks").map(|hooks| hooks.object()).transpose()?;
    let (hooks, told) = claude::read(&document, source);
    part.settings.hooks = hooks;
    part.told.extend(told);
    for (key, node) in object.members().filter(|(key, _)| !READ.contains(key)) {
        let shown = text::clip(&text::show_line(key), 60).into_owned();
        let why = match LEFT_ALONE.iter().find(|(name, _)| *name == key) {
            Some((_, why)) => format!("`{shown}` is not honoured: {why}"),
            None => format!("`{shown}` is not known and left alone"),
        };
        say(part, &node, Severity::Warning, why);
    }
    if let Some(node) = object.get("permissions") {
        part.settings.permissions = permissions(part, &node.object()?, whose)?;
    }
    part.settings.source = Some(match whose {
        Whose::Project => Source::Project,
        Whose::Own => Source::User,
    });
    let said = enabled(&object)?.into_iter();
    Ok(said.map(|(id, on)| (id, (on, part.path.clone()))).collect())
}

fn say(part: &mut Part, node: &Node<'_>, severity: Severity, what: impl Into<String>) {
    let line = Some(node.place().line() as usize);
    part.told.push(Diagnostic::new(&part.path, line, severity, what));
}

/// Rules and mode. What would loosen counts in the person's own file alone.
fn permissions(part: &mut Part, object: &Object<'_>, whose: Whose) -> Result<Permissions, Failure> {
    let mut permissions = Permissions::default();
    for (key, node) in object.members() {
        match key {
            "deny" => permissions.deny = rules(part, &node, RuleKind::Deny)?,
            "ask" => permissions.ask = rules(part, &node, RuleKind::Ask)?,
            "allow" if whose == Whose::Own => {
                permissions.allow = rules(part, &node, RuleKind::Allow)?;
            }
            "allow" => {
                let why = "`allow` is not honoured: a project may only tighten";
                say(part, &node, Severity::Warning, why);
            }
            "defaultMode" => permissions.mode = mode(part, &node, whose),
            "disableBypassPermissionsMode" => {}
            _ => {
                let key = text::clip(&text::show_line(key), 60).into_owned();
                say(part, &node, Severity::Warning, format!("`{key}` is not honoured"));
            }
        }
    }
    Ok(permissions)
}

fn mode(part: &mut Part, node: &Node<'_>, whose: Whose) -> Option<Mode> {
    match node.string().unwrap_or_default() {
        "plan" => Some(Mode::Plan),
        "acceptEdits" if whose == Whose::Own => Some(Mode::AcceptEdits),
        "default" => None,
        other => {
            let other = text::clip(&text::show_line(other), 40).into_owned();
            let why = match whose {
                Whose::Project => "a project may only tighten",
                Whose::Own => "there is no such mode here",
            };
            let why = format!("`defaultMode` `{other}` is not honoured: {why}");
            say(part, node, Severity::Warning, why);
            None
        }
    }
}

/// The rules of a list. One that denies or asks and cannot be read holds for every call of its tool.
fn rules(part: &mut Part, node: &Node<'_>, kind: RuleKind) -> Result<Vec<Written>, Failure> {
    let mut rules = vec![];
    for node in node.list()? {
        let (text, place) = (node.non_empty_string()?, node.place());
        let Err(why) = Rule::parse(kind, text) else {
            rules.push(Written { text: text.into(), place });
            continue;
        };
        if kind == RuleKind::Allow {
            say(part, &node, Severity::Repaired, format!("{why}: it allows nothing"));
            continue;
        }
        let tool = text.split('(').next().unwrap_or_default().trim();
        Rule::parse(kind, tool).map_err(|_| place.error(why.to_string()))?;
        say(part, &node, Severity::Repaired, format!("{why}: it holds for every call of `{tool}`"));
        rules.push(Written { text: tool.into(), place });
    }
    Ok(rules)
}

/// What hooks written for Claude Code are together: nothing twice, each under a name of its own within its
/// origin, and with the one word on failures.
pub(crate) fn settle<'a>(
    units: impl Iterator<Item = (Origin, &'a mut Vec<CommandHook>)>,
    on_failure: OnFailure,
) {
    let mut earlier: Vec<(Origin, CommandHook)> = vec![];
    let mut names: Vec<(Origin, smol_str::SmolStr)> = vec![];
    for (origin, hooks) in units {
        if on_failure == OnFailure::Block {
            let theirs = hooks.iter_mut().filter(|hook| is_claude(hook));
            theirs.for_each(|hook| hook.on_failure = OnFailure::Block);
        }
        // Whoever else has the same: what one origin switches off, another keeps.
        let same: Vec<_> = earlier.iter().filter(|(of, _)| *of == origin).collect();
        let same: Vec<_> = same.into_iter().map(|(_, hook)| hook.clone()).collect();
        *hooks = claude::without_repeats(&same, std::mem::take(hooks));
        for hook in hooks.iter_mut() {
            let taken = |name: &str| names.iter().any(|(of, known)| *of == origin && known == name);
            if is_claude(hook) && taken(&hook.name) {
                let mut numbered = (2..).map(|n| smol_str::format_smolstr!("{}#{n}", hook.name));
                let free = numbered.find(|name| !taken(name));
                hook.name = free.unwrap_or_else(|| hook.name.clone());
                hook.declared.name = Some(hook.name.clone());
            }
            names.push((origin.clone(), hook.name.clone()));
        }
        earlier.extend(hooks.iter().map(|hook| (origin.clone(), hook.clone())));
    }
}

fn is_claude(hook: &CommandHook) -> bool {
    matches!(hook.dialect, Dialect::Claude(_))
}

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

/// What of the person's home folder would be used, where something would.
pub(crate) fn at_home(place: &Place) -> Vec<PathBuf> {
    const BRINGS: [&str; 6] =
        ["settings.json", "settings.local.json", "skills", "agents", "commands", "plugins"];
    let folders = [".claude", ".agents"].into_iter().filter_map(|name| own_folder(place, name));
    folders.filter(|folder| BRINGS.iter().any(|name| folder.join(name).exists())).collect()
}

/// What is watched of the home folder.
pub(crate) fn watched(place: &Place) -> Vec<PathBuf> {
    const NAMES: [&str; 6] = [
        "settings.json",
        "settings.local.json",
        "skills",
        "agents",
        "commands",
        "plugins/installed_plugins.json",
    ];
    let folders = at_home(place).into_iter();
    let names = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
    names.chain(own_folder(place, ".agents").map(|folder| folder.join("plugins"))).collect()
}

/// Asks once whether the home folder's files are used. Where nobody can be asked they are not, which is told
/// once.
pub(crate) async fn ask_home(
    place: &Place,
    args: &RunArgs,
    style: When,
) -> Result<Option<String>, Failure> {
    let found = at_home(place);
    let Some(path) = home::user_settings().filter(|_| !found.is_empty() && !args.shape.safe_mode)
    else {
        return Ok(None);
    };
    // A file that cannot be read is told when everything is.
    let said = Settings::load(&path, Source::User).map(|read| read.unwrap_or_default());
    if said.map_or(true, |said| said.foreign.home.is_some()) {
        return Ok(None);
    }
    let shown: Vec<_> = found.iter().map(|path| crate::trust::shown(path)).collect();
    let shown = shown.join(" and ");
    let terminal = args.ask.then(|| Terminal::open(style, Screen::default()).ok()).flatten();
    let Some(terminal) = terminal else { return Ok(headless(&shown)) };
    let question = format!(
        "Also use what is in {shown}?\nIts hooks, rules, skills, agents, commands and plugins would be \
         yours here too. The answer is kept in {}.\n",
        crate::trust::shown(&path)
    );
    let read = |line: &str| match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("type y or n".to_owned()),
    };
    let asked = async {
        terminal.put(&question).await?;
        terminal.answer("[y]es, [n]o: ", read).await
    };
    if let Ok(Some(answer)) = asked.await {
        own_settings::use_home(answer)?;
    }
    Ok(None)
}

/// What is said where nobody can be asked, the first time.
fn headless(shown: &str) -> Option<String> {
    let mark = home::told_of_claude()?;
    if mark.exists() {
        return None;
    }
    // Where it cannot be kept it is said again.
    let _ = home::write_private(&mark, b"");
    Some(format!(
        "what is in {shown} is not used: `\"claude\": {{\"home\": true}}` in your settings says that it is, \
         `false` that it never is"
    ))
}
