//! `cotter sessions`: the list of sessions, and the conversation of one.

use std::process::ExitCode;

use cotter::{
    Message,
    history::{
        entry::{Entry, EntryBody},
        message::{AssistantPart, UserMessageKind},
        store::{SessionSummary, Store},
    },
    text::{self, redact::Redactor},
};
use serde_json::json;

use crate::{
    error::CliError,
    models::credentials::redactor,
    setup::sessions::Sessions,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
    },
};

/// `cotter sessions list`.
pub(crate) fn list(json: bool) -> Result<ExitCode, CliError> {
    let all = Sessions::open()?.store.list()?;
    let redactor = redactor();
    let line = if json { json_row } else { text_row };
    Ok(print_stdout(&all.iter().map(|session| line(session, &redactor) + "\n").collect::<String>()))
}

/// `cotter sessions show`.
pub(crate) fn show(typed: &str, json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let sessions = Sessions::open()?;
    let id = sessions.find(typed)?;
    let (_, loaded) = sessions.read(&id)?;
    let redactor = redactor();
    let path = loaded.path();
    if json {
        let line =
            |entry: &Entry| redactor.redact(&entry.to_json().to_string()).into_owned() + "\n";
        return Ok(print_stdout(&path.iter().map(|entry| line(entry)).collect::<String>()));
    }
    let style = Style::on_stdout(color);
    let mut out = String::new();
    for entry in &path {
        let Some(row) = render_entry(entry) else { continue };
        let content = redactor.redact(&row.text);
        let content = text::show(&content);
        let line = format!("{}: {}", row.speaker, content.trim_end());
        out += &match row.weight {
            RowWeight::Plain => format!("{}: {}\n", style.strong(&row.speaker), content.trim_end()),
            RowWeight::Muted => style.muted(&line) + "\n",
        };
    }
    for diagnostic in &loaded.diagnostics {
        Style::on_stderr(color).print_warning(&format!("line {diagnostic}"));
    }
    Ok(print_stdout(&out))
}

fn text_row(session: &SessionSummary, redactor: &Redactor) -> String {
    let time = session.modified_at.to_string();
    let minute = time.get(..16).unwrap_or(&time).replace('T', " ");
    let title = text::show_line(&redactor.redact(&session.title)).into_owned();
    let folder = session.cwd.display().to_string();
    let (folder, title) = (text::show_line(&folder), text::cut_chars(&title, 60));
    format!("{}  {minute}  {folder}  {title}", session.id)
}

fn json_row(session: &SessionSummary, redactor: &Redactor) -> String {
    json!({
        "id": session.id,
        "cwd": session.cwd.display().to_string(),
        "createdAt": session.created_at.to_string(),
        "modifiedAt": session.modified_at.to_string(),
        "title": redactor.redact(&session.title),
        "bytes": session.bytes,
    })
    .to_string()
}

/// An entry of the transcript.
struct TranscriptRow {
    speaker: String,
    text: String,
    weight: RowWeight,
}

/// The emphasis of an entry. Entries outside the conversation are muted.
enum RowWeight {
    Plain,
    Muted,
}

impl TranscriptRow {
    fn new(speaker: &str, text: impl Into<String>) -> Self {
        TranscriptRow { speaker: speaker.into(), text: text.into(), weight: RowWeight::Plain }
    }

    fn muted(self) -> Self {
        TranscriptRow { weight: RowWeight::Muted, ..self }
    }
}

fn render_entry(entry: &Entry) -> Option<TranscriptRow> {
    Some(match entry.body() {
        EntryBody::Message(message) => render_message(message),
        EntryBody::Compaction(compaction) => {
            TranscriptRow::new("summary", compaction.message.text()).muted()
        }
        EntryBody::ModelChange(model) => TranscriptRow::new("model", model.as_str()).muted(),
        EntryBody::SkillActive { name, .. } => TranscriptRow::new("skill", name.as_str()).muted(),
        EntryBody::Unreadable => TranscriptRow::new(
            "unreadable",
            format!("entry {} cannot be read and is skipped", entry.id()),
        )
        .muted(),
        _ => return None,
    })
}

fn render_message(message: &Message) -> TranscriptRow {
    match message {
        Message::User(user) => match user.kind {
            UserMessageKind::Typed => TranscriptRow::new("user", user.content.text()),
            UserMessageKind::SkillInjection => {
                TranscriptRow::new("skill", user.content.text()).muted()
            }
            UserMessageKind::Compaction => {
                TranscriptRow::new("summary", user.content.text()).muted()
            }
            _ => TranscriptRow::new("note", user.content.text()).muted(),
        },
        Message::Assistant(reply) => {
            let parts = reply.parts.iter().map(|part| match part {
                AssistantPart::Text(text) => text.clone(),
                AssistantPart::Thinking { text, .. } if text.is_empty() => {
                    "(hidden thinking)".into()
                }
                AssistantPart::Thinking { text, .. } => format!("(thinking) {text}"),
                AssistantPart::ToolCall(call) => {
                    format!("(calls) {} {}", text::show_line(&call.name), call.input)
                }
                _ => String::new(),
            });
            TranscriptRow::new("assistant", parts.collect::<Vec<_>>().join("\n"))
        }
        Message::ToolResult(result) => {
            let failed = result.error.map(|kind| format!(" ({})", kind.as_str()));
            // The model chooses the name, also one that no tool has.
            let name = text::show_line(&result.tool_name);
            let speaker = format!("{name}{}", failed.unwrap_or_default());
            TranscriptRow::new(&speaker, result.content.text())
        }
        _ => TranscriptRow::new("message", message.text()),
    }
}
