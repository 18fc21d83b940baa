//! The loop of a run. [`RunLoop::run_to_exit`] is its body: prompt, then request, tools, request, and so
//! on. It ends when the model stops, a limit is reached or the run is aborted. The loop has one entrance
//! and one exit.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt;
use smol_str::{SmolStr, format_smolstr};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        Agent, Limits,
        session::{
            Session,
            budget::{self, Spending},
            recovery::InterruptedRun,
        },
        step_cx::StepCx,
    },
    history::{
        entry::{Entry, Timestamp},
        ledger::Record,
        message::{Message, StopReason, ToolCall},
        outcome::{EndReason, ToolErrorKind},
        store::StoreError,
    },
    hooks::{
        dispatch::{PointOutcome, panic_message},
        events::EventKind,
        points::{
            Point,
            error::{Error, RunFailure},
            session::{SessionEnd, SessionEndEvent, SessionStart, SessionStartEvent},
            turn_end::{TurnEnd, TurnEndEvent, TurnEndVerdict},
        },
    },
    model::Model,
    pipeline::{self, StepEnd},
    run::{
        Reply,
        prompt::{self, PromptInput, StagedPrompt},
    },
};

/// The greatest number of consecutive continuations by a gate, and of consecutive cut-off replies.
const MAX_CONTINUATIONS: u32 = 8;
const MAX_CUT_OFFS: u32 = 3;

/// The beginning of a run.
pub(crate) enum RunInput {
    Prompt(PromptInput),
    Resume(InterruptedRun),
}

/// Executes a run from its entrance to its single exit. The run gets its `id` when the session serves it.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would keep each argument twice")]
pub(crate) fn run(
    session: Session,
    mut input: RunInput,
    cancel: CancellationToken,
    id: Arc<OnceLock<SmolStr>>,
) -> impl Future<Output = Reply> + Send + 'static {
    async move {
        if let RunInput::Prompt(prompt) = &mut input
            && prompt::may_be_command(prompt)
            && let Err(reply) = Box::pin(prompt::run_command(&session, prompt, &cancel)).await
        {
            return reply;
        }
        let _lock = session.shared.run_lock.lock().await;
        // Boxed, so that the future of a run stays small enough for the fast path of the allocator.
        let mut run_loop = Box::new(RunLoop::new(&session, input, cancel));
        id.get_or_init(|| run_loop.step_cx.run_id().clone());
        // A panic in a model, a store or a ui ends the run; it does not leave the run open.
        let exit = match AssertUnwindSafe(run_loop.run_to_exit()).catch_unwind().await {
            Ok(Ok(never)) => match never {},
            Ok(Err(exit)) => exit,
            Err(panic) => {
                let message = format!("the run panicked: {}", panic_message(&*panic));
                RunExit::coded(EndReason::Error, "panic", message)
            }
        };
        run_loop.end(exit).await
    }
}

/// One run in progress.
pub(crate) struct RunLoop {
    pub(crate) step_cx: StepCx,
    /// The input; taken at the start.
    input: Option<RunInput>,
    /// The models for the next request, in order.
    pub(crate) models: Arc<[Arc<dyn Model>]>,
    /// The models that a fallback replaced in this run. They are not asked again.
    pub(crate) given_up: Vec<SmolStr>,
    step: u32,
    /// The number of times that a gate made the model continue.
    continuation_count: u32,
    /// The calls of a resumed question. The other calls of that step are closed.
    resumed: Option<Vec<SmolStr>>,
    /// True if `session.start` was fired.
    started: bool,
    pub(crate) replies: Vec<Arc<Entry>>,
}

/// The reason why the loop was left.
#[derive(Debug)]
pub(crate) struct RunExit {
    pub(crate) reason: EndReason,
    pub(crate) failure: Option<RunFailure>,
}

impl RunLoop {
    /// Executes the loop.
    async fn run_to_exit(&mut self) -> Result<NoReturn, RunExit> {
        let mut stalls = StallCounts::default();
        let mut calls = self.start().await?;
        loop {
            if calls.is_empty() {
                self.check_limits()?;
                self.next_step().await?;
                let reply = self.request().await?;
                calls = calls_of(&reply);
                if calls.is_empty() {
                    self.stop_or_continue(&reply, &mut stalls).await?;
                    continue;
                }
            }
            stalls = StallCounts::default();
            let (calls, resumed) = (std::mem::take(&mut calls), self.resumed.take());
            Box::pin(pipeline::run_step(&self.step_cx, calls, resumed)).await?;
        }
    }

    /// Stores the start and the prompt, or resumes an interrupted step. Returns the calls that are still
    /// open.
    async fn start(&mut self) -> Result<Vec<ToolCall>, RunExit> {
        match self.input.take() {
            None => Ok(vec![]),
            Some(RunInput::Resume(interrupted)) => {
                self.step_cx.state().check_writable()?;
                self.started = true;
                self.step = interrupted.step;
                self.step_cx.cx.run.set_step(self.step);
                self.resume_calls(&interrupted)
            }
            Some(RunInput::Prompt(input)) => {
                self.close_earlier_run().await?;
                let (at, model) = (Timestamp::now(), self.models[0].name().clone());
                let (run, agent) = (self.step_cx.run_id().clone(), self.agent().id().clone());
                let record = Record::RunStart { run, at, model: model.clone(), agent };
                self.step_cx.state().record(record);
                self.step_cx
                    .commit_and_emit(|| EventKind::SessionStart { model: model.clone() })?;
                self.step_cx.fire_stored::<SessionStart>(|| SessionStartEvent { model }).await?;
                self.started = true;
                if self.step_cx.is_cancelled() {
                    return Err(RunExit::aborted());
                }
                match prompt::stage(&self.step_cx, input).await? {
                    StagedPrompt::AskModel => Ok(vec![]),
                    StagedPrompt::Answered(replies) => {
                        self.replies = replies;
                        Err(RunExit::plain(EndReason::ShortCircuit))
                    }
                }
            }
        }
    }

    /// Begins a step: one request and its calls. A step uses one generation from start to end. Waiting
    /// entries and steering texts are added before it.
    async fn next_step(&mut self) -> Result<(), RunExit> {
        self.step = self.step.saturating_add(1);
        self.step_cx.cx.run.set_step(self.step);
        let (added, steering) = {
            let mut state = self.step_cx.state();
            (state.add_pending_entries(), state.take_steering())
        };
        // Only now: triggers of skills search the entries that were just added.
        if !self.step_cx.session().is_view_current(&self.step_cx.view) {
            self.step_cx = self.step_cx.with_newest_view();
        }
        self.models = self.step_cx.session().models();
        let is_usable = |model: &&Arc<dyn Model>| !self.given_up.contains(model.name());
        if !self.given_up.is_empty() && self.models.iter().any(|model| is_usable(&model)) {
            self.models = self.models.iter().filter(is_usable).cloned().collect();
        }
        if let Some(text) = self.step_cx.session().take_listing_changes(&self.step_cx.view) {
            self.step_cx.session().shared.notes.push_from_runtime(text);
        }
        for entry in added {
            self.step_cx.commit_and_emit(|| EventKind::Message { entry })?;
        }
        for content in steering {
            Box::pin(prompt::steer(&self.step_cx, content)).await?;
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), RunExit> {
        let Limits { max_steps, .. } = *self.agent().limits();
        if self.step_cx.is_cancelled() {
            return Err(RunExit::aborted());
        }
        if max_steps.is_some_and(|max| self.step >= max) {
            let message = format!("the run reached its limit of {} steps", self.step);
            return Err(RunExit::failed(EndReason::MaxTurns, message));
        }
        match budget::exhaustion_reason(&self.step_cx.cx) {
            Some(reason) => Err(RunExit::failed(EndReason::BudgetExceeded, reason)),
            None => Ok(()),
        }
    }

    /// Decides after a reply without calls: the model is done, was cut off, or must continue.
    async fn stop_or_continue(
        &mut self,
        reply: &Entry,
        stalls: &mut StallCounts,
    ) -> Result<(), RunExit> {
        let Some(Message::Assistant(reply)) = reply.message() else { return Ok(()) };
        match reply.stop_reason {
            StopReason::Refusal => return Err(RunExit::plain(EndReason::Refusal)),
            StopReason::Aborted => return Err(RunExit::aborted()),
            StopReason::MaxTokens if stalls.cut_offs < MAX_CUT_OFFS => {
                stalls.cut_offs += 1;
                for call in reply.calls() {
                    let message = "Not run: the reply reached its length limit; send complete \
                                 arguments, smaller if they were cut off.";
                    self.step_cx.close_call(call, ToolErrorKind::InvalidArgs, message);
                }
                let note = "Your reply was cut off at its length limit. Continue where it stopped.";
                self.add_runtime_note(note.into());
                return Ok(());
            }
            StopReason::MaxTokens => {
                let message = "the reply did not fit into its length limit";
                return Err(RunExit::failed(EndReason::MaxTokens, message));
            }
            StopReason::EndTurn | StopReason::ToolUse => {}
        }
        if self.step_cx.state().has_steering() {
            return Ok(());
        }
        let continued_in_row = stalls.continuations;
        let continued_in_run = self.continuation_count;
        let event = || TurnEndEvent { text: reply.text(), continued_in_row, continued_in_run };
        let outcome = self.step_cx.fire_stored::<TurnEnd>(event).await?;
        match outcome.as_ref().and_then(PointOutcome::strictest) {
            Some((meta, TurnEndVerdict::GoOn(reason))) if continued_in_row < MAX_CONTINUATIONS => {
                stalls.continuations += 1;
                self.continuation_count += 1;
                self.add_runtime_note(format!(
                    "Hook \"{}\" asks you to continue: {reason}",
                    meta.name
                ));
                Ok(())
            }
            _ if self.step_cx.is_cancelled() => Err(RunExit::aborted()),
            // A handler that was just asked may have added a steering text.
            _ if self.step_cx.state().has_steering() => Ok(()),
            _ => Err(RunExit::plain(EndReason::EndTurn)),
        }
    }

    /// Ends the run. This is the single exit.
    async fn end(mut self: Box<Self>, mut exit: RunExit) -> Reply {
        let is_aborted = exit.reason == EndReason::Aborted;
        if let (true, Some(reason)) = (is_aborted, self.step_cx.state().end_reason()) {
            exit = RunExit::failed(EndReason::Blocked, reason);
        }
        // Every call gets a result, whatever happened.
        pipeline::close_open_calls(&self.step_cx);
        let (run, at) = (self.step_cx.run_id().clone(), Timestamp::now());
        let Spending { usage, cost, .. } = self.step_cx.cx.run.budget.spent();
        let unused = self.step_cx.state().take_unused_models();
        drop(unused);
        let (reason, steps) = (exit.reason, self.step);
        let stored = self.step_cx.state().finish_run(|| Record::RunEnd {
            run,
            at,
            reason,
            steps,
            usage,
            cost,
        });
        match stored {
            Ok(added) => {
                let events = added.into_iter().map(|entry| EventKind::Message { entry });
                events.for_each(|event| self.step_cx.emit(event));
            }
            Err(error) => exit = RunExit::from(error),
        }
        let reason = exit.reason;
        self.report_end(reason, exit.failure.as_ref()).await;
        self.send_late_steering(is_aborted);
        self.step_cx.cx.run.end();
        Reply {
            session_id: self.step_cx.session().id().clone(),
            run_id: self.step_cx.run_id().clone(),
            messages: std::mem::take(&mut self.replies),
            status: None,
            reason,
            error: exit.failure,
            steps,
            usage,
            cost_usd: cost,
        }
    }
}

impl RunLoop {
    /// Sends steering texts that came too late for this run as the next prompts. After an abort they are
    /// dropped.
    fn send_late_steering(&self, is_aborted: bool) {
        let late = self.step_cx.state().take_steering();
        if !is_aborted {
            late.into_iter().for_each(|text| self.step_cx.session().prompt_plain(text).detach());
        }
    }

    /// Reports the end, even if nothing can be stored any more. Hooks are notified of the end only if they
    /// were notified of the start.
    async fn report_end(&mut self, reason: EndReason, failure: Option<&RunFailure>) {
        let step_cx = &self.step_cx;
        let points = [Error::ID, SessionEnd::ID];
        if !step_cx.has_listeners() && !points.iter().any(|point| step_cx.generation().has(*point))
        {
            return;
        }
        if let Some(failure) = failure {
            step_cx.emit(EventKind::Error(failure.clone()));
            if self.started {
                step_cx.fire::<Error>(|| failure.clone()).await;
            }
        }
        if self.started {
            step_cx.fire::<SessionEnd>(|| SessionEndEvent { reason }).await;
        }
        step_cx.emit(EventKind::SessionEnd { reason });
    }
}

/// The counts of continued and cut-off replies since the last tool call.
#[derive(Default)]
struct StallCounts {
    continuations: u32,
    cut_offs: u32,
}

/// The calls of a reply, in order.
fn calls_of(reply: &Entry) -> Vec<ToolCall> {
    match reply.message() {
        // If a reply was cut off or refused, its calls may be incomplete.
        Some(Message::Assistant(reply)) => match reply.stop_reason {
            StopReason::MaxTokens | StopReason::Refusal => vec![],
            _ => reply.calls().cloned().collect(),
        },
        _ => vec![],
    }
}

/// The loop is left only by a [`RunExit`].
enum NoReturn {}

impl RunLoop {
    fn new(session: &Session, input: RunInput, cancel: CancellationToken) -> Self {
        let run_id = match &input {
            RunInput::Resume(interrupted) => interrupted.run.clone(),
            RunInput::Prompt(_) => session.next_run_id(),
        };
        session.state().begin_run(cancel.clone());
        let models = session.models();
        let step_cx = StepCx::of(&session.cx(run_id, cancel));
        step_cx.forward_events_to_hooks();
        RunLoop {
            step_cx,
            input: Some(input),
            models,
            given_up: vec![],
            step: 0,
            continuation_count: 0,
            resumed: None,
            started: false,
            replies: vec![],
        }
    }

    /// Closes the open parts of an earlier run: a question without an answer, and calls without a result on
    /// this branch. The leaf may have moved away from their results.
    async fn close_earlier_run(&mut self) -> Result<(), StoreError> {
        let (interrupted, open) = {
            let mut state = self.step_cx.state();
            state.check_writable()?;
            let interrupted = state.interrupted.take();
            if let Some(run) = &interrupted {
                state.close_interrupted(run);
                state.commit()?;
            }
            (interrupted, state.open_calls())
        };
        if let Some(interrupted) = interrupted {
            let event = || SessionEndEvent { reason: EndReason::Crashed };
            self.step_cx.session().step_cx(interrupted.run).fire::<SessionEnd>(event).await;
        }
        for call in open {
            let message = "The result of this call is not on this branch of the session.";
            self.step_cx.close_call(&call, ToolErrorKind::Unavailable, message);
        }
        Ok(())
    }

    /// Resumes the calls of an interrupted step: those of the question continue, the others are closed.
    fn resume_calls(&mut self, interrupted: &InterruptedRun) -> Result<Vec<ToolCall>, RunExit> {
        let open = self.step_cx.state().open_calls();
        let is_asked = |call: &ToolCall| interrupted.asked.contains(&call.id);
        if Timestamp::now() >= interrupted.deadline || !open.iter().any(is_asked) {
            return Err(RunExit::aborted());
        }
        self.resumed = Some(interrupted.asked.clone());
        Ok(open)
    }

    fn agent(&self) -> &Agent {
        self.step_cx.agent()
    }

    fn add_runtime_note(&self, text: String) {
        self.step_cx.session().shared.notes.push_from_runtime(text);
    }
}

impl Session {
    /// The id of the next run: `r3`, or `r3/1` for its first child.
    fn next_run_id(&self) -> SmolStr {
        if let Some(parent) = self.agent.parent() {
            let run = &parent.cx.run;
            return format_smolstr!("{}/{}", run.run_id, run.next_nested_number());
        }
        let mut state = self.state();
        state.next_run += 1;
        format_smolstr!("r{}", state.next_run - 1)
    }
}

impl RunExit {
    pub(crate) fn plain(reason: EndReason) -> Self {
        RunExit { reason, failure: None }
    }

    pub(crate) fn aborted() -> Self {
        RunExit::plain(EndReason::Aborted)
    }

    pub(crate) fn failed(reason: EndReason, message: impl Into<String>) -> Self {
        RunExit::coded(reason, reason.as_str(), message)
    }

    pub(crate) fn coded(reason: EndReason, code: &str, message: impl Into<String>) -> Self {
        let failure = RunFailure { code: code.into(), message: message.into() };
        RunExit { reason, failure: Some(failure) }
    }
}

impl From<StepEnd> for RunExit {
    fn from(end: StepEnd) -> Self {
        match end {
            StepEnd::Aborted => RunExit::aborted(),
            StepEnd::Store(error) => RunExit::from(error),
        }
    }
}

impl From<StoreError> for RunExit {
    fn from(error: StoreError) -> Self {
        RunExit::from(&error)
    }
}

impl From<&StoreError> for RunExit {
    fn from(error: &StoreError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        RunExit::coded(EndReason::Error, "store", message)
    }
}
