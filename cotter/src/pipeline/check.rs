//! Hooks around one call, asked outside a run: nothing is decided and nothing runs.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    agent::{Agent, step_cx::StepCx},
    history::{message::ToolCall, outcome::ToolOutcome},
    hooks::points::{
        ChainStop, RankedAnswer,
        tool_post::{ToolPost, ToolPostEvent},
        tool_pre::{ToolPre, ToolPreEvent},
    },
    model::tools::ToolOutput,
    permission::facts::Facts,
};

/// The answers of the hooks before a tool about a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PreCheckReport {
    /// `pass`, `ask`, `block`, or `answer` if a hook would answer in place of the tool.
    pub verdict: &'static str,
    /// The hook that decided, if one did.
    pub by: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The input as it would run.
    pub input: Value,
}

/// Hooks around one call, outside a run: the `run_pre` and `run_post` of a hook manager.
impl Agent {
    /// Asks the hooks at `tool.pre` about a call. The tool need not exist. Nothing runs.
    pub async fn run_pre(&self, tool: &str, input: Value) -> PreCheckReport {
        run_pre(&self.detached_step_cx(), call(tool, input)).await
    }

    /// Shows a result to the hooks at `tool.post`. Returns the result after the hooks.
    pub async fn run_post(&self, tool: &str, input: Value, result: &str) -> String {
        run_post(&self.detached_step_cx(), call(tool, input), result).await
    }
}

fn call(tool: &str, input: Value) -> ToolCall {
    ToolCall { id: "check".into(), name: tool.into(), input: Arc::new(input) }
}

/// Fires `tool.pre` at the hooks that match the tool, which need not exist.
async fn run_pre(step_cx: &StepCx, call: ToolCall) -> PreCheckReport {
    let chain = step_cx.generation().chain::<ToolPre>().filtered(|meta| meta.matches(&call.name));
    let event = Arc::new(ToolPreEvent {
        call_id: call.id,
        tool_name: call.name,
        tool_input: call.input,
        facts: Arc::new(Facts::unknown()),
    });
    let outcome = step_cx.fire_on(&chain, event).await;
    let input = Value::clone(&outcome.event.tool_input);
    let decision = match &outcome.stop {
        Some((meta, ChainStop::Block(reason))) => Some((meta, "block", Some(reason.clone()))),
        Some((meta, ChainStop::Answer(_))) => Some((meta, "answer", None)),
        None => outcome
            .strictest()
            .map(|(meta, verdict)| (meta, verdict.word(), verdict.reason().map(str::to_owned))),
    };
    match decision {
        None => PreCheckReport { verdict: "pass", by: None, reason: None, input },
        Some((meta, verdict, reason)) => {
            PreCheckReport { verdict, by: Some(meta.name.to_string()), reason, input }
        }
    }
}

/// Fires `tool.post` at the hooks that match the tool. Returns the result after the hooks.
async fn run_post(step_cx: &StepCx, call: ToolCall, result: &str) -> String {
    let chain = step_cx.generation().chain::<ToolPost>().filtered(|meta| meta.matches(&call.name));
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
    step_cx.fire_on(&chain, event).await.event.result.to_string()
}
