//! A conversation as bytes, written in one pass. The bytes of full blocks are cached with their
//! messages.
//!
//! Every call goes out with exactly one result, even if a damaged file or a hook changed the
//! conversation: a missing result is replaced by an error text, a result without a call is left
//! out.

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

/// A provider's message format. A writer may depend only on its own state, so that the bytes of a
/// block are the same in every request.
pub(crate) trait Writer: Clone + PartialEq + Send + Sync + 'static {
    /// Writes a user message.
    fn user(&mut self, out: &mut Vec<u8>, content: &Content);

    /// Writes a reply of a model.
    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage);

    /// Writes the result of a call of the last reply.
    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage);

    /// Called when all calls of the last reply have their results.
    fn results_end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

/// A conversation as it is sent, without its closing bytes.
pub(crate) struct WrittenConversation<W> {
    pub(crate) pieces: Vec<MessageBytes>,
    /// The writer's state after the last message.
    pub(crate) writer: W,
}

/// The bytes of some messages.
#[derive(Clone)]
pub(crate) struct MessageBytes {
    pub(crate) bytes: Bytes,
    /// The end of each message.
    ends: std::sync::Arc<[usize]>,
}

/// Writes a conversation. `key` names everything the writer depends on besides the messages.
pub(crate) fn write<W: Writer>(
    messages: &MessageList,
    key: &str,
    writer: W,
) -> WrittenConversation<W> {
    let (blocks, tail) = messages.blocks();
    let mut state = WriterState { writer, open_calls: vec![] };
    let mut pieces = Vec::with_capacity(blocks.len() + 1);
    for block in blocks {
        let cached: &BlockBytes<W> =
            block.memoize(key, |block| BlockBytes::of(state.clone(), block.iter()));
        let written =
            if cached.before == state { cached } else { &BlockBytes::of(state, block.iter()) };
        pieces.push(written.piece.clone());
        state = written.after.clone();
    }
    let BlockBytes { mut after, mut piece, .. } = BlockBytes::of(state, tail);
    if !after.open_calls.is_empty() {
        let mut bytes = piece.bytes.to_vec();
        after.answer_open_calls(&mut bytes);
        piece.bytes = bytes.into();
    }
    pieces.push(piece);
    WrittenConversation { pieces, writer: after.writer }
}

impl<W> WrittenConversation<W> {
    /// The end of the message that is `back` before the last, as a piece and a position in it;
    /// `None` if that message wrote nothing.
    pub(crate) fn end_of(&self, mut back: usize) -> Option<(usize, usize)> {
        for (index, piece) in self.pieces.iter().enumerate().rev() {
            if back < piece.ends.len() {
                let at = piece.ends.len() - 1 - back;
                let start = at.checked_sub(1).map_or(0, |previous| piece.ends[previous]);
                return (piece.ends[at] > start).then(|| (index, piece.ends[at]));
            }
            back -= piece.ends.len();
        }
        None
    }
}

/// The cached bytes of a block, with the writer's state before and after it.
struct BlockBytes<W> {
    before: WriterState<W>,
    after: WriterState<W>,
    piece: MessageBytes,
}

impl<W: Writer> BlockBytes<W> {
    fn of<'m>(before: WriterState<W>, messages: impl Iterator<Item = &'m Message>) -> Self {
        let (mut after, mut bytes, mut ends) = (before.clone(), vec![], vec![]);
        for message in messages {
            after.write_message(&mut bytes, message);
            ends.push(bytes.len());
        }
        BlockBytes { before, after, piece: MessageBytes { bytes: bytes.into(), ends: ends.into() } }
    }
}

/// The writer's state between two messages.
#[derive(Clone, PartialEq)]
struct WriterState<W> {
    writer: W,
    /// The calls of the last reply that have no result yet, as id and tool name.
    open_calls: Vec<(SmolStr, SmolStr)>,
}

impl<W: Writer> WriterState<W> {
    fn write_message(&mut self, out: &mut Vec<u8>, message: &Message) {
        match message {
            Message::ToolResult(result) => {
                let Some(at) = self.open_calls.iter().position(|(id, _)| *id == result.call_id)
                else {
                    return;
                };
                self.open_calls.remove(at);
                match pictures::replace_unsupported(&result.content) {
                    Cow::Borrowed(_) => self.writer.result(out, result),
                    Cow::Owned(content) => {
                        self.writer.result(out, &ToolResultMessage { content, ..result.clone() });
                    }
                }
                if self.open_calls.is_empty() {
                    self.writer.results_end(out);
                }
            }
            Message::User(user) => {
                self.answer_open_calls(out);
                self.writer.user(out, &pictures::replace_unsupported(&user.content));
            }
            Message::Assistant(reply) => {
                self.answer_open_calls(out);
                self.writer.assistant(out, reply);
                let open_calls =
                    reply.calls().map(|ToolCall { id, name, .. }| (id.clone(), name.clone()));
                self.open_calls = open_calls.collect();
            }
            _ => {}
        }
    }

    /// Writes an error result for every open call: providers refuse a call without a result.
    fn answer_open_calls(&mut self, out: &mut Vec<u8>) {
        if self.open_calls.is_empty() {
            return;
        }
        for (call_id, tool_name) in std::mem::take(&mut self.open_calls) {
            let content = Content::Text("The result of this call is lost.".into());
            let error = Some(ToolErrorKind::Unavailable);
            let render_data = None;
            let result = ToolResultMessage { call_id, tool_name, content, error, render_data };
            self.writer.result(out, &result);
        }
        self.writer.results_end(out);
    }
}
