//! Backs up protected paths before a call and restores them after it.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use crate::confine::{Confinement, rights};

/// The most bytes backed up for all protected paths together.
const MAX_BACKUP: u64 = 16 * 1024 * 1024;

/// The backup of the protected paths.
pub(crate) struct PathGuard {
    before: Vec<(PathBuf, PathBackup)>,
    closed: Vec<PathBuf>,
    aside: Option<PathBuf>,
    /// True if another program or a person may have changed a path meanwhile.
    outlives: bool,
    /// Links above protected paths that existed before.
    known_links: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathBackup {
    Absent,
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link(PathBuf),
    Folder {
        mode: u32,
        entries: BTreeMap<PathBuf, PathBackup>,
    },
    /// Not backed up: too large, unreadable, or a special file. Compared by its metadata.
    Metadata {
        length: u64,
        changed: Option<std::time::SystemTime>,
    },
}

impl PathGuard {
    /// Backs up the paths that could change: in a view only the missing ones, otherwise all.
    pub(crate) fn take(confinement: &Confinement) -> Self {
        let mut room = MAX_BACKUP;
        let all = confinement.protected.iter().chain(&confinement.nested);
        let mut seen = HashSet::new();
        let guarded = all.filter(|path| seen.insert(*path)).filter(|path| {
            let metadata = path.symlink_metadata();
            let is_mounted = confinement.view;
            !is_mounted || metadata.is_err() || metadata.is_ok_and(|metadata| metadata.is_symlink())
        });
        let guarded: Vec<_> = guarded.collect();
        let known_links = guarded.iter().flat_map(|path| links_above(path)).collect();
        let before = guarded
            .into_iter()
            .map(|path| (path.clone(), PathBackup::read(path, &mut room)))
            .collect();
        let (closed, aside) = (confinement.closed.clone(), confinement.aside.clone());
        PathGuard { before, closed, aside, outlives: confinement.outlives, known_links }
    }

    /// The guard of paths that did not exist before.
    pub(crate) fn of_new(paths: Vec<PathBuf>, aside: &Path, outlives: bool) -> Self {
        let known_links = paths.iter().flat_map(|path| links_above(path)).collect();
        let before = paths.into_iter().map(|path| (path, PathBackup::Absent)).collect();
        PathGuard { before, closed: vec![], aside: Some(aside.into()), outlives, known_links }
    }

    /// Drops the backup of paths that were approved meanwhile: they stay as they are.
    pub(crate) fn approve(&mut self, paths: &[PathBuf]) {
        let overlaps = |path: &Path| {
            paths.iter().any(|written| written.starts_with(path) || path.starts_with(written))
        };
        self.before.retain(|(path, _)| !overlaps(path));
    }

    /// Restores all paths and reports those that had changed.
    pub(crate) fn restore_all(self) -> Vec<String> {
        let mut remarks = vec![];
        for (path, before) in &self.before {
            if let Err(remark) = self.remove_new_links(path) {
                remarks.push(remark);
                continue;
            }
            if *before == PathBackup::Absent && self.aside.is_some() {
                rights::give_back_around(path);
            }
            let now = PathBackup::read(path, &mut MAX_BACKUP.clone());
            if now == *before {
                continue;
            }
            let why = if self.closed.contains(path) {
                "is closed to commands"
            } else {
                "decides what runs later and was not approved"
            };
            let outcome = rights::change_entry(path, || self.restore_path(path, before, &now));
            let path = path.display();
            remarks.push(match self.outlives {
                true => format!("{path}, which {why}, was changed while it ran: {outcome}"),
                false => format!("the command changed {path}, which {why}: {outcome}"),
            });
        }
        remarks
    }

    /// Removes links that the command created above a path: their targets are outside the project,
    /// and nothing may be restored or removed there.
    fn remove_new_links(&self, path: &Path) -> Result<(), String> {
        while let Some(link) = links_above(path).find(|link| !self.known_links.contains(link)) {
            let remark =
                |what: &str| format!("the command replaced {} by a link: {what}", link.display());
            let Some(aside) = &self.aside else { return Err(remark("it was left as it is")) };
            let link_backup = fs::read_link(&link).map(PathBackup::Link);
            let copy = link_backup.and_then(|link_backup| link_backup.set_aside(&link, aside));
            copy.map_err(|cause| remark(&format!("it could not be set aside: {cause}")))?;
            let removed = rights::change_entry(&link, || fs::remove_file(&link));
            removed.map_err(|cause| remark(&format!("it stays there: {cause}")))?;
        }
        Ok(())
    }

    /// Restores one path and reports the outcome.
    fn restore_path(&self, path: &Path, before: &PathBackup, now: &PathBackup) -> String {
        let Some(aside) = &self.aside else { return "it was left as it is".into() };
        if self.outlives && *before != PathBackup::Absent {
            return "it was left as it is: another program may have changed it".into();
        }
        let parent = path.parent().unwrap_or(path);
        if parent.ends_with(".git") && parent.symlink_metadata().is_err() {
            // Two files do not make it a repository again.
            return "its repository no longer exists".into();
        }
        if matches!(before, PathBackup::Metadata { .. }) {
            return "it was too large to back up, and is as the command left it".into();
        }
        let copy = match now.set_aside(path, aside) {
            Ok(Some(copy)) => {
                let version = if self.outlives { "its last" } else { "the command's" };
                format!("; {version} version is in {}", copy.display())
            }
            Ok(None) => String::new(),
            Err(cause) => return format!("it could not be set aside: {cause}"),
        };
        match before.restore(path) {
            Err(cause) => format!("it could not be restored: {cause}{copy}"),
            Ok(()) if *before == PathBackup::Absent => format!("it was removed{copy}"),
            Ok(()) => format!("it was restored{copy}"),
        }
    }
}

impl PathBackup {
    fn read(path: &Path, room: &mut u64) -> PathBackup {
        let Ok(metadata) = path.symlink_metadata() else { return PathBackup::Absent };
        let fallback =
            PathBackup::Metadata { length: metadata.len(), changed: metadata.modified().ok() };
        let mode = metadata.permissions().mode();
        if metadata.is_symlink() {
            return fs::read_link(path).map_or(fallback, PathBackup::Link);
        }
        if metadata.is_file() {
            if metadata.len() > *room {
                return fallback;
            }
            *room -= metadata.len();
            return fs::read(path).map_or(fallback, |bytes| PathBackup::File { mode, bytes });
        }
        let Ok(listing) = metadata.is_dir().then(|| fs::read_dir(path)).transpose() else {
            return fallback;
        };
        let Some(listing) = listing else { return fallback };
        let names = listing.flatten().map(|entry| PathBuf::from(entry.file_name()));
        let mut entries = BTreeMap::new();
        for name in names {
            // A name also counts, so that the walk of a tree of empty folders ends.
            *room = room.saturating_sub(256);
            if *room == 0 {
                return fallback;
            }
            let before = PathBackup::read(&path.join(&name), room);
            entries.insert(name, before);
        }
        PathBackup::Folder { mode, entries }
    }

    /// Keeps the current content in another folder, so that nothing a person may miss is destroyed.
    fn set_aside(&self, path: &Path, aside: &Path) -> io::Result<Option<PathBuf>> {
        if *self == PathBackup::Absent {
            return Ok(None);
        }
        fs::create_dir_all(aside)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let first_free = |mut names: Box<dyn Iterator<Item = PathBuf> + '_>| {
            names.find(|copy| copy.symlink_metadata().is_err()).unwrap_or_default()
        };
        let copy = first_free(Box::new((1..).map(|number| aside.join(format!("{number}-{name}")))));
        if self.is_complete() {
            self.create(&copy)?;
            return Ok(Some(copy));
        }
        // The content is not fully known, so it is moved; if it cannot leave its file system, next
        // to its old path.
        let Err(cause) = fs::rename(path, &copy) else { return Ok(Some(copy)) };
        if cause.kind() != io::ErrorKind::CrossesDevices {
            return Err(cause);
        }
        let beside = (1..).map(|number| path.with_file_name(format!("{name}.set-aside-{number}")));
        let copy = first_free(Box::new(beside));
        fs::rename(path, &copy)?;
        Ok(Some(copy))
    }

    /// True if the content is fully known, so that a copy can be written.
    fn is_complete(&self) -> bool {
        match self {
            PathBackup::Metadata { .. } => false,
            PathBackup::Folder { entries, .. } => entries.values().all(PathBackup::is_complete),
            _ => true,
        }
    }

    fn restore(&self, path: &Path) -> io::Result<()> {
        let mut room = MAX_BACKUP;
        if matches!(self, PathBackup::Metadata { .. }) || PathBackup::read(path, &mut room) == *self
        {
            return Ok(());
        }
        match self {
            PathBackup::Folder { mode, entries }
                if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) =>
            {
                for entry in fs::read_dir(path)?.flatten() {
                    if !entries.contains_key(Path::new(&entry.file_name())) {
                        remove(&entry.path())?;
                    }
                }
                restore_entries(path, *mode, entries)
            }
            _ => {
                remove(path)?;
                self.create(path)
            }
        }
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        match self {
            PathBackup::Absent | PathBackup::Metadata { .. } => return Ok(()),
            _ => fs::create_dir_all(path.parent().unwrap_or(path))?,
        }
        match self {
            PathBackup::Link(target) => symlink(target, path),
            PathBackup::File { mode, bytes } => {
                fs::write(path, bytes)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))
            }
            PathBackup::Folder { mode, entries } => {
                fs::create_dir(path)?;
                restore_entries(path, *mode, entries)
            }
            PathBackup::Absent | PathBackup::Metadata { .. } => Ok(()),
        }
    }
}

fn restore_entries(
    path: &Path,
    mode: u32,
    entries: &BTreeMap<PathBuf, PathBackup>,
) -> io::Result<()> {
    entries.iter().try_for_each(|(name, before)| before.restore(&path.join(name)))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The links among the folders above a path, the topmost first.
pub(crate) fn links_above(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    let is_link =
        |path: &&Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    above.into_iter().filter(is_link).map(Path::to_path_buf).collect::<Vec<_>>().into_iter()
}

/// Removes a file, a folder or a link; not the target of a link.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}
