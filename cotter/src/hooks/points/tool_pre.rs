//! `tool.pre`: a call is about to run. Every point with its own file has these parts: the marker, the event,
//! the answers, and the code that applies a transform's answer.

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

/// A call before its tool runs, with its facts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolPreEvent {
    /// The id that the model gave the call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The input, with the changes of earlier hooks.
    pub tool_input: Arc<Value>,
    /// The facts of the call: what it touches, as its tool states.
    pub facts: Arc<Facts>,
}

/// The answer of a transform at `tool.pre`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolPreChange {
    /// Leaves the call unchanged.
    Keep,
    /// Runs the call with this input instead. The input is checked against the tool's schema again.
    Input(Value),
    /// Blocks the call, for this reason.
    Block(String),
    /// Answers for the tool, for example from a cache. The tool does not run.
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
