//! The stream of events of a session, for listeners outside the run.
//!
//! Each listener has its own queue, created when it subscribes. A slow listener never slows the run. Once its
//! queue is long, adjacent text pieces are joined, tool output included. Nothing else is dropped.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, hooks::events::EventKind};
//! use cotter_test::{ScriptedModel, Step};
//!
//! let agent = Agent::builder(ScriptedModel::new([Step::text("Hello there.")])).build()?;
//! let session = agent.new_session().await?;
//! let mut run = session.prompt("Hello?");
//! let mut text = String::new();
//! while let Some(event) = run.next().await {
//!     if let EventKind::TextDelta { text: more } = &event.kind {
//!         text += more;
//!     }
//! }
//! assert_eq!(text, run.reply().await?.text());
//! # Ok(())
//! # }
//! ```

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    history::{
        entry::{Entry, Timestamp},
        line_format::{ObjectWriter, write_entry, write_object},
        outcome::{EndReason, ToolErrorKind},
    },
    hooks::{
        points::{error::RunFailure, model::ModelPostEvent},
        ui::Question,
    },
    permission::verdict::Power,
};

/// The queue length from which text events are joined.
const JOIN_FROM: usize = 256;

/// The words for the ways in which a session can be opened.
const OPENING_WORDS: [&str; 3] = ["created", "resumed", "forked"];

/// The version of the event format.
pub const EVENTS_VERSION: u32 = 1;

/// One event of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The number of the event within the session; it grows.
    pub seq: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The session.
    pub session_id: SmolStr,
    /// The run; empty outside a run.
    pub run_id: SmolStr,
    /// The step, from 1; 0 before the first request.
    pub step: u32,
    /// The agent.
    pub agent_id: SmolStr,
    /// The call of the parent agent for which this agent works.
    pub parent_call_id: Option<SmolStr>,
    /// The kind of the event, with its data.
    pub kind: EventKind,
}

/// The kind of an event, with its data. `docs/FORMATS.md` describes the kinds as they appear on the wire.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A session was opened.
    SessionOpen {
        /// `created`, `resumed` or `forked`.
        how: &'static str,
    },
    /// A run began.
    SessionStart {
        /// The model at the start of the run.
        model: SmolStr,
    },
    /// The model begins a text.
    TextStart,
    /// The model continues a text.
    TextDelta {
        /// The next piece of the text.
        text: String,
    },
    /// The model ended a text.
    TextEnd,
    /// The model begins its thinking.
    ThinkingStart,
    /// The model continues its thinking.
    ThinkingDelta {
        /// The next piece of the thinking.
        text: String,
    },
    /// The model ended its thinking.
    ThinkingEnd,
    /// An entry was stored.
    Message {
        /// The entry.
        entry: Arc<Entry>,
    },
    /// A tool is about to run.
    ToolCall {
        /// The call.
        call_id: SmolStr,
        /// The tool's name.
        name: SmolStr,
        /// The input that runs.
        input: Arc<Value>,
    },
    /// A running tool produced output.
    ToolOutput {
        /// The call.
        call_id: SmolStr,
        /// The next piece of the output.
        text: String,
    },
    /// A tool ran, or a hook answered for the tool.
    ToolResult {
        /// The call.
        call_id: SmolStr,
        /// The tool's name.
        name: SmolStr,
        /// The text that the model gets.
        output: Arc<str>,
        /// The kind of error, if the call failed.
        error: Option<ToolErrorKind>,
        /// The duration of the tool, in milliseconds.
        ms: u64,
    },
    /// A call was refused.
    ToolRefused {
        /// The call.
        call_id: SmolStr,
        /// The name of the tool in the call; no such tool may exist.
        name: SmolStr,
        /// The stage, rule, hook or person that refused the call.
        by: SmolStr,
        /// The reason of the refusal.
        reason: String,
    },
    /// A hook ran.
    Hook {
        /// The point of the hook, or `directive`.
        point: &'static str,
        /// The name of the hook.
        name: SmolStr,
        /// The origin of the hook.
        origin: String,
        /// The power of the hook.
        power: Power,
        /// The answer or the failure of the hook, in one word.
        verdict: &'static str,
        /// The reason that the hook gave, if any.
        reason: Option<String>,
        /// The standard error of a command hook, if any.
        stderr: Option<String>,
        /// The duration of the hook, in milliseconds.
        ms: f64,
    },
    /// A note was sent to the model.
    Note {
        /// The author of the note: a hook, a tool, or `cotter`.
        owner: SmolStr,
        /// The text as it was sent.
        text: String,
    },
    /// A person is asked.
    PermissionRequest {
        /// The question.
        question: Arc<Question>,
    },
    /// A question was answered by the person or by a hook, or got no answer.
    PermissionResponse {
        /// The id of the question.
        id: SmolStr,
        /// Per call: its id, true if it may run, and a text for the model.
        decisions: Vec<(SmolStr, bool, Option<String>)>,
        /// The person or hook that answered; `nobody` if there was no answer.
        by: SmolStr,
    },
    /// An attempt failed and the next attempt waits. The output that the failed attempt streamed does not
    /// count.
    Retry {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The kind of failure.
        kind: &'static str,
        /// The wait before the next attempt, in milliseconds.
        wait_ms: u64,
        /// The model of the next attempt, if it is another model.
        model: Option<SmolStr>,
    },
    /// The text of a skill was added to the context.
    Skill {
        /// The skill.
        name: SmolStr,
        /// The caller of the skill: `user`, `agent` or `trigger`.
        source: &'static str,
    },
    /// A subagent is about to start.
    SubagentStart {
        /// The subagent.
        name: SmolStr,
    },
    /// A subagent ended.
    SubagentEnd {
        /// The subagent.
        name: SmolStr,
        /// `success` or `error`.
        status: &'static str,
    },
    /// A compaction is about to start.
    CompactionStart {
        /// `forced`, `threshold` or `overflow`.
        trigger: &'static str,
    },
    /// A compaction ended.
    CompactionEnd {
        /// `success`, `refused`, `failed` or `cancelled`.
        status: &'static str,
    },
    /// A command was run.
    CommandResult {
        /// The command.
        name: SmolStr,
        /// The status that the command returned, if any.
        status: Option<String>,
    },
    /// A hook has a message for the person.
    UiRequest {
        /// The requested method: `notify`.
        method: &'static str,
        /// The text of the message.
        text: String,
    },
    /// A reply was recorded.
    ModelPost(ModelPostEvent),
    /// The run failed or reached a limit.
    Error(RunFailure),
    /// A run ended.
    SessionEnd {
        /// The reason of the end.
        reason: EndReason,
    },
}

impl EventKind {
    /// Returns the event's name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::SessionOpen { .. } => "session.open",
            EventKind::SessionStart { .. } => "session.start",
            EventKind::TextStart => "text.start",
            EventKind::TextDelta { .. } => "text.delta",
            EventKind::TextEnd => "text.end",
            EventKind::ThinkingStart => "thinking.start",
            EventKind::ThinkingDelta { .. } => "thinking.delta",
            EventKind::ThinkingEnd => "thinking.end",
            EventKind::Message { .. } => "message",
            EventKind::ToolCall { .. } => "tool.call",
            EventKind::ToolOutput { .. } => "tool.output",
            EventKind::ToolResult { .. } => "tool.result",
            EventKind::ToolRefused { .. } => "tool.refused",
            EventKind::Hook { .. } => "hook",
            EventKind::Note { .. } => "note",
            EventKind::PermissionRequest { .. } => "permission.request",
            EventKind::PermissionResponse { .. } => "permission.response",
            EventKind::Retry { .. } => "retry",
            EventKind::Skill { .. } => "skill",
            EventKind::SubagentStart { .. } => "subagent.start",
            EventKind::SubagentEnd { .. } => "subagent.end",
            EventKind::CompactionStart { .. } => "compaction_start",
            EventKind::CompactionEnd { .. } => "compaction_end",
            EventKind::CommandResult { .. } => "command.result",
            EventKind::UiRequest { .. } => "ui.request",
            EventKind::ModelPost(_) => "model.post",
            EventKind::Error(_) => "error",
            EventKind::SessionEnd { .. } => "session.end",
        }
    }
}

impl Event {
    /// Returns the event as one line of JSON, without a newline.
    pub fn to_json(&self) -> String {
        let mut out = vec![];
        write_object(&mut out, |line| {
            line.put("type", self.kind.name()).put("v", EVENTS_VERSION).put("seq", self.seq);
            line.put_plain("at", self.at).put("sessionId", &self.session_id);
            line.put("runId", &self.run_id).put("step", self.step).put("agentId", &self.agent_id);
            line.put_some("parentCallId", self.parent_call_id.as_ref());
            write_kind(line, &self.kind);
        });
        String::from_utf8(out).unwrap_or_default()
    }
}

fn write_kind(line: &mut ObjectWriter<'_>, kind: &EventKind) {
    match kind {
        EventKind::TextStart
        | EventKind::TextEnd
        | EventKind::ThinkingStart
        | EventKind::ThinkingEnd => {}
        EventKind::SessionOpen { how } => _ = line.put("how", how),
        EventKind::SessionStart { model } => _ = line.put("model", model),
        EventKind::TextDelta { text } | EventKind::ThinkingDelta { text } => {
            line.put("text", text);
        }
        EventKind::Message { entry } => line.put_with("entry", |out| write_entry(out, entry)),
        EventKind::ToolCall { call_id, name, input } => {
            line.put("callId", call_id).put("name", name).put("input", input);
        }
        EventKind::ToolOutput { call_id, text } => {
            line.put("callId", call_id).put("text", text);
        }
        EventKind::ToolResult { call_id, name, output, error, ms } => {
            line.put("callId", call_id).put("name", name).put("output", output);
            line.put("is_error", error.is_some())
                .put_some("errorKind", error.map(ToolErrorKind::as_str));
            line.put("ms", ms);
        }
        EventKind::ToolRefused { call_id, name, by, reason } => {
            line.put("callId", call_id).put("name", name).put("by", by).put("reason", reason);
        }
        EventKind::Hook { point, name, origin, power, verdict, reason, stderr, ms } => {
            line.put("point", point).put("name", name).put("origin", origin);
            line.put("power", power.as_str()).put("verdict", verdict);
            line.put_some("reason", reason.as_ref())
                .put_some("stderr", stderr.as_ref())
                .put("ms", ms);
        }
        EventKind::Note { owner, text } => _ = line.put("owner", owner).put("text", text),
        EventKind::PermissionRequest { question } => {
            line.put("id", &question.id).put("calls", &question.calls);
        }
        EventKind::PermissionResponse { id, decisions, by } => {
            line.put("id", id).list("decisions", decisions, write_decision);
            line.put("by", by);
        }
        EventKind::Retry { attempt, kind, wait_ms, model } => {
            line.put("attempt", attempt).put("kind", kind).put("waitMs", wait_ms);
            line.put_some("model", model.as_ref());
        }
        EventKind::Skill { name, source } => _ = line.put("name", name).put("source", source),
        EventKind::SubagentStart { name } => _ = line.put("name", name),
        EventKind::SubagentEnd { name, status } => {
            line.put("name", name).put("status", status);
        }
        EventKind::CompactionStart { trigger } => _ = line.put("trigger", trigger),
        EventKind::CompactionEnd { status } => _ = line.put("status", status),
        EventKind::CommandResult { name, status } => {
            line.put("name", name).put_some("status", status.as_ref());
        }
        EventKind::UiRequest { method, text } => _ = line.put("method", method).put("text", text),
        EventKind::ModelPost(reply) => line.put_fields(reply),
        EventKind::Error(failure) => line.put_fields(failure),
        EventKind::SessionEnd { reason } => _ = line.put("reason", reason.as_str()),
    }
}

fn write_decision(out: &mut Vec<u8>, (call, is_yes, text): &(SmolStr, bool, Option<String>)) {
    write_object(out, |object| {
        object.put("callId", call).put("answer", if *is_yes { "yes" } else { "no" });
        object.put_some("words", text.as_ref());
    });
}

/// The publisher of a session's events.
#[derive(Default)]
pub(crate) struct EventHub {
    seq: AtomicU64,
    listener_count: AtomicUsize,
    /// The way the session was opened, until a listener gets it: an index into `OPENING_WORDS` from 1, or 0.
    opening: AtomicU8,
    queues: Mutex<Vec<Weak<EventQueue>>>,
}

impl EventHub {
    /// True if there is a listener. The check costs one atomic load.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listener_count.load(Ordering::Relaxed) > 0
    }

    /// Stores the way the session was opened, for the first listener.
    pub(crate) fn set_opening(&self, how: &str) {
        let index = OPENING_WORDS.iter().position(|word| *word == how).map_or(0, |index| index + 1);
        self.opening.store(u8::try_from(index).unwrap_or(0), Ordering::Relaxed);
    }

    /// Takes the way the session was opened. Only the first call returns it.
    pub(crate) fn take_opening(&self) -> Option<&'static str> {
        let index = self.opening.swap(0, Ordering::Relaxed).checked_sub(1)?;
        OPENING_WORDS.get(usize::from(index)).copied()
    }

    /// Adds a listener, which gets events from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> EventStream {
        let queue = Arc::new(EventQueue::default());
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        self.listener_count.fetch_add(1, Ordering::Relaxed);
        EventStream { queue, hub: self.clone() }
    }

    pub(crate) fn emit(&self, make: impl FnOnce(u64) -> Event) {
        let event = Arc::new(make(self.seq.fetch_add(1, Ordering::Relaxed) + 1));
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in queues.iter().filter_map(Weak::upgrade) {
            queue.push(event.clone());
        }
    }
}

#[derive(Default)]
struct EventQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    events: VecDeque<Arc<Event>>,
    waker: Option<Waker>,
}

impl EventQueue {
    fn push(&self, event: Arc<Event>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.events.len() < JOIN_FROM || !join(state.events.back_mut(), &event) {
            state.events.push_back(event);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// Joins a text to the text before it. Works in place once the last event belongs to this queue alone.
fn join(last: Option<&mut Arc<Event>>, event: &Event) -> bool {
    use EventKind::{TextDelta, ThinkingDelta, ToolOutput};
    let Some(last) = last else { return false };
    let is_same_kind = match (&last.kind, &event.kind) {
        (TextDelta { .. }, TextDelta { .. }) | (ThinkingDelta { .. }, ThinkingDelta { .. }) => true,
        (ToolOutput { call_id, .. }, ToolOutput { call_id: other, .. }) => call_id == other,
        _ => false,
    };
    // Concurrent agents share one hub: texts of different runs are not joined.
    if !is_same_kind || last.run_id != event.run_id {
        return false;
    }
    let joined = Arc::make_mut(last);
    if let (TextDelta { text }, TextDelta { text: more })
    | (ThinkingDelta { text }, ThinkingDelta { text: more })
    | (ToolOutput { text, .. }, ToolOutput { text: more, .. }) = (&mut joined.kind, &event.kind)
    {
        text.push_str(more);
    }
    (joined.seq, joined.at) = (event.seq, event.at);
    true
}

/// The events of a session since the subscription. Dropping the stream ends the subscription.
pub struct EventStream {
    queue: Arc<EventQueue>,
    hub: Arc<EventHub>,
}

impl EventStream {
    /// Waits for the next event. The stream never ends by itself, because the session may be used again.
    pub async fn next(&mut self) -> Arc<Event> {
        poll_fn(|task| self.poll_next(task)).await
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.queue.0.lock().unwrap_or_else(PoisonError::into_inner).events.pop_front()
    }

    pub(crate) fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Arc<Event>> {
        let mut state = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.events.pop_front() {
            Some(event) => Poll::Ready(event),
            None => {
                state.waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.hub.listener_count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_event(seq: u64, text: &str) -> Arc<Event> {
        Arc::new(Event {
            seq,
            at: Timestamp::default(),
            session_id: SmolStr::default(),
            run_id: SmolStr::default(),
            step: 1,
            agent_id: SmolStr::default(),
            parent_call_id: None,
            kind: EventKind::TextDelta { text: text.into() },
        })
    }

    #[test]
    fn r8_text_deltas_of_different_agents_are_not_joined() {
        let mut last = text_event(0, "one");
        let other = Event { run_id: "r1/2".into(), ..Event::clone(&text_event(1, "two")) };
        assert!(!join(Some(&mut last), &other));
        assert!(matches!(&last.kind, EventKind::TextDelta { text } if text == "one"));
    }

    /// A listener that never reads costs no more than the text itself. A piece is added in place, and the
    /// text is moved only when its capacity doubles.
    #[test]
    fn r8_joining_text_deltas_does_not_copy_per_piece() {
        const PIECES: u64 = 10_000;
        let first = text_event(0, "piece ");
        // Other listeners hold the same event: their copy does not change.
        let (mut last, other) = (first.clone(), first);
        let (mut moves, mut buffer) = (0, std::ptr::null());
        for seq in 1..=PIECES {
            assert!(join(Some(&mut last), &text_event(seq, "piece ")));
            let EventKind::TextDelta { text } = &last.kind else { panic!("still text") };
            moves += usize::from(text.as_ptr() != buffer);
            buffer = text.as_ptr();
        }
        let EventKind::TextDelta { text } = &last.kind else { panic!("still text") };
        assert_eq!((text.len(), last.seq), (6 * 10_001, PIECES));
        assert!(moves < 40, "the text moved {moves} times");
        assert!(matches!(&other.kind, EventKind::TextDelta { text } if text == "piece "));
    }
}
