//! Copies of snapshots on the disk, by their hash: made whole or not at all, and used only where they
//! still are what the hash says.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::trust::{
    TrustError,
    snapshot::{Hash, Snapshot, SnapshotItem},
};

/// Names of what is being made or taken away. The store's lock is held meanwhile, so whoever holds it
/// and finds one knows that its maker was killed.
const UNDER_WAY: [&str; 2] = [".new", ".old"];

/// How long a copy that nobody trusts any more is kept: sessions may still run from it.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The folder of all copies.
pub(crate) struct TrustedCopies(pub(crate) PathBuf);

impl TrustedCopies {
    /// Where the copy of a hash is, if there is one.
    fn path(&self, hash: Hash) -> PathBuf {
        self.0.join(hash.to_string())
    }

    /// The copy of a hash, read and compared with it.
    pub(crate) fn read(&self, hash: Hash) -> Result<(PathBuf, Snapshot), TrustError> {
        let path = self.path(hash);
        let found = Snapshot::take(&path)?;
        if found.hash() != hash {
            return Err(TrustError::new(&path, "is not what was trusted any more"));
        }
        // Not a word about what it holds: it tells that somebody still uses it.
        let _ = File::open(&path).and_then(|folder| folder.set_modified(SystemTime::now()));
        Ok((path, found))
    }

    /// Makes the copy of a snapshot, where there is no good one. Needs the store's lock.
    pub(crate) fn keep(&self, snapshot: &Snapshot) -> Result<PathBuf, TrustError> {
        if let Ok((path, _)) = self.read(snapshot.hash()) {
            return Ok(path);
        }
        let path = self.path(snapshot.hash());
        self.make(snapshot, &path).map_err(|cause| TrustError::io("make", &path, cause))?;
        // What was written is what a disk gives back, or it is of no use.
        self.read(snapshot.hash()).map(|(path, _)| path)
    }

    fn make(&self, snapshot: &Snapshot, path: &Path) -> io::Result<()> {
        private_folder(&self.0)?;
        let [new, old] = UNDER_WAY.map(|name| self.0.join(name));
        write(snapshot, &new)?;
        if path.symlink_metadata().is_ok() {
            fs::rename(path, &old)?;
        }
        fs::rename(&new, path)?;
        sync_folder(&self.0)?;
        remove(&old)
    }

    /// Takes away what killed processes left, and copies that nobody trusts any more. Needs the store's
    /// lock.
    pub(crate) fn sweep(&self, is_trusted: impl Fn(Hash) -> bool) -> io::Result<()> {
        for name in UNDER_WAY {
            remove(&self.0.join(name))?;
        }
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let hash = entry.file_name().to_str().and_then(|name| name.parse::<Hash>().ok());
            let unused = hash.is_some_and(|hash| !is_trusted(hash));
            let age = entry.metadata().and_then(|about| about.modified()).ok();
            let age = age.and_then(|then| then.elapsed().ok());
            if unused && age.is_some_and(|age| age > KEPT) {
                // Out of its name at once: half a copy is never found under its hash.
                let old = self.0.join(UNDER_WAY[1]);
                fs::rename(entry.path(), &old).and_then(|()| remove(&old))?;
            }
        }
        Ok(())
    }
}

/// Makes a folder that is its owner's alone, and those above it.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes all of a snapshot into a new folder, to the disk, and closes it to writers.
fn write(snapshot: &Snapshot, root: &Path) -> io::Result<()> {
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
            SnapshotItem::File { executable, bytes } => write_file(&at, *executable, bytes)?,
            SnapshotItem::Link(target) => symlink(target, &at)?,
        }
    }
    // The deepest first; a folder that was named twice is closed twice.
    folders.sort_unstable();
    for folder in folders.iter().rev() {
        fs::set_permissions(folder, Permissions::from_mode(0o500))?;
        sync_folder(folder)?;
    }
    Ok(())
}

fn write_file(path: &Path, executable: bool, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    let mode = if executable { 0o500 } else { 0o400 };
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Takes a copy away, closed as it is. None there is fine.
fn remove(path: &Path) -> io::Result<()> {
    let about = match path.symlink_metadata() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    if !about.is_dir() {
        return fs::remove_file(path);
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        remove(&entry?.path())?;
    }
    fs::remove_dir(path)
}
