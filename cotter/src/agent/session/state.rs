//! The state of a session: its tree, and the lines that are not in the store yet.

use std::sync::Arc;

use smol_str::{SmolStr, format_smolstr};

use crate::{
    agent::{
        listing::NameListing,
        session::{
            active_run::{ActiveRun, SessionOverrides},
            recovery::{InterruptedRun, recover},
        },
    },
    history::{
        entry::{Entries, Entry, EntryBody, SessionHeader, Timestamp},
        ledger::Record,
        line_format::parse_timestamp,
        store::{LineKind, Log, NoLog, Store, StoreError, StoreLine, SyncFuture},
        tree::Tree,
    },
};

/// A session's tree and the growing end of its file. The holder of the lock is the only writer.
pub(crate) struct SessionState {
    pub(crate) header: SessionHeader,
    pub(crate) tree: Tree,
    log: Box<dyn Log>,
    /// Lines that were added and not yet given to the log.
    staged: Vec<StoreLine>,
    /// True if lines were given to the log since the last sync.
    unsynced: bool,
    pub(super) next_entry: u64,
    pub(crate) next_run: u32,
    /// The generation whose table of hooks was stored last.
    pub(crate) stored_table: Option<u64>,
    pub(crate) interrupted: Option<Box<InterruptedRun>>,
    /// The run that was given its missing end when the session was opened.
    pub(crate) crashed_run: Option<SmolStr>,
    pub(crate) diagnostics: Vec<String>,
    read_only: Option<String>,
    pub(super) active_run: Option<Box<ActiveRun>>,
    /// The lists that the model was shown.
    pub(crate) shown_listing: Option<Arc<NameListing>>,
    pub(super) overrides: Option<Box<SessionOverrides>>,
}

impl SessionState {
    pub(crate) fn create(store: &dyn Store, header: SessionHeader) -> Result<Self, StoreError> {
        let log = store.create(&header)?;
        Ok(SessionState::new(header, log))
    }

    /// A session that is not stored.
    pub(crate) fn unstored(header: SessionHeader) -> Self {
        SessionState::new(header, Box::new(NoLog))
    }

    fn new(header: SessionHeader, log: Box<dyn Log>) -> Self {
        SessionState {
            header,
            tree: Tree::default(),
            log,
            staged: vec![],
            unsynced: false,
            next_entry: 1,
            next_run: 1,
            stored_table: None,
            interrupted: None,
            crashed_run: None,
            diagnostics: vec![],
            read_only: None,
            active_run: None,
            shown_listing: None,
            overrides: None,
        }
    }

    /// Opens a stored session. Calls and runs that a killed process left open are closed.
    pub(crate) fn open(store: &dyn Store, id: &str) -> Result<Self, StoreError> {
        let stored = store.open(id)?;
        let mut state = SessionState::new(stored.header, stored.log);
        state.diagnostics = stored.diagnostics;
        state.read_only = stored.read_only;
        state.next_entry = next_id(&stored.entries);
        let diagnostics = &mut state.diagnostics;
        state.tree = match stored.earlier {
            None => Tree::load(stored.entries, |problem| diagnostics.push(problem)),
            earlier => Tree::load_end(stored.entries, earlier),
        };
        if state.read_only.is_none() {
            recover(&mut state, &stored.records)?;
        }
        Ok(state)
    }

    pub(crate) fn fork(
        store: &dyn Store,
        header: SessionHeader,
        path: &Entries,
        next_entry: u64,
    ) -> Result<Self, StoreError> {
        let mut state = SessionState::create(store, header)?;
        let lines: Vec<_> =
            path.iter().map(|entry| StoreLine(LineKind::Entry(entry.clone()))).collect();
        state.log.append(&lines)?;
        state.tree = Tree::load(path.iter().cloned().collect(), |_| {});
        state.next_entry = next_entry;
        Ok(state)
    }

    /// Adds an entry after the leaf. The next commit stores it.
    pub(crate) fn append(&mut self, body: EntryBody) -> Arc<Entry> {
        let id = self.next_id();
        self.append_with_id(id, body)
    }

    pub(super) fn next_id(&mut self) -> SmolStr {
        self.next_entry += 1;
        entry_id(self.next_entry - 1)
    }

    pub(super) fn append_with_id(&mut self, id: SmolStr, body: EntryBody) -> Arc<Entry> {
        let given_time = match &body {
            EntryBody::Custom(fields) => fields.get("timestamp").and_then(parse_timestamp),
            _ => None,
        };
        let at = given_time.unwrap_or_else(Timestamp::now);
        let entry = Arc::new(Entry::new(id, self.tree.leaf_id().cloned(), at, body));
        self.staged.push(StoreLine(LineKind::Entry(entry.clone())));
        self.tree.append(entry.clone());
        if matches!(entry.body(), EntryBody::SkillActive { .. } | EntryBody::Leaf(_))
            && let Some(overrides) = &mut self.overrides
        {
            overrides.skills = None;
        }
        entry
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.staged.push(StoreLine(LineKind::Record(Arc::new(record))));
    }

    /// Stores the staged lines. A process that is killed after this loses none of them.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.check_writable()?;
        self.log.append(&self.staged)?;
        self.staged.clear();
        self.unsynced = true;
        Ok(())
    }

    /// Stores records of a caller that keeps them until they are stored. On an error none of them stays
    /// staged, so that none is stored twice.
    pub(crate) fn commit_records(
        &mut self,
        records: impl Iterator<Item = Arc<Record>>,
    ) -> Result<(), StoreError> {
        let staged_before = self.staged.len();
        self.staged.extend(records.map(|record| StoreLine(LineKind::Record(record))));
        self.commit().inspect_err(|_| self.staged.truncate(staged_before))
    }

    /// Stores the staged lines; they are on the disk once the returned future ends.
    pub(crate) fn commit_synced(&mut self) -> Result<SyncFuture, StoreError> {
        self.commit()?;
        self.unsynced = false;
        Ok(self.log.sync())
    }

    /// Stores the staged lines and starts a sync without waiting for it.
    pub(crate) fn commit_and_start_sync(&mut self) -> Result<(), StoreError> {
        self.commit()?;
        if std::mem::take(&mut self.unsynced) {
            self.log.start_sync();
        }
        Ok(())
    }

    /// Fails if the session is read-only.
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        match &self.read_only {
            None => Ok(()),
            Some(reason) => {
                Err(StoreError::new(format!("session `{}` is read-only: {reason}", self.header.id)))
            }
        }
    }
}

/// The number after the largest of our own ids. A file from another program may contain any ids.
fn next_id(entries: &[Arc<Entry>]) -> u64 {
    let number = |id: &SmolStr| match id.len() {
        ..=12 => u64::from_str_radix(id, 16).ok(),
        _ => None,
    };
    // Our ids sort alphabetically by number, so only the last one is parsed.
    let is_ours = |id: &SmolStr| id.len() == 8 && !id.bytes().any(|b| b.is_ascii_uppercase());
    let all_ours = entries.iter().all(|entry| is_ours(entry.id()));
    let last = entries.iter().map(|entry| entry.id()).max().and_then(number);
    let largest = match last {
        Some(largest) if all_ours => Some(largest),
        _ => entries.iter().filter_map(|entry| number(entry.id())).max(),
    };
    largest.unwrap_or(0) + 1
}

/// Formats an id: eight hex digits, or more for a larger number.
fn entry_id(number: u64) -> SmolStr {
    let Ok(number) = u32::try_from(number) else { return format_smolstr!("{number:08x}") };
    let mut digits = *b"00000000";
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 15) as usize];
    }
    SmolStr::new_inline(std::str::from_utf8(&digits).unwrap_or_default())
}
