//! `turn.end`: the model would stop.

use serde::Serialize;

use crate::hooks::handler::Failure;
use crate::hooks::points::{Applied, Fold, Never, Point, PointId};

/// Fires when the model would stop. Gates answer with a [`TurnVerdict`].
#[derive(Clone, Copy, Debug)]
pub struct TurnEnd;

/// The model's last words, if nobody objects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnding {
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
pub enum TurnVerdict {
    /// It may.
    Stop,
    /// It goes on, and is told this reason. At most eight in a row.
    GoOn(String),
}

impl Fold for TurnVerdict {
    fn rank(&self) -> u8 {
        u8::from(matches!(self, TurnVerdict::GoOn(_)))
    }
    fn ends(&self) -> bool {
        false
    }
    fn reason(&self) -> Option<&str> {
        match self {
            TurnVerdict::Stop => None,
            TurnVerdict::GoOn(reason) => Some(reason),
        }
    }
    fn word(&self) -> &'static str {
        match self {
            TurnVerdict::Stop => "stop",
            TurnVerdict::GoOn(_) => "go_on",
        }
    }
    fn failed(_: &Failure) -> Option<Self> {
        None
    }
}

impl Point for TurnEnd {
    const ID: PointId = PointId::TurnEnd;
    type Event = TurnEnding;
    type Verdict = TurnVerdict;
    type Change = Never;
    type Answer = Never;

    fn apply(_: &TurnEnding, change: Never) -> Applied<Self> {
        match change {}
    }
}
