//! The person's own spaces: their folder, and the file with the source of each.
//!
//! One process at a time changes them, and holds `spaces.lock` for it. A new folder is created beside its
//! final path and then moved. If a process was killed, the next one restores or removes its leftovers.

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

use crate::{error::CliError, paths, trust::show_path};

/// The version of the file format.
const VERSION: u64 = 1;

/// True if a path is the folder of one of the person's own spaces. It need not exist.
pub(crate) fn is_own_space(path: &Path) -> bool {
    let above = std::path::absolute(path).ok().and_then(|path| Some(path.parent()?.to_owned()));
    let real = |path: PathBuf| path.canonicalize().ok();
    let is_id = path.file_name().and_then(|name| name.to_str()).is_some_and(space::is_id);
    is_id && above.and_then(real).is_some_and(|above| paths::spaces().and_then(real) == Some(above))
}

/// The source of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpaceRecord {
    pub(crate) id: String,
    /// A folder, or the address of a repository.
    pub(crate) source: String,
    /// The branch, tag or commit that was requested.
    pub(crate) rev: Option<String>,
    /// The commit that was fetched.
    pub(crate) revision: Option<String>,
    /// The hash of the installed contents.
    pub(crate) hash: Hash,
}

/// The store of the person's own spaces. It holds the lock, so that no other process changes them.
pub(crate) struct SpaceStore {
    /// The folder `spaces`.
    folder: PathBuf,
    /// The file `spaces.lock.json`.
    file: PathBuf,
    _lock: File,
}

/// Reads the entries of the lock file; empty if there is no file.
pub(crate) fn entries(file: &Path) -> Result<Vec<SpaceRecord>, CliError> {
    let Some(document) = Document::load(file)? else { return Ok(vec![]) };
    let read = || {
        let object = document.root().object()?.keys(&["v", "spaces"])?;
        let version = object.require("v")?;
        if version.u64()? != VERSION {
            return Err(version.error(format!("this version reads only format {VERSION}")));
        }
        let mut entries: Vec<SpaceRecord> = vec![];
        for node in object.require("spaces")?.list()? {
            let keys = ["id", "source", "rev", "revision", "hash"];
            let entry = entry(&node.object()?.keys(&keys)?)?;
            if entries.iter().any(|known| known.id == entry.id) {
                return Err(node.error(format!("the space `{}` is listed twice", entry.id)));
            }
            entries.push(entry);
        }
        Ok(entries)
    };
    Ok(read()?)
}

fn entry(object: &Object<'_>) -> Result<SpaceRecord, SettingsError> {
    let text = |key: &str| Ok::<_, SettingsError>(object.require(key)?.string()?.to_owned());
    let optional = |key: &str| {
        let node = object.get(key).map(|node| node.string().map(str::to_owned));
        node.transpose()
    };
    let id = object.require("id")?;
    if !space::is_id(id.string()?) {
        return Err(id.error("not a valid id of a space"));
    }
    let hash = object.require("hash")?;
    Ok(SpaceRecord {
        id: text("id")?,
        source: text("source")?,
        rev: optional("rev")?,
        revision: optional("revision")?,
        hash: hash.string()?.parse().map_err(|why: &str| hash.error(why))?,
    })
}

impl SpaceStore {
    /// Waits for the lock, then removes leftovers of killed processes.
    pub(crate) fn open() -> Result<Self, CliError> {
        let config = paths::config().ok_or_else(paths::no_config)?;
        let workspace = paths::find_workspace(None)?;
        if paths::belongs_to_project(&config, workspace.project()) {
            let message = format!("{} is inside the project", show_path(&config));
            return Err(CliError::new(message).with_hint(format!(
                "keep your own spaces outside {}",
                show_path(workspace.project())
            )));
        }
        let folder = config.join("spaces");
        let cannot = |cause: io::Error| {
            CliError::new(format!("cannot use {}", show_path(&folder))).with_cause(cause)
        };
        private_folder(&folder).map_err(cannot)?;
        let lock = private().create(true).truncate(false).open(config.join("spaces.lock"));
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(cannot)?;
        let store = SpaceStore {
            folder: folder.clone(),
            file: config.join("spaces.lock.json"),
            _lock: lock,
        };
        store.clean_up().map_err(cannot)?;
        Ok(store)
    }

    /// Returns the folder of a space with this id. It need not exist.
    pub(crate) fn space_folder(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// Returns the folder for a space that is being installed.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join(NEW)
    }

    pub(crate) fn entries(&self) -> Result<Vec<SpaceRecord>, CliError> {
        entries(&self.file)
    }

    /// Writes the entry of a space, or removes it.
    pub(crate) fn set(&self, id: &str, entry: Option<SpaceRecord>) -> Result<(), CliError> {
        let mut entries = self.entries()?;
        entries.retain(|known| known.id != id);
        entries.extend(entry);
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        let rows: Vec<_> = entries.iter().map(SpaceRecord::to_json).collect();
        let text = format!("{:#}\n", json!({"v": VERSION, "spaces": rows}));
        paths::write_private(&self.file, text.as_bytes())
    }

    /// Installs the contents of a space in place of any earlier ones.
    pub(crate) fn install(&self, id: &str, snapshot: &Snapshot) -> Result<(), CliError> {
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
            CliError::new(format!("cannot write {}", show_path(&folder))).with_cause(cause)
        })
    }

    /// Removes a space. Returns true if it existed.
    pub(crate) fn remove_space(&self, id: &str) -> Result<bool, CliError> {
        let folder = self.space_folder(id);
        if folder.symlink_metadata().is_err() {
            return Ok(false);
        }
        let gone = self.folder.join(GONE);
        let done = fs::rename(&folder, &gone).and_then(|()| remove(&gone));
        done.map(|()| true).map_err(|cause| {
            CliError::new(format!("cannot remove {}", show_path(&folder))).with_cause(cause)
        })
    }

    fn old(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{OLD}{id}"))
    }

    /// Restores folders that were moved away and not replaced, and removes leftovers.
    fn clean_up(&self) -> io::Result<()> {
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

/// The prefixes of a new folder, a replaced folder and a removed folder. No id begins with a dot.
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

/// Writes contents to a new folder that only its owner can access.
fn write(snapshot: &Snapshot, folder: &Path) -> io::Result<()> {
    private_folder(folder)?;
    for (path, item) in snapshot.items() {
        let target = folder.join(path);
        target.parent().map_or(Ok(()), private_folder)?;
        match item {
            SnapshotItem::File { executable, bytes } => {
                let mode = if *executable { 0o700 } else { 0o600 };
                let mut file =
                    OpenOptions::new().write(true).create_new(true).mode(mode).open(&target)?;
                file.write_all(bytes)?;
                file.sync_all()?;
            }
            SnapshotItem::Link(link) => symlink(link, &target)?,
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

/// Removes a folder. A missing folder is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
