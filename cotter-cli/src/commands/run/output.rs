//! The output of a run: text for people, one JSON object, or a stream of events.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
};

use cotter::{
    EndReason, Reply, Run, Session,
    hooks::events::{Event, EventKind},
    text::{self, redact::Redactor},
};
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    args::Format,
    commands::run::event_lines::EventLines,
    error::CliError,
    terminal::{
        screen::Screen,
        spinner::Spinner,
        style::{ColorChoice, Style},
    },
};

/// The output of a run.
pub(crate) struct RunOutput {
    format: Format,
    /// The style of standard error.
    style: Style,
    spinner: Spinner,
    screen: Screen,
    /// The way in which questions are answered.
    question_mode: QuestionMode,
    /// The calls with an open question, by call id: the preview and the hooks that ask. Filled only if no
    /// person sees the question.
    open_questions: HashMap<SmolStr, (String, String)>,
    /// The origins of the hooks that blocked or asked, by name.
    origins: HashMap<SmolStr, String>,
    /// What standard output gets, without secrets.
    lines: EventLines,
}

/// The way in which questions of a run are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionMode {
    /// Not at all: `--ask` is not given.
    Unwanted,
    /// Not at all: `--ask` is given, but there is no terminal.
    Nowhere,
    /// On the terminal.
    OnTerminal,
}

/// The answerer of a question that no person and no hook answered.
const NOBODY: &str = "nobody";
/// The number of characters of a refused call that are shown.
const CALL_CHARS: usize = 200;

impl RunOutput {
    pub(crate) fn new(format: Format, color: ColorChoice) -> Self {
        let screen = Screen::default();
        let spinner = Spinner::new(format == Format::Text, screen.clone());
        let style = Style::on_stderr(color);
        RunOutput {
            format,
            style,
            spinner,
            screen,
            question_mode: QuestionMode::Unwanted,
            open_questions: HashMap::new(),
            origins: HashMap::new(),
            lines: EventLines::default(),
        }
    }

    /// Removes the secrets that a redactor knows from what is written to standard output.
    pub(crate) fn set_redactor(&mut self, redactor: Redactor) {
        self.lines = EventLines::new(redactor);
    }

    /// Sets the way in which questions are answered.
    pub(crate) fn set_question_mode(&mut self, mode: QuestionMode) {
        self.question_mode = mode;
    }

    /// Returns the screen of the run, on which questions appear too.
    pub(crate) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Prints a warning to the person.
    pub(crate) fn warn(&mut self, message: &str) {
        self.screen.print_line(format!(
            "{} {}",
            self.style.warning("warning:"),
            text::show(message)
        ));
    }

    /// Prints the model that a run uses, if the person may not expect it.
    pub(crate) fn print_model(&mut self, model: &str) {
        let label = self.style.muted("model:");
        self.print_labelled(&label, model);
    }

    /// Writes the event for the opening of a session, which comes before any run.
    pub(crate) fn write_opening(&mut self, session: &Session) -> Result<(), CliError> {
        let opening = match self.format {
            Format::StreamJson => session.events().try_next(),
            _ => None,
        };
        let written = opening.map(|event| write_lines(&self.lines.add(&event)));
        check_written(written.unwrap_or(Ok(())))
    }

    /// Prints the events of a run. If the reader closes the pipe, the run is aborted, because the rest has no
    /// reader.
    pub(crate) async fn follow(&mut self, run: &mut Run, cancel: &CancellationToken) {
        let screen = self.screen.clone();
        let _following = screen.follow();
        loop {
            tokio::select! {
                // The order matters: a question is put after every earlier event is printed.
                biased;
                event = run.next() => match event {
                    Some(event) => self.event(&event, cancel),
                    None => break,
                },
                () = screen.let_question_proceed() => {}
                () = self.spinner.tick() => {}
            }
        }
    }

    /// Prints the result of a run, with a hint if it failed. A closed pipe is no error; a full disk is.
    pub(crate) fn finish(&mut self, reply: &Reply, hint: Option<String>) -> Result<(), CliError> {
        let written = match self.format {
            Format::Json | Format::StreamJson => {
                let result = self.lines.redact_line(result(reply).to_string());
                write_lines(&format!("{}{result}\n", self.lines.finish()))
            }
            Format::Text => answer(&self.lines.redact(&reply.text())),
        };
        if let (Format::Text, Some(failure)) = (self.format, end_error(reply)) {
            hint.into_iter().fold(failure, CliError::with_hint).report(self.style);
        }
        check_written(written)
    }

    fn event(&mut self, event: &Event, cancel: &CancellationToken) {
        match self.format {
            Format::Json => {}
            Format::StreamJson => {
                if write_lines(&self.lines.add(event)).is_err() {
                    cancel.cancel();
                }
            }
            Format::Text => self.print_notable_event(&event.kind),
        }
    }

    /// Returns a name, with its origin if it is a hook of a project, space, profile or operator.
    fn name_with_origin(&self, name: &SmolStr) -> String {
        // An answer to a question names its hook with this prefix.
        let own = name.strip_prefix("hook ").unwrap_or(name);
        match self.origins.get(own).map(String::as_str) {
            None | Some("kernel" | "embedder" | "user") => name.to_string(),
            Some(origin) => format!("{name}, {origin}"),
        }
    }

    /// Prints the events that a person should know besides the answer.
    fn print_notable_event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::PermissionRequest { question }
                if self.question_mode != QuestionMode::OnTerminal =>
            {
                for call in &question.calls {
                    let hooks = call.asks.iter().filter(|ask| self.origins.contains_key(&ask.by));
                    let hooks: Vec<_> = hooks.map(|ask| self.name_with_origin(&ask.by)).collect();
                    let shown = (call.preview.clone(), hooks.join("; "));
                    self.open_questions.insert(call.call_id.clone(), shown);
                }
            }
            // A gate that fails blocks as well.
            EventKind::Hook {
                point: "tool.pre" | "permission.ask",
                name,
                origin,
                verdict: "block" | "ask" | "no" | "failed" | "panicked" | "timed_out",
                ..
            } => {
                self.origins.insert(name.clone(), origin.clone());
            }
            EventKind::ToolRefused { call_id, name, by, reason } => {
                let label = self.style.warning("refused:");
                let asked = self.open_questions.remove(call_id).filter(|_| by == NOBODY);
                let hint = match (&asked, self.question_mode) {
                    (Some(_), QuestionMode::Unwanted) => "; `--ask` asks you on the terminal",
                    _ => "",
                };
                let (call, by) =
                    asked.unwrap_or_else(|| (name.to_string(), self.name_with_origin(by)));
                let call = text::cut_chars(&call, CALL_CHARS);
                // Empty if no hook asked: the reason then names the rule, zone or mode.
                let by = if by.is_empty() { by } else { format!(" ({by})") };
                self.print_labelled(&label, &format!("{call}: {reason}{by}{hint}"));
            }
            EventKind::Retry { kind, wait_ms, model, .. } => {
                let label = self.style.warning("retry:");
                let next = match model {
                    Some(model) => format!("{model} is used instead"),
                    None => format!("again in {}", duration(*wait_ms)),
                };
                self.print_labelled(&label, &format!("the model failed ({kind}); {next}"));
            }
            EventKind::ToolCall { name, input, .. } => {
                self.spinner.set_activity(&format!("{name} {input}"))
            }
            EventKind::ToolResult { .. } | EventKind::PermissionResponse { .. } => {
                self.spinner.set_activity("thinking");
            }
            _ => {}
        }
    }

    /// Prints a labelled text on a line of its own.
    fn print_labelled(&mut self, label: &str, text: &str) {
        self.screen.print_line(format!("{label} {}", text::show_line(text)));
    }
}

/// Writes the answer. On a terminal, hidden characters are made visible.
fn answer(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() { text::show(text) } else { text.into() };
    let end = if shown.ends_with('\n') { "" } else { "\n" };
    write!(out, "{shown}{end}")?;
    out.flush()
}

/// Converts the result of a write. A closed pipe is no error; a full disk is.
fn check_written(written: io::Result<()>) -> Result<(), CliError> {
    match written {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::new("cannot write the answer").with_cause(cause))
        }
        _ => Ok(()),
    }
}

fn write_lines(lines: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines.as_bytes())?;
    out.flush()
}

fn result(reply: &Reply) -> Value {
    let mut result = json!({
        "type": "result",
        "sessionId": reply.session_id,
        "runId": reply.run_id,
        "reason": reply.reason.as_str(),
        "text": reply.text(),
        "steps": reply.steps,
        "usage": reply.usage,
        "costUsd": reply.cost_usd,
    });
    if let Some(failed) = &reply.error {
        result["error"] = json!(failed);
    }
    result
}

/// Formats a duration in short form, to a tenth of a second.
fn duration(ms: u64) -> String {
    match (ms / 1000, ms % 1000 / 100) {
        (0, _) => format!("{ms} ms"),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, tenths) => format!("{seconds}.{tenths} s"),
    }
}

/// Returns the error and hint for a run that ended without a complete answer.
fn end_error(reply: &Reply) -> Option<CliError> {
    let message = reply.error.as_ref().map(|failed| failed.message.clone());
    let failure = |plain: &str| CliError::new(message.clone().unwrap_or_else(|| plain.into()));
    Some(match reply.reason {
        EndReason::EndTurn | EndReason::ShortCircuit => return None,
        EndReason::Aborted => failure("the run was aborted"),
        EndReason::Refusal => failure("the model declined"),
        EndReason::MaxTurns => {
            failure("the run reached its limit of steps").with_hint("`--max-turns N` allows more")
        }
        EndReason::BudgetExceeded if reply.cost_usd.is_none() => {
            failure("the price of a model is unknown")
                .with_hint("remove the limit, or use a model with a known price")
        }
        EndReason::BudgetExceeded => {
            failure("the run reached its budget").with_hint("`--max-budget-usd X` allows more")
        }
        EndReason::Error => {
            let code = reply.error.as_ref().map_or("", |failed| failed.code.as_str());
            if code == "command" {
                return Some(
                    failure("the command failed")
                        .with_hint("`cotter commands list` shows what each command is for"),
                );
            }
            message
                .iter()
                .fold(CliError::new(format!("the run failed ({code})")), CliError::with_cause)
        }
        _ => failure("the run ended without an answer"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_printed_in_milliseconds_or_seconds() {
        let cases =
            [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (1560, "1.5 s"), (90_049, "90 s")];
        for (ms, shown) in cases {
            assert_eq!(duration(ms), shown);
        }
    }
}
