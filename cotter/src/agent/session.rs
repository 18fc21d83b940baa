//! A session: a tree of entries that only grows, and the handle to talk to it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, history::jsonl::JsonlStore};
//! use cotter_test::{Scripted, Step, transcript};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let model = Scripted::new([Step::text("Noted."), Step::text("Tea."), Step::text("Coffee.")]);
//! let agent = Agent::builder(model).store(JsonlStore::new(folder)).build()?;
//! let session = agent.new_session().await?;
//! session.prompt("I like tea.").await?;
//! let here = session.entries().last().map(|entry| entry.id().clone());
//! session.prompt("What do I like?").await?;
//!
//! // Back to where we were: what follows is a new branch, and the old one stays in the file.
//! session.navigate(here.as_deref()).await?;
//! session.prompt("Make that coffee. What do I like?").await?;
//! let shown = transcript(&session);
//! assert!(shown.ends_with("user: Make that coffee. What do I like?\nassistant: Coffee.\n"));
//! assert!(!shown.contains("Tea."));
//!
//! // Another process finds it as it was.
//! let id = session.id().clone();
//! drop((session, agent));
//! let agent = Agent::builder(Scripted::new([])).store(JsonlStore::new(folder)).build()?;
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

/// A conversation. Cheap to clone; runs on one session are served one after the other.
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

/// What all handles of a session share.
pub(crate) struct SessionShared {
    pub(crate) id: SmolStr,
    /// Whose turn it is: runs, and whatever moves the leaf, come one after the other.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Held for a moment only, never while anybody is waited for.
    state: Mutex<SessionState>,
    pub(crate) hub: Arc<EventHub>,
    pub(crate) notes: Arc<NoteQueue>,
    pub(crate) seen: FileViews,
    /// Fires when a secret is read; made when somebody asks for it.
    secret: OnceLock<CancellationToken>,
}

impl Session {
    pub(crate) fn new(agent: Agent, state: SessionState) -> Self {
        // Whoever listens to a session hears those who work for it.
        let hub = agent.parent().map(|parent| parent.cx.session().shared.hub.clone());
        let shared = SessionShared {
            id: state.header.id.clone(),
            turn: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
            hub: hub.unwrap_or_default(),
            notes: Arc::default(),
            seen: FileViews::default(),
            secret: OnceLock::new(),
        };
        Session { agent, shared: Arc::new(shared) }
    }

    /// Its id.
    pub fn id(&self) -> &SmolStr {
        &self.shared.id
    }

    /// The file it is kept in, where it is one.
    pub fn file(&self) -> Option<PathBuf> {
        self.agent.store().file(&self.shared.id)
    }

    /// Waits until no run is under way.
    pub async fn idle(&self) {
        drop(self.shared.turn.lock().await);
    }

    /// Aborts the run under way; whether there was one.
    pub fn abort(&self) -> bool {
        self.state().abort()
    }

    /// Ends the run under way, for a reason that its end tells; whether there was one.
    pub(crate) fn end_run(&self, why: String) -> bool {
        self.state().end_run(why)
    }

    /// The models its next request may go to, in order.
    pub(crate) fn models(&self) -> Arc<[Arc<dyn Model>]> {
        let chosen = {
            let state = self.state();
            let choices = state.choices();
            choices.turn_model.clone().or_else(|| choices.model.clone())
        };
        let models = self.agent.models();
        match chosen {
            None => models,
            Some(model) => std::iter::once(model).chain(models.iter().skip(1).cloned()).collect(),
        }
    }

    /// Every event from now on. The first listener hears of the session's opening.
    pub fn events(&self) -> EventStream {
        let events = self.shared.hub.subscribe();
        if let Some(how) = self.shared.hub.greet() {
            self.step_cx(SmolStr::default()).emit(EventKind::SessionOpen { how });
        }
        events
    }

    /// The entries from the root to the leaf, oldest first.
    pub fn entries(&self) -> Entries {
        self.whole().tree.path()
    }

    /// The messages the model would get now, before any transform.
    pub fn messages(&self) -> MessageList {
        self.state().tree.messages().clone()
    }

    /// What could not be read when the session was opened, one line each.
    pub fn diagnostics(&self) -> Vec<String> {
        let state = self.whole();
        let unreadable = state.tree.unreadable();
        let unreadable = unreadable.map(|id| format!("entry {id}: what it says cannot be read"));
        state.diagnostics.iter().cloned().chain(unreadable).collect()
    }

    /// Stores an extension's own entry: any type but the core's, ignored by the core and kept.
    /// Gives the entry's id. During a run it is stored at the run's next safe moment: never in the
    /// middle of a prompt, never between a call and its result.
    pub fn save_entry(&self, fields: Map<String, Value>) -> Result<SmolStr, StoreError> {
        self.save_entry_by(fields, EntrySource::Others)
    }

    pub(crate) fn save_entry_by(
        &self,
        mut fields: Map<String, Value>,
        by: EntrySource,
    ) -> Result<SmolStr, StoreError> {
        crate::history::line_format::check_custom(&fields).map_err(StoreError::new)?;
        if !fields.contains_key("timestamp") {
            fields.shift_insert(1, "timestamp".into(), Timestamp::now().to_string().into());
        }
        self.store_by(EntryBody::Custom(fields), by)
    }

    /// Names an entry, or takes its name away.
    pub fn set_label(&self, id: &str, label: Option<&str>) -> Result<SmolStr, StoreError> {
        let mut state = self.whole();
        state.tree.get(id).ok_or_else(|| StoreError::new(format!("there is no entry `{id}`")))?;
        state.add(
            EntryBody::Label { target: id.into(), label: label.map(str::to_owned) },
            EntrySource::Others,
        )
    }

    /// The name of an entry.
    pub fn label(&self, id: &str) -> Option<String> {
        self.whole().tree.label(id)
    }

    /// Names the session; blank text takes the name away.
    pub fn set_name(&self, name: &str) -> Result<SmolStr, StoreError> {
        let words = name.split_whitespace().collect::<Vec<_>>().join(" ");
        self.store(EntryBody::SessionInfo((!words.is_empty()).then_some(words)))
    }

    /// The session's name.
    pub fn name(&self) -> Option<String> {
        self.whole().tree.last(|entry| match entry.body() {
            EntryBody::SessionInfo(name) => Some(name.clone()),
            _ => None,
        })?
    }

    /// Whether a secret was read in this session, by whoever worked in it. Once true it stays true.
    pub fn has_read_secret(&self) -> bool {
        if let Some(known) = self.state().choices().secret_read {
            return known;
        }
        let mut state = self.whole();
        let read =
            state.tree.last(|entry| matches!(entry.body(), EntryBody::SecretRead(_)).then_some(()));
        state.choose().secret_read = Some(read.is_some());
        read.is_some()
    }

    /// A secret was read. It is known at once, and stored with what else is.
    pub(crate) fn mark_secret_read(&self, what: &str) {
        if self.has_read_secret() {
            return;
        }
        {
            let mut state = self.state();
            state.choose().secret_read = Some(true);
            // A session that cannot be written runs nothing either.
            let _ = state.add(EntryBody::SecretRead(what.into()), EntrySource::Others);
        }
        if let Some(waiting) = self.shared.secret.get() {
            waiting.cancel();
        }
    }

    /// Fires when a secret is read, or has fired.
    pub(crate) fn until_secret_read(&self) -> &CancellationToken {
        let waiting = self.shared.secret.get_or_init(CancellationToken::new);
        // Looked at after it is there: who marks the session meanwhile finds it.
        if self.has_read_secret() {
            waiting.cancel();
        }
        waiting
    }

    /// The skills that triggers brought in.
    pub(crate) fn active_skills(&self) -> Arc<ActiveSkills> {
        let known = self.state().choices().skills.clone();
        known.unwrap_or_else(|| self.whole().active_skills())
    }

    /// What a person said yes to for the rest of this session, as allow rules.
    pub fn approvals(&self) -> Vec<Rule> {
        self.state().choices().approvals.clone()
    }

    pub(crate) fn approve(&self, rules: Vec<Rule>) {
        let mut state = self.state();
        let approvals = &mut state.choose().approvals;
        approvals
            .extend(rules.into_iter().filter(|rule| !approvals.contains(rule)).collect::<Vec<_>>());
    }

    /// Takes back a yes for the rest of this session; whether there was one in these words.
    pub fn revoke_approval(&self, rule: &str) -> bool {
        let mut state = self.state();
        let there = state.choices().approvals.iter().any(|known| known.text() == rule);
        if there {
            state.choose().approvals.retain(|known| known.text() != rule);
        }
        there
    }

    /// Sums up what came before `first_kept`. Waits for a run under way.
    pub async fn store_compaction(&self, compaction: Compaction) -> Result<SmolStr, StoreError> {
        let _turn = self.shared.turn.lock().await;
        self.store(EntryBody::Compaction(Box::new(compaction)))
    }

    /// The model the session last used or was set to.
    pub fn model(&self) -> Option<SmolStr> {
        self.whole().tree.last(|entry| match entry.body() {
            EntryBody::ModelChange(model) => Some(model.clone()),
            EntryBody::Message(Message::Assistant(assistant)) => Some(assistant.model.clone()),
            _ => None,
        })
    }

    /// The thinking level the session was set to.
    pub fn thinking_level(&self) -> SmolStr {
        let set = self.whole().tree.last(|entry| match entry.body() {
            EntryBody::ThinkingLevel(level) => Some(level.clone()),
            _ => None,
        });
        set.unwrap_or_else(|| "off".into())
    }

    /// Moves the leaf to an entry, or before the first: what follows starts a new branch. The entries
    /// left behind stay. Waits for a run under way; moving to where the leaf is stores nothing.
    pub async fn navigate(&self, to: Option<&str>) -> Result<(), StoreError> {
        let _turn = self.shared.turn.lock().await;
        self.move_leaf(to)
    }

    /// The same for whoever has the session to themselves.
    pub(crate) fn move_leaf(&self, to: Option<&str>) -> Result<(), StoreError> {
        let mut state = self.whole();
        if state.tree.leaf_id().map(SmolStr::as_str) == to {
            return Ok(());
        }
        if let Some(id) = to {
            state
                .tree
                .get(id)
                .ok_or_else(|| StoreError::new(format!("there is no entry `{id}`")))?;
        }
        state.add(EntryBody::Leaf(to.map(SmolStr::from)), EntrySource::Others).map(drop)
    }

    /// Starts a session of its own with the entries up to here. Ids stay as they are. Waits for a run
    /// under way.
    pub async fn fork(&self) -> Result<Session, StoreError> {
        let _turn = self.shared.turn.lock().await;
        self.fork_here().await
    }

    /// The same for whoever has the session to themselves.
    pub(crate) async fn fork_here(&self) -> Result<Session, StoreError> {
        let (header, path, next_entry) = {
            let mut state = self.whole();
            (state.header.clone(), state.tree.path(), state.next_entry)
        };
        self.agent.forked(&header, &path, next_entry).await
    }

    /// Fires `session.close`, after a run under way. The session may be used again.
    pub async fn close(&self) {
        let _turn = self.shared.turn.lock().await;
        let runs = self.state().next_run - 1;
        self.step_cx(SmolStr::default()).fire::<SessionClose>(|| SessionCloseEvent { runs }).await;
    }

    /// Where points outside a run are fired.
    pub(crate) fn step_cx(&self, run_id: SmolStr) -> StepCx {
        StepCx::of(&self.cx(run_id, self.agent.new_cancel()))
    }

    pub(crate) fn cx(&self, run_id: SmolStr, cancel: CancellationToken) -> Cx {
        Cx::new(Arc::new(RunCx {
            session: self.clone(),
            run_id,
            workspace: self.agent.place_of(&self.shared.id),
            step: AtomicU32::new(0),
            cancel,
            budget: Budget::new(self.agent.limits()),
            started: AtomicU32::new(0),
            over: OnceLock::new(),
            told: Mutex::default(),
        }))
    }

    /// The state, for a moment: never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state with all of its history, also where only its end was read.
    fn whole(&self) -> MutexGuard<'_, SessionState> {
        let mut state = self.state();
        let diagnostics = state.tree.complete();
        state.diagnostics.extend(diagnostics);
        state
    }

    pub(crate) fn store(&self, body: EntryBody) -> Result<SmolStr, StoreError> {
        self.store_by(body, EntrySource::Others)
    }

    pub(crate) fn store_by(&self, body: EntryBody, by: EntrySource) -> Result<SmolStr, StoreError> {
        self.whole().add(body, by)
    }
}
