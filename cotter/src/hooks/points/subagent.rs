//! `subagent.start` and `subagent.end`: before and after the work of a subagent.

use serde::Serialize;
use smol_str::SmolStr;

use crate::hooks::points::{
    Admission, NoAnswer, Point, PointId, TransformEffect, session::observed,
};

/// Fires before a subagent starts. Gates answer with [`Admission`].
#[derive(Clone, Copy, Debug)]
pub struct SubagentStart;

/// A subagent about to start.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubagentStartEvent {
    /// The call that starts the subagent.
    pub call_id: SmolStr,
    /// The name of the subagent.
    pub name: SmolStr,
    /// The prompt: all that the subagent sees of the conversation.
    pub prompt: String,
}

impl Point for SubagentStart {
    const ID: PointId = PointId::SubagentStart;
    type Event = SubagentStartEvent;
    type Verdict = Admission;
    type Change = NoAnswer;
    type Answer = NoAnswer;

    fn apply(_: &SubagentStartEvent, change: NoAnswer) -> TransformEffect<Self> {
        match change {}
    }
}

/// Fires after a subagent ended, with success or an error.
#[derive(Clone, Copy, Debug)]
pub struct SubagentEnd;

/// A subagent that ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubagentEndEvent {
    /// The call that started the subagent.
    pub call_id: SmolStr,
    /// The name of the subagent.
    pub name: SmolStr,
    /// The outcome: `success` or `error`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["success", "error"])))]
    pub status: &'static str,
    /// The last text of the subagent, or the reason of its failure.
    pub text: String,
}

observed!(SubagentEnd, SubagentEndEvent);
