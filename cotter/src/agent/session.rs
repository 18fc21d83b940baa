//! A session: a tree of entries that only grows, and the handle to it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, history::jsonl::JsonlStore};
//! use cotter_test::{ScriptedModel, Step, transcript};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let model = ScriptedModel::new([Step::text("Noted."), Step::text("Tea."), Step::text("Coffee.")]);
//! let agent = Agent::builder(model).store(JsonlStore::new(folder)).build()?;
//! let session = agent.new_session().await?;
//! session.prompt("I like tea.").await?;
//! let here = session.entries().last().map(|entry| entry.id().clone());
//! session.prompt("What do I like?").await?;
//!
//! // Back to the first answer: the next prompt starts a new branch, and the old one stays in the file.
//! session.navigate(here.as_deref()).await?;
//! session.prompt("Make that coffee. What do I like?").await?;
//! let shown = transcript(&session);
//! assert!(shown.ends_with("user: Make that coffee. What do I like?\nassistant: Coffee.\n"));
//! assert!(!shown.contains("Tea."));
//!
//! // Another process opens the same session.
//! let id = session.id().clone();
//! drop((session, agent));
//! let agent = Agent::builder(ScriptedModel::new([])).store(JsonlStore::new(folder)).build()?;
//! assert_eq!(transcript(&agent.session(&id).await?), shown);
//! # Ok(())
//! # }
//! ```

pub(super) mod state;
pub(super) mod active_run;
pub(crate) mod recovery;
pub(crate) mod budget;
pub(super) mod reservation;
pub(crate) mod estimate;
pub(crate) mod cache_break;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicU32},
};

use serde_json::{Map, Value};
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

pub use crate::agent::session::reservation::{BudgetShare, TaskAllowance};
use crate::{
    agent::{
        Agent,
        cx::{Cx, RunCx},
        session::{
            active_run::{ActiveSkills, EntrySource},
            budget::Budget,
            state::SessionState,
        },
        step_cx::StepCx,
    },
    fs::file_views::FileViews,
    history::{
        entry::{Compaction, Entries, EntryBody, Timestamp},
        message::Message,
        message_list::MessageList,
        store::StoreError,
    },
    hooks::{
        events::{EventHub, EventKind, EventStream},
        notes::NoteQueue,
        points::session::{SessionClose, SessionCloseEvent},
    },
    model::Model,
    permission::rule::Rule,
};

/// A conversation. Cheap to clone; the runs of one session execute one after the other.
#[derive(Clone)]
pub struct Session {
    pub(crate) agent: Agent,
    pub(crate) shared: Arc<SessionShared>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}", self.shared.id)
    }
}

/// The state that all handles of a session share.
pub(crate) struct SessionShared {
    pub(crate) id: SmolStr,
    /// The lock of runs and of moves of the leaf: they execute one after the other.
    pub(crate) run_lock: tokio::sync::Mutex<()>,
    /// Locked briefly, never across an await.
    state: Mutex<SessionState>,
    pub(crate) hub: Arc<EventHub>,
    pub(crate) notes: Arc<NoteQueue>,
    /// The parts of files that the model has seen.
    pub(crate) file_views: FileViews,
    /// Fires when a secret is read; created on first use.
    secret_read_token: OnceLock<CancellationToken>,
}

impl Session {
    pub(crate) fn new(agent: Agent, state: SessionState) -> Self {
        // Listeners of a session also get the events of its children.
        let hub = agent.parent().map(|parent| parent.cx.session().shared.hub.clone());
        let shared = SessionShared {
            id: state.header.id.clone(),
            run_lock: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
            hub: hub.unwrap_or_default(),
            notes: Arc::default(),
            file_views: FileViews::default(),
            secret_read_token: OnceLock::new(),
        };
        Session { agent, shared: Arc::new(shared) }
    }

    /// The session's id.
    pub fn id(&self) -> &SmolStr {
        &self.shared.id
    }

    /// The file of the session, if its store uses files.
    pub fn file(&self) -> Option<PathBuf> {
        self.agent.store().file(&self.shared.id)
    }

    /// Waits until no run is in progress.
    pub async fn idle(&self) {
        drop(self.shared.run_lock.lock().await);
    }

    /// Aborts the current run. Returns true if there was one.
    pub fn abort(&self) -> bool {
        self.state().abort()
    }

    /// Ends the current run with a reason, which its end reports. Returns true if there was a run.
    pub(crate) fn end_run(&self, reason: String) -> bool {
        self.state().end_run(reason)
    }

    /// The models for the next request, in order.
    pub(crate) fn models(&self) -> Arc<[Arc<dyn Model>]> {
        let own_model = {
            let state = self.state();
            let overrides = state.overrides();
            overrides.turn_model.clone().or_else(|| overrides.model.clone())
        };
        let models = self.agent.models();
        match own_model {
            None => models,
            Some(model) => std::iter::once(model).chain(models.iter().skip(1).cloned()).collect(),
        }
    }

    /// The events from now on. The first listener also gets the event of the session's opening.
    pub fn events(&self) -> EventStream {
        let events = self.shared.hub.subscribe();
        if let Some(how) = self.shared.hub.take_opening() {
            self.step_cx(SmolStr::default()).emit(EventKind::SessionOpen { how });
        }
        events
    }

    /// The entries from the root to the leaf, oldest first.
    pub fn entries(&self) -> Entries {
        self.state_with_history().tree.path()
    }

    /// The messages that the model would get now, before any transform.
    pub fn messages(&self) -> MessageList {
        self.state().tree.messages().clone()
    }

    /// The problems found when the session was opened, one line each.
    pub fn diagnostics(&self) -> Vec<String> {
        let state = self.state_with_history();
        let unreadable = state.tree.unreadable();
        let unreadable = unreadable.map(|id| format!("entry {id}: cannot read its contents"));
        state.diagnostics.iter().cloned().chain(unreadable).collect()
    }

    /// Stores an extension's own entry and returns its id. Any type but the core's own is allowed; the core
    /// keeps the entry and ignores it. During a run, the entry is stored at the run's next safe moment.
    /// No safe moment is in the middle of a prompt, or between a call and its result.
    pub fn save_entry(&self, fields: Map<String, Value>) -> Result<SmolStr, StoreError> {
        self.save_entry_by(fields, EntrySource::Other)
    }

    pub(crate) fn save_entry_by(
        &self,
        mut fields: Map<String, Value>,
        source: EntrySource,
    ) -> Result<SmolStr, StoreError> {
        crate::history::line_format::check_custom(&fields).map_err(StoreError::new)?;
        if !fields.contains_key("timestamp") {
            fields.shift_insert(1, "timestamp".into(), Timestamp::now().to_string().into());
        }
        self.store_by(EntryBody::Custom(fields), source)
    }

    /// Sets or removes the label of an entry.
    pub fn set_label(&self, id: &str, label: Option<&str>) -> Result<SmolStr, StoreError> {
        let mut state = self.state_with_history();
        state.tree.get(id).ok_or_else(|| StoreError::new(format!("entry `{id}` not found")))?;
        state.add(
            EntryBody::Label { target: id.into(), label: label.map(str::to_owned) },
            EntrySource::Other,
        )
    }

    /// The label of an entry.
    pub fn label(&self, id: &str) -> Option<String> {
        self.state_with_history().tree.label(id)
    }

    /// Sets the session's name; blank text removes it.
    pub fn set_name(&self, name: &str) -> Result<SmolStr, StoreError> {
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        self.store(EntryBody::SessionInfo((!name.is_empty()).then_some(name)))
    }

    /// The session's name.
    pub fn name(&self) -> Option<String> {
        self.state_with_history().tree.find_last(|entry| match entry.body() {
            EntryBody::SessionInfo(name) => Some(name.clone()),
            _ => None,
        })?
    }

    /// True if a secret was read in this session, by any agent in it. It never becomes false again.
    pub fn has_read_secret(&self) -> bool {
        if let Some(cached) = self.state().overrides().secret_read {
            return cached;
        }
        let mut state = self.state_with_history();
        let read = state
            .tree
            .find_last(|entry| matches!(entry.body(), EntryBody::SecretRead(_)).then_some(()));
        state.overrides_mut().secret_read = Some(read.is_some());
        read.is_some()
    }

    /// Marks that a secret was read. The mark acts at once and is stored with the next commit.
    pub(crate) fn mark_secret_read(&self, what: &str) {
        if self.has_read_secret() {
            return;
        }
        {
            let mut state = self.state();
            state.overrides_mut().secret_read = Some(true);
            // An error is ignored: a session that cannot be written runs nothing either.
            let _ = state.add(EntryBody::SecretRead(what.into()), EntrySource::Other);
        }
        if let Some(token) = self.shared.secret_read_token.get() {
            token.cancel();
        }
    }

    /// A token that fires when a secret is read; it has already fired if one was read.
    pub(crate) fn secret_read_token(&self) -> &CancellationToken {
        let token = self.shared.secret_read_token.get_or_init(CancellationToken::new);
        // Checked after the token exists: a mark that is set meanwhile finds the token.
        if self.has_read_secret() {
            token.cancel();
        }
        token
    }

    /// The skills that triggers activated.
    pub(crate) fn active_skills(&self) -> Arc<ActiveSkills> {
        let cached = self.state().overrides().skills.clone();
        cached.unwrap_or_else(|| self.state_with_history().active_skills())
    }

    /// The person's approvals for the rest of this session, as allow rules.
    pub fn approvals(&self) -> Vec<Rule> {
        self.state().overrides().approvals.clone()
    }

    pub(crate) fn approve(&self, rules: Vec<Rule>) {
        let mut state = self.state();
        let approvals = &mut state.overrides_mut().approvals;
        approvals
            .extend(rules.into_iter().filter(|rule| !approvals.contains(rule)).collect::<Vec<_>>());
    }

    /// Revokes an approval. Returns true if there was one with this text.
    pub fn revoke_approval(&self, rule: &str) -> bool {
        let mut state = self.state();
        let exists = state.overrides().approvals.iter().any(|approval| approval.text() == rule);
        if exists {
            state.overrides_mut().approvals.retain(|approval| approval.text() != rule);
        }
        exists
    }

    /// Replaces the entries before `first_kept` by a summary. Waits for the current run.
    pub async fn store_compaction(&self, compaction: Compaction) -> Result<SmolStr, StoreError> {
        let _lock = self.shared.run_lock.lock().await;
        self.store(EntryBody::Compaction(Box::new(compaction)))
    }

    /// The model that the session last used or was set to.
    pub fn model(&self) -> Option<SmolStr> {
        self.state_with_history().tree.find_last(|entry| match entry.body() {
            EntryBody::ModelChange(model) => Some(model.clone()),
            EntryBody::Message(Message::Assistant(assistant)) => Some(assistant.model.clone()),
            _ => None,
        })
    }

    /// The thinking level that the session was set to.
    pub fn thinking_level(&self) -> SmolStr {
        let level = self.state_with_history().tree.find_last(|entry| match entry.body() {
            EntryBody::ThinkingLevel(level) => Some(level.clone()),
            _ => None,
        });
        level.unwrap_or_else(|| "off".into())
    }

    /// Moves the leaf to an entry, or before the first entry; the next entry starts a new branch. The
    /// entries left behind stay. Waits for the current run. A move to the current leaf stores nothing.
    pub async fn navigate(&self, to: Option<&str>) -> Result<(), StoreError> {
        let _lock = self.shared.run_lock.lock().await;
        self.move_leaf(to)
    }

    /// Moves the leaf without waiting; for a caller that has the session to itself.
    pub(crate) fn move_leaf(&self, to: Option<&str>) -> Result<(), StoreError> {
        let mut state = self.state_with_history();
        if state.tree.leaf_id().map(SmolStr::as_str) == to {
            return Ok(());
        }
        if let Some(id) = to {
            state.tree.get(id).ok_or_else(|| StoreError::new(format!("entry `{id}` not found")))?;
        }
        state.add(EntryBody::Leaf(to.map(SmolStr::from)), EntrySource::Other).map(drop)
    }

    /// Copies the entries up to here into a new session. The entry ids stay. Waits for the current run.
    pub async fn fork(&self) -> Result<Session, StoreError> {
        let _lock = self.shared.run_lock.lock().await;
        self.fork_here().await
    }

    /// Forks without waiting; for a caller that has the session to itself.
    pub(crate) async fn fork_here(&self) -> Result<Session, StoreError> {
        let (header, path, next_entry) = {
            let mut state = self.state_with_history();
            (state.header.clone(), state.tree.path(), state.next_entry)
        };
        self.agent.fork_session(&header, &path, next_entry).await
    }

    /// Fires `session.close`, after the current run. The session may be used again.
    pub async fn close(&self) {
        let _lock = self.shared.run_lock.lock().await;
        let runs = self.state().next_run - 1;
        self.step_cx(SmolStr::default()).fire::<SessionClose>(|| SessionCloseEvent { runs }).await;
    }

    /// A step context for points outside a run.
    pub(crate) fn step_cx(&self, run_id: SmolStr) -> StepCx {
        StepCx::of(&self.cx(run_id, self.agent.new_cancel()))
    }

    pub(crate) fn cx(&self, run_id: SmolStr, cancel: CancellationToken) -> Cx {
        Cx::new(Arc::new(RunCx {
            session: self.clone(),
            run_id,
            workspace: self.agent.session_workspace(&self.shared.id),
            step: AtomicU32::new(0),
            cancel,
            budget: Budget::new(self.agent.limits()),
            nested_count: AtomicU32::new(0),
            end_token: OnceLock::new(),
            notified: Mutex::default(),
        }))
    }

    /// Locks the state. Hold the lock briefly, never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state and reads the whole history, if only its end was read so far.
    fn state_with_history(&self) -> MutexGuard<'_, SessionState> {
        let mut state = self.state();
        let diagnostics = state.tree.load_earlier();
        state.diagnostics.extend(diagnostics);
        state
    }

    pub(crate) fn store(&self, body: EntryBody) -> Result<SmolStr, StoreError> {
        self.store_by(body, EntrySource::Other)
    }

    pub(crate) fn store_by(
        &self,
        body: EntryBody,
        source: EntrySource,
    ) -> Result<SmolStr, StoreError> {
        self.state_with_history().add(body, source)
    }
}
