//! `context`: the messages of a request are built.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;
use smol_str::SmolStr;

use crate::{
    agent::{cx::Cx, session::Session},
    history::{
        entry::Entries,
        message::Message,
        message_list::{MessageChange, MessageList},
    },
    hooks::points::{NoAnswer, Point, PointId, TransformEffect},
};

/// Fires each time the messages of a request are built. Transforms answer with a [`ContextChange`].
#[derive(Clone, Copy, Debug)]
pub struct Context;

/// The messages about to be sent. A clone copies no message.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextEvent {
    /// The messages after compaction. Each message knows the entry it came from.
    #[serde(skip)]
    pub messages: MessageList,
    #[serde(skip)]
    session: Session,
}

impl ContextEvent {
    pub(crate) fn new(messages: MessageList, session: Session) -> Self {
        ContextEvent { messages, session }
    }

    /// Returns every entry from the root to the leaf, of every type. The entries are read on demand.
    pub fn entries(&self) -> Entries {
        self.session.entries()
    }
}

/// The answer of a transform at `context`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContextChange {
    /// Leaves the messages unchanged.
    Keep,
    /// Sends these messages instead. The history is not changed.
    Messages(MessageList),
}

impl ContextChange {
    /// Returns a change that sends these messages instead.
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        ContextChange::Messages(messages.into_iter().collect())
    }
}

/// The number of sessions that a per-message transform caches.
const MAX_MEMOS: usize = 64;

/// Makes a context transform from a function that looks at one message at a time. The function must always
/// return the same change for the same message.
///
/// The changes are cached, so one more turn of a long session costs only its new messages. A transform that
/// depends on more than one message must look at all messages: register a plain transform at [`Context`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, Message};
/// use cotter::{history::message_list::MessageChange, hooks::points::{Context, each_message}};
/// use cotter_test::{RecordingModel, ScriptedModel, Step};
///
/// let without_passwords = each_message(|message: &Message| match message.text().contains("password") {
///     true => MessageChange::Drop,
///     false => MessageChange::Keep,
/// });
/// let model = RecordingModel::new(ScriptedModel::new([Step::text("Fine."), Step::text("Hello.")]));
/// let agent = Agent::builder(model.clone()).transform(Context, without_passwords).build()?;
/// agent.process_request("My password is tulip.").await?;
/// agent.process_request("Hello?").await?;
/// assert!(model.shown().ends_with("--\nassistant: Fine.\nuser: Hello?\n"));
/// # Ok(())
/// # }
/// ```
pub fn each_message(
    change: impl Fn(&Message) -> MessageChange + Send + Sync + 'static,
) -> impl Fn(&ContextEvent, &Cx) -> ContextChange + Send + Sync + 'static {
    let memos: Mutex<VecDeque<MessageMemo>> = Mutex::default();
    move |build, cx| {
        let mut memos = memos.lock().unwrap_or_else(PoisonError::into_inner);
        // A child agent can share the session's id and has its own messages.
        let (session, agent) = (cx.session_id(), cx.agent_id());
        let index = memos.iter().position(|memo| memo.is_of(session, agent));
        let new = || MessageMemo {
            session: session.into(),
            agent: agent.into(),
            ..MessageMemo::default()
        };
        let mut memo = index.and_then(|index| memos.remove(index)).unwrap_or_else(new);
        memo.update(&build.messages, &change);
        let after = memo.after.clone();
        memos.push_front(memo);
        memos.truncate(MAX_MEMOS);
        ContextChange::Messages(after)
    }
}

/// The cached changes of the messages of one agent in one session.
#[derive(Default)]
struct MessageMemo {
    session: SmolStr,
    agent: SmolStr,
    before: MessageList,
    after: MessageList,
}

impl MessageMemo {
    fn is_of(&self, session: &str, agent: &str) -> bool {
        self.session == session && self.agent == agent
    }

    /// Changes the messages that were added since the last call. Starts again if older messages changed.
    fn update(&mut self, messages: &MessageList, change: impl Fn(&Message) -> MessageChange) {
        if messages.entries_after(&self.before).is_none() {
            (self.before, self.after) = Default::default();
        }
        for entry in messages.entries_after(&self.before).into_iter().flatten() {
            self.after.push_changed(entry, |_, message| change(message));
        }
        self.before = messages.clone();
    }
}

impl Point for Context {
    const ID: PointId = PointId::Context;
    type Event = ContextEvent;
    type Verdict = NoAnswer;
    type Change = ContextChange;
    type Answer = NoAnswer;

    fn apply(event: &ContextEvent, change: ContextChange) -> TransformEffect<Self> {
        match change {
            ContextChange::Keep => TransformEffect::Kept,
            ContextChange::Messages(messages) => {
                TransformEffect::Replaced(ContextEvent { messages, session: event.session.clone() })
            }
        }
    }
}
