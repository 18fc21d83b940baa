//! `permission.ask`: a human is about to be asked.

use crate::hooks::points::{Admit, Applied, Fold, Never, Point, PointId};
use crate::hooks::{handler::Failure, ui::Question};

/// Fires before a question is put to a person. Gates answer with [`Admit`]; a handler with the power
/// `answer` may give an [`Answer`] for the person, where no gate, ask rule or kernel gate raised the
/// question.
#[derive(Clone, Copy, Debug)]
pub struct PermissionAsk;

/// An answer in the person's stead: `Pass < Yes < No`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// The person is asked.
    Pass,
    /// Yes to every call of the question.
    Yes,
    /// No to every call of the question, for this reason.
    No(String),
}

impl Fold for Answer {
    fn rank(&self) -> u8 {
        match self {
            Answer::Pass => 0,
            Answer::Yes => 1,
            Answer::No(_) => 2,
        }
    }
    fn ends(&self) -> bool {
        matches!(self, Answer::No(_))
    }
    fn reason(&self) -> Option<&str> {
        match self {
            Answer::No(reason) => Some(reason),
            Answer::Pass | Answer::Yes => None,
        }
    }
    fn word(&self) -> &'static str {
        match self {
            Answer::Pass => "pass",
            Answer::Yes => "yes",
            Answer::No(_) => "no",
        }
    }
    fn failed(_: &Failure) -> Option<Self> {
        None
    }
}

impl Point for PermissionAsk {
    const ID: PointId = PointId::PermissionAsk;
    type Event = Question;
    type Verdict = Admit;
    type Change = Never;
    type Answer = Answer;

    fn apply(_: &Question, change: Never) -> Applied<Self> {
        match change {}
    }
}
