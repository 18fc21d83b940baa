//! `cotter ledger`: every decision of a session, and the check of its hash chain.

use std::{collections::HashMap, process::ExitCode};

use cotter::{
    history::{
        ledger,
        ledger_row::{
            Answer, AnswerEntry, AskEntry, Decision, HandlerEntry, HookEntry, LedgerRow, Outcome,
            RunEnd, RunStart,
        },
    },
    text::{self, redact::Redactor},
};
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    error::CliError, models::credentials::redactor, setup::sessions::Sessions,
    terminal::screen::print_stdout,
};

/// The number of characters of an input that are shown.
const INPUT_CHARS: usize = 200;

/// `cotter ledger ID`. Without an id, the last session of the folder is shown.
pub(crate) fn show(typed: Option<&str>) -> Result<ExitCode, CliError> {
    let sessions = Sessions::open()?;
    let id = sessions.find_or_last(typed)?;
    let (bytes, _) = sessions.read(&id)?;
    let mut printer = LedgerPrinter::new(redactor());
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(LedgerRow::parse)
        .for_each(|row| printer.row(row));
    if printer.out.is_empty() {
        printer.out = format!("session {id} has no run yet\n");
    }
    Ok(print_stdout(&printer.out))
}

/// `cotter ledger ID verify`.
pub(crate) fn verify(typed: Option<&str>, head: Option<&str>) -> Result<ExitCode, CliError> {
    let sessions = Sessions::open()?;
    let id = sessions.find_or_last(typed)?;
    let (bytes, _) = sessions.read(&id)?;
    let lines = || bytes.split(|byte| *byte == b'\n');
    let rows = ledger::verify(&id, lines()).map_err(|line| {
        let path = sessions.store.path(&id).map(|path| path.display().to_string());
        let path = path.unwrap_or_else(|_| id.to_string());
        CliError::new(format!("{path}:{line}: this row does not follow the one before it"))
            .with_hint("a row was changed, taken out or put in; those before it are in order")
    })?;
    let hashes: Vec<String> = lines().filter_map(hash_of).collect();
    let last = hashes.last().map_or("none", String::as_str);
    let plural = if rows == 1 { "row" } else { "rows" };
    let Some(head) = head else {
        return Ok(print_stdout(&format!(
            "{rows} {plural} in order, the last is {last}\n\
             this is order, not proof: who can write the file can write all of it anew\n\
             keep the last hash elsewhere and give it as `--head`\n"
        )));
    };
    match hashes.iter().position(|hash| hash == head) {
        Some(index) => Ok(print_stdout(&format!(
            "{rows} {plural} in order, the last is {last}\n\
             the first {} are those that led to {head}\n",
            index + 1
        ))),
        None => {
            let head = text::cut_chars(&text::show_line(head), 60).into_owned();
            Err(CliError::new(format!("no row of this ledger has the hash {head}"))
                .with_hint("the rows are in order, but they are not those the hash was taken of"))
        }
    }
}

/// Returns the hash of a ledger row. An entry of the conversation has a parent id, and its fields prove
/// nothing.
fn hash_of(line: &[u8]) -> Option<String> {
    let row: Value = serde_json::from_slice(line).ok()?;
    let hash = row["hash"].as_str().filter(|_| row.get("parentId").is_none())?;
    Some(hash.to_owned())
}

/// Renders the ledger as text, row by row.
struct LedgerPrinter {
    out: String,
    redactor: Redactor,
    /// The hooks of the last stored table, by number.
    hooks: HashMap<u64, String>,
    /// The reasons to ask about a call, until it is decided.
    asks: HashMap<SmolStr, Vec<AskEntry>>,
    /// The answer about each call, with its source and the person's words.
    answers: HashMap<SmolStr, String>,
}

impl LedgerPrinter {
    fn new(redactor: Redactor) -> Self {
        let (hooks, asks, answers) = (HashMap::new(), HashMap::new(), HashMap::new());
        LedgerPrinter { out: String::new(), redactor, hooks, asks, answers }
    }

    fn row(&mut self, row: LedgerRow) {
        match row {
            LedgerRow::RunStart(RunStart { run_id, at, model, .. }) => {
                self.line(format!("run {run_id} began {at} with {model}"));
            }
            LedgerRow::RunEnd(RunEnd { run_id, reason, steps, .. }) => {
                self.line(format!("run {run_id} ended: {reason}, steps: {steps}"));
            }
            LedgerRow::Generation(generation) => {
                let hooks = generation.hooks.iter().map(|hook| (hook.id, describe_hook(hook)));
                self.hooks = hooks.collect();
            }
            LedgerRow::Question(question) => {
                let calls = question.calls.into_iter();
                self.asks.extend(calls.map(|call| (call.call_id, call.asks)));
            }
            LedgerRow::Answer(Answer { by, decisions, .. }) => {
                for AnswerEntry { call_id, answer, words, .. } in decisions {
                    let words = words.map(|words| format!(", \"{words}\"")).unwrap_or_default();
                    self.answers.insert(call_id, format!("{answer} by {by}{words}"));
                }
            }
            LedgerRow::Decision(decision) => self.decision(&decision),
            LedgerRow::Outcome(outcome) => self.outcome(&outcome),
            _ => {}
        }
    }

    fn decision(&mut self, row: &Decision) {
        let Decision { run_id, step, call_id, tool, verdict, by, zone, .. } = row;
        let step = step.unwrap_or_default();
        self.line(format!("  {run_id}.{step} {call_id}: {tool} {}", clipped(&row.input)));
        for rewrite in &row.rewrites {
            self.line(format!("    rewritten by {}", rewrite.by));
            self.line(format!("      before {}", clipped(&rewrite.before)));
            self.line(format!("      after  {}", clipped(&rewrite.after)));
        }
        self.print_hooks(&row.ran);
        for ask in self.asks.remove(call_id).unwrap_or_default() {
            self.line(format!("    asked by {}: {}", ask.by, ask.reason));
        }
        if let Some(answer) = self.answers.remove(call_id) {
            self.line(format!("    answered {answer}"));
        }
        let reason = after_colon(row.reason.as_deref());
        self.line(format!("    {verdict} by {by}, zone {zone}{reason}"));
        if let Some(approver) = &row.approved_by {
            self.line(format!("    approved by {approver}"));
        }
    }

    fn outcome(&mut self, row: &Outcome) {
        let Outcome { call_id, outcome, ms, .. } = row;
        let kind = row.error_kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        self.line(format!("  {call_id} came to {outcome}{kind} in {ms} ms"));
        self.print_hooks(&row.ran);
    }

    /// Prints every hook that ran, by its name in the stored table. Gates are asked again after an answer; an
    /// equal verdict is not printed twice.
    fn print_hooks(&mut self, runs: &[HandlerEntry]) {
        for (index, run) in runs.iter().enumerate() {
            let earlier = || runs[..index].iter().filter(|earlier| earlier.hook == run.hook);
            if earlier().any(|same| (&same.verdict, &same.reason) == (&run.verdict, &run.reason)) {
                continue;
            }
            let again = if earlier().next().is_some() { "asked again: " } else { "" };
            let unknown = || format!("hook {}", run.hook);
            let name = self.hooks.get(&run.hook).cloned().unwrap_or_else(unknown);
            let (verdict, micros) = (&run.verdict, run.ns as f64 / 1e3);
            let reason = after_colon(run.reason.as_deref());
            self.line(format!("    {name} {again}{verdict} in {micros:.1} µs{reason}"));
        }
    }

    /// Prints one line. Names and reasons are sanitized, so that no text can look like a row.
    fn line(&mut self, line: String) {
        self.out += &text::show_line(&self.redactor.redact(&line));
        self.out.push('\n');
    }
}

fn describe_hook(hook: &HookEntry) -> String {
    format!("{} ({}, {} at {})", hook.name, hook.origin, hook.power, hook.point)
}

fn after_colon(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

fn clipped(input: &Value) -> String {
    text::cut_chars(&input.to_string(), INPUT_CHARS).into_owned()
}
