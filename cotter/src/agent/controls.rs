//! The controls: the handle through which every kind of handler acts beyond its answer.
//!
//! A hook at a point and a tool get the handle from their context ([`Cx::controls`]). Directive hooks,
//! skills, subagents and commands get it as an argument. It reads the newest state and never waits for a
//! run. Entries that it adds during a run are stored at the run's next safe moment.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Cx, hooks::points::{ModelPost, ModelPostEvent}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::Map;
//!
//! // An observer that stores its own entry in the session.
//! let keep = |reply: &ModelPostEvent, cx: &Cx| {
//!     let fields = [("type", "meter".into()), ("tokens", reply.output_tokens.into())];
//!     let fields = fields.map(|(key, value)| (key.to_owned(), value));
//!     cx.controls().save_entry(Map::from_iter(fields)).map(drop)
//! };
//! let agent = Agent::builder(ScriptedModel::new([Step::text("Hello.")])).observe(ModelPost, keep).build()?;
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
        child::{ChildBuilder, MAX_DEPTH},
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

/// The handle through which a handler acts.
///
/// Reads always return the newest state. Entries added during a run are stored at the run's next safe
/// moment, in the order of the calls. A safe moment is when the staged prompt is stored, or after the
/// results of the current step. If a prompt is dropped, the additions and settings of its own hooks and
/// skills are dropped too. A command that has the session to itself stores at once.
#[derive(Clone)]
pub struct Controls {
    cx: Cx,
}

/// The time for which a model is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelScope {
    /// Until the end of the current run, or of the next one.
    Turn,
    /// For the rest of the session.
    Session,
}

/// The time at which a text reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendTime {
    /// At once: the current run is aborted, and the text is the next prompt.
    Now,
    /// Before the next request of the current run; without a run, as the next prompt.
    Steer,
    /// As the next prompt, once the current run has ended.
    FollowUp,
}

/// The counts of a session: messages, entries, tokens, cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionCounts {
    /// The messages that the model gets now, before any transform.
    pub messages: usize,
    /// The entries from root to leaf.
    pub entries: usize,
    /// The tokens of the context: the provider's count, and an estimate of the messages after it.
    pub context_tokens: u64,
    /// The tokens that the current run used so far.
    pub usage: Usage,
    /// The cost of the current run so far, if every price is known.
    pub cost_usd: Option<f64>,
}

/// A request outside the conversation.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Completion {
    /// The messages of the request.
    pub messages: Vec<Message>,
    /// The system prompt.
    pub system: String,
    /// The model to ask, instead of the session's.
    pub model: Option<Arc<dyn Model>>,
    /// The most tokens of the answer.
    pub max_tokens: Option<u32>,
}

impl Completion {
    /// Builds a request with a single question.
    pub fn new(text: impl Into<String>) -> Self {
        Completion { messages: vec![Message::user(text)], ..Completion::default() }
    }

    /// Builds a request with a conversation.
    pub fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        Completion { messages: messages.into_iter().collect(), ..Completion::default() }
    }

    /// Returns this request with a system prompt.
    pub fn with_system(self, system: impl Into<String>) -> Self {
        Completion { system: system.into(), ..self }
    }

    /// Returns this request for another model.
    pub fn with_model(self, model: impl Model) -> Self {
        Completion { model: Some(Arc::new(model)), ..self }
    }

    /// Returns this request with a limit on the answer.
    pub fn with_max_tokens(self, max_tokens: u32) -> Self {
        Completion { max_tokens: Some(max_tokens), ..self }
    }
}

/// The result of a request outside the conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompletionResult {
    /// The answer.
    pub text: String,
    /// The tokens that the request used.
    pub usage: Usage,
}

/// The error of a control.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlError {
    /// The kind of the error, one word.
    pub code: SmolStr,
    /// The error message.
    pub message: String,
}

impl ControlError {
    /// The code of a compaction that found nothing to summarise.
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

    /// The context of the handler: ids, folders, notes, the person.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The agent. Registrations on it take effect at the next step.
    pub fn agent(&self) -> &Agent {
        &self.session().agent
    }

    /// The session. Do not await its runs or its `idle`, `navigate`, `fork`, `close` and `store_compaction`
    /// within a run, or in a command that has the session to itself. The caller would wait for itself.
    pub fn session(&self) -> &Session {
        self.cx.session()
    }

    /// The messages that the model would get now, before any transform.
    pub fn messages(&self) -> MessageList {
        self.session().messages()
    }

    /// Adds a message to the conversation and returns its id. A result is accepted only for a call without
    /// one. While a call has no result, nothing else is accepted. During a run, neither calls nor results
    /// are accepted. So every call in the history has exactly one result.
    pub fn append_message(&self, message: Message) -> Result<SmolStr, StoreError> {
        self.session().state().check_paired(&message)?;
        self.session().store_by(EntryBody::Message(message), self.entry_source())
    }

    /// The entries from root to leaf.
    pub fn entries(&self) -> Entries {
        self.session().entries()
    }

    /// Adds an extension's own entry and returns its id.
    pub fn save_entry(&self, fields: Map<String, Value>) -> Result<SmolStr, StoreError> {
        self.session().save_entry_by(fields, self.entry_source())
    }

    /// The system prompt.
    pub fn system_prompt(&self) -> Arc<str> {
        self.step_cx().view.system.clone()
    }

    /// The tools that the model may call now.
    pub fn tools(&self) -> Arc<ToolSet> {
        self.step_cx().view.tools.clone()
    }

    /// Limits this session to some of the agent's tools from the next step on. Unknown names are ignored. A
    /// tool outside the agent's scope is never added.
    pub fn set_active_tools<S: Into<SmolStr>>(&self, names: impl IntoIterator<Item = S>) {
        self.limit_tools(Some(names.into_iter().map(Into::into).collect()));
    }

    /// Lifts the limit that [`Controls::set_active_tools`] set.
    pub fn set_all_tools_active(&self) {
        self.limit_tools(None);
    }

    fn limit_tools(&self, names: Option<Arc<[SmolStr]>>) {
        let set_by =
            self.step_cx().acting_owner().map_or("session".into(), |owner| owner.to_smolstr());
        self.session().state().overrides_mut_by(self.entry_source()).active_tools =
            ToolLimit { names, set_by };
    }

    /// The model that the next request goes to.
    pub fn model(&self) -> Arc<dyn Model> {
        self.session().models()[0].clone()
    }

    /// Uses another model from the next request on.
    pub fn set_model(&self, model: impl Model, scope: ModelScope) -> Result<(), StoreError> {
        let model: Arc<dyn Model> = Arc::new(model);
        // A model may call the session. So its name is read before the lock is taken, and the old model is
        // dropped after the lock is released.
        let name = model.name().clone();
        let mut state = self.session().state();
        let old = match scope {
            ModelScope::Turn => state.overrides_mut().turn_model.replace(model),
            ModelScope::Session => {
                state.add(EntryBody::ModelChange(name), self.entry_source())?;
                state.overrides_mut_by(self.entry_source()).model.replace(model)
            }
        };
        drop(state);
        drop(old);
        Ok(())
    }

    /// The model of that name, or an error: one of the agent's own models, or one in its directory.
    pub fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        self.agent().find_model(name)
    }

    /// The models that can be reached by name.
    pub fn available_models(&self) -> Vec<ModelInfo> {
        self.agent().directory().available()
    }

    /// The API key of a provider. Keys stay in the core: only the program, the operator and the user get
    /// them; every other owner gets `None`.
    pub fn resolve_api_key(&self, provider: &str) -> Option<String> {
        let owner = self.step_cx().acting_owner()?;
        let trusted = matches!(owner.origin, Origin::Embedder | Origin::Operator | Origin::User);
        trusted.then(|| self.agent().directory().api_key(provider)).flatten()
    }

    /// The thinking level of the model.
    pub fn thinking_level(&self) -> Thinking {
        self.session().state().overrides().thinking
    }

    /// Sets the thinking level from the next request on.
    pub fn set_thinking_level(&self, level: Thinking) -> Result<(), StoreError> {
        let mut state = self.session().state();
        state.add(EntryBody::ThinkingLevel(level.as_str().into()), self.entry_source())?;
        state.overrides_mut_by(self.entry_source()).thinking = level;
        Ok(())
    }

    /// Counts the messages, entries, tokens and cost.
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

    /// Moves the leaf to an entry, or before the first entry; the next entry starts a new branch. For a
    /// command that has the session to itself; an error during a run.
    pub fn navigate(&self, to: Option<&str>) -> Result<(), StoreError> {
        self.check_idle()?;
        self.session().move_leaf(to)
    }

    /// Copies the entries up to here into a new session. For a command that has the session to itself; an
    /// error during a run.
    pub async fn fork(&self) -> Result<Session, StoreError> {
        self.check_idle()?;
        self.session().fork_here().await
    }

    fn check_idle(&self) -> Result<(), StoreError> {
        match self.session().state().is_busy() {
            true => Err(StoreError::new("a run is in progress in this session")),
            false => Ok(()),
        }
    }

    /// A new session of the same agent.
    pub async fn new_session(&self) -> Result<Session, StoreError> {
        self.agent().new_session().await
    }

    /// The events of the session from now on.
    pub fn subscribe(&self) -> EventStream {
        self.session().events()
    }

    /// Aborts the current run.
    pub fn abort(&self) {
        self.session().abort();
    }

    /// The names of the subagents that may be called here.
    pub fn subagents(&self) -> Vec<SmolStr> {
        let [_, subagent_tool] = self.agent().invoke_tool_names();
        let view = self.step_cx().view;
        match view.tools.entry(subagent_tool) {
            Some(_) => view.subagents().map(|subagent| subagent.name.clone()).collect(),
            None => vec![],
        }
    }

    /// Reserves a part of the run's remaining budget for each of several tasks. A task that names a sum
    /// gets it, or the call fails. The other tasks and the caller share the rest in equal parts. Together
    /// the tasks cannot spend more than is left, and no one else can spend a task's part. If the run has no
    /// limit, a task is limited only by the sum that it names.
    pub fn reserve(&self, tasks: &[TaskAllowance]) -> Result<Vec<BudgetShare>, ControlError> {
        let code = EndReason::BudgetExceeded.as_str().into();
        budget::reserve(&self.cx, tasks).map_err(|message| ControlError { code, message })
    }

    /// Returns a handle whose requests, calls and agents spend from a share.
    pub fn with_budget_share(&self, share: &BudgetShare) -> Controls {
        Controls::new(self.cx.with_reservation(share.0.clone()))
    }

    /// Builds a child of this run, under the run's policy, ledger and budget.
    pub fn child(&self) -> ChildBuilder {
        self.cx.child()
    }

    /// The source of added entries: the prompt that is being staged, or another source.
    pub(crate) fn entry_source(&self) -> EntrySource {
        if self.is_staging() { EntrySource::Prompt } else { EntrySource::Other }
    }

    /// True if the run of this handle has not sent its first request. A handle may outlive its run.
    fn is_staging(&self) -> bool {
        self.cx.step() == 0 && !self.cx.run_id().is_empty() && !self.cx.run.is_over()
    }

    fn step_cx(&self) -> StepCx {
        StepCx::of(&self.cx)
    }

    /// The context in which hooks are asked for a handler's own action. Fails if such actions are nested
    /// too deep: a hook whose action asks the same hook again must end.
    pub(crate) fn nested_step_cx(&self) -> Result<StepCx, ControlError> {
        if self.cx.action_depth >= MAX_DEPTH {
            let message = format!("hooks are nested too deep (the limit is {MAX_DEPTH})");
            return Err(ControlError { code: "nested".into(), message });
        }
        let mut cx = self.cx.clone();
        cx.action_depth += 1;
        Ok(StepCx::of(&cx))
    }

    /// True during a run, unless the caller is a directive hook or a skill of the prompt that is being
    /// staged.
    pub(crate) fn is_within_a_step(&self) -> bool {
        let busy = self.session().state().is_busy();
        match &self.cx.author {
            NoteAuthor::Hook(_) | NoteAuthor::Tool(_) => busy,
            NoteAuthor::Runtime | NoteAuthor::Named(_) => busy && !self.is_staging(),
        }
    }
}
