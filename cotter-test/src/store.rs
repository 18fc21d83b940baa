//! A store that fails on demand.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use cotter::history::{
    entry::SessionHeader,
    store::{Log, SessionSummary, Store, StoreError, StoreLine, StoredSession, SyncFuture},
};
use smol_str::SmolStr;

/// The call that fails, counted from 1 over all logs of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The nth append and all later ones.
    Append(usize),
    /// The nth awaited sync and all later ones.
    Sync(usize),
}

/// Wraps a store and makes it fail from one call on.
pub struct FaultyStore<S> {
    store: S,
    faults: Arc<Faults>,
}

struct Faults {
    fault: Fault,
    appends: AtomicUsize,
    syncs: AtomicUsize,
}

impl<S: Store> FaultyStore<S> {
    /// A store that fails at `fault`.
    pub fn new(store: S, fault: Fault) -> Self {
        let faults = Faults { fault, appends: AtomicUsize::new(0), syncs: AtomicUsize::new(0) };
        FaultyStore { store, faults: Arc::new(faults) }
    }

    fn wrap(&self, log: Box<dyn Log>) -> Box<dyn Log> {
        Box::new(FaultyLog { log, faults: self.faults.clone() })
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError> {
        self.store.create(header).map(|log| self.wrap(log))
    }

    fn open(&self, id: &str) -> Result<StoredSession, StoreError> {
        self.store.open(id).map(|opened| opened.map_log(|log| self.wrap(log)))
    }

    fn new_id(&self) -> SmolStr {
        self.store.new_id()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.store.list()
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        self.store.file(id)
    }

    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        self.store.lines(id)
    }
}

struct FaultyLog {
    log: Box<dyn Log>,
    faults: Arc<Faults>,
}

impl Log for FaultyLog {
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError> {
        let nth = self.faults.appends.fetch_add(1, Ordering::Relaxed) + 1;
        match self.faults.fault {
            Fault::Append(from) if nth >= from => Err(StoreError::new("the disk is full")),
            _ => self.log.append(lines),
        }
    }

    fn sync(&mut self) -> SyncFuture {
        let nth = self.faults.syncs.fetch_add(1, Ordering::Relaxed) + 1;
        match self.faults.fault {
            Fault::Sync(from) if nth >= from => {
                Box::pin(std::future::ready(Err(StoreError::new("the disk does not answer"))))
            }
            _ => self.log.sync(),
        }
    }

    fn start_sync(&mut self) {
        self.log.start_sync();
    }
}
