//! Protected paths written down before a call and put back after it.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use super::Confinement;

/// The most that is kept of all protected paths together.
const MOST: u64 = 16 * 1024 * 1024;

/// How protected paths were.
pub(crate) struct Guard {
    was: Vec<(PathBuf, Was)>,
    closed: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Was {
    Absent,
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link(PathBuf),
    Folder {
        mode: u32,
        entries: BTreeMap<PathBuf, Was>,
    },
    /// Not kept: too much, not to be read, or no file at all. Told by what can be seen from outside.
    Seen {
        length: u64,
        changed: Option<std::time::SystemTime>,
    },
}

impl Guard {
    /// Writes down what could change: with mounts only what is not there, without them everything.
    pub(crate) fn take(confinement: &Confinement, mounted: bool) -> Self {
        let mut room = MOST;
        let watched = confinement.protected.iter().filter(|path| {
            let about = path.symlink_metadata();
            !mounted || about.is_err() || about.is_ok_and(|about| about.is_symlink())
        });
        let was = watched.map(|path| (path.clone(), Was::look(path, &mut room))).collect();
        Guard { was, closed: confinement.closed.clone() }
    }

    /// Makes everything as it was, and says what was not.
    pub(crate) fn put_back(self) -> Vec<String> {
        let mut remarks = vec![];
        for (path, was) in self.was {
            let mut room = MOST;
            let is = Was::look(&path, &mut room);
            if is == was {
                continue;
            }
            let shown = path.display();
            let done = was.restore(&path);
            let after = match (&was, done) {
                (_, Err(cause)) => format!("it could not be put back: {cause}"),
                (Was::Seen { .. }, _) => {
                    "it was too much to be kept, and is as the command left it".into()
                }
                (Was::Absent, _) => "it was taken away again".into(),
                _ => "it was put back as it was".into(),
            };
            let why = if self.closed.contains(&path) {
                "is closed to commands"
            } else {
                "decides what runs later and was not approved"
            };
            remarks.push(format!("the command changed {shown}, which {why}: {after}"));
        }
        remarks
    }
}

impl Was {
    fn look(path: &Path, room: &mut u64) -> Was {
        let Ok(about) = path.symlink_metadata() else { return Was::Absent };
        let seen = Was::Seen { length: about.len(), changed: about.modified().ok() };
        let mode = about.permissions().mode();
        if about.is_symlink() {
            return fs::read_link(path).map_or(seen, Was::Link);
        }
        if about.is_file() {
            if about.len() > *room {
                return seen;
            }
            *room -= about.len();
            return fs::read(path).map_or(seen, |bytes| Was::File { mode, bytes });
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
            let was = Was::look(&path.join(&name), room);
            entries.insert(name, was);
        }
        Was::Folder { mode, entries }
    }

    fn restore(&self, path: &Path) -> io::Result<()> {
        let mut room = MOST;
        if matches!(self, Was::Seen { .. }) || Was::look(path, &mut room) == *self {
            return Ok(());
        }
        match self {
            Was::Folder { mode, entries }
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
            Was::Absent | Was::Seen { .. } => return Ok(()),
            _ => fs::create_dir_all(path.parent().unwrap_or(path))?,
        }
        match self {
            Was::Link(target) => symlink(target, path),
            Was::File { mode, bytes } => {
                fs::write(path, bytes)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))
            }
            Was::Folder { mode, entries } => {
                fs::create_dir(path)?;
                restore_entries(path, *mode, entries)
            }
            Was::Absent | Was::Seen { .. } => Ok(()),
        }
    }
}

fn restore_entries(path: &Path, mode: u32, entries: &BTreeMap<PathBuf, Was>) -> io::Result<()> {
    entries.iter().try_for_each(|(name, was)| was.restore(&path.join(name)))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Removes whatever is there, itself and not what it leads to.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}
