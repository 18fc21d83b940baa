//! `tool.pre`: a call is about to run. The pattern for every point with a file of its own: the
//! marker, the event, the decisions, how a transform's answer is carried out.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    hooks::points::{Applied, Never, Point, PointId, Stop},
    permission::verdict::Verdict,
};
use crate::{model::tools::Output, permission::facts::Facts};

/// Fires before a tool runs. Gates answer with a [`Verdict`], transforms with a [`CallChange`].
#[derive(Clone, Copy, Debug)]
pub struct ToolPre;

/// A call on its way to its tool, and what the floor worked out about it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled {
    /// The id the model gave the call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The input as it would run, after the transforms before this one.
    pub tool_input: Arc<Value>,
    /// What the call touches, as its tool says.
    pub facts: Arc<Facts>,
}

/// What a transform makes of a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallChange {
    /// Leaves it as it is.
    Keep,
    /// Runs it with this input instead. The tool's schema is checked again.
    Input(Value),
    /// Does not run it, for this reason.
    Block(String),
    /// Answers in the tool's stead: a cache.
    Answer(Output),
}

impl Point for ToolPre {
    const ID: PointId = PointId::ToolPre;
    type Event = ToolCalled;
    type Verdict = Verdict;
    type Change = CallChange;
    type Answer = Never;

    fn apply(event: &ToolCalled, change: CallChange) -> Applied<Self> {
        match change {
            CallChange::Keep => Applied::Kept,
            CallChange::Input(input) => {
                Applied::Replaced(ToolCalled { tool_input: Arc::new(input), ..event.clone() })
            }
            CallChange::Block(reason) => Applied::Stopped(Stop::Block(reason)),
            CallChange::Answer(output) => Applied::Stopped(Stop::Answer(output)),
        }
    }
}
