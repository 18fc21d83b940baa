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

pub(crate) mod estimate;
pub(crate) mod active_run;
pub(crate) mod budget;
pub(crate) mod cache_break;
pub(crate) mod recovery;
pub(crate) mod reservation;

use crate::history::entry::SessionHeader;
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicU32},
};

use serde_json::{Map, Value};
use smol_str::{SmolStr, format_smolstr};
use tokio_util::sync::CancellationToken;

pub(crate) use crate::agent::session::active_run::{ActiveSkills, EntrySource};
pub(crate) use crate::agent::session::recovery::InterruptedRun;
pub use crate::agent::session::reservation::{BudgetShare, TaskAllowance};
use crate::history::store::LineKind;
#[cfg(feature = "jsonl")]
use crate::history::{
    entry::{Compaction, Entries, Entry, EntryBody, Timestamp},
    store::{Log, Store, StoreError, StoreLine, SyncFuture},
};
use crate::{
    agent::session::active_run::{ActiveRun, SessionOverrides},
    history::tree::Tree,
};
use crate::{
    agent::{
        Agent,
        cx::{Cx, RunCx},
        listing::NameListing,
        session::budget::Budget,
        step_cx::StepCx,
    },
    fs::file_views::FileViews,
    history::{
        ledger::Record,
        message::{Content, Message},
        message_list::MessageList,
    },
    hooks::{
        events::{EventHub, EventKind, EventStream},
        handler::HandlerFailure,
        notes::NoteQueue,
        points::session::{SessionClose, SessionCloseEvent},
    },
    invoke::command::{self, CommandArgs, CommandResult},
    model::Model,
    permission::rule::Rule,
    run::Run,
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

    /// Starts a run with a prompt. Nothing happens until the run is awaited or its events are.
    pub fn prompt(&self, prompt: impl Into<Content>) -> Run {
        Run::new(self.clone(), prompt.into())
    }

    /// The same with a prompt in which nothing binds: what a program made, not what a person typed.
    pub fn prompt_plain(&self, prompt: impl Into<Content>) -> Run {
        Run::plain(self.clone(), prompt.into())
    }

    /// Runs a command by name; `None` where there is none of that name. While no run is under way it
    /// has the session to itself.
    pub async fn invoke_command(
        &self,
        name: &str,
        args_raw: &str,
    ) -> Option<Result<CommandResult, HandlerFailure>> {
        let face = self.agent.face();
        let (owner, command) = face.command(name)?;
        let cancel = self.agent.new_cancel();
        let given = CommandArgs { owner, args_raw: args_raw.into(), attachments: vec![] };
        Some(command::invoke(self, command, given, &cancel).await)
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

    /// The run that was waiting for a person when the process died, where its time is not over.
    /// It goes on from its question.
    pub async fn resume(&self) -> Option<Run> {
        let pending = self.state().pending.take()?;
        Some(Run::resumed(self.clone(), *pending))
    }

    /// Every event from now on. The first listener hears of the session's opening.
    pub fn events(&self) -> EventStream {
        let events = self.shared.hub.subscribe();
        if let Some(how) = self.shared.hub.greet() {
            self.scene(SmolStr::default()).emit(EventKind::SessionOpen { how });
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
        self.scene(SmolStr::default()).fire::<SessionClose>(|| SessionCloseEvent { runs }).await;
    }

    /// Where points outside a run are fired.
    pub(crate) fn scene(&self, run_id: SmolStr) -> StepCx {
        StepCx::of(&self.cx(run_id, self.agent.new_cancel()))
    }

    pub(crate) fn cx(&self, run_id: SmolStr, cancel: CancellationToken) -> Cx {
        Cx::new(Arc::new(RunCx {
            session: self.clone(),
            run_id,
            place: self.agent.place_of(&self.shared.id),
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

/// The number after the largest of our own ids. A file from elsewhere may have others, anywhere.
fn next_id(entries: &[Arc<Entry>]) -> u64 {
    let number = |id: &SmolStr| match id.len() {
        ..=12 => u64::from_str_radix(id, 16).ok(),
        _ => None,
    };
    // As we write them, the largest number is the last in the alphabet: one is parsed, not all.
    let as_ours = |id: &SmolStr| id.len() == 8 && !id.bytes().any(|b| b.is_ascii_uppercase());
    let all_ours = entries.iter().all(|entry| as_ours(entry.id()));
    let last = entries.iter().map(|entry| entry.id()).max().and_then(number);
    let largest = match last {
        Some(largest) if all_ours => Some(largest),
        _ => entries.iter().filter_map(|entry| number(entry.id())).max(),
    };
    largest.unwrap_or(0) + 1
}

/// Eight hex digits, more when they no longer suffice.
fn entry_id(number: u64) -> SmolStr {
    let Ok(number) = u32::try_from(number) else { return format_smolstr!("{number:08x}") };
    let mut digits = *b"00000000";
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 15) as usize];
    }
    SmolStr::new_inline(std::str::from_utf8(&digits).unwrap_or_default())
}

/// A session's tree and the growing end of its file. Whoever holds it is the only writer.
pub(crate) struct SessionState {
    pub(crate) header: SessionHeader,
    pub(crate) tree: Tree,
    log: Box<dyn Log>,
    /// Appended, but not yet handed to the log.
    staged: Vec<StoreLine>,
    /// Whether something was handed to the log since the last sync.
    unsynced: bool,
    next_entry: u64,
    pub(crate) next_run: u32,
    /// The generation whose table of hooks was stored last.
    pub(crate) table: Option<u64>,
    pub(crate) pending: Option<Box<InterruptedRun>>,
    /// The run that was given its missing end when the session was opened.
    pub(crate) crashed: Option<SmolStr>,
    pub(crate) diagnostics: Vec<String>,
    read_only: Option<String>,
    under_way: Option<Box<ActiveRun>>,
    /// The lists that its model was shown.
    pub(crate) shown: Option<Arc<NameListing>>,
    chosen: Option<Box<SessionOverrides>>,
}

impl SessionState {
    pub(crate) fn create(store: &dyn Store, header: SessionHeader) -> Result<Self, StoreError> {
        let log = store.create(&header)?;
        Ok(SessionState::with(header, log))
    }

    /// A session that is kept nowhere.
    pub(crate) fn unstored(header: SessionHeader) -> Self {
        SessionState::with(header, Box::new(crate::history::store::NoLog))
    }

    fn with(header: SessionHeader, log: Box<dyn Log>) -> Self {
        SessionState {
            header,
            tree: Tree::default(),
            log,
            staged: vec![],
            unsynced: false,
            next_entry: 1,
            next_run: 1,
            table: None,
            pending: None,
            crashed: None,
            diagnostics: vec![],
            read_only: None,
            under_way: None,
            shown: None,
            chosen: None,
        }
    }

    /// The session as it was stored, with whatever a killed process left open closed.
    pub(crate) fn open(store: &dyn Store, id: &str) -> Result<Self, StoreError> {
        let opened = store.open(id)?;
        let mut state = SessionState::with(opened.header, opened.log);
        state.diagnostics = opened.diagnostics;
        state.read_only = opened.read_only;
        state.next_entry = next_id(&opened.entries);
        let diagnostics = &mut state.diagnostics;
        state.tree = match opened.earlier {
            None => Tree::load(opened.entries, |what| diagnostics.push(what)),
            earlier => Tree::load_end(opened.entries, earlier),
        };
        if state.read_only.is_none() {
            crate::agent::session::recovery::recover(&mut state, &opened.records)?;
        }
        Ok(state)
    }

    pub(crate) fn fork(
        store: &dyn Store,
        header: SessionHeader,
        path: &Entries,
        next_entry: u64,
    ) -> Result<Self, StoreError> {
        let mut state = SessionState::create(store, header)?;
        let lines: Vec<_> =
            path.iter().map(|entry| StoreLine(LineKind::Entry(entry.clone()))).collect();
        state.log.append(&lines)?;
        state.tree = Tree::load(path.iter().cloned().collect(), |_| {});
        state.next_entry = next_entry;
        Ok(state)
    }

    /// Adds an entry after the leaf. It is stored with the next commit.
    pub(crate) fn append(&mut self, body: EntryBody) -> Arc<Entry> {
        let id = self.next_id();
        self.append_as(id, body)
    }

    fn next_id(&mut self) -> SmolStr {
        self.next_entry += 1;
        entry_id(self.next_entry - 1)
    }

    fn append_as(&mut self, id: SmolStr, body: EntryBody) -> Arc<Entry> {
        let given = match &body {
            EntryBody::Custom(fields) => {
                fields.get("timestamp").and_then(crate::history::line_format::moment)
            }
            _ => None,
        };
        let at = given.unwrap_or_else(Timestamp::now);
        let entry = Arc::new(Entry::new(id, self.tree.leaf_id().cloned(), at, body));
        self.staged.push(StoreLine(LineKind::Entry(entry.clone())));
        self.tree.append(entry.clone());
        if matches!(entry.body(), EntryBody::SkillActive { .. } | EntryBody::Leaf(_))
            && let Some(chosen) = &mut self.chosen
        {
            chosen.skills = None;
        }
        entry
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.staged.push(StoreLine(LineKind::Record(Arc::new(record))));
    }

    /// Stores what was added: after this a killed process loses none of it.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.check_writable()?;
        self.log.append(&self.staged)?;
        self.staged.clear();
        self.unsynced = true;
        Ok(())
    }

    /// Stores records of somebody who keeps them until they are stored: all or none of them are kept
    /// here, so that none is stored twice.
    pub(crate) fn commit_records(
        &mut self,
        records: impl Iterator<Item = Arc<Record>>,
    ) -> Result<(), StoreError> {
        let own = self.staged.len();
        self.staged.extend(records.map(|record| StoreLine(LineKind::Record(record))));
        self.commit().inspect_err(|_| self.staged.truncate(own))
    }

    /// Stores what was added; it is on the disk once the answer is there.
    pub(crate) fn commit_synced(&mut self) -> Result<SyncFuture, StoreError> {
        self.commit()?;
        self.unsynced = false;
        Ok(self.log.sync())
    }

    /// Stores what was added and lets the disk follow.
    pub(crate) fn commit_behind(&mut self) -> Result<(), StoreError> {
        self.commit()?;
        if std::mem::take(&mut self.unsynced) {
            self.log.sync_behind();
        }
        Ok(())
    }

    /// Whether it may be written.
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        match &self.read_only {
            None => Ok(()),
            Some(why) => {
                Err(StoreError::new(format!("session `{}` is read-only: {why}", self.header.id)))
            }
        }
    }
}
