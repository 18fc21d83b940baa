//! A file on the disk, whole: read as it was decided on, and replaced at once or not at all.

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

/// A file that is about to be changed, and the folder it is in. Both stay the same ones, whatever
/// becomes of their names.
pub(crate) struct WriteTarget {
    folder: Folder,
    name: OsString,
    /// The folders that were made for it, the outermost first, each with the folder it is in.
    made: Vec<(Folder, OsString)>,
    done: bool,
}

/// What stands at a spot.
pub(crate) enum FileState {
    Nothing,
    File(Box<FileHandle>),
    /// Something that is no file, in words.
    Other(&'static str),
}

/// A file as it stands.
pub(crate) struct FileHandle {
    about: Metadata,
    /// All it holds, unless it is longer than anybody compares.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Why it may not be changed.
    pub(crate) closed: Option<String>,
}

impl FileHandle {
    pub(crate) fn mark(&self) -> FileStamp {
        FileStamp::of(&self.about, self.bytes.as_deref())
    }

    pub(crate) fn size(&self) -> u64 {
        self.about.len()
    }

    /// How many names the file has besides this one.
    pub(crate) fn other_names(&self) -> u64 {
        self.about.nlink().saturating_sub(1)
    }
}

impl WriteTarget {
    /// The spot of a path without links. Folders that are missing are made; they go again where nothing
    /// comes to stand in them.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it names no file");
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(no_file());
        };
        let there = parent.ancestors().find_map(|at| match Folder::open(at) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map(|folder| (folder, at))),
        });
        let (folder, at) = there.ok_or_else(no_file)??;
        let mut spot = WriteTarget { folder, name: name.into(), made: vec![], done: false };
        let missing = parent.strip_prefix(at).map_err(io::Error::other)?;
        for name in missing {
            spot.enter(name)?;
        }
        Ok(spot)
    }

    /// The spot of a path whose folder is there.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it names no file");
        let folder = Folder::open(path.parent().ok_or_else(no_file)?)?;
        let name = path.file_name().ok_or_else(no_file)?.into();
        Ok(WriteTarget { folder, name, made: vec![], done: false })
    }

    /// Goes into a folder of the one it is in, and makes it where it is missing.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let made = match rustix::fs::mkdirat(&self.folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let inner = self.folder.folder(name)?;
        let outer = std::mem::replace(&mut self.folder, inner);
        if made {
            self.made.push((outer, name.into()));
        }
        Ok(())
    }

    /// What stands there now.
    pub(crate) fn stands(&self) -> io::Result<FileState> {
        let about = match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(FileState::Nothing),
            about => about?,
        };
        Ok(match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => FileState::File(Box::new(self.held()?)),
            FileType::Directory => FileState::Other("a folder"),
            FileType::Symlink => FileState::Other("a link that was not there before"),
            FileType::Fifo => FileState::Other("a pipe"),
            FileType::Socket => FileState::Other("a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => FileState::Other("a device"),
            _ => FileState::Other("something else"),
        })
    }

    fn held(&self) -> io::Result<FileHandle> {
        let file = self.folder.file(&self.name)?;
        let about = file.metadata()?;
        let mut bytes = None;
        if about.len() <= COMPARED_BYTES {
            let mut all = vec![];
            file.take(COMPARED_BYTES).read_to_end(&mut all)?;
            bytes = Some(all);
        }
        Ok(FileHandle { closed: self.closed(&about), about, bytes })
    }

    /// Why a file may not be changed: replacing it would not ask for its own leave.
    fn closed(&self, about: &Metadata) -> Option<String> {
        if about.mode() & 0o222 == 0 {
            return Some("it is read-only".into());
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty());
        opened.err().map(|errno| io::Error::from(errno).to_string())
    }

    /// Puts these bytes there: all of them, or nothing changes. Gives how the file stands then.
    /// `go_on` is asked before it takes effect.
    pub(crate) fn replace(
        mut self,
        before: Option<&FileHandle>,
        bytes: &[u8],
        go_on: impl Fn() -> bool,
    ) -> io::Result<FileStamp> {
        let mut beside = TempFile::new(&self.folder, before.is_some())?;
        beside.file.write_all(bytes)?;
        if let Some(before) = before {
            keep_owner_and_mode(&beside.file, &before.about)?;
        }
        beside.file.sync_all()?;
        let mark = FileStamp::of(&beside.file.metadata()?, Some(bytes));
        if !go_on() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the run was aborted"));
        }
        match before {
            None => beside.take_the_free_place(&self.name)?,
            Some(before) if self.is_still(before) => beside.take_the_place_of(&self.name)?,
            Some(_) => return Err(io::Error::other("somebody else changed it just now")),
        }
        // The name is as durable as the bytes; a folder that cannot be synced has it all the same.
        let _ = rustix::fs::fsync(&self.folder);
        self.done = true;
        Ok(mark)
    }

    /// Whether the same file is still there, unchanged.
    fn is_still(&self, before: &FileHandle) -> bool {
        let about = &before.about;
        let stood = (about.dev(), about.ino(), about.size(), about.mtime(), about.mtime_nsec());
        let now = self.folder.file(&self.name).and_then(|file| file.metadata());
        now.is_ok_and(|now| {
            (now.dev(), now.ino(), now.size(), now.mtime(), now.mtime_nsec()) == stood
        })
    }
}

impl Drop for WriteTarget {
    /// Nothing came to stand there: the folders made for it go again, as far as they are empty.
    fn drop(&mut self) {
        while let Some((folder, name)) = self.made.pop().filter(|_| !self.done) {
            let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::REMOVEDIR);
        }
    }
}

/// A file beside the one it is to replace; gone again unless it does.
struct TempFile<'a> {
    folder: &'a Folder,
    name: String,
    file: File,
    placed: bool,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl<'a> TempFile<'a> {
    /// A new, empty file. One that replaces another is nobody else's to read until it has its mode.
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
                    return Ok(TempFile { folder, name, file: File::from(opened?), placed: false });
                }
            }
        }
    }

    /// Takes a name that nobody has; an error where somebody does by now.
    fn take_the_free_place(&mut self, name: &OsStr) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            let free = RenameFlags::NOREPLACE;
            match renameat_with(self.folder, &self.name, self.folder, name, free) {
                // A file system, or a kernel, that does not know it.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                renamed => {
                    renamed?;
                    self.placed = true;
                    return Ok(());
                }
            }
        }
        self.take_the_place_of(name)
    }

    fn take_the_place_of(&mut self, name: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.placed {
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn keep_owner_and_mode(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        let (owner, group) = (Uid::from_raw(before.uid()), Gid::from_raw(before.gid()));
        // Who may not give files away keeps what is written.
        let _ = rustix::fs::fchown(file.as_fd(), Some(owner), Some(group));
    }
    file.set_permissions(PermissionsExt::from_mode(before.mode() & 0o777))
}
