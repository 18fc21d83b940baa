//! A call that a handler makes: it takes the same path as the model's calls, within the call that it is
//! made from.

use std::sync::Arc;

use serde_json::Value;
use smol_str::format_smolstr;

use crate::{
    agent::{
        child::{MAX_DEPTH, depth},
        controls::Controls,
        cx::Cx,
        step_cx::StepCx,
    },
    history::{message::ToolCall, outcome::ToolErrorKind, store::StoreError},
    hooks::notes::NoteAuthor,
    model::tools::{ToolError, ToolOutput},
    pipeline::{
        decide::{CallDecision, prepare},
        execute::run_segment,
        question::ask_about_step,
    },
    registry::tool_set::ToolSet,
};

impl Controls {
    /// Calls a tool. The call goes through scope, schema, floor, gates and ledger like the model's own. It is
    /// part of the call or hook that makes it. Hooks of the same owner are not asked.
    pub async fn run_tool(&self, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let _paused = self.cx().pause();
        run_nested(self.cx(), name, input).await
    }
}

/// Takes one call through the pipeline. The result goes to the caller and is no part of the conversation.
async fn run_nested(cx: &Cx, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
    if depth(cx) >= MAX_DEPTH {
        let message = format!("calls are nested too deep (the limit is {MAX_DEPTH})");
        return Err(ToolError::new(ToolErrorKind::Denied, message));
    }
    if cx.is_dry_run() {
        return Err(ToolError::new(ToolErrorKind::Denied, "cannot run a tool in a dry run"));
    }
    let mut step_cx = StepCx::of(cx);
    step_cx.cx.depth += 1;
    let number = cx.run.next_nested_number();
    let prefix = match &cx.author {
        NoteAuthor::Tool(call) => call.call_id.clone(),
        _ => step_cx.run_id().clone(),
    };
    let id = format_smolstr!("{prefix}/{number}");
    let call = ToolCall { id, name: name.into(), input: Arc::new(input) };
    let result = Box::pin(run_call(&step_cx, call, number)).await;
    result.unwrap_or_else(|error| Err(ToolError::failed(error.to_string())))
}

async fn run_call(
    step_cx: &StepCx,
    call: ToolCall,
    number: u32,
) -> Result<Result<ToolOutput, ToolError>, StoreError> {
    // The hooks of the calling owner are not asked about the call.
    let caller = step_cx.acting_owner();
    let tools = match (&caller, step_cx.view.tools.entry(&call.name)) {
        (Some(caller), Some(entry)) => ToolSet::new(vec![Arc::new(entry.without(caller))]),
        _ => ToolSet::new(step_cx.view.tools.entries().cloned().collect()),
    };
    let decision = prepare(step_cx, &tools, call).await;
    let mut decisions = [CallDecision { caller, ..decision }];
    let question = format_smolstr!("{}.{}.{number}", step_cx.run_id(), step_cx.cx.step());
    ask_about_step(step_cx, &mut decisions, question).await?;
    let (results, stored) = run_segment(step_cx, decisions.into()).await?;
    stored?;
    let Some(result) = results.into_iter().next() else {
        return Ok(Err(ToolError::failed("the call has no result")));
    };
    Ok(match result.error {
        None => Ok(ToolOutput { content: result.content, render_data: result.render_data }),
        Some(kind) => Err(ToolError::new(kind, result.content.text())),
    })
}
