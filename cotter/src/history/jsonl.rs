//! Sessions as files of JSON lines, one file per session, append-only.
//!
//! Each append is one write to a file opened for appending, so a killed process can damage only the last
//! line. After a torn last line the next append starts on a new line. A failed write is rolled back.
//! Unreadable lines stay in the file and are reported. Only one process at a time writes a file.

mod load;
mod syncer;
mod tail;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use smol_str::SmolStr;

pub use crate::history::jsonl::load::{LoadedSession, load};
use crate::history::{
    entry::{SessionHeader, Timestamp, VERSION},
    jsonl::syncer::Syncer,
    ledger::HashChain,
    line_format,
    store::{
        EarlierEntries, Log, SessionSummary, Store, StoreError, StoreLine, StoredSession,
        SyncFuture,
    },
};

/// Stores sessions as files in a folder.
pub struct JsonlStore {
    folder: PathBuf,
    syncer: Arc<Syncer>,
}

impl JsonlStore {
    /// Creates a store over a folder. The first write creates the folder, readable by its owner only.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        JsonlStore { folder: folder.into(), syncer: Arc::default() }
    }

    /// Returns the path of a session's file. An id with other characters than letters, digits, `-` and `_`
    /// is an error.
    pub fn path(&self, id: &str) -> Result<PathBuf, StoreError> {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if id.is_empty() || id.len() > 128 || !id.bytes().all(is_allowed) {
            let id = crate::text::cut_chars(id, 40);
            return Err(StoreError::new(format!(
                "`{id}` is not a session id: expected letters, digits, `-` and `_`"
            )));
        }
        Ok(self.folder.join(format!("{id}.jsonl")))
    }

    /// Summarizes a session file for a list. Reads only the start and the end of a long file.
    fn summary(&self, path: &Path) -> Option<SessionSummary> {
        const HEAD: u64 = 64 * 1024;
        // The file name is the session's id, as in `open`.
        let id = path.file_stem()?.to_str().filter(|id| self.path(id).is_ok())?;
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let mut head = BufReader::new((&file).take(HEAD));
        let mut line = vec![];
        head.read_until(b'\n', &mut line).ok()?;
        let header = line_format::read_header(&line)?;
        let mut rest = vec![];
        head.read_to_end(&mut rest).ok()?;
        let mut end = vec![];
        if metadata.len() > HEAD {
            (&file).seek(SeekFrom::Start(metadata.len() - HEAD)).ok()?;
            (&file).take(HEAD).read_to_end(&mut end).ok()?;
        }
        let name =
            load::last_session_name(&end).or_else(|| load::last_session_name(&rest)).flatten();
        let title = name.or_else(|| load::first_message_text(&rest)).unwrap_or_default();
        let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(SessionSummary {
            id: id.into(),
            cwd: header.cwd,
            created_at: header.created_at,
            modified_at: Timestamp(u64::try_from(since.as_millis()).ok()?),
            title,
            bytes: metadata.len(),
        })
    }

    fn create_folder(&self) -> Result<(), StoreError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        builder.mode(0o700);
        builder.create(&self.folder).map_err(|cause| {
            StoreError::io(format!("cannot create {}", self.folder.display()), cause)
        })
    }
}

impl Store for JsonlStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError> {
        self.create_folder()?;
        let path = self.path(&header.id)?;
        let to_error = |cause| StoreError::io(format!("cannot create {}", path.display()), cause);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        options.mode(0o600);
        let file = options.open(&path).map_err(to_error)?;
        lock(&file, &path)?;
        let mut line = vec![];
        line_format::write_header(&mut line, header);
        line.push(b'\n');
        (&file).write_all(&line).map_err(to_error)?;
        // The file's name must survive a power cut too, so the folder is synced.
        self.syncer.queue_sync(&Arc::new(File::open(&self.folder).map_err(to_error)?));
        let chain = HashChain::of_session(&header.id);
        Ok(Box::new(JsonlLog::new(Arc::new(file), path, chain, &self.syncer)))
    }

    fn open(&self, id: &str) -> Result<StoredSession, StoreError> {
        let path = self.path(id)?;
        let file = OpenOptions::new().read(true).append(true).open(&path);
        let file = file.map_err(|cause| open_error(id, &path, cause))?;
        lock(&file, &path)?;
        let file = Arc::new(file);
        let to_error = |cause| StoreError::io(format!("cannot read {}", path.display()), cause);
        let (mut loaded, earlier) = read(&file).map_err(to_error)?;
        let Some(mut header) = loaded.header.take() else {
            let message = format!(
                "{}:1: not a session: expected a line with \"type\":\"session\"",
                path.display()
            );
            return Err(StoreError::new(message).with_hint("the file was left as it is"));
        };
        if header.id != id {
            // The file name gives the id. The id inside the file is untrusted: it may even be a path.
            let header_id = crate::text::show_line(&header.id);
            let header_id = crate::text::cut_chars(&header_id, 40);
            loaded.diagnostics.push(format!("1: the header names another session, `{header_id}`"));
            header.id = id.into();
        }
        let read_only = (header.v > VERSION).then(|| {
            format!(
                "a newer version wrote it (format {}; this version reads up to {VERSION})",
                header.v
            )
        });
        let chain = match &loaded.last_hash {
            Some(hash) => HashChain::after(hash),
            None => HashChain::of_session(id),
        };
        let mut log = JsonlLog::new(file, path.clone(), chain, &self.syncer);
        log.torn = loaded.torn;
        let with_path = |diagnostic: &String| format!("{}:{diagnostic}", path.display());
        let diagnostics = loaded.diagnostics.iter().map(with_path).collect();
        let LoadedSession { entries, records, .. } = loaded;
        let log = Box::new(log);
        Ok(StoredSession { header, entries, earlier, records, log, diagnostics, read_only })
    }

    fn new_id(&self) -> SmolStr {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut random = [0; 12];
        // Without randomness the id comes from the clock; `create` rejects an id that exists.
        if getrandom::fill(&mut random).is_err() {
            random[..8].copy_from_slice(&Timestamp::now().0.to_le_bytes());
        }
        random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let files = match fs::read_dir(&self.folder) {
            Ok(files) => files,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(cause) => {
                return Err(StoreError::io(
                    format!("cannot read {}", self.folder.display()),
                    cause,
                ));
            }
        };
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        let sessions =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        let mut all: Vec<_> = sessions.filter_map(|path| self.summary(&path)).collect();
        all.sort_by(|a, b| b.modified_at.cmp(&a.modified_at).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        self.path(id).ok()
    }

    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let path = self.path(id)?;
        let bytes = fs::read(&path).map_err(|cause| open_error(id, &path, cause))?;
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        Ok(text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
    }
}

fn open_error(id: &str, path: &Path, cause: std::io::Error) -> StoreError {
    if cause.kind() == std::io::ErrorKind::NotFound {
        return StoreError::new(format!("there is no session `{id}`"));
    }
    StoreError::io(format!("cannot open {}", path.display()), cause)
}

/// Reads the end of a long session if that is enough, otherwise the whole file.
fn read(file: &Arc<File>) -> std::io::Result<(LoadedSession, Option<EarlierEntries>)> {
    if let Some((loaded, earlier)) = crate::history::jsonl::tail::load_tail(file)? {
        return Ok((loaded, Some(earlier)));
    }
    let mut bytes = vec![];
    (&**file).read_to_end(&mut bytes)?;
    Ok((load(bytes), None))
}

fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    file.try_lock().map_err(|cause| match cause {
        TryLockError::WouldBlock => {
            StoreError::new(format!("{} is in use by another process", path.display()))
                .with_hint("wait until that process ends, or start a new session")
        }
        TryLockError::Error(cause) => {
            StoreError::io(format!("cannot lock {}", path.display()), cause)
        }
    })
}

/// The append handle of a session file.
struct JsonlLog {
    file: Arc<File>,
    path: PathBuf,
    chain: HashChain,
    syncer: Arc<Syncer>,
    buffer: Vec<u8>,
    /// True if the file ends within a line.
    torn: bool,
    /// The length of the file, if it could be read.
    length: Option<u64>,
}

impl JsonlLog {
    fn new(file: Arc<File>, path: PathBuf, chain: HashChain, syncer: &Arc<Syncer>) -> Self {
        let syncer = syncer.clone();
        let length = file.metadata().ok().map(|metadata| metadata.len());
        JsonlLog { file, path, chain, syncer, buffer: vec![], torn: false, length }
    }
}

impl Drop for JsonlLog {
    fn drop(&mut self) {
        // A background sync may still hold the file. The explicit unlock lets the next process open it at
        // once.
        let _ = self.file.unlock();
    }
}

impl Log for JsonlLog {
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError> {
        let to_error =
            |cause| StoreError::io(format!("cannot write {}", self.path.display()), cause);
        if let Some(cause) = self.syncer.take_failure(&self.file) {
            return Err(to_error(cause));
        }
        self.buffer.clear();
        if self.torn {
            self.buffer.push(b'\n');
        }
        let chain_before = self.chain.clone();
        for line in lines {
            line.write(&mut self.buffer, &mut self.chain);
            self.buffer.push(b'\n');
        }
        if let Err(cause) = (&*self.file).write_all(&self.buffer) {
            // An append is all or nothing, but part of the bytes may be written. If they cannot be removed,
            // the next append starts on a new line.
            let is_rolled_back =
                self.length.is_some_and(|length| self.file.set_len(length).is_ok());
            self.torn |= !is_rolled_back;
            self.chain = chain_before;
            return Err(to_error(cause));
        }
        self.torn = false;
        self.length = self.length.map(|length| length + self.buffer.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> SyncFuture {
        let synced = self.syncer.wait(&self.file);
        let path = self.path.clone();
        Box::pin(async move {
            synced
                .await
                .map_err(|cause| StoreError::io(format!("cannot sync {}", path.display()), cause))
        })
    }

    fn start_sync(&mut self) {
        self.syncer.queue_sync(&self.file);
    }
}
