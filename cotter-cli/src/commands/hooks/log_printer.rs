//! Renders the records of a session as a line per hook.

use std::{collections::HashMap, sync::Arc};

use cotter::{
    history::ledger_row::{
        Decision, Generation, HandlerEntry, HookEntry, HooksRan, LedgerRow, Outcome, RunStart,
    },
    permission::tool_glob,
    text::{self, redact::Redactor},
};
use serde_json::{Map, Value, json};
use smol_str::{SmolStr, format_smolstr};

use crate::{args::HooksLogArgs, models::credentials::redactor, terminal::style::Style};

/// The maximum number of hook tables in memory. A call may belong to an older table than the last.
const MAX_TABLES: usize = 16;

/// The verdict of a hook whose failure passes.
const FAILED: &str = "failed_passed";

/// The renderer of one session's log.
#[derive(Clone)]
pub(crate) struct HookLogPrinter {
    /// True if hooks of the program itself are shown too.
    all: bool,
    json: bool,
    style: Style,
    redactor: Redactor,
    session: String,
    /// True if the name of the session was printed.
    is_named: bool,
    /// The tables of hooks, by generation, and the number of the last.
    tables: HashMap<u64, Arc<Vec<LoggedHook>>>,
    last: u64,
    /// The calls in progress: step, tool and generation.
    calls: HashMap<SmolStr, (Option<u32>, SmolStr, u64)>,
    /// The header of a run that began, until a line of it is printed.
    pending_run: Option<String>,
    out: String,
}

/// A hook of a table, with the ids of all its powers.
#[derive(Clone)]
struct LoggedHook {
    ids: Vec<u64>,
    name: SmolStr,
    origin: SmolStr,
    point: SmolStr,
    power: SmolStr,
    judges: bool,
    tools: Option<Vec<String>>,
    enabled: bool,
    is_async: bool,
}

impl LoggedHook {
    /// True if the hook comes from a file, not from the program.
    fn is_loaded(&self) -> bool {
        !matches!(self.origin.as_str(), "kernel" | "embedder")
    }
}

/// The point and call at which hooks ran.
struct HookMoment<'a> {
    run_id: &'a str,
    at: &'a str,
    step: Option<u32>,
    point: &'a str,
    tool: Option<&'a str>,
    generation: u64,
    /// The hook, rule, zone or mode that decided the call; empty at other points.
    decided_by: &'a str,
    /// True if hooks after the one that blocked did not run.
    is_blocked: bool,
}

/// A row about one hook.
struct HookLogRow<'a> {
    hook: &'a LoggedHook,
    matched: bool,
    verdict: &'a str,
    /// True if the hook was asked about the same call before. Gates are asked again after an answer.
    is_repeated: bool,
    /// The reason why the hook did not run.
    why_not: Option<String>,
    ms: f64,
    reason: Option<&'a str>,
    stderr: Option<&'a str>,
}

impl HookLogPrinter {
    pub(crate) fn new(args: &HooksLogArgs, style: Style) -> Self {
        HookLogPrinter {
            all: args.all,
            json: args.json,
            style,
            redactor: redactor(),
            session: String::new(),
            is_named: false,
            tables: HashMap::new(),
            last: 0,
            calls: HashMap::new(),
            pending_run: None,
            out: String::new(),
        }
    }

    /// Sets the session.
    pub(crate) fn for_session(self, session: &str) -> Self {
        HookLogPrinter { session: session.into(), ..self }
    }

    /// Prints the name of the session again before the next line, because another session was printed
    /// meanwhile.
    pub(crate) fn repeat_session(&mut self) {
        self.is_named = false;
    }

    /// Takes the text that was rendered so far.
    pub(crate) fn take_output(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Reads one line of the file.
    pub(crate) fn line(&mut self, line: &[u8]) {
        match LedgerRow::parse(line) {
            Some(LedgerRow::RunStart(RunStart { run_id, at, model, .. })) => {
                self.pending_run = Some(format!("run {run_id} began {at} with {model}"));
            }
            Some(LedgerRow::Generation(generation)) => self.add_table(generation),
            Some(LedgerRow::Decision(row)) => self.decision(&row),
            Some(LedgerRow::Outcome(row)) => self.outcome(&row),
            Some(LedgerRow::HooksRan(row)) => self.print_other_points(&row),
            _ => {}
        }
    }

    fn add_table(&mut self, row: Generation) {
        let mut hooks: Vec<LoggedHook> = vec![];
        for hook in row.hooks {
            let HookEntry { id, name, origin, point, power, tools, enabled, r#async, .. } = hook;
            let judges = power == "gate";
            let same = |known: &&mut LoggedHook| {
                (&known.name, &known.origin, &known.point) == (&name, &origin, &point)
            };
            if let Some(known) = hooks.iter_mut().find(same) {
                known.ids.push(id);
                known.judges |= judges;
                continue;
            }
            hooks.push(LoggedHook {
                ids: vec![id],
                name,
                origin,
                point,
                power,
                judges,
                tools,
                enabled: enabled != Some(false),
                is_async: r#async,
            });
        }
        self.last = row.generation;
        self.tables.insert(self.last, Arc::new(hooks));
        if self.tables.len() > MAX_TABLES
            && let Some(oldest) = self.tables.keys().copied().min()
        {
            self.tables.remove(&oldest);
        }
    }

    fn decision(&mut self, row: &Decision) {
        let call = (row.step, row.tool.clone(), row.generation);
        self.calls.insert(row.call_id.clone(), call);
        let moment = HookMoment {
            run_id: &row.run_id,
            at: &row.at,
            step: row.step,
            point: "tool.pre",
            tool: Some(&row.tool),
            generation: row.generation,
            decided_by: &row.by,
            is_blocked: row.verdict == "block",
        };
        self.print_moment(&moment, &row.ran);
    }

    fn outcome(&mut self, row: &Outcome) {
        let call = self.calls.remove(&row.call_id);
        let (step, tool, generation) = call.unwrap_or((None, SmolStr::default(), self.last));
        let moment = HookMoment {
            run_id: &row.run_id,
            at: &row.at,
            step,
            point: "tool.post",
            tool: Some(&tool),
            generation,
            decided_by: "",
            is_blocked: false,
        };
        self.print_moment(&moment, &row.ran);
    }

    fn print_other_points(&mut self, row: &HooksRan) {
        let call = row.call_id.as_ref().and_then(|call_id| self.calls.get(call_id));
        let tool = call.map(|(_, tool, _)| tool.clone());
        let is_stop = |run: &HandlerEntry| matches!(run.verdict.as_str(), "block" | "no");
        let moment = HookMoment {
            run_id: &row.run_id,
            at: &row.at,
            step: row.step,
            point: &row.point,
            tool: tool.as_deref(),
            generation: row.generation,
            decided_by: "",
            is_blocked: row.ran.iter().any(is_stop),
        };
        self.print_moment(&moment, &row.ran);
    }

    /// Prints every hook that ran, in order, then the hooks of the point that did not run, with the reason.
    fn print_moment(&mut self, moment: &HookMoment<'_>, runs: &[HandlerEntry]) {
        let table = self.tables.get(&moment.generation).or(self.tables.get(&self.last));
        let table = table.cloned().unwrap_or_default();
        let mut printed: Vec<usize> = vec![];
        for (index, run) in runs.iter().enumerate() {
            let id = run.hook;
            let earlier = || runs[..index].iter().filter(|earlier| earlier.hook == id);
            let is_equal =
                |same: &HandlerEntry| (&same.verdict, &same.reason) == (&run.verdict, &run.reason);
            // An equal verdict is not printed twice in the text form.
            if earlier().any(is_equal) && !self.json && !self.all {
                continue;
            }
            let known = table.iter().position(|hook| hook.ids.contains(&id));
            printed.extend(known);
            let unknown = LoggedHook::unknown(id, moment.point);
            let hook = known.map_or(&unknown, |index| &table[index]);
            let verdict = match run.verdict.as_str() {
                // The hook kept the event, so its verdict as a gate was `pass`; other verdicts have rows of
                // their own.
                "keep" if hook.judges => "pass",
                word => word,
            };
            let quiet = matches!(verdict, "pass" | "seen" | "keep" | "not_run");
            if hook.is_loaded() || self.all || !quiet {
                let row = HookLogRow {
                    hook,
                    matched: true,
                    verdict,
                    is_repeated: earlier().next().is_some(),
                    why_not: None,
                    ms: run.ns as f64 / 1e6,
                    reason: run.reason.as_deref(),
                    stderr: run.stderr.as_deref(),
                };
                self.print_row(moment, &row);
            }
        }
        // An async hook has a record of its own, without the other hooks.
        if printed.iter().any(|index| table[*index].is_async) {
            return;
        }
        let others = table.iter().enumerate().filter(|(index, hook)| {
            hook.point == moment.point && hook.is_loaded() && !printed.contains(index)
        });
        for (_, hook) in others {
            if let Some(row) = not_run_row(hook, moment) {
                self.print_row(moment, &row);
            }
        }
    }

    fn print_row(&mut self, moment: &HookMoment<'_>, row: &HookLogRow<'_>) {
        if self.json {
            let json = self.json_row(moment, row);
            self.out += &format!("{json}\n");
            return;
        }
        if !self.is_named {
            self.is_named = true;
            let line = format!("session {}", self.session);
            self.print_line(&line, Style::strong);
        }
        if let Some(began) = self.pending_run.take() {
            self.print_line(&began, Style::strong);
        }
        let place = match (moment.run_id, moment.step) {
            ("", _) => String::new(),
            (run, Some(step)) => format!("{run}.{step}  "),
            (run, None) => format!("{run}  "),
        };
        let LoggedHook { name, origin, .. } = row.hook;
        let tool = moment.tool.map(|tool| format!(" {tool}")).unwrap_or_default();
        let at = moment.at.get(11..23).unwrap_or_default();
        let said = match &row.why_not {
            None if row.verdict == "not_run" => "did not run".to_owned(),
            None => {
                let verdict = if row.verdict == FAILED { "failed and passed" } else { row.verdict };
                let again = if row.is_repeated { "asked again: " } else { "" };
                format!("{again}{verdict} in {:.1} ms", row.ms)
            }
            Some(why) => why.clone(),
        };
        let reason = row.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let line =
            format!("{at}  {place}{}{tool}  {name} ({origin})  {said}{reason}", moment.point);
        match row.verdict {
            _ if row.why_not.is_some() => self.print_line(&line, Style::muted),
            "pass" | "seen" | "keep" | "stop" | "not_run" => self.print_line(&line, Style::muted),
            "replace" | "answer" | "go_on" | "yes" => self.print_line(&line, |_, line| line.into()),
            _ => self.print_line(&line, Style::warning),
        }
        for line in row.stderr.into_iter().flat_map(str::lines) {
            self.print_line(&format!("  stderr: {line}"), |_, line| line.into());
        }
    }

    /// Prints one line. Names and reasons are sanitized, so that no text can look like a row.
    fn print_line(&mut self, line: &str, paint: impl Fn(Style, &str) -> String) {
        let shown = self.redactor.redact(line);
        self.out += &paint(self.style, &text::show_line(&shown));
        self.out.push('\n');
    }

    fn json_row(&self, moment: &HookMoment<'_>, row: &HookLogRow<'_>) -> Value {
        let LoggedHook { name, origin, power, .. } = row.hook;
        let redacted = |words: &str| self.redactor.redact(words).into_owned();
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| _ = object.insert(key.into(), value);
        put("sessionId", json!(self.session));
        put("runId", json!(moment.run_id));
        put("step", json!(moment.step));
        put("at", json!(moment.at));
        put("point", json!(moment.point));
        if let Some(tool) = moment.tool {
            put("tool", json!(redacted(tool)));
        }
        put("name", json!(redacted(name)));
        put("origin", json!(origin));
        put("power", json!(power));
        put("matched", json!(row.matched));
        put("verdict", json!(row.verdict));
        put("ms", json!(row.ms));
        if row.is_repeated {
            put("again", json!(true));
        }
        for (key, words) in [("reason", row.reason), ("stderr", row.stderr)] {
            if let Some(words) = words {
                put(key, json!(redacted(words)));
            }
        }
        Value::Object(object)
    }
}

impl LoggedHook {
    /// Creates a hook whose table was not stored or cannot be read.
    fn unknown(id: u64, point: &str) -> Self {
        LoggedHook {
            ids: vec![id],
            name: format_smolstr!("hook {id}"),
            origin: "unknown".into(),
            point: point.into(),
            power: "unknown".into(),
            judges: false,
            tools: None,
            enabled: true,
            is_async: false,
        }
    }
}

/// Returns a row with the reason why a hook did not run. `None` if the hook ran without a record.
fn not_run_row<'a>(hook: &'a LoggedHook, moment: &HookMoment<'_>) -> Option<HookLogRow<'a>> {
    let matched = match (&hook.tools, moment.tool) {
        (Some(globs), Some(tool)) => tool_glob::matches_tool(globs, tool),
        _ => true,
    };
    let globs = || hook.tools.as_ref().map(|globs| globs.join(", ")).unwrap_or_default();
    let (verdict, why) = match (hook.enabled, matched) {
        (false, true) => ("switched off", "switched off".to_owned()),
        (_, false) => ("pass", format!("did not match: it is for {}", globs())),
        (true, true) if hook.is_async || !moment.is_blocked => return None,
        (true, true) => match moment.decided_by {
            "" => ("not reached", "not reached: another had ended it".to_owned()),
            by => ("not reached", format!("not reached: {by} had refused it")),
        },
    };
    Some(HookLogRow {
        hook,
        matched,
        verdict,
        is_repeated: false,
        why_not: Some(why),
        ms: 0.0,
        reason: None,
        stderr: None,
    })
}
