//! What the model has seen of files, per session: what it has not seen as it is, it may not change.

use std::{
    collections::HashMap,
    fs::Metadata,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

/// Files up to this size are compared by what they hold; longer ones by size and time alone.
pub const COMPARED_BYTES: u64 = 16 * 1024 * 1024;

/// What a model has seen of files in one session. Tools that show or write one note it here; tools
/// that write one ask first. It is forgotten with the session: opened again, it has seen nothing.
#[derive(Debug, Default)]
pub struct FileViews(Mutex<Option<Box<FileViewMap>>>);

#[derive(Debug, Default)]
struct FileViewMap {
    files: HashMap<PathBuf, FileStamp>,
    /// What was written last, until its hooks are through.
    written: Option<(PathBuf, String)>,
}

/// How a file stood when it was looked at.
#[derive(Clone, Debug)]
pub struct FileStamp {
    file: (u64, u64),
    size: u64,
    changed: Option<SystemTime>,
    held: Option<[u8; 32]>,
}

/// What a model knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewState {
    /// It was never shown.
    Never,
    /// It was shown as it is.
    Current,
    /// It has changed since it was shown.
    Stale,
}

impl FileStamp {
    /// A file as it stands, with all it holds where that was read.
    pub fn of(about: &Metadata, bytes: Option<&[u8]>) -> Self {
        #[cfg(unix)]
        let file = {
            use std::os::unix::fs::MetadataExt;
            (about.dev(), about.ino())
        };
        #[cfg(not(unix))]
        let file = (0, 0);
        let held = bytes.map(|bytes| Sha256::digest(bytes).into());
        FileStamp { file, size: about.len(), changed: about.modified().ok(), held }
    }

    /// What it holds decides, where that is known: a file that was touched is still the same. Else
    /// it must be the same file, of the same size, unchanged.
    fn is_same(&self, other: &FileStamp) -> bool {
        match (&self.held, &other.held) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => {
                let stands = |mark: &FileStamp| (mark.file, mark.size, mark.changed);
                self.changed.is_some() && stands(self) == stands(other)
            }
        }
    }
}

impl FileViews {
    /// What is known, made when somebody first looks.
    fn known<R>(&self, look: impl FnOnce(&mut FileViewMap) -> R) -> R {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(known.get_or_insert_default())
    }

    /// The model has seen a file as it stands. The path is the one that was decided on.
    pub fn note(&self, path: &Path, mark: FileStamp) {
        self.known(|known| known.files.insert(path.into(), mark));
    }

    /// What the model knows of a file that stands like this.
    pub fn sight(&self, path: &Path, mark: &FileStamp) -> ViewState {
        self.known(|known| match known.files.get(path) {
            None => ViewState::Never,
            Some(seen) if seen.is_same(mark) => ViewState::Current,
            Some(_) => ViewState::Stale,
        })
    }

    /// A call wrote a file, and this is its text. Hooks at `tool.post` may change it yet.
    pub fn note_written(&self, path: &Path, text: String) {
        self.known(|known| known.written = Some((path.into(), text)));
    }

    /// What was last written, where it was this file. It is told once.
    pub fn take_written(&self, path: &Path) -> Option<String> {
        let of_this = |(written, _): &mut (PathBuf, String)| written == path;
        self.known(|known| known.written.take_if(of_this)).map(|(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_holds_decides_and_else_how_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let seen = FileViews::default();
        let mark = |whole: bool| {
            let bytes = std::fs::read(&path).unwrap();
            FileStamp::of(&std::fs::metadata(&path).unwrap(), whole.then_some(&*bytes))
        };
        let write = |text: &str, at: u64| {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at)).unwrap();
        };
        write("one", 1);
        assert_eq!(seen.sight(&path, &mark(true)), ViewState::Never);
        seen.note(&path, mark(true));
        write("one", 2);
        assert_eq!(seen.sight(&path, &mark(true)), ViewState::Current, "it was only touched");
        write("two", 1);
        assert_eq!(seen.sight(&path, &mark(true)), ViewState::Stale, "same size, same time");
        seen.note(&path, mark(false));
        assert_eq!(seen.sight(&path, &mark(false)), ViewState::Current);
        write("two", 2);
        assert_eq!(seen.sight(&path, &mark(false)), ViewState::Stale);
    }
}
