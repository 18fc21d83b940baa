//! A conversation as bytes: one pass over the messages, whose work on full blocks is kept with them.
//!
//! Every call goes out with exactly one result, whatever a damaged file or a hook left of the
//! conversation: a missing one is put in its place, one that nobody asked for is left out.

use std::borrow::Cow;

use bytes::Bytes;
use cotter::{
    Message, MessageList,
    history::{
        message::{AssistantMessage, Content, ToolCall, ToolResultMessage},
        outcome::ToolErrorKind,
    },
};
use smol_str::SmolStr;

use crate::pictures;

/// How a provider wants messages. What it remembers from one message to the next is all it may
/// depend on, so that the bytes of a block are the same wherever it is written.
pub(crate) trait Writer: Clone + PartialEq + Send + Sync + 'static {
    /// A message in the person's place.
    fn user(&mut self, out: &mut Vec<u8>, content: &Content);

    /// A reply of a model.
    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage);

    /// The result of a call of the last reply.
    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage);

    /// The last reply's calls have all their results.
    fn results_end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

/// A conversation as it is sent, without what closes it.
pub(crate) struct WrittenConversation<W> {
    pub(crate) pieces: Vec<MessageBytes>,
    /// What the provider's part remembers at the end.
    pub(crate) writer: W,
}

/// The bytes of some messages.
#[derive(Clone)]
pub(crate) struct MessageBytes {
    pub(crate) bytes: Bytes,
    /// Where each message ends.
    ends: std::sync::Arc<[usize]>,
}

/// Writes a conversation. The key names everything the writer depends on besides the messages.
pub(crate) fn write<W: Writer>(
    messages: &MessageList,
    key: &str,
    writer: W,
) -> WrittenConversation<W> {
    let (blocks, tail) = messages.blocks();
    let mut fold = WriterState { writer, open: vec![] };
    let mut pieces = Vec::with_capacity(blocks.len() + 1);
    for block in blocks {
        let kept: &BlockBytes<W> =
            block.keep(key, |block| BlockBytes::of(fold.clone(), block.iter()));
        let written = if kept.entered == fold { kept } else { &BlockBytes::of(fold, block.iter()) };
        pieces.push(written.piece.clone());
        fold = written.left.clone();
    }
    let BlockBytes { mut left, mut piece, .. } = BlockBytes::of(fold, tail);
    if !left.open.is_empty() {
        let mut bytes = piece.bytes.to_vec();
        left.close(&mut bytes);
        piece.bytes = bytes.into();
    }
    pieces.push(piece);
    WrittenConversation { pieces, writer: left.writer }
}

impl<W> WrittenConversation<W> {
    /// Where the message ends that is so many before the last, as a piece and a place in it; `None`
    /// where it left nothing.
    pub(crate) fn end_of(&self, mut back: usize) -> Option<(usize, usize)> {
        for (index, piece) in self.pieces.iter().enumerate().rev() {
            if back < piece.ends.len() {
                let at = piece.ends.len() - 1 - back;
                let start = at.checked_sub(1).map_or(0, |before| piece.ends[before]);
                return (piece.ends[at] > start).then(|| (index, piece.ends[at]));
            }
            back -= piece.ends.len();
        }
        None
    }
}

/// What was written of a block, and how it was entered and left.
struct BlockBytes<W> {
    entered: WriterState<W>,
    left: WriterState<W>,
    piece: MessageBytes,
}

impl<W: Writer> BlockBytes<W> {
    fn of<'m>(entered: WriterState<W>, messages: impl Iterator<Item = &'m Message>) -> Self {
        let (mut left, mut bytes, mut ends) = (entered.clone(), vec![], vec![]);
        for message in messages {
            left.take(&mut bytes, message);
            ends.push(bytes.len());
        }
        BlockBytes { entered, left, piece: MessageBytes { bytes: bytes.into(), ends: ends.into() } }
    }
}

/// The state between two messages.
#[derive(Clone, PartialEq)]
struct WriterState<W> {
    writer: W,
    /// The calls of the last reply that wait for their results.
    open: Vec<(SmolStr, SmolStr)>,
}

impl<W: Writer> WriterState<W> {
    fn take(&mut self, out: &mut Vec<u8>, message: &Message) {
        match message {
            Message::ToolResult(result) => {
                let Some(at) = self.open.iter().position(|(id, _)| *id == result.call_id) else {
                    return;
                };
                self.open.remove(at);
                match pictures::seen(&result.content) {
                    Cow::Borrowed(_) => self.writer.result(out, result),
                    Cow::Owned(content) => {
                        self.writer.result(out, &ToolResultMessage { content, ..result.clone() });
                    }
                }
                if self.open.is_empty() {
                    self.writer.results_end(out);
                }
            }
            Message::User(user) => {
                self.close(out);
                self.writer.user(out, &pictures::seen(&user.content));
            }
            Message::Assistant(reply) => {
                self.close(out);
                self.writer.assistant(out, reply);
                let open =
                    reply.calls().map(|ToolCall { id, name, .. }| (id.clone(), name.clone()));
                self.open = open.collect();
            }
            _ => {}
        }
    }

    /// Answers what was left without an answer: providers refuse a call without a result.
    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.is_empty() {
            return;
        }
        for (call_id, tool_name) in std::mem::take(&mut self.open) {
            let content = Content::Text("The result of this call is lost.".into());
            let error = Some(ToolErrorKind::Unavailable);
            let render_data = None;
            let lost = ToolResultMessage { call_id, tool_name, content, error, render_data };
            self.writer.result(out, &lost);
        }
        self.writer.results_end(out);
    }
}
