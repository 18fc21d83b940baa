//! `session.open` and `session.close`, around the life of a session; `session.start` and
//! `session.end`, around each run of the loop.

use serde::Serialize;
use smol_str::SmolStr;

use crate::history::end_reason::Reason;
use crate::hooks::points::{Applied, Never, Point, PointId};

/// Fires when a session is created, resumed or forked.
#[derive(Clone, Copy, Debug)]
pub struct SessionOpen;

/// A session was opened.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOpened {
    /// `created`, `resumed` or `forked`.
    pub how: &'static str,
}

/// Fires when a session is closed.
#[derive(Clone, Copy, Debug)]
pub struct SessionClose;

/// A session was closed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionClosed {
    /// How many runs it had.
    pub runs: u32,
}

/// Fires at the top of the loop, once per run.
#[derive(Clone, Copy, Debug)]
pub struct SessionStart;

/// A run began.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStarted {
    /// The model the run starts with.
    pub model: SmolStr,
}

/// Fires at the single exit of every run, also when it was aborted.
#[derive(Clone, Copy, Debug)]
pub struct SessionEnd;

/// A run ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// Why it ended.
    pub reason: Reason,
}

macro_rules! observed {
    ($point:ident, $event:ident) => {
        impl Point for $point {
            const ID: PointId = PointId::$point;
            type Event = $event;
            type Verdict = Never;
            type Change = Never;
            type Answer = Never;

            fn apply(_: &$event, change: Never) -> Applied<Self> {
                match change {}
            }
        }
    };
}

pub(crate) use observed;

observed!(SessionOpen, SessionOpened);
observed!(SessionClose, SessionClosed);
observed!(SessionStart, SessionStarted);
observed!(SessionEnd, SessionEnded);
