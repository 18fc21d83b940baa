//! `tool.pre`: a call is about to run. The pattern for every point with a file of its own: the
//! marker, the event, the decisions, how a transform's answer is carried out.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    hooks::points::{ChainStop, NoAnswer, Point, PointId, TransformEffect},
    model::tools::ToolOutput,
    permission::{facts::Facts, verdict::Verdict},
};

/// Fires before a tool runs. Gates answer with a [`Verdict`], transforms with a [`ToolPreChange`].
#[derive(Clone, Copy, Debug)]
pub struct ToolPre;

/// A call on its way to its tool, and what the floor worked out about it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolPreEvent {
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
pub enum ToolPreChange {
    /// Leaves it as it is.
    Keep,
    /// Runs it with this input instead. The tool's schema is checked again.
    Input(Value),
    /// Does not run it, for this reason.
    Block(String),
    /// Answers in the tool's stead: a cache.
    Answer(ToolOutput),
}

impl Point for ToolPre {
    const ID: PointId = PointId::ToolPre;
    type Event = ToolPreEvent;
    type Verdict = Verdict;
    type Change = ToolPreChange;
    type Answer = NoAnswer;

    fn apply(event: &ToolPreEvent, change: ToolPreChange) -> TransformEffect<Self> {
        match change {
            ToolPreChange::Keep => TransformEffect::Kept,
            ToolPreChange::Input(input) => TransformEffect::Replaced(ToolPreEvent {
                tool_input: Arc::new(input),
                ..event.clone()
            }),
            ToolPreChange::Block(reason) => TransformEffect::Stopped(ChainStop::Block(reason)),
            ToolPreChange::Answer(output) => TransformEffect::Stopped(ChainStop::Answer(output)),
        }
    }
}
