//! An answer of a local provider to one request, independent of the dialect: a reply, a status or
//! raw bytes; complete or cut off.

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
    pub(super) kind: AnswerBody,
    pub(super) headers: Vec<(String, String)>,
    pub(super) cut: Option<(After, Cut)>,
    pub(super) is_gzipped: bool,
    /// The sizes of the chunks in bytes, repeated in turn. Empty: one chunk per event.
    pub(super) pieces: Vec<usize>,
    pub(super) has_pings: bool,
    pub(super) comment: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum AnswerBody {
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

/// A thought of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Thought {
    Shown(String),
    /// Encrypted: only the provider can read it.
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

    /// The stop reason: the script's, or else by the parts.
    pub(super) fn stop(&self) -> StopReason {
        let has_refusal = self.parts.iter().any(|part| matches!(part, Part::Refusal(_)));
        self.stop.unwrap_or_else(|| match () {
            () if self.calls().next().is_some() => StopReason::ToolUse,
            () if has_refusal => StopReason::Refusal,
            () => StopReason::EndTurn,
        })
    }
}

/// The point where an answer is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum After {
    /// Before anything is sent, even the status.
    Nothing,
    /// After that many events.
    Events(usize),
    /// After that many bytes of the body.
    Bytes(usize),
    /// After the content, before the events that end the reply.
    Content,
}

/// How an answer is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// The connection is reset.
    Reset,
    /// The connection is closed in the normal way.
    Close,
    /// Nothing is sent until [`release`](super::LocalProvider::release); then the rest is.
    Hang,
    /// Single bytes of a comment are sent for as long as the client stays.
    Drip,
}

impl Answer {
    /// A reply with a text, one word per event.
    pub fn text(text: impl Into<String>) -> Self {
        Answer::reply().and_text(text)
    }

    /// A reply that begins with a thought, signed if the dialect signs.
    pub fn thinking(text: impl Into<String>) -> Self {
        Answer::reply().and_thinking(text)
    }

    /// A reply that calls a tool, with a given call id.
    pub fn call(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Answer::reply().and_call(id, name, input)
    }

    /// A reply that refuses, with a text or an empty string.
    pub fn refusal(text: impl Into<String>) -> Self {
        Answer::reply().and_part(Part::Refusal(text.into()))
    }

    /// An empty reply.
    pub fn reply() -> Self {
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        Answer::of(AnswerBody::Reply(Reply { usage, ..Reply::default() }))
    }

    /// An error status with the provider's own message.
    pub fn status(status: u16) -> Self {
        Answer::of(AnswerBody::Status { status, body: None })
    }

    /// No answer until [`release`](super::LocalProvider::release).
    pub fn hang() -> Self {
        Answer::reply().and_cut(After::Nothing, Cut::Hang)
    }

    /// A recorded event stream, sent byte for byte.
    pub fn events(bytes: impl Into<Vec<u8>>) -> Self {
        Answer::of(AnswerBody::Events(bytes.into()))
    }

    /// Sends these bytes as the whole response, head included, and closes the connection.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Answer::of(AnswerBody::Raw(bytes.into()))
    }

    fn of(kind: AnswerBody) -> Self {
        Answer {
            kind,
            headers: vec![],
            cut: None,
            is_gzipped: false,
            pieces: vec![],
            has_pings: false,
            comment: None,
        }
    }

    /// Adds a text.
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and_part(Part::Text(text.into()))
    }

    /// Adds a thought.
    pub fn and_thinking(self, text: impl Into<String>) -> Self {
        self.and_part(Part::Thought(Thought::Shown(text.into())))
    }

    /// Adds an encrypted thought. Chat Completions cannot carry one.
    pub fn and_hidden_thinking(self, data: impl Into<String>) -> Self {
        self.and_part(Part::Thought(Thought::Hidden(data.into())))
    }

    /// Adds a tool call.
    pub fn and_call(self, id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        self.and_broken_call(id, name, input.to_string())
    }

    /// Adds a tool call whose input need not be JSON.
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

    /// Sets the stop reason.
    pub fn and_stop(self, reason: StopReason) -> Self {
        self.with_reply(|reply| reply.stop = Some(reason))
    }

    /// Sets the usage, counted as in Cotter: `input_tokens` are the uncached ones.
    pub fn and_usage(self, usage: Usage) -> Self {
        self.with_reply(|reply| reply.usage = usage)
    }

    /// Ends the reply with an error event.
    pub fn and_error(self, kind: ModelErrorKind) -> Self {
        self.with_reply(|reply| reply.error = Some(kind))
    }

    fn with_reply(mut self, change: impl FnOnce(&mut Reply)) -> Self {
        if let AnswerBody::Reply(reply) = &mut self.kind {
            change(reply);
        }
        self
    }

    /// Adds a header.
    pub fn and_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a `retry-after` header, in whole seconds.
    pub fn and_retry_after(self, wait: Duration) -> Self {
        self.and_header("retry-after", wait.as_secs().to_string())
    }

    /// Replaces the provider's own body of a status.
    pub fn and_body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        if let AnswerBody::Status { body, .. } = &mut self.kind {
            *body = Some(bytes.into());
        }
        self
    }

    /// Cuts the answer off.
    pub fn and_cut(mut self, after: After, cut: Cut) -> Self {
        self.cut = Some((after, cut));
        self
    }

    /// Sends the content but not the end, until [`release`](super::LocalProvider::release).
    pub fn and_hang(self) -> Self {
        self.and_cut(After::Content, Cut::Hang)
    }

    /// Compresses the body. Each event is flushed, so it can be read at once.
    pub fn and_gzip(mut self) -> Self {
        self.is_gzipped = true;
        self
    }

    /// Sends the body in chunks of that many bytes, wherever this splits it.
    pub fn and_pieces_of(self, bytes: usize) -> Self {
        self.and_pieces([bytes])
    }

    /// Sends the body in chunks of these sizes, repeated in turn.
    pub fn and_pieces(mut self, sizes: impl IntoIterator<Item = usize>) -> Self {
        self.pieces = sizes.into_iter().map(|size| size.max(1)).collect();
        self
    }

    /// Adds a ping of the dialect before every event.
    pub fn and_pings(mut self) -> Self {
        self.has_pings = true;
        self
    }

    /// Adds a comment before every event.
    pub fn and_comments(mut self, text: impl Into<String>) -> Self {
        self.comment = Some(text.into());
        self
    }
}

/// The words of a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// A text in chunks of seven characters: inputs of calls are split anywhere.
pub(super) fn chunks_of_seven(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(7).map(|chunk| chunk.iter().collect()).collect()
}
