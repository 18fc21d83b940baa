//! A whole file on disk: read as it was decided on, and replaced atomically.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::{self, Read, Write},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use cotter::fs::{
    file_views::{COMPARED_BYTES, FileStamp},
    open::Folder,
};
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid},
    io::Errno,
};

/// A file to be changed, and its folder. Both are held open, so later renames do not matter.
pub(crate) struct WriteTarget {
    folder: Folder,
    name: OsString,
    /// The folders created for it, the outermost first, each with its parent.
    created: Vec<(Folder, OsString)>,
    done: bool,
}

/// The state of a target.
pub(crate) enum FileState {
    Nothing,
    File(Box<FileHandle>),
    /// Not a regular file, with its kind in words.
    Other(&'static str),
}

/// An existing file.
pub(crate) struct FileHandle {
    metadata: Metadata,
    /// Its content, unless it is too long to compare.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The reason why it may not be changed.
    pub(crate) why_read_only: Option<String>,
}

impl FileHandle {
    pub(crate) fn stamp(&self) -> FileStamp {
        FileStamp::of(&self.metadata, self.bytes.as_deref())
    }

    pub(crate) fn size(&self) -> u64 {
        self.metadata.len()
    }

    /// The number of other names (hard links) of the file.
    pub(crate) fn other_names(&self) -> u64 {
        self.metadata.nlink().saturating_sub(1)
    }
}

impl WriteTarget {
    /// The target for a path without links. Missing folders are created, and removed again if no
    /// file is written.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(no_file());
        };
        let existing = parent.ancestors().find_map(|at| match Folder::open(at) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map(|folder| (folder, at))),
        });
        let (folder, at) = existing.ok_or_else(no_file)??;
        let mut target = WriteTarget { folder, name: name.into(), created: vec![], done: false };
        let missing = parent.strip_prefix(at).map_err(io::Error::other)?;
        for name in missing {
            target.enter(name)?;
        }
        Ok(target)
    }

    /// The target for a path in an existing folder.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let folder = Folder::open(path.parent().ok_or_else(no_file)?)?;
        let name = path.file_name().ok_or_else(no_file)?.into();
        Ok(WriteTarget { folder, name, created: vec![], done: false })
    }

    /// Enters a subfolder, and creates it if it is missing.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let created = match rustix::fs::mkdirat(&self.folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let inner = self.folder.folder(name)?;
        let outer = std::mem::replace(&mut self.folder, inner);
        if created {
            self.created.push((outer, name.into()));
        }
        Ok(())
    }

    /// The current state.
    pub(crate) fn state(&self) -> io::Result<FileState> {
        let metadata = match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)
        {
            Err(Errno::NOENT) => return Ok(FileState::Nothing),
            metadata => metadata?,
        };
        Ok(match FileType::from_raw_mode(metadata.st_mode) {
            FileType::RegularFile => FileState::File(Box::new(self.read_file()?)),
            FileType::Directory => FileState::Other("a folder"),
            FileType::Symlink => FileState::Other("a link that was not there before"),
            FileType::Fifo => FileState::Other("a pipe"),
            FileType::Socket => FileState::Other("a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => FileState::Other("a device"),
            _ => FileState::Other("something else"),
        })
    }

    fn read_file(&self) -> io::Result<FileHandle> {
        let file = self.folder.file(&self.name)?;
        let metadata = file.metadata()?;
        let mut bytes = None;
        if metadata.len() <= COMPARED_BYTES {
            let mut all = vec![];
            file.take(COMPARED_BYTES).read_to_end(&mut all)?;
            bytes = Some(all);
        }
        Ok(FileHandle { why_read_only: self.why_read_only(&metadata), metadata, bytes })
    }

    /// The reason why a file may not be changed. Replacing it would not check its own permissions.
    fn why_read_only(&self, metadata: &Metadata) -> Option<String> {
        if metadata.mode() & 0o222 == 0 {
            return Some("it is read-only".into());
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty());
        opened.err().map(|errno| io::Error::from(errno).to_string())
    }

    /// Replaces the content atomically and returns the new stamp. `may_continue` is checked before
    /// it takes effect.
    pub(crate) fn replace(
        mut self,
        before: Option<&FileHandle>,
        bytes: &[u8],
        may_continue: impl Fn() -> bool,
    ) -> io::Result<FileStamp> {
        let mut temp = TempFile::new(&self.folder, before.is_some())?;
        temp.file.write_all(bytes)?;
        if let Some(before) = before {
            keep_owner_and_mode(&temp.file, &before.metadata)?;
        }
        temp.file.sync_all()?;
        let stamp = FileStamp::of(&temp.file.metadata()?, Some(bytes));
        if !may_continue() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the run was aborted"));
        }
        match before {
            None => temp.rename_if_free(&self.name)?,
            Some(before) if self.is_unchanged(before) => temp.rename_over(&self.name)?,
            Some(_) => return Err(io::Error::other("another program changed it just now")),
        }
        // Make the name as durable as the content; a folder that cannot be synced is not an error.
        let _ = rustix::fs::fsync(&self.folder);
        self.done = true;
        Ok(stamp)
    }

    /// True if the file is still there and unchanged.
    fn is_unchanged(&self, before: &FileHandle) -> bool {
        let metadata = &before.metadata;
        let identity = (
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime(),
            metadata.mtime_nsec(),
        );
        let now = self.folder.file(&self.name).and_then(|file| file.metadata());
        now.is_ok_and(|now| {
            (now.dev(), now.ino(), now.size(), now.mtime(), now.mtime_nsec()) == identity
        })
    }
}

impl Drop for WriteTarget {
    /// If no file was written, removes the created folders that are empty.
    fn drop(&mut self) {
        while let Some((folder, name)) = self.created.pop().filter(|_| !self.done) {
            let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::REMOVEDIR);
        }
    }
}

/// A temporary file beside the one it replaces; removed unless it was renamed.
struct TempFile<'a> {
    folder: &'a Folder,
    name: String,
    file: File,
    is_renamed: bool,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl<'a> TempFile<'a> {
    /// A new, empty file. One that replaces another is private until it has its mode.
    fn new(folder: &'a Folder, replaces: bool) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(if replaces { 0o600 } else { 0o666 });
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".cotter-{}-{number}.tmp", process::id());
            match rustix::fs::openat(folder, &name, flags, mode) {
                Err(Errno::EXIST) => {}
                opened => {
                    return Ok(TempFile {
                        folder,
                        name,
                        file: File::from(opened?),
                        is_renamed: false,
                    });
                }
            }
        }
    }

    /// Renames to a free name; an error if the name is taken.
    fn rename_if_free(&mut self, name: &OsStr) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            let free = RenameFlags::NOREPLACE;
            match renameat_with(self.folder, &self.name, self.folder, name, free) {
                // The file system or kernel does not support it.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                renamed => {
                    renamed?;
                    self.is_renamed = true;
                    return Ok(());
                }
            }
        }
        self.rename_over(name)
    }

    fn rename_over(&mut self, name: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn keep_owner_and_mode(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        let (owner, group) = (Uid::from_raw(before.uid()), Gid::from_raw(before.gid()));
        // A user who may not change the owner keeps the content.
        let _ = rustix::fs::fchown(file.as_fd(), Some(owner), Some(group));
    }
    file.set_permissions(PermissionsExt::from_mode(before.mode() & 0o777))
}
