//! A child: an agent that works for a run of another agent, under its policy, ledger and budget. A child
//! can do nothing that its parent cannot do.
//!
//! A child shares its parent's registry, so every gate, rule and tool is the parent's. Its messages are
//! separate and not stored; its decisions are stored in the parent's session. It is aborted with the run
//! that it works for.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::{
    agent::{Agent, Limits, cx::Cx, session::Session},
    history::{
        entry::SessionHeader,
        store::{
            LineKind, Log, SessionSummary, Store, StoreError, StoreLine, StoredSession, SyncFuture,
        },
    },
    hooks::notes::NoteAuthor,
    invoke::agent_config::AgentConfig,
    model::Model,
    registry::RegisterError,
};

/// The greatest depth of nested agents and calls.
pub(crate) const MAX_DEPTH: u8 = 4;

/// The run that a child works for.
pub(crate) struct ParentRun {
    /// The context that built the child.
    pub(crate) cx: Cx,
    /// The call that asked for the child, if a call did.
    pub(crate) call_id: Option<SmolStr>,
}

/// The depth of a context: nested calls, and agents that work for agents.
pub(crate) fn depth(cx: &Cx) -> u8 {
    let parent_depth = cx.session().agent.parent().map_or(0, |parent| depth(&parent.cx) + 1);
    cx.depth.saturating_add(parent_depth)
}

/// A builder of a child.
#[must_use]
pub struct ChildBuilder {
    cx: Cx,
    config: AgentConfig,
    model: Option<Arc<dyn Model>>,
    limits: Limits,
}

impl ChildBuilder {
    pub(crate) fn new(cx: Cx) -> Self {
        let agent = &cx.session().agent;
        let mut limits = agent.limits().clone();
        // The parent's budget already limits the child, so the child has no budget of its own. It has as
        // many steps as its parent, because steps are counted per agent.
        (limits.max_budget_usd, limits.max_tokens) = (None, None);
        let allowed = cx.reservations().filter_map(|share| share.max_turns);
        limits.max_steps = limits.max_steps.into_iter().chain(allowed).min();
        ChildBuilder { config: AgentConfig::new("child"), model: None, limits, cx }
    }

    /// Sets the whole config.
    pub fn config(mut self, config: AgentConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the id, for events and the ledger.
    pub fn id(mut self, id: impl Into<SmolStr>) -> Self {
        self.config.name = id.into();
        self
    }

    /// Sets the system prompt. Nothing of the parent's prompt is inherited.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.config.system_prompt = text.into();
        self
    }

    /// Limits the child to those of its parent's tools whose names match. An empty list means all of them.
    pub fn tools<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.config.tools = globs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets another model than the parent's.
    pub fn model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Changes the limits of the child's runs. The parent's limits apply as well.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, RegisterError> {
        let found = self.cx.session().agent.find_model(name);
        found.map_err(|error| RegisterError::new(error.message))
    }

    /// Builds the agent. Fails if agents are nested too deep, or the model is unknown.
    pub fn build(self) -> Result<Agent, RegisterError> {
        if depth(&self.cx) >= MAX_DEPTH {
            let message =
                format!("agents and calls are nested too deep (the limit is {MAX_DEPTH})");
            return Err(RegisterError::new(message));
        }
        if self.cx.is_dry_run() {
            return Err(RegisterError::new("cannot build a child agent in a dry run"));
        }
        let call_id = match &self.cx.author {
            NoteAuthor::Tool(call) => Some(call.call_id.clone()),
            _ => None,
        };
        let model = match (&self.model, &self.config.model) {
            (Some(model), _) => Some(model.clone()),
            (None, None) => None,
            (None, Some(name)) => Some(self.find_model(name)?),
        };
        let parent = ParentRun { cx: self.cx, call_id };
        Agent::child(parent, self.config, model, self.limits)
    }
}

/// A store that keeps the decisions of a child in its parent's session, and nothing else.
pub(crate) struct ParentStore(pub(crate) Session);

impl Store for ParentStore {
    fn create(&self, _: &SessionHeader) -> Result<Box<dyn Log>, StoreError> {
        Ok(Box::new(ParentLog(self.0.clone())))
    }

    fn open(&self, _: &str) -> Result<StoredSession, StoreError> {
        Err(StoreError::new("cannot open a session of a child agent: it stores none"))
    }

    fn new_id(&self) -> SmolStr {
        self.0.id().clone()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(vec![])
    }

    fn file(&self, id: &str) -> Option<std::path::PathBuf> {
        self.0.agent.store().file(id)
    }

    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        self.0.agent.store().lines(id)
    }
}

struct ParentLog(Session);

impl Log for ParentLog {
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError> {
        let records = lines.iter().filter_map(|line| match &line.0 {
            LineKind::Record(record) => Some(record.clone()),
            LineKind::Entry(_) => None,
        });
        self.0.state().commit_records(records)
    }

    fn sync(&mut self) -> SyncFuture {
        match self.0.state().commit_synced() {
            Ok(syncing) => syncing,
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn start_sync(&mut self) {
        // The next append reports a failed sync.
        let _ = self.0.state().commit_and_start_sync();
    }
}
