//! Protected paths written down before a call and put back after it.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use crate::confine::Confinement;

/// The most that is kept of all protected paths together.
const MOST: u64 = 16 * 1024 * 1024;

/// How protected paths were.
pub(crate) struct PathGuard {
    was: Vec<(PathBuf, PathBackup)>,
    closed: Vec<PathBuf>,
    aside: Option<PathBuf>,
    /// Whether others may have changed something meanwhile.
    outlives: bool,
    /// Links on the way to protected paths, which were there before.
    ways: Vec<PathBuf>,
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
    /// Not kept: too much, not to be read, or no file at all. Told by what can be seen from outside.
    Seen {
        length: u64,
        changed: Option<std::time::SystemTime>,
    },
}

impl PathGuard {
    /// Writes down what could change: with mounts only what is not there, without them everything.
    pub(crate) fn take(confinement: &Confinement, mounted: bool) -> Self {
        let mut room = MOST;
        let watched = confinement.protected.iter().filter(|path| {
            let about = path.symlink_metadata();
            !mounted || about.is_err() || about.is_ok_and(|about| about.is_symlink())
        });
        let watched: Vec<_> = watched.collect();
        let ways = watched.iter().flat_map(|path| links_above(path)).collect();
        let was = watched
            .into_iter()
            .map(|path| (path.clone(), PathBackup::look(path, &mut room)))
            .collect();
        let (closed, aside) = (confinement.closed.clone(), confinement.aside.clone());
        PathGuard { was, closed, aside, outlives: confinement.outlives, ways }
    }

    /// What is written to these paths was approved meanwhile: it stays as it is.
    pub(crate) fn approve(&mut self, paths: &[PathBuf]) {
        let named = |path: &Path| {
            paths.iter().any(|written| written.starts_with(path) || path.starts_with(written))
        };
        self.was.retain(|(path, _)| !named(path));
    }

    /// Makes everything as it was, and says what was not.
    pub(crate) fn put_back(self) -> Vec<String> {
        let mut remarks = vec![];
        for (path, was) in &self.was {
            if let Err(remark) = self.clear_way(path) {
                remarks.push(remark);
                continue;
            }
            let is = PathBackup::look(path, &mut MOST.clone());
            if is == *was {
                continue;
            }
            let why = if self.closed.contains(path) {
                "is closed to commands"
            } else {
                "decides what runs later and was not approved"
            };
            let after = self.after(path, was, &is);
            let path = path.display();
            remarks.push(match self.outlives {
                true => format!("{path}, which {why}, was changed while it ran: {after}"),
                false => format!("the command changed {path}, which {why}: {after}"),
            });
        }
        remarks
    }

    /// Takes links away that the command has made on the way to a path: what they lead to is none of
    /// the project's, and nothing may be put back or taken away there.
    fn clear_way(&self, path: &Path) -> Result<(), String> {
        while let Some(link) = links_above(path).find(|link| !self.ways.contains(link)) {
            let told =
                |what: &str| format!("the command made a link of {}: {what}", link.display());
            let Some(aside) = &self.aside else { return Err(told("it was left as it is")) };
            let made = fs::read_link(&link).map(PathBackup::Link);
            let kept = made.and_then(|made| made.set_aside(&link, aside));
            kept.map_err(|cause| told(&format!("it could not be set aside: {cause}")))?;
            fs::remove_file(&link).map_err(|cause| told(&format!("it stays there: {cause}")))?;
        }
        Ok(())
    }

    /// Puts one path back, and says what became of it.
    fn after(&self, path: &Path, was: &PathBackup, is: &PathBackup) -> String {
        let Some(aside) = &self.aside else { return "it was left as it is".into() };
        if self.outlives && *was != PathBackup::Absent {
            return "it was left as it is, since somebody else may have done that".into();
        }
        let above = path.parent().unwrap_or(path);
        if above.ends_with(".git") && above.symlink_metadata().is_err() {
            // Two files would not make it a repository again.
            return "its repository is not there any more".into();
        }
        if matches!(was, PathBackup::Seen { .. }) {
            return "it was too much to be kept, and is as the command left it".into();
        }
        let kept = match is.set_aside(path, aside) {
            Ok(Some(kept)) => {
                let what = if self.outlives { "was there" } else { "the command made of it" };
                format!("; what {what} is in {}", kept.display())
            }
            Ok(None) => String::new(),
            Err(cause) => return format!("it could not be set aside: {cause}"),
        };
        match was.restore(path) {
            Err(cause) => format!("it could not be put back: {cause}{kept}"),
            Ok(()) if *was == PathBackup::Absent => format!("it was taken away again{kept}"),
            Ok(()) => format!("it was put back as it was{kept}"),
        }
    }
}

impl PathBackup {
    fn look(path: &Path, room: &mut u64) -> PathBackup {
        let Ok(about) = path.symlink_metadata() else { return PathBackup::Absent };
        let seen = PathBackup::Seen { length: about.len(), changed: about.modified().ok() };
        let mode = about.permissions().mode();
        if about.is_symlink() {
            return fs::read_link(path).map_or(seen, PathBackup::Link);
        }
        if about.is_file() {
            if about.len() > *room {
                return seen;
            }
            *room -= about.len();
            return fs::read(path).map_or(seen, |bytes| PathBackup::File { mode, bytes });
        }
        let Ok(listed) = about.is_dir().then(|| fs::read_dir(path)).transpose() else {
            return seen;
        };
        let Some(listed) = listed else { return seen };
        let names = listed.flatten().map(|entry| PathBuf::from(entry.file_name()));
        let mut entries = BTreeMap::new();
        for name in names {
            // A name costs something too: no tree of empty folders is walked for ever.
            *room = room.saturating_sub(256);
            if *room == 0 {
                return seen;
            }
            let was = PathBackup::look(&path.join(&name), room);
            entries.insert(name, was);
        }
        PathBackup::Folder { mode, entries }
    }

    /// Keeps what is there in another folder. Nothing a person may miss is destroyed.
    fn set_aside(&self, path: &Path, aside: &Path) -> io::Result<Option<PathBuf>> {
        if *self == PathBackup::Absent {
            return Ok(None);
        }
        fs::create_dir_all(aside)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let free = |mut names: Box<dyn Iterator<Item = PathBuf> + '_>| {
            names.find(|kept| kept.symlink_metadata().is_err()).unwrap_or_default()
        };
        let kept = free(Box::new((1..).map(|number| aside.join(format!("{number}-{name}")))));
        if self.is_whole() {
            self.make(&kept)?;
            return Ok(Some(kept));
        }
        // Not all of it is known, so it is moved; beside where it was, if there is no other way.
        let Err(cause) = fs::rename(path, &kept) else { return Ok(Some(kept)) };
        if cause.kind() != io::ErrorKind::CrossesDevices {
            return Err(cause);
        }
        let beside = (1..).map(|number| path.with_file_name(format!("{name}.set-aside-{number}")));
        let kept = free(Box::new(beside));
        fs::rename(path, &kept)?;
        Ok(Some(kept))
    }

    /// Whether all of it is known, so that a copy can be made.
    fn is_whole(&self) -> bool {
        match self {
            PathBackup::Seen { .. } => false,
            PathBackup::Folder { entries, .. } => entries.values().all(PathBackup::is_whole),
            _ => true,
        }
    }

    fn restore(&self, path: &Path) -> io::Result<()> {
        let mut room = MOST;
        if matches!(self, PathBackup::Seen { .. }) || PathBackup::look(path, &mut room) == *self {
            return Ok(());
        }
        match self {
            PathBackup::Folder { mode, entries }
                if path.symlink_metadata().is_ok_and(|about| about.is_dir()) =>
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
                self.make(path)
            }
        }
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        match self {
            PathBackup::Absent | PathBackup::Seen { .. } => return Ok(()),
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
            PathBackup::Absent | PathBackup::Seen { .. } => Ok(()),
        }
    }
}

fn restore_entries(
    path: &Path,
    mode: u32,
    entries: &BTreeMap<PathBuf, PathBackup>,
) -> io::Result<()> {
    entries.iter().try_for_each(|(name, was)| was.restore(&path.join(name)))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The links among the folders a path lies in, the topmost first.
fn links_above(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|about| about.is_symlink());
    above.into_iter().filter(is_link).map(Path::to_path_buf).collect::<Vec<_>>().into_iter()
}

/// Removes whatever is there, itself and not what it leads to.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}
