//! What commands left behind where nobody looked for it at once: it is found by their marks soon after, in one
//! look at all the processes of the machine for many commands.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::process::tree;

/// How long after a command is over.
const SOON: Duration = Duration::from_millis(500);

/// The marks of commands that are over. Whoever still has one when this goes is ended then.
#[derive(Default)]
pub(crate) struct StragglerReaper(Mutex<PendingMarks>);

#[derive(Default)]
struct PendingMarks {
    all: Vec<String>,
    /// Whether somebody is about to look.
    looked_for: bool,
}

impl StragglerReaper {
    /// Has whoever has this entry in their environment ended soon.
    pub(crate) fn add(self: &Arc<Self>, entry: &str) {
        let mut marks = self.marks();
        marks.all.push(entry.to_owned());
        if marks.looked_for {
            return;
        }
        let left = Arc::downgrade(self);
        let looks = thread::Builder::new().name("left".into()).spawn(move || {
            thread::sleep(SOON);
            // Gone, it has looked itself.
            if let Some(left) = left.upgrade() {
                left.end();
            }
        });
        // Whoever comes next tries again.
        marks.looked_for = looks.is_ok();
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
        f.write_str("what commands left")
    }
}
