//! The clocks of waiting handlers: the working time of each handler, and its remarks besides the answer.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::hooks::handler::{AnswerCaveat, CaveatKind};

/// The clock of one handler. It is paused while the handler waits for a person, for a model or for a tool
/// that it runs.
#[derive(Debug)]
pub(crate) struct HandlerClock {
    created: Instant,
    /// The time of all ended pauses, in nanoseconds.
    paused: AtomicU64,
    /// The start of the current pause, in nanoseconds since `created`; 0 if the clock runs.
    paused_since: AtomicU64,
    /// The number of reasons to stand still. Only the first one begins a pause, and the last one ends it.
    pauses: AtomicU32,
    /// The remark of the handler besides its answer.
    remark: Mutex<Option<Box<str>>>,
    /// The caveat about the handler's answer.
    caveat: Mutex<Option<AnswerCaveat>>,
}

impl HandlerClock {
    fn pause(&self) {
        if self.pauses.fetch_add(1, Ordering::Relaxed) == 0 {
            self.paused_since.store(self.now().max(1), Ordering::Relaxed);
        }
    }

    fn resume(&self) {
        if self.pauses.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let since = self.paused_since.swap(0, Ordering::Relaxed);
        self.paused.fetch_add(self.now().saturating_sub(since), Ordering::Relaxed);
    }

    /// Returns the working time of a handler that began at `started`, until `now`, without pauses.
    pub(crate) fn working_time(&self, started: Instant, now: Instant) -> Duration {
        let since = self.paused_since.load(Ordering::Relaxed);
        let current_pause = if since == 0 { 0 } else { self.now().saturating_sub(since) };
        let paused = self.paused.load(Ordering::Relaxed).saturating_add(current_pause);
        now.saturating_duration_since(started).saturating_sub(Duration::from_nanos(paused))
    }

    fn now(&self) -> u64 {
        saturating_nanos(self.created.elapsed())
    }
}

/// The clocks of all handlers of one dispatch in one allocation, and the index of one handler.
#[derive(Clone, Debug)]
pub(crate) struct HandlerClocks {
    all: Arc<[HandlerClock]>,
    index: usize,
}

impl HandlerClocks {
    pub(crate) fn new(count: usize, created: Instant) -> Self {
        let clock = || HandlerClock {
            created,
            paused: AtomicU64::new(0),
            paused_since: AtomicU64::new(0),
            pauses: AtomicU32::new(0),
            remark: Mutex::new(None),
            caveat: Mutex::new(None),
        };
        HandlerClocks { all: (0..count).map(|_| clock()).collect(), index: 0 }
    }

    /// Returns the clock of the handler at `index`.
    pub(crate) fn at(&self, index: usize) -> Self {
        HandlerClocks { all: self.all.clone(), index }
    }

    pub(crate) fn clock(&self) -> &HandlerClock {
        &self.all[self.index]
    }

    /// Stores the handler's remark, which is meant for the people who maintain hooks. The last remark wins.
    pub(crate) fn remark(&self, text: Box<str>) {
        *self.clock().remark.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Takes the handler's remark.
    pub(crate) fn take_remark(&self) -> Option<Box<str>> {
        self.clock().remark.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores the caveat about the handler's answer. The last caveat wins.
    pub(crate) fn set_caveat(&self, kind: CaveatKind, text: Box<str>) {
        let caveat = AnswerCaveat { kind, text };
        *self.clock().caveat.lock().unwrap_or_else(PoisonError::into_inner) = Some(caveat);
    }

    /// Takes the caveat about the handler's answer.
    pub(crate) fn take_caveat(&self) -> Option<AnswerCaveat> {
        self.clock().caveat.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops this handler's clock until the guard is dropped.
    pub(crate) fn pause(&self) -> ClockPause {
        self.clock().pause();
        ClockPause(self.clone())
    }
}

/// Restarts the clock when it is dropped.
#[derive(Debug)]
pub(crate) struct ClockPause(HandlerClocks);

impl Drop for ClockPause {
    fn drop(&mut self) {
        self.0.clock().resume();
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn overlapping_pauses_of_a_handler_are_one_pause() {
        let started = Instant::now();
        let clocks = HandlerClocks::new(1, started);
        let advance = || tokio::time::advance(Duration::from_secs(1));
        let (first, second) = (clocks.pause(), clocks.pause());
        advance().await;
        drop(first);
        advance().await;
        drop(second);
        advance().await;
        let worked = clocks.clock().working_time(started, Instant::now());
        assert_eq!(worked.as_secs(), 1);
    }
}
