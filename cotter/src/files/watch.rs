//! Waits for files to change: for what they hold, not for how often they are written.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
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

use crate::trust::{Hash, Snapshot};

/// How long it must be quiet before anything is looked at.
const QUIET: Duration = Duration::from_millis(100);
/// How long is waited for quiet at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches files and folders, which need not be there yet.
///
/// Editors write a file in several steps, and a checkout changes many: a change is told once it has been
/// quiet for a tenth of a second, or after a second in any case, and only where what they hold is another than
/// when it was told last. The first is told whatever it is. Dropped, nothing is watched any longer.
pub struct Watch {
    targets: Vec<PathBuf>,
    watcher: RecommendedWatcher,
    events: Arc<Notify>,
    /// What is watched by itself, with all that is below it or without.
    armed: Vec<(PathBuf, RecursiveMode)>,
    held: Option<Vec<Held>>,
    /// Whether something happened that nobody was told of.
    stirred: bool,
}

/// What a target holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    These(Hash),
    /// It cannot be told: any event may be a change.
    Something,
}

impl Watch {
    /// Begins to watch. An error is the operating system's: it watches only so many.
    pub fn new(targets: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let targets: Vec<_> = targets.into_iter().flat_map(with_its_source).collect();
        let events = Arc::new(Notify::new());
        let (told, about) = (events.clone(), targets.clone());
        let told = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| is_about(&event, &about)) {
                told.notify_one();
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(told, config).map_err(io::Error::other)?;
        let mut watch =
            Watch { targets, watcher, events, armed: vec![], held: None, stirred: false };
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
            let targets = self.targets.clone();
            let held = tokio::task::spawn_blocking(move || hold(&targets)).await.ok();
            let is_known = held.as_ref().is_some_and(|held| !held.contains(&Held::Something));
            self.stirred = false;
            if armed.is_ok() && is_known && held == self.held {
                continue;
            }
            self.held = held;
            return;
        }
    }

    /// Watches each target that is there, and for each the folder in which it would come to be.
    fn arm(&mut self) -> io::Result<()> {
        let mut wanted = vec![];
        for target in &self.targets {
            let around = target.ancestors().skip(1).find(|folder| folder.is_dir());
            wanted.extend(around.map(|folder| (folder.to_owned(), RecursiveMode::NonRecursive)));
            if target.is_dir() {
                wanted.push((target.clone(), RecursiveMode::Recursive));
            }
        }
        // One folder is watched in one way; the wider of two is wanted last.
        wanted.sort_by_key(|(_, mode)| *mode == RecursiveMode::Recursive);
        for (folder, mode) in &wanted {
            // A folder that was taken away and came back is another one.
            self.watcher.watch(folder, *mode).map_err(io::Error::other)?;
        }
        let is_wanted = |folder: &PathBuf| wanted.iter().any(|(wanted, _)| wanted == folder);
        for (folder, _) in self.armed.iter().filter(|(folder, _)| !is_wanted(folder)) {
            let _ = self.watcher.unwatch(folder);
        }
        self.armed = wanted;
        Ok(())
    }
}

/// A target, and what it leads to where it is a link.
fn with_its_source(target: PathBuf) -> Vec<PathBuf> {
    match target.canonicalize() {
        Ok(source) if source != target => vec![target, source],
        _ => vec![target],
    }
}

fn hold(targets: &[PathBuf]) -> Vec<Held> {
    let held = |target: &PathBuf| match target.canonicalize() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Held::Nothing,
        Err(_) => Held::Something,
        Ok(source) => match Snapshot::watched(&source) {
            Ok(snapshot) => Held::These(snapshot.hash()),
            Err(_) => Held::Something,
        },
    };
    targets.iter().map(held).collect()
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

    use std::fs;

    /// Waits for a change that must come.
    async fn comes(watch: &mut Watch) {
        let come = timeout(Duration::from_secs(20), watch.changed()).await;
        come.expect("a change is noticed");
    }

    async fn is_quiet(watch: &mut Watch) -> bool {
        timeout(QUIET * 5, watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn hot_reload_a_change_is_noticed_however_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (file, extensions) = (root.join("home/settings.json"), root.join("p/.cotter"));
        fs::create_dir(root.join("p")).unwrap();
        let mut watch = Watch::new([file.clone(), extensions.clone()]).unwrap();
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
        let mut watch = Watch::new([file.clone()]).unwrap();
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
        let mut watch = Watch::new([root.join("s.json")]).unwrap();
        fs::write(root.join("dotfiles/s.json"), "2").unwrap();
        comes(&mut watch).await;
        fs::write(root.join("dotfiles/s.json"), "2").unwrap();
        assert!(is_quiet(&mut watch).await);
    }
}
