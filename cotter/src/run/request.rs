//! Requests to a model: reads one stream to its end, retries after a transient error, then uses the
//! fallback models. Adapters only report errors.

use std::{collections::HashSet, future::poll_fn, sync::Arc, time::Duration};

use smol_str::{SmolStr, format_smolstr};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        Limits,
        session::budget::{self, RequestSlot},
        step_cx::StepCx,
    },
    history::{
        line_format::is_too_deep,
        message::{AssistantMessage, AssistantPart, StopReason, ToolCall, Usage},
        outcome::EndReason,
    },
    hooks::{
        events::EventKind,
        points::{
            Point,
            model::{CacheBreak, ModelPost, ModelPostEvent, ModelPre, ModelPreEvent},
        },
    },
    model::{Delta, Model, ModelError, ModelErrorKind, ReplyStream, Request},
    run::agent_loop::RunExit,
};

/// The longest wait before a retry. If a provider asks for more, there is no retry.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(600);

/// The handling of a conversation that does not fit a model: the caller may compact it, or the next model
/// is tried.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OverflowPolicy {
    ReturnError,
    TryNextModel,
}

impl StepCx {
    /// Waits for a slot to send a request to a model.
    pub(crate) async fn acquire_slot(
        &self,
        model: &Arc<dyn Model>,
    ) -> Result<RequestSlot, RunExit> {
        match budget::slot_without_limits(&self.cx) {
            Some(slot) => Ok(slot),
            None => Box::pin(self.wait_for_slot(model)).await,
        }
    }

    async fn wait_for_slot(&self, model: &Arc<dyn Model>) -> Result<RequestSlot, RunExit> {
        let waiting = budget::wait_for_slot(&self.cx, model);
        let slot = tokio::select! {
            biased;
            () = self.cx.run.cancel.cancelled() => return Err(RunExit::aborted()),
            slot = waiting => slot,
        };
        slot.map_err(|reason| RunExit::failed(EndReason::BudgetExceeded, reason))
    }

    /// Waits until the next attempt may be made.
    pub(crate) async fn wait_before_retry(
        &self,
        plan: &mut RetryPlan,
        wait: Duration,
    ) -> Result<(), RunExit> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let (attempt, kind) = (plan.number, plan.last.kind.as_str());
        let model = plan.has_changed_model.then(|| plan.model().name().clone());
        self.commit_and_emit(|| EventKind::Retry { attempt, kind, wait_ms, model })?;
        plan.number += 1;
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.cx.run.cancel.cancelled() => Err(RunExit::aborted()),
        }
    }

    /// True if a listener or a handler at `model.post` gets replies.
    pub(crate) fn has_reply_observers(&self) -> bool {
        self.has_listeners() || self.generation().has(ModelPost::ID)
    }

    /// Reports a booked reply to the listeners and to the hooks at `model.post`.
    pub(crate) async fn report_reply(
        &self,
        reply: &AssistantMessage,
        cost: Option<f64>,
        cache_break: Option<CacheBreak>,
    ) -> Result<(), RunExit> {
        if !self.has_reply_observers() {
            return Ok(());
        }
        let event = Box::new(ModelPostEvent { cache_break, ..ModelPostEvent::of(reply, cost) });
        self.commit_and_emit(|| EventKind::ModelPost(ModelPostEvent::clone(&event)))?;
        self.fire_stored::<ModelPost>(|| *event).await?;
        Ok(())
    }

    /// Sends a request outside the conversation. It fires `model.pre` and `model.post` and is booked like
    /// any other.
    pub(crate) async fn send_side_request(
        &self,
        models: Arc<[Arc<dyn Model>]>,
        request: Request,
    ) -> Result<Result<AssistantMessage, ModelError>, RunExit> {
        let mut plan = RetryPlan::new(models, self.agent().limits(), OverflowPolicy::TryNextModel);
        loop {
            match self.try_side_request(&plan, request.clone()).await? {
                Ok(reply) => return Ok(Ok(reply)),
                Err(error) => match plan.plan_retry(error) {
                    Ok(wait) => self.wait_before_retry(&mut plan, wait).await?,
                    Err(error) => return Ok(Err(error)),
                },
            }
        }
    }

    async fn try_side_request(
        &self,
        plan: &RetryPlan,
        request: Request,
    ) -> Result<Result<AssistantMessage, ModelError>, RunExit> {
        let (model, attempt) = (plan.model(), plan.number);
        let message_count = request.messages.len();
        let pre = || ModelPreEvent { model: model.name().clone(), message_count, attempt };
        self.fire_stored::<ModelPre>(pre).await?;
        let slot = self.acquire_slot(model).await?;
        self.state().commit()?;
        let mut reader = StreamReader::new(None);
        match reader.read_to_end(model.stream(request), &self.cx.run.cancel).await {
            StreamEnd::Failed(error) => {
                reader.book_partial_usage(slot, model);
                return Ok(Err(error));
            }
            StreamEnd::Cancelled => {
                reader.book_partial_usage(slot, model);
                return Err(RunExit::aborted());
            }
            StreamEnd::Whole => {}
        }
        let reply = reader.reply(model, self);
        let cost = budget::cost_of(model, &reply.usage);
        slot.settle(reply.usage, cost);
        self.report_reply(&reply, cost, None).await?;
        Ok(Ok(reply))
    }
}

/// The order of attempts: each model again after transient errors, then the next model.
pub(crate) struct RetryPlan {
    models: Arc<[Arc<dyn Model>]>,
    retries: u32,
    backoff: Duration,
    overflow: OverflowPolicy,
    index: usize,
    retry: u32,
    /// The current attempt, from 1.
    pub(crate) number: u32,
    last: ModelError,
    /// True if the next attempt uses another model than the last.
    has_changed_model: bool,
}

impl RetryPlan {
    /// A plan over models; there is always at least one.
    pub(crate) fn new(
        models: Arc<[Arc<dyn Model>]>,
        limits: &Limits,
        overflow: OverflowPolicy,
    ) -> Self {
        let last = ModelError::new(ModelErrorKind::Other, "no attempt was made yet");
        let (retries, backoff) = (limits.retries, limits.backoff);
        RetryPlan {
            models,
            retries,
            backoff,
            overflow,
            index: 0,
            retry: 0,
            number: 1,
            last,
            has_changed_model: false,
        }
    }

    pub(crate) fn model(&self) -> &Arc<dyn Model> {
        &self.models[self.index]
    }

    /// The models that were given up.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = &SmolStr> {
        self.models[..self.index].iter().map(|model| model.name())
    }

    /// The wait before the next attempt after an error, or the error if there is no further attempt.
    pub(crate) fn plan_retry(&mut self, error: ModelError) -> Result<Duration, ModelError> {
        self.last = error.clone();
        self.has_changed_model = false;
        let backoff = || self.backoff.saturating_mul(2u32.saturating_pow(self.retry));
        let wait = error.retry_after.unwrap_or_else(backoff);
        // If the provider asks for a longer wait than allowed, a shorter wait would fail too.
        let may_wait = wait <= MAX_RETRY_WAIT && self.retry < self.retries;
        let wait = if error.kind.is_temporary() && may_wait {
            self.retry += 1;
            wait
        } else {
            let does_not_fit = error.kind == ModelErrorKind::ContextOverflow;
            let caller_handles_it = does_not_fit && self.overflow == OverflowPolicy::ReturnError;
            if caller_handles_it || self.index + 1 >= self.models.len() {
                return Err(error);
            }
            (self.index, self.retry, self.has_changed_model) = (self.index + 1, 0, true);
            Duration::ZERO
        };
        Ok(wait)
    }
}

impl ModelPostEvent {
    /// The `model.post` event of a reply.
    pub(crate) fn of(reply: &AssistantMessage, cost_usd: Option<f64>) -> Self {
        let Usage { input_tokens, output_tokens, cache_read, cache_write } = reply.usage;
        ModelPostEvent {
            model: reply.model.clone(),
            stop_reason: reply.stop_reason,
            input_tokens,
            output_tokens,
            cache_read,
            cache_write,
            cost_usd,
            tool_call_count: reply.calls().count(),
            cache_break: None,
        }
    }
}

/// Gives every call a unique id and an input that can be read again. Some providers repeat ids in every
/// reply, and others reject a conversation with a repeated id.
pub(crate) fn assign_call_ids(
    mut parts: Vec<AssistantPart>,
    step_cx: &StepCx,
    step: u32,
) -> Vec<AssistantPart> {
    let run = step_cx.run_id();
    let mut used_ids = HashSet::new();
    let mut new_ids = (0..).map(|n: u64| format_smolstr!("call_{run}_{step}_{n}"));
    let is_used = |id: &SmolStr| step_cx.state().tree.has_call(id);
    for part in &mut parts {
        let AssistantPart::ToolCall(call) = part else { continue };
        if is_too_deep(&call.input) {
            call.input = Arc::new("(nested too deep)".into());
        }
        // A generated id may equal an id that the provider gave another call.
        while call.id.is_empty() || is_used(&call.id) || !used_ids.insert(call.id.clone()) {
            call.id = new_ids.next().unwrap_or_default();
        }
    }
    parts
}

/// The end of a stream.
pub(crate) enum StreamEnd {
    Whole,
    Failed(ModelError),
    Cancelled,
}

/// A reply in progress. At most one of text and thinking is open at a time.
pub(crate) struct StreamReader<'a> {
    /// The context to report parts to, if there are listeners.
    listener: Option<&'a StepCx>,
    pub(crate) parts: Vec<AssistantPart>,
    done: Option<(StopReason, Usage)>,
    /// The usage so far, as reported by the provider.
    usage_so_far: Usage,
    open: Option<OpenPart>,
}

#[derive(Clone, Copy, PartialEq)]
enum OpenPart {
    Text,
    Thinking,
}

impl<'a> StreamReader<'a> {
    pub(crate) fn new(listener: Option<&'a StepCx>) -> Self {
        StreamReader {
            listener,
            parts: vec![],
            done: None,
            usage_so_far: Usage::default(),
            open: None,
        }
    }

    /// The complete reply.
    pub(crate) fn reply(self, model: &Arc<dyn Model>, step_cx: &StepCx) -> AssistantMessage {
        let (stop_reason, usage) = self.done.unwrap_or((StopReason::EndTurn, Usage::default()));
        let parts = assign_call_ids(self.parts, step_cx, step_cx.cx.step());
        AssistantMessage { parts, model: model.name().clone(), usage, stop_reason }
    }

    /// Books the known usage of a stream that broke off.
    pub(crate) fn book_partial_usage(&self, slot: RequestSlot, model: &Arc<dyn Model>) {
        if self.usage_so_far != Usage::default() {
            slot.settle(self.usage_so_far, model.cost_usd(&self.usage_so_far));
        }
    }

    pub(crate) async fn read_to_end(
        &mut self,
        mut stream: ReplyStream,
        cancel: &CancellationToken,
    ) -> StreamEnd {
        let end = loop {
            if cancel.is_cancelled() {
                break StreamEnd::Cancelled;
            }
            let delta = tokio::select! {
                biased;
                delta = poll_fn(|task| stream.as_mut().poll_next(task)) => delta,
                () = cancel.cancelled() => break StreamEnd::Cancelled,
            };
            match delta {
                Some(Ok(delta)) => self.take(delta),
                Some(Err(error)) if error.kind == ModelErrorKind::Cancelled => {
                    break StreamEnd::Cancelled;
                }
                Some(Err(error)) => break StreamEnd::Failed(error),
                None if self.done.is_some() => break StreamEnd::Whole,
                None => {
                    let message = "the stream ended before the reply was complete";
                    break StreamEnd::Failed(ModelError::new(ModelErrorKind::Network, message));
                }
            }
        };
        self.close();
        end
    }

    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => {
                self.open(OpenPart::Text);
                self.emit(|| EventKind::TextDelta { text: text.clone() });
                match self.parts.last_mut() {
                    Some(AssistantPart::Text(so_far)) => so_far.push_str(&text),
                    _ => self.parts.push(AssistantPart::Text(text)),
                }
            }
            Delta::Thinking(text) => {
                self.open(OpenPart::Thinking);
                self.emit(|| EventKind::ThinkingDelta { text: text.clone() });
                match self.parts.last_mut() {
                    Some(AssistantPart::Thinking { text: so_far, signature: None }) => {
                        so_far.push_str(&text);
                    }
                    _ => self.parts.push(AssistantPart::Thinking { text, signature: None }),
                }
            }
            Delta::Signature(signed) if signed.is_empty() => {}
            Delta::Signature(signed) => {
                self.close();
                match self.parts.last_mut() {
                    Some(AssistantPart::Thinking { signature: signature @ None, .. }) => {
                        *signature = Some(signed);
                    }
                    _ => {
                        let text = String::new();
                        self.parts.push(AssistantPart::Thinking { text, signature: Some(signed) });
                    }
                }
            }
            Delta::Call { id, name, input } => {
                self.close();
                let input = Arc::new(input);
                self.parts.push(AssistantPart::ToolCall(ToolCall { id, name, input }));
            }
            Delta::Usage(usage) => self.usage_so_far = usage,
            Delta::Done { stop_reason, usage } => self.done = Some((stop_reason, usage)),
        }
    }

    fn open(&mut self, kind: OpenPart) {
        if self.open == Some(kind) {
            return;
        }
        self.close();
        self.open = Some(kind);
        self.emit(|| match kind {
            OpenPart::Text => EventKind::TextStart,
            OpenPart::Thinking => EventKind::ThinkingStart,
        });
    }

    fn close(&mut self) {
        match self.open.take() {
            None => {}
            Some(OpenPart::Text) => self.emit(|| EventKind::TextEnd),
            Some(OpenPart::Thinking) => self.emit(|| EventKind::ThinkingEnd),
        }
    }

    fn emit(&self, kind: impl FnOnce() -> EventKind) {
        if let Some(step_cx) = self.listener {
            step_cx.emit(kind());
        }
    }
}
