//! Notes: texts from hooks and tools to the model, delivered as `<system-reminder>` blocks.
//!
//! Each session has one queue. Notes are rendered for an attempt and leave the queue only when the attempt
//! succeeds, so a retry loses nothing.

use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use smol_str::SmolStr;

use crate::{
    history::ledger::HandlerId,
    hooks::chain::HandlerMeta,
    permission::origin::{Origin, Owner},
    text::{
        self,
        tags::{NOTE_TAG, escape},
    },
};

/// The limit of one owner's notes in one request, in bytes.
const CAP_PER_OWNER: usize = 16 * 1024;
/// The limit of waiting notes. Further notes are dropped, and one more note says so.
const CAP_WAITING: usize = 256;

/// The kind of text in a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoteKind {
    /// Information for the model.
    Context,
    /// The output of a hook.
    Output,
}

/// The author of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoteAuthor {
    Runtime,
    /// A hook at a point.
    Hook(HandlerId),
    /// A tool at work on a call.
    Tool(Arc<ToolCallRef>),
    /// A hook on a directive, a skill, a subagent or a command.
    Named(Arc<NamedCaller>),
}

/// The call that a tool works on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolCallRef {
    pub(crate) tool: SmolStr,
    /// The owner of the running tool. The tool's name may belong to another tool meanwhile.
    pub(crate) owner: Owner,
    pub(crate) call_id: SmolStr,
}

/// An item that was called by name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedCaller {
    kind: &'static str,
    name: SmolStr,
    pub(crate) owner: Owner,
}

impl NoteAuthor {
    pub(crate) fn named(kind: &'static str, name: &SmolStr, owner: Owner) -> Self {
        NoteAuthor::Named(Arc::new(NamedCaller { kind, name: name.clone(), owner }))
    }
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    author: NoteAuthor,
    kind: NoteKind,
    text: String,
}

impl Note {
    fn overflow_notice() -> Self {
        let text = "There were more notes than fit; the rest is left out.".into();
        Note { author: NoteAuthor::Runtime, kind: NoteKind::Context, text }
    }
}

/// A note as it was sent: its author and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentNote {
    pub(crate) owner: SmolStr,
    pub(crate) text: String,
}

/// The queue of a session.
#[derive(Debug, Default)]
pub(crate) struct NoteQueue(Mutex<Vec<Note>>);

impl NoteQueue {
    pub(crate) fn push(&self, author: NoteAuthor, kind: NoteKind, text: String) {
        if text.trim().is_empty() {
            return;
        }
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let note = Note { author, kind, text };
        // A gate that is asked again repeats its note.
        if notes.contains(&note) {
            return;
        }
        match notes.len() {
            ..CAP_WAITING => notes.push(note),
            CAP_WAITING => notes.push(Note::overflow_notice()),
            _ => {}
        }
    }

    /// Adds a note of the runtime.
    pub(crate) fn push_from_runtime(&self, text: String) {
        self.push(NoteAuthor::Runtime, NoteKind::Context, text);
    }

    /// Returns the waiting notes. They stay in the queue until they are acknowledged.
    pub(crate) fn pending_notes(&self) -> Vec<Note> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.is_empty() { vec![] } else { notes.clone() }
    }

    /// Removes the first `count` notes, which have been delivered.
    pub(crate) fn acknowledge(&self, count: usize) {
        if count > 0 {
            let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = count.min(notes.len());
            notes.drain(..count);
        }
    }
}

/// Renders notes for a request, each in its own block, and returns the author and text of each.
///
/// `find_hook` returns a hook if it is still loaded.
pub(crate) fn render<'a>(
    notes: &[Note],
    find_hook: impl Fn(HandlerId) -> Option<&'a Arc<HandlerMeta>>,
) -> (String, Vec<SentNote>) {
    let mut text = String::new();
    let mut sent = vec![];
    let mut used: Vec<(SmolStr, usize)> = vec![];
    for note in notes {
        let (owner, lead) = introduce(note, &find_hook);
        let used_bytes = match used.iter_mut().find(|(name, _)| *name == owner) {
            Some((_, bytes)) => bytes,
            None => &mut used.push_mut((owner.clone(), 0)).1,
        };
        let cut_text = text::cut_bytes(&note.text, CAP_PER_OWNER.saturating_sub(*used_bytes));
        *used_bytes += cut_text.len();
        let block = escape(&format!("{lead}{cut_text}"));
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "<{NOTE_TAG}>\n{block}\n</{NOTE_TAG}>");
        sent.push(SentNote { owner, text: block });
    }
    (text, sent)
}

/// Returns the text for the model when a hook blocked an action.
pub(crate) fn block_message(name: &str, reason: &str) -> String {
    let reason = reason.trim().trim_end_matches('.');
    let reason = if reason.is_empty() { "it gave no reason" } else { reason };
    format!(
        "Hook \"{name}\" blocked the action: {reason}. Adjust your approach; do not retry the exact same call."
    )
}

/// Returns the name of a note's author and the phrase that introduces the note.
fn introduce<'a>(
    note: &Note,
    find_hook: impl Fn(HandlerId) -> Option<&'a Arc<HandlerMeta>>,
) -> (SmolStr, String) {
    let id = match &note.author {
        NoteAuthor::Runtime => return ("cotter".into(), String::new()),
        NoteAuthor::Tool(call) => {
            let name = call.tool.clone();
            let lead = format!("From the tool \"{name}\": ");
            return (name, lead);
        }
        NoteAuthor::Named(caller) => {
            let NamedCaller { kind, name, owner } = &**caller;
            return (
                name.clone(),
                format!("From the {kind} \"{name}\"{}: ", origin_suffix(&owner.origin)),
            );
        }
        NoteAuthor::Hook(id) => *id,
    };
    let Some(meta) = find_hook(id) else {
        return ("unloaded".into(), "A hook that is no longer loaded says: ".into());
    };
    let name = &meta.name;
    let suffix = origin_suffix(&meta.owner.origin);
    let lead = match note.kind {
        NoteKind::Output => format!("Output of hook \"{name}\"{suffix}: "),
        NoteKind::Context => format!("From hook \"{name}\"{suffix}: "),
    };
    (name.clone(), lead)
}

/// Returns a phrase that names the project, space or profile of a note's author; empty for other origins.
fn origin_suffix(origin: &Origin) -> String {
    match origin {
        Origin::Project => " of this project".to_owned(),
        Origin::Space(id) => format!(" of the space \"{id}\""),
        Origin::Profile(profile) => format!(" of the profile \"{profile}\""),
        _ => String::new(),
    }
}
