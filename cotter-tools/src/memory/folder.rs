//! The folder of the entries: one file each, created atomically; links are not followed.
//!
//! Several processes may use it at once. A file is never rewritten, only created and removed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::SystemTime,
};

/// The largest file that is read: a person may write more than a model.
const FILE_BYTES: u64 = 64 * 1024;

/// A folder that may not exist yet.
#[derive(Debug)]
pub(crate) struct MemoryFolder(PathBuf);

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryFile {
    pub(crate) name: String,
    /// Changes when the file changes.
    pub(crate) stamp: Stamp,
}

/// The metadata that changes with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    is_file: bool,
    bytes: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl MemoryFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        MemoryFolder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Every file that may be an entry, sorted by name.
    pub(crate) fn list(&self) -> io::Result<Vec<MemoryFile>> {
        let files = match fs::read_dir(&self.0) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            files => files?,
        };
        let mut found = vec![];
        for file in files {
            let file = file?;
            let name = file.file_name();
            // A name that is not UTF-8 cannot be shown, so the file is skipped.
            let Some(name) = name.to_str().filter(|name| is_entry(name)) else { continue };
            // The file was removed meanwhile.
            let Ok(metadata) = file.metadata() else { continue };
            found.push(MemoryFile { name: name.to_owned(), stamp: Stamp::of(&metadata) });
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The text of a file, or the error.
    pub(crate) fn read(&self, file_entry: &MemoryFile) -> Result<String, String> {
        if !file_entry.stamp.is_file {
            return Err("it is not a file; links are not followed".into());
        }
        if file_entry.stamp.bytes > FILE_BYTES {
            return Err(format!("it has more than {FILE_BYTES} bytes"));
        }
        let mut options = OpenOptions::new();
        options.read(true);
        // Do not follow a link put there meanwhile, nor wait for the writer of a pipe.
        {
            use std::os::unix::fs::OpenOptionsExt;
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            options.custom_flags(flags.bits().cast_signed());
        }
        let file =
            options.open(self.0.join(&file_entry.name)).map_err(|cause| cause.to_string())?;
        let mut bytes = vec![];
        let read = file.take(FILE_BYTES).read_to_end(&mut bytes);
        read.map_err(|cause| cause.to_string())?;
        String::from_utf8(bytes).map_err(|_| "it is not text".into())
    }

    /// Creates a new file atomically. False if the name is taken.
    pub(crate) fn add(&self, name: &str, content: &str) -> io::Result<bool> {
        make_folder(&self.0)?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temp = self.0.join(format!(".{}-{number}.new", std::process::id()));
        let path = self.0.join(name);
        let written = write_private(&temp, content);
        // A hard link fails if the name is taken; a rename would replace the file.
        let added = written.and_then(|()| fs::hard_link(&temp, &path));
        let _ = fs::remove_file(&temp);
        match added {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            added => added?,
        }
        self.sync()?;
        Ok(true)
    }

    /// Removes a file; false if it did not exist. Of a link, the link is removed and not its
    /// target.
    pub(crate) fn remove(&self, name: &str) -> io::Result<bool> {
        match fs::remove_file(self.0.join(name)) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(false),
            removed => removed?,
        }
        self.sync()?;
        Ok(true)
    }

    /// Syncs the folder, so that names are on disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        let modified = metadata.modified().ok();
        Stamp { is_file: metadata.is_file(), bytes: metadata.len(), modified, inode }
    }
}

fn is_entry(name: &str) -> bool {
    name.ends_with(".md") && !name.starts_with('.')
}

/// Creates a folder that only its owner can read.
fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Writes a new file that only its owner can read, and syncs it.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}
