//! `tool.post`: a tool ran, however it ended.

use crate::history::outcome::Outcome;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::hooks::points::{Applied, Never, Point, PointId};
use crate::{
    history::tool_error_kind::ErrorKind,
    hooks::handler::Failure,
    model::tools::{Output, ToolError},
    permission::facts::Facts,
};

/// Fires after a tool that ran. Nothing can be blocked any more; transforms answer with a
/// [`ResultChange`].
#[derive(Clone, Copy, Debug)]
pub struct ToolPost;

/// A call that ran and what came of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRan {
    /// The id the model gave the call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The input that ran.
    pub tool_input: Arc<Value>,
    /// The input the model gave, where a transform changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_input: Option<Arc<Value>>,
    /// What the call touched, as its tool said.
    pub facts: Arc<Facts>,
    /// The text of the result.
    pub result: Arc<str>,
    /// Whether the tool failed.
    #[serde(rename = "is_error")]
    pub is_error: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The whole result, pictures included.
    #[serde(skip)]
    pub output: Arc<Result<Output, ToolError>>,
}

impl ToolRan {
    fn with(&self, output: Result<Output, ToolError>) -> Self {
        let (result, outcome) = match &output {
            Ok(output) => (output.content.text().into(), Outcome::Ok),
            Err(error) => (error.message.as_str().into(), Outcome::of(error.kind)),
        };
        let is_error = output.is_err();
        ToolRan { result, is_error, outcome, output: Arc::new(output), ..self.clone() }
    }
}

/// What a transform makes of a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResultChange {
    /// Leaves it as it is.
    Keep,
    /// Tells the model this instead.
    Result(Result<Output, ToolError>),
}

impl Point for ToolPost {
    const ID: PointId = PointId::ToolPost;
    type Event = ToolRan;
    type Verdict = Never;
    type Change = ResultChange;
    type Answer = Never;

    fn apply(event: &ToolRan, change: ResultChange) -> Applied<Self> {
        match change {
            ResultChange::Keep => Applied::Kept,
            ResultChange::Result(output) => Applied::Replaced(event.with(output)),
        }
    }

    fn transform_failed(event: &ToolRan, failure: &Failure) -> Applied<Self> {
        let message = format!("the tool ran, but its result is withheld: {failure}");
        Applied::Replaced(event.with(Err(ToolError::new(ErrorKind::Unavailable, message))))
    }
}
