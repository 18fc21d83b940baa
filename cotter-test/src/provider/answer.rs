//! What a local provider says to one request, whatever it speaks: a reply, a status, or bytes; whole,
//! or cut off somewhere.

use std::time::Duration;

use cotter::{
    history::message::{StopReason, Usage},
    model::ModelErrorKind,
};
use serde_json::Value;

/// One answer of a [`LocalProvider`](super::LocalProvider).
///
/// ```
/// use cotter_test::{After, Answer, Cut};
/// use serde_json::json;
///
/// let reads_twice = Answer::thinking("Both files, then.")
///     .and_text("I look.")
///     .and_call("call_1", "read", json!({"path": "a"}))
///     .and_call("call_2", "read", json!({"path": "b"}));
/// let too_much = Answer::status(429).and_header("retry-after", "2");
/// let drops = Answer::text("I was about to").and_cut(After::Events(2), Cut::Reset);
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) what: What,
    pub(super) headers: Vec<(String, String)>,
    pub(super) cut: Option<(After, Cut)>,
    pub(super) is_gzipped: bool,
    /// How many bytes come at once, in turn; an event, where nothing is said.
    pub(super) pieces: Vec<usize>,
    pub(super) has_pings: bool,
    pub(super) comment: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Reply(Reply),
    Status { status: u16, body: Option<Vec<u8>> },
    Events(Vec<u8>),
    Raw(Vec<u8>),
}

/// A model's reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    pub(super) parts: Vec<Part>,
    pub(super) stop: Option<StopReason>,
    pub(super) usage: Usage,
    pub(super) error: Option<ModelErrorKind>,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    Thought(Thought),
    Call { id: String, name: String, input: String },
    Refusal(String),
}

/// What a model thought.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Thought {
    Shown(String),
    /// What only the provider can read.
    Hidden(String),
}

impl Reply {
    pub(super) fn calls(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call { id, .. } => Some(id.as_str()),
            _ => None,
        })
    }

    pub(super) fn thoughts(&self) -> impl Iterator<Item = &Thought> {
        self.parts.iter().filter_map(|part| match part {
            Part::Thought(thought) => Some(thought),
            _ => None,
        })
    }

    /// Why it stops: as the script says, or as its parts tell.
    pub(super) fn stop(&self) -> StopReason {
        let declines = self.parts.iter().any(|part| matches!(part, Part::Refusal(_)));
        self.stop.unwrap_or_else(|| match () {
            () if self.calls().next().is_some() => StopReason::ToolUse,
            () if declines => StopReason::Refusal,
            () => StopReason::EndTurn,
        })
    }
}

/// Where an answer is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum After {
    /// Before anything was sent, its status included.
    Nothing,
    /// After so many events.
    Events(usize),
    /// After so many bytes of its body.
    Bytes(usize),
    /// When all was said but that this was all.
    Said,
}

/// How an answer is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// The connection is reset.
    Reset,
    /// The connection is closed as if nothing were missing.
    Close,
    /// Nothing more comes until [`release`](super::LocalProvider::release); then the rest does.
    Hang,
}

impl Answer {
    /// A reply that says something, a word per event.
    pub fn text(text: impl Into<String>) -> Self {
        Answer::reply().and_text(text)
    }

    /// A reply that begins with a thought, signed where the dialect signs.
    pub fn thinking(text: impl Into<String>) -> Self {
        Answer::reply().and_thinking(text)
    }

    /// A reply that calls a tool, under an id of one's choice.
    pub fn call(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Answer::reply().and_call(id, name, input)
    }

    /// A reply that declines, in words where there are any.
    pub fn refusal(words: impl Into<String>) -> Self {
        Answer::reply().and_part(Part::Refusal(words.into()))
    }

    /// A reply with nothing in it.
    pub fn reply() -> Self {
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        Answer::of(What::Reply(Reply { usage, ..Reply::default() }))
    }

    /// A failure, in the provider's own words for that status.
    pub fn status(status: u16) -> Self {
        Answer::of(What::Status { status, body: None })
    }

    /// Nothing at all, until [`release`](super::LocalProvider::release).
    pub fn hang() -> Self {
        Answer::reply().and_cut(After::Nothing, Cut::Hang)
    }

    /// A stream of events, byte for byte: a recording.
    pub fn events(bytes: impl Into<Vec<u8>>) -> Self {
        Answer::of(What::Events(bytes.into()))
    }

    /// These bytes and the end of the connection, head and all.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Answer::of(What::Raw(bytes.into()))
    }

    fn of(what: What) -> Self {
        Answer {
            what,
            headers: vec![],
            cut: None,
            is_gzipped: false,
            pieces: vec![],
            has_pings: false,
            comment: None,
        }
    }

    /// Says something more.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and_part(Part::Text(text.into()))
    }

    /// Thinks something more.
    pub fn and_thinking(self, text: impl Into<String>) -> Self {
        self.and_part(Part::Thought(Thought::Shown(text.into())))
    }

    /// Thinks something that only the provider can read. Chat Completions have no word for it.
    pub fn and_hidden_thinking(self, data: impl Into<String>) -> Self {
        self.and_part(Part::Thought(Thought::Hidden(data.into())))
    }

    /// Calls a further tool.
    pub fn and_call(self, id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        self.and_broken_call(id, name, input.to_string())
    }

    /// Calls a tool with an input that need not be JSON.
    pub fn and_broken_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Self {
        self.and_part(Part::Call { id: id.into(), name: name.into(), input: input.into() })
    }

    fn and_part(self, part: Part) -> Self {
        self.with_reply(|reply| reply.parts.push(part))
    }

    /// Stops for another reason than the obvious one.
    pub fn and_stop(self, reason: StopReason) -> Self {
        self.with_reply(|reply| reply.stop = Some(reason))
    }

    /// Uses that many tokens. Counted as ours are: `input_tokens` are those that no cache knows.
    pub fn and_usage(self, usage: Usage) -> Self {
        self.with_reply(|reply| reply.usage = usage)
    }

    /// Fails after what it says, with an event instead of an end.
    pub fn and_error(self, kind: ModelErrorKind) -> Self {
        self.with_reply(|reply| reply.error = Some(kind))
    }

    fn with_reply(mut self, change: impl FnOnce(&mut Reply)) -> Self {
        if let What::Reply(reply) = &mut self.what {
            change(reply);
        }
        self
    }

    /// Has another header.
    pub fn and_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Asks to be left alone for a while, in whole seconds.
    pub fn and_retry_after(self, wait: Duration) -> Self {
        self.and_header("retry-after", wait.as_secs().to_string())
    }

    /// A status with another body than the provider's own.
    pub fn and_body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        if let What::Status { body, .. } = &mut self.what {
            *body = Some(bytes.into());
        }
        self
    }

    /// Is cut off.
    pub fn and_cut(mut self, after: After, cut: Cut) -> Self {
        self.cut = Some((after, cut));
        self
    }

    /// Says what it says and not that this was all, until
    /// [`release`](super::LocalProvider::release).
    pub fn and_hang(self) -> Self {
        self.and_cut(After::Said, Cut::Hang)
    }

    /// Comes compressed. Every event can be read as soon as it is there.
    pub fn and_gzip(mut self) -> Self {
        self.is_gzipped = true;
        self
    }

    /// Comes in pieces of so many bytes, whatever they cut in two.
    pub fn and_pieces_of(self, bytes: usize) -> Self {
        self.and_pieces([bytes])
    }

    /// Comes in pieces of these sizes: when the last was used, the first is again.
    pub fn and_pieces(mut self, sizes: impl IntoIterator<Item = usize>) -> Self {
        self.pieces = sizes.into_iter().map(|size| size.max(1)).collect();
        self
    }

    /// Has a sign of life before every event, such as the dialect has.
    pub fn and_pings(mut self) -> Self {
        self.has_pings = true;
        self
    }

    /// Has a comment before every event.
    pub fn and_comments(mut self, text: impl Into<String>) -> Self {
        self.comment = Some(text.into());
        self
    }
}

/// A text word by word.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// A text by some letters at a time: inputs of calls are cut anywhere.
pub(super) fn bits(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(7).map(|chunk| chunk.iter().collect()).collect()
}
