//! Files that were written for other programs: `.claude`, `.agents` and plugins, of the project and of the
//! person's home folder.
//!
//! A project's files are behind trust like its `.cotter`. Settings, skills, agents and commands are read from
//! the trusted copy. Hooks run in place, and their folder is compared with that copy before each start. The
//! files of the home folder are the person's own, and are used once the person agreed.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    claude::{
        self,
        installed::{
            EmptyFolderPolicy, PluginLocation, installed, load_project_enabled, named_plugin,
            read_personal_plugin, report_unused_plugins,
        },
        pinned::PinnedFolder,
        plugin::Plugin,
        settings::{ClaudeScope, EnabledPlugins, read},
    },
    command_hook::{
        self,
        entry::{CommandHook, OnFailure},
    },
    document::{
        Document,
        location::{SettingsError, SourcedText},
    },
    extensions::LoadContext,
    folder::{diagnostic::Diagnostic, links},
    settings::{Settings, mcp_servers::Servers},
    trust::{
        snapshot::Snapshot,
        source::{SourceKind, TrustSource, possible_sources},
        state::LOCAL_SETTINGS,
        store::TrustState,
    },
};
use cotter::{Origin, Owner, Workspace};

/// The person's home folder, seen from a project. The caller looks it up.
#[derive(Clone, Debug)]
pub struct HomeFolder<'a> {
    /// The path, if there is a home folder.
    pub path: Option<PathBuf>,
    /// The folders of the run.
    pub workspace: &'a Workspace,
}

impl HomeFolder<'_> {
    /// True if a path in the home folder, or a path that the person's files name, belongs to the project. If
    /// the project is the home folder or a folder above it, the path belongs to the person.
    pub(crate) fn belongs_to_project(&self, path: &Path) -> bool {
        let project = self.workspace.project();
        let contains_home = self.path.as_ref().is_some_and(|home| links::is_above(project, home));
        !contains_home && links::leads_through(path, project)
    }

    /// The folders `.claude` and `.agents` that belong to the person and have contents that are used.
    pub fn found_folders(&self) -> Vec<PathBuf> {
        const USED_NAMES: [&str; 6] =
            ["settings.json", "settings.local.json", "skills", "agents", "commands", "plugins"];
        let folders = [".claude", ".agents"].into_iter().filter_map(|name| own_folder(self, name));
        folders.filter(|folder| USED_NAMES.iter().any(|name| folder.join(name).exists())).collect()
    }
}

/// The settings files of a folder `.claude`, in reading order: the more local file is last.
pub const SETTINGS: [&str; 2] = ["settings.json", LOCAL_SETTINGS];

/// The contents of one file or folder that are used.
#[derive(Default)]
pub struct ClaudeUnit {
    /// The file or folder, as its author knows it.
    pub path: PathBuf,
    /// The origin of its owner.
    pub origin: Option<Origin>,
    /// True if its hooks may rewrite.
    pub rewrite: bool,
    /// Rules and hooks.
    pub settings: Settings,
    /// Servers of the Model Context Protocol.
    pub servers: Servers,
    /// Skills, commands and agents.
    pub extension_folders: Vec<ExtensionFolder>,
    /// Diagnostics about the parts that are not used, and why.
    pub diagnostics: Vec<Diagnostic>,
    /// The error because of which nothing may start: the file may have held a gate, and cannot be read.
    pub broken: Option<SettingsError>,
}

/// A folder with skills, commands and agents.
pub struct ExtensionFolder {
    /// The folder that the files are read from.
    pub folder: PathBuf,
    /// The path of the folder that its author knows.
    pub shown: PathBuf,
    /// The owner's origin and rights for loading.
    pub loading: LoadContext,
    /// The plugin that the folder is, if it is one.
    pub plugin: Option<Plugin>,
}

impl ClaudeUnit {
    pub(crate) fn new(path: &Path, origin: Origin) -> Self {
        ClaudeUnit { path: path.into(), origin: Some(origin), ..ClaudeUnit::default() }
    }

    /// The owner of everything in this unit.
    pub fn owner(&self) -> Owner {
        let origin = self.origin.clone().unwrap_or(Origin::Project);
        let owner = Owner::new(origin, self.path.display().to_string());
        if self.rewrite { owner.with_rewrite() } else { owner }
    }
}

/// A trusted folder of the project: the copy, its pinned hash, and the right to rewrite.
struct TrustedFolder<'a> {
    copy: &'a Path,
    pinned: Option<PinnedFolder>,
    rewrite: bool,
    /// True if the folder is still as it was trusted. If not, only rules and hooks stay in use.
    current: bool,
}

impl<'a> TrustedFolder<'a> {
    /// The local settings of a folder, if they are trusted. Their hooks run code of the folder, so it must be
    /// as it was trusted, or empty.
    fn of_local_settings(found: &'a TrustSource, folder: Option<&Self>) -> Option<Self> {
        let local = TrustedFolder::of(found)?;
        let path = found.source.parent()?.to_owned();
        let no_files = || PinnedFolder { folder: path, hash: Snapshot::hash_of_nothing() };
        let pinned = folder.and_then(|folder| folder.pinned.clone()).unwrap_or_else(no_files);
        Some(TrustedFolder { pinned: Some(pinned), ..local })
    }

    fn of(found: &'a TrustSource) -> Option<Self> {
        let (copy, rewrite, current) = match &found.state {
            TrustState::Trusted { copy, grants, .. } => (copy, grants.rewrite, true),
            TrustState::Changed { copy, .. } | TrustState::Gone { copy, .. } => {
                (copy, false, false)
            }
            _ => return None,
        };
        // The name of a copy is its hash.
        let hash =
            copy.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let pinned = hash.map(|hash| PinnedFolder { folder: found.source.clone(), hash });
        Some(TrustedFolder { copy, pinned, rewrite, current })
    }

    fn source(&self, path: &Path) -> claude::ClaudeFile {
        let source = claude::ClaudeFile::new(path);
        match &self.pinned {
            Some(pinned) => source.with_pinned(pinned.clone()),
            None => source,
        }
    }
}

/// The units of a project's `.claude`, its local settings or `.agents`, if they are trusted. `sources` are all
/// sources of the project.
pub fn load_project(
    found: &TrustSource,
    sources: &[TrustSource],
    use_home: bool,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let at = |path: &Path| sources.iter().find(|source| source.source == path);
    match found.kind() {
        SourceKind::Claude => {
            let local = at(&found.source.join(LOCAL_SETTINGS));
            load_claude(&found.source, TrustedFolder::of(found), local, use_home, home)
        }
        SourceKind::LocalSettings => match found.source.parent() {
            Some(folder) if at(folder).is_none() => {
                load_claude(folder, None, Some(found), use_home, home)
            }
            // They are loaded with their folder, which is a source.
            _ => Ok(vec![]),
        },
        SourceKind::Agents => TrustedFolder::of(found)
            .map_or(Ok(vec![]), |trusted| load_agents(&found.source, &trusted)),
        SourceKind::Cotter | SourceKind::Servers => Ok(vec![]),
    }
}

/// The units of a `.claude` and of its local settings, each if it is trusted.
fn load_claude(
    shown: &Path,
    folder: Option<TrustedFolder<'_>>,
    local: Option<&TrustSource>,
    use_home: bool,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let local = local.and_then(|local| TrustedFolder::of_local_settings(local, folder.as_ref()));
    let mut units = vec![];
    let mut enabled = EnabledPlugins::new();
    for (name, trusted) in SETTINGS.into_iter().zip([&folder, &local]) {
        let Some(trusted) = trusted else { continue };
        let path = shown.join(name);
        let Some(document) = read_copy(&trusted.copy.join(name), &path)? else { continue };
        let mut unit = ClaudeUnit::new(&path, Origin::Project);
        unit.rewrite = trusted.rewrite;
        let source = trusted.source(&path);
        enabled.extend(read(&mut unit, &document, &source, ClaudeScope::Project)?);
        units.push(unit);
    }
    units.extend(match use_home {
        true => load_project_enabled(&enabled, home)?,
        false => report_unused_plugins(&enabled),
    });
    if [&folder, &local].into_iter().flatten().any(|trusted| !trusted.current) {
        keep_only_gates(&mut units);
    }
    Ok(units)
}

/// The units of the plugins in a trusted `.agents`.
fn load_agents(
    shown: &Path,
    trusted: &TrustedFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut units = vec![];
    for name in folders(&trusted.copy.join("plugins"))? {
        let plugin = PluginLocation {
            shown: &shown.join("plugins").join(&name),
            folder: &trusted.copy.join("plugins").join(&name),
            origin: Origin::Project,
            empty_folder_policy: EmptyFolderPolicy::Warn,
            hint: "fix it and trust it again, or run without the project's extensions: \
                   `--safe-mode`",
        };
        let mut unit = plugin.read(|path| trusted.source(path));
        unit.rewrite = trusted.rewrite;
        units.push(unit);
    }
    if !trusted.current {
        keep_only_gates(&mut units);
    }
    Ok(units)
}

/// Drops everything but rules and hooks, which stay as they were trusted: a change loosens nothing.
fn keep_only_gates(units: &mut [ClaudeUnit]) {
    for unit in units {
        unit.extension_folders.clear();
        unit.servers = Servers::default();
    }
}

/// The units of the home folder, if the person enabled it, and of the plugins that the person
/// named.
pub fn load_person(
    plugins: &[SourcedText],
    use_home: bool,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut units = vec![];
    for name in [".claude", ".agents"].into_iter().filter(|_| use_home) {
        match home_folder(home, name) {
            Ok(None) => {}
            Ok(Some(folder)) if name == ".claude" => units.extend(load_home_claude(&folder, home)?),
            Ok(Some(folder)) => units.extend(load_home_agents(&folder, home)?),
            Err((path, failure)) => {
                units.push(ClaudeUnit {
                    broken: Some(failure),
                    ..ClaudeUnit::new(&path, Origin::User)
                });
            }
        }
    }
    for written in plugins {
        units.push(named_plugin(written, home)?);
    }
    Ok(units)
}

/// The units of the home folder's `.claude`.
fn load_home_claude(
    folder: &Path,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut unit = ClaudeUnit::new(folder, Origin::User);
    unit.extension_folders.push(personal_folder(folder));
    let mut units = vec![unit];
    let mut enabled = EnabledPlugins::new();
    for name in SETTINGS {
        let path = folder.join(name);
        let Some(document) = Document::load(&path)? else { continue };
        if home.belongs_to_project(&path) {
            return Err(leads_into_project_error(&path));
        }
        let mut unit = ClaudeUnit::new(&path, Origin::User);
        enabled.extend(read(
            &mut unit,
            &document,
            &claude::ClaudeFile::new(&path),
            ClaudeScope::Own,
        )?);
        units.push(unit);
    }
    units.extend(installed(folder, &enabled, Origin::User, home));
    Ok(units)
}

/// The units of the home folder's `.agents`.
fn load_home_agents(
    folder: &Path,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut unit = ClaudeUnit::new(folder, Origin::User);
    unit.extension_folders.push(personal_folder(folder));
    let mut units = vec![unit];
    for name in folders(&folder.join("plugins"))? {
        let root = folder.join("plugins").join(name);
        let hint = "fix it, or remove its folder";
        units.push(read_personal_plugin(&root, &Origin::User, EmptyFolderPolicy::Warn, home, hint));
    }
    Ok(units)
}

fn personal_folder(folder: &Path) -> ExtensionFolder {
    let loading = LoadContext::trusted(Origin::User);
    ExtensionFolder { folder: folder.into(), shown: folder.into(), loading, plugin: None }
}

/// A folder of the person's home, if it belongs to the person and not to the project.
fn own_folder(home: &HomeFolder<'_>, name: &str) -> Option<PathBuf> {
    home_folder(home, name).ok().flatten()
}

/// A folder of the person's home. An error says why an existing folder is not used: a gate may be in it.
pub(crate) fn home_folder(
    home: &HomeFolder<'_>,
    name: &str,
) -> Result<Option<PathBuf>, (PathBuf, SettingsError)> {
    let Some(folder) = home.path.as_ref().map(|home| home.join(name)) else { return Ok(None) };
    let is_missing = |cause: &io::Error| {
        matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let failure = match fs::metadata(&folder) {
        Err(cause) if is_missing(&cause) && !folder.is_symlink() => return Ok(None),
        Err(cause) => unreadable(&folder, cause),
        Ok(metadata) if !metadata.is_dir() => {
            unreadable(&folder, io::Error::other("it is not a folder"))
        }
        Ok(_) if !home.belongs_to_project(&folder) => return Ok(Some(folder)),
        // The folder is one of the project's sources, behind trust.
        Ok(_) if is_source(&folder, home) => return Ok(None),
        Ok(_) => leads_into_project_error(&folder),
    };
    Err((folder, failure))
}

fn is_source(folder: &Path, home: &HomeFolder<'_>) -> bool {
    let sources = || possible_sources(home.workspace, home.path.as_deref());
    folder.canonicalize().is_ok_and(|real| sources().contains(&real))
}

const HOME_HINT: &str = "a gate may be in it, so nothing runs: fix it, or disable the home folder with \
                       `\"claude\": {\"home\": false}` in your settings";

fn unreadable(path: &Path, cause: io::Error) -> SettingsError {
    let failure = SettingsError::without_file(format!("{} cannot be read", path.display()));
    failure.with_source(cause).with_hint(HOME_HINT)
}

fn leads_into_project_error(path: &Path) -> SettingsError {
    let message =
        format!("{} leads into the project, so it is not used as your own", path.display());
    SettingsError::without_file(message).with_hint(HOME_HINT)
}

/// The maximum number of plugins in a folder of plugins.
const MAX_PLUGINS: usize = 1000;

/// The sorted names of the folders in a folder, without hidden ones. A link in the person's folder counts,
/// even a broken one, because its target may have existed. A trusted copy has no links.
fn folders(folder: &Path) -> Result<Vec<OsString>, SettingsError> {
    let cannot = |cause: io::Error| {
        SettingsError::without_file(format!("{} cannot be read", folder.display()))
            .with_source(cause)
    };
    let is_missing = |cause: &io::Error| cause.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(folder) {
        Err(cause) if is_missing(&cause) && !folder.is_symlink() => return Ok(vec![]),
        entries => entries.map_err(cannot)?,
    };
    let mut names = vec![];
    for entry in entries {
        let name = entry.map_err(cannot)?.file_name();
        let path = folder.join(&name);
        let is_folder = match fs::metadata(&path) {
            Ok(metadata) => metadata.is_dir(),
            Err(cause) => !is_missing(&cause) || path.is_symlink(),
        };
        if !name.as_encoded_bytes().starts_with(b".") && is_folder {
            names.push(name);
        }
        if names.len() > MAX_PLUGINS {
            let why = format!("{} contains more than {MAX_PLUGINS} folders", folder.display());
            return Err(SettingsError::without_file(why)
                .with_hint("a gate may be in any of them: remove some"));
        }
    }
    names.sort();
    Ok(names)
}

/// A file of a copy, shown by its author's path. We wrote the copy, so the file is a plain file within the
/// size limit.
fn read_copy(path: &Path, shown: &Path) -> Result<Option<Document>, SettingsError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(Document::parse_bytes(&shown.display().to_string(), &bytes)?)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => {
            Err(SettingsError::without_file(format!("{} cannot be read", shown.display()))
                .with_source(cause))
        }
    }
}

/// Merges hooks written for Claude Code: removes repeats, gives each hook a unique name within its
/// origin, and lets failures block if `on_failure` says so.
pub fn merge_hooks<'a>(
    units: impl Iterator<Item = (Origin, &'a mut Vec<CommandHook>)>,
    on_failure: OnFailure,
) {
    let mut units: Vec<_> = units.collect();
    let mut earlier: Vec<(Origin, CommandHook)> = vec![];
    for (origin, hooks) in &mut units {
        if on_failure == OnFailure::Block {
            let claude_hooks = hooks.iter_mut().filter(|hook| is_claude(hook));
            claude_hooks.for_each(|hook| hook.on_failure = OnFailure::Block);
        }
        // Repeats are removed within one origin only: a hook that one origin disables stays in another
        // origin.
        let same_origin = earlier.iter().filter(|(of, _)| of == origin);
        let same_origin: Vec<_> = same_origin.map(|(_, hook)| hook.clone()).collect();
        **hooks = claude::drop_repeats(&same_origin, std::mem::take(hooks));
        earlier.extend(hooks.iter().map(|hook| (origin.clone(), hook.clone())));
    }
    let mut origins: Vec<Origin> = vec![];
    for (origin, _) in &units {
        if !origins.contains(origin) {
            origins.push(origin.clone());
        }
    }
    for origin in origins {
        let of_origin = units.iter_mut().filter(|(of, _)| *of == origin);
        let mut hooks: Vec<_> = of_origin.flat_map(|(_, hooks)| hooks.iter_mut()).collect();
        command_hook::assign_names_in_origin(&mut hooks);
    }
}

fn is_claude(hook: &CommandHook) -> bool {
    claude::ClaudeEntry::of(hook).is_some()
}

/// The paths of the home folder that are watched.
pub fn watched_paths(home: &HomeFolder<'_>) -> Vec<PathBuf> {
    const NAMES: [&str; 6] = [
        "settings.json",
        "settings.local.json",
        "skills",
        "agents",
        "commands",
        "plugins/installed_plugins.json",
    ];
    let folders = home.found_folders().into_iter();
    let names = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
    names.chain(own_folder(home, ".agents").map(|folder| folder.join("plugins"))).collect()
}
