//! The names of agents that are being registered.

use std::sync::{Mutex, MutexGuard, PoisonError};

use smol_str::SmolStr;

/// The names of agents that are being registered. Each name is registered by one caller at a time.
#[derive(Default)]
pub(crate) struct PendingAgents(Mutex<Vec<SmolStr>>);

/// The guard of a pending name.
pub(crate) struct PendingAgent<'a>(&'a PendingAgents, SmolStr);

impl PendingAgents {
    fn names(&self) -> MutexGuard<'_, Vec<SmolStr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a name as pending while the guard is held; `None` if it is pending already.
    pub(crate) fn begin(&self, name: &SmolStr) -> Option<PendingAgent<'_>> {
        let mut names = self.names();
        if names.contains(name) {
            return None;
        }
        names.push(name.clone());
        Some(PendingAgent(self, name.clone()))
    }
}

impl Drop for PendingAgent<'_> {
    fn drop(&mut self) {
        self.0.names().retain(|name| *name != self.1);
    }
}
