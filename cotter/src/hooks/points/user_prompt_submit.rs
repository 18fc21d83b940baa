//! `user.prompt.submit`: a prompt is about to be stored.

use serde::Serialize;

use crate::hooks::points::{Admit, Applied, Never, Point, PointId, Stop};

/// Fires after directives, before the message is stored. Gates answer with [`Admit`], transforms
/// with a [`PromptChange`].
#[derive(Clone, Copy, Debug)]
pub struct UserPromptSubmit;

/// A prompt on its way into the session.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// The text as it would be stored.
    pub prompt: String,
    /// The text as the person gave it.
    pub raw_prompt: String,
}

/// What a transform makes of a prompt.
#[derive(Debug)]
#[non_exhaustive]
pub enum PromptChange {
    /// Leaves it as it is.
    Keep,
    /// Stores this text; the raw one is kept beside it with the handler's name.
    Prompt(String),
    /// Refuses the turn, for this reason.
    Block(String),
}

impl Point for UserPromptSubmit {
    const ID: PointId = PointId::UserPromptSubmit;
    type Event = Prompt;
    type Verdict = Admit;
    type Change = PromptChange;
    type Answer = Never;

    fn apply(event: &Prompt, change: PromptChange) -> Applied<Self> {
        match change {
            PromptChange::Keep => Applied::Kept,
            PromptChange::Prompt(prompt) => Applied::Replaced(Prompt { prompt, ..event.clone() }),
            PromptChange::Block(reason) => Applied::Stopped(Stop::Block(reason)),
        }
    }
}
