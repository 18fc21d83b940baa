//! One request to the model, with its attempts: compaction if it is due, context, `model.pre`, notes, the
//! stream, the stored reply.

use std::sync::Arc;

use crate::{
    agent::{
        session::{
            budget,
            cache_break::{AnsweredRequest, BuiltContext},
        },
        step_cx::StepCx,
    },
    history::{
        entry::{Entry, EntryBody},
        message::{
            AssistantMessage, AssistantPart, Content, Message, StopReason, Usage, UserMessage,
            UserMessageKind,
        },
        outcome::EndReason,
    },
    hooks::{
        events::EventKind,
        notes::{self, SentNote},
        points::{
            ChainStop,
            context::{Context, ContextEvent},
            model::{CacheBreak, ModelPre, ModelPreEvent},
        },
    },
    model::{Model, ModelError, ModelErrorKind, Request},
    run::{
        agent_loop::{RunExit, RunLoop},
        compaction::{self, CompactionCause},
        request::{OverflowPolicy, RetryPlan, StreamEnd, StreamReader},
    },
};

impl RunLoop {
    /// Gets the next reply of the model and stores it.
    pub(crate) async fn request(&mut self) -> Result<Arc<Entry>, RunExit> {
        if let Some(cause) = compaction::find_due_compaction(&self.step_cx, &self.models[0]) {
            Box::pin(compaction::compact_before_request(&self.step_cx, cause)).await?;
        }
        let mut error = match self.ask(OverflowPolicy::ReturnError).await? {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        if error.kind == ModelErrorKind::ContextOverflow
            && Box::pin(compaction::compact_before_request(
                &self.step_cx,
                CompactionCause::overflow(),
            ))
            .await?
        {
            error = match Box::pin(self.ask(OverflowPolicy::TryNextModel)).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
        }
        Err(RunExit::coded(EndReason::Error, error.kind.as_str(), error.message))
    }

    async fn ask(
        &mut self,
        overflow: OverflowPolicy,
    ) -> Result<Result<Arc<Entry>, ModelError>, RunExit> {
        let mut plan = RetryPlan::new(self.models.clone(), self.step_cx.agent().limits(), overflow);
        loop {
            match self.attempt(&plan).await? {
                Ok(reply) => {
                    self.given_up.extend(plan.given_up().cloned());
                    return Ok(Ok(reply));
                }
                Err(error) => match plan.plan_retry(error) {
                    Ok(wait) => Box::pin(self.step_cx.wait_before_retry(&mut plan, wait)).await?,
                    Err(error) => return Ok(Err(error)),
                },
            }
        }
    }

    /// Makes one attempt. The outer error ends the run; the inner error is the provider's.
    async fn attempt(
        &mut self,
        plan: &RetryPlan,
    ) -> Result<Result<Arc<Entry>, ModelError>, RunExit> {
        let (model, attempt) = (plan.model(), plan.number);
        let step_cx = &self.step_cx;
        let BuiltContext { mut messages, transforms } = step_cx.build_context().await?;
        let message_count = messages.len();
        let name = || model.name().clone();
        let pre = || ModelPreEvent { model: name(), message_count, attempt };
        step_cx.fire_stored::<ModelPre>(pre).await?;
        // No hook runs while the slot is held: a hook that asks a model would wait for its own run.
        let slot = step_cx.acquire_slot(model).await?;
        let notes = self.render_notes();
        if let Some(notes) = &notes {
            messages.push(notes.message.clone());
        }
        let is_observed = step_cx.has_reply_observers();
        let (thinking, tool_limit) = {
            // The prompt and everything before it is stored before a paid request is sent.
            let mut state = step_cx.state();
            state.commit()?;
            if !is_observed {
                state.clear_request_log();
            }
            (state.overrides().thinking, state.overrides().active_tools.clone())
        };
        let request = Request {
            system: step_cx.view.system.clone(),
            messages,
            notes: usize::from(notes.is_some()),
            tools: step_cx.view.tools.shown().clone(),
            thinking,
            max_tokens: None,
        };
        let sent = is_observed.then(|| {
            let view = &step_cx.view;
            Box::new(AnsweredRequest::new(model, request.clone(), view, tool_limit, transforms))
        });
        let mut reader = StreamReader::new(step_cx.has_listeners().then_some(step_cx));
        match reader.read_to_end(model.stream(request), &step_cx.cx.run.cancel).await {
            StreamEnd::Failed(error) => {
                reader.book_partial_usage(slot, model);
                return Ok(Err(error));
            }
            StreamEnd::Cancelled => {
                reader.book_partial_usage(slot, model);
                let parts = reader.parts;
                return Err(self.store_partial_reply(model, parts));
            }
            StreamEnd::Whole => {}
        }
        let reply = reader.reply(model, step_cx);
        let cost = budget::cost_of(model, &reply.usage);
        slot.settle(reply.usage, cost);
        self.acknowledge(notes)?;
        let entry = self.store_reply(reply)?;
        let cache_break = sent.and_then(|sent| self.remember_request(*sent, model));
        if let Some(Message::Assistant(reply)) = entry.message() {
            self.step_cx.report_reply(reply, cost, cache_break).await?;
        }
        Ok(Ok(entry))
    }

    /// Remembers the sent request. Returns the cache break, if this request caused one.
    fn remember_request(
        &self,
        sent: AnsweredRequest,
        model: &Arc<dyn Model>,
    ) -> Option<CacheBreak> {
        let before = self.step_cx.state().overrides_mut().request_log.take(sent.model());
        let cache_break = before.and_then(|before| sent.find_cache_break(&before, model));
        self.step_cx.state().overrides_mut().request_log.remember(sent);
        cache_break
    }

    /// Renders the waiting notes as the next message. They stay in the queue.
    fn render_notes(&self) -> Option<Box<RenderedNotes>> {
        let pending = self.step_cx.session().shared.notes.pending_notes();
        if pending.is_empty() {
            return None;
        }
        let (text, sent) = notes::render(&pending, |id| self.step_cx.generation().meta(id));
        let message =
            Message::User(UserMessage::with_kind(Content::Text(text), UserMessageKind::Note));
        Some(Box::new(RenderedNotes { message, sent, count: pending.len() }))
    }

    /// Removes delivered notes from the queue and adds them to the history where they were sent.
    fn acknowledge(&mut self, notes: Option<Box<RenderedNotes>>) -> Result<(), RunExit> {
        let Some(notes) = notes else { return Ok(()) };
        let RenderedNotes { message, sent, count } = *notes;
        let entry = self.step_cx.state().append(EntryBody::Message(message));
        self.step_cx.session().shared.notes.acknowledge(count);
        for SentNote { owner, text } in sent {
            self.step_cx.commit_and_emit(|| EventKind::Note { owner, text })?;
        }
        Ok(self.step_cx.commit_and_emit(|| EventKind::Message { entry })?)
    }

    fn store_reply(&mut self, reply: AssistantMessage) -> Result<Arc<Entry>, RunExit> {
        let entry = self.step_cx.state().append(EntryBody::Message(Message::Assistant(reply)));
        self.replies.push(entry.clone());
        self.step_cx.commit_and_emit(|| EventKind::Message { entry: entry.clone() })?;
        Ok(entry)
    }

    /// Stores the text that the model had sent before an abort. Incomplete tool calls are dropped.
    fn store_partial_reply(
        &mut self,
        model: &Arc<dyn Model>,
        parts: Vec<AssistantPart>,
    ) -> RunExit {
        let is_text =
            |part: &AssistantPart| matches!(part, AssistantPart::Text(text) if !text.is_empty());
        let parts: Vec<_> = parts.into_iter().filter(is_text).collect();
        if !parts.is_empty() {
            let reply = AssistantMessage {
                parts,
                model: model.name().clone(),
                usage: Usage::default(),
                stop_reason: StopReason::Aborted,
            };
            if let Err(exit) = self.store_reply(reply) {
                return exit;
            }
        }
        RunExit::aborted()
    }
}

struct RenderedNotes {
    message: Message,
    sent: Vec<SentNote>,
    count: usize,
}

impl StepCx {
    /// Builds the context: the session's messages after the transforms.
    pub(crate) async fn build_context(&self) -> Result<BuiltContext, RunExit> {
        let messages = self.state().tree.messages().clone();
        let event = || ContextEvent::new(messages.clone(), self.session().clone());
        let Some(outcome) = self.fire_stored::<Context>(event).await? else {
            return Ok(BuiltContext { messages, transforms: vec![] });
        };
        if let Some((meta, ChainStop::Block(reason))) = &outcome.stop {
            if self.is_cancelled() {
                return Err(RunExit::aborted());
            }
            let message = format!("hook \"{}\" failed to build the context: {reason}", meta.name);
            return Err(RunExit::coded(EndReason::Error, "context", message));
        }
        let transforms = outcome.replaced.iter();
        let transforms =
            transforms.map(|(meta, before)| (meta.name.clone(), before.messages.clone()));
        Ok(BuiltContext {
            messages: outcome.event.messages.clone(),
            transforms: transforms.collect(),
        })
    }
}
