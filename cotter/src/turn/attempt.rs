//! One request to the model, with its attempts: context, `model.pre`, notes, the stream, and again
//! after a passing failure, then with the fallback models. Adapters only say what went wrong.

use std::{collections::HashSet, future::poll_fn, sync::Arc, time::Duration};

use serde_json::Value;
use smol_str::format_smolstr;
use tokio_util::sync::CancellationToken;

use super::{Exit, Turn};
use crate::{
    agent::Limits,
    events::EventKind,
    message::{
        AssistantMessage, AssistantPart, Content, Mark, Message, StopReason, ToolCall, Usage,
        UserMessage,
    },
    messages::Messages,
    model::{Delta, Model, ModelError, ModelErrorKind, Request, Streaming},
    notes::{self, Sent},
    points::{Context, ContextBuild, ModelPost, ModelPre, Replied, Requesting, Stop},
    run::Reason,
    scene::Scene,
    session::{Body, Entry, wire::is_too_deep},
};

/// Nobody is made to wait longer, whatever the provider asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

impl Turn {
    /// The next reply of the model, stored.
    pub(super) async fn request(&mut self) -> Result<Arc<Entry>, Exit> {
        let Limits { retries, backoff, .. } = *self.agent().limits();
        let models = self.agent().models();
        let mut attempt = 0;
        let mut last = ModelError::new(ModelErrorKind::Other, "there is no model");
        for (index, model) in models.iter().enumerate() {
            for retry in 0..=retries {
                attempt += 1;
                match self.attempt(model, attempt).await? {
                    Ok(reply) => return Ok(reply),
                    Err(error) => last = error,
                }
                if !last.kind.is_passing() || retry == retries {
                    break;
                }
                let doubled = || backoff.saturating_mul(2u32.saturating_pow(retry));
                let wait = last.retry_after.unwrap_or_else(doubled).min(LONGEST_WAIT);
                Box::pin(self.wait_before_retry(attempt, &last, wait)).await?;
            }
            if index + 1 < models.len() {
                Box::pin(self.wait_before_retry(attempt, &last, Duration::ZERO)).await?;
            }
        }
        Err(Exit::coded(Reason::Error, last.kind.as_str(), last.message))
    }

    async fn wait_before_retry(
        &mut self,
        attempt: u32,
        error: &ModelError,
        wait: Duration,
    ) -> Result<(), Exit> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.emit(|| EventKind::Retry { attempt, kind: error.kind.as_str(), wait_ms })?;
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.cancel.cancelled() => Err(Exit::aborted()),
        }
    }

    /// One attempt. The outer error ends the run, the inner one is the provider's.
    async fn attempt(
        &mut self,
        model: &Arc<dyn Model>,
        attempt: u32,
    ) -> Result<Result<Arc<Entry>, ModelError>, Exit> {
        let mut messages = self.context().await?;
        let message_count = messages.len();
        let name = || model.name().clone();
        self.fire::<ModelPre>(|| Requesting { model: name(), message_count, attempt }).await?;
        let notes = self.notes();
        if let Some(notes) = &notes {
            messages.push_entry(notes.entry.clone());
        }
        // The prompt and everything before it is stored before anybody is paid for an answer.
        self.state.commit()?;
        let request = Request {
            system: self.agent().system_prompt(),
            messages,
            notes: usize::from(notes.is_some()),
            tools: self.tools.clone(),
        };
        let heard = self.session.shared.hub.is_heard();
        let mut hearing = Hearing::new(heard.then(|| self.scene()));
        let ended = hearing.listen(model.stream(request), &self.cancel).await;
        let Hearing { parts, done, .. } = hearing;
        match ended {
            Ended::Failed(error) => return Ok(Err(error)),
            Ended::Cancelled => return Err(self.keep_partial(model, parts)),
            Ended::Whole => {}
        }
        let (stop_reason, usage) = done.unwrap_or((StopReason::EndTurn, Usage::default()));
        let parts = with_ids(parts, self.run_id(), self.step);
        let reply = AssistantMessage { parts, model: name(), usage, stop_reason };
        self.acknowledge(notes)?;
        let entry = self.store_reply(&**model, reply)?;
        self.fire::<ModelPost>(|| replied(&**model, &entry)).await?;
        Ok(Ok(entry))
    }

    /// What the model gets: the session's messages, as the transforms made them.
    async fn context(&mut self) -> Result<Messages, Exit> {
        let messages = self.state.tree.messages().clone();
        let built = || ContextBuild { messages: messages.clone() };
        let Some(decided) = self.fire::<Context>(built).await? else { return Ok(messages) };
        if let Some((meta, Stop::Block(reason))) = &decided.stop {
            if self.cancel.is_cancelled() {
                return Err(Exit::aborted());
            }
            let message = format!("hook \"{}\" failed to build the context: {reason}", meta.name);
            return Err(Exit::coded(Reason::Error, "context", message));
        }
        Ok(decided.event.messages.clone())
    }

    /// The notes that wait, as the message that would come next. They stay in the queue.
    fn notes(&self) -> Option<Noted> {
        let waiting = self.session.shared.notes.waiting();
        if waiting.is_empty() {
            return None;
        }
        let (text, sent) = notes::render(&waiting, &self.generation);
        let message = UserMessage::marked(Content::Text(text), Mark::Note);
        let entry = self.state.draft(Body::Message(Message::User(message)));
        Some(Noted { entry, sent, count: waiting.len() })
    }

    /// The notes were delivered: they leave the queue and stay in history where they were sent.
    fn acknowledge(&mut self, notes: Option<Noted>) -> Result<(), Exit> {
        let Some(Noted { entry, sent, count }) = notes else { return Ok(()) };
        self.state.append_draft(entry.clone());
        self.session.shared.notes.acknowledge(count);
        for Sent { owner, text } in sent {
            self.emit(|| EventKind::Note { owner, text })?;
        }
        Ok(self.emit(|| EventKind::Message { entry })?)
    }

    fn store_reply(
        &mut self,
        model: &dyn Model,
        reply: AssistantMessage,
    ) -> Result<Arc<Entry>, Exit> {
        let cost = model.cost_usd(&reply.usage);
        let entry = self.state.append(Body::Message(Message::Assistant(reply)));
        self.record_reply(&entry, cost);
        self.emit(|| EventKind::Message { entry: entry.clone() })?;
        self.emit(|| EventKind::ModelPost(replied(model, &entry)))?;
        Ok(entry)
    }

    /// What the model had said when it was aborted is kept; half a tool call is not.
    fn keep_partial(&mut self, model: &Arc<dyn Model>, parts: Vec<AssistantPart>) -> Exit {
        let said =
            |part: &AssistantPart| matches!(part, AssistantPart::Text(text) if !text.is_empty());
        let parts: Vec<_> = parts.into_iter().filter(said).collect();
        if !parts.is_empty() {
            let entry = self.state.append(Body::Message(Message::Assistant(AssistantMessage {
                parts,
                model: model.name().clone(),
                usage: Usage::default(),
                stop_reason: StopReason::Aborted,
            })));
            self.record_reply(&entry, Some(0.0));
            if let Err(error) = self.emit(|| EventKind::Message { entry }) {
                return error.into();
            }
        }
        Exit::aborted()
    }
}

/// What `model.post` tells of a reply.
fn replied(model: &dyn Model, entry: &Entry) -> Replied {
    let reply = match entry.message() {
        Some(Message::Assistant(reply)) => reply,
        _ => unreachable!("a reply is stored as the model's message"),
    };
    let Usage { input_tokens, output_tokens, cache_read, cache_write } = reply.usage;
    Replied {
        model: reply.model.clone(),
        stop_reason: reply.stop_reason,
        input_tokens,
        output_tokens,
        cache_read,
        cache_write,
        cost_usd: model.cost_usd(&reply.usage),
        tool_call_count: reply.calls().count(),
    }
}

struct Noted {
    entry: Arc<Entry>,
    sent: Vec<Sent>,
    count: usize,
}

/// Every call has an id of its own, whatever the provider gave.
fn with_ids(mut parts: Vec<AssistantPart>, run: &str, step: u32) -> Vec<AssistantPart> {
    let mut seen = HashSet::new();
    let mut made = (0..).map(|n: u64| format_smolstr!("call_{run}_{step}_{n}"));
    for part in &mut parts {
        let AssistantPart::ToolCall(call) = part else { continue };
        // What is made may be what the provider gave another call.
        while call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = made.next().unwrap_or_default();
        }
    }
    parts
}

enum Ended {
    Whole,
    Failed(ModelError),
    Cancelled,
}

/// A reply as it comes in. At most one of text and thinking is open at a time.
struct Hearing {
    /// Where pieces are told, where anybody listens.
    heard: Option<Scene>,
    parts: Vec<AssistantPart>,
    done: Option<(StopReason, Usage)>,
    open: Option<Open>,
}

#[derive(Clone, Copy, PartialEq)]
enum Open {
    Text,
    Thinking,
}

impl Hearing {
    fn new(heard: Option<Scene>) -> Self {
        Hearing { heard, parts: vec![], done: None, open: None }
    }

    async fn listen(&mut self, mut stream: Streaming, cancel: &CancellationToken) -> Ended {
        let ended = loop {
            if cancel.is_cancelled() {
                break Ended::Cancelled;
            }
            let delta = tokio::select! {
                biased;
                delta = poll_fn(|task| stream.as_mut().poll_next(task)) => delta,
                () = cancel.cancelled() => break Ended::Cancelled,
            };
            match delta {
                Some(Ok(delta)) => self.take(delta),
                Some(Err(error)) if error.kind == ModelErrorKind::Cancelled => {
                    break Ended::Cancelled;
                }
                Some(Err(error)) => break Ended::Failed(error),
                None if self.done.is_some() => break Ended::Whole,
                None => {
                    let message = "the stream ended before the reply did";
                    break Ended::Failed(ModelError::new(ModelErrorKind::Network, message));
                }
            }
        };
        self.close();
        ended
    }

    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => {
                self.open(Open::Text);
                self.tell(|| EventKind::TextDelta { text: text.clone() });
                match self.parts.last_mut() {
                    Some(AssistantPart::Text(so_far)) => so_far.push_str(&text),
                    _ => self.parts.push(AssistantPart::Text(text)),
                }
            }
            Delta::Thinking(text) => {
                self.open(Open::Thinking);
                self.tell(|| EventKind::ThinkingDelta { text: text.clone() });
                match self.parts.last_mut() {
                    Some(AssistantPart::Thinking { text: so_far, .. }) => so_far.push_str(&text),
                    _ => self.parts.push(AssistantPart::Thinking { text, signature: None }),
                }
            }
            Delta::Signature(signed) => {
                if let Some(AssistantPart::Thinking { signature, .. }) = self.parts.last_mut() {
                    *signature = Some(signed);
                }
            }
            Delta::Call { id, name, input } => {
                self.close();
                // What could not be read again when the session is opened is not taken.
                let too_deep = || Value::from("(nested too deep)");
                let input = Arc::new(if is_too_deep(&input) { too_deep() } else { input });
                self.parts.push(AssistantPart::ToolCall(ToolCall { id, name, input }));
            }
            Delta::Done { stop_reason, usage } => self.done = Some((stop_reason, usage)),
        }
    }

    fn open(&mut self, kind: Open) {
        if self.open == Some(kind) {
            return;
        }
        self.close();
        self.open = Some(kind);
        self.tell(|| match kind {
            Open::Text => EventKind::TextStart,
            Open::Thinking => EventKind::ThinkingStart,
        });
    }

    fn close(&mut self) {
        match self.open.take() {
            None => {}
            Some(Open::Text) => self.tell(|| EventKind::TextEnd),
            Some(Open::Thinking) => self.tell(|| EventKind::ThinkingEnd),
        }
    }

    fn tell(&self, kind: impl FnOnce() -> EventKind) {
        if let Some(scene) = &self.heard {
            scene.emit(kind());
        }
    }
}
