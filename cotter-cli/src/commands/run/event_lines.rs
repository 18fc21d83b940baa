//! The events of a run as lines of JSON without secrets. The texts of a model and of a tool at work come in
//! pieces, so the end of a piece can be held back until it is clear that it begins no secret.

use std::collections::HashMap;

use cotter::{
    hooks::events::{Event, EventKind},
    text::redact::{Redactor, pieces::RedactedPieces},
};
use serde_json::Value;
use smol_str::SmolStr;

/// The events of a run as lines of JSON.
#[derive(Default)]
pub(super) struct EventLines {
    redactor: Redactor,
    texts: HashMap<TextKey, OpenText>,
    last_seq: u64,
}

/// The text that a piece belongs to.
#[derive(Clone, PartialEq, Eq, Hash)]
enum TextKey {
    /// What the model of a run says or thinks, one at a time.
    OfModel(SmolStr),
    /// The output of a call.
    OfCall(SmolStr, SmolStr),
}

/// A text with its last event.
struct OpenText {
    pieces: RedactedPieces,
    last: Event,
}

impl EventLines {
    pub(super) fn new(redactor: Redactor) -> Self {
        EventLines { redactor, ..EventLines::default() }
    }

    /// Returns a JSON text without secrets. A text without any stays as it is.
    pub(super) fn redact_line(&self, line: String) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(&line) else {
            return self.redactor.redact(&line).into_owned();
        };
        let before = value.clone();
        self.redactor.redact_json(&mut value);
        if value == before { line } else { value.to_string() }
    }

    /// Returns the text without secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    /// Returns the lines that an event adds, each with its newline.
    pub(super) fn add(&mut self, event: &Event) -> String {
        let run = || event.run_id.clone();
        let mut lines = String::new();
        match &event.kind {
            EventKind::TextDelta { text } | EventKind::ThinkingDelta { text } => {
                self.add_piece(&mut lines, TextKey::OfModel(run()), event, text);
            }
            EventKind::ToolOutput { call_id, text } => {
                self.add_piece(&mut lines, TextKey::OfCall(run(), call_id.clone()), event, text);
            }
            kind => {
                match kind {
                    EventKind::ToolResult { call_id, .. } => {
                        self.end_text(&mut lines, &TextKey::OfCall(run(), call_id.clone()));
                    }
                    EventKind::SessionEnd { .. } => lines += &self.finish(),
                    _ => self.end_text(&mut lines, &TextKey::OfModel(run())),
                }
                self.put(&mut lines, event.clone());
            }
        }
        lines
    }

    /// Returns what is held back.
    pub(super) fn finish(&mut self) -> String {
        let mut lines = String::new();
        let keys: Vec<_> = self.texts.keys().cloned().collect();
        keys.iter().for_each(|key| self.end_text(&mut lines, key));
        lines
    }

    fn add_piece(&mut self, lines: &mut String, key: TextKey, event: &Event, piece: &str) {
        let new = || OpenText { pieces: RedactedPieces::default(), last: event.clone() };
        let open = self.texts.entry(key).or_insert_with(new);
        let ready = open.pieces.push(&self.redactor, piece);
        open.last = event.clone();
        if !ready.is_empty() {
            self.put(lines, with_text(event.clone(), ready));
        }
    }

    fn end_text(&mut self, lines: &mut String, key: &TextKey) {
        let Some(mut open) = self.texts.remove(key) else { return };
        let rest = open.pieces.finish(&self.redactor);
        if !rest.is_empty() {
            self.put(lines, with_text(open.last, rest));
        }
    }

    fn put(&mut self, lines: &mut String, mut event: Event) {
        // What was held back comes after its event, so later numbers may move up.
        event.seq = event.seq.max(self.last_seq + 1);
        self.last_seq = event.seq;
        *lines += &self.redact_line(event.to_json());
        lines.push('\n');
    }
}

fn with_text(mut event: Event, new: String) -> Event {
    if let EventKind::TextDelta { text }
    | EventKind::ThinkingDelta { text }
    | EventKind::ToolOutput { text, .. } = &mut event.kind
    {
        *text = new;
    }
    event
}
