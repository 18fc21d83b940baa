//! Files that were written for other programs: `.claude`, `.agents` and plugins, of the project and of the
//! person's home folder.
//!
//! A project's are behind trust like its `.cotter`: settings, skills, agents and commands are read from the
//! copy that was trusted, and hooks run in place, their folder held against that copy before each start. The
//! home folder's are the person's own once they said that they are to be used.

mod ask;
mod declared;
mod gist;
mod plugins;
mod settings;

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use cotter::{
    Origin, Owner, Place,
    command_hook::{
        CommandHook, Dialect, OnFailure,
        claude::{self, Pinned},
    },
    files::{Diagnostic, Loading, plugin::Plugin},
    settings::{Settings, Written},
    trust::Standing,
};

use cotter_tools::mcp::Servers;

pub(crate) use self::{
    ask::{ask_home, at_home},
    declared::declared,
    gist::Gist,
};
use self::{
    plugins::{At, Otherwise, installed, named_plugin, own_plugin, switched_on_by_project},
    settings::{Enabled, Whose, read},
};
use crate::{
    failure::Failure,
    home,
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
