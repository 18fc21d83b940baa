//! `rehearsal`: an offline stand-in for a model. It turns plain requests into real tool calls and
//! answers from their results. So tools, hooks and rules can be tried without a key or a cost.
//!
//! It understands a few sentences and nothing else. The same conversation always gives the same
//! reply, and it never makes the same call twice for one request.

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
    /// Its name.
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

/// The current request, with the calls made for it and their results.
#[derive(Default)]
struct Conversation<'a> {
    request: &'a str,
    /// The calls made since the request, in order.
    calls: Vec<&'a cotter::history::message::ToolCall>,
    results: Vec<&'a ToolResultMessage>,
}

impl<'a> Conversation<'a> {
    /// Reads everything from the last typed message on.
    fn read(request: &'a Request) -> Self {
        let mut conversation = Conversation::default();
        for message in request.messages.iter() {
            match message {
                Message::User(user) if user.kind == UserMessageKind::Typed => {
                    conversation = Conversation {
                        request: first_text(&user.content),
                        ..Conversation::default()
                    };
                }
                Message::Assistant(reply) => {
                    conversation.calls.extend(AssistantMessage::calls(reply))
                }
                Message::ToolResult(result) => conversation.results.push(result),
                _ => {}
            }
        }
        conversation
    }

    /// True if an equal call was already made.
    fn has_made(&self, task: &Task) -> bool {
        self.calls.iter().any(|call| call.name == task.tool && *call.input == task.input)
    }
}

/// The first text of a message is the request; later parts are data.
fn first_text(content: &Content) -> &str {
    match content {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.iter().find_map(ContentPart::as_text).unwrap_or_default(),
    }
}

fn reply(request: &Request) -> Vec<Result<Delta, ModelError>> {
    let conversation = Conversation::read(request);
    if let Some(text_to_summarise) = text_to_summarise(request, conversation.request) {
        return text_reply(&answer::summary(text_to_summarise));
    }
    let plan = Plan::parse(conversation.request, &request.tools);
    let step = plan.steps.iter().find(|step| step.iter().any(|task| !conversation.has_made(task)));
    let Some(step) = step else {
        return text_reply(&answer::answer(&plan, &conversation, &request.tools));
    };
    let due = step.iter().filter(|task| !conversation.has_made(task));
    let calls = due.map(|task| {
        let (name, input) = (task.tool.clone(), task.input.clone());
        // The loop gives an id to every call without one.
        Ok(Delta::Call { id: SmolStr::default(), name, input })
    });
    calls.chain([Ok(done(StopReason::ToolUse))]).collect()
}

/// The conversation to summarise, if that is all the request asks for.
fn text_to_summarise<'a>(request: &Request, request_text: &'a str) -> Option<&'a str> {
    let rest =
        request_text.strip_prefix("<conversation>\n").filter(|_| request.tools.is_empty())?;
    rest.rsplit_once("\n</conversation>").map(|(conversation, _)| conversation)
}

fn text_reply(text: &str) -> Vec<Result<Delta, ModelError>> {
    let pieces = text.split_inclusive([' ', '\n']).map(|piece| Ok(Delta::Text(piece.into())));
    pieces.chain([Ok(done(StopReason::EndTurn))]).collect()
}

fn done(stop_reason: StopReason) -> Delta {
    Delta::Done { stop_reason, usage: Usage::default() }
}
