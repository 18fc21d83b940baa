//! Recovery of a session after a crash: every open call gets a result, every open run an end. Nothing is
//! run again.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::session::state::SessionState,
    history::{
        entry::{Entry, EntryBody, Timestamp},
        ledger::{OutcomeRow, Record},
        message::{Message, ToolCall, ToolResultMessage, Usage},
        outcome::{EndReason, ToolErrorKind},
        store::{StoreError, StoredRecord},
    },
};

/// A run that waited for a person when its process died, and whose question can still be answered.
#[derive(Clone, Debug)]
pub(crate) struct InterruptedRun {
    pub(crate) run: SmolStr,
    pub(crate) step: u32,
    pub(crate) deadline: Timestamp,
    /// The calls of the question.
    pub(crate) asked: Vec<SmolStr>,
}

/// Closes open calls and runs, except for a question that can still be answered.
pub(crate) fn recover(
    state: &mut SessionState,
    records: &[StoredRecord],
) -> Result<(), StoreError> {
    let last = LastRun::read(records);
    state.next_run = last.number + 1;
    if last.ended {
        close_calls(state, &last);
    } else if let Some(interrupted) = last.interrupted(Timestamp::now()) {
        state.interrupted = Some(Box::new(interrupted));
        return Ok(());
    } else {
        close_inner_calls(state, &last);
        close_calls(state, &last);
        // Children end before the run that they worked for.
        for run in last.nested.iter().rev() {
            state.end_crashed(run.clone());
        }
        state.end_crashed(last.run.clone());
        state.crashed_run = Some(last.run);
    }
    state.commit_and_start_sync()
}

impl SessionState {
    /// Gives up a question that could still be answered: its calls and its run are closed.
    pub(crate) fn close_interrupted(&mut self, interrupted: &InterruptedRun) {
        let last = LastRun { run: interrupted.run.clone(), ..LastRun::default() };
        close_calls(self, &last);
        self.end_crashed(interrupted.run.clone());
    }

    fn end_crashed(&mut self, run: SmolStr) {
        let (at, reason) = (Timestamp::now(), EndReason::Crashed);
        let usage = Usage::default();
        self.record(Record::RunEnd { run, at, reason, steps: 0, usage, cost: None });
    }

    /// The calls of the last reply that have no result yet, in call order.
    pub(crate) fn open_calls(&self) -> Vec<ToolCall> {
        let Some((reply, assistant)) = self.tree.last_reply() else { return vec![] };
        if assistant.calls().next().is_none() {
            return vec![];
        }
        let after = self.tree.iter_to_root().take_while(|entry| entry.id() != reply.id());
        let answered: HashSet<_> = after
            .filter_map(|entry| match entry.message() {
                Some(Message::ToolResult(result)) => Some(result.call_id.clone()),
                _ => None,
            })
            .collect();
        assistant.calls().filter(|call| !answered.contains(&call.id)).cloned().collect()
    }

    /// Stores an error as the result of a call that will get no other result.
    pub(crate) fn close_call(
        &mut self,
        call: &ToolCall,
        kind: ToolErrorKind,
        words: &str,
    ) -> Arc<Entry> {
        let result = ToolResultMessage::new_error(call, kind, words);
        self.append(EntryBody::Message(Message::ToolResult(result)))
    }
}

/// The outcome of a call that had started when the process died.
fn unknown_outcome(run: &SmolStr, call: &SmolStr) -> Record {
    Record::Outcome(OutcomeRow {
        at: Timestamp::now(),
        run: run.clone(),
        call_id: call.clone(),
        outcome: OutcomeRow::UNKNOWN,
        error: Some(ToolErrorKind::Unavailable),
        ms: 0,
        ran: vec![],
    })
}

/// Records an unknown outcome for open calls within calls and for open calls of children. They have no
/// messages in this history.
fn close_inner_calls(state: &mut SessionState, last: &LastRun) {
    let open = state.open_calls();
    let is_models = |run: &SmolStr, call: &SmolStr| {
        *run == last.run && open.iter().any(|open| open.id == *call)
    };
    for (run, call) in
        last.calls_without_outcome.iter().rev().filter(|(run, call)| !is_models(run, call))
    {
        state.record(unknown_outcome(run, call));
    }
}

fn close_calls(state: &mut SessionState, last: &LastRun) {
    for call in state.open_calls() {
        if last.started.contains(&call.id) && !last.finished.contains(&call.id) {
            state.record(unknown_outcome(&last.run, &call.id));
            let words = "The outcome is unknown: the process ended while this call ran. \
                         It was not run again. Look before you repeat it.";
            state.close_call(&call, ToolErrorKind::Unavailable, words);
        } else if last.finished.contains(&call.id) {
            let words = "The call ran to its end, but its result was lost with the process. \
                         It was not run again.";
            state.close_call(&call, ToolErrorKind::Unavailable, words);
        } else {
            let words = "Cancelled: the process ended before this call started.";
            state.close_call(&call, ToolErrorKind::Cancelled, words);
        }
    }
}

/// The last run of a session, as its records describe it.
#[derive(Default)]
struct LastRun {
    number: u32,
    run: SmolStr,
    step: u32,
    ended: bool,
    started: Vec<SmolStr>,
    finished: Vec<SmolStr>,
    question: Option<Value>,
    answered: Vec<SmolStr>,
    /// The children's runs that have no end.
    nested: Vec<SmolStr>,
    /// Every call that had started and has no outcome, with its run.
    calls_without_outcome: Vec<(SmolStr, SmolStr)>,
}

/// True if a run is a child's.
fn is_nested(run: &str) -> bool {
    run.contains('/')
}

/// True if a question is about a handler's own call: `r1.2.1`, not a step's `r1.2`.
fn is_inner(question: &str) -> bool {
    question.matches('.').count() > 1
}

impl LastRun {
    fn read(records: &[StoredRecord]) -> Self {
        let mut last = LastRun { ended: true, ..LastRun::default() };
        let text =
            |value: &Value, key: &str| SmolStr::from(value[key].as_str().unwrap_or_default());
        let starts_one = |record: &StoredRecord| {
            record.kind() == "run.start" && !is_nested(&text(&record.json(), "runId"))
        };
        let Some(start) = records.iter().rposition(starts_one) else { return last };
        last.ended = false;
        last.run = text(&records[start].json(), "runId");
        let starts = records[..=start].iter().rev().filter(|record| starts_one(record));
        // Very large numbers are not ours and are ignored.
        let ours = |number: &u32| *number < u32::MAX / 2;
        let number = |run: SmolStr| run.strip_prefix('r')?.parse().ok().filter(ours);
        let numbers = starts.filter_map(|record| number(text(&record.json(), "runId")));
        last.number = numbers.take(1).next().unwrap_or(0);
        for record in &records[start + 1..] {
            let value = record.json();
            let run = text(&value, "runId");
            if matches!(record.kind(), "ledger" | "outcome") {
                let call = (run.clone(), text(&value, "callId"));
                last.calls_without_outcome.retain(|adrift| *adrift != call);
                if value["verdict"] == "pass" {
                    last.calls_without_outcome.push(call);
                }
            }
            match record.kind() {
                "run.start" => last.nested.push(run),
                "run.end" if is_nested(&run) => last.nested.retain(|open| *open != run),
                _ if is_nested(&run) => {}
                "run.end" => last.ended = true,
                "ledger" => {
                    last.step = value["step"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(0);
                    // Some providers reuse an id in a later step: the last row counts.
                    let call = text(&value, "callId");
                    last.finished.retain(|finished| *finished != call);
                    last.started.retain(|started| *started != call);
                    if value["verdict"] == "pass" {
                        last.started.push(call);
                    }
                }
                "outcome" => last.finished.push(text(&value, "callId")),
                "answer" => last.answered.push(text(&value, "id")),
                // A question about a tool's own call cannot be continued without the tool.
                "question" if is_inner(&text(&value, "id")) => {}
                "question" => last.question = Some(value),
                _ => {}
            }
        }
        last
    }

    fn interrupted(&self, now: Timestamp) -> Option<InterruptedRun> {
        let question = self.question.as_ref()?;
        let id = SmolStr::from(question["id"].as_str()?);
        let deadline = Timestamp::parse(question["deadline"].as_str()?)?;
        if deadline <= now || self.answered.contains(&id) {
            return None;
        }
        let calls = question["calls"].as_array()?.iter();
        let asked = calls.filter_map(|call| call["callId"].as_str().map(SmolStr::from)).collect();
        let step = question["step"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(self.step);
        Some(InterruptedRun { run: self.run.clone(), step, deadline, asked })
    }
}
