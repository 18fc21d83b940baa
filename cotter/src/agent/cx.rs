//! The context that every handler and tool gets: its session and run, notes to the model, and questions to
//! the person.

use std::{
    future::Future,
    path::{Path, PathBuf},
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
    permission::file_rules::FileRules,
    text,
};

/// The context of a handler: session, run, notes, the person. Cheap to clone.
///
/// A note reaches the model with the next request, under the name of its author. It stays in the queue
/// until a request with it succeeds.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, Cx, hooks::points::{ModelPre, ModelPreEvent}, named};
/// use cotter_test::{RecordingModel, ScriptedModel, Step};
///
/// let clock = |_: &ModelPreEvent, cx: &Cx| cx.note("it is Friday");
/// let model = RecordingModel::new(ScriptedModel::new([Step::text("Then I will hurry.")]));
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
    /// The author of notes and the actor of actions from this context.
    pub(crate) author: NoteAuthor,
    /// The number of tool calls that this context is nested in.
    pub(crate) depth: u8,
    /// The number of actions of handlers that this context is nested in. Such an action is a model request,
    /// the building of an agent or a compaction that a handler starts itself.
    pub(crate) action_depth: u8,
    /// The reservation that pays for this context, if there is one.
    pub(crate) reservation: Option<Arc<Reservation>>,
    /// The clock of the `async` handler that this context belongs to. It also stores the handler's remark and
    /// caveat. `None` if there is no such handler.
    clock: Option<HandlerClocks>,
    /// True in a dry run.
    dry_run: bool,
}

/// The part of a context that is the same for a whole run.
pub(crate) struct RunCx {
    pub(crate) session: Session,
    pub(crate) run_id: SmolStr,
    pub(crate) workspace: Workspace,
    pub(crate) step: AtomicU32,
    pub(crate) cancel: CancellationToken,
    pub(crate) budget: Budget,
    /// The number of runs and tool calls that handlers and tools started within this run. Calls of the model
    /// are not counted.
    pub(crate) nested_count: AtomicU32,
    /// Fires when the run is aborted or ends; the tokens of its children fire with it. It is created when the
    /// first child starts, or at the end of a run without children.
    pub(crate) end_token: OnceLock<CancellationToken>,
    /// The messages of [`Cx::notify_once`] in the current step: the step, the subject and the text.
    pub(crate) notified: Mutex<Vec<(u32, String, String)>>,
}

/// The greatest length of a hook's remark; the rest is cut.
pub(crate) const REMARK_CHARS: usize = 4000;

/// The `end_token` of a run that ended without children. It has already fired, so a child that starts later
/// is cancelled at once.
static ENDED_TOKEN: LazyLock<CancellationToken> = LazyLock::new(|| {
    let token = CancellationToken::new();
    token.cancel();
    token
});

impl RunCx {
    pub(crate) fn set_step(&self, step: u32) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// A token for a child of this run. It fires when the run is aborted or ends.
    pub(crate) fn new_child_cancel(&self) -> CancellationToken {
        self.end_token.get_or_init(|| self.cancel.child_token()).child_token()
    }

    /// Marks the run as ended. The tokens of its children fire, and so does the token of a child that starts
    /// later.
    pub(crate) fn end(&self) {
        self.end_token.get_or_init(|| ENDED_TOKEN.clone()).cancel();
    }

    /// True if `end_token` has fired: the run has ended, or a run with children was aborted. A run without
    /// children has no such token before its end, so its abort is not seen here.
    pub(crate) fn is_over(&self) -> bool {
        self.end_token.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// The next number for a run or a call that is started from within.
    pub(crate) fn next_nested_number(&self) -> u32 {
        self.nested_count.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Cx {
    pub(crate) fn new(run: Arc<RunCx>) -> Self {
        Cx {
            run,
            author: NoteAuthor::Runtime,
            depth: 0,
            action_depth: 0,
            reservation: None,
            clock: None,
            dry_run: false,
        }
    }

    /// Returns this context for a dry run.
    pub(crate) fn for_dry_run(self) -> Self {
        Cx { dry_run: true, ..self }
    }

    /// Returns this context with the clock of an `async` handler.
    pub(crate) fn with_clocks(&self, clock: HandlerClocks) -> Self {
        Cx { clock: Some(clock), ..self.clone() }
    }

    /// Returns this context with another author.
    pub(crate) fn with_author(&self, author: NoteAuthor) -> Self {
        Cx { author, ..self.clone() }
    }

    /// Returns this context, paid from a reservation.
    pub(crate) fn with_reservation(&self, reservation: Arc<Reservation>) -> Self {
        Cx { reservation: Some(reservation), ..self.clone() }
    }

    /// The reservations that pay for this context, the nearest first.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        std::iter::successors(self.reservation.as_ref(), |inner| inner.parent.as_ref())
    }

    /// This context, then the context of its parent run, and so on up to the topmost run. The parent run is
    /// the run whose handler or tool built this context's agent as a child.
    pub(crate) fn lineage(&self) -> impl Iterator<Item = &Cx> {
        std::iter::successors(Some(self), |cx| cx.session().agent.parent().map(|parent| &parent.cx))
    }

    pub(crate) fn session(&self) -> &Session {
        &self.run.session
    }

    /// Stops the handler's clock while it waits for something else.
    pub(crate) fn pause(&self) -> Option<ClockPause> {
        self.clock.as_ref().map(HandlerClocks::pause)
    }

    /// Stores a remark for the person who maintains a hook, such as the standard error of a command. Only
    /// `async` hooks have remarks; for others, the call does nothing.
    ///
    /// The last remark counts, and it is reported with the hook's answer. The model does not see it, with
    /// one exception: if an external hook reaches its time limit, the error quotes the end of the remark. A
    /// remark that is too long is cut. A blank remark is ignored.
    pub fn remark(&self, remark: &str) {
        let remark = text::cut_chars(remark.trim(), REMARK_CHARS);
        if let Some(clock) = self.clock.as_ref().filter(|_| !remark.is_empty()) {
            clock.remark(remark.into_owned().into());
        }
    }

    /// Stores a caveat about a hook's answer: a failure that the answer does not show. Unlike a remark, a
    /// caveat has a kind, which changes how the hook's run is recorded.
    pub(crate) fn set_caveat(&self, kind: CaveatKind, message: &str) {
        let message = text::cut_chars(message.trim(), REMARK_CHARS).into_owned().into();
        if let Some(clock) = &self.clock {
            clock.set_caveat(kind, message);
        }
    }

    /// Takes the last remark of this handler ([`Cx::remark`]).
    pub(crate) fn take_remark(&self) -> Option<Box<str>> {
        self.clock.as_ref().and_then(HandlerClocks::take_remark)
    }

    /// Records the run of a hook that the agent's run did not wait for. The record is stored with the next
    /// commit, or at once if the agent's run is over.
    pub(crate) fn record_detached_hook_run(&self, point: PointId, hook_run: HandlerRun) {
        let step_cx = StepCx::of(self);
        if step_cx.stage_hook_runs(point, None, vec![hook_run]) && self.run.is_over() {
            step_cx.commit_after_run();
        }
    }

    /// Sends listeners a piece of a tool's output while the tool runs.
    pub(crate) fn stream_output(&self, call_id: &SmolStr, text: &str) {
        let step_cx = StepCx::of(&self.with_author(NoteAuthor::Runtime));
        if step_cx.has_listeners() && !text.is_empty() {
            step_cx.emit(EventKind::ToolOutput { call_id: call_id.clone(), text: text.into() });
        }
    }

    /// True if the newest rules let a tool read a file within a folder that its call names. The call names
    /// the folder, not the file.
    pub(crate) fn may_read_within(&self, tool: &str, path: &Path) -> bool {
        let workspace = self.workspace();
        let policy = &self.session().agent.generation().policy;
        workspace.is_readable(path) && !policy.should_hide_file(tool, path, workspace)
    }

    /// The rules about files, for a sandbox that enforces them.
    pub fn file_rules(&self) -> FileRules {
        self.session().agent.generation().policy.file_rules()
    }

    /// The files that hooks run: writing one changes what runs.
    pub fn declared_files(&self) -> Vec<PathBuf> {
        let generation = self.session().agent.generation();
        let files = generation.protected.iter();
        files.flat_map(|file| file.paths(self.workspace())).collect()
    }

    /// The controls: actions of a handler beyond its answer.
    pub fn controls(&self) -> Controls {
        Controls::new(self.clone())
    }

    /// Builds a child of this run, under the run's policy, ledger and budget.
    pub fn child(&self) -> ChildBuilder {
        ChildBuilder::new(self.clone())
    }

    /// The session of the topmost run. It keeps the person's answers and the mark that a secret was read.
    pub(crate) fn root_session(&self) -> &Session {
        self.lineage().last().map_or(self.session(), Cx::session)
    }

    /// True if a secret was read in this session, by the agent or by a child.
    pub fn has_read_secret(&self) -> bool {
        self.root_session().has_read_secret()
    }

    /// Marks that a secret, or something derived from it, was read. From now on, calls that reach beyond
    /// this machine are asked about. The mark cannot be removed within the session.
    pub fn mark_secret_read(&self, what: &str) {
        self.root_session().mark_secret_read(what);
    }

    /// A token that fires when a secret is read in this session; it has already fired if one was read.
    pub fn secret_read_token(&self) -> &CancellationToken {
        self.root_session().secret_read_token()
    }

    /// The parts of files that the model has seen in this session.
    pub fn file_views(&self) -> &FileViews {
        &self.session().shared.file_views
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

    /// The current step, from 1; 0 before the first request.
    pub fn step(&self) -> u32 {
        self.run.step.load(Ordering::Relaxed)
    }

    /// True in a dry run ([`Agent::try_hooks`](crate::agent::Agent::try_hooks)): hooks are asked, and
    /// nothing follows. A hook skips its own side effects then.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The folders that the run works in.
    pub fn workspace(&self) -> &Workspace {
        &self.run.workspace
    }

    /// Returns the token that fires when the run is aborted. The call itself cancels nothing.
    pub fn cancel(&self) -> &CancellationToken {
        &self.run.cancel
    }

    fn ui(&self) -> &Arc<dyn Ui> {
        self.session().agent.ui()
    }

    fn notes(&self) -> &NoteQueue {
        &self.session().shared.notes
    }

    /// True if a person can be reached.
    pub fn has_ui(&self) -> bool {
        self.ui().present()
    }

    /// Sends the model a note with the next request. The note names its author, for example
    /// `From hook "clock"`. Blank text is not sent.
    pub fn note(&self, text: impl Into<String>) {
        self.notes().push(self.author.clone(), NoteKind::Context, text.into());
    }

    /// Sends the model a text with the next request, like [`Cx::note`], but marked as the output of a hook:
    /// `Output of hook "clock"`.
    pub fn output(&self, text: impl Into<String>) {
        self.notes().push(self.author.clone(), NoteKind::Output, text.into());
    }

    /// Shows the person a message. It is no error if no person can be reached.
    pub fn notify(&self, text: &str) {
        self.ui().notify(text);
        StepCx::of(self).emit(EventKind::UiRequest { method: "notify", text: text.into() });
    }

    /// Shows the person a message, at most once per step and subject. A handler that is asked again about
    /// the same subject does not repeat the message.
    pub(crate) fn notify_once(&self, subject: String, text: &str) {
        let message = (self.step(), subject, text.to_owned());
        {
            let mut notified = self.run.notified.lock().unwrap_or_else(PoisonError::into_inner);
            notified.retain(|(step, ..)| *step == message.0);
            if notified.contains(&message) {
                return;
            }
            notified.push(message);
        }
        self.notify(text);
    }

    /// Asks the person yes or no. The handler's clock stops meanwhile. Returns false if no person can be
    /// reached.
    pub async fn confirm(&self, text: &str) -> bool {
        self.await_answer(self.ui().confirm(text)).await.unwrap_or(false)
    }

    /// Lets the person choose one of several options. Returns `None` without a person or a choice.
    pub async fn select(&self, title: &str, options: &[String]) -> Option<usize> {
        let chosen = self.await_answer(self.ui().select(title, options)).await.flatten();
        chosen.filter(|index| *index < options.len())
    }

    /// Lets the person choose some of several options; the result is in the order of the options. Returns
    /// `None` without a person or a choice.
    pub async fn select_many(&self, title: &str, options: &[String]) -> Option<Vec<usize>> {
        let mut chosen =
            self.await_answer(self.ui().select_many(title, options)).await.flatten()?;
        chosen.retain(|index| *index < options.len());
        chosen.sort_unstable();
        chosen.dedup();
        Some(chosen).filter(|chosen| !chosen.is_empty())
    }

    /// Lets the person type a line. Returns `None` without a person.
    pub async fn input(&self, title: &str) -> Option<String> {
        self.await_answer(self.ui().input(title)).await.flatten()
    }

    async fn await_answer<T>(&self, question: impl Future<Output = T>) -> Option<T> {
        let _paused = self.pause();
        tokio::select! {
            answer = question => Some(answer),
            () = self.run.cancel.cancelled() => None,
        }
    }
}
