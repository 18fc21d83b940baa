//! `user.prompt.submit`: a prompt is about to be stored.

use serde::Serialize;

use crate::hooks::points::{Admission, ChainStop, NoAnswer, Point, PointId, TransformEffect};

/// Fires after directives, before the message is stored. Gates answer with [`Admission`], transforms
/// with a [`UserPromptSubmitChange`].
#[derive(Clone, Copy, Debug)]
pub struct UserPromptSubmit;

/// A prompt on its way into the session.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserPromptSubmitEvent {
    /// The text as it would be stored.
    pub prompt: String,
    /// The text as the person gave it.
    pub raw_prompt: String,
}

/// What a transform makes of a prompt.
#[derive(Debug)]
#[non_exhaustive]
pub enum UserPromptSubmitChange {
    /// Leaves it as it is.
    Keep,
    /// Stores this text; the raw one is kept beside it with the handler's name.
    Prompt(String),
    /// Refuses the turn, for this reason.
    Block(String),
}

impl Point for UserPromptSubmit {
    const ID: PointId = PointId::UserPromptSubmit;
    type Event = UserPromptSubmitEvent;
    type Verdict = Admission;
    type Change = UserPromptSubmitChange;
    type Answer = NoAnswer;

    fn apply(
        event: &UserPromptSubmitEvent,
        change: UserPromptSubmitChange,
    ) -> TransformEffect<Self> {
        match change {
            UserPromptSubmitChange::Keep => TransformEffect::Kept,
            UserPromptSubmitChange::Prompt(prompt) => {
                TransformEffect::Replaced(UserPromptSubmitEvent { prompt, ..event.clone() })
            }
            UserPromptSubmitChange::Block(reason) => {
                TransformEffect::Stopped(ChainStop::Block(reason))
            }
        }
    }
}
