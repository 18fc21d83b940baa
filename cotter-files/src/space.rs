//! Spaces: a folder that is an extension, loaded whole and unloaded whole.
//!
//! A space has a `manifest.json` (`id`, `name`, `version`, `description`), hooks in `hooks/*.yaml` with
//! their programs, and `skills/`, `agents/` and `commands/`. [`Space::read`] reads it without starting
//! anything; [`Space::load`] registers all of it as one unit of the origin `space:ID`, and
//! [`unload`] leaves the registry as it was before.
//!
//! A space may only tighten: its hooks gate and observe, and change something only with
//! [`Space::with_grants`]. Whether somebody trusts it is the caller's to know
//! ([`trust`](crate::trust)): what is loaded is what is read here, so a caller who asks for trust reads the
//! copy that was trusted, and says where it was found ([`Space::found_at`]).
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc};
//! # use cotter::Agent; use cotter_files::{command_hook::HookHost, space::{self, Space}, trust::store::{TrustState, TrustStore}};
//! # fn go(agent: &Agent, starts: Arc<dyn HookHost>) -> Result<(), Box<dyn std::error::Error>> {
//! let folder = Path::new("/srv/spaces/deploy");
//! if let TrustState::Trusted { copy, grants, .. } = TrustStore::open("/srv/trust").look(folder)? {
//!     let space = Space::read(&copy)?.found_at(folder).with_grants(grants);
//!     space.load(agent, starts)?;
//!     space::unload(agent, "deploy");
//! }
//! # Ok(())
//! # }
//! ```

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use smol_str::SmolStr;

use crate::{
    command_hook::{
        HookHost, HookLocation,
        hook_files::{HookFileErrors, HookFiles, hooks_of},
        is_confined,
    },
    document::{Document, Node, location::SettingsError},
    extensions::{self, LoadContext, LoadedFolder, TakenNames},
    folder::diagnostic::{Diagnostic, Severity},
    trust::{
        snapshot::{Snapshot, SnapshotItem},
        store::Grants,
    },
};
use cotter::{
    Agent, Origin, Owner, Registry,
    registry::{
        RegisterError,
        change::{ChangeResult, RegistryChange},
    },
    text,
};

/// The file that makes a folder a space.
pub const MANIFEST: &str = "manifest.json";

/// The keys of a manifest.
pub const KEYS: [&str; 5] = ["$schema", "id", "name", "version", "description"];

/// The longest id.
pub const MOST_ID: usize = 64;

/// What is in a folder beside the rest and has no effect there, and why.
const NOT_USED: [(&str, &str); 3] = [
    ("extensions", "scripts are not run by this version"),
    ("settings.json", "a space has no settings; hooks belong in `hooks/*.yaml`"),
    (".mcp.json", "a space brings no servers"),
];

/// What a space says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceManifest {
    /// What it is called by: `[a-z0-9-]+`, not with `-` first.
    pub id: SmolStr,
    /// Its name, for people.
    pub name: String,
    /// Which version it is, in its author's own counting.
    pub version: String,
    /// What it is for; empty where it does not say.
    pub description: String,
}

impl SpaceManifest {
    /// Reads a manifest strictly: an unknown key is an error, and every error has its place.
    pub fn read(document: &Document) -> Result<Self, SettingsError> {
        let object = document.root().object()?.keys(&KEYS)?;
        let text =
            |key: &str| Ok::<_, SettingsError>(object.require(key)?.non_empty_string()?.into());
        let id = id(object.require("id")?)?;
        let (name, version) = (text("name")?, text("version")?);
        let description = object.get("description").map(|node| node.string()).transpose()?;
        if let Some(schema) = object.get("$schema") {
            schema.string()?;
        }
        Ok(SpaceManifest { id, name, version, description: description.unwrap_or_default().into() })
    }
}

fn id(node: Node<'_>) -> Result<SmolStr, SettingsError> {
    let id = node.string()?;
    match is_id(id) {
        true => Ok(id.into()),
        false => Err(node
            .error(format!("`{}` cannot be the id of a space", text::show_line(id)))
            .with_hint(format!(
                "up to {MOST_ID} small letters, digits and `-`, a letter or digit first"
            ))),
    }
}

/// Whether a text can be the id of a space.
pub fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= MOST_ID && !text.starts_with('-') && text.bytes().all(fits)
}

/// A space as its folder tells, before an agent has it.
pub struct Space {
    /// What it says of itself.
    pub manifest: SpaceManifest,
    /// Its hooks.
    pub hooks: HookFiles,
    /// Its skills, commands and agents.
    pub files: LoadedFolder,
    /// What is to be said about the folder itself.
    diagnostics: Vec<Diagnostic>,
    /// Where its hooks run.
    folder: PathBuf,
    /// Where it was found.
    source: PathBuf,
    grants: Grants,
}

/// A space that cannot be loaded: what is wrong with it, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceErrors {
    /// Why, at least once, with its place; and what else was to be said.
    pub diagnostics: Vec<Diagnostic>,
}

impl SpaceErrors {
    /// What is wrong, each with its place.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|told| told.severity == Severity::Rejected)
    }
}

impl fmt::Display for SpaceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.errors().map(ToString::to_string).collect();
        f.write_str(&shown.join("; "))
    }
}

impl Error for SpaceErrors {}

impl Space {
    /// Reads a space, whole or not at all. An error in its manifest or in a hook file, a link that leads
    /// out of the folder, or more than a [`Snapshot`] holds is an error of all of it. Skills, agents and
    /// commands with errors are left out ([`Space::diagnostics`]).
    pub fn read(folder: &Path) -> Result<Self, SpaceErrors> {
        let snapshot = Snapshot::take(folder).map_err(|error| {
            let told = Diagnostic::new(folder, None, Severity::Rejected, error.told());
            SpaceErrors { diagnostics: vec![told] }
        })?;
        let (manifest, hooks) = Space::strict_of(&snapshot)?;
        let folder = snapshot.source().to_owned();
        let loading = LoadContext::trusted(Origin::Space(manifest.id.clone()));
        let files = extensions::load(&folder, &loading);
        let diagnostics = about_unused(&snapshot);
        let (source, grants) = (folder.clone(), Grants::default());
        Ok(Space { manifest, hooks, files, diagnostics, folder, source, grants })
    }

    /// What has to be right in a space: its manifest and its hooks, or everything that is wrong with them.
    pub fn strict_of(snapshot: &Snapshot) -> Result<(SpaceManifest, HookFiles), SpaceErrors> {
        let hooks = hooks_of(snapshot);
        let (manifest, hooks) = match (manifest_of(snapshot), hooks) {
            (Ok(manifest), Ok(hooks)) => return Ok((manifest, hooks)),
            (manifest, hooks) => (manifest.err(), hooks.err()),
        };
        let of_hooks = hooks.into_iter().flat_map(|HookFileErrors { diagnostics }| diagnostics);
        Err(SpaceErrors { diagnostics: manifest.into_iter().chain(of_hooks).collect() })
    }

    /// Says where it was found, where it is read from a copy: files are told under the names that their
    /// author knows.
    pub fn found_at(mut self, source: &Path) -> Self {
        let all = [&mut self.hooks.diagnostics, &mut self.files.diagnostics, &mut self.diagnostics];
        for told in all.into_iter().flatten() {
            if let Ok(within) = told.path.strip_prefix(&self.folder) {
                told.path = source.join(within);
            }
        }
        self.source = source.to_owned();
        self
    }

    /// The same with what trust allows beyond running.
    pub fn with_grants(self, grants: Grants) -> Self {
        Space { grants, ..self }
    }

    /// Its hooks and nothing else: what stays in force of a space that changed since it was trusted.
    pub fn only_hooks(mut self) -> Self {
        self.files.clear();
        self.diagnostics.clear();
        self
    }

    /// What it is called by.
    pub fn id(&self) -> &SmolStr {
        &self.manifest.id
    }

    /// Where it was found.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The one owner of all it registers.
    pub fn owner(&self) -> Owner {
        let owner = owner(self.id());
        if self.grants.rewrite { owner.with_rewrite() } else { owner }
    }

    /// What its author should know: of the folder, of hooks, then of the other files.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().chain(&self.hooks.diagnostics).chain(&self.files.diagnostics)
    }

    /// Leaves out what could not be taken: commands that are built in.
    pub fn fit(mut self, names: &mut TakenNames) -> Self {
        self.files = self.files.fit(&owner(&self.manifest.id), names);
        self
    }

    /// Registers all of it. The unit is its [owner](Space::owner)'s.
    pub fn register(&self, unit: &mut Registry, starts: &Arc<dyn HookHost>) {
        let confined = is_confined(unit.owner());
        let base = HookLocation { folder: self.folder.clone(), confined, starts: starts.clone() };
        self.hooks.register(unit, &base);
        self.files.register(unit);
    }

    /// Adds it to a change, as one unit.
    pub fn load_into(&self, change: &mut RegistryChange, starts: &Arc<dyn HookHost>) {
        change.load(self.owner(), |unit| self.register(unit, starts));
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("manifest", &self.manifest)
            .field("source", &self.source)
            .finish()
    }
}

/// The owner of everything that a space of this id registers.
pub fn owner(id: &str) -> Owner {
    Owner::new(Origin::Space(id.into()), id)
}

impl Space {
    /// Loads a space, as one unit and in one step, also while a run is under way. One of its id that is
    /// loaded already is replaced; what that would loosen is held, as by [`Agent::apply`].
    ///
    /// Skills, commands and agents of it that cannot be taken, because a built-in command has their name,
    /// are left out.
    pub fn load(
        self,
        agent: &Agent,
        starts: Arc<dyn HookHost>,
    ) -> Result<ChangeResult, RegisterError> {
        let mut names = TakenNames::of(agent, &[self.owner()]);
        let space = self.fit(&mut names);
        let mut change = RegistryChange::new();
        space.load_into(&mut change, &starts);
        agent.apply(change)
    }
}

/// Unloads a space: everything it registered goes in one step. Whether it was loaded.
///
/// Its gates go with it, so this is a person's to say, or the program's.
pub fn unload(agent: &Agent, id: &str) -> bool {
    agent.unload_origin(&Origin::Space(id.into()))
}

pub(crate) fn manifest_of(snapshot: &Snapshot) -> Result<SpaceManifest, Diagnostic> {
    let path = snapshot.source().join(MANIFEST);
    let rejected = |why: &str| Diagnostic::new(&path, None, Severity::Rejected, why);
    let items = snapshot.folder(Path::new(""));
    let bytes = match items.iter().find(|(name, _)| name == MANIFEST) {
        Some((_, SnapshotItem::File { bytes, .. })) => bytes,
        Some(_) => return Err(rejected("it is a link, and links are not followed")),
        None => return Err(rejected("a space has this file, with `id`, `name` and `version`")),
    };
    let document = Document::parse_bytes(&path.display().to_string(), bytes);
    let manifest = document.and_then(|document| SpaceManifest::read(&document));
    manifest.map_err(|error| Diagnostic::of_error(&path, &error))
}

/// What lies in the folder and does nothing there.
pub(crate) fn about_unused(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let has = |name: &str| {
        let mut paths = snapshot.items().map(|(path, _)| path);
        paths.any(|path| path.starts_with(name))
    };
    let told = NOT_USED.iter().filter(|(name, _)| has(name)).map(|(name, why)| {
        Diagnostic::new(&snapshot.source().join(name), None, Severity::Warning, *why)
    });
    told.collect()
}
