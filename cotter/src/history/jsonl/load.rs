//! Reads a session file into an index of its lines by position. Bodies are parsed on first use.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::history::{
    entry::{Entries, Entry, EntryBody, EntryKind, RawLine, SessionHeader},
    ledger::{Record, split_hash},
    line_format,
    store::StoredRecord,
    tree::Tree,
};

/// The contents of a session file. Valid lines are included; every invalid line is reported with its
/// number.
#[derive(Default)]
pub struct LoadedSession {
    /// The first line, if it is a session header.
    pub header: Option<SessionHeader>,
    /// The entries, in the order of the file.
    pub entries: Vec<Arc<Entry>>,
    pub(crate) records: Vec<StoredRecord>,
    pub(crate) last_hash: Option<SmolStr>,
    /// True if the file ends within a line.
    pub(crate) torn: bool,
    /// One diagnostic per unreadable line: `LINE: error`.
    pub diagnostics: Vec<String>,
}

/// Reads the bytes of a session file. Never fails: unreadable lines are skipped and reported.
pub fn load(bytes: Vec<u8>) -> LoadedSession {
    let end = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
    let header = line_format::read_header(&bytes[..end]);
    LoadedSession { header, ..load_lines(bytes, end + 1, 1) }
}

/// Reads lines from the middle of a session file.
pub(crate) fn load_part(bytes: Vec<u8>) -> LoadedSession {
    load_lines(bytes, 0, 0)
}

fn load_lines(bytes: Vec<u8>, mut start: usize, mut number: usize) -> LoadedSession {
    let file = Arc::new(bytes);
    // One check of the whole file is faster than a check per line.
    let all_utf8 = std::str::from_utf8(&file).is_ok();
    let torn = !file.is_empty() && !file.ends_with(b"\n");
    let mut loaded = LoadedSession { torn, ..LoadedSession::default() };
    while start < file.len() {
        let end = memchr::memchr(b'\n', &file[start..]).map_or(file.len(), |offset| start + offset);
        number += 1;
        let line = &file[start..end];
        if !line.trim_ascii().is_empty() {
            let raw = RawLine { file: file.clone(), start, end };
            // A terminated line was written whole and is read by position. An unterminated last line is
            // parsed as JSON.
            let is_terminated = end < file.len();
            let is_utf8 = all_utf8 || std::str::from_utf8(line).is_ok();
            let result = if is_utf8 {
                loaded.add_line(line, raw, is_terminated)
            } else {
                Err("the line is not UTF-8")
            };
            if let Err(error) = result {
                let suffix = if is_terminated { "" } else { " (the file ends within this line)" };
                loaded.diagnostics.push(format!("{number}: {error}{suffix}"));
            }
        }
        start = end + 1;
    }
    loaded
}

/// Returns the text of the first message in the first lines of a file.
pub(crate) fn first_message_text(bytes: &[u8]) -> Option<String> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let messages = lines.filter(|line| line.starts_with(b"{\"type\":\"message\""));
    let texts =
        messages.filter_map(|line| match line_format::read_body(EntryKind::Message, line).1 {
            EntryBody::Message(message) => Some(message.text().into_owned()),
            _ => None,
        });
    texts.take(1).next()
}

/// Returns the last session name in some lines; `Some(None)` if the name was removed.
pub(crate) fn last_session_name(bytes: &[u8]) -> Option<Option<String>> {
    let lines = bytes.rsplit(|byte| *byte == b'\n');
    let mut names = lines.filter(|line| line.starts_with(b"{\"type\":\"session_info\""));
    names.find_map(|line| match line_format::read_body(EntryKind::SessionInfo, line).1 {
        EntryBody::SessionInfo(name) => Some(name),
        _ => None,
    })
}

impl LoadedSession {
    /// Returns the entries from the root to the leaf, oldest first.
    pub fn path(&self) -> Entries {
        Tree::load(self.entries.clone(), |_| {}).path()
    }

    fn add_line(
        &mut self,
        line: &[u8],
        raw: RawLine,
        is_terminated: bool,
    ) -> Result<(), &'static str> {
        let head = if is_terminated { head_by_position(line) } else { None };
        let Some(head) = head else { return self.add_parsed_line(line, raw) };
        match head {
            LineHead::Entry { kind, id, parent } => {
                self.entries.push(Arc::new(Entry::from_raw_line(id, parent, kind, raw)));
            }
            LineHead::Record(kind) => self.add_record(kind, line, raw),
        }
        Ok(())
    }

    /// Reads a line whose keys are not in the fixed order, or that is not JSON.
    fn add_parsed_line(&mut self, line: &[u8], raw: RawLine) -> Result<(), &'static str> {
        let value: Value = serde_json::from_slice(line).map_err(|_| "the line is not JSON")?;
        let kind = value["type"].as_str().ok_or("the line has no `type`")?;
        if let Some(kind) = Record::KINDS.iter().find(|known| **known == kind) {
            self.add_record(kind, line, raw);
            return Ok(());
        }
        let id = value["id"].as_str().ok_or("the line has no `id`")?;
        let parent = value["parentId"].as_str().map(SmolStr::from);
        self.entries.push(Arc::new(Entry::from_raw_line(
            id.into(),
            parent,
            EntryKind::parse(kind),
            raw,
        )));
        Ok(())
    }

    fn add_record(&mut self, kind: &'static str, line: &[u8], raw: RawLine) {
        if let Some((_, hash)) = split_hash(line) {
            self.last_hash = Some(hash.into());
        }
        self.records.push(StoredRecord::Raw(kind, raw));
    }
}

enum LineHead {
    Entry { kind: EntryKind, id: SmolStr, parent: Option<SmolStr> },
    Record(&'static str),
}

/// Reads the envelope of a line with the keys in the fixed order. A truncated line gives `None`.
fn head_by_position(line: &[u8]) -> Option<LineHead> {
    let line = line.strip_suffix(b"}")?;
    let (kind, rest) = read_plain_string(line.strip_prefix(b"{\"type\":\"")?)?;
    if let Some(kind) = Record::KINDS.iter().find(|known| **known == kind) {
        return ends_in_quote(rest).then_some(LineHead::Record(kind));
    }
    let (id, rest) = read_plain_string(rest.strip_prefix(b",\"id\":\"")?)?;
    let rest = rest.strip_prefix(b",\"parentId\":")?;
    let (parent, rest) = match rest.strip_prefix(b"\"") {
        Some(rest) => {
            let (parent, rest) = read_plain_string(rest)?;
            (Some(parent.into()), rest)
        }
        None => (None, rest.strip_prefix(b"null")?),
    };
    rest.strip_prefix(b",\"timestamp\":")?;
    // Bodies written by the core end in an object or a plain value. A line that was cut inside a string has
    // another last byte and is parsed as JSON.
    let is_complete = matches!(rest.last(), Some(b'}' | b'"' | b']' | b'0'..=b'9' | b'l' | b'e'));
    is_complete.then(|| LineHead::Entry { kind: EntryKind::parse(kind), id: id.into(), parent })
}

fn ends_in_quote(rest: &[u8]) -> bool {
    rest.last() == Some(&b'"')
}

/// Reads a JSON string without escapes, after its opening quote. Returns the string and the rest after it.
fn read_plain_string(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', bytes)?;
    let (text, rest) = bytes.split_at(end);
    Some((std::str::from_utf8(text).ok()?, rest.strip_prefix(b"\"")?))
}
