//! Runs calls that are decided, and turns each into its result. Permits are made only here.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::{FutureExt, StreamExt, stream};
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::{
    agent::step_cx::StepCx,
    history::{
        entry::{EntryBody, Timestamp},
        ledger::{DecisionRow, HandlerRun, OutcomeRow, Record},
        line_format::is_too_deep,
        message::{Content, Message, ToolCall, ToolResultMessage},
        outcome::{ToolErrorKind, ToolOutcome},
        store::StoreError,
    },
    hooks::{
        events::EventKind,
        points::{
            PointId,
            tool_post::{ToolPost, ToolPostEvent},
            tool_refused::ToolRefusedEvent,
        },
    },
    model::tools::{ToolError, ToolOutput},
    pipeline::decide::{CallDecision, CallState, recheck},
    registry::generation::ToolEntry,
    tool::{
        cap::Cap,
        permit::{Permit, make_tool_cx},
    },
};

/// The greatest number of calls of one step that run at the same time.
const MAX_PARALLEL_CALLS: usize = 32;

/// Stores a result for every open call, so that every call has exactly one result.
pub(crate) fn close_open_calls(step_cx: &StepCx) {
    // Providers reject a call without a result.
    let open = step_cx.state().open_calls();
    for call in open {
        let is_running = step_cx.state().is_call_running(&call.id);
        let (kind, message) = if is_running {
            let message = "The outcome is unknown: the run failed while this call ran. \
                         Check before you repeat it.";
            (ToolErrorKind::Unavailable, message)
        } else {
            (ToolErrorKind::Cancelled, "Cancelled: the run ended before this call started.")
        };
        step_cx.close_call(&call, kind, message);
    }
}

/// True if a call may run in parallel with others of its step.
pub(crate) fn may_run_in_parallel(decision: &CallDecision) -> bool {
    match (&decision.state, &decision.row, &decision.answer) {
        // A tool that panics here runs alone.
        (CallState::Pass, Some(entry), None) => {
            catch_unwind(AssertUnwindSafe(|| entry.tool.parallel())).unwrap_or(false)
        }
        _ => true,
    }
}

/// Runs calls in parallel. Returns their results in call order, and the first error of storing or
/// reporting.
pub(crate) async fn run_segment(
    step_cx: &StepCx,
    mut decisions: Vec<CallDecision>,
) -> Result<(Vec<ToolResultMessage>, Result<(), StoreError>), StoreError> {
    for decision in &mut decisions {
        recheck_until_stable(decision, step_cx).await;
        store_decision(step_cx, build_row(decision, step_cx));
    }
    let has_effects = |decision: &CallDecision| decision.runs() && decision.facts.has_effects();
    if decisions.iter().any(has_effects) {
        let syncing = step_cx.state().commit_synced()?;
        syncing.await?;
    } else {
        step_cx.state().commit()?;
    }
    let running = decisions
        .iter()
        .filter(|decision| decision.runs())
        .map(|decision| decision.call.id.clone());
    step_cx.state().mark_calls_running(running);
    if decisions.len() == 1 {
        let decision = decisions.remove(0);
        let (result, stored) = finish(step_cx, decision).await.store(step_cx);
        return Ok((vec![result], stored));
    }
    let mut results: Vec<Option<ToolResultMessage>> = decisions.iter().map(|_| None).collect();
    let futures = decisions.into_iter().enumerate();
    let futures: Vec<_> = futures
        .map(|(index, decision)| async move { (index, finish(step_cx, decision).await) })
        .collect();
    let mut finished_calls = stream::iter(futures).buffer_unordered(MAX_PARALLEL_CALLS);
    let mut stored = Ok(());
    while let Some((index, finished)) = finished_calls.next().await {
        let (result, this_stored) = finished.store(step_cx);
        results[index] = Some(result);
        stored = stored.and(this_stored);
    }
    Ok((results.into_iter().flatten().collect(), stored))
}

/// Stores a result as a message, and reports it to the listeners.
pub(crate) fn store_result(step_cx: &StepCx, result: ToolResultMessage) -> Result<(), StoreError> {
    let entry = step_cx.state().append(EntryBody::Message(Message::ToolResult(result)));
    step_cx.commit_and_emit(|| EventKind::Message { entry })
}

impl CallDecision {
    /// True if the tool will run.
    fn runs(&self) -> bool {
        matches!(self.state, CallState::Pass) && self.answer.is_none()
    }
}

/// Checks a passed call again until nothing changes: an abort or a stricter registry may refuse it.
async fn recheck_until_stable(decision: &mut CallDecision, step_cx: &StepCx) {
    while matches!(decision.state, CallState::Pass) {
        if step_cx.is_cancelled() {
            *decision = CallDecision::cancelled(decision.call.clone());
        } else if step_cx.agent().live().number() != decision.generation
            || has_new_secret(decision, step_cx)
        {
            recheck(decision, &step_cx.with_newest_view()).await;
        } else {
            return;
        }
    }
}

/// True if another call has read a secret since this call was decided.
fn has_new_secret(decision: &CallDecision, step_cx: &StepCx) -> bool {
    decision.facts.has_effects() && !decision.after_secret && step_cx.cx.has_read_secret()
}

/// Builds the ledger row of a call: the decision and, if it passed, the start.
fn build_row(decision: &mut CallDecision, step_cx: &StepCx) -> Box<DecisionRow> {
    let (verdict, reason) = match &decision.state {
        CallState::Refused { reason, .. } => ("block", Some(reason.clone())),
        _ if decision.answer.is_some() => ("answer", None),
        _ => ("pass", None),
    };
    Box::new(DecisionRow {
        at: Timestamp::now(),
        run: step_cx.run_id().clone(),
        step: step_cx.cx.step(),
        call_id: decision.call.id.clone(),
        tool: decision.call.name.clone(),
        input: decision.input.clone(),
        generation: step_cx.generation().number,
        parent_call_id: step_cx.parent_call_id(),
        verdict,
        by: decision.decided_by.clone(),
        reason,
        approved_by: decision.approved_by.clone(),
        zone: decision.facts.zone.as_str(),
        rewrites: decision.rewrites.clone(),
        ran: std::mem::take(&mut decision.hook_runs),
    })
}

/// Stages a ledger row.
fn store_decision(step_cx: &StepCx, row: Box<DecisionRow>) {
    if !row.ran.is_empty() {
        step_cx.stage_hook_tables();
    }
    step_cx.state().record(Record::Ledger(row));
}

/// A call that has ended.
struct FinishedCall {
    call: ToolCall,
    end: CallEnd,
    result: ToolResultMessage,
    ran: Vec<HandlerRun>,
    /// The second row of a call that was refused after its first row was stored.
    refusal_row: Option<Box<DecisionRow>>,
}

enum CallEnd {
    Ran { outcome: ToolOutcome, ms: u64 },
    Refused { by: SmolStr, reason: String },
    Answered,
}

impl FinishedCall {
    /// Stores the outcome and reports it; the result follows in call order.
    fn store(self, step_cx: &StepCx) -> (ToolResultMessage, Result<(), StoreError>) {
        let FinishedCall { call, end, result, ran, refusal_row } = self;
        if let Some(row) = refusal_row {
            store_decision(step_cx, row);
        }
        let (call_id, name) = (call.id, call.name);
        let error = result.error;
        let stored = match end {
            CallEnd::Ran { outcome, ms } => {
                let run = step_cx.run_id().clone();
                step_cx.state().record(Record::Outcome(OutcomeRow {
                    at: Timestamp::now(),
                    run,
                    call_id: call_id.clone(),
                    outcome: OutcomeRow::word(outcome),
                    error,
                    ms,
                    ran,
                }));
                let output = || result.content.text().as_ref().into();
                step_cx.commit_and_emit(|| EventKind::ToolResult {
                    call_id,
                    name,
                    output: output(),
                    error,
                    ms,
                })
            }
            CallEnd::Refused { by, reason } => {
                step_cx.commit_and_emit(|| EventKind::ToolRefused { call_id, name, by, reason })
            }
            CallEnd::Answered => {
                let output = || result.content.text().as_ref().into();
                let ms = 0;
                step_cx.commit_and_emit(|| EventKind::ToolResult {
                    call_id,
                    name,
                    output: output(),
                    error,
                    ms,
                })
            }
        };
        (result, stored)
    }
}

/// Runs a call that passed; builds the result of a refused one.
async fn finish(step_cx: &StepCx, mut decision: CallDecision) -> FinishedCall {
    let passed = matches!(decision.state, CallState::Pass);
    recheck_until_stable(&mut decision, step_cx).await;
    let refused = matches!(decision.state, CallState::Refused { .. });
    let refusal_row = (passed && refused).then(|| build_row(&mut decision, step_cx));
    let cap = step_cx.agent().cap(&step_cx.cx);
    let CallDecision { call, row, input, facts, state, decided_by, rewrites, answer, .. } =
        decision;
    if let CallState::Refused { kind, reason, words } = state {
        let refused = refuse(step_cx, call, row, input, decided_by, (kind, reason, words)).await;
        return FinishedCall { refusal_row, ..refused };
    }
    let Some(entry) = row else {
        let message = "The tool no longer exists.".to_owned();
        let refusal = (ToolErrorKind::NotFound, message.clone(), message);
        return refuse(step_cx, call, None, input, decided_by, refusal).await;
    };
    if let Some(output) = answer {
        let result = result_of(&call, Ok(output), &cap);
        let end = CallEnd::Answered;
        return FinishedCall { call, end, result, ran: vec![], refusal_row };
    }
    if step_cx.has_listeners() {
        let (call_id, name) = (call.id.clone(), call.name.clone());
        step_cx.emit(EventKind::ToolCall { call_id, name, input: input.clone() });
    }
    let (owner, cx) = (&entry.owner, step_cx.cx.clone());
    let permit = Permit::after_ledger_row(&call, input.clone(), facts.clone(), owner, cx);
    let started = Instant::now();
    let output = run_tool(&entry, permit, step_cx).await;
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let original = rewrites.first().map(|(_, before, _)| before.clone());
    let outcome =
        output.as_ref().map_or_else(|error| ToolOutcome::of(error.kind), |_| ToolOutcome::Ok);
    let end = CallEnd::Ran { outcome, ms };
    if entry.post.is_empty() {
        let result = result_of(&call, output, &cap);
        return FinishedCall { call, end, result, ran: vec![], refusal_row };
    }
    let event = Arc::new(ToolPostEvent {
        call_id: call.id.clone(),
        tool_name: call.name.clone(),
        tool_input: input,
        original_input: original,
        facts,
        result: text_of(&output),
        is_error: output.is_err(),
        outcome,
        duration_ms: ms,
        output: Arc::new(output),
    });
    let post = step_cx.fire_on::<ToolPost>(&entry.post, event).await;
    notify_tool_settled(&entry, &call, &post.event, step_cx).await;
    let output = Result::clone(&post.event.output);
    let result = result_of(&call, output, &cap);
    FinishedCall { call, end, result, ran: post.ran, refusal_row }
}

/// Runs the tool. A panic is an error of the tool; an abort drops it.
async fn run_tool(
    entry: &ToolEntry,
    permit: Permit,
    step_cx: &StepCx,
) -> Result<ToolOutput, ToolError> {
    let work = AssertUnwindSafe(async { entry.tool.run(permit).await }).catch_unwind();
    tokio::select! {
        biased;
        done = work => done.unwrap_or_else(|panic| {
            let message = crate::hooks::dispatch::panic_message(&*panic);
            Err(ToolError::failed(format!("the tool panicked: {message}")))
        }),
        () = step_cx.cx.run.cancel.cancelled() => {
            Err(ToolError::new(ToolErrorKind::Cancelled, "Cancelled while it ran."))
        }
    }
}

/// Notifies the tool that the hooks at `tool.post` are done; they may have changed its files. A panic is
/// ignored.
async fn notify_tool_settled(
    entry: &ToolEntry,
    call: &ToolCall,
    event: &ToolPostEvent,
    step_cx: &StepCx,
) {
    let cx = make_tool_cx(call, &entry.owner, &step_cx.cx);
    let settling = async { entry.tool.after_hooks(event, &cx).await };
    let _ = AssertUnwindSafe(settling).catch_unwind().await;
}

async fn refuse(
    step_cx: &StepCx,
    call: ToolCall,
    entry: Option<Arc<ToolEntry>>,
    tool_input: Arc<serde_json::Value>,
    by: SmolStr,
    (kind, reason, message): (ToolErrorKind, String, String),
) -> FinishedCall {
    if step_cx.generation().has(PointId::ToolRefused) {
        let event = Arc::new(ToolRefusedEvent {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            tool_input,
            by: by.clone(),
            reason: reason.clone(),
        });
        let chain = step_cx.generation().chain::<crate::hooks::points::tool_refused::ToolRefused>();
        let outcome = match entry {
            Some(entry) => step_cx.fire_on(&entry.refused, event).await,
            None => step_cx.fire_on(&chain.filtered(|meta| meta.matches(&call.name)), event).await,
        };
        step_cx.stage_hook_runs(PointId::ToolRefused, Some(&call.id), outcome.ran);
    }
    let result = ToolResultMessage {
        call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: Content::Text(crate::text::tags::escape(&message)),
        error: Some(kind),
        render_data: None,
    };
    FinishedCall {
        call,
        end: CallEnd::Refused { by, reason },
        result,
        ran: vec![],
        refusal_row: None,
    }
}

fn text_of(output: &Result<ToolOutput, ToolError>) -> Arc<str> {
    match output {
        Ok(output) => output.content.text().as_ref().into(),
        Err(error) => error.message.as_str().into(),
    }
}

fn result_of(
    call: &ToolCall,
    output: Result<ToolOutput, ToolError>,
    cap: &Cap,
) -> ToolResultMessage {
    let (content, error, render_data) = match output {
        Ok(output) => (output.content, None, output.render_data),
        Err(error) => (Content::Text(error.message), Some(error.kind), None),
    };
    let content = if content.is_empty() { "(no output)".into() } else { content };
    ToolResultMessage {
        call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: cap.apply(content, &call.id),
        error,
        render_data: render_data.filter(|data| !is_too_deep(data)),
    }
}
