//! Spaces: a space is a folder that is an extension, loaded and unloaded as one owner.
//!
//! A space has a `manifest.json` (`id`, `name`, `version`, `description`), hooks in `hooks/*.yaml` with their
//! programs, and `skills/`, `agents/` and `commands/`. [`Space::read`] reads the folder and starts no
//! program. [`Space::load`] registers everything as one owner of the origin `space:ID`, and [`unload`]
//! restores the registry as it was before.
//!
//! A space may only tighten: its hooks gate and observe, and rewrite only with [`Space::with_grants`]. The
//! caller checks whether the space is trusted ([`trust`](crate::trust)). A caller that requires trust reads
//! the trusted copy, because the folder that is read is the one that is loaded. Then the caller names the
//! original folder ([`Space::found_at`]).
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc};
//! # use cotter::Agent; use cotter_files::{command_hook::HookHost, space::{self, Space}, trust::store::{TrustState, TrustStore}};
//! # fn go(agent: &Agent, host: Arc<dyn HookHost>) -> Result<(), Box<dyn std::error::Error>> {
//! let folder = Path::new("/srv/spaces/deploy");
//! if let TrustState::Trusted { copy, grants, .. } = TrustStore::open("/srv/trust").read_state(folder)? {
//!     let space = Space::read(&copy)?.found_at(folder).with_grants(grants);
//!     space.load(agent, host)?;
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

/// The maximum length of an id.
pub const MAX_ID: usize = 64;

/// Names in a space's folder that have no effect, with the reason.
const UNUSED_NAMES: [(&str, &str); 3] = [
    ("extensions", "scripts are not run by this version"),
    ("settings.json", "a space has no settings; hooks belong in `hooks/*.yaml`"),
    (".mcp.json", "a space cannot declare servers"),
];

/// The manifest of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceManifest {
    /// The id: `[a-z0-9-]+`, not with `-` first.
    pub id: SmolStr,
    /// The name, for people.
    pub name: String,
    /// The version, in the author's own numbering.
    pub version: String,
    /// The purpose of the space; empty if the manifest has none.
    pub description: String,
}

impl SpaceManifest {
    /// Reads a manifest strictly: an unknown key is an error, and every error has its location.
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
                "use at most {MAX_ID} lower-case letters, digits and `-`, not `-` first"
            ))),
    }
}

/// True if a text can be the id of a space.
pub fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= MAX_ID && !text.starts_with('-') && text.bytes().all(fits)
}

/// A space as it was read, before it is loaded into an agent.
pub struct Space {
    /// The manifest.
    pub manifest: SpaceManifest,
    /// The hooks.
    pub hooks: HookFiles,
    /// The skills, commands and agents.
    pub files: LoadedFolder,
    /// Diagnostics about the folder itself.
    diagnostics: Vec<Diagnostic>,
    /// The folder that the hooks run in.
    folder: PathBuf,
    /// The folder of the space; the original one if it was read from a copy.
    source: PathBuf,
    grants: Grants,
}

/// All the errors of a space that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceErrors {
    /// At least one error with its location, and the other diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl SpaceErrors {
    /// The errors, each with its location.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Rejected)
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
    /// Reads a space, whole or not at all. An error in its manifest or in a hook file rejects the whole
    /// space. So does a link that leads out of the folder, and a folder above the limits of a [`Snapshot`].
    /// Skills, agents and commands with errors are skipped ([`Space::diagnostics`]).
    pub fn read(folder: &Path) -> Result<Self, SpaceErrors> {
        let snapshot = Snapshot::take(folder).map_err(|error| {
            let diagnostic =
                Diagnostic::new(folder, None, Severity::Rejected, error.line_with_hint());
            SpaceErrors { diagnostics: vec![diagnostic] }
        })?;
        let (manifest, hooks) = Space::read_strict_parts(&snapshot)?;
        let folder = snapshot.source().to_owned();
        let loading = LoadContext::trusted(Origin::Space(manifest.id.clone()));
        let files = extensions::load(&folder, &loading);
        let diagnostics = warn_of_unused(&snapshot);
        let (source, grants) = (folder.clone(), Grants::default());
        Ok(Space { manifest, hooks, files, diagnostics, folder, source, grants })
    }

    /// Reads the parts of a space that must be free of errors, its manifest and its hooks, or returns all
    /// their errors.
    pub fn read_strict_parts(
        snapshot: &Snapshot,
    ) -> Result<(SpaceManifest, HookFiles), SpaceErrors> {
        let hooks = hooks_of(snapshot);
        let (manifest, hooks) = match (manifest_of(snapshot), hooks) {
            (Ok(manifest), Ok(hooks)) => return Ok((manifest, hooks)),
            (manifest, hooks) => (manifest.err(), hooks.err()),
        };
        let of_hooks = hooks.into_iter().flat_map(|HookFileErrors { diagnostics }| diagnostics);
        Err(SpaceErrors { diagnostics: manifest.into_iter().chain(of_hooks).collect() })
    }

    /// Sets the original folder of a space that was read from a copy. Diagnostics then use the paths that the
    /// author knows.
    pub fn found_at(mut self, source: &Path) -> Self {
        let all = [&mut self.hooks.diagnostics, &mut self.files.diagnostics, &mut self.diagnostics];
        for diagnostic in all.into_iter().flatten() {
            if let Ok(within) = diagnostic.path.strip_prefix(&self.folder) {
                diagnostic.path = source.join(within);
            }
        }
        self.source = source.to_owned();
        self
    }

    /// Sets the rights that trust gives beyond running.
    pub fn with_grants(self, grants: Grants) -> Self {
        Space { grants, ..self }
    }

    /// Keeps only the hooks. For a space that changed since it was trusted, they continue to run.
    pub fn only_hooks(mut self) -> Self {
        self.files.clear();
        self.diagnostics.clear();
        self
    }

    /// The id.
    pub fn id(&self) -> &SmolStr {
        &self.manifest.id
    }

    /// The folder of the space; the original one if it was read from a copy.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The owner of everything that the space registers.
    pub fn owner(&self) -> Owner {
        let owner = owner(self.id());
        if self.grants.rewrite { owner.with_rewrite() } else { owner }
    }

    /// Diagnostics for the author: about the folder, then about hooks, then about the other files.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().chain(&self.hooks.diagnostics).chain(&self.files.diagnostics)
    }

    /// Removes the files whose names cannot be registered, such as the names of built-in commands.
    pub fn remove_conflicts(mut self, names: &mut TakenNames) -> Self {
        self.files = self.files.drop_taken_names(&owner(&self.manifest.id), names);
        self
    }

    /// Registers everything. `unit` must belong to the space's [owner](Space::owner).
    pub fn register(&self, unit: &mut Registry, host: &Arc<dyn HookHost>) {
        let confined = is_confined(unit.owner());
        let base =
            HookLocation { folder: self.folder.clone(), confined, host: host.clone(), state: None };
        self.hooks.register(unit, &base);
        self.files.register(unit);
    }

    /// Adds the space to a registry change, as one owner.
    pub fn load_into(&self, change: &mut RegistryChange, host: &Arc<dyn HookHost>) {
        change.load(self.owner(), |unit| self.register(unit, host));
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

/// The owner of everything that a space with this id registers.
pub fn owner(id: &str) -> Owner {
    Owner::new(Origin::Space(id.into()), id)
}

impl Space {
    /// Loads the space as one owner and in one step, even during a run. A loaded space with the same id is
    /// replaced; a replacement that would loosen something is held, as by [`Agent::apply`].
    ///
    /// Skills, commands and agents whose names cannot be registered, such as the name of a built-in command,
    /// are skipped.
    pub fn load(
        self,
        agent: &Agent,
        host: Arc<dyn HookHost>,
    ) -> Result<ChangeResult, RegisterError> {
        let mut names = TakenNames::of(agent, &[self.owner()]);
        let space = self.remove_conflicts(&mut names);
        let mut change = RegistryChange::new();
        space.load_into(&mut change, &host);
        agent.apply(change)
    }
}

/// Unloads a space: removes everything it registered in one step. Returns true if the space was loaded.
///
/// This removes the space's gates too, so only a person or the program should decide it.
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
        None => {
            return Err(rejected(
                "file not found; a space needs it, with `id`, `name` and `version`",
            ));
        }
    };
    let document = Document::parse_bytes(&path.display().to_string(), bytes);
    let manifest = document.and_then(|document| SpaceManifest::read(&document));
    manifest.map_err(|error| Diagnostic::of_error(&path, &error))
}

/// Warnings about files in the folder that have no effect.
pub(crate) fn warn_of_unused(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let has = |name: &str| {
        let mut paths = snapshot.items().map(|(path, _)| path);
        paths.any(|path| path.starts_with(name))
    };
    let warnings = UNUSED_NAMES.iter().filter(|(name, _)| has(name)).map(|(name, why)| {
        Diagnostic::new(&snapshot.source().join(name), None, Severity::Warning, *why)
    });
    warnings.collect()
}
