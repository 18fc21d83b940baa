//! `session.open` and `session.close`, around the life of a session; `session.start` and `session.end`,
//! around each run of the loop.

use serde::Serialize;
use smol_str::SmolStr;

use crate::{
    history::outcome::EndReason,
    hooks::points::{NoAnswer, Point, PointId, TransformEffect},
};

/// Fires when a session is created, resumed or forked.
#[derive(Clone, Copy, Debug)]
pub struct SessionOpen;

/// A session was opened.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionOpenEvent {
    /// How the session was opened: `created`, `resumed` or `forked`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["created", "resumed", "forked"])))]
    pub how: &'static str,
}

/// Fires when a session is closed.
#[derive(Clone, Copy, Debug)]
pub struct SessionClose;

/// A session was closed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionCloseEvent {
    /// The number of runs in the session.
    pub runs: u32,
}

/// Fires at the start of the loop, once per run.
#[derive(Clone, Copy, Debug)]
pub struct SessionStart;

/// A run began.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionStartEvent {
    /// The model at the start of the run.
    pub model: SmolStr,
}

/// Fires at the single exit of every run, aborted runs included.
#[derive(Clone, Copy, Debug)]
pub struct SessionEnd;

/// A run ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionEndEvent {
    /// The reason why the run ended.
    pub reason: EndReason,
}

macro_rules! observed {
    ($point:ident, $event:ident) => {
        impl Point for $point {
            const ID: PointId = PointId::$point;
            type Event = $event;
            type Verdict = NoAnswer;
            type Change = NoAnswer;
            type Answer = NoAnswer;

            fn apply(_: &$event, change: NoAnswer) -> TransformEffect<Self> {
                match change {}
            }
        }
    };
}

pub(crate) use observed;

observed!(SessionOpen, SessionOpenEvent);
observed!(SessionClose, SessionCloseEvent);
observed!(SessionStart, SessionStartEvent);
observed!(SessionEnd, SessionEndEvent);
