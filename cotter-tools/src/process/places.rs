//! Places for programs that run at once: fewer than the limits for open files and processes allow. Who finds
//! no place waits. Otherwise a step with many calls would fail where a single call works.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The open files that everything but programs needs.
const OTHER_FILES: u64 = 64;
/// The open files of one hook, one detached hook, one question to a model and one command while they start.
const FILES_EACH: u64 = 27;
/// The processes of one program with all it starts, roughly.
const PROCESSES_EACH: u64 = 8;
/// The most places, whatever the limits are.
const MAX_PLACES: u64 = 32;

/// Places that are taken and given back. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Semaphore>);

/// A taken place. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// The number of places that the limits of this process allow, at least one.
    pub(crate) fn within_limits() -> Self {
        let limit = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
        let by_files = limit(Resource::Nofile).saturating_sub(OTHER_FILES) / FILES_EACH;
        let by_processes = limit(Resource::Nproc) / PROCESSES_EACH;
        let count = by_files.min(by_processes).clamp(1, MAX_PLACES);
        Places(Arc::new(Semaphore::new(usize::try_from(count).unwrap_or(1))))
    }

    /// Waits for a place, in the order of the calls.
    pub(crate) async fn take(&self) -> Place {
        // The semaphore is never closed.
        Place { _permit: self.0.clone().acquire_owned().await.ok() }
    }
}
