//! Where sessions are kept: the traits of a store, and the lines that go into one.

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc};

use smol_str::SmolStr;

use crate::history::{
    entry::{Entry, SessionHeader, Timestamp},
    ledger::{HashChain, Record},
    line_format as wire,
};

pub use crate::history::memory_store::MemoryStore;

/// The future of a sync.
pub type SyncFuture = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// A place for sessions.
pub trait Store: Send + Sync + 'static {
    /// Makes an empty session. An id that is taken is an error.
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError>;

    /// Opens a session for writing, alone: a second writer is refused.
    fn open(&self, id: &str) -> Result<StoredSession, StoreError>;

    /// A fresh id.
    fn new_id(&self) -> SmolStr;

    /// The sessions there are, newest first.
    fn list(&self) -> Result<Vec<SessionSummary>, StoreError>;

    /// The file a session is kept in, where it is one.
    fn file(&self, id: &str) -> Option<PathBuf> {
        let _ = id;
        None
    }

    /// Every line of a session as it is stored, without opening it for writing.
    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError>;
}

/// The growing end of one session.
///
/// `append` stores all lines or none and returns when a killed process would still have left them
/// there. `sync` is over when a power cut would, too. Lines are never changed.
pub trait Log: Send {
    /// Stores lines, in order.
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError>;

    /// Waits until all that was appended is on the disk.
    fn sync(&mut self) -> SyncFuture;

    /// Sees to it, without waiting, that all that was appended gets to the disk.
    fn sync_behind(&mut self) {}
}

/// Keeps nothing.
pub(crate) struct NoLog;

impl Log for NoLog {
    fn append(&mut self, _: &[StoreLine]) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> SyncFuture {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A line on its way into a store.
#[derive(Clone)]
pub struct StoreLine(pub(crate) LineKind);

#[derive(Clone)]
pub(crate) enum LineKind {
    Entry(Arc<Entry>),
    Record(Arc<Record>),
}

impl StoreLine {
    /// Writes the line as it stands in a file, without a newline.
    pub(crate) fn write(&self, out: &mut Vec<u8>, chain: &mut HashChain) {
        match &self.0 {
            LineKind::Entry(entry) => wire::write_entry(out, entry),
            LineKind::Record(record) => wire::write_record(out, record, chain),
        }
    }
}

/// Reads what comes before the entries that were read, and what could not be read of it.
pub(crate) type EarlierEntries = Box<dyn FnOnce() -> (Vec<Arc<Entry>>, Vec<String>) + Send>;

/// A session as it was stored.
pub struct StoredSession {
    pub(crate) header: SessionHeader,
    pub(crate) entries: Vec<Arc<Entry>>,
    /// The way to what comes before those entries, where they are not all.
    pub(crate) earlier: Option<EarlierEntries>,
    pub(crate) records: Vec<StoredRecord>,
    pub(crate) log: Box<dyn Log>,
    /// What could not be read, one line each.
    pub diagnostics: Vec<String>,
    /// Why it may not be written, where it may not.
    pub read_only: Option<String>,
}

impl StoredSession {
    /// The same session with another log, for stores that wrap a store.
    pub fn map_log(self, wrap: impl FnOnce(Box<dyn Log>) -> Box<dyn Log>) -> Self {
        StoredSession { log: wrap(self.log), ..self }
    }
}

/// A record as it was stored: its kind is known, the rest is read when somebody looks.
#[derive(Clone)]
pub(crate) enum StoredRecord {
    Typed(Arc<Record>),
    #[cfg(feature = "jsonl")]
    Raw(&'static str, crate::history::entry::RawLine),
}

impl StoredRecord {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            StoredRecord::Typed(record) => record.kind(),
            #[cfg(feature = "jsonl")]
            StoredRecord::Raw(kind, _) => kind,
        }
    }

    /// The record as a plain object.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            StoredRecord::Typed(record) => {
                let mut line = vec![];
                wire::write_record(&mut line, record, &mut HashChain::after(""));
                serde_json::from_slice(&line).unwrap_or_default()
            }
            #[cfg(feature = "jsonl")]
            StoredRecord::Raw(_, raw) => serde_json::from_slice(raw.bytes()).unwrap_or_default(),
        }
    }
}

/// What a list shows of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its id.
    pub id: SmolStr,
    /// The folder it was started in.
    pub cwd: PathBuf,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub modified_at: Timestamp,
    /// Its name, or the first words of the person. A name that stands neither near the beginning nor
    /// near the end of a long session is not looked for.
    pub title: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why a store could not do as it was told. Nothing was overwritten.
#[derive(Debug)]
pub struct StoreError {
    message: String,
    hint: Option<String>,
    source: Option<std::io::Error>,
}

impl StoreError {
    /// A failure in words.
    pub fn new(message: impl Into<String>) -> Self {
        StoreError { message: message.into(), hint: None, source: None }
    }

    #[cfg(feature = "jsonl")]
    pub(crate) fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        StoreError { message: message.into(), hint: None, source: Some(source) }
    }

    #[cfg(feature = "jsonl")]
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        StoreError { hint: Some(hint.into()), ..self }
    }

    /// The way out, where there is one.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
