//! Files, opened so that the check is the open.
//!
//! A call is decided on by paths in which every link is resolved ([`Facts`](crate::permission::facts::Facts)). Here
//! such a path is opened without following a link anywhere in it: who puts one there after the decision
//! gets an error and no file. A pipe is not waited for. What was opened may still be a folder or a
//! device; that is the caller's to see.

use std::{fs::File, io, path::Path};

#[cfg(unix)]
pub use self::unix::Folder;

/// Opens a file for reading, by a path without links.
pub fn file(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    return unix::open(path, unix::READ).map(File::from);
    // Without a way to open like that, the check is repeated on what was opened.
    #[cfg(not(unix))]
    {
        let file = File::open(path)?;
        match std::fs::canonicalize(path)? == path {
            true => Ok(file),
            false => Err(io::Error::other("it was replaced by a link")),
        }
    }
}

#[cfg(unix)]
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

    /// A folder that was opened and stays the same one, whatever becomes of its name.
    #[derive(Debug)]
    pub struct Folder(OwnedFd);

    impl Folder {
        /// Opens a folder, by a path without links.
        pub fn open(path: &Path) -> io::Result<Self> {
            open(path, OFlags::RDONLY | OFlags::DIRECTORY).map(Folder)
        }

        /// Opens a folder in this one; a link is none.
        pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
            step(self.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY).map(Folder).map_err(told)
        }

        /// Opens a file in this folder for reading; a link is none.
        pub fn file(&self, name: &OsStr) -> io::Result<File> {
            step(self.as_fd(), name, READ).map(File::from).map_err(told)
        }

        /// Opens a folder in this one, which is made for its owner alone where it is not there; a link is
        /// none.
        pub fn folder_or_new(&self, name: &OsStr) -> io::Result<Self> {
            match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => self.folder(name),
                Err(errno) => Err(told(errno)),
            }
        }

        /// Opens a file in this folder to add to its end, and to read it; where it is not there it is made
        /// for its owner alone. A link is none. A pipe is not waited for.
        pub fn append(&self, name: &OsStr) -> io::Result<File> {
            let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
            let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let opened = openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR);
            opened.map(File::from).map_err(told)
        }

        /// Where a link in this folder says it leads; it is not followed.
        pub fn link(&self, name: &OsStr) -> io::Result<OsString> {
            use std::os::unix::ffi::OsStringExt;
            let target = rustix::fs::readlinkat(&self.0, name, vec![])?;
            Ok(OsString::from_vec(target.into_bytes()))
        }

        /// What a name in this folder stands for; a link is a link.
        pub fn kind(&self, name: &OsStr) -> io::Result<FileType> {
            let about = statat(&self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(about.st_mode))
        }

        /// What is in it, by name and kind, in no order.
        pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
            self.entries_at_most(usize::MAX).map(Option::unwrap_or_default)
        }

        /// The same where it is no more than so many; `None` where it is.
        pub fn entries_at_most(
            &self,
            most: usize,
        ) -> io::Result<Option<Vec<(OsString, FileType)>>> {
            use std::os::unix::ffi::OsStrExt;
            let mut found = vec![];
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
                if found.len() == most {
                    return Ok(None);
                }
                found.push((name.to_owned(), kind));
            }
            Ok(Some(found))
        }
    }

    impl AsFd for Folder {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    /// Opens a path in which no name may be a link.
    pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        if !path.is_absolute() || path.components().any(|name| name == Component::ParentDir) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not resolved"));
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
            let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), links) {
                // An older kernel, or a filter that does not know it.
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return opened.map_err(told),
            }
        }
        name_by_name(path, flags).map_err(told)
    }

    /// The same where the kernel cannot do it at once.
    fn name_by_name(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, "/", folder, Mode::empty())?;
        let mut names =
            path.components().filter(|name| matches!(name, Component::Normal(_))).peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_none() { flags } else { folder };
            at = step(at.as_fd(), name.as_os_str(), flags)?;
        }
        Ok(at)
    }

    fn step(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    fn told(errno: Errno) -> io::Error {
        match errno {
            Errno::LOOP => {
                io::Error::other("there is a link in its path that was not there before")
            }
            errno => errno.into(),
        }
    }

    #[cfg(test)]
    mod tests {
        use std::os::unix::fs::symlink;

        use super::*;

        #[test]
        fn s16_no_link_is_followed_anywhere_in_a_path() {
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
                    assert_eq!(name_by_name(&path, READ).is_ok(), opens, "{path:?}, name by name");
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
