//! `turn.end`: the model would stop.

use serde::Serialize;

use crate::hooks::{
    handler::HandlerFailure,
    points::{NoAnswer, Point, PointId, RankedAnswer, TransformEffect},
};

/// Fires when the model would stop. Gates answer with a [`TurnEndVerdict`].
#[derive(Clone, Copy, Debug)]
pub struct TurnEnd;

/// The model's last words, if nobody objects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEndEvent {
    /// The text of the last reply.
    pub text: String,
    /// How often in a row a gate has sent the model on.
    pub gone_on: u32,
    /// How often a gate has sent the model on in this run, calls in between or not.
    #[serde(skip)]
    pub sent_on: u32,
}

/// Whether the model may stop. A gate that fails lets it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum TurnEndVerdict {
    /// It may.
    Stop,
    /// It goes on, and is told this reason. At most eight in a row.
    GoOn(String),
}

impl RankedAnswer for TurnEndVerdict {
    fn rank(&self) -> u8 {
        u8::from(matches!(self, TurnEndVerdict::GoOn(_)))
    }
    fn ends(&self) -> bool {
        false
    }
    fn reason(&self) -> Option<&str> {
        match self {
            TurnEndVerdict::Stop => None,
            TurnEndVerdict::GoOn(reason) => Some(reason),
        }
    }
    fn word(&self) -> &'static str {
        match self {
            TurnEndVerdict::Stop => "stop",
            TurnEndVerdict::GoOn(_) => "go_on",
        }
    }
    fn failed(_: &HandlerFailure) -> Option<Self> {
        None
    }
}

impl Point for TurnEnd {
    const ID: PointId = PointId::TurnEnd;
    type Event = TurnEndEvent;
    type Verdict = TurnEndVerdict;
    type Change = NoAnswer;
    type Answer = NoAnswer;

    fn apply(_: &TurnEndEvent, change: NoAnswer) -> TransformEffect<Self> {
        match change {}
    }
}
