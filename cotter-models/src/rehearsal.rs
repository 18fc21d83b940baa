//! `rehearsal`: an offline stand-in for a model. It turns plain requests into real tool calls and
//! answers from their results, so that tools, hooks and rules can be tried without a key or a cost.
//!
//! It understands a handful of sentences and nothing else, does the same for the same conversation
//! every time, and never makes the same call twice for one request.

mod answer;
mod plan;

use cotter::{
    Message,
    history::message::{
        AssistantMessage, Content, ContentPart, StopReason, ToolResultMessage, Usage,
        UserMessageKind,
    },
    model::{Delta, Model, ModelError, ReplyStream, Request},
};
use futures_util::stream;
use smol_str::SmolStr;

use self::plan::{Plan, Task};

/// The offline model. Its replies cost nothing and use no tokens.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    name: SmolStr,
}

impl Rehearsal {
    /// The name it goes by.
    pub const NAME: &str = "rehearsal";

    /// The offline model.
    pub fn new() -> Self {
        Rehearsal { name: SmolStr::new_static(Self::NAME) }
    }
}

impl Default for Rehearsal {
    fn default() -> Self {
        Rehearsal::new()
    }
}

impl Model for Rehearsal {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, request: Request) -> ReplyStream {
        Box::pin(stream::iter(reply(&request)))
    }

    fn cost_usd(&self, _: &Usage) -> Option<f64> {
        Some(0.0)
    }
}

/// What has been asked for, and what has come of it so far.
#[derive(Default)]
struct Conversation<'a> {
    request: &'a str,
    /// The calls made since, in order.
    calls: Vec<&'a cotter::history::message::ToolCall>,
    results: Vec<&'a ToolResultMessage>,
}

impl<'a> Conversation<'a> {
    /// Everything from the person's last words on.
    fn read(request: &'a Request) -> Self {
        let mut read = Conversation::default();
        for message in request.messages.iter() {
            match message {
                Message::User(user) if user.mark == UserMessageKind::Typed => {
                    read =
                        Conversation { request: words(&user.content), ..Conversation::default() };
                }
                Message::Assistant(reply) => read.calls.extend(AssistantMessage::calls(reply)),
                Message::ToolResult(result) => read.results.push(result),
                _ => {}
            }
        }
        read
    }

    /// Whether this very call was made already.
    fn has_made(&self, task: &Task) -> bool {
        self.calls.iter().any(|call| call.name == task.tool && *call.input == task.input)
    }
}

/// The request is the first text; whatever follows it is data.
fn words(content: &Content) -> &str {
    match content {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.iter().find_map(ContentPart::as_text).unwrap_or_default(),
    }
}

fn reply(request: &Request) -> Vec<Result<Delta, ModelError>> {
    let conversation = Conversation::read(request);
    if let Some(to_sum_up) = to_sum_up(request, conversation.request) {
        return said(&answer::summary(to_sum_up));
    }
    let plan = Plan::parse(conversation.request, &request.tools);
    let step = plan.steps.iter().find(|step| step.iter().any(|task| !conversation.has_made(task)));
    let Some(step) = step else {
        return said(&answer::answer(&plan, &conversation, &request.tools));
    };
    let due = step.iter().filter(|task| !conversation.has_made(task));
    let calls = due.map(|task| {
        let (name, input) = (task.tool.clone(), task.input.clone());
        // The loop gives every call without an id one of its own.
        Ok(Delta::Call { id: SmolStr::default(), name, input })
    });
    calls.chain([Ok(done(StopReason::ToolUse))]).collect()
}

/// The conversation it is to sum up, where it is asked for that and nothing else.
fn to_sum_up<'a>(request: &Request, words: &'a str) -> Option<&'a str> {
    let asked = words.strip_prefix("<conversation>\n").filter(|_| request.tools.is_empty())?;
    asked.rsplit_once("\n</conversation>").map(|(conversation, _)| conversation)
}

fn said(text: &str) -> Vec<Result<Delta, ModelError>> {
    let pieces = text.split_inclusive([' ', '\n']).map(|piece| Ok(Delta::Text(piece.into())));
    pieces.chain([Ok(done(StopReason::EndTurn))]).collect()
}

fn done(stop_reason: StopReason) -> Delta {
    Delta::Done { stop_reason, usage: Usage::default() }
}
