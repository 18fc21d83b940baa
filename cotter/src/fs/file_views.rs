//! The file views of a session: the versions of files that the model has seen. The model may change a file
//! only if it has seen the file's current version.

use std::{
    collections::HashMap,
    fs::Metadata,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

/// Files up to this size are compared by content; larger files only by size and modification time.
pub const COMPARED_BYTES: u64 = 16 * 1024 * 1024;

/// The versions of files that a model has seen in one session. Tools that show or write a file record it
/// here; tools that write a file check first. Views are not stored: a session that is opened again starts
/// without any.
#[derive(Debug, Default)]
pub struct FileViews(Mutex<Option<Box<FileViewMap>>>);

#[derive(Debug, Default)]
struct FileViewMap {
    files: HashMap<PathBuf, FileStamp>,
    /// The path and text of the last written file, until the hooks at `tool.post` have run.
    written: Option<(PathBuf, String)>,
}

/// The identity, size, modification time and content hash of a file when it was read or written.
#[derive(Clone, Debug)]
pub struct FileStamp {
    /// The device and the inode.
    file: (u64, u64),
    size: u64,
    modified_at: Option<SystemTime>,
    content_hash: Option<[u8; 32]>,
}

/// The state of a model's view of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewState {
    /// The file was never shown.
    Never,
    /// The file is unchanged since it was shown.
    Current,
    /// The file has changed since it was shown.
    Stale,
}

impl FileStamp {
    /// Creates the stamp of a file from its metadata, and from its bytes if they were read.
    pub fn of(metadata: &Metadata, bytes: Option<&[u8]>) -> Self {
        let file = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino())
        };
        let content_hash = bytes.map(|bytes| Sha256::digest(bytes).into());
        FileStamp {
            file,
            size: metadata.len(),
            modified_at: metadata.modified().ok(),
            content_hash,
        }
    }

    /// True if both stamps are of the same version. If both have a content hash, only the hash counts, so a
    /// touched file is unchanged. Otherwise file, size and modification time must be equal.
    fn is_same(&self, other: &FileStamp) -> bool {
        match (&self.content_hash, &other.content_hash) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => {
                let identity = |stamp: &FileStamp| (stamp.file, stamp.size, stamp.modified_at);
                self.modified_at.is_some() && identity(self) == identity(other)
            }
        }
    }
}

impl FileViews {
    /// Runs `action` on the map, which is created on first use.
    fn with_map<R>(&self, action: impl FnOnce(&mut FileViewMap) -> R) -> R {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        action(views.get_or_insert_default())
    }

    /// Records that the model has seen this version of a file. `path` is the path that the decision was
    /// about.
    pub fn record(&self, path: &Path, stamp: FileStamp) {
        self.with_map(|views| views.files.insert(path.into(), stamp));
    }

    /// Returns the state of the model's view of a file whose current stamp is `stamp`.
    pub fn view_state(&self, path: &Path, stamp: &FileStamp) -> ViewState {
        self.with_map(|views| match views.files.get(path) {
            None => ViewState::Never,
            Some(recorded) if recorded.is_same(stamp) => ViewState::Current,
            Some(_) => ViewState::Stale,
        })
    }

    /// Records the text that a call wrote to a file. Hooks at `tool.post` may still change the file.
    pub fn record_written(&self, path: &Path, text: String) {
        self.with_map(|views| views.written = Some((path.into(), text)));
    }

    /// Takes the text of the last written file, if that file is `path`. A second call returns `None`.
    pub fn take_written(&self, path: &Path) -> Option<String> {
        let is_this_file = |(written, _): &mut (PathBuf, String)| written == path;
        self.with_map(|views| views.written.take_if(is_this_file)).map(|(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_stamp_compares_contents_or_metadata() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let views = FileViews::default();
        let stamp = |whole: bool| {
            let bytes = std::fs::read(&path).unwrap();
            FileStamp::of(&std::fs::metadata(&path).unwrap(), whole.then_some(&*bytes))
        };
        let write = |text: &str, at: u64| {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at)).unwrap();
        };
        write("one", 1);
        assert_eq!(views.view_state(&path, &stamp(true)), ViewState::Never);
        views.record(&path, stamp(true));
        write("one", 2);
        assert_eq!(
            views.view_state(&path, &stamp(true)),
            ViewState::Current,
            "it was only touched"
        );
        write("two", 1);
        assert_eq!(views.view_state(&path, &stamp(true)), ViewState::Stale, "same size, same time");
        views.record(&path, stamp(false));
        assert_eq!(views.view_state(&path, &stamp(false)), ViewState::Current);
        write("two", 2);
        assert_eq!(views.view_state(&path, &stamp(false)), ViewState::Stale);
    }
}
