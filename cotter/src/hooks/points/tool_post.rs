//! `tool.post`: a tool ran, with success or an error.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    history::outcome::{ToolErrorKind, ToolOutcome},
    hooks::{
        handler::HandlerFailure,
        points::{NoAnswer, Point, PointId, TransformEffect},
    },
    model::tools::{ToolError, ToolOutput},
    permission::facts::Facts,
};

/// Fires after a tool ran. The call can no longer be blocked; transforms answer with a [`ToolPostChange`].
#[derive(Clone, Copy, Debug)]
pub struct ToolPost;

/// A call that ran, and its result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolPostEvent {
    /// The id that the model gave the call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The input with which the tool ran.
    pub tool_input: Arc<Value>,
    /// The input from the model, if a hook changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Map<String, Value>>"))]
    pub original_input: Option<Arc<Value>>,
    /// The facts of the call: what it touches, as its tool states.
    pub facts: Arc<Facts>,
    /// The text of the result.
    pub result: Arc<str>,
    /// True if the tool failed.
    #[serde(rename = "is_error")]
    pub is_error: bool,
    /// The outcome of the call.
    pub outcome: ToolOutcome,
    /// The duration of the call, in milliseconds.
    pub duration_ms: u64,
    /// The whole result, pictures included.
    #[serde(skip)]
    pub output: Arc<Result<ToolOutput, ToolError>>,
}

impl ToolPostEvent {
    fn with(&self, output: Result<ToolOutput, ToolError>) -> Self {
        let (result, outcome) = match &output {
            Ok(output) => (output.content.text().into(), ToolOutcome::Ok),
            Err(error) => (error.message.as_str().into(), ToolOutcome::of(error.kind)),
        };
        let is_error = output.is_err();
        ToolPostEvent { result, is_error, outcome, output: Arc::new(output), ..self.clone() }
    }
}

/// The answer of a transform at `tool.post`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolPostChange {
    /// Leaves the result unchanged.
    Keep,
    /// Gives the model this result instead.
    Result(Result<ToolOutput, ToolError>),
}

impl Point for ToolPost {
    const ID: PointId = PointId::ToolPost;
    type Event = ToolPostEvent;
    type Verdict = NoAnswer;
    type Change = ToolPostChange;
    type Answer = NoAnswer;

    fn apply(event: &ToolPostEvent, change: ToolPostChange) -> TransformEffect<Self> {
        match change {
            ToolPostChange::Keep => TransformEffect::Kept,
            ToolPostChange::Result(output) => TransformEffect::Replaced(event.with(output)),
        }
    }

    fn transform_failed(event: &ToolPostEvent, failure: &HandlerFailure) -> TransformEffect<Self> {
        let message = format!("the tool ran, but its result is withheld: {failure}");
        TransformEffect::Replaced(
            event.with(Err(ToolError::new(ToolErrorKind::Unavailable, message))),
        )
    }
}
