//! Hooks round one call, asked outside a run: nothing is decided for good and nothing runs.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    agent::step_cx::StepCx,
    history::{message::ToolCall, outcome::ToolOutcome},
    hooks::points::{
        ChainStop, RankedAnswer,
        tool_post::{ToolPost, ToolPostEvent},
        tool_pre::{ToolPre, ToolPreEvent},
    },
};
use crate::{model::tools::ToolOutput, permission::facts::Facts};

/// What the hooks before a tool said about a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PreCheckReport {
    /// `pass`, `ask`, `block`, or `answer` where a hook would answer in the tool's stead.
    pub verdict: &'static str,
    /// The hook that decided, where one did.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The input as it would run.
    pub input: Value,
}

/// Fires `tool.pre` at the hooks that match the tool, which need not exist.
pub(crate) async fn run_pre(scene: &StepCx, call: ToolCall) -> PreCheckReport {
    let chain = scene.generation().chain::<ToolPre>().filtered(|meta| meta.matches(&call.name));
    let event = Arc::new(ToolPreEvent {
        call_id: call.id,
        tool_name: call.name,
        tool_input: call.input,
        facts: Arc::new(Facts::unknown()),
    });
    let decided = scene.fire_on(&chain, event).await;
    let input = Value::clone(&decided.event.tool_input);
    let said = match &decided.stop {
        Some((meta, ChainStop::Block(reason))) => Some((meta, "block", Some(reason.clone()))),
        Some((meta, ChainStop::Answer(_))) => Some((meta, "answer", None)),
        None => decided
            .strictest()
            .map(|(meta, verdict)| (meta, verdict.word(), verdict.reason().map(str::to_owned))),
    };
    match said {
        None => PreCheckReport { verdict: "pass", by: None, reason: None, input },
        Some((meta, verdict, reason)) => {
            PreCheckReport { verdict, by: Some(meta.name.to_string()), reason, input }
        }
    }
}

/// Fires `tool.post` at the hooks that match the tool; gives the result as they left it.
pub(crate) async fn run_post(scene: &StepCx, call: ToolCall, result: &str) -> String {
    let chain = scene.generation().chain::<ToolPost>().filtered(|meta| meta.matches(&call.name));
    let event = Arc::new(ToolPostEvent {
        call_id: call.id,
        tool_name: call.name,
        tool_input: call.input,
        original_input: None,
        facts: Arc::new(Facts::unknown()),
        result: result.into(),
        is_error: false,
        outcome: ToolOutcome::Ok,
        duration_ms: 0,
        output: Arc::new(Ok(ToolOutput::from(result))),
    });
    scene.fire_on(&chain, event).await.event.result.to_string()
}
