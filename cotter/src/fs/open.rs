//! Opens files without following links, so that the opened file is the file that was decided about.
//!
//! A decision is about paths in which every link is resolved ([`Facts`](crate::permission::facts::Facts)).
//! If a link appears in such a path after the decision, the open fails. Opening a pipe does not wait. The
//! opened object may still be a folder or a device; the caller checks.

use std::{fs::File, io, path::Path};

pub use self::unix::Folder;

/// Opens a file for reading by a path without links.
pub fn file(path: &Path) -> io::Result<File> {
    unix::open(path, unix::READ).map(File::from)
}

mod unix {
    use std::{
        ffi::{OsStr, OsString},
        fs::File,
        io,
        os::fd::{AsFd, BorrowedFd, OwnedFd},
        path::{Component, Path},
    };

    use rustix::{
        fs::{CWD, Dir, FileType, Mode, OFlags, openat, statat},
        io::Errno,
    };

    pub(crate) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

    /// An open folder. It stays the same folder when its path is renamed or replaced.
    #[derive(Debug)]
    pub struct Folder(OwnedFd);

    impl Folder {
        /// Opens a folder by a path without links.
        pub fn open(path: &Path) -> io::Result<Self> {
            open(path, OFlags::RDONLY | OFlags::DIRECTORY).map(Folder)
        }

        /// Opens a folder inside this folder. A link is an error.
        pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
            open_name(self.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)
                .map(Folder)
                .map_err(to_io_error)
        }

        /// Opens a file in this folder for reading. A link is an error.
        pub fn file(&self, name: &OsStr) -> io::Result<File> {
            open_name(self.as_fd(), name, READ).map(File::from).map_err(to_io_error)
        }

        /// Opens a folder inside this folder. A missing folder is created with access for its owner only. A
        /// link is an error.
        pub fn folder_or_new(&self, name: &OsStr) -> io::Result<Self> {
            match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => self.folder(name),
                Err(errno) => Err(to_io_error(errno)),
            }
        }

        /// Opens a file in this folder to read and to append. A missing file is created with access for its
        /// owner only. A link is an error. Opening a pipe does not wait.
        pub fn append(&self, name: &OsStr) -> io::Result<File> {
            let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
            let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let opened = openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR);
            opened.map(File::from).map_err(to_io_error)
        }

        /// Reads the target of a link in this folder without following the link.
        pub fn link(&self, name: &OsStr) -> io::Result<OsString> {
            use std::os::unix::ffi::OsStringExt;
            let target = rustix::fs::readlinkat(&self.0, name, vec![])?;
            Ok(OsString::from_vec(target.into_bytes()))
        }

        /// Returns the file type of a name in this folder. A link is reported as a link.
        pub fn kind(&self, name: &OsStr) -> io::Result<FileType> {
            let stat = statat(&self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(stat.st_mode))
        }

        /// Lists the names in this folder with their file types, in no order.
        pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
            self.entries_at_most(usize::MAX).map(Option::unwrap_or_default)
        }

        /// Lists the names in this folder if there are at most `max`; `None` if there are more.
        pub fn entries_at_most(&self, max: usize) -> io::Result<Option<Vec<(OsString, FileType)>>> {
            use std::os::unix::ffi::OsStrExt;
            let mut entries = vec![];
            for entry in Dir::read_from(&self.0)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => self.kind(name).unwrap_or(FileType::Unknown),
                    kind => kind,
                };
                if entries.len() == max {
                    return Ok(None);
                }
                entries.push((name.to_owned(), kind));
            }
            Ok(Some(entries))
        }
    }

    impl AsFd for Folder {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    /// Opens an absolute path in which no name may be a link.
    pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        if !path.is_absolute() || path.components().any(|name| name == Component::ParentDir) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path is not absolute, or it contains `..`",
            ));
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a path cannot hold a zero byte",
            ));
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{ResolveFlags, openat2};
            let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), no_links) {
                // The kernel is too old, or a system call filter does not allow `openat2`.
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return opened.map_err(to_io_error),
            }
        }
        open_name_by_name(path, flags).map_err(to_io_error)
    }

    /// Opens a path name by name, for systems without `openat2`.
    fn open_name_by_name(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut opened = openat(CWD, "/", folder, Mode::empty())?;
        let mut names =
            path.components().filter(|name| matches!(name, Component::Normal(_))).peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_none() { flags } else { folder };
            opened = open_name(opened.as_fd(), name.as_os_str(), flags)?;
        }
        Ok(opened)
    }

    fn open_name(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    fn to_io_error(errno: Errno) -> io::Error {
        match errno {
            Errno::LOOP => io::Error::other("the path contains a link, and links are not followed"),
            errno => errno.into(),
        }
    }

    #[cfg(test)]
    mod tests {
        use std::os::unix::fs::symlink;

        use super::*;

        #[test]
        fn s16_open_follows_no_link_anywhere_in_the_path() {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().canonicalize().unwrap();
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            std::fs::write(root.join("a/b/file"), "words").unwrap();
            symlink("a", root.join("link")).unwrap();
            symlink("file", root.join("a/b/link")).unwrap();
            let check = |path: &str, opens: bool| {
                let path = if path.starts_with('/') { path.into() } else { root.join(path) };
                assert_eq!(open(&path, READ).is_ok(), opens, "{path:?}");
                let absolute = !path.components().any(|name| name == Component::ParentDir);
                if absolute {
                    assert_eq!(
                        open_name_by_name(&path, READ).is_ok(),
                        opens,
                        "{path:?}, name by name"
                    );
                }
            };
            check("a/b/file", true);
            check("a/b", true);
            check("/", true);
            check("link/b/file", false);
            check("a/b/link", false);
            check("a/../a/b/file", false);
            check("a/b/none", false);
            check("/proc/self/root/etc/passwd", false);
            check("/proc/self/cwd", false);
        }
    }
}
