//! Renders the records of a session as a line per hook.

use std::{collections::HashMap, sync::Arc};

use cotter::{
    permission::tool_glob,
    text::{self, redact::Redactor},
};
use serde_json::{Map, Value, json};

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
    calls: HashMap<String, (Value, String, u64)>,
    /// The header of a run that began, until a line of it is printed.
    pending_run: Option<String>,
    out: String,
}

/// A hook of a table, with the ids of all its powers.
#[derive(Clone)]
struct LoggedHook {
    ids: Vec<u64>,
    name: String,
    origin: String,
    point: String,
    power: String,
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
    record: &'a Value,
    step: &'a Value,
    point: &'a str,
    tool: Option<&'a str>,
    generation: u64,
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
        // Most lines are of other kinds, and some are long, so the kind is checked before parsing.
        const KINDS: [&str; 5] = ["run.start", "generation", "ledger", "outcome", "hooks.ran"];
        let kind = line.strip_prefix(b"{\"type\":\"");
        let kind = kind.and_then(|rest| {
            KINDS.into_iter().find(|kind| {
                rest.strip_prefix(kind.as_bytes()).is_some_and(|rest| rest.starts_with(b"\""))
            })
        });
        let Some(kind) = kind else { return };
        let Ok(record) = serde_json::from_slice::<Value>(line) else { return };
        match kind {
            "run.start" => {
                let (run, at) = (text_of(&record, "runId"), text_of(&record, "at"));
                let model = text_of(&record, "model");
                self.pending_run = Some(format!("run {run} began {at} with {model}"));
            }
            "generation" => self.table(&record),
            "ledger" => self.decision(&record),
            "outcome" => self.outcome(&record),
            _ => self.print_other_points(&record),
        }
    }

    fn table(&mut self, record: &Value) {
        let mut hooks: Vec<LoggedHook> = vec![];
        for hook in list(record, "hooks") {
            let Some(id) = hook["id"].as_u64() else { continue };
            let key = |name| text_of(hook, name).to_owned();
            let (name, origin, point, power) =
                (key("name"), key("origin"), key("point"), key("power"));
            let judges = power == "gate";
            let same = |known: &&mut LoggedHook| {
                (&known.name, &known.origin, &known.point) == (&name, &origin, &point)
            };
            if let Some(known) = hooks.iter_mut().find(same) {
                known.ids.push(id);
                known.judges |= judges;
                continue;
            }
            let tools = hook["tools"].as_array();
            let tools = tools.map(|globs| globs.iter().filter_map(Value::as_str));
            hooks.push(LoggedHook {
                ids: vec![id],
                name,
                origin,
                point,
                power,
                judges,
                tools: tools.map(|globs| globs.map(str::to_owned).collect()),
                enabled: hook["enabled"] != false,
                is_async: hook["async"] == true,
            });
        }
        self.last = record["generation"].as_u64().unwrap_or_default();
        self.tables.insert(self.last, Arc::new(hooks));
        if self.tables.len() > MAX_TABLES
            && let Some(oldest) = self.tables.keys().copied().min()
        {
            self.tables.remove(&oldest);
        }
    }

    fn decision(&mut self, record: &Value) {
        let generation = record["generation"].as_u64().unwrap_or_default();
        let tool = text_of(record, "tool");
        let call = (record["step"].clone(), tool.to_owned(), generation);
        self.calls.insert(text_of(record, "callId").to_owned(), call);
        let step = &record["step"];
        let moment = HookMoment { record, step, point: "tool.pre", tool: Some(tool), generation };
        self.print_moment(&moment, text_of(record, "verdict") == "block");
    }

    fn outcome(&mut self, record: &Value) {
        let call = self.calls.remove(text_of(record, "callId"));
        let (step, tool, generation) = call.unwrap_or((Value::Null, String::new(), self.last));
        let (step, tool) = (&step, Some(tool.as_str()));
        self.print_moment(
            &HookMoment { record, step, point: "tool.post", tool, generation },
            false,
        );
    }

    fn print_other_points(&mut self, record: &Value) {
        let call = self.calls.get(text_of(record, "callId"));
        let tool = call.map(|(_, tool, _)| tool.clone());
        let generation = record["generation"].as_u64().unwrap_or_default();
        let (step, point, tool) = (&record["step"], text_of(record, "point"), tool.as_deref());
        let is_stop = |ran: &Value| matches!(text_of(ran, "verdict"), "block" | "no");
        let blocked = list(record, "ran").any(is_stop);
        self.print_moment(&HookMoment { record, step, point, tool, generation }, blocked);
    }

    /// Prints every hook that ran, in order, then the hooks of the point that did not run, with the reason.
    fn print_moment(&mut self, moment: &HookMoment<'_>, blocked: bool) {
        let table = self.tables.get(&moment.generation).or(self.tables.get(&self.last));
        let table = table.cloned().unwrap_or_default();
        let (mut seen, mut before): (Vec<usize>, Vec<(u64, &str, &str)>) = (vec![], vec![]);
        for ran in list(moment.record, "ran") {
            let id = ran["hook"].as_u64().unwrap_or_default();
            let said = (id, text_of(ran, "verdict"), text_of(ran, "reason"));
            let again = before.iter().any(|(known, ..)| *known == id);
            // An equal verdict is not printed twice in the text form.
            let is_old = before.contains(&said) && !self.json && !self.all;
            before.push(said);
            if is_old {
                continue;
            }
            let known = table.iter().position(|hook| hook.ids.contains(&id));
            seen.extend(known);
            let unknown = LoggedHook::unknown(id, moment.point);
            let hook = known.map_or(&unknown, |index| &table[index]);
            let verdict = match text_of(ran, "verdict") {
                // The hook kept the event, so its verdict as a gate was `pass`; other verdicts have rows of
                // their own.
                "keep" if hook.judges => "pass",
                word => word,
            };
            let quiet = matches!(verdict, "pass" | "seen" | "keep" | "not_run");
            if hook.is_loaded() || self.all || !quiet {
                let told = HookLogRow {
                    hook,
                    matched: true,
                    verdict,
                    is_repeated: again,
                    why_not: None,
                    ms: ran["ns"].as_f64().unwrap_or_default() / 1e6,
                    reason: ran["reason"].as_str(),
                    stderr: ran["stderr"].as_str(),
                };
                self.print_row(moment, &told);
            }
        }
        // An async hook has a record of its own, without the other hooks.
        if seen.iter().any(|index: &usize| table[*index].is_async) {
            return;
        }
        let others = table.iter().enumerate().filter(|(index, hook)| {
            hook.point == moment.point && hook.is_loaded() && !seen.contains(index)
        });
        for (_, hook) in others {
            if let Some(told) = not_run_row(hook, moment, blocked) {
                self.print_row(moment, &told);
            }
        }
    }

    fn print_row(&mut self, moment: &HookMoment<'_>, told: &HookLogRow<'_>) {
        if self.json {
            let row = self.json_row(moment, told);
            self.out += &format!("{row}\n");
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
        let run = text_of(moment.record, "runId");
        let place = match (run, moment.step.as_u64()) {
            ("", _) => String::new(),
            (run, Some(step)) => format!("{run}.{step}  "),
            (run, None) => format!("{run}  "),
        };
        let LoggedHook { name, origin, .. } = told.hook;
        let tool = moment.tool.map(|tool| format!(" {tool}")).unwrap_or_default();
        let at = text_of(moment.record, "at").get(11..23).unwrap_or_default();
        let said = match &told.why_not {
            None if told.verdict == "not_run" => "did not run".to_owned(),
            None => {
                let verdict =
                    if told.verdict == FAILED { "failed and passed" } else { told.verdict };
                let again = if told.is_repeated { "asked again: " } else { "" };
                format!("{again}{verdict} in {:.1} ms", told.ms)
            }
            Some(why) => why.clone(),
        };
        let reason = told.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let line =
            format!("{at}  {place}{}{tool}  {name} ({origin})  {said}{reason}", moment.point);
        match told.verdict {
            _ if told.why_not.is_some() => self.print_line(&line, Style::muted),
            "pass" | "seen" | "keep" | "stop" | "not_run" => self.print_line(&line, Style::muted),
            "replace" | "answer" | "go_on" | "yes" => self.print_line(&line, |_, line| line.into()),
            _ => self.print_line(&line, Style::warning),
        }
        for line in told.stderr.into_iter().flat_map(str::lines) {
            self.print_line(&format!("  stderr: {line}"), |_, line| line.into());
        }
    }

    /// Prints one line. Names and reasons are sanitized, so that no text can look like a row.
    fn print_line(&mut self, line: &str, paint: impl Fn(Style, &str) -> String) {
        let shown = self.redactor.redact(line);
        self.out += &paint(self.style, &text::show_line(&shown));
        self.out.push('\n');
    }

    fn json_row(&self, moment: &HookMoment<'_>, told: &HookLogRow<'_>) -> Value {
        let LoggedHook { name, origin, power, .. } = told.hook;
        let redacted = |words: &str| self.redactor.redact(words).into_owned();
        let mut row = Map::new();
        let mut put = |key: &str, value: Value| _ = row.insert(key.into(), value);
        put("sessionId", json!(self.session));
        put("runId", moment.record["runId"].clone());
        put("step", moment.step.clone());
        put("at", moment.record["at"].clone());
        put("point", json!(moment.point));
        if let Some(tool) = moment.tool {
            put("tool", json!(redacted(tool)));
        }
        put("name", json!(redacted(name)));
        put("origin", json!(origin));
        put("power", json!(power));
        put("matched", json!(told.matched));
        put("verdict", json!(told.verdict));
        put("ms", json!(told.ms));
        if told.is_repeated {
            put("again", json!(true));
        }
        for (key, words) in [("reason", told.reason), ("stderr", told.stderr)] {
            if let Some(words) = words {
                put(key, json!(redacted(words)));
            }
        }
        Value::Object(row)
    }
}

impl LoggedHook {
    /// Creates a hook whose table was not stored or cannot be read.
    fn unknown(id: u64, point: &str) -> Self {
        LoggedHook {
            ids: vec![id],
            name: format!("hook {id}"),
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
fn not_run_row<'a>(
    hook: &'a LoggedHook,
    moment: &HookMoment<'a>,
    blocked: bool,
) -> Option<HookLogRow<'a>> {
    let matched = match (&hook.tools, moment.tool) {
        (Some(globs), Some(tool)) => tool_glob::matches_tool(globs, tool),
        _ => true,
    };
    let globs = || hook.tools.as_ref().map(|globs| globs.join(", ")).unwrap_or_default();
    let (verdict, why) = match (hook.enabled, matched) {
        (false, true) => ("switched off", "switched off".to_owned()),
        (_, false) => ("pass", format!("did not match: it is for {}", globs())),
        (true, true) if hook.is_async || !blocked => return None,
        (true, true) => match text_of(moment.record, "by") {
            "" => ("not reached", "not reached: another had ended it".to_owned()),
            by => ("not reached", format!("not reached: {by} had refused it")),
        },
    };
    let why_not = Some(why);
    let again = false;
    Some(HookLogRow {
        hook,
        matched,
        verdict,
        is_repeated: again,
        why_not,
        ms: 0.0,
        reason: None,
        stderr: None,
    })
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}
