//! Where something happens: what every handler and tool may know of the run round it.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc, LazyLock, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        child::ChildBuilder,
        controls::Controls,
        session::{Session, budget::Budget, reservation::Reservation},
        step_cx::StepCx,
    },
    fs::{file_views::FileViews, workspace::Workspace},
    history::ledger::HandlerRun,
    hooks::{
        clock::{ClockPause, HandlerClocks},
        events::EventKind,
        handler::CaveatKind,
        notes::{NoteAuthor, NoteKind, NoteQueue},
        points::PointId,
        ui::Ui,
    },
    text,
};

/// The surroundings of a handler: session, run, notes, the person. Cheap to clone.
///
/// A note is told to the model with the next request, under the name of whoever left it. It stays
/// in the queue until a request with it has succeeded.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, Cx, hooks::points::{ModelPre, ModelPreEvent}, named};
/// use cotter_test::{Recording, Scripted, Step};
///
/// let clock = |_: &ModelPreEvent, cx: &Cx| cx.note("it is Friday");
/// let model = Recording::new(Scripted::new([Step::text("Then I will hurry.")]));
/// let agent = Agent::builder(model.clone()).observe(ModelPre, named("clock", clock)).build()?;
/// agent.process_request("Ship it.").await?;
/// assert_eq!(
///     model.shown(),
///     "user: Ship it.\n\
///      note: <system-reminder>\nFrom hook \"clock\": it is Friday\n</system-reminder>\n",
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cx {
    pub(crate) run: Arc<RunCx>,
    /// Who speaks when a note is added, and acts when something is done.
    pub(crate) speaker: NoteAuthor,
    /// How many calls of tools this one is made within.
    pub(crate) depth: u8,
    /// How many requests, builds and summings-up of handlers this is part of.
    pub(crate) asides: u8,
    /// What it is paid from, where something was set aside for it.
    pub(crate) share: Option<Arc<Reservation>>,
    clock: Option<HandlerClocks>,
    /// Whether hooks are only tried.
    dry_run: bool,
}

/// What is the same for a whole run.
pub(crate) struct RunCx {
    pub(crate) session: Session,
    pub(crate) run_id: SmolStr,
    pub(crate) workspace: Workspace,
    pub(crate) step: AtomicU32,
    pub(crate) cancel: CancellationToken,
    pub(crate) budget: Budget,
    /// How many runs and calls were started from within this run, besides the model's own.
    pub(crate) started: AtomicU32,
    /// Fires when the run is aborted or over; made when somebody works for it.
    pub(crate) over: OnceLock<CancellationToken>,
    /// What the person was told once in a step: the step, what it was about, and the words.
    pub(crate) told: Mutex<Vec<(u32, String, String)>>,
}

/// The most of what a hook remarks that is kept.
pub(crate) const REMARK_CHARS: usize = 4000;

/// What fires for whoever comes after the end of a run.
static OVER: LazyLock<CancellationToken> = LazyLock::new(|| {
    let over = CancellationToken::new();
    over.cancel();
    over
});

impl RunCx {
    pub(crate) fn set_step(&self, step: u32) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// What somebody who works for this run is aborted by: its abort, and its end.
    pub(crate) fn cancel_below(&self) -> CancellationToken {
        self.over.get_or_init(|| self.cancel.child_token()).child_token()
    }

    /// The run is over: nobody works for it any more.
    pub(crate) fn end(&self) {
        self.over.get_or_init(|| OVER.clone()).cancel();
    }

    /// Whether it is over, or aborted.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// The next number of something started from within.
    pub(crate) fn next_started(&self) -> u32 {
        self.started.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Cx {
    pub(crate) fn new(run: Arc<RunCx>) -> Self {
        Cx {
            run,
            speaker: NoteAuthor::Runtime,
            depth: 0,
            asides: 0,
            share: None,
            clock: None,
            dry_run: false,
        }
    }

    /// The same place, where hooks are only tried.
    pub(crate) fn dry(self) -> Self {
        Cx { dry_run: true, ..self }
    }

    pub(crate) fn for_waiting(&self, clock: HandlerClocks) -> Self {
        Cx { clock: Some(clock), ..self.clone() }
    }

    /// The same place with somebody else speaking.
    pub(crate) fn spoken_by(&self, speaker: NoteAuthor) -> Self {
        Cx { speaker, ..self.clone() }
    }

    /// The same place, where something was set aside to pay with.
    pub(crate) fn paid_from(&self, share: Arc<Reservation>) -> Self {
        Cx { share: Some(share), ..self.clone() }
    }

    /// What it is paid from, where something was set aside, the nearest first.
    pub(crate) fn shares(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        std::iter::successors(self.share.as_ref(), |share| share.within.as_ref())
    }

    /// This, where the agent it is of was built, and so on.
    pub(crate) fn lineage(&self) -> impl Iterator<Item = &Cx> {
        std::iter::successors(Some(self), |cx| cx.session().agent.parent().map(|parent| &parent.cx))
    }

    pub(crate) fn session(&self) -> &Session {
        &self.run.session
    }

    /// Stops the handler's own clock while it waits for somebody else.
    pub(crate) fn pause(&self) -> Option<ClockPause> {
        self.clock.as_ref().map(HandlerClocks::pause)
    }

    /// Keeps what an `async` hook remarks besides its answer, for whoever looks after hooks: of a command,
    /// what it said on standard error. The last words count; they are told with what it answered, and to the
    /// model only of a hook outside the program that took too long. What is too long is cut.
    pub fn remark(&self, words: &str) {
        let words = text::clip(words.trim(), REMARK_CHARS);
        if let Some(clock) = self.clock.as_ref().filter(|_| !words.is_empty()) {
            clock.remark(words.into_owned().into());
        }
    }

    /// Keeps what is to be said about a hook's answer that does not tell by itself how it came about.
    pub(crate) fn set_caveat(&self, kind: CaveatKind, words: &str) {
        let words = text::clip(words.trim(), REMARK_CHARS).into_owned().into();
        if let Some(clock) = &self.clock {
            clock.set_caveat(kind, words);
        }
    }

    /// What was remarked last, which is taken.
    pub(crate) fn take_remark(&self) -> Option<Box<str>> {
        self.clock.as_ref().and_then(HandlerClocks::take_remark)
    }

    /// Puts on record what a hook did that nobody waited for. It is stored with what comes next; after the
    /// end of a run, at once.
    pub(crate) fn ran_alone(&self, point: PointId, ran: HandlerRun) {
        let step_cx = StepCx::of(self);
        if step_cx.store_ran(point, None, vec![ran]) && self.run.is_over() {
            step_cx.store_late();
        }
    }

    /// Shows listeners a piece of what a tool makes while it is at work.
    pub(crate) fn stream_output(&self, call_id: &SmolStr, text: &str) {
        let step_cx = StepCx::of(&self.spoken_by(NoteAuthor::Runtime));
        if step_cx.is_heard() && !text.is_empty() {
            step_cx.emit(EventKind::ToolOutput { call_id: call_id.clone(), text: text.into() });
        }
    }

    /// Whether a tool may read a file that its call does not name, by the newest rules.
    pub(crate) fn may_look_into(&self, tool: &str, path: &Path) -> bool {
        let workspace = self.workspace();
        let policy = &self.session().agent.generation().policy;
        workspace.is_readable(path) && !policy.keeps_back(tool, path, workspace)
    }

    /// What a handler can do here beyond its answer.
    pub fn controls(&self) -> Controls {
        Controls::new(self.clone())
    }

    /// An agent that works for this run, under its policy, ledger and budget.
    pub fn child(&self) -> ChildBuilder {
        ChildBuilder::new(self.clone())
    }

    /// The session of the run that everybody here works for: what a person said and what was read is
    /// kept there.
    pub(crate) fn root_session(&self) -> &Session {
        self.lineage().last().map_or(self.session(), Cx::session)
    }

    /// Whether a secret was read in this session, by the agent or by one that works for it.
    pub fn has_read_secret(&self) -> bool {
        self.root_session().has_read_secret()
    }

    /// Says that a secret was read, or what was remembered of one: from now on calls that reach beyond
    /// this machine are asked about. There is no way back within the session.
    pub fn mark_secret_read(&self, what: &str) {
        self.root_session().mark_secret_read(what);
    }

    /// Fires when a secret is read in this session; has fired where one was.
    pub fn until_secret_read(&self) -> &CancellationToken {
        self.root_session().until_secret_read()
    }

    /// What the model has seen of files in this session.
    pub fn seen(&self) -> &FileViews {
        &self.session().shared.seen
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session().shared.id
    }

    /// The run's id, unique within its session; empty outside a run.
    pub fn run_id(&self) -> &str {
        &self.run.run_id
    }

    /// The agent's id: `main` unless the agent has another.
    pub fn agent_id(&self) -> &str {
        self.session().agent.id()
    }

    /// The step under way, from 1; 0 before the first request.
    pub fn step(&self) -> u32 {
        self.run.step.load(Ordering::Relaxed)
    }

    /// Whether hooks are only tried here ([`Agent::try_hooks`](crate::agent::Agent::try_hooks)): nothing is about
    /// to happen. A hook with effects of its own leaves them out then.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The folders the run works in.
    pub fn workspace(&self) -> &Workspace {
        &self.run.workspace
    }

    /// Fires when the run is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        &self.run.cancel
    }

    fn ui(&self) -> &Arc<dyn Ui> {
        self.session().agent.ui()
    }

    fn notes(&self) -> &NoteQueue {
        &self.session().shared.notes
    }

    /// Whether a person can be reached.
    pub fn has_ui(&self) -> bool {
        self.ui().present()
    }

    /// Tells the model something with the next request. Blank text is not sent.
    pub fn note(&self, text: impl Into<String>) {
        self.notes().push(self.speaker.clone(), NoteKind::Context, text.into());
    }

    /// Tells the model what a hook had to say, as that hook's output.
    pub fn output(&self, text: impl Into<String>) {
        self.notes().push(self.speaker.clone(), NoteKind::Output, text.into());
    }

    /// Tells the person something. Nobody there is no error.
    pub fn notify(&self, text: &str) {
        self.ui().notify(text);
        StepCx::of(self).emit(EventKind::UiRequest { method: "notify", text: text.into() });
    }

    /// Tells the person something, once in a step for what it is about: whoever is asked again about the
    /// same says nothing new.
    pub(crate) fn notify_once(&self, about: String, text: &str) {
        let said = (self.step(), about, text.to_owned());
        {
            let mut told = self.run.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|(step, ..)| *step == said.0);
            if told.contains(&said) {
                return;
            }
            told.push(said);
        }
        self.notify(text);
    }

    /// Asks the person yes or no. The handler's limit stands still meanwhile; nobody there is a no.
    pub async fn confirm(&self, text: &str) -> bool {
        self.asked(self.ui().confirm(text)).await.unwrap_or(false)
    }

    /// Lets the person choose one of several. Nobody there, or no choice, is `None`.
    pub async fn select(&self, title: &str, options: &[String]) -> Option<usize> {
        let chosen = self.asked(self.ui().select(title, options)).await.flatten();
        chosen.filter(|index| *index < options.len())
    }

    /// Lets the person choose some of several, in the order of the options. Nobody there, or no choice,
    /// is `None`.
    pub async fn select_many(&self, title: &str, options: &[String]) -> Option<Vec<usize>> {
        let mut chosen = self.asked(self.ui().select_many(title, options)).await.flatten()?;
        chosen.retain(|index| *index < options.len());
        chosen.sort_unstable();
        chosen.dedup();
        Some(chosen).filter(|chosen| !chosen.is_empty())
    }

    /// Lets the person type a line. Nobody there is `None`.
    pub async fn input(&self, title: &str) -> Option<String> {
        self.asked(self.ui().input(title)).await.flatten()
    }

    async fn asked<T>(&self, asking: impl Future<Output = T>) -> Option<T> {
        let _paused = self.pause();
        tokio::select! {
            answer = asking => Some(answer),
            () = self.run.cancel.cancelled() => None,
        }
    }
}
