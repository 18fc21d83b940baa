//! The person's own spaces: the folder they are in, and the file that says where each came from.
//!
//! One process at a time changes them, with `spaces.lock` held. What is made is made beside its place and
//! moved there; what a killed process left is put back or taken away by the next.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use cotter_files::{
    document::{Document, Object, location::SettingsError},
    space,
    trust::snapshot::{Hash, Snapshot, SnapshotItem},
};
use serde_json::json;

use crate::{error::CliError, paths as home, trust::shown};

/// The number of the format.
const VERSION: u64 = 1;

/// Whether a path is that of one of them, there or not.
pub(crate) fn is_one(path: &Path) -> bool {
    let above = std::path::absolute(path).ok().and_then(|path| Some(path.parent()?.to_owned()));
    let real = |path: PathBuf| path.canonicalize().ok();
    let is_id = path.file_name().and_then(|name| name.to_str()).is_some_and(space::is_id);
    is_id && above.and_then(real).is_some_and(|above| home::spaces().and_then(real) == Some(above))
}

/// Where a space came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpaceRecord {
    pub(crate) id: String,
    /// A folder, or the address of a repository.
    pub(crate) source: String,
    /// What was asked for of the repository: a branch, a tag, a commit.
    pub(crate) rev: Option<String>,
    /// The commit it was.
    pub(crate) revision: Option<String>,
    /// What was put in its place.
    pub(crate) hash: Hash,
}

/// Where they are, as long as nobody else may change them.
pub(crate) struct SpaceStore {
    /// `spaces`.
    folder: PathBuf,
    /// `spaces.lock.json`.
    file: PathBuf,
    _lock: File,
}

/// The entries of the lock file; none where there is none.
pub(crate) fn entries(file: &Path) -> Result<Vec<SpaceRecord>, CliError> {
    let Some(document) = Document::load(file)? else { return Ok(vec![]) };
    let read = || {
        let object = document.root().object()?.keys(&["v", "spaces"])?;
        let version = object.require("v")?;
        if version.u64()? != VERSION {
            return Err(version.error(format!("this version knows format {VERSION} only")));
        }
        let mut entries: Vec<SpaceRecord> = vec![];
        for node in object.require("spaces")?.list()? {
            let keys = ["id", "source", "rev", "revision", "hash"];
            let entry = entry(&node.object()?.keys(&keys)?)?;
            if entries.iter().any(|known| known.id == entry.id) {
                return Err(node.error(format!("the space `{}` stands there twice", entry.id)));
            }
            entries.push(entry);
        }
        Ok(entries)
    };
    Ok(read()?)
}

fn entry(object: &Object<'_>) -> Result<SpaceRecord, SettingsError> {
    let text = |key: &str| Ok::<_, SettingsError>(object.require(key)?.string()?.to_owned());
    let some = |key: &str| {
        let node = object.get(key).map(|node| node.string().map(str::to_owned));
        node.transpose()
    };
    let id = object.require("id")?;
    if !space::is_id(id.string()?) {
        return Err(id.error("this cannot be the id of a space"));
    }
    let hash = object.require("hash")?;
    Ok(SpaceRecord {
        id: text("id")?,
        source: text("source")?,
        rev: some("rev")?,
        revision: some("revision")?,
        hash: hash.string()?.parse().map_err(|why: &str| hash.error(why))?,
    })
}

impl SpaceStore {
    /// Waits until nobody else changes spaces, and tidies up.
    pub(crate) fn open() -> Result<Self, CliError> {
        let config = home::config().ok_or_else(home::no_config)?;
        let workspace = home::find_workspace(None)?;
        if home::is_brought_by(&config, workspace.project()) {
            let message = format!("{} lies in the project", shown(&config));
            return Err(CliError::new(message).with_hint(format!(
                "keep your own spaces outside {}",
                shown(workspace.project())
            )));
        }
        let folder = config.join("spaces");
        let cannot = |cause: io::Error| {
            CliError::new(format!("cannot use {}", shown(&folder))).with_cause(cause)
        };
        private_folder(&folder).map_err(cannot)?;
        let lock = private().create(true).truncate(false).open(config.join("spaces.lock"));
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(cannot)?;
        let home = SpaceStore {
            folder: folder.clone(),
            file: config.join("spaces.lock.json"),
            _lock: lock,
        };
        home.tidy().map_err(cannot)?;
        Ok(home)
    }

    /// Where a space of that id is, there or not.
    pub(crate) fn space_folder(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// A folder for what is on its way in.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join(NEW)
    }

    pub(crate) fn entries(&self) -> Result<Vec<SpaceRecord>, CliError> {
        entries(&self.file)
    }

    /// Writes the entry of a space, or takes it out.
    pub(crate) fn set(&self, id: &str, entry: Option<SpaceRecord>) -> Result<(), CliError> {
        let mut entries = self.entries()?;
        entries.retain(|known| known.id != id);
        entries.extend(entry);
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        let rows: Vec<_> = entries.iter().map(SpaceRecord::to_json).collect();
        let text = format!("{:#}\n", json!({"v": VERSION, "spaces": rows}));
        home::write_private(&self.file, text.as_bytes())
    }

    /// Puts contents in the place of a space, whatever is there.
    pub(crate) fn put(&self, id: &str, snapshot: &Snapshot) -> Result<(), CliError> {
        let (new, old, folder) = (self.scratch(), self.old(id), self.space_folder(id));
        let done = || {
            remove(&new)?;
            write(snapshot, &new)?;
            if folder.symlink_metadata().is_ok() {
                fs::rename(&folder, &old)?;
            }
            fs::rename(&new, &folder)?;
            File::open(&self.folder)?.sync_all()?;
            remove(&old)
        };
        done().map_err(|cause| {
            CliError::new(format!("cannot write {}", shown(&folder))).with_cause(cause)
        })
    }

    /// Takes a space away; whether it was there.
    pub(crate) fn take_away(&self, id: &str) -> Result<bool, CliError> {
        let folder = self.space_folder(id);
        if folder.symlink_metadata().is_err() {
            return Ok(false);
        }
        let gone = self.folder.join(GONE);
        let done = fs::rename(&folder, &gone).and_then(|()| remove(&gone));
        done.map(|()| true).map_err(|cause| {
            CliError::new(format!("cannot remove {}", shown(&folder))).with_cause(cause)
        })
    }

    fn old(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{OLD}{id}"))
    }

    /// Puts back what was moved away and not replaced, and takes away what is left over.
    fn tidy(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let path = self.folder.join(name);
            match name.strip_prefix(OLD) {
                Some(id) if self.space_folder(id).symlink_metadata().is_err() => {
                    fs::rename(&path, self.space_folder(id))?;
                }
                Some(_) => remove(&path)?,
                None if [NEW, GONE].contains(&name) => remove(&path)?,
                None => {}
            }
        }
        Ok(())
    }
}

/// What is being made, what it replaces, what is being taken away. No id begins so.
const NEW: &str = ".new";
const OLD: &str = ".old-";
const GONE: &str = ".gone";

impl SpaceRecord {
    fn to_json(&self) -> serde_json::Value {
        let SpaceRecord { id, source, rev, revision, hash } = self;
        let mut row = json!({"id": id, "source": source});
        for (key, value) in [("rev", rev), ("revision", revision)] {
            if let Some(value) = value {
                row[key] = value.as_str().into();
            }
        }
        row["hash"] = hash.to_string().into();
        row
    }
}

/// Writes contents to a new folder, its owner's alone.
fn write(snapshot: &Snapshot, folder: &Path) -> io::Result<()> {
    private_folder(folder)?;
    for (path, item) in snapshot.items() {
        let at = folder.join(path);
        at.parent().map_or(Ok(()), private_folder)?;
        match item {
            SnapshotItem::File { executable, bytes } => {
                let mode = if *executable { 0o700 } else { 0o600 };
                let mut file =
                    OpenOptions::new().write(true).create_new(true).mode(mode).open(&at)?;
                file.write_all(bytes)?;
                file.sync_all()?;
            }
            SnapshotItem::Link(target) => symlink(target, &at)?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
    }
    Ok(())
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Removes a folder, whether it is there or not.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
