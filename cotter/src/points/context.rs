//! `context`: messages are built for the model.

use serde::Serialize;

use super::{Applied, Never, Point, PointId};
use crate::{message::Message, messages::Messages};

/// Fires every time messages are built for a request. Transforms answer with a [`ContextChange`].
#[derive(Clone, Copy, Debug)]
pub struct Context;

/// The messages about to be sent. Cloning it copies no message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextBuild {
    /// The messages, each knowing the entry it came from.
    #[serde(skip)]
    pub messages: Messages,
}

/// What a transform makes of the messages.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContextChange {
    /// Leaves them as they are.
    Keep,
    /// Sends these instead. History is not touched.
    Messages(Messages),
}

impl ContextChange {
    /// Sends these messages instead.
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        ContextChange::Messages(messages.into_iter().collect())
    }
}

impl Point for Context {
    const ID: PointId = PointId::Context;
    type Event = ContextBuild;
    type Verdict = Never;
    type Change = ContextChange;
    type Answer = Never;

    fn apply(_: &ContextBuild, change: ContextChange) -> Applied<Self> {
        match change {
            ContextChange::Keep => Applied::Kept,
            ContextChange::Messages(messages) => Applied::Replaced(ContextBuild { messages }),
        }
    }
}
