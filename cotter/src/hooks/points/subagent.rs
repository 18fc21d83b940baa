//! `subagent.start` and `subagent.end`: around the work of a subagent.

use serde::Serialize;
use smol_str::SmolStr;

use crate::hooks::points::{Admit, Applied, Never, Point, PointId, session::observed};

/// Fires before a subagent works. Gates answer with [`Admit`].
#[derive(Clone, Copy, Debug)]
pub struct SubagentStart;

/// A subagent about to work.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubagentStarted {
    /// The call that asks for it.
    pub call_id: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// All it will know of the conversation.
    pub prompt: String,
}

impl Point for SubagentStart {
    const ID: PointId = PointId::SubagentStart;
    type Event = SubagentStarted;
    type Verdict = Admit;
    type Change = Never;
    type Answer = Never;

    fn apply(_: &SubagentStarted, change: Never) -> Applied<Self> {
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
pub struct SubagentEnded {
    /// The call that asked for it.
    pub call_id: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// `success` or `error`.
    pub status: &'static str,
    /// What it said, or why it failed.
    pub text: String,
}

observed!(SubagentEnd, SubagentEnded);
