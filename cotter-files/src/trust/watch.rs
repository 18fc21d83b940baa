//! Waits for files to change: for what they hold, not for how often they are written.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::{
    Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::trust::snapshot::{Hash, Snapshot};

/// How long it must be quiet before anything is looked at.
const QUIET: Duration = Duration::from_millis(100);
/// How long is waited for quiet at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches files and folders, which need not be there yet.
///
/// Editors write a file in several steps, and a checkout changes many: a change is told once it has been
/// quiet for a tenth of a second, or after a second in any case, and only where what they hold is another than
/// when it was told last. The first is told whatever it is. Dropped, nothing is watched any longer.
pub struct FileWatcher {
    /// What is somebody's own: links in it and on the way to it are followed.
    own: Vec<PathBuf>,
    /// What others brought.
    brought: Vec<PathBuf>,
    watcher: RecommendedWatcher,
    events: Arc<Notify>,
    about: Arc<Mutex<Vec<PathBuf>>>,
    /// The folders that are watched, each by itself.
    armed: BTreeSet<PathBuf>,
    held: Option<Vec<ContentState>>,
    /// Whether something happened that nobody was told of.
    stirred: bool,
}

/// The most folders that are watched below one target.
const MOST_FOLDERS: usize = 4096;

/// What a target holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentState {
    Nothing,
    These(Hash),
    /// It cannot be told: any event may be a change.
    Something,
}

impl FileWatcher {
    /// Begins to watch what is somebody's own, where links count as what they lead to, and what others
    /// brought, where they lead nowhere. An error is the operating system's, about what is somebody's own: it
    /// watches only so many. What others brought is watched as far as that goes.
    pub fn new(
        own: impl IntoIterator<Item = PathBuf>,
        brought: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Self> {
        let events = Arc::new(Notify::new());
        let about = Arc::new(Mutex::new(vec![]));
        let (told, targets) = (events.clone(), about.clone());
        let told = move |event: notify::Result<Event>| {
            let targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            if event.map_or(true, |event| is_about(&event, &targets)) {
                told.notify_one();
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(told, config).map_err(io::Error::other)?;
        let mut watch = FileWatcher {
            own: own.into_iter().collect(),
            brought: brought.into_iter().collect(),
            watcher,
            events,
            about,
            armed: BTreeSet::new(),
            held: None,
            stirred: false,
        };
        watch.arm()?;
        Ok(watch)
    }

    /// Waits until what is watched holds something else. Dropped while it waits, it loses nothing.
    pub async fn changed(&mut self) {
        loop {
            if !self.stirred {
                self.events.notified().await;
                self.stirred = true;
            }
            let since = Instant::now();
            while since.elapsed() < PATIENCE && timeout(QUIET, self.events.notified()).await.is_ok()
            {
            }
            // What came to be meanwhile is watched first: what changes after that is an event.
            let armed = self.arm();
            let (own, brought) = (self.own.clone(), self.brought.clone());
            let held = tokio::task::spawn_blocking(move || hold(&own, &brought)).await.ok();
            let is_known =
                held.as_ref().is_some_and(|held| !held.contains(&ContentState::Something));
            self.stirred = false;
            if armed.is_ok() && is_known && held == self.held {
                continue;
            }
            self.held = held;
            return;
        }
    }

    /// Watches each target that is there with the folders in it, and every folder on the way to it: any of
    /// them may be put in the place of another.
    fn arm(&mut self) -> io::Result<()> {
        let mut own: Vec<_> = self.own.clone();
        for target in &self.own {
            let real = target.canonicalize().ok();
            // A link on the way may be led elsewhere.
            own.extend(target.ancestors().filter(|way| way.is_symlink()).map(Path::to_owned));
            own.extend(real.filter(|real| real != target));
        }
        let about = own.iter().chain(&self.brought).cloned().collect();
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = about;
        let mut wanted = BTreeSet::new();
        let around = |target: &PathBuf, wanted: &mut BTreeSet<PathBuf>| {
            let folders = target.ancestors().skip(1).filter(|folder| folder.is_dir());
            wanted.extend(folders.map(Path::to_owned));
        };
        for target in &own {
            around(target, &mut wanted);
            if !target.is_symlink() {
                wanted.extend(folders_below(target));
            }
        }
        for folder in &wanted {
            self.watch(folder).map_err(io::Error::other)?;
        }
        for target in &self.brought.clone() {
            let mut brought = folders_below(target);
            brought.retain(|folder| !wanted.contains(folder));
            let mut above = BTreeSet::new();
            around(target, &mut above);
            brought.extend(above);
            brought.retain(|folder| self.watch(folder).is_ok());
            wanted.extend(brought);
        }
        for folder in self.armed.difference(&wanted) {
            let _ = self.watcher.unwatch(folder);
        }
        self.armed = wanted;
        Ok(())
    }

    /// A folder that was taken away and came back is another one: it is watched anew.
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive)
    }
}

/// A folder and those in it, nearest first, without following a link, as many as are watched.
fn folders_below(target: &Path) -> Vec<PathBuf> {
    let is_folder = target.symlink_metadata().is_ok_and(|about| about.is_dir());
    let mut folders: Vec<_> = is_folder.then(|| target.to_owned()).into_iter().collect();
    let mut next = 0;
    while let Some(folder) = folders.get(next).filter(|_| folders.len() < MOST_FOLDERS) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_FOLDERS);
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let inner: Vec<_> = inner.map(|entry| entry.path()).collect();
        folders.extend(inner);
        next += 1;
    }
    folders.truncate(MOST_FOLDERS);
    folders
}

fn hold(own: &[PathBuf], brought: &[PathBuf]) -> Vec<ContentState> {
    let held = |target: io::Result<PathBuf>| match target {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => ContentState::Nothing,
        Err(_) => ContentState::Something,
        Ok(source) => match Snapshot::watched(&source) {
            Ok(snapshot) => ContentState::These(snapshot.hash()),
            Err(_) => ContentState::Something,
        },
    };
    let there = |target: &PathBuf| target.symlink_metadata().map(|_| target.clone());
    let own = own.iter().map(|target| held(target.canonicalize()));
    own.chain(brought.iter().map(|target| held(there(target)))).collect()
}

/// Whether it is about one of the targets or what is below. What was only read is no change.
fn is_about(event: &Event, targets: &[PathBuf]) -> bool {
    let is_read = match event.kind {
        EventKind::Access(kind) => kind != AccessKind::Close(AccessMode::Write),
        _ => false,
    };
    let concerns = |path: &PathBuf| {
        let near = |target: &PathBuf| path.starts_with(target) || target.starts_with(path as &Path);
        targets.iter().any(near)
    };
    event.need_rescan()
        || (!is_read && (event.paths.is_empty() || event.paths.iter().any(concerns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a change that must come.
    async fn comes(watch: &mut FileWatcher) {
        let come = timeout(Duration::from_secs(20), watch.changed()).await;
        come.expect("a change is noticed");
    }

    async fn is_quiet(watch: &mut FileWatcher) -> bool {
        timeout(QUIET * 5, watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn hot_reload_a_change_is_noticed_however_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (file, extensions) = (root.join("home/settings.json"), root.join("p/.cotter"));
        fs::create_dir(root.join("p")).unwrap();
        let mut watch = FileWatcher::new([file.clone()], [extensions.clone()]).unwrap();
        // A folder on the way comes to be, then the file in it.
        fs::create_dir(root.join("home")).unwrap();
        comes(&mut watch).await;
        fs::write(&file, "1").unwrap();
        comes(&mut watch).await;
        // As an editor does it.
        fs::write(root.join("home/other"), "2").unwrap();
        fs::rename(root.join("home/other"), &file).unwrap();
        comes(&mut watch).await;
        // A folder comes whole, and later something far below.
        fs::create_dir_all(root.join("made/skills/deep")).unwrap();
        fs::rename(root.join("made"), &extensions).unwrap();
        comes(&mut watch).await;
        fs::write(extensions.join("skills/deep/SKILL.md"), "x").unwrap();
        comes(&mut watch).await;
        fs::remove_dir_all(&extensions).unwrap();
        comes(&mut watch).await;
        fs::create_dir_all(extensions.join("hooks")).unwrap();
        comes(&mut watch).await;
        fs::write(extensions.join("hooks/a.yaml"), "x").unwrap();
        comes(&mut watch).await;
        fs::remove_file(&file).unwrap();
        comes(&mut watch).await;
    }

    #[tokio::test]
    async fn hot_reload_what_holds_the_same_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("settings.json");
        let mut watch = FileWatcher::new([file.clone()], []).unwrap();
        fs::write(&file, "1").unwrap();
        comes(&mut watch).await;
        fs::write(&file, "1").unwrap();
        fs::write(root.join("beside"), "1").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"1");
        assert!(is_quiet(&mut watch).await);
        fs::write(&file, "2").unwrap();
        comes(&mut watch).await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn hot_reload_a_link_is_watched_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("dotfiles")).unwrap();
        fs::write(root.join("dotfiles/s.json"), "1").unwrap();
        std::os::unix::fs::symlink(root.join("dotfiles/s.json"), root.join("s.json")).unwrap();
        let mut watch = FileWatcher::new([root.join("s.json")], []).unwrap();
        fs::write(root.join("dotfiles/s.json"), "2").unwrap();
        comes(&mut watch).await;
        fs::write(root.join("dotfiles/s.json"), "2").unwrap();
        assert!(is_quiet(&mut watch).await);
    }
}
