//! The loop. Everything hangs on [`Turn::go`]: prompt, then request, tools, request, … until the
//! model stops, a limit is reached or somebody aborts. One entrance, one exit.

mod attempt;
mod prompt;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt;
use smol_str::{SmolStr, format_smolstr};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Agent, Limits},
    cx::Cx,
    events::EventKind,
    ext::{Decided, Generation, panic_words},
    ledger::Record,
    message::{Content, Message, StopReason, ToolCall, Usage},
    points::{
        Error, Point, RunFailed, SessionEnd, SessionEnded, SessionStart, SessionStarted, TurnEnd,
        TurnEnding, TurnVerdict,
    },
    run::{Reason, Reply},
    scene::Scene,
    session::{Entry, Interrupted, Session, State, StoreError, Timestamp},
    tool::{self, ErrorKind, ToolSet},
};

/// How often in a row a gate may send the model on, or a reply may be cut off.
const GO_ON: u32 = 8;
const CUT_OFF: u32 = 3;

/// How a run begins.
pub(crate) enum Begin {
    Prompt(Content),
    Resume(Interrupted),
}

/// A run from its entrance to its single exit. It gets its `id` when its turn comes.
pub(crate) async fn run(
    session: Session,
    begin: Begin,
    cancel: CancellationToken,
    id: Arc<OnceLock<SmolStr>>,
) -> Reply {
    let state = session.shared.state.clone().lock_owned().await;
    // Boxed, so that a run's future stays small enough for the allocator's quick way.
    let mut turn = Box::new(Turn::new(session, state, &begin, cancel));
    id.get_or_init(|| turn.run_id().clone());
    // A model, a store or a person's ui that panics ends the run; it does not leave it open.
    let exit = match AssertUnwindSafe(turn.go(begin)).catch_unwind().await {
        Ok(Ok(never)) => match never {},
        Ok(Err(exit)) => exit,
        Err(panic) => {
            let words = format!("something panicked: {}", panic_words(&*panic));
            Exit::coded(Reason::Error, "panic", words)
        }
    };
    turn.end(exit).await
}

/// One run under way.
pub(crate) struct Turn {
    pub(crate) session: Session,
    pub(crate) state: OwnedMutexGuard<State>,
    pub(crate) cx: Cx,
    pub(crate) cancel: CancellationToken,
    /// Pinned for a step from start to end.
    pub(crate) generation: Arc<Generation>,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) step: u32,
    /// The calls a taken-up question was about; its other calls are gone.
    pub(crate) resumed: Option<Vec<SmolStr>>,
    /// The calls that had leave to run last: without a result, nobody knows what came of them.
    pub(crate) at_work: Vec<SmolStr>,
    /// Whether `session.start` was told.
    started: bool,
    replies: Vec<Arc<Entry>>,
    usage: Usage,
    /// `None` once a price was not known.
    cost: Option<f64>,
}

/// Why the loop was left.
#[derive(Debug)]
pub(crate) struct Exit {
    reason: Reason,
    pub(crate) failed: Option<RunFailed>,
}

impl Turn {
    /// The loop.
    async fn go(&mut self, begin: Begin) -> Result<Never, Exit> {
        let mut patience = Patience::default();
        let mut calls = self.start(begin).await?;
        loop {
            if calls.is_empty() {
                self.check_limits()?;
                self.next_step();
                let reply = self.request().await?;
                calls = called_by(&reply);
                if calls.is_empty() {
                    self.stop_or_go_on(&reply, &mut patience).await?;
                    continue;
                }
            }
            patience = Patience::default();
            Box::pin(tool::run_step(self, std::mem::take(&mut calls))).await?;
        }
    }

    /// Stores the start and the prompt, or takes up an interrupted step: the calls still open.
    async fn start(&mut self, begin: Begin) -> Result<Vec<ToolCall>, Exit> {
        self.state.check_writable()?;
        match begin {
            Begin::Resume(interrupted) => {
                self.started = true;
                self.step = interrupted.step;
                self.cx.run.set_step(self.step);
                self.take_up(&interrupted)
            }
            Begin::Prompt(content) => {
                self.abandon_question().await?;
                self.close_calls_left_behind();
                let (at, model) = (Timestamp::now(), self.agent().model().name().clone());
                let (run, agent) = (self.run_id().clone(), self.agent().id().clone());
                self.state.record(Record::RunStart { run, at, model: model.clone(), agent });
                self.emit(|| EventKind::SessionStart { model: model.clone() })?;
                self.fire::<SessionStart>(|| SessionStarted { model }).await?;
                self.started = true;
                self.prompt(content).await?;
                Ok(vec![])
            }
        }
    }

    /// A step is one request and the calls it led to; it reads one generation from start to end.
    fn next_step(&mut self) {
        self.step = self.step.saturating_add(1);
        self.cx.run.set_step(self.step);
        if self.agent().live().number() != self.generation.number {
            self.generation = self.agent().generation();
            self.tools = self.agent().scoped(&self.generation.tools);
        }
    }

    fn check_limits(&self) -> Result<(), Exit> {
        let Limits { max_steps, max_budget_usd, max_tokens, .. } = *self.agent().limits();
        if self.cancel.is_cancelled() {
            return Err(Exit::aborted());
        }
        if max_steps.is_some_and(|max| self.step >= max) {
            let message = format!("the run took as many steps as it may: {}", self.step);
            return Err(Exit::failed(Reason::MaxTurns, message));
        }
        if let Some(max) = max_tokens.filter(|max| self.usage.total() >= *max) {
            let message = format!("the run used {} tokens of {max}", self.usage.total());
            return Err(Exit::failed(Reason::BudgetExceeded, message));
        }
        match (max_budget_usd, self.cost) {
            (None, _) => Ok(()),
            (Some(max), Some(cost)) if cost < max => Ok(()),
            (Some(max), Some(cost)) => {
                let message = format!("the run cost {cost:.4} USD of {max:.4}");
                Err(Exit::failed(Reason::BudgetExceeded, message))
            }
            (Some(_), None) => {
                let message = "the price of a reply is not known, so the budget cannot be kept";
                Err(Exit::failed(Reason::BudgetExceeded, message))
            }
        }
    }

    /// The model called nothing: it is done, was cut off, or is sent on.
    async fn stop_or_go_on(&mut self, reply: &Entry, patience: &mut Patience) -> Result<(), Exit> {
        let Some(Message::Assistant(reply)) = reply.message() else { return Ok(()) };
        match reply.stop_reason {
            StopReason::Refusal => return Err(Exit::plain(Reason::Refusal)),
            StopReason::Aborted => return Err(Exit::aborted()),
            StopReason::MaxTokens if patience.cut_off < CUT_OFF => {
                patience.cut_off += 1;
                let words = "Your reply was cut off at its length limit. Go on where it stopped.";
                self.session.shared.notes.say(words.into());
                return Ok(());
            }
            StopReason::MaxTokens => {
                let message = "the reply did not fit into its length limit";
                return Err(Exit::failed(Reason::MaxTokens, message));
            }
            StopReason::EndTurn | StopReason::ToolUse => {}
        }
        let gone_on = patience.gone_on;
        let text = || TurnEnding { text: reply.text(), gone_on };
        let decided = self.fire::<TurnEnd>(text).await?;
        match decided.as_ref().and_then(Decided::strictest) {
            Some((meta, TurnVerdict::GoOn(why))) if gone_on < GO_ON => {
                patience.gone_on += 1;
                let words = format!("Hook \"{}\" asks you to go on: {why}", meta.name);
                self.session.shared.notes.say(words);
                Ok(())
            }
            _ if self.cancel.is_cancelled() => Err(Exit::aborted()),
            _ => Err(Exit::plain(Reason::EndTurn)),
        }
    }

    /// The single exit.
    async fn end(mut self: Box<Self>, mut exit: Exit) -> Reply {
        // History is always well paired, whatever happened.
        tool::close_open_calls(&mut self);
        let (run, at) = (self.run_id().clone(), Timestamp::now());
        let (steps, usage, cost) = (self.step, self.usage, self.cost);
        let reason = exit.reason;
        if self.state.check_writable().is_ok() {
            self.state.record(Record::RunEnd { run, at, reason, steps, usage, cost });
            if let Err(error) = self.state.commit_behind() {
                exit = Exit::from(error);
            }
        }
        let reason = exit.reason;
        self.tell_end(reason, exit.failed.as_ref()).await;
        Reply {
            session_id: self.session.id().clone(),
            run_id: self.run_id().clone(),
            messages: std::mem::take(&mut self.replies),
            reason,
            error: exit.failed,
            steps: self.step,
            usage: self.usage,
            cost_usd: self.cost,
        }
    }
}

impl Turn {
    /// Tells of the end also where nothing can be stored any more; hooks, of a start they were told.
    async fn tell_end(&mut self, reason: Reason, failed: Option<&RunFailed>) {
        let heard = self.session.shared.hub.is_heard();
        let points = [Error::ID, SessionEnd::ID];
        if !heard && !points.iter().any(|point| self.generation.has(*point)) {
            return;
        }
        let scene = self.scene();
        if let Some(failed) = failed {
            if heard {
                scene.emit(EventKind::Error(failed.clone()));
            }
            if self.started {
                scene.fire::<Error>(|| failed.clone()).await;
            }
        }
        if self.started {
            scene.fire::<SessionEnd>(|| SessionEnded { reason }).await;
        }
        if heard {
            scene.emit(EventKind::SessionEnd { reason });
        }
    }
}

/// What the loop has put up with since the last tool call.
#[derive(Default)]
struct Patience {
    gone_on: u32,
    cut_off: u32,
}

/// The calls of a reply, in order.
fn called_by(reply: &Entry) -> Vec<ToolCall> {
    match reply.message() {
        Some(Message::Assistant(assistant)) => assistant.calls().cloned().collect(),
        _ => vec![],
    }
}

/// The loop is only ever left by an [`Exit`].
enum Never {}

impl Turn {
    fn new(
        session: Session,
        mut state: OwnedMutexGuard<State>,
        begin: &Begin,
        cancel: CancellationToken,
    ) -> Self {
        let run_id: SmolStr = match begin {
            Begin::Resume(interrupted) => interrupted.run.clone(),
            Begin::Prompt(_) => {
                state.next_run += 1;
                format_smolstr!("r{}", state.next_run - 1)
            }
        };
        let generation = session.agent.generation();
        Turn {
            cx: session.cx(run_id, cancel.clone()),
            tools: session.agent.scoped(&generation.tools),
            session,
            state,
            cancel,
            generation,
            step: 0,
            resumed: None,
            at_work: vec![],
            started: false,
            replies: vec![],
            usage: Usage::default(),
            cost: Some(0.0),
        }
    }

    /// A new prompt in place of an answer: the run that waited for it gets its end.
    async fn abandon_question(&mut self) -> Result<(), StoreError> {
        let Some(interrupted) = self.state.pending.take() else { return Ok(()) };
        self.state.abandon(&interrupted);
        self.state.commit()?;
        let crashed = || SessionEnded { reason: Reason::Crashed };
        self.session.scene(interrupted.run).fire::<SessionEnd>(crashed).await;
        Ok(())
    }

    /// Answers the calls whose results a move of the leaf left on another branch.
    fn close_calls_left_behind(&mut self) {
        for call in self.state.open_calls() {
            let words = "The result of this call is not on this branch of the session.";
            self.close_call(&call, ErrorKind::Unavailable, words);
        }
    }

    /// Answers a call that will get no answer of its own. A store that fails is told elsewhere.
    pub(crate) fn close_call(&mut self, call: &ToolCall, kind: ErrorKind, words: &str) {
        let entry = self.state.close_call(call, kind, words);
        let _ = self.emit(|| EventKind::Message { entry });
    }

    /// The calls of an interrupted step: those that were asked about go on, the others are closed.
    fn take_up(&mut self, interrupted: &Interrupted) -> Result<Vec<ToolCall>, Exit> {
        let open = self.state.open_calls();
        let asked = |call: &ToolCall| interrupted.asked.contains(&call.id);
        if Timestamp::now() >= interrupted.deadline || !open.iter().any(asked) {
            return Err(Exit::aborted());
        }
        self.resumed = Some(interrupted.asked.clone());
        Ok(open)
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.session.agent
    }

    pub(crate) fn run_id(&self) -> &SmolStr {
        &self.cx.run.run_id
    }

    /// Tells whoever listens. What is told has been stored.
    pub(crate) fn emit(&mut self, kind: impl FnOnce() -> EventKind) -> Result<(), StoreError> {
        if self.session.shared.hub.is_heard() {
            self.state.commit()?;
            self.scene().emit(kind());
        }
        Ok(())
    }

    /// Where this step fires its points.
    pub(crate) fn scene(&self) -> Scene {
        let hub = self.session.shared.hub.clone();
        Scene { generation: self.generation.clone(), hub, cx: self.cx.clone() }
    }

    /// The same with the newest generation: tightening acts at once.
    pub(crate) fn newest_scene(&self) -> Scene {
        Scene { generation: self.agent().generation(), ..self.scene() }
    }

    /// Fires a point, where anybody is registered there. What handlers see has been stored.
    pub(crate) async fn fire<P: Point>(
        &mut self,
        event: impl FnOnce() -> P::Event,
    ) -> Result<Option<Decided<P>>, StoreError> {
        if !self.generation.has(P::ID) {
            return Ok(None);
        }
        self.state.commit()?;
        Ok(self.scene().fire::<P>(event).await)
    }

    fn record_reply(&mut self, entry: &Arc<Entry>, cost: Option<f64>) {
        if let Some(Message::Assistant(assistant)) = entry.message() {
            self.usage += assistant.usage;
        }
        // What is no price is an unknown one.
        let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
        self.cost = self.cost.zip(cost).map(|(so_far, more)| so_far + more);
        self.replies.push(entry.clone());
    }
}

impl Exit {
    pub(crate) fn plain(reason: Reason) -> Self {
        Exit { reason, failed: None }
    }

    pub(crate) fn aborted() -> Self {
        Exit::plain(Reason::Aborted)
    }

    pub(crate) fn failed(reason: Reason, message: impl Into<String>) -> Self {
        Exit::coded(reason, reason.as_str(), message)
    }

    pub(crate) fn coded(reason: Reason, code: &str, message: impl Into<String>) -> Self {
        let failed = RunFailed { code: code.into(), message: message.into() };
        Exit { reason, failed: Some(failed) }
    }
}

impl From<StoreError> for Exit {
    fn from(error: StoreError) -> Self {
        Exit::from(&error)
    }
}

impl From<&StoreError> for Exit {
    fn from(error: &StoreError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        Exit::coded(Reason::Error, "store", message)
    }
}
