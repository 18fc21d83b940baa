//! The traits of a session store, and the lines that it stores.

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc};

use smol_str::SmolStr;

use crate::history::{
    entry::{Entry, SessionHeader, Timestamp},
    ledger::{HashChain, Record},
    ledger_row::LedgerRow,
    line_format,
};

pub use crate::history::memory_store::MemoryStore;

/// The future of a sync.
pub type SyncFuture = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// A store of sessions.
pub trait Store: Send + Sync + 'static {
    /// Creates an empty session. An id that exists is an error.
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError>;

    /// Opens a session for writing. A second writer gets an error.
    fn open(&self, id: &str) -> Result<StoredSession, StoreError>;

    /// Returns a new id.
    fn new_id(&self) -> SmolStr;

    /// Lists the sessions, newest first.
    fn list(&self) -> Result<Vec<SessionSummary>, StoreError>;

    /// The file of a session, if the store uses files.
    fn file(&self, id: &str) -> Option<PathBuf> {
        let _ = id;
        None
    }

    /// Returns every line of a session as stored, without opening the session for writing.
    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError>;
}

/// The append handle of one session.
///
/// `append` stores all lines or none. When it returns, the lines survive a killed process. When `sync`
/// completes, they survive a power cut too. Lines never change.
pub trait Log: Send {
    /// Stores lines, in order.
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError>;

    /// Waits until all appended lines are on the disk.
    fn sync(&mut self) -> SyncFuture;

    /// Starts to sync all appended lines to the disk and returns at once.
    fn start_sync(&mut self) {}
}

/// A log that stores nothing.
pub(crate) struct NoLog;

impl Log for NoLog {
    fn append(&mut self, _: &[StoreLine]) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> SyncFuture {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A line to be stored.
#[derive(Clone)]
pub struct StoreLine(pub(crate) LineKind);

#[derive(Clone)]
pub(crate) enum LineKind {
    Entry(Arc<Entry>),
    Record(Arc<Record>),
}

impl StoreLine {
    /// Writes the line as in a file, without a newline.
    pub(crate) fn write(&self, out: &mut Vec<u8>, chain: &mut HashChain) {
        match &self.0 {
            LineKind::Entry(entry) => line_format::write_entry(out, entry),
            LineKind::Record(record) => line_format::write_record(out, record, chain),
        }
    }
}

/// A function that reads the entries before those already read. Returns them and the diagnostics.
pub(crate) type EarlierEntries = Box<dyn FnOnce() -> (Vec<Arc<Entry>>, Vec<String>) + Send>;

/// A session as stored.
pub struct StoredSession {
    pub(crate) header: SessionHeader,
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Reads the entries before `entries`, if `entries` is not complete.
    pub(crate) earlier: Option<EarlierEntries>,
    pub(crate) records: Vec<StoredRecord>,
    pub(crate) log: Box<dyn Log>,
    /// The diagnostics, one line each.
    pub diagnostics: Vec<String>,
    /// The reason why the session is read-only; `None` if it may be written.
    pub read_only: Option<String>,
}

impl StoredSession {
    /// Wraps the session's log, for stores that wrap another store.
    pub fn map_log(self, wrap: impl FnOnce(Box<dyn Log>) -> Box<dyn Log>) -> Self {
        StoredSession { log: wrap(self.log), ..self }
    }
}

/// A stored record. Its kind is known; the rest is parsed on demand.
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

    /// Returns the record as a reader of its line would. `None` if the line cannot be read.
    pub(crate) fn row(&self) -> Option<LedgerRow> {
        match self {
            StoredRecord::Typed(record) => {
                let mut line = vec![];
                line_format::write_record(&mut line, record, &mut HashChain::after(""));
                LedgerRow::parse(&line)
            }
            #[cfg(feature = "jsonl")]
            StoredRecord::Raw(_, raw) => LedgerRow::parse(raw.bytes()),
        }
    }
}

/// The summary of a session for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// The session's id.
    pub id: SmolStr,
    /// The folder in which the session was started.
    pub cwd: PathBuf,
    /// The time at which the session was created.
    pub created_at: Timestamp,
    /// The time of the last write.
    pub modified_at: Timestamp,
    /// The session's name, or the text of its first message. In a long session a name is found only near
    /// the beginning and near the end.
    pub title: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// An error of a store. Nothing was overwritten.
#[derive(Debug)]
pub struct StoreError {
    message: String,
    hint: Option<String>,
    source: Option<std::io::Error>,
}

impl StoreError {
    /// Creates an error with a message.
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

    /// The hint for the user, if there is one.
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
