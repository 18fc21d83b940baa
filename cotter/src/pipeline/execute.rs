//! Runs calls that are decided, and turns each into its result. The only place that makes permits.

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
        permit::{Permit, spoken_by_tool},
    },
};

/// The most calls of one step that run at the same time.
const SIDE_BY_SIDE: usize = 32;

/// Answers calls that were left open, so that history is always well paired.
pub(crate) fn close_open_calls(scene: &StepCx) {
    // Providers reject a call without a result.
    let open = scene.state().open_calls();
    for call in open {
        let at_work = scene.state().is_at_work(&call.id);
        let (kind, words) = if at_work {
            let words = "The outcome is unknown: the run failed while this call ran. \
                         Look before you repeat it.";
            (ToolErrorKind::Unavailable, words)
        } else {
            (ToolErrorKind::Cancelled, "Cancelled: the run ended before this call started.")
        };
        scene.close_call(&call, kind, words);
    }
}

/// True if a call may run beside others of its step.
pub(crate) fn runs_beside_others(judged: &CallDecision) -> bool {
    match (&judged.stand, &judged.row, &judged.answer) {
        // A tool that panics here runs alone.
        (CallState::Pass, Some(row), None) => {
            catch_unwind(AssertUnwindSafe(|| row.tool.parallel())).unwrap_or(false)
        }
        _ => true,
    }
}

/// Runs calls side by side. Gives their results in call order, and whether all was stored and told.
pub(crate) async fn run_segment(
    scene: &StepCx,
    mut judged: Vec<CallDecision>,
) -> Result<(Vec<ToolResultMessage>, Result<(), StoreError>), StoreError> {
    for judged in &mut judged {
        recheck_until_stable(judged, scene).await;
        store_decision(scene, decision(judged, scene));
    }
    let effects = |judged: &CallDecision| judged.runs() && judged.facts.has_effects();
    if judged.iter().any(effects) {
        let syncing = scene.state().commit_synced()?;
        syncing.await?;
    } else {
        scene.state().commit()?;
    }
    let running = judged.iter().filter(|judged| judged.runs()).map(|judged| judged.call.id.clone());
    scene.state().mark_calls_running(running);
    if judged.len() == 1 {
        let only = judged.remove(0);
        let (result, told) = finish(scene, only).await.store(scene);
        return Ok((vec![result], told));
    }
    let mut results: Vec<Option<ToolResultMessage>> = judged.iter().map(|_| None).collect();
    let works = judged.into_iter().enumerate();
    let works: Vec<_> =
        works.map(|(index, judged)| async move { (index, finish(scene, judged).await) }).collect();
    let mut done = stream::iter(works).buffer_unordered(SIDE_BY_SIDE);
    let mut told = Ok(());
    while let Some((index, finished)) = done.next().await {
        let (result, said) = finished.store(scene);
        results[index] = Some(result);
        told = told.and(said);
    }
    Ok((results.into_iter().flatten().collect(), told))
}

/// Stores a result as a message, and tells it.
pub(crate) fn store_result(scene: &StepCx, result: ToolResultMessage) -> Result<(), StoreError> {
    let entry = scene.state().append(EntryBody::Message(Message::ToolResult(result)));
    scene.tell(|| EventKind::Message { entry })
}

impl CallDecision {
    /// Whether its tool will run.
    fn runs(&self) -> bool {
        matches!(self.stand, CallState::Pass) && self.answer.is_none()
    }
}

/// A call that passed may be overtaken until it runs: by an abort, or by a registry that has become
/// stricter.
async fn recheck_until_stable(judged: &mut CallDecision, scene: &StepCx) {
    while matches!(judged.stand, CallState::Pass) {
        if scene.is_cancelled() {
            *judged = CallDecision::cancelled(judged.call.clone());
        } else if scene.agent().live().number() != judged.generation || has_learnt(judged, scene) {
            recheck(judged, &scene.newest()).await;
        } else {
            return;
        }
    }
}

/// Whether another call has read a secret since this one was decided on.
fn has_learnt(judged: &CallDecision, scene: &StepCx) -> bool {
    judged.facts.has_effects() && !judged.after_secret && scene.cx.has_read_secret()
}

/// The ledger row of a call: the decision and, where it passed, the start.
fn decision(judged: &mut CallDecision, scene: &StepCx) -> Box<DecisionRow> {
    let (verdict, reason) = match &judged.stand {
        CallState::Refused { reason, .. } => ("block", Some(reason.clone())),
        _ if judged.answer.is_some() => ("answer", None),
        _ => ("pass", None),
    };
    Box::new(DecisionRow {
        at: Timestamp::now(),
        run: scene.run_id().clone(),
        step: scene.cx.step(),
        call_id: judged.call.id.clone(),
        tool: judged.call.name.clone(),
        input: judged.input.clone(),
        generation: scene.generation().number,
        within: scene.within(),
        verdict,
        by: judged.by.clone(),
        reason,
        approved_by: judged.approved_by.clone(),
        zone: judged.facts.zone.as_str(),
        rewrites: judged.rewrites.clone(),
        ran: std::mem::take(&mut judged.ran),
    })
}

/// Stages a ledger row.
fn store_decision(scene: &StepCx, row: Box<DecisionRow>) {
    if !row.ran.is_empty() {
        scene.store_tables();
    }
    scene.state().record(Record::Ledger(row));
}

/// A call that is over.
struct FinishedCall {
    call: ToolCall,
    told: CallEnd,
    result: ToolResultMessage,
    ran: Vec<HandlerRun>,
    /// The second row of a call that was overtaken after its first was stored.
    overtaken: Option<Box<DecisionRow>>,
}

enum CallEnd {
    Ran { outcome: ToolOutcome, ms: u64 },
    Refused { by: SmolStr, reason: String },
    Answered,
}

impl FinishedCall {
    /// Stores the outcome and tells it; the result follows in call order.
    fn store(self, scene: &StepCx) -> (ToolResultMessage, Result<(), StoreError>) {
        let FinishedCall { call, told, result, ran, overtaken } = self;
        if let Some(row) = overtaken {
            store_decision(scene, row);
        }
        let (call_id, name) = (call.id, call.name);
        let error = result.error;
        let told = match told {
            CallEnd::Ran { outcome, ms } => {
                let run = scene.run_id().clone();
                scene.state().record(Record::Outcome(OutcomeRow {
                    at: Timestamp::now(),
                    run,
                    call_id: call_id.clone(),
                    outcome: OutcomeRow::word(outcome),
                    error,
                    ms,
                    ran,
                }));
                let output = || result.content.text().as_ref().into();
                scene.tell(|| EventKind::ToolResult { call_id, name, output: output(), error, ms })
            }
            CallEnd::Refused { by, reason } => {
                scene.tell(|| EventKind::ToolRefused { call_id, name, by, reason })
            }
            CallEnd::Answered => {
                let output = || result.content.text().as_ref().into();
                let ms = 0;
                scene.tell(|| EventKind::ToolResult { call_id, name, output: output(), error, ms })
            }
        };
        (result, told)
    }
}

/// Runs a call that may run; answers one that may not.
async fn finish(scene: &StepCx, mut judged: CallDecision) -> FinishedCall {
    let passed = matches!(judged.stand, CallState::Pass);
    recheck_until_stable(&mut judged, scene).await;
    let refused = matches!(judged.stand, CallState::Refused { .. });
    let overtaken = (passed && refused).then(|| decision(&mut judged, scene));
    let cap = scene.agent().cap(&scene.cx);
    let CallDecision { call, row, input, facts, stand, by, rewrites, answer, .. } = judged;
    if let CallState::Refused { kind, reason, words } = stand {
        let refused = refuse(scene, call, row, input, by, (kind, reason, words)).await;
        return FinishedCall { overtaken, ..refused };
    }
    let Some(row) = row else {
        let words = "The tool is no longer there.".to_owned();
        return refuse(
            scene,
            call,
            None,
            input,
            by,
            (ToolErrorKind::NotFound, words.clone(), words),
        )
        .await;
    };
    if let Some(output) = answer {
        let result = result_of(&call, Ok(output), &cap);
        return FinishedCall { call, told: CallEnd::Answered, result, ran: vec![], overtaken };
    }
    if scene.is_heard() {
        let (call_id, name) = (call.id.clone(), call.name.clone());
        scene.emit(EventKind::ToolCall { call_id, name, input: input.clone() });
    }
    let (owner, cx) = (&row.owner, scene.cx.clone());
    let permit = Permit::after_ledger_row(&call, input.clone(), facts.clone(), owner, cx);
    let started = Instant::now();
    let output = work(&row, permit, scene).await;
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let original = rewrites.first().map(|(_, before, _)| before.clone());
    let outcome =
        output.as_ref().map_or_else(|error| ToolOutcome::of(error.kind), |_| ToolOutcome::Ok);
    let told = CallEnd::Ran { outcome, ms };
    if row.post.is_empty() {
        let result = result_of(&call, output, &cap);
        return FinishedCall { call, told, result, ran: vec![], overtaken };
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
    let decided = scene.fire_on::<ToolPost>(&row.post, event).await;
    settle(&row, &call, &decided.event, scene).await;
    let output = Result::clone(&decided.event.output);
    let result = result_of(&call, output, &cap);
    FinishedCall { call, told, result, ran: decided.ran, overtaken }
}

/// The tool at work. A panic is its failure; an abort drops it.
async fn work(row: &ToolEntry, permit: Permit, scene: &StepCx) -> Result<ToolOutput, ToolError> {
    let work = AssertUnwindSafe(async { row.tool.run(permit).await }).catch_unwind();
    tokio::select! {
        biased;
        done = work => done.unwrap_or_else(|panic| {
            let words = crate::hooks::dispatch::panic_words(&*panic);
            Err(ToolError::failed(format!("the tool panicked: {words}")))
        }),
        () = scene.cx.run.cancel.cancelled() => {
            Err(ToolError::new(ToolErrorKind::Cancelled, "Cancelled while it ran."))
        }
    }
}

/// The tool looks after what the hooks did. A panic changes nothing.
async fn settle(row: &ToolEntry, call: &ToolCall, ran: &ToolPostEvent, scene: &StepCx) {
    let cx = spoken_by_tool(call, &row.owner, &scene.cx);
    let settling = async { row.tool.settled(ran, &cx).await };
    let _ = AssertUnwindSafe(settling).catch_unwind().await;
}

async fn refuse(
    scene: &StepCx,
    call: ToolCall,
    row: Option<Arc<ToolEntry>>,
    tool_input: Arc<serde_json::Value>,
    by: SmolStr,
    (kind, reason, words): (ToolErrorKind, String, String),
) -> FinishedCall {
    if scene.generation().has(PointId::ToolRefused) {
        let event = Arc::new(ToolRefusedEvent {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            tool_input,
            by: by.clone(),
            reason: reason.clone(),
        });
        let chain = scene.generation().chain::<crate::hooks::points::tool_refused::ToolRefused>();
        let decided = match row {
            Some(row) => scene.fire_on(&row.refused, event).await,
            None => scene.fire_on(&chain.filtered(|meta| meta.matches(&call.name)), event).await,
        };
        scene.store_ran(PointId::ToolRefused, Some(&call.id), decided.ran);
    }
    let result = ToolResultMessage {
        call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: Content::Text(crate::text::tags::escape(&words)),
        error: Some(kind),
        render_data: None,
    };
    FinishedCall {
        call,
        told: CallEnd::Refused { by, reason },
        result,
        ran: vec![],
        overtaken: None,
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
