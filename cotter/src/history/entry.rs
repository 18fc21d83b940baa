//! The lines of a session: entries, which form a tree, and records, which do not.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::history::{
    chunked_vec::ChunkedVec,
    line_format,
    message::{Content, Message, UserMessage, UserMessageKind},
};

/// A time in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the current time.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Parses an RFC 3339 text.
    pub fn parse(text: &str) -> Option<Self> {
        let time = humantime::parse_rfc3339_weak(text).ok()?;
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        Some(Timestamp(u64::try_from(since.as_millis()).ok()?))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last time with a year of four digits.
        let millis = self.0.min(253_402_300_799_999);
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)).fmt(f)
    }
}

/// The version of the session format that this library writes.
pub(crate) const VERSION: u64 = 1;

/// The first line of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHeader {
    /// The version of the format.
    pub v: u64,
    /// The session's id.
    pub id: SmolStr,
    /// The folder in which the session was started.
    pub cwd: PathBuf,
    /// The time at which the session was created.
    pub created_at: Timestamp,
    /// The session from which this session was forked.
    pub parent: Option<SmolStr>,
}

impl SessionHeader {
    /// Creates the header of a new session.
    pub fn new(id: SmolStr, cwd: &Path) -> Self {
        SessionHeader {
            v: VERSION,
            id,
            cwd: cwd.into(),
            created_at: Timestamp::now(),
            parent: None,
        }
    }
}

/// One entry of a session's tree. An entry from a file parses its line on first use.
pub struct Entry {
    id: SmolStr,
    parent_id: Option<SmolStr>,
    kind: EntryKind,
    raw: Option<RawLine>,
    parsed: OnceLock<Box<ParsedEntry>>,
}

struct ParsedEntry {
    timestamp: Timestamp,
    body: EntryBody,
}

/// A line of a file whose bytes stay in memory.
#[derive(Clone)]
pub(crate) struct RawLine {
    pub(crate) file: Arc<Vec<u8>>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl RawLine {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.file[self.start..self.end]
    }
}

/// The kind of an entry, known without parsing its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Message,
    Compaction,
    ModelChange,
    ThinkingLevel,
    Label,
    SessionInfo,
    SecretRead,
    Leaf,
    SkillActive,
    Custom,
}

impl EntryKind {
    const WORDS: [(EntryKind, &'static str); 9] = [
        (EntryKind::Message, "message"),
        (EntryKind::Compaction, "compaction"),
        (EntryKind::ModelChange, "model_change"),
        (EntryKind::ThinkingLevel, "thinking_level_change"),
        (EntryKind::Label, "label"),
        (EntryKind::SessionInfo, "session_info"),
        (EntryKind::SecretRead, "secret_read"),
        (EntryKind::Leaf, "leaf"),
        (EntryKind::SkillActive, "skill_active"),
    ];

    /// Parses a type name. A name that is not in the table is a custom kind.
    pub(crate) fn parse(word: &str) -> Self {
        let row = Self::WORDS.iter().find(|(_, name)| *name == word);
        row.map_or(EntryKind::Custom, |(kind, _)| *kind)
    }

    pub(crate) fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("custom", |(_, word)| word)
    }
}

/// The content of an entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EntryBody {
    /// A message of the conversation.
    Message(Message),
    /// A summary of the earlier conversation.
    Compaction(Box<Compaction>),
    /// The model from this entry on.
    ModelChange(SmolStr),
    /// The thinking level from this entry on.
    ThinkingLevel(SmolStr),
    /// Sets or removes the label of an entry.
    Label {
        /// The labelled entry.
        target: SmolStr,
        /// The label; `None` removes it.
        label: Option<String>,
    },
    /// Sets the session's name; `None` removes it.
    SessionInfo(Option<String>),
    /// A secret was read. From this entry on, a person is asked about calls that may send data out of the
    /// machine.
    SecretRead(String),
    /// Moves the leaf to an entry; `None` is before the first entry.
    Leaf(Option<SmolStr>),
    /// Adds a skill to the context from this entry on.
    SkillActive {
        /// The skill's name.
        name: SmolStr,
        /// The skill's text if it is in the system prompt; empty if a message delivers it.
        text: String,
    },
    /// An extension's own entry, with all its fields except the core's. The core ignores it and keeps it.
    Custom(Map<String, Value>),
    /// A line that could not be parsed. It stays in the file; everything else ignores it.
    Unreadable,
}

/// A summary of the earlier conversation.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// The summary as the model reads it.
    pub message: Message,
    /// The first entry that is kept after the summary.
    pub first_kept: SmolStr,
    /// The number of tokens of the context before the compaction.
    pub tokens_before: u64,
}

impl Compaction {
    /// Creates a summary that replaces everything before `first_kept`.
    pub fn new(summary: impl Into<String>, first_kept: SmolStr, tokens_before: u64) -> Self {
        let message =
            UserMessage::with_kind(Content::Text(summary.into()), UserMessageKind::Compaction);
        Compaction { message: Message::User(message), first_kept, tokens_before }
    }
}

impl EntryBody {
    pub(crate) fn kind(&self) -> EntryKind {
        match self {
            EntryBody::Message(_) => EntryKind::Message,
            EntryBody::Compaction(_) => EntryKind::Compaction,
            EntryBody::ModelChange(_) => EntryKind::ModelChange,
            EntryBody::ThinkingLevel(_) => EntryKind::ThinkingLevel,
            EntryBody::Label { .. } => EntryKind::Label,
            EntryBody::SessionInfo(_) => EntryKind::SessionInfo,
            EntryBody::SecretRead(_) => EntryKind::SecretRead,
            EntryBody::Leaf(_) => EntryKind::Leaf,
            EntryBody::SkillActive { .. } => EntryKind::SkillActive,
            EntryBody::Custom(_) | EntryBody::Unreadable => EntryKind::Custom,
        }
    }
}

impl Entry {
    pub(crate) fn new(
        id: SmolStr,
        parent_id: Option<SmolStr>,
        timestamp: Timestamp,
        body: EntryBody,
    ) -> Self {
        let kind = body.kind();
        let parsed = OnceLock::from(Box::new(ParsedEntry { timestamp, body }));
        Entry { id, parent_id, kind, raw: None, parsed }
    }

    /// Creates an entry for a message of a request that is in no session.
    pub(crate) fn unstored(message: Message) -> Self {
        Entry::new(SmolStr::default(), None, Timestamp::default(), EntryBody::Message(message))
    }

    /// Creates an entry for a message of a request that replaces the message of the entry `id`.
    pub(crate) fn in_place_of(id: &SmolStr, message: Message) -> Self {
        Entry::new(id.clone(), None, Timestamp::default(), EntryBody::Message(message))
    }

    #[cfg(feature = "jsonl")]
    pub(crate) fn from_raw_line(
        id: SmolStr,
        parent_id: Option<SmolStr>,
        kind: EntryKind,
        raw: RawLine,
    ) -> Self {
        Entry { id, parent_id, kind, raw: Some(raw), parsed: OnceLock::new() }
    }

    /// The entry's id within the session.
    pub fn id(&self) -> &SmolStr {
        &self.id
    }

    /// The id of the entry before this one on its branch.
    pub fn parent_id(&self) -> Option<&SmolStr> {
        self.parent_id.as_ref()
    }

    pub(crate) fn stored_id(&self) -> Option<&SmolStr> {
        (!self.id.is_empty()).then_some(&self.id)
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The time at which the entry was written.
    pub fn timestamp(&self) -> Timestamp {
        self.parsed().timestamp
    }

    /// The content of the entry. Parses the line on first use.
    pub fn body(&self) -> &EntryBody {
        &self.parsed().body
    }

    /// The message, if the entry is a message.
    pub fn message(&self) -> Option<&Message> {
        match self.body() {
            EntryBody::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The message that the entry adds to a context: its own, or a summary.
    pub(crate) fn context_message(&self) -> Option<&Message> {
        match self.body() {
            EntryBody::Message(message) => Some(message),
            EntryBody::Compaction(compaction) => Some(&compaction.message),
            _ => None,
        }
    }

    /// True if `sent`, which a transform returned, is this entry or a replacement of it.
    pub(crate) fn is_source_of(self: &Arc<Self>, sent: &Arc<Entry>) -> bool {
        Arc::ptr_eq(self, sent) || (sent.stored_id().is_some() && self.id == sent.id)
    }

    pub(crate) fn raw(&self) -> Option<&RawLine> {
        self.raw.as_ref()
    }

    /// Returns the entry as a JSON object, as in a session file.
    pub fn to_json(&self) -> Value {
        let mut line = vec![];
        match &self.raw {
            Some(raw) => line.extend_from_slice(raw.bytes()),
            None => line_format::write_entry(&mut line, self),
        }
        serde_json::from_slice(&line).unwrap_or(Value::Null)
    }

    fn parsed(&self) -> &ParsedEntry {
        self.parsed.get_or_init(|| {
            let bytes = self.raw.as_ref().map_or(&[][..], RawLine::bytes);
            let (timestamp, body) = line_format::read_body(self.kind, bytes);
            Box::new(ParsedEntry { timestamp, body })
        })
    }
}

/// The entries from the root of a session to its leaf, oldest first. Cheap to clone. The list only grows,
/// so an index stays valid.
#[derive(Clone, Default)]
pub struct Entries(pub(crate) ChunkedVec<Arc<Entry>>);

impl Entries {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry at an index.
    pub fn get(&self, index: usize) -> Option<&Arc<Entry>> {
        self.0.get(index)
    }

    /// The last entry.
    pub fn last(&self) -> Option<&Arc<Entry>> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.0.iter()
    }
}

impl std::ops::Index<usize> for Entries {
    type Output = Arc<Entry>;
    fn index(&self, index: usize) -> &Arc<Entry> {
        self.get(index).expect("the index is below the number of entries")
    }
}

impl<'a> IntoIterator for &'a Entries {
    type Item = &'a Arc<Entry>;
    type IntoIter = Box<dyn Iterator<Item = &'a Arc<Entry>> + 'a>;
    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl IntoIterator for Entries {
    type Item = Arc<Entry>;
    type IntoIter = std::vec::IntoIter<Arc<Entry>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter().cloned().collect::<Vec<_>>().into_iter()
    }
}

impl FromIterator<Arc<Entry>> for Entries {
    fn from_iter<I: IntoIterator<Item = Arc<Entry>>>(entries: I) -> Self {
        let mut all = Entries::default();
        entries.into_iter().for_each(|entry| all.0.push(entry));
        all
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.id)
    }
}
