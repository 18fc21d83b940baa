//! A run: the loop from a prompt to its end, and every method that starts a run or asks a model. No room is
//! above this one.
//!
//! A [`Run`] is a future in its caller's task. Awaiting it returns the reply; `next` returns its events.
//! Dropping it aborts it: the runtime completes the rest, so that calls get their results and `session.end`
//! fires with its true reason.

mod agent_loop;
mod prompt;
mod commands;
mod skills;
mod subagents;
mod invoke_result;
mod attempt;
mod request;
mod compaction;
mod controls;
mod exec;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_core::Stream;
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        Agent,
        session::{Session, recovery::InterruptedRun},
    },
    history::{
        entry::Entry,
        message::{Content, Message, Usage},
        outcome::EndReason,
        store::StoreError,
    },
    hooks::{
        events::{Event, EventKind, EventStream},
        points::error::RunFailure,
    },
    run::{
        agent_loop::{RunExit, RunInput},
        prompt::PromptInput,
    },
};

impl Agent {
    /// Sends a prompt to the agent's main session and waits for the reply.
    pub async fn process_request(&self, prompt: impl Into<Content>) -> Result<Reply, RunError> {
        match self.main_session().await {
            Ok(session) => session.prompt(prompt).await,
            Err(error) => Err(RunError::without_session(&error)),
        }
    }
}

impl Session {
    /// Starts a run with a prompt. Nothing happens until the run or its events are awaited.
    pub fn prompt(&self, prompt: impl Into<Content>) -> Run {
        Run::new(self.clone(), prompt.into())
    }

    /// Starts a run with a prompt of a program. Names in the prompt are not directives.
    pub fn prompt_plain(&self, prompt: impl Into<Content>) -> Run {
        Run::plain(self.clone(), prompt.into())
    }

    /// Resumes the run that waited for a person when the process died, unless the time to answer is over.
    /// The run continues from its question.
    pub async fn resume(&self) -> Option<Run> {
        let interrupted = self.state().interrupted.take()?;
        Some(Run::resumed(self.clone(), *interrupted))
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The id of the session.
    pub session_id: SmolStr,
    /// The id of the run.
    pub run_id: SmolStr,
    /// The model's replies of this run, oldest first.
    pub messages: Vec<Arc<Entry>>,
    /// The status of a command, if the prompt was one.
    pub status: Option<String>,
    /// The reason why the run ended.
    pub reason: EndReason,
    /// The error, if the run was refused, failed or limited.
    pub error: Option<RunFailure>,
    /// The number of requests.
    pub steps: u32,
    /// The tokens that the run used.
    pub usage: Usage,
    /// The cost, if every price is known.
    pub cost_usd: Option<f64>,
}

impl Reply {
    /// The text of the last reply, or the status of a command.
    pub fn text(&self) -> String {
        let last = self.messages.last().and_then(|entry| entry.message());
        let text = last.map(|message: &Message| message.text().into_owned());
        text.or_else(|| self.status.clone()).unwrap_or_default()
    }

    /// The reply to a prompt that started no run.
    pub(crate) fn without_a_run(session_id: SmolStr, reason: EndReason) -> Self {
        Reply {
            session_id,
            run_id: SmolStr::default(),
            messages: vec![],
            status: None,
            reason,
            error: None,
            steps: 0,
            usage: Usage::default(),
            cost_usd: None,
        }
    }
}

/// A run that failed, and its result up to then.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunError {
    /// The kind of failure, one word.
    pub code: SmolStr,
    /// The error message.
    pub message: String,
    /// The result up to the failure.
    pub reply: Box<Reply>,
}

impl RunError {
    /// The error of a run that has no session.
    fn without_session(error: &StoreError) -> Self {
        let exit = RunExit::from(error);
        let reply = Reply::without_a_run(SmolStr::default(), EndReason::Error);
        let reply = Reply { error: exit.failure, ..reply };
        RunError::of(reply)
    }

    fn of(reply: Reply) -> Self {
        let failure = reply.error.clone().unwrap_or_else(|| RunFailure {
            code: reply.reason.as_str().into(),
            message: reply.reason.as_str().into(),
        });
        RunError { code: failure.code, message: failure.message, reply: Box::new(reply) }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunError {}

/// True if an event belongs to a run, to a child of it, or to the command before it.
fn belongs_to_run(run: Option<&SmolStr>, may_be_command: bool, event: &Event) -> bool {
    let is_within = |run: &str| {
        let rest = event.run_id.strip_prefix(run);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    run.is_some_and(|run| is_within(run)) || (may_be_command && is_within(""))
}

type RunFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A run in progress, or a run that has not started.
#[must_use = "a run does nothing until it is awaited, and is aborted when dropped"]
pub struct Run {
    session: Session,
    cancel: CancellationToken,
    /// The id; set when the session serves the run.
    id: Arc<OnceLock<SmolStr>>,
    /// True if the run may begin with a command, whose events belong to no run.
    may_lead_with_command: bool,
    /// True if dropping the run leaves nothing to end.
    is_unstarted: bool,
    running: Option<RunFuture>,
    events: Option<EventStream>,
    reply: Option<Reply>,
}

impl Run {
    /// Builds a run from text that a person typed. The prompt of a child is never a person's.
    fn new(session: Session, prompt: Content) -> Self {
        let input = match session.agent.parent() {
            None => PromptInput::Typed(prompt),
            Some(_) => PromptInput::Plain(prompt),
        };
        Run::begin(session, RunInput::Prompt(input))
    }

    /// Builds a run from text that is not parsed for directives.
    fn plain(session: Session, prompt: Content) -> Self {
        Run::begin(session, RunInput::Prompt(PromptInput::Plain(prompt)))
    }

    fn resumed(session: Session, interrupted: InterruptedRun) -> Self {
        Run::begin(session, RunInput::Resume(interrupted))
    }

    fn begin(session: Session, input: RunInput) -> Self {
        let (cancel, id) = (session.agent.new_cancel(), Arc::default());
        let (is_unstarted, may_lead_with_command) = match &input {
            RunInput::Prompt(prompt) => (true, prompt::may_be_command(prompt)),
            RunInput::Resume(_) => (false, false),
        };
        let running =
            Box::pin(agent_loop::run(session.clone(), input, cancel.clone(), Arc::clone(&id)));
        let running: Option<RunFuture> = Some(running);
        Run {
            session,
            cancel,
            id,
            may_lead_with_command,
            is_unstarted,
            running,
            events: None,
            reply: None,
        }
    }

    /// Aborts the run: it ends as soon as it can, with the reason `aborted`.
    pub fn abort(&self) {
        self.cancel.cancel();
    }

    /// Fires when the run is aborted; cancelling it aborts the run.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// The next event of the run. `session.end` is the last one; then `None`. If a command comes first, its
    /// events come first, `command.result` last. As a stream, a run gives the same events.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        std::future::poll_fn(|task| self.poll_event(task)).await
    }

    fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        if self.events.is_none() && self.running.is_some() {
            self.events = Some(self.session.shared.hub.subscribe());
        }
        self.drive(task);
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        loop {
            match events.poll_next(task) {
                // An event of another run of the session, which was served before this one.
                Poll::Ready(event)
                    if !belongs_to_run(self.id.get(), self.may_lead_with_command, &event) => {}
                Poll::Ready(event) => {
                    let is_own = self.id.get() == Some(&event.run_id);
                    if is_own && matches!(event.kind, EventKind::SessionEnd { .. }) {
                        self.events = None;
                    }
                    return Poll::Ready(Some(event));
                }
                Poll::Pending if self.reply.is_some() => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The reply of a run whose events have been read to the end.
    pub async fn reply(self) -> Result<Reply, RunError> {
        self.await
    }

    /// Lets the run continue in a task of its own.
    pub fn detach(mut self) {
        if let Some(running) = self.running.take() {
            tokio::spawn(running);
        }
    }

    fn drive(&mut self, task: &mut Context<'_>) {
        self.is_unstarted = false;
        if let Some(running) = &mut self.running
            && let Poll::Ready(reply) = running.as_mut().poll(task)
        {
            self.running = None;
            self.reply = Some(reply);
        }
    }
}

impl Stream for Run {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(task)
    }
}

impl Future for Run {
    type Output = Result<Reply, RunError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.drive(task);
        let Some(reply) = self.reply.take() else { return Poll::Pending };
        Poll::Ready(if reply.reason == EndReason::Error {
            Err(RunError::of(reply))
        } else {
            Ok(reply)
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(running) = self.running.take_if(|_| !self.is_unstarted) {
            self.cancel.cancel();
            // Without a runtime the run cannot end: the session closes it when it is opened again.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(running);
            }
        }
    }
}
