//! A session: a tree of entries that only grows, and the handle to talk to it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, session::JsonlStore};
//! use cotter_test::{Scripted, Step, transcript};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let model = Scripted::new([Step::text("Noted."), Step::text("Tea."), Step::text("Coffee.")]);
//! let agent = Agent::builder(model).store(JsonlStore::new(folder)).build()?;
//! let session = agent.new_session().await?;
//! session.prompt("I like tea.").await?;
//! let here = session.entries().await.last().map(|entry| entry.id().clone());
//! session.prompt("What do I like?").await?;
//!
//! // Back to where we were: what follows is a new branch, and the old one stays in the file.
//! session.navigate(here.as_deref()).await?;
//! session.prompt("Make that coffee. What do I like?").await?;
//! let shown = transcript(&session).await;
//! assert!(shown.ends_with("user: Make that coffee. What do I like?\nassistant: Coffee.\n"));
//! assert!(!shown.contains("Tea."));
//!
//! // Another process finds it as it was.
//! let id = session.id().clone();
//! drop((session, agent));
//! let agent = Agent::builder(Scripted::new([])).store(JsonlStore::new(folder)).build()?;
//! assert_eq!(transcript(&agent.session(&id).await?).await, shown);
//! # Ok(())
//! # }
//! ```

mod entry;
#[cfg(feature = "jsonl")]
mod jsonl;
mod recover;
mod store;
mod tree;
pub(crate) mod wire;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::{Map, Value};
use smol_str::{SmolStr, format_smolstr};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "jsonl")]
pub use self::jsonl::{JsonlStore, Loaded, load};
pub(crate) use self::recover::Interrupted;
pub use self::{
    entry::{Body, Compaction, Entry, Timestamp},
    store::{Line, Log, MemoryStore, Opened, Store, StoreError, Summary, Syncing},
};
use self::{store::LineKind, tree::Tree};
use crate::{
    agent::Agent,
    cx::{Cx, RunCx},
    events::{EventKind, Events, Hub},
    ledger::Record,
    message::{Content, Message},
    messages::Messages,
    notes::Notes,
    points::{SessionClose, SessionClosed},
    run::Run,
    scene::Scene,
};

/// The version of the session format this library writes.
pub(crate) const VERSION: u64 = 1;

/// The first line of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the format.
    pub v: u64,
    /// The session's id.
    pub id: SmolStr,
    /// The folder it was started in.
    pub cwd: PathBuf,
    /// When it was made.
    pub created_at: Timestamp,
    /// The session it was forked from.
    pub parent: Option<SmolStr>,
}

impl Header {
    /// A new session's.
    pub fn new(id: SmolStr, cwd: &Path) -> Self {
        Header { v: VERSION, id, cwd: cwd.into(), created_at: Timestamp::now(), parent: None }
    }
}

/// A conversation. Cheap to clone; runs on one session are served one after the other.
#[derive(Clone)]
pub struct Session {
    pub(crate) agent: Agent,
    pub(crate) shared: Arc<Shared>,
}

/// What all handles of a session share.
pub(crate) struct Shared {
    pub(crate) id: SmolStr,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) notes: Arc<Notes>,
}

impl Session {
    pub(crate) fn new(agent: Agent, state: State) -> Self {
        let shared = Shared {
            id: state.header.id.clone(),
            state: Arc::new(Mutex::new(state)),
            hub: Arc::default(),
            notes: Arc::default(),
        };
        Session { agent, shared: Arc::new(shared) }
    }

    /// Its id.
    pub fn id(&self) -> &SmolStr {
        &self.shared.id
    }

    /// Starts a run with a prompt. Nothing happens until the run is awaited or its events are.
    pub fn prompt(&self, prompt: impl Into<Content>) -> Run {
        Run::new(self.clone(), prompt.into())
    }

    /// The run that was waiting for a person when the process died, where its time is not over.
    /// It goes on from its question.
    pub async fn resume(&self) -> Option<Run> {
        let pending = self.shared.state.lock().await.pending.take()?;
        Some(Run::resumed(self.clone(), *pending))
    }

    /// Every event from now on. The first listener hears of the session's opening.
    pub fn events(&self) -> Events {
        let events = self.shared.hub.subscribe();
        if let Some(how) = self.shared.hub.greet() {
            self.scene(SmolStr::default()).emit(EventKind::SessionOpen { how });
        }
        events
    }

    /// The entries from the root to the leaf, oldest first. Like everything that reads or writes the
    /// session, it waits for a run under way: a hook or tool of that run must not await it.
    pub async fn entries(&self) -> Vec<Arc<Entry>> {
        self.whole().await.tree.path()
    }

    /// The messages the model would get now, before any transform.
    pub async fn messages(&self) -> Messages {
        self.shared.state.lock().await.tree.messages().clone()
    }

    /// What could not be read when the session was opened, one line each.
    pub async fn diagnostics(&self) -> Vec<String> {
        let state = self.whole().await;
        let unreadable = state.tree.unreadable();
        let unreadable = unreadable.map(|id| format!("entry {id}: what it says cannot be read"));
        state.diagnostics.iter().cloned().chain(unreadable).collect()
    }

    /// Stores an extension's own entry: any type but the core's, ignored by the core and kept.
    /// Gives the entry's id.
    pub async fn save_entry(&self, mut fields: Map<String, Value>) -> Result<SmolStr, StoreError> {
        wire::check_custom(&fields).map_err(StoreError::new)?;
        if !fields.contains_key("timestamp") {
            fields.shift_insert(1, "timestamp".into(), Timestamp::now().to_string().into());
        }
        self.store(Body::Custom(fields)).await
    }

    /// Names an entry, or takes its name away.
    pub async fn set_label(&self, id: &str, label: Option<&str>) -> Result<SmolStr, StoreError> {
        let mut state = self.whole().await;
        state.tree.get(id).ok_or_else(|| StoreError::new(format!("there is no entry `{id}`")))?;
        state.store(Body::Label { target: id.into(), label: label.map(str::to_owned) })
    }

    /// The name of an entry.
    pub async fn label(&self, id: &str) -> Option<String> {
        self.whole().await.tree.label(id)
    }

    /// Names the session; blank text takes the name away.
    pub async fn set_name(&self, name: &str) -> Result<SmolStr, StoreError> {
        let words = name.split_whitespace().collect::<Vec<_>>().join(" ");
        self.store(Body::SessionInfo((!words.is_empty()).then_some(words))).await
    }

    /// The session's name.
    pub async fn name(&self) -> Option<String> {
        let state = self.whole().await;
        state.tree.last(|entry| match entry.body() {
            Body::SessionInfo(name) => Some(name.clone()),
            _ => None,
        })?
    }

    /// Sums up what came before `first_kept`.
    pub async fn store_compaction(&self, compaction: Compaction) -> Result<SmolStr, StoreError> {
        self.store(Body::Compaction(Box::new(compaction))).await
    }

    /// The model the session last used or was set to.
    pub async fn model(&self) -> Option<SmolStr> {
        let state = self.whole().await;
        state.tree.last(|entry| match entry.body() {
            Body::ModelChange(model) => Some(model.clone()),
            Body::Message(Message::Assistant(assistant)) => Some(assistant.model.clone()),
            _ => None,
        })
    }

    /// The thinking level the session was set to.
    pub async fn thinking_level(&self) -> SmolStr {
        let state = self.whole().await;
        let set = state.tree.last(|entry| match entry.body() {
            Body::ThinkingLevel(level) => Some(level.clone()),
            _ => None,
        });
        set.unwrap_or_else(|| "off".into())
    }

    /// Moves the leaf to an entry, or before the first: what follows starts a new branch. The entries
    /// left behind stay. Waits for a run under way; moving to where the leaf is stores nothing.
    pub async fn navigate(&self, to: Option<&str>) -> Result<(), StoreError> {
        let mut state = self.whole().await;
        if state.tree.leaf_id().map(SmolStr::as_str) == to {
            return Ok(());
        }
        if let Some(id) = to {
            state
                .tree
                .get(id)
                .ok_or_else(|| StoreError::new(format!("there is no entry `{id}`")))?;
        }
        state.store(Body::Leaf(to.map(SmolStr::from))).map(drop)
    }

    /// Starts a session of its own with the entries up to here. Ids stay as they are.
    pub async fn fork(&self) -> Result<Session, StoreError> {
        let state = self.whole().await;
        self.agent.forked(&state.header, state.tree.path(), state.next_entry).await
    }

    /// Fires `session.close`. The session may be used again.
    pub async fn close(&self) {
        let runs = self.shared.state.lock().await.next_run - 1;
        self.scene(SmolStr::default()).fire::<SessionClose>(|| SessionClosed { runs }).await;
    }

    /// Where points outside a run are fired.
    pub(crate) fn scene(&self, run_id: SmolStr) -> Scene {
        Scene {
            generation: self.agent.generation(),
            hub: self.shared.hub.clone(),
            cx: self.cx(run_id, CancellationToken::new()),
        }
    }

    pub(crate) fn cx(&self, run_id: SmolStr, cancel: CancellationToken) -> Cx {
        Cx::new(Arc::new(RunCx {
            session_id: self.shared.id.clone(),
            run_id,
            agent_id: self.agent.id().clone(),
            place: self.agent.place_of(&self.shared.id),
            step: AtomicU32::new(0),
            cancel,
            notes: self.shared.notes.clone(),
            ui: self.agent.ui().clone(),
        }))
    }

    /// The state with all of its history, also where only its end was read.
    async fn whole(&self) -> OwnedMutexGuard<State> {
        let mut state = self.shared.state.clone().lock_owned().await;
        let diagnostics = state.tree.complete();
        state.diagnostics.extend(diagnostics);
        state
    }

    async fn store(&self, body: Body) -> Result<SmolStr, StoreError> {
        self.whole().await.store(body)
    }
}

impl RunCx {
    pub(crate) fn set_step(&self, step: u32) {
        self.step.store(step, Ordering::Relaxed);
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
pub(crate) struct State {
    pub(crate) header: Header,
    pub(crate) tree: Tree,
    log: Box<dyn Log>,
    /// Appended, but not yet handed to the log.
    staged: Vec<Line>,
    /// Whether something was handed to the log since the last sync.
    unsynced: bool,
    next_entry: u64,
    pub(crate) next_run: u32,
    /// The generation whose table of hooks was stored last.
    pub(crate) table: Option<u64>,
    pub(crate) pending: Option<Box<Interrupted>>,
    /// The run that was given its missing end when the session was opened.
    pub(crate) crashed: Option<SmolStr>,
    pub(crate) diagnostics: Vec<String>,
    read_only: Option<String>,
}

impl State {
    pub(crate) fn create(store: &dyn Store, header: Header) -> Result<Self, StoreError> {
        let log = store.create(&header)?;
        Ok(State::with(header, log))
    }

    fn with(header: Header, log: Box<dyn Log>) -> Self {
        State {
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
        }
    }

    /// The session as it was stored, with whatever a killed process left open closed.
    pub(crate) fn open(store: &dyn Store, id: &str) -> Result<Self, StoreError> {
        let opened = store.open(id)?;
        let mut state = State::with(opened.header, opened.log);
        state.diagnostics = opened.diagnostics;
        state.read_only = opened.read_only;
        state.next_entry = next_id(&opened.entries);
        let diagnostics = &mut state.diagnostics;
        state.tree = match opened.earlier {
            None => Tree::load(opened.entries, |what| diagnostics.push(what)),
            earlier => Tree::load_end(opened.entries, earlier),
        };
        if state.read_only.is_none() {
            recover::recover(&mut state, &opened.records)?;
        }
        Ok(state)
    }

    pub(crate) fn fork(
        store: &dyn Store,
        header: Header,
        path: Vec<Arc<Entry>>,
        next_entry: u64,
    ) -> Result<Self, StoreError> {
        let mut state = State::create(store, header)?;
        let lines: Vec<_> = path.iter().map(|entry| Line(LineKind::Entry(entry.clone()))).collect();
        state.log.append(&lines)?;
        state.tree = Tree::load(path, |_| {});
        state.next_entry = next_entry;
        Ok(state)
    }

    /// Adds an entry after the leaf. It is stored with the next commit.
    pub(crate) fn append(&mut self, body: Body) -> Arc<Entry> {
        let entry = self.draft(body);
        self.append_draft(entry.clone());
        entry
    }

    /// An entry that would come next, but is not there yet.
    pub(crate) fn draft(&self, body: Body) -> Arc<Entry> {
        let id = entry_id(self.next_entry);
        let given = match &body {
            Body::Custom(fields) => fields.get("timestamp").and_then(wire::moment),
            _ => None,
        };
        let at = given.unwrap_or_else(Timestamp::now);
        Arc::new(Entry::new(id, self.tree.leaf_id().cloned(), at, body))
    }

    /// Adds an entry made by `draft` just before.
    pub(crate) fn append_draft(&mut self, entry: Arc<Entry>) {
        self.next_entry += 1;
        self.staged.push(Line(LineKind::Entry(entry.clone())));
        self.tree.append(entry);
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.staged.push(Line(LineKind::Record(Arc::new(record))));
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

    /// Stores what was added and waits until it is on the disk.
    pub(crate) async fn commit_synced(&mut self) -> Result<(), StoreError> {
        self.commit()?;
        self.log.sync().await?;
        self.unsynced = false;
        Ok(())
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

    fn store(&mut self, body: Body) -> Result<SmolStr, StoreError> {
        self.check_writable()?;
        let entry = self.append(body);
        self.commit_behind()?;
        Ok(entry.id().clone())
    }
}
