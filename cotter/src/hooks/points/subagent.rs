//! `subagent.start` and `subagent.end`: around the work of a subagent.

use serde::Serialize;
use smol_str::SmolStr;

use crate::hooks::points::{
    Admission, NoAnswer, Point, PointId, TransformEffect, session::observed,
};

/// Fires before a subagent works. Gates answer with [`Admission`].
#[derive(Clone, Copy, Debug)]
pub struct SubagentStart;

/// A subagent about to work.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubagentStartEvent {
    /// The call that asks for it.
    pub call_id: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// All it will know of the conversation.
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

/// Fires after a subagent worked, however it ended.
#[derive(Clone, Copy, Debug)]
pub struct SubagentEnd;

/// A subagent that is done.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubagentEndEvent {
    /// The call that asked for it.
    pub call_id: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// `success` or `error`.
    pub status: &'static str,
    /// What it said, or why it failed.
    pub text: String,
}

observed!(SubagentEnd, SubagentEndEvent);
