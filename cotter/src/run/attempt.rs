//! One request to the model, with its attempts: compaction where it is due, context, `model.pre`,
//! notes, the stream, the reply on record.

use std::sync::Arc;

use crate::run::agent_loop::{Exit, Turn};
use crate::{
    agent::{
        session::{
            budget,
            cache_break::{Answered, Built},
        },
        step_cx::Scene,
    },
    history::{
        end_reason::Reason,
        entry::{Body, Entry},
        message::{
            AssistantMessage, AssistantPart, Content, Mark, Message, StopReason, Usage, UserMessage,
        },
    },
    hooks::{
        events::EventKind,
        notes::{self, Sent},
        points::{
            Stop,
            context::{Context, ContextBuild},
            model::{CacheBreak, ModelPre, Requesting},
        },
    },
    model::{Model, ModelError, ModelErrorKind, Request},
    run::{
        compaction as compact,
        request::{Ended, Hearing, Overflow, Tries},
    },
};

impl Turn {
    /// The next reply of the model, stored.
    pub(crate) async fn request(&mut self) -> Result<Arc<Entry>, Exit> {
        if let Some(cause) = compact::due(&self.scene, &self.models[0]) {
            Box::pin(compact::before_request(&self.scene, cause)).await?;
        }
        let mut error = match self.ask(Overflow::ToTheCaller).await? {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        if error.kind == ModelErrorKind::ContextOverflow
            && Box::pin(compact::before_request(&self.scene, compact::Cause::overflow())).await?
        {
            error = match Box::pin(self.ask(Overflow::ToTheNext)).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
        }
        Err(Exit::coded(Reason::Error, error.kind.as_str(), error.message))
    }

    async fn ask(&mut self, overflow: Overflow) -> Result<Result<Arc<Entry>, ModelError>, Exit> {
        let mut tries = Tries::new(self.models.clone(), self.scene.agent().limits(), overflow);
        loop {
            match self.attempt(&tries).await? {
                Ok(reply) => {
                    self.given_up.extend(tries.given_up().cloned());
                    return Ok(Ok(reply));
                }
                Err(error) => match tries.after(error) {
                    Ok(wait) => Box::pin(self.scene.wait_before_retry(&mut tries, wait)).await?,
                    Err(error) => return Ok(Err(error)),
                },
            }
        }
    }

    /// One attempt. The outer error ends the run, the inner one is the provider's.
    async fn attempt(&mut self, tries: &Tries) -> Result<Result<Arc<Entry>, ModelError>, Exit> {
        let (model, attempt) = (tries.model(), tries.number);
        let scene = &self.scene;
        let Built { mut messages, shaped } = scene.context().await?;
        let message_count = messages.len();
        let name = || model.name().clone();
        let pre = || Requesting { model: name(), message_count, attempt };
        scene.fire_stored::<ModelPre>(pre).await?;
        // No hook runs while it is held: one that asks a model itself would wait for its own run.
        let leave = scene.leave(model).await?;
        let notes = self.notes();
        if let Some(notes) = &notes {
            messages.push(notes.message.clone());
        }
        let is_told = scene.is_told_of_replies();
        let (thinking, limited) = {
            // The prompt and everything before it is stored before anybody is paid for an answer.
            let mut state = scene.state();
            state.commit()?;
            if !is_told {
                state.forget_sent();
            }
            (state.choices().thinking, state.choices().active_tools.clone())
        };
        let request = Request {
            system: scene.face.system.clone(),
            messages,
            notes: usize::from(notes.is_some()),
            tools: scene.face.tools.shown().clone(),
            thinking,
            max_tokens: None,
        };
        let sent = is_told
            .then(|| Box::new(Answered::new(model, request.clone(), &scene.face, limited, shaped)));
        let mut hearing = Hearing::new(scene.is_heard().then_some(scene));
        match hearing.listen(model.stream(request), &scene.cx.run.cancel).await {
            Ended::Failed(error) => {
                hearing.settle_broken(leave, model);
                return Ok(Err(error));
            }
            Ended::Cancelled => {
                hearing.settle_broken(leave, model);
                let parts = hearing.parts;
                return Err(self.keep_partial(model, parts));
            }
            Ended::Whole => {}
        }
        let reply = hearing.reply(model, scene);
        let cost = budget::cost_of(model, &reply.usage);
        leave.settle(reply.usage, cost);
        self.acknowledge(notes)?;
        let entry = self.store_reply(reply)?;
        let broken = sent.and_then(|sent| self.note_sent(*sent, model));
        if let Some(Message::Assistant(reply)) = entry.message() {
            self.scene.tell_reply(reply, cost, broken).await?;
        }
        Ok(Ok(entry))
    }

    /// Remembers what was sent; who broke the provider's cache with it, where somebody did.
    fn note_sent(&self, sent: Answered, model: &Arc<dyn Model>) -> Option<CacheBreak> {
        let before = self.scene.state().choose().sent.take(sent.model());
        let broken = before.and_then(|before| sent.broken_since(&before, model));
        self.scene.state().choose().sent.remember(sent);
        broken
    }

    /// The notes that wait, as the message that would come next. They stay in the queue.
    fn notes(&self) -> Option<Box<Noted>> {
        let waiting = self.scene.session().shared.notes.waiting();
        if waiting.is_empty() {
            return None;
        }
        let (text, sent) = notes::render(&waiting, self.scene.generation());
        let message = Message::User(UserMessage::marked(Content::Text(text), Mark::Note));
        Some(Box::new(Noted { message, sent, count: waiting.len() }))
    }

    /// The notes were delivered: they leave the queue and stay in history where they were sent.
    fn acknowledge(&mut self, notes: Option<Box<Noted>>) -> Result<(), Exit> {
        let Some(notes) = notes else { return Ok(()) };
        let Noted { message, sent, count } = *notes;
        let entry = self.scene.state().append(Body::Message(message));
        self.scene.session().shared.notes.acknowledge(count);
        for Sent { owner, text } in sent {
            self.scene.tell(|| EventKind::Note { owner, text })?;
        }
        Ok(self.scene.tell(|| EventKind::Message { entry })?)
    }

    fn store_reply(&mut self, reply: AssistantMessage) -> Result<Arc<Entry>, Exit> {
        let entry = self.scene.state().append(Body::Message(Message::Assistant(reply)));
        self.replies.push(entry.clone());
        self.scene.tell(|| EventKind::Message { entry: entry.clone() })?;
        Ok(entry)
    }

    /// What the model had said when it was aborted is kept; half a tool call is not.
    fn keep_partial(&mut self, model: &Arc<dyn Model>, parts: Vec<AssistantPart>) -> Exit {
        let said =
            |part: &AssistantPart| matches!(part, AssistantPart::Text(text) if !text.is_empty());
        let parts: Vec<_> = parts.into_iter().filter(said).collect();
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
        Exit::aborted()
    }
}

struct Noted {
    message: Message,
    sent: Vec<Sent>,
    count: usize,
}

impl Scene {
    /// What the model gets: the session's messages, as the transforms made them.
    pub(crate) async fn context(&self) -> Result<Built, Exit> {
        let messages = self.state().tree.messages().clone();
        let event = || ContextBuild::new(messages.clone(), self.session().clone());
        let Some(decided) = self.fire_stored::<Context>(event).await? else {
            return Ok(Built { messages, shaped: vec![] });
        };
        if let Some((meta, Stop::Block(reason))) = &decided.stop {
            if self.is_cancelled() {
                return Err(Exit::aborted());
            }
            let message = format!("hook \"{}\" failed to build the context: {reason}", meta.name);
            return Err(Exit::coded(Reason::Error, "context", message));
        }
        let shaped = decided.replaced.iter();
        let shaped = shaped.map(|(meta, before)| (meta.name.clone(), before.messages.clone()));
        Ok(Built { messages: decided.event.messages.clone(), shaped: shaped.collect() })
    }
}
