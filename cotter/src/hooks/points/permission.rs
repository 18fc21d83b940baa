//! `permission.ask`: a person is about to be asked.

use crate::hooks::{
    handler::HandlerFailure,
    points::{Admission, NoAnswer, Point, PointId, RankedAnswer, TransformEffect},
    ui::Question,
};

/// Fires before a question is put to a person. Gates answer with [`Admission`]. A handler with the power
/// `answer` may give a [`PermissionAnswer`] for the person if no gate, ask rule or kernel gate raised the
/// question.
#[derive(Clone, Copy, Debug)]
pub struct PermissionAsk;

/// An answer for the person: `Pass < Yes < No`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum PermissionAnswer {
    /// The person is asked.
    Pass,
    /// Yes to every call of the question.
    Yes,
    /// No to every call of the question, for this reason.
    No(String),
}

impl RankedAnswer for PermissionAnswer {
    fn rank(&self) -> u8 {
        match self {
            PermissionAnswer::Pass => 0,
            PermissionAnswer::Yes => 1,
            PermissionAnswer::No(_) => 2,
        }
    }
    fn ends(&self) -> bool {
        matches!(self, PermissionAnswer::No(_))
    }
    fn reason(&self) -> Option<&str> {
        match self {
            PermissionAnswer::No(reason) => Some(reason),
            PermissionAnswer::Pass | PermissionAnswer::Yes => None,
        }
    }
    fn word(&self) -> &'static str {
        match self {
            PermissionAnswer::Pass => "pass",
            PermissionAnswer::Yes => "yes",
            PermissionAnswer::No(_) => "no",
        }
    }
    fn failed(_: &HandlerFailure) -> Option<Self> {
        None
    }
}

impl Point for PermissionAsk {
    const ID: PointId = PointId::PermissionAsk;
    type Event = Question;
    type Verdict = Admission;
    type Change = NoAnswer;
    type Answer = PermissionAnswer;

    fn apply(_: &Question, change: NoAnswer) -> TransformEffect<Self> {
        match change {}
    }
}
