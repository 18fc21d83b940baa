//! Copies of snapshots on disk, by their hash. A copy is written completely or not at all, and is used only
//! if its contents still match the hash.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::trust::{
    TrustError,
    snapshot::{Hash, Snapshot, SnapshotItem},
};

/// Names of folders that are being written or removed. The store's lock is held meanwhile. So if the holder
/// of the lock finds such a folder, its writer was killed.
const TEMPORARY_NAMES: [&str; 2] = [".new", ".old"];

/// The time for which an untrusted copy is kept: sessions may still run from it.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The folder of all copies.
pub(crate) struct TrustedCopies(pub(crate) PathBuf);

impl TrustedCopies {
    /// The path of the copy for a hash, whether it exists or not.
    fn path(&self, hash: Hash) -> PathBuf {
        self.0.join(hash.to_string())
    }

    /// Reads the copy for a hash, and checks its contents against the hash.
    pub(crate) fn read(&self, hash: Hash) -> Result<(PathBuf, Snapshot), TrustError> {
        let path = self.path(hash);
        let found = Snapshot::take(&path)?;
        if found.hash() != hash {
            return Err(TrustError::new(&path, "differs from what was trusted"));
        }
        // The modification time records that the copy is still in use. An error does not matter.
        let _ = File::open(&path).and_then(|folder| folder.set_modified(SystemTime::now()));
        Ok((path, found))
    }

    /// Writes the copy of a snapshot, unless a valid copy exists. Requires the store's lock.
    pub(crate) fn ensure(&self, snapshot: &Snapshot) -> Result<PathBuf, TrustError> {
        if let Ok((path, _)) = self.read(snapshot.hash()) {
            return Ok(path);
        }
        let path = self.path(snapshot.hash());
        self.make(snapshot, &path).map_err(|cause| TrustError::io("create", &path, cause))?;
        // Reads the copy back: a copy that the disk returns differently is an error.
        self.read(snapshot.hash()).map(|(path, _)| path)
    }

    fn make(&self, snapshot: &Snapshot, path: &Path) -> io::Result<()> {
        private_folder(&self.0)?;
        let [new, old] = TEMPORARY_NAMES.map(|name| self.0.join(name));
        write(snapshot, &new, Durability::Synced)?;
        if path.symlink_metadata().is_ok() {
            fs::rename(path, &old)?;
        }
        fs::rename(&new, path)?;
        sync_folder(&self.0)?;
        remove(&old)
    }

    /// Removes the leftovers of killed processes, and old copies that are no longer trusted. Makes the folders
    /// of copies of earlier versions writable. Requires the store's lock.
    pub(crate) fn sweep(&self, is_trusted: impl Fn(Hash) -> bool) -> io::Result<()> {
        for name in TEMPORARY_NAMES {
            remove(&self.0.join(name))?;
        }
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let hash = entry.file_name().to_str().and_then(|name| name.parse::<Hash>().ok());
            let Some(hash) = hash else { continue };
            let unused = !is_trusted(hash);
            let metadata = entry.metadata();
            let is_closed = |found: &Metadata| found.is_dir() && found.mode() & 0o200 == 0;
            if metadata.as_ref().is_ok_and(is_closed) {
                open_folders(&entry.path())?;
            }
            let age = metadata.and_then(|metadata| metadata.modified()).ok();
            let age = age.and_then(|then| then.elapsed().ok());
            if unused && age.is_some_and(|age| age > RETENTION) {
                // The copy is renamed first, so that a partial copy never has the name of its hash.
                let old = self.0.join(TEMPORARY_NAMES[1]);
                fs::rename(entry.path(), &old).and_then(|()| remove(&old))?;
            }
        }
        Ok(())
    }
}

/// A copy of a snapshot in a private folder, for looking at it with the readers of a run. Dropping it removes
/// it.
pub struct ScratchCopy {
    root: PathBuf,
    folder: PathBuf,
}

impl ScratchCopy {
    /// Writes the copy below a folder, such as the one for temp files.
    pub fn new(snapshot: &Snapshot, below: &Path) -> Result<Self, TrustError> {
        let failed = |cause| TrustError::io("write a copy below", below, cause);
        let new_folder = |number: u32| {
            let root = below.join(format!("cotter-view-{}-{number}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&root).map(|()| root)
        };
        let is_taken = |made: &io::Result<PathBuf>| {
            made.as_ref().is_err_and(|cause| cause.kind() == io::ErrorKind::AlreadyExists)
        };
        let mut made = (0..MAX_SCRATCH_COPIES).map(new_folder).skip_while(is_taken);
        let root = made.next().unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()));
        let root = root.map_err(failed)?;
        // The readers know a copy by its name, which is its hash.
        let copy = ScratchCopy { folder: root.join(snapshot.hash().to_string()), root };
        write(snapshot, &copy.folder, Durability::Scratch).map_err(failed)?;
        Ok(copy)
    }

    /// The folder with the contents.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for ScratchCopy {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder of temp files.
        let _ = remove(&self.root);
    }
}

/// The maximum number of scratch copies of one process at a time.
const MAX_SCRATCH_COPIES: u32 = 1000;

/// Whether a copy must survive a crash of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Synced,
    Scratch,
}

/// Creates a folder that only its owner can access, and its missing parents.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a snapshot into a new folder. Its files are read-only. Its folders are not, so that their owner can
/// remove them: what keeps a copy as it was is the check of its hash.
fn write(snapshot: &Snapshot, root: &Path, durability: Durability) -> io::Result<()> {
    private_folder(root)?;
    let mut folders = vec![root.to_owned()];
    for (path, item) in snapshot.items() {
        let at = root.join(path);
        let above = at.parent().unwrap_or(root);
        if !folders.iter().any(|folder| folder == above) {
            private_folder(above)?;
            let new = above.ancestors().take_while(|folder| *folder != root);
            folders.extend(new.map(Path::to_owned));
        }
        match item {
            SnapshotItem::File { executable, bytes } => {
                write_file(&at, *executable, bytes, durability)?
            }
            SnapshotItem::Link(target) => symlink(target, &at)?,
        }
    }
    // The deepest folder comes first. A folder that is listed twice is handled twice.
    folders.sort_unstable();
    for folder in folders.iter().rev() {
        if durability == Durability::Synced {
            sync_folder(folder)?;
        }
    }
    Ok(())
}

fn write_file(
    path: &Path,
    executable: bool,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    let mode = if executable { 0o500 } else { 0o400 };
    file.set_permissions(Permissions::from_mode(mode))?;
    match durability {
        Durability::Synced => file.sync_all(),
        Durability::Scratch => Ok(()),
    }
}

/// Removes a copy, also one of an earlier version with read-only folders. A missing copy is not an error.
fn remove(path: &Path) -> io::Result<()> {
    let metadata = match path.symlink_metadata() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.is_dir() {
        return fs::remove_file(path);
    }
    open_folders(path)?;
    fs::remove_dir_all(path)
}

/// Makes a folder and all folders below it writable for their owner. The folder itself is last, so that a
/// walk that breaks off is made again.
fn open_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}
