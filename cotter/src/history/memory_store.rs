//! The store that keeps sessions in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use smol_str::{SmolStr, format_smolstr};

use crate::history::{
    entry::{EntryBody, SessionHeader},
    ledger::HashChain,
    line_format,
    store::{
        LineKind, Log, SessionSummary, Store, StoreError, StoreLine, StoredRecord, StoredSession,
        SyncFuture,
    },
};

/// Stores sessions in memory. They are lost when the process ends.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<MemorySessions>>);

#[derive(Default)]
struct MemorySessions {
    created_count: u64,
    by_id: BTreeMap<SmolStr, MemorySession>,
}

#[derive(Clone)]
struct MemorySession {
    header: SessionHeader,
    lines: Arc<Mutex<Vec<StoreLine>>>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    fn find_session(&self, id: &str) -> Result<MemorySession, StoreError> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.by_id.get(id).cloned();
        session.ok_or_else(|| StoreError::new(format!("there is no session `{id}`")))
    }
}

struct MemoryLog {
    lines: Arc<Mutex<Vec<StoreLine>>>,
}

impl Store for MemoryStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.by_id.contains_key(&header.id) {
            return Err(StoreError::new(format!("session `{}` exists already", header.id)));
        }
        let lines = Arc::new(Mutex::new(vec![]));
        let session = MemorySession { header: header.clone(), lines: lines.clone() };
        sessions.by_id.insert(header.id.clone(), session);
        Ok(Box::new(MemoryLog { lines }))
    }

    fn open(&self, id: &str) -> Result<StoredSession, StoreError> {
        let session = self.find_session(id)?;
        // The store and this function hold two references. A third one belongs to an open session.
        if Arc::strong_count(&session.lines) > 2 {
            return Err(StoreError::new(format!("session `{id}` is open already")));
        }
        let (mut entries, mut records) = (vec![], vec![]);
        for line in session.lines.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match &line.0 {
                LineKind::Entry(entry) => entries.push(entry.clone()),
                LineKind::Record(record) => records.push(StoredRecord::Typed(record.clone())),
            }
        }
        let log = Box::new(MemoryLog { lines: session.lines });
        let header = session.header;
        let (diagnostics, earlier, read_only) = (vec![], None, None);
        Ok(StoredSession { header, entries, earlier, records, log, diagnostics, read_only })
    }

    fn new_id(&self) -> SmolStr {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.created_count += 1;
        format_smolstr!("s{}", sessions.created_count)
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let summary = |session: &MemorySession| {
            let header = &session.header;
            let lines = session.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let first = lines.iter().find_map(|line| match &line.0 {
                LineKind::Entry(entry) => {
                    entry.message().map(|message| message.text().into_owned())
                }
                LineKind::Record(_) => None,
            });
            let name = lines.iter().rev().find_map(|line| match &line.0 {
                LineKind::Entry(entry) => match entry.body() {
                    EntryBody::SessionInfo(name) => Some(name.clone()),
                    _ => None,
                },
                LineKind::Record(_) => None,
            });
            let name = name.flatten();
            SessionSummary {
                id: header.id.clone(),
                cwd: header.cwd.clone(),
                created_at: header.created_at,
                modified_at: header.created_at,
                title: name.or(first).unwrap_or_default(),
                bytes: 0,
            }
        };
        let mut all: Vec<_> = sessions.by_id.values().map(summary).collect();
        all.sort_by_key(|summary| std::cmp::Reverse(summary.created_at));
        Ok(all)
    }

    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let session = self.find_session(id)?;
        let mut chain = HashChain::of_session(id);
        let mut header = vec![];
        line_format::write_header(&mut header, &session.header);
        let mut all = vec![header];
        for line in session.lines.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut bytes = vec![];
            line.write(&mut bytes, &mut chain);
            all.push(bytes);
        }
        Ok(all)
    }
}

impl Log for MemoryLog {
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError> {
        let mut stored = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        stored.extend_from_slice(lines);
        Ok(())
    }

    fn sync(&mut self) -> SyncFuture {
        Box::pin(std::future::ready(Ok(())))
    }
}
