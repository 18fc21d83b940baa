//! Waits for files to change. Only a change of contents counts, not a write of the same bytes.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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

/// The quiet time without events before the contents are read.
const QUIET: Duration = Duration::from_millis(100);
/// The maximum time to wait for quiet.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Watches files and folders, which may not exist yet.
///
/// Editors write a file in several steps, and a checkout changes many files. So a change is reported after a
/// tenth of a second without events, or after one second in any case. It is reported only if the contents
/// differ from those of the last report. The first event is always reported, except a new folder on the path
/// to a target that is still missing. Dropping the watcher ends the watch.
pub struct FileWatcher {
    /// The user's own targets: links in them and on the way to them are followed.
    own: Vec<PathBuf>,
    /// Targets that came from others: links are not followed.
    foreign: Vec<PathBuf>,
    watcher: RecommendedWatcher,
    events: Arc<Notify>,
    watched_paths: Arc<Mutex<Vec<PathBuf>>>,
    /// The watched folders, each without its subfolders.
    watched_folders: BTreeSet<PathBuf>,
    last_contents: Option<Vec<ContentState>>,
    /// The targets that did not exist at the start.
    missing_at_start: Vec<PathBuf>,
    /// True if an event was more than a new folder on the path to a target.
    may_have_changed: Arc<AtomicBool>,
    /// True if an event has not been processed yet.
    has_pending_event: bool,
}

/// The files and folders to watch, which may not exist yet.
#[derive(Clone)]
pub struct WatchTargets {
    own: Vec<PathBuf>,
    foreign: Vec<PathBuf>,
}

/// The contents of targets at one moment.
pub struct TargetContents(Vec<ContentState>);

impl WatchTargets {
    /// Takes the user's own targets, where links are followed, and targets from others, where links are not
    /// followed.
    pub fn new(
        own: impl IntoIterator<Item = PathBuf>,
        foreign: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        WatchTargets { own: own.into_iter().collect(), foreign: foreign.into_iter().collect() }
    }

    /// Reads the contents of every target now.
    pub fn read_contents(&self) -> TargetContents {
        TargetContents(read_contents(&self.own, &self.foreign))
    }

    /// Starts to watch. A change since `contents` were read is reported too, even if it happened before the
    /// watch. Errors are those of [`FileWatcher::new`].
    pub fn watch_since(self, contents: TargetContents) -> io::Result<FileWatcher> {
        let mut watch = FileWatcher::new(self.own, self.foreign)?;
        watch.last_contents = Some(contents.0);
        watch.has_pending_event = true;
        Ok(watch)
    }
}

/// The maximum number of folders that are watched below one target.
const MAX_FOLDERS: usize = 4096;

/// The contents of a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentState {
    Missing,
    Hashed(Hash),
    /// The contents are unknown: any event may be a change.
    Unknown,
}

impl FileWatcher {
    /// Starts to watch the user's own targets, where links are followed, and targets from others, where links
    /// are not followed. An error comes from the operating system, which limits the number of watches. It is
    /// returned only for the user's own targets; targets from others are watched as far as possible.
    pub fn new(
        own: impl IntoIterator<Item = PathBuf>,
        foreign: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Self> {
        let events = Arc::new(Notify::new());
        let watched_paths = Arc::new(Mutex::new(vec![]));
        let may_have_changed = Arc::new(AtomicBool::new(false));
        let (notify, targets, changed) =
            (events.clone(), watched_paths.clone(), may_have_changed.clone());
        let on_event = move |event: notify::Result<Event>| {
            let targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            if event.as_ref().map_or(true, |event| is_about(event, &targets)) {
                if !event.is_ok_and(|event| is_new_folder_above(&event, &targets)) {
                    changed.store(true, Ordering::Release);
                }
                notify.notify_one();
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(on_event, config).map_err(io::Error::other)?;
        // A watcher whose thread could not start does not report it, and panics when it is used or dropped.
        if let Err(cause) = watcher.configure(config) {
            std::mem::forget(watcher);
            return Err(io::Error::other(format!("no thread can watch files: {cause}")));
        }
        let (own, foreign): (Vec<_>, Vec<_>) =
            (own.into_iter().collect(), foreign.into_iter().collect());
        let mut watch = FileWatcher {
            missing_at_start: own.iter().chain(&foreign).filter(is_missing).cloned().collect(),
            own,
            foreign,
            may_have_changed,
            watcher,
            events,
            watched_paths,
            watched_folders: BTreeSet::new(),
            last_contents: None,
            has_pending_event: false,
        };
        watch.update_watches()?;
        Ok(watch)
    }

    /// Waits until the contents of a target change. A caller can drop the future without losing a change.
    pub async fn changed(&mut self) {
        loop {
            if !self.has_pending_event {
                self.events.notified().await;
                self.has_pending_event = true;
            }
            let since = Instant::now();
            while since.elapsed() < MAX_WAIT && timeout(QUIET, self.events.notified()).await.is_ok()
            {
            }
            // New folders are watched before the contents are read, so that a later change causes an event.
            let updated = self.update_watches();
            if updated.is_ok() && self.is_first_event_without_change() {
                self.has_pending_event = false;
                continue;
            }
            let (own, foreign) = (self.own.clone(), self.foreign.clone());
            let contents =
                tokio::task::spawn_blocking(move || read_contents(&own, &foreign)).await.ok();
            let is_known =
                contents.as_ref().is_some_and(|states| !states.contains(&ContentState::Unknown));
            self.has_pending_event = false;
            if updated.is_ok() && is_known && contents == self.last_contents {
                continue;
            }
            self.last_contents = contents;
            return;
        }
    }

    /// True until the first event that can have changed a target: so far there were new folders on the path to
    /// targets that are still missing.
    fn is_first_event_without_change(&self) -> bool {
        self.last_contents.is_none()
            && !self.may_have_changed.load(Ordering::Acquire)
            && self.missing_at_start.iter().all(|target| is_missing(&target))
    }

    /// Watches each existing target with its subfolders, and every folder on the path to it, because any of
    /// them may be replaced.
    fn update_watches(&mut self) -> io::Result<()> {
        let mut own: Vec<_> = self.own.clone();
        for target in &self.own {
            let real = target.canonicalize().ok();
            // A link on the path may be changed to another target.
            own.extend(target.ancestors().filter(|path| path.is_symlink()).map(Path::to_owned));
            own.extend(real.filter(|real| real != target));
        }
        let watched_paths = own.iter().chain(&self.foreign).cloned().collect();
        *self.watched_paths.lock().unwrap_or_else(PoisonError::into_inner) = watched_paths;
        let mut wanted = BTreeSet::new();
        let add_parents = |target: &PathBuf, wanted: &mut BTreeSet<PathBuf>| {
            let folders = target.ancestors().skip(1).filter(|folder| folder.is_dir());
            wanted.extend(folders.map(Path::to_owned));
        };
        for target in &own {
            add_parents(target, &mut wanted);
            if !target.is_symlink() {
                wanted.extend(folders_below(target));
            }
        }
        for folder in &wanted {
            self.watch(folder).map_err(io::Error::other)?;
        }
        for target in &self.foreign.clone() {
            let mut folders = folders_below(target);
            folders.retain(|folder| !wanted.contains(folder));
            let mut parents = BTreeSet::new();
            add_parents(target, &mut parents);
            folders.extend(parents);
            folders.retain(|folder| self.watch(folder).is_ok());
            wanted.extend(folders);
        }
        for folder in self.watched_folders.difference(&wanted) {
            let _ = self.watcher.unwatch(folder);
        }
        self.watched_folders = wanted;
        Ok(())
    }

    /// Watches a folder. A folder that was removed and created again needs a new watch.
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive)
    }
}

/// A folder and its subfolders, nearest first, at most [`MAX_FOLDERS`]. Links are not followed.
fn folders_below(target: &Path) -> Vec<PathBuf> {
    let is_folder = target.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let mut folders: Vec<_> = is_folder.then(|| target.to_owned()).into_iter().collect();
    let mut next = 0;
    while let Some(folder) = folders.get(next).filter(|_| folders.len() < MAX_FOLDERS) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FOLDERS);
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let inner: Vec<_> = inner.map(|entry| entry.path()).collect();
        folders.extend(inner);
        next += 1;
    }
    folders.truncate(MAX_FOLDERS);
    folders
}

fn read_contents(own: &[PathBuf], foreign: &[PathBuf]) -> Vec<ContentState> {
    let state_of = |target: io::Result<PathBuf>| match target {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => ContentState::Missing,
        Err(_) => ContentState::Unknown,
        Ok(source) => match Snapshot::take_for_comparison(&source) {
            Ok(snapshot) => ContentState::Hashed(snapshot.hash()),
            Err(_) => ContentState::Unknown,
        },
    };
    let existing = |target: &PathBuf| target.symlink_metadata().map(|_| target.clone());
    let own = own.iter().map(|target| state_of(target.canonicalize()));
    own.chain(foreign.iter().map(|target| state_of(existing(target)))).collect()
}

/// True if an event is about a target, a path below it or a path above it. Reading a file is not a change.
fn is_about(event: &Event, targets: &[PathBuf]) -> bool {
    let is_read = match event.kind {
        EventKind::Access(kind) => kind != AccessKind::Close(AccessMode::Write),
        _ => false,
    };
    let concerns = |path: &PathBuf| {
        let is_on_path =
            |target: &PathBuf| path.starts_with(target) || target.starts_with(path as &Path);
        targets.iter().any(is_on_path)
    };
    event.need_rescan()
        || (!is_read && (event.paths.is_empty() || event.paths.iter().any(concerns)))
}

/// True if an event tells only that something was created on the path to a target.
fn is_new_folder_above(event: &Event, targets: &[PathBuf]) -> bool {
    let is_target = |path: &PathBuf| targets.iter().any(|target| path.starts_with(target));
    event.kind.is_create() && !event.need_rescan() && !event.paths.iter().any(is_target)
}

fn is_missing(target: &&PathBuf) -> bool {
    target.symlink_metadata().is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a change that must come, and panics after 20 seconds.
    async fn expect_change(watch: &mut FileWatcher) {
        let come = timeout(Duration::from_secs(20), watch.changed()).await;
        come.expect("a change is noticed");
    }

    async fn is_quiet(watch: &mut FileWatcher) -> bool {
        timeout(QUIET * 5, watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn hot_reload_notices_every_kind_of_change() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (file, extensions) = (root.join("home/settings.json"), root.join("p/.cotter"));
        fs::create_dir(root.join("p")).unwrap();
        let mut watch = FileWatcher::new([file.clone()], [extensions.clone()]).unwrap();
        // A folder on the path is created, then the file in it.
        fs::create_dir(root.join("home")).unwrap();
        fs::write(&file, "1").unwrap();
        expect_change(&mut watch).await;
        // The file is replaced by a rename, as editors do.
        fs::write(root.join("home/other"), "2").unwrap();
        fs::rename(root.join("home/other"), &file).unwrap();
        expect_change(&mut watch).await;
        // A whole folder is moved in; later a file deep below it is written.
        fs::create_dir_all(root.join("made/skills/deep")).unwrap();
        fs::rename(root.join("made"), &extensions).unwrap();
        expect_change(&mut watch).await;
        fs::write(extensions.join("skills/deep/SKILL.md"), "x").unwrap();
        expect_change(&mut watch).await;
        fs::remove_dir_all(&extensions).unwrap();
        expect_change(&mut watch).await;
        fs::create_dir_all(extensions.join("hooks")).unwrap();
        expect_change(&mut watch).await;
        fs::write(extensions.join("hooks/a.yaml"), "x").unwrap();
        expect_change(&mut watch).await;
        fs::remove_file(&file).unwrap();
        expect_change(&mut watch).await;
    }

    #[tokio::test]
    async fn hot_reload_ignores_a_rewrite_with_equal_contents() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("settings.json");
        let mut watch = FileWatcher::new([file.clone()], []).unwrap();
        fs::write(&file, "1").unwrap();
        expect_change(&mut watch).await;
        fs::write(&file, "1").unwrap();
        fs::write(root.join("beside"), "1").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"1");
        assert!(is_quiet(&mut watch).await);
        fs::write(&file, "2").unwrap();
        expect_change(&mut watch).await;
    }

    #[tokio::test]
    async fn hot_reload_notices_a_change_before_the_watch() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (file, extensions) = (root.join("settings.json"), root.join("p/.cotter"));
        fs::write(&file, "1").unwrap();
        let targets = WatchTargets::new([file.clone()], [extensions.clone()]);
        let mut watch = targets.clone().watch_since(targets.read_contents()).unwrap();
        assert!(is_quiet(&mut watch).await);
        let before = targets.read_contents();
        fs::write(&file, "2").unwrap();
        let mut watch = targets.clone().watch_since(before).unwrap();
        expect_change(&mut watch).await;
        assert!(is_quiet(&mut watch).await);
        let before = targets.read_contents();
        fs::create_dir_all(extensions.join("hooks")).unwrap();
        let mut watch = targets.watch_since(before).unwrap();
        expect_change(&mut watch).await;
        fs::write(&file, "3").unwrap();
        expect_change(&mut watch).await;
    }

    #[tokio::test]
    async fn hot_reload_ignores_a_new_folder_without_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::write(root.join("settings.json"), "1").unwrap();
        let trust = root.join("data/cotter/trust.json");
        let mut watch = FileWatcher::new([root.join("settings.json"), trust.clone()], []).unwrap();
        fs::create_dir_all(trust.parent().unwrap()).unwrap();
        fs::create_dir(root.join("data/cotter/sessions")).unwrap();
        assert!(is_quiet(&mut watch).await);
        fs::write(&trust, "1").unwrap();
        expect_change(&mut watch).await;
    }

    #[tokio::test]
    async fn hot_reload_watches_the_target_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("dotfiles")).unwrap();
        fs::write(root.join("dotfiles/s.json"), "1").unwrap();
        std::os::unix::fs::symlink(root.join("dotfiles/s.json"), root.join("s.json")).unwrap();
        let mut watch = FileWatcher::new([root.join("s.json")], []).unwrap();
        fs::write(root.join("dotfiles/s.json"), "2").unwrap();
        expect_change(&mut watch).await;
        fs::write(root.join("dotfiles/s.json"), "2").unwrap();
        assert!(is_quiet(&mut watch).await);
    }
}
