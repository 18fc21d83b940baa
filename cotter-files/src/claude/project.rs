//! Files that were written for other programs: `.claude`, `.agents` and plugins, of the project and of the
//! person's home folder.
//!
//! A project's are behind trust like its `.cotter`: settings, skills, agents and commands are read from the
//! copy that was trusted, and hooks run in place, their folder held against that copy before each start. The
//! home folder's are the person's own once they said that they are to be used.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    claude::{
        self,
        installed::{
            EmptyFolderPolicy, PluginLocation, installed, left_out, named_plugin, persons_plugin,
            switched_on_by_project,
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
        source::{SourceKind, TrustSource, possible_sources},
        store::TrustState,
    },
};
use cotter::{Origin, Owner, Workspace};

/// The person's home folder, seen from a project. The caller looks for it.
#[derive(Clone, Debug)]
pub struct HomeFolder<'a> {
    /// Where it is, if there is one.
    pub path: Option<PathBuf>,
    /// The folders of the run.
    pub workspace: &'a Workspace,
}

impl HomeFolder<'_> {
    /// True if a path in the home folder, or one that the person's files name, is the project's. It is the
    /// person's also where the project contains it, if the project is their home folder or above it.
    pub(crate) fn is_projects(&self, path: &Path) -> bool {
        let project = self.workspace.project();
        let contains_home = self.path.as_ref().is_some_and(|home| links::is_above(project, home));
        !contains_home && links::leads_through(path, project)
    }

    /// Its folders `.claude` and `.agents`, as far as they are the person's and hold something that is used.
    pub fn brings(&self) -> Vec<PathBuf> {
        const BRINGS: [&str; 6] =
            ["settings.json", "settings.local.json", "skills", "agents", "commands", "plugins"];
        let folders = [".claude", ".agents"].into_iter().filter_map(|name| own_folder(self, name));
        folders.filter(|folder| BRINGS.iter().any(|name| folder.join(name).exists())).collect()
    }
}

/// The settings files of a folder `.claude`, the nearest last.
pub const SETTINGS: [&str; 2] = ["settings.json", "settings.local.json"];

/// What one file or folder brings, as far as it is used.
#[derive(Default)]
pub struct ClaudeUnit {
    /// The file or folder, as its author knows it.
    pub path: PathBuf,
    /// The class of its owner.
    pub origin: Option<Origin>,
    /// Whether its hooks may rewrite.
    pub rewrite: bool,
    /// Rules and hooks.
    pub settings: Settings,
    /// Servers of the Model Context Protocol.
    pub servers: Servers,
    /// Skills, commands and agents.
    pub brings: Vec<ExtensionFolder>,
    /// What is not honoured, and why.
    pub told: Vec<Diagnostic>,
    /// Why nothing may start without it: it may have held a gate, and cannot be read.
    pub broken: Option<SettingsError>,
}

/// A folder with skills, commands and agents.
pub struct ExtensionFolder {
    /// Where they are read from.
    pub folder: PathBuf,
    /// The same as its author knows it.
    pub shown: PathBuf,
    /// Whose they are.
    pub loading: LoadContext,
    /// The plugin it is.
    pub plugin: Option<Plugin>,
}

impl ClaudeUnit {
    pub(crate) fn new(path: &Path, origin: Origin) -> Self {
        ClaudeUnit { path: path.into(), origin: Some(origin), ..ClaudeUnit::default() }
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        let origin = self.origin.clone().unwrap_or(Origin::Project);
        let owner = Owner::new(origin, self.path.display().to_string());
        if self.rewrite { owner.with_rewrite() } else { owner }
    }
}

/// A trusted folder of the project: the copy, what stands for it, and whether it may rewrite.
struct TrustedFolder<'a> {
    copy: &'a Path,
    pinned: Option<PinnedFolder>,
    rewrite: bool,
    /// Whether it is as it was trusted: of another one only rules and hooks stay.
    current: bool,
}

impl<'a> TrustedFolder<'a> {
    fn of(found: &'a TrustSource) -> Option<Self> {
        let (copy, rewrite, current) = match &found.standing {
            TrustState::Trusted { copy, grants, .. } => (copy, grants.rewrite, true),
            TrustState::Changed { copy, .. } | TrustState::Gone { copy, .. } => {
                (copy, false, false)
            }
            _ => return None,
        };
        // A copy goes by its hash.
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

/// What a project's `.claude` or `.agents` brings, where somebody trusts it.
pub fn of_project(
    found: &TrustSource,
    use_home: bool,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let Some(trusted) = TrustedFolder::of(found) else { return Ok(vec![]) };
    let mut parts = vec![];
    match found.kind() {
        SourceKind::Claude => {
            let mut enabled = EnabledPlugins::new();
            for name in SETTINGS {
                let path = found.source.join(name);
                let Some(document) = copied(&trusted.copy.join(name), &path)? else { continue };
                let mut part = ClaudeUnit::new(&path, Origin::Project);
                part.rewrite = trusted.rewrite;
                let source = trusted.source(&path);
                enabled.extend(read(&mut part, &document, &source, ClaudeScope::Project)?);
                parts.push(part);
            }
            parts.extend(match use_home {
                true => switched_on_by_project(&enabled, home)?,
                false => left_out(&enabled),
            });
        }
        SourceKind::Agents => {
            for name in folders(&trusted.copy.join("plugins"))? {
                let plugin = PluginLocation {
                    shown: &found.source.join("plugins").join(&name),
                    folder: &trusted.copy.join("plugins").join(&name),
                    origin: Origin::Project,
                    otherwise: EmptyFolderPolicy::Told,
                    way_out: "trust it anew once it is mended, or run without what the project brings: \
                              `--safe-mode`",
                };
                let mut part = plugin.read(|path| trusted.source(path));
                part.rewrite = trusted.rewrite;
                parts.push(part);
            }
        }
        SourceKind::Cotter | SourceKind::Servers => {}
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
pub fn of_person(
    plugins: &[SourcedText],
    use_home: bool,
    home: &HomeFolder<'_>,
) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut parts = vec![];
    for name in [".claude", ".agents"].into_iter().filter(|_| use_home) {
        match home_folder(home, name) {
            Ok(None) => {}
            Ok(Some(folder)) if name == ".claude" => parts.extend(of_claude(&folder, home)?),
            Ok(Some(folder)) => parts.extend(of_agents(&folder, home)?),
            Err((path, failure)) => {
                parts.push(ClaudeUnit {
                    broken: Some(failure),
                    ..ClaudeUnit::new(&path, Origin::User)
                });
            }
        }
    }
    for written in plugins {
        parts.push(named_plugin(written, home)?);
    }
    Ok(parts)
}

/// What the home folder's `.claude` brings.
fn of_claude(folder: &Path, home: &HomeFolder<'_>) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut part = ClaudeUnit::new(folder, Origin::User);
    part.brings.push(own(folder));
    let mut parts = vec![part];
    let mut enabled = EnabledPlugins::new();
    for name in SETTINGS {
        let path = folder.join(name);
        let Some(document) = Document::load(&path)? else { continue };
        if home.is_projects(&path) {
            return Err(leads_in(&path));
        }
        let mut part = ClaudeUnit::new(&path, Origin::User);
        enabled.extend(read(
            &mut part,
            &document,
            &claude::ClaudeFile::new(&path),
            ClaudeScope::Own,
        )?);
        parts.push(part);
    }
    parts.extend(installed(folder, &enabled, Origin::User, home));
    Ok(parts)
}

/// What the home folder's `.agents` brings.
fn of_agents(folder: &Path, home: &HomeFolder<'_>) -> Result<Vec<ClaudeUnit>, SettingsError> {
    let mut part = ClaudeUnit::new(folder, Origin::User);
    part.brings.push(own(folder));
    let mut parts = vec![part];
    for name in folders(&folder.join("plugins"))? {
        let root = folder.join("plugins").join(name);
        let way_out = "mend it, or take its folder away";
        parts.push(persons_plugin(&root, &Origin::User, EmptyFolderPolicy::Told, home, way_out));
    }
    Ok(parts)
}

fn own(folder: &Path) -> ExtensionFolder {
    let loading = LoadContext::trusted(Origin::User);
    ExtensionFolder { folder: folder.into(), shown: folder.into(), loading, plugin: None }
}

/// A folder of the person's home, where it is theirs: not one that the project brings.
fn own_folder(home: &HomeFolder<'_>, name: &str) -> Option<PathBuf> {
    home_folder(home, name).ok().flatten()
}

/// The same, or why it is not used though something is there: a gate may be in it.
pub(crate) fn home_folder(
    home: &HomeFolder<'_>,
    name: &str,
) -> Result<Option<PathBuf>, (PathBuf, SettingsError)> {
    let Some(folder) = home.path.as_ref().map(|home| home.join(name)) else { return Ok(None) };
    let is_nothing = |cause: &io::Error| {
        matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let failure = match fs::metadata(&folder) {
        Err(cause) if is_nothing(&cause) && !folder.is_symlink() => return Ok(None),
        Err(cause) => unreadable(&folder, cause),
        Ok(about) if !about.is_dir() => unreadable(&folder, io::Error::other("it is no folder")),
        Ok(_) if !home.is_projects(&folder) => return Ok(Some(folder)),
        // It is among what the project brings, behind trust.
        Ok(_) if is_source(&folder, home) => return Ok(None),
        Ok(_) => leads_in(&folder),
    };
    Err((folder, failure))
}

fn is_source(folder: &Path, home: &HomeFolder<'_>) -> bool {
    let sources = || possible_sources(home.workspace, home.path.as_deref());
    folder.canonicalize().is_ok_and(|real| sources().contains(&real))
}

const WAY_OUT: &str = "a gate may be in it, so nothing runs: mend it, or leave the home folder's out with \
                       `\"claude\": {\"home\": false}` in your settings";

fn unreadable(path: &Path, cause: io::Error) -> SettingsError {
    let failure = SettingsError::without_file(format!("{} cannot be read", path.display()));
    failure.with_source(cause).with_hint(WAY_OUT)
}

fn leads_in(path: &Path) -> SettingsError {
    let message = format!("{} leads into the project, and is not used as yours", path.display());
    SettingsError::without_file(message).with_hint(WAY_OUT)
}

/// The most plugins in a folder of them.
const MOST_PLUGINS: usize = 1000;

/// The names of folders in a folder, in order, hidden ones left out. A link to one counts where it is the
/// person's, also one that leads nowhere: it led to something once. In what is trusted there is none.
fn folders(folder: &Path) -> Result<Vec<OsString>, SettingsError> {
    let cannot = |cause: io::Error| {
        SettingsError::without_file(format!("{} cannot be read", folder.display()))
            .with_source(cause)
    };
    let is_gone = |cause: &io::Error| cause.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(folder) {
        Err(cause) if is_gone(&cause) && !folder.is_symlink() => return Ok(vec![]),
        entries => entries.map_err(cannot)?,
    };
    let mut names = vec![];
    for entry in entries {
        let name = entry.map_err(cannot)?.file_name();
        let path = folder.join(&name);
        let is_folder = match fs::metadata(&path) {
            Ok(about) => about.is_dir(),
            Err(cause) => !is_gone(&cause) || path.is_symlink(),
        };
        if !name.as_encoded_bytes().starts_with(b".") && is_folder {
            names.push(name);
        }
        if names.len() > MOST_PLUGINS {
            let why = format!("{} has more than {MOST_PLUGINS} folders in it", folder.display());
            return Err(SettingsError::without_file(why)
                .with_hint("a gate may be in any of them: take some away"));
        }
    }
    names.sort();
    Ok(names)
}

/// A file of a copy, as its author knows it. We wrote it: it is a plain file, and no larger than it may be.
fn copied(path: &Path, shown: &Path) -> Result<Option<Document>, SettingsError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(Document::parse_bytes(&shown.display().to_string(), &bytes)?)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => {
            Err(SettingsError::without_file(format!("{} cannot be read", shown.display()))
                .with_source(cause))
        }
    }
}

/// What hooks written for Claude Code are together: nothing twice, each under a name of its own within its
/// origin, and with the one word on failures.
pub fn settle<'a>(
    units: impl Iterator<Item = (Origin, &'a mut Vec<CommandHook>)>,
    on_failure: OnFailure,
) {
    let mut units: Vec<_> = units.collect();
    let mut earlier: Vec<(Origin, CommandHook)> = vec![];
    for (origin, hooks) in &mut units {
        if on_failure == OnFailure::Block {
            let theirs = hooks.iter_mut().filter(|hook| is_claude(hook));
            theirs.for_each(|hook| hook.on_failure = OnFailure::Block);
        }
        // Whoever else has the same: what one origin switches off, another keeps.
        let same = earlier.iter().filter(|(of, _)| of == origin);
        let same: Vec<_> = same.map(|(_, hook)| hook.clone()).collect();
        **hooks = claude::without_repeats(&same, std::mem::take(hooks));
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
        command_hook::name_apart_in_origin(&mut hooks);
    }
}

fn is_claude(hook: &CommandHook) -> bool {
    claude::ClaudeEntry::of(hook).is_some()
}

/// What is watched of the home folder.
pub fn watched(home: &HomeFolder<'_>) -> Vec<PathBuf> {
    const NAMES: [&str; 6] = [
        "settings.json",
        "settings.local.json",
        "skills",
        "agents",
        "commands",
        "plugins/installed_plugins.json",
    ];
    let folders = home.brings().into_iter();
    let names = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
    names.chain(own_folder(home, ".agents").map(|folder| folder.join("plugins"))).collect()
}
