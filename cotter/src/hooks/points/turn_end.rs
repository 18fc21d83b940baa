//! `turn.end`: the model is about to stop.

use serde::Serialize;

use crate::hooks::{
    handler::HandlerFailure,
    points::{NoAnswer, Point, PointId, RankedAnswer, TransformEffect},
};

/// Fires when the model is about to stop. Gates answer with a [`TurnEndVerdict`].
#[derive(Clone, Copy, Debug)]
pub struct TurnEnd;

/// The last reply of the model, unless a gate makes the model continue.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnEndEvent {
    /// The text of the last reply.
    pub text: String,
    /// The number of times in a row that a hook made the model continue.
    #[serde(rename = "goneOn")]
    pub continued_in_row: u32,
    /// The number of times in this run that a gate made the model continue, with or without calls in between.
    #[serde(skip)]
    pub continued_in_run: u32,
}

/// The verdict of a gate at `turn.end`. A gate that fails lets the model stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum TurnEndVerdict {
    /// The model may stop.
    Stop,
    /// The model continues, and gets this reason. At most eight times in a row.
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
