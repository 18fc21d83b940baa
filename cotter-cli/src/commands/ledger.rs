//! `cotter ledger`: every decision of a session, and the check of its hash chain.

use std::{collections::HashMap, process::ExitCode};

use cotter::{
    history::ledger,
    text::{self, redact::Redactor},
};
use serde_json::Value;

use crate::{
    error::CliError, models::credentials::redactor, setup::sessions::Sessions,
    terminal::screen::say,
};

/// The number of characters of an input that are shown.
const INPUT_CHARS: usize = 200;

/// `cotter ledger ID`. Without an id, the last session of the folder is shown.
pub(crate) fn show(typed: Option<&str>) -> Result<ExitCode, CliError> {
    let sessions = Sessions::open()?;
    let id = sessions.find_or_last(typed)?;
    let (bytes, _) = sessions.read(&id)?;
    let records: Vec<Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let mut telling = LedgerPrinter::new(redactor());
    records.iter().for_each(|record| telling.record(record));
    if telling.out.is_empty() {
        telling.out = format!("session {id} has no run yet\n");
    }
    Ok(say(&telling.out))
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
        return Ok(say(&format!(
            "{rows} {plural} in order, the last is {last}\n\
             this is order, not proof: who can write the file can write all of it anew\n\
             keep the last hash elsewhere and give it as `--head`\n"
        )));
    };
    match hashes.iter().position(|hash| hash == head) {
        Some(index) => Ok(say(&format!(
            "{rows} {plural} in order, the last is {last}\n\
             the first {} are those that led to {head}\n",
            index + 1
        ))),
        None => {
            let head = text::clip(&text::show_line(head), 60).into_owned();
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
    /// The names of those who asked about a call, until it is decided.
    askers: HashMap<String, Vec<String>>,
    /// The answer about each call, with its source and the person's words.
    answers: HashMap<String, String>,
}

impl LedgerPrinter {
    fn new(redactor: Redactor) -> Self {
        let (hooks, askers, answers) = (HashMap::new(), HashMap::new(), HashMap::new());
        LedgerPrinter { out: String::new(), redactor, hooks, askers, answers }
    }

    fn record(&mut self, record: &Value) {
        match text_of(record, "type") {
            "run.start" => {
                let (run, at, model) =
                    (text_of(record, "runId"), text_of(record, "at"), text_of(record, "model"));
                self.line(format!("run {run} began {at} with {model}"));
            }
            "run.end" => {
                let (run, reason) = (text_of(record, "runId"), text_of(record, "reason"));
                self.line(format!("run {run} ended: {reason}, steps: {}", record["steps"]));
            }
            "generation" => self.table(record),
            "question" => self.question(record),
            "answer" => self.answer(record),
            "ledger" => self.decision(record),
            "outcome" => self.outcome(record),
            _ => {}
        }
    }

    fn table(&mut self, record: &Value) {
        let hook = |hook: &Value| {
            let (name, origin) = (text_of(hook, "name"), text_of(hook, "origin"));
            let (point, power) = (text_of(hook, "point"), text_of(hook, "power"));
            Some((hook["id"].as_u64()?, format!("{name} ({origin}, {power} at {point})")))
        };
        self.hooks = list(record, "hooks").filter_map(hook).collect();
    }

    fn question(&mut self, record: &Value) {
        for call in list(record, "calls") {
            let ask = |ask: &Value| format!("{}: {}", text_of(ask, "by"), text_of(ask, "reason"));
            let asks = list(call, "asks").map(ask).collect();
            self.askers.insert(text_of(call, "callId").into(), asks);
        }
    }

    fn answer(&mut self, record: &Value) {
        let by = text_of(record, "by");
        for decision in list(record, "decisions") {
            let words = decision["words"].as_str().map(|words| format!(", \"{words}\""));
            let said =
                format!("{} by {by}{}", text_of(decision, "answer"), words.unwrap_or_default());
            self.answers.insert(text_of(decision, "callId").into(), said);
        }
    }

    fn decision(&mut self, record: &Value) {
        let call = text_of(record, "callId");
        let (run, step, tool) =
            (text_of(record, "runId"), &record["step"], text_of(record, "tool"));
        self.line(format!("  {run}.{step} {call}: {tool} {}", clipped(&record["input"])));
        for rewrite in list(record, "rewrites") {
            let by = text_of(rewrite, "by");
            self.line(format!("    rewritten by {by}"));
            self.line(format!("      before {}", clipped(&rewrite["before"])));
            self.line(format!("      after  {}", clipped(&rewrite["after"])));
        }
        self.print_hooks(record);
        for ask in self.askers.remove(call).unwrap_or_default() {
            self.line(format!("    asked by {ask}"));
        }
        if let Some(said) = self.answers.remove(call) {
            self.line(format!("    answered {said}"));
        }
        let (verdict, by, zone) =
            (text_of(record, "verdict"), text_of(record, "by"), text_of(record, "zone"));
        let reason = record["reason"].as_str().map(|reason| format!(": {reason}"));
        let reason = reason.unwrap_or_default();
        self.line(format!("    {verdict} by {by}, zone {zone}{reason}"));
        if let Some(who) = record["approvedBy"].as_str() {
            self.line(format!("    approved by {who}"));
        }
    }

    fn outcome(&mut self, record: &Value) {
        let (call, outcome) = (text_of(record, "callId"), text_of(record, "outcome"));
        let kind = record["errorKind"].as_str().map(|kind| format!(" ({kind})"));
        let kind = kind.unwrap_or_default();
        self.line(format!("  {call} came to {outcome}{kind} in {} ms", record["ms"]));
        self.print_hooks(record);
    }

    /// Prints every hook that ran, by its name in the stored table. Gates are asked again after an answer; an
    /// equal verdict is not printed twice.
    fn print_hooks(&mut self, record: &Value) {
        let mut before: Vec<(u64, &str, &str)> = vec![];
        for ran in list(record, "ran") {
            let number = ran["hook"].as_u64().unwrap_or_default();
            let said = (number, text_of(ran, "verdict"), text_of(ran, "reason"));
            let again = before.iter().any(|(known, ..)| *known == number);
            if before.contains(&said) {
                continue;
            }
            before.push(said);
            let again = if again { "asked again: " } else { "" };
            let unknown = || format!("hook {number}");
            let name = self.hooks.get(&number).cloned().unwrap_or_else(unknown);
            let reason = ran["reason"].as_str().map(|reason| format!(": {reason}"));
            let (verdict, micros) =
                (text_of(ran, "verdict"), ran["ns"].as_f64().unwrap_or(0.0) / 1e3);
            self.line(format!(
                "    {name} {again}{verdict} in {micros:.1} µs{}",
                reason.unwrap_or_default()
            ));
        }
    }

    /// Prints one line. Names and reasons are sanitized, so that no text can look like a row.
    fn line(&mut self, line: String) {
        self.out += &text::show_line(&self.redactor.redact(&line));
        self.out.push('\n');
    }
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn clipped(input: &Value) -> String {
    text::clip(&input.to_string(), INPUT_CHARS).into_owned()
}
