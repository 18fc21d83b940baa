//! Ends processes that outlived their command, found by the command's mark. The search runs a
//! moment later and covers many commands at once, because it reads all processes of the machine.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::process::tree;

/// The delay between the end of a command and the search.
const DELAY: Duration = Duration::from_millis(500);

/// The marks of ended commands. Processes that still have one are ended at the latest when this is
/// dropped.
#[derive(Default)]
pub(crate) struct StragglerReaper(Mutex<PendingMarks>);

#[derive(Default)]
struct PendingMarks {
    all: Vec<String>,
    /// True if a search is scheduled.
    is_scheduled: bool,
}

impl StragglerReaper {
    /// Schedules the end of all processes with this entry in their environment.
    pub(crate) fn add(self: &Arc<Self>, entry: &str) {
        let mut marks = self.marks();
        marks.all.push(entry.to_owned());
        if marks.is_scheduled {
            return;
        }
        let reaper = Arc::downgrade(self);
        let thread = thread::Builder::new().name("left".into()).spawn(move || {
            thread::sleep(DELAY);
            // If it is gone, its drop has done the search.
            if let Some(reaper) = reaper.upgrade() {
                reaper.end();
            }
        });
        // On failure the next call tries again.
        marks.is_scheduled = thread.is_ok();
    }

    fn end(&self) {
        let PendingMarks { all, .. } = std::mem::take(&mut *self.marks());
        if !all.is_empty() {
            tree::end_marked(&all);
        }
    }

    fn marks(&self) -> MutexGuard<'_, PendingMarks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StragglerReaper {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for StragglerReaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StragglerReaper")
    }
}
