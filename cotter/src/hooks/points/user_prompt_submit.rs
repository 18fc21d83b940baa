//! `user.prompt.submit`: a prompt is about to be stored.

use serde::Serialize;

use crate::hooks::points::{Admission, ChainStop, NoAnswer, Point, PointId, TransformEffect};

/// Fires after directives and before the message is stored. Gates answer with [`Admission`], transforms with
/// a [`UserPromptSubmitChange`].
#[derive(Clone, Copy, Debug)]
pub struct UserPromptSubmit;

/// A prompt about to be stored in the session.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserPromptSubmitEvent {
    /// The text as it would be stored.
    pub prompt: String,
    /// The text as the person typed it.
    pub raw_prompt: String,
}

/// The answer of a transform at `user.prompt.submit`.
#[derive(Debug)]
#[non_exhaustive]
pub enum UserPromptSubmitChange {
    /// Leaves the prompt unchanged.
    Keep,
    /// Stores this text. The raw text is stored too, with the name of the handler.
    Prompt(String),
    /// Refuses the prompt, for this reason.
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
