//! The workspace of a run: the folders that it may read, the folders that it may write, and closed folders.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folders of a run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Workspace(Arc<WorkspaceFolders>);

#[derive(Clone, Debug)]
struct WorkspaceFolders {
    cwd: PathBuf,
    project: PathBuf,
    /// More folders that may be read and written.
    roots: Vec<PathBuf>,
    /// More folders that may be read.
    read: Vec<PathBuf>,
    /// Folders and files closed to calls, even inside an open folder.
    closed: Vec<PathBuf>,
    home: Option<PathBuf>,
}

/// System folders, which no call may write.
const SYSTEM_FOLDERS: [&str; 13] = [
    "/etc", "/usr", "/sys", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot",
    "/dev", "/proc", "/System",
];

/// Devices that are harmless to read and to write.
const HARMLESS_DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

impl Workspace {
    /// Creates a workspace whose working folder and project are `folder`.
    pub fn new(folder: &Path) -> Self {
        Workspace(Arc::new(WorkspaceFolders {
            cwd: folder.into(),
            project: folder.into(),
            roots: vec![],
            read: vec![],
            closed: vec![],
            home: None,
        }))
    }

    /// Creates a workspace without folders: no path lies inside it.
    pub fn empty() -> Self {
        Workspace::new(Path::new("/dev/null"))
    }

    fn with(mut self, change: impl FnOnce(&mut WorkspaceFolders)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Sets the project's root.
    pub fn with_project(self, project: &Path) -> Self {
        self.with(|folders| folders.project = project.into())
    }

    /// Sets the working folder.
    pub fn with_cwd(self, cwd: &Path) -> Self {
        self.with(|folders| folders.cwd = cwd.into())
    }

    /// Adds folders that may be read and written like the project.
    pub fn with_roots(self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(|folders| folders.roots.extend(roots))
    }

    /// Adds folders that may be read.
    pub fn with_read_roots(self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(|folders| folders.read.extend(roots))
    }

    /// Adds folders or files that no call may read or write, even inside an open folder.
    pub fn with_closed(self, closed: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(|folders| folders.closed.extend(closed))
    }

    /// Sets the person's home folder: the folder that `~` means.
    pub fn with_home(self, home: impl Into<PathBuf>) -> Self {
        self.with(|folders| folders.home = Some(home.into()))
    }

    /// The folder that relative paths start from.
    pub fn cwd(&self) -> &Path {
        &self.0.cwd
    }

    /// The project's root.
    pub fn project(&self) -> &Path {
        &self.0.project
    }

    /// The person's home folder, if it is known.
    pub fn home(&self) -> Option<&Path> {
        self.0.home.as_deref()
    }

    /// Every folder that may be written, the project first.
    pub fn write_roots(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.project()).chain(self.0.roots.iter().map(PathBuf::as_path))
    }

    /// Every folder that may be read, the project first.
    pub fn read_roots(&self) -> impl Iterator<Item = &Path> {
        self.write_roots().chain(self.0.read.iter().map(PathBuf::as_path))
    }

    /// The closed folders and files, even inside an open folder. A read root inside a closed folder may
    /// still be read.
    pub fn closed(&self) -> impl Iterator<Item = &Path> {
        self.0.closed.iter().map(PathBuf::as_path)
    }

    /// True if calls may read a path. The path must be absolute with links resolved.
    pub fn is_readable(&self, path: &Path) -> bool {
        is_harmless_device(path)
            || !self.is_closed(path) && self.read_roots().any(|root| path.starts_with(root))
    }

    /// True if calls may write a path. The path must be absolute with links resolved.
    pub fn is_writable(&self, path: &Path) -> bool {
        is_harmless_device(path)
            || !self.is_closed_to_writes(path)
                && self.write_roots().any(|root| path.starts_with(root))
    }

    /// True if a path is in a closed folder. A read root inside that folder may be read, but not written.
    pub fn is_closed_to_writes(&self, path: &Path) -> bool {
        self.closed().any(|closed| path.starts_with(closed))
    }

    /// True if a path is closed: in a closed folder and not in a read root inside that folder.
    pub fn is_closed(&self, path: &Path) -> bool {
        let is_reopened = |closed: &Path| {
            let mut inner_roots =
                self.read_roots().filter(|root| root.starts_with(closed) && *root != closed);
            inner_roots.any(|root| path.starts_with(root))
        };
        self.closed().any(|closed| path.starts_with(closed) && !is_reopened(closed))
    }
}

/// True if a path belongs to the operating system. No call may write it.
pub fn is_system(path: &Path) -> bool {
    path == Path::new("/")
        || !is_harmless_device(path) && SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// True if a path is a device such as `/dev/null`, which may be read and written.
pub fn is_harmless_device(path: &Path) -> bool {
    let is_number = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let is_open_file =
        path.parent() == Some(Path::new("/dev/fd")) && path.file_name().is_some_and(is_number);
    HARMLESS_DEVICES.iter().any(|device| path == Path::new(device)) || is_open_file
}
