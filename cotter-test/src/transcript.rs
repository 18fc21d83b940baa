//! Sessions and events as text, one line each, to compare them as a whole.

use cotter::{
    Message, Session,
    history::{
        entry::EntryBody,
        message::{AssistantPart, UserMessageKind},
    },
    hooks::events::{Event, EventKind},
};

/// The conversation as text, oldest first: a line per message, calls below the reply that made them.
pub fn transcript(session: &Session) -> String {
    let mut text = String::new();
    for entry in session.entries() {
        let line = match entry.body() {
            EntryBody::Message(message) => shown(message),
            EntryBody::Compaction(compaction) => {
                format!("compaction: {}", compaction.message.text())
            }
            EntryBody::Custom(fields) => {
                let mut fields = fields.clone();
                fields.shift_remove("timestamp");
                serde_json::to_string(&fields).unwrap_or_default()
            }
            other => format!("{other:?}"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// One message as text.
pub(crate) fn shown(message: &Message) -> String {
    match message {
        Message::User(user) => {
            let role = match user.kind {
                UserMessageKind::Typed => "user",
                UserMessageKind::SkillInjection => "skill",
                UserMessageKind::Compaction => "summary",
                UserMessageKind::Note => "note",
                _ => "other",
            };
            format!("{role}: {}", user.content.text())
        }
        Message::Assistant(assistant) => {
            let parts = assistant.parts.iter().map(|part| match part {
                AssistantPart::Text(text) => format!("assistant: {text}"),
                AssistantPart::Thinking { text, .. } if text.is_empty() => {
                    "thinking: (hidden)".into()
                }
                AssistantPart::Thinking { text, .. } => format!("thinking: {text}"),
                AssistantPart::ToolCall(call) => {
                    format!("call {}: {} {}", call.id, call.name, call.input)
                }
                other => format!("{other:?}"),
            });
            let lines: Vec<_> = parts.collect();
            if lines.is_empty() { "assistant:".into() } else { lines.join("\n") }
        }
        Message::ToolResult(result) => {
            let kind = result.error.map(|kind| format!(" ({})", kind.as_str())).unwrap_or_default();
            format!("result {}{kind}: {}", result.call_id, result.content.text().trim_end())
        }
        other => format!("{other:?}"),
    }
}

/// Every event, one per line, without data that differs between runs.
pub fn shown_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    events.into_iter().map(|event| shown_event(event) + "\n").collect()
}

/// One event as text, without data that differs between runs.
pub fn shown_event(event: &Event) -> String {
    let name = event.kind.name();
    match &event.kind {
        EventKind::TextDelta { text } | EventKind::ThinkingDelta { text } => {
            format!("{name} {text:?}")
        }
        EventKind::Message { entry } => match entry.message() {
            Some(message) => format!("{name} {}", shown(message).replace('\n', " | ")),
            None => name.into(),
        },
        EventKind::ToolCall { call_id, name: tool, input } => {
            format!("{name} {call_id} {tool} {input}")
        }
        EventKind::ToolResult { call_id, output, error, .. } => {
            let kind = error.map(|kind| format!(" ({})", kind.as_str())).unwrap_or_default();
            format!("{name} {call_id}{kind} {:?}", output.trim_end())
        }
        EventKind::ToolRefused { call_id, by, reason, .. } => {
            format!("{name} {call_id} {by}: {reason}")
        }
        EventKind::Hook { point, name: hook, power, verdict, .. } => {
            format!("{name} {point} {hook} {} {verdict}", power.as_str())
        }
        EventKind::Note { owner, text } => format!("{name} {owner}: {text}"),
        EventKind::PermissionRequest { question } => {
            let calls: Vec<_> = question.calls.iter().map(|call| call.call_id.as_str()).collect();
            format!("{name} {} {}", question.id, calls.join(" "))
        }
        EventKind::PermissionResponse { decisions, by, .. } => {
            let answers: Vec<_> =
                decisions.iter().map(|(call, yes, _)| format!("{call}={yes}")).collect();
            format!("{name} {} by {by}", answers.join(" "))
        }
        EventKind::Retry { attempt, kind, wait_ms, model } => {
            let next = model.as_ref().map(|model| format!(" with {model}"));
            format!("{name} {attempt} {kind} {wait_ms}ms{}", next.unwrap_or_default())
        }
        EventKind::Error(failed) => format!("{name} {}: {}", failed.code, failed.message),
        EventKind::SessionEnd { reason } => format!("{name} {}", reason.as_str()),
        _ => name.into(),
    }
}
