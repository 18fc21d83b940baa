//! What a handler can do beyond its answer: one handle, the same for every kind of handler.
//!
//! A hook at a point gets it from its context ([`Cx::controls`]), as does a tool; hooks on directives,
//! skills, subagents and commands are handed it. It reads the newest state and never waits for a run;
//! what it adds during one is stored at the run's next safe moment.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Cx, hooks::points::{ModelPost, ModelPostEvent}};
//! use cotter_test::{Scripted, Step, transcript};
//! use serde_json::Map;
//!
//! // An observer that keeps something of its own in the session.
//! let keep = |reply: &ModelPostEvent, cx: &Cx| {
//!     let fields = [("type", "meter".into()), ("tokens", reply.output_tokens.into())];
//!     let fields = fields.map(|(key, value)| (key.to_owned(), value));
//!     cx.controls().save_entry(Map::from_iter(fields)).map(drop)
//! };
//! let agent = Agent::builder(Scripted::new([Step::text("Hello.")])).observe(ModelPost, keep).build()?;
//! agent.process_request("Hello?").await?;
//! assert_eq!(
//!     transcript(&agent.main_session().await?),
//!     "user: Hello?\nassistant: Hello.\n{\"type\":\"meter\",\"tokens\":0}\n",
//! );
//! # Ok(())
//! # }
//! ```

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};
use smol_str::{SmolStr, ToSmolStr};

pub use crate::agent::exec::{ExecOptions, ExecResult};
pub use crate::agent::session::reservation::{BudgetShare, TaskAllowance};
use crate::{
    agent::{
        Agent,
        child::{ChildBuilder, DEEPEST},
        cx::Cx,
        session::{Session, active_run::EntrySource, budget, cache_break::ToolLimit},
        step_cx::StepCx,
    },
    history::{
        entry::{Entries, EntryBody},
        message::{Message, Usage},
        message_list::MessageList,
        outcome::EndReason,
        store::StoreError,
    },
    hooks::{events::EventStream, notes::NoteAuthor},
    model::{Model, ModelError, ModelInfo, Thinking},
    permission::origin::Origin,
    registry::tool_set::ToolSet,
};

/// The handle a handler acts through.
///
/// Reading is always of the newest state. What is added during a run is stored at the run's next safe
/// moment, in the order in which it was added: with the prompt that is being staged, or after the
/// results of the step under way. A prompt that comes to nothing takes along what its own hooks and
/// skills added and set. A command that has
/// the session to itself stores at once.
#[derive(Clone)]
pub struct Controls {
    cx: Cx,
}

/// How long a model is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelScope {
    /// Until the end of the run under way, or of the next one.
    Turn,
    /// For the rest of the session.
    Session,
}

/// When a text reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendTime {
    /// At once: the run under way is aborted, and this is the next prompt.
    Now,
    /// Before the next request of the run under way; without one, as the next prompt.
    Steer,
    /// As the next prompt, once the run under way is over.
    FollowUp,
}

/// How much there is of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionCounts {
    /// The messages the model gets now, before any transform.
    pub messages: usize,
    /// The entries from root to leaf.
    pub entries: usize,
    /// The tokens of the context: what the provider counted, and an estimate of what came after.
    pub context_tokens: u64,
    /// What the run under way used so far.
    pub usage: Usage,
    /// What the run under way cost so far, where every price is known.
    pub cost_usd: Option<f64>,
}

/// A request beside the conversation.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Completion {
    /// What the model is asked.
    pub messages: Vec<Message>,
    /// What it is told first.
    pub system: String,
    /// Another model than the session's.
    pub model: Option<Arc<dyn Model>>,
    /// The most tokens of the answer.
    pub max_tokens: Option<u32>,
}

impl Completion {
    /// A single question.
    pub fn new(text: impl Into<String>) -> Self {
        Completion { messages: vec![Message::user(text)], ..Completion::default() }
    }

    /// A conversation.
    pub fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        Completion { messages: messages.into_iter().collect(), ..Completion::default() }
    }

    /// The same with words for the model first.
    pub fn with_system(self, system: impl Into<String>) -> Self {
        Completion { system: system.into(), ..self }
    }

    /// The same for another model.
    pub fn with_model(self, model: impl Model) -> Self {
        Completion { model: Some(Arc::new(model)), ..self }
    }

    /// The same with a limit to the answer.
    pub fn with_max_tokens(self, max_tokens: u32) -> Self {
        Completion { max_tokens: Some(max_tokens), ..self }
    }
}

/// What came of a request beside the conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompletionResult {
    /// The answer.
    pub text: String,
    /// What it used.
    pub usage: Usage,
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlError {
    /// What kind of failure, one word.
    pub code: SmolStr,
    /// The failure in words.
    pub message: String,
}

impl ControlError {
    /// The code of a compaction that found nothing to sum up.
    pub(crate) const NOTHING_TO_COMPACT: &str = "empty";
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ControlError {}

impl Controls {
    pub(crate) fn new(cx: Cx) -> Self {
        Controls { cx }
    }

    /// Where this happens: ids, folders, notes, the person.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The agent: what is defined and undefined on it takes effect at the next step.
    pub fn agent(&self) -> &Agent {
        &self.session().agent
    }

    /// The session. Awaiting its runs, or what waits for them (`idle`, `navigate`, `fork`, `close`,
    /// `store_compaction`), waits for oneself: within a run, and in a command that has the session to
    /// itself.
    pub fn session(&self) -> &Session {
        self.cx.session()
    }

    /// The messages the model would get now, before any transform.
    pub fn messages(&self) -> MessageList {
        self.session().messages()
    }

    /// Adds a message to the conversation. Gives its id. A result is taken only for a call that has none,
    /// nothing else while a call has none, and neither calls nor results while a run is under way:
    /// history is always well paired.
    pub fn append_message(&self, message: Message) -> Result<SmolStr, StoreError> {
        self.session().state().check_paired(&message)?;
        self.session().store_by(EntryBody::Message(message), self.by())
    }

    /// The entries from root to leaf.
    pub fn entries(&self) -> Entries {
        self.session().entries()
    }

    /// Adds an extension's own entry. Gives its id.
    pub fn save_entry(&self, fields: Map<String, Value>) -> Result<SmolStr, StoreError> {
        self.session().save_entry_by(fields, self.by())
    }

    /// What the model is told first.
    pub fn system_prompt(&self) -> Arc<str> {
        self.step_cx().face.system.clone()
    }

    /// The tools in force.
    pub fn tools(&self) -> Arc<ToolSet> {
        self.step_cx().face.tools.clone()
    }

    /// Limits this session to some of the agent's tools from the next step on; unknown names are left
    /// out, and nothing beyond the agent's scope is ever added.
    pub fn set_active_tools<S: Into<SmolStr>>(&self, names: impl IntoIterator<Item = S>) {
        self.limit_tools(Some(names.into_iter().map(Into::into).collect()));
    }

    /// Lifts what [`Controls::set_active_tools`] set.
    pub fn set_all_tools_active(&self) {
        self.limit_tools(None);
    }

    fn limit_tools(&self, to: Option<Arc<[SmolStr]>>) {
        let by = self.step_cx().speaker().map_or("session".into(), |owner| owner.to_smolstr());
        self.session().state().choose_by(self.by()).active_tools = ToolLimit { to, by };
    }

    /// The model the next request goes to.
    pub fn model(&self) -> Arc<dyn Model> {
        self.session().models()[0].clone()
    }

    /// Uses another model from the next request on.
    pub fn set_model(&self, model: impl Model, scope: ModelScope) -> Result<(), StoreError> {
        let model: Arc<dyn Model> = Arc::new(model);
        // A model may look at the session: asked before the lock is taken, dropped after it is given up.
        let name = model.name().clone();
        let mut state = self.session().state();
        let old = match scope {
            ModelScope::Turn => state.choose().turn_model.replace(model),
            ModelScope::Session => {
                state.add(EntryBody::ModelChange(name), self.by())?;
                state.choose_by(self.by()).model.replace(model)
            }
        };
        drop(state);
        drop(old);
        Ok(())
    }

    /// The model of that name, or why there is none: one of the agent's own, or one it may reach.
    pub fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        self.agent().model_named(name)
    }

    /// The models that can be reached by name.
    pub fn available_models(&self) -> Vec<ModelInfo> {
        self.agent().directory().available()
    }

    /// The key to a provider. Keys stay in the core: only a program, the operator and the person get
    /// them, and whoever else asks gets none.
    pub fn resolve_api_key(&self, provider: &str) -> Option<String> {
        let owner = self.step_cx().speaker()?;
        let trusted = matches!(owner.origin, Origin::Embedder | Origin::Operator | Origin::User);
        trusted.then(|| self.agent().directory().api_key(provider)).flatten()
    }

    /// How hard the model is to think.
    pub fn thinking_level(&self) -> Thinking {
        self.session().state().choices().thinking
    }

    /// Sets how hard the model is to think, from the next request on.
    pub fn set_thinking_level(&self, level: Thinking) -> Result<(), StoreError> {
        let mut state = self.session().state();
        state.add(EntryBody::ThinkingLevel(level.as_str().into()), self.by())?;
        state.choose_by(self.by()).thinking = level;
        Ok(())
    }

    /// How much there is.
    pub fn counts(&self) -> SessionCounts {
        let (messages, spent) = (self.messages(), self.cx.run.budget.spent());
        SessionCounts {
            messages: messages.len(),
            entries: self.entries().len(),
            context_tokens: self.session().context_tokens(),
            usage: spent.usage,
            cost_usd: spent.cost,
        }
    }

    /// Moves the leaf to an entry, or before the first: what follows starts a new branch. For a command
    /// that has the session to itself; while a run is under way it is an error.
    pub fn navigate(&self, to: Option<&str>) -> Result<(), StoreError> {
        self.check_idle()?;
        self.session().move_leaf(to)
    }

    /// A session of its own with the entries up to here. For a command that has the session to itself;
    /// while a run is under way it is an error.
    pub async fn fork(&self) -> Result<Session, StoreError> {
        self.check_idle()?;
        self.session().fork_here().await
    }

    fn check_idle(&self) -> Result<(), StoreError> {
        match self.session().state().is_busy() {
            true => Err(StoreError::new("a run is under way in this session")),
            false => Ok(()),
        }
    }

    /// A new session of the same agent.
    pub async fn new_session(&self) -> Result<Session, StoreError> {
        self.agent().new_session().await
    }

    /// Every event of the session from now on.
    pub fn subscribe(&self) -> EventStream {
        self.session().events()
    }

    /// Aborts the run under way.
    pub fn abort(&self) {
        self.session().abort();
    }

    /// The subagents that may be called here, by name.
    pub fn subagents(&self) -> Vec<SmolStr> {
        let [_, invoking] = self.agent().invoking_tools();
        let face = self.step_cx().face;
        match face.tools.row(invoking) {
            Some(_) => face.subagents().map(|mention| mention.name.clone()).collect(),
            None => vec![],
        }
    }

    /// Sets aside a part of what this run may still spend for each of several tasks. A task that names
    /// a sum gets that, or it is an error; the others share the rest with whoever asks, in equal parts.
    /// Together they cannot spend more than is left, and nobody else spends what is theirs. Where the
    /// run has no limit, only what a task names limits it.
    pub fn reserve(&self, tasks: &[TaskAllowance]) -> Result<Vec<BudgetShare>, ControlError> {
        let code = EndReason::BudgetExceeded.as_str().into();
        budget::reserve(&self.cx, tasks).map_err(|message| ControlError { code, message })
    }

    /// The same handle, spending from a share: requests, calls and agents that are made through it.
    pub fn spending(&self, share: &BudgetShare) -> Controls {
        Controls::new(self.cx.paid_from(share.0.clone()))
    }

    /// An agent that works for this run, under its policy, ledger and budget.
    pub fn child(&self) -> ChildBuilder {
        self.cx.child()
    }

    /// Whether what is added belongs to the prompt that is being staged.
    pub(crate) fn by(&self) -> EntrySource {
        if self.is_staging() { EntrySource::Prompt } else { EntrySource::Others }
    }

    /// Whether this is of a run that has not sent its first request. A handle may be kept longer.
    fn is_staging(&self) -> bool {
        self.cx.step() == 0 && !self.cx.run_id().is_empty() && !self.cx.run.is_over()
    }

    fn step_cx(&self) -> StepCx {
        StepCx::of(&self.cx)
    }

    /// Where hooks are asked on a handler's account. One that does the same again, and is asked about
    /// that, comes to an end.
    pub(crate) fn aside(&self) -> Result<StepCx, ControlError> {
        if self.cx.asides >= DEEPEST {
            let message = format!("hooks are nested {DEEPEST} deep, and may not be deeper");
            return Err(ControlError { code: "nested".into(), message });
        }
        let mut cx = self.cx.clone();
        cx.asides += 1;
        Ok(StepCx::of(&cx))
    }

    /// Whether a run is under way and this is neither its prompt's hook nor a command of its own.
    pub(crate) fn is_within_a_step(&self) -> bool {
        let busy = self.session().state().is_busy();
        match &self.cx.speaker {
            NoteAuthor::Hook(_) | NoteAuthor::Tool(_) => busy,
            NoteAuthor::Runtime | NoteAuthor::Called(_) => busy && !self.is_staging(),
        }
    }
}
