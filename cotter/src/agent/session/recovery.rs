//! Recovery of a session after a crash: every open call gets a result, every open run an end. Nothing is
//! run again.

use std::{collections::HashSet, sync::Arc};

use smol_str::SmolStr;

use crate::{
    agent::session::state::SessionState,
    history::{
        entry::{Entry, EntryBody, Timestamp},
        ledger::{OutcomeRow, Record},
        ledger_row::{Decision, LedgerRow, Question},
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
                         It was not run again. Check before you repeat it.";
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
    question: Option<Question>,
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
        let Some((start, run)) = records
            .iter()
            .enumerate()
            .rev()
            .find_map(|(index, record)| Some((index, started_run(record)?)))
        else {
            return last;
        };
        last.ended = false;
        // Very large numbers are not ours and are ignored.
        let ours = |number: &u32| *number < u32::MAX / 2;
        let number = |run: SmolStr| run.strip_prefix('r')?.parse().ok().filter(ours);
        let runs = records[..=start].iter().rev().filter_map(started_run);
        last.number = runs.filter_map(number).next().unwrap_or(0);
        last.run = run;
        records[start + 1..].iter().filter_map(StoredRecord::row).for_each(|row| last.add(row));
        last
    }

    fn add(&mut self, row: LedgerRow) {
        match row {
            LedgerRow::RunStart(start) => self.nested.push(start.run_id),
            LedgerRow::RunEnd(end) if is_nested(&end.run_id) => {
                self.nested.retain(|open| *open != end.run_id);
            }
            LedgerRow::RunEnd(_) => self.ended = true,
            LedgerRow::Decision(decision) => self.add_decision(decision),
            LedgerRow::Outcome(outcome) => {
                let call = (outcome.run_id, outcome.call_id);
                self.calls_without_outcome.retain(|open| *open != call);
                if !is_nested(&call.0) {
                    self.finished.push(call.1);
                }
            }
            LedgerRow::Answer(answer) if !is_nested(&answer.run_id) => {
                self.answered.push(answer.id)
            }
            // A question about a tool's own call cannot be continued without the tool.
            LedgerRow::Question(question)
                if !is_nested(&question.run_id) && !is_inner(&question.id) =>
            {
                self.question = Some(question);
            }
            _ => {}
        }
    }

    fn add_decision(&mut self, decision: Decision) {
        let call = (decision.run_id, decision.call_id);
        let has_started = decision.verdict == "pass";
        self.calls_without_outcome.retain(|open| *open != call);
        if has_started {
            self.calls_without_outcome.push(call.clone());
        }
        let (run, call) = call;
        if is_nested(&run) {
            return;
        }
        self.step = decision.step.unwrap_or(0);
        // Some providers reuse an id in a later step: the last row counts.
        self.finished.retain(|finished| *finished != call);
        self.started.retain(|started| *started != call);
        if has_started {
            self.started.push(call);
        }
    }

    fn interrupted(&self, now: Timestamp) -> Option<InterruptedRun> {
        let question = self.question.as_ref().filter(|question| !question.id.is_empty())?;
        let deadline = Timestamp::parse(&question.deadline)?;
        if deadline <= now || self.answered.contains(&question.id) {
            return None;
        }
        let asked = question.calls.iter().map(|call| call.call_id.clone()).collect();
        let step = question.step.unwrap_or(self.step);
        Some(InterruptedRun { run: self.run.clone(), step, deadline, asked })
    }
}

/// The run that a record begins, if it is not a child's.
fn started_run(record: &StoredRecord) -> Option<SmolStr> {
    if record.kind() != "run.start" {
        return None;
    }
    match record.row()? {
        LedgerRow::RunStart(start) if !is_nested(&start.run_id) => Some(start.run_id),
        _ => None,
    }
}
