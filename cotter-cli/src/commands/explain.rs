//! `cotter explain`: the decision about a call and its reasons, without running the call.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::ExitCode,
};

use cotter::{
    Agent,
    pipeline::explain::{ExplainReport, ExplainRow},
    registry::tool_set::ToolSet,
    text,
};
use cotter_files::claude;
use serde_json::{Value, json};

use crate::{
    args::{ExplainArgs, HookMode, SetupArgs},
    error::CliError,
    paths, setup,
    signals::or_abort_on_signal,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
    },
};

/// The exit code for a call that would be asked about or blocked.
pub(crate) const NOT_PASSED: u8 = 3;

/// The message when a signal stops the hooks that were asked.
pub(crate) const HOOKS_ENDED: &str = "the hooks were stopped";

/// The maximum length of one line of a batch in bytes.
const LINE_BYTES: u64 = 16 * 1024 * 1024;

/// `cotter explain`.
pub(crate) fn explain(args: &ExplainArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let (hooks, setup_args) = (args.hook_mode(), &args.setup_args);
    match (&args.batch, &args.tool) {
        (Some(file), _) => explain_batch(file, hooks, setup_args),
        (None, tool) => {
            let call = (tool.as_deref().unwrap_or_default(), args.input.as_deref());
            explain_one(call, hooks, setup_args, args.json, color)
        }
    }
}

/// `cotter explain TOOL INPUT`.
fn explain_one(
    (tool, input): (&str, Option<&str>),
    hooks: HookMode,
    setup_args: &SetupArgs,
    json: bool,
    color: ColorChoice,
) -> Result<ExitCode, CliError> {
    let agent = setup::build_preview(paths::find_workspace(None)?, setup_args)?;
    if claude_name_hint(&agent.tools(), tool).is_some() {
        return Err(unknown(&agent.tools(), tool));
    }
    let input = read_input(&agent, tool, input)?;
    let call = (tool.to_owned(), input.clone());
    let report = async move { Ok(report_call(&agent, hooks, call).await) };
    let explained = block_on_hooks(report, hooks)?;
    let shown = match json {
        true => json_line(&explained) + "\n",
        false => text_of(tool, &input, &explained, Style::on_stdout(color)),
    };
    let exit_code = print_stdout(&shown);
    Ok(if explained.verdict == "pass" { exit_code } else { ExitCode::from(NOT_PASSED) })
}

/// `cotter explain --batch FILE`: reads a call per line and prints an answer per line.
fn explain_batch(
    file: &Path,
    hooks: HookMode,
    setup_args: &SetupArgs,
) -> Result<ExitCode, CliError> {
    let agent = setup::build_preview(paths::find_workspace(None)?, setup_args)?;
    let cannot = |cause: io::Error| {
        CliError::new(format!("cannot read {}", file.display())).with_cause(cause)
    };
    let mut lines: LineReader = match file.to_str() {
        Some("-") => Box::new(BufReader::new(io::stdin())),
        _ => Box::new(BufReader::new(File::open(file).map_err(cannot)?)),
    };
    let answer_all = async move {
        loop {
            let (rest, line) = next_line(lines, hooks).await?;
            lines = rest;
            let line = line.map_err(cannot)?;
            if line.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let answer = match read_call(&line) {
                Ok(call) => json_line(&report_call(&agent, hooks, call).await),
                Err(error) => json!({ "error": error }).to_string(),
            };
            if print_stdout(&(answer + "\n")) != ExitCode::SUCCESS {
                return Ok(ExitCode::FAILURE);
            }
        }
    };
    block_on_hooks(answer_all, hooks)
}

/// Runs `work`. If it asks hooks, a signal stops them; otherwise nothing was started, and a signal ends the
/// process.
fn block_on_hooks<T>(
    work: impl Future<Output = Result<T, CliError>>,
    hooks: HookMode,
) -> Result<T, CliError> {
    match hooks {
        HookMode::Listed => block_on(work)?,
        HookMode::Asked => block_on(or_abort_on_signal(work, HOOKS_ENDED))?,
    }
}

type LineReader = Box<dyn BufRead + Send>;

/// Reads the next line; empty at the end. In the mode that asks hooks, a signal stops the wait.
async fn next_line(
    mut lines: LineReader,
    hooks: HookMode,
) -> Result<(LineReader, io::Result<Vec<u8>>), CliError> {
    let read = move || {
        let mut line = vec![];
        let taken = lines.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
        (lines, taken.map(|_| line))
    };
    if hooks == HookMode::Listed {
        return Ok(read());
    }
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|cause| CliError::new("cannot read the batch").with_cause(cause))
}

async fn report_call(
    agent: &Agent,
    hooks: HookMode,
    (tool, input): (String, Value),
) -> ExplainReport {
    match hooks {
        HookMode::Listed => agent.explain(&tool, input).await,
        HookMode::Asked => agent.explain_with_hooks(&tool, input).await,
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| CliError::new("cannot start the runtime").with_cause(cause))?;
    let done = runtime.block_on(future);
    // A thread that still waits for a line must not keep the process alive.
    runtime.shutdown_background();
    Ok(done)
}

fn read_call(line: &[u8]) -> Result<(String, Value), String> {
    let line: Value = serde_json::from_slice(line).map_err(|cause| cause.to_string())?;
    match (line["tool"].as_str(), line.get("input")) {
        (Some(tool), Some(input)) => Ok((tool.to_owned(), input.clone())),
        _ => Err("expected {\"tool\": …, \"input\": …}".into()),
    }
}

/// Parses the input as JSON. For a tool that needs one text, the input may be that text; for a tool that
/// needs nothing, it may be missing.
fn read_input(agent: &Agent, tool: &str, typed: Option<&str>) -> Result<Value, CliError> {
    let tools = agent.tools();
    let spec = tools.specs().find(|spec| spec.name == tool);
    let Some(typed) = typed else {
        return match spec {
            Some(spec) if required_fields(&spec.schema).next().is_some() => {
                let needed = required_fields(&spec.schema).collect::<Vec<_>>().join("`, `");
                Err(CliError::usage(format!("`{tool}` needs an input: `{needed}`"))
                    .with_hint(format!("cotter explain {tool} INPUT")))
            }
            Some(_) => Ok(json!({})),
            None => Err(unknown(&tools, tool)),
        };
    };
    let is_object = serde_json::from_str::<Value>(typed).is_ok_and(|input| input.is_object());
    if spec.is_none() && !is_object {
        return Err(unknown(&tools, tool));
    }
    parse_object(agent, tool, typed)
}

/// Parses an input as an object: JSON, or the one text that a tool needs. The tool need not exist.
pub(crate) fn parse_object(agent: &Agent, tool: &str, typed: &str) -> Result<Value, CliError> {
    let cause = match serde_json::from_str::<Value>(typed) {
        Ok(input) if input.is_object() => return Ok(input),
        Ok(_) => "it is not an object".to_owned(),
        Err(cause) => cause.to_string(),
    };
    let tools = agent.tools();
    let spec = tools.specs().find(|spec| spec.name == tool);
    let looks_like_json = typed.trim_start().starts_with('{');
    match spec.and_then(|spec| only_text_field(&spec.schema)) {
        Some(field) if !looks_like_json => Ok(json!({ field: typed })),
        _ => Err(CliError::usage(format!("cannot parse the input for `{tool}`: {cause}"))
            .with_hint("give it as JSON: cotter explain bash '{\"command\": \"git push\"}'")),
    }
}

/// Returns the hint with Cotter's name of a tool, if the typed name is one of Claude Code only.
pub(crate) fn claude_name_hint(tools: &ToolSet, typed: &str) -> Option<String> {
    let is_here = |name: &str| tools.specs().any(|spec| spec.name == name);
    if is_here(typed) {
        return None;
    }
    let ours: Vec<_> = claude::our_tools(typed).into_iter().filter(|name| is_here(name)).collect();
    let ours = ours.join("` or `");
    (!ours.is_empty()).then(|| format!("the tool `{typed}` of Claude Code is `{ours}` here"))
}

fn unknown(tools: &ToolSet, typed: &str) -> CliError {
    let names: Vec<_> = tools.specs().map(|spec| spec.name.as_str()).collect();
    let hint = claude_name_hint(tools, typed)
        .or_else(|| text::did_you_mean(typed, names.iter().copied()))
        .unwrap_or_else(|| format!("there are {}", names.join(", ")));
    CliError::usage(format!("there is no tool `{}`", text::show_line(typed))).with_hint(hint)
}

/// Returns the required fields of a schema.
fn required_fields(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the only required field, if it is a text. If no field is required, returns the only text field.
fn only_text_field(schema: &Value) -> Option<String> {
    let is_text = |field: &str| schema["properties"][field]["type"] == "string";
    let mut needed = required_fields(schema);
    match (needed.next(), needed.next()) {
        (Some(only), None) => Some(only).filter(|field| is_text(field)).map(str::to_owned),
        (None, _) => {
            let fields = schema["properties"].as_object()?;
            let mut texts = fields.keys().filter(|field| is_text(field));
            texts.next().filter(|_| texts.next().is_none()).cloned()
        }
        _ => None,
    }
}

fn json_line(explained: &ExplainReport) -> String {
    serde_json::to_string(explained).unwrap_or_default()
}

fn text_of(tool: &str, input: &Value, explained: &ExplainReport, style: Style) -> String {
    let ExplainReport { verdict, reason, decided_by, facts, considered, input: made, .. } =
        explained;
    let input = text::show_line(&input.to_string()).into_owned();
    let word = match *verdict {
        "pass" => style.strong(verdict),
        _ => style.warning(verdict),
    };
    let because =
        if reason.is_empty() { String::new() } else { format!(": {}", text::show_line(reason)) };
    let mut out = format!("{} {input}\n{word}{because}\n", text::show_line(tool));
    let decided_by = text::show_line(decided_by);
    out += &format!(
        "decided by {}\n\n",
        if decided_by.is_empty() { "nobody".into() } else { decided_by }
    );
    if let Some(made) = made {
        out += &format!("the input as hooks left it\n  {}\n\n", text::show_line(&made.to_string()));
    }
    let lines = render_facts(facts);
    for (what, which) in &lines {
        out += &format!("  {what:<9} {}\n", text::show_line(which));
    }
    out += if lines.is_empty() { "" } else { "\n" };
    let width = considered.iter().map(|one| one.name.chars().count()).max().unwrap_or(0).min(48);
    for one in considered.iter().filter(|one| one.matched) {
        out += &row(one, width, style);
    }
    out
}

fn render_facts(facts: &cotter::permission::facts::Facts) -> Vec<(&'static str, String)> {
    let paths = |what, paths: &[std::path::PathBuf]| {
        paths.iter().map(|path| (what, path.display().to_string())).collect::<Vec<_>>()
    };
    let commands = facts.commands.iter();
    let mut lines: Vec<_> = commands
        .map(|command| ("runs", format!("{command}  ({})", command.zone.as_str())))
        .collect();
    lines.extend(paths("reads", &facts.reads));
    lines.extend(paths("writes", &facts.writes));
    lines.extend(facts.hosts.iter().map(|host| ("speaks to", host.clone())));
    let confined = if facts.confined { ", confined" } else { "" };
    lines.push(("zone", format!("{}{confined}", facts.zone.as_str())));
    lines
}

fn row(one: &ExplainRow, width: usize, style: Style) -> String {
    let ExplainRow { name, origin, kind, verdict, reason, .. } = one;
    let (name, reason) = (text::show_line(name), text::show_line(reason));
    let origin = match *kind {
        "rule" | "gate" | "transform" => format!("  ({})", text::show_line(origin)),
        _ => String::new(),
    };
    let plain = format!("  {kind:<9} {name:<width$}  {verdict:<6} {reason}{origin}");
    let plain = plain.trim_end();
    match *verdict {
        "pass" => style.muted(plain) + "\n",
        _ => format!("{plain}\n"),
    }
}
