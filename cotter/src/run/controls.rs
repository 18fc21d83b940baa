//! The methods of [`Controls`] that build a context, ask a model or start a run.

use std::sync::Arc;

use crate::{
    agent::controls::{Completion, CompletionResult, ControlError, Controls, SendTime},
    history::{message::Content, message_list::MessageList, outcome::EndReason},
    hooks::{notes::NoteAuthor, points::PointId},
    model::{Request, Thinking},
    run::{
        agent_loop::RunExit,
        compaction::{self, CompactionCause},
    },
};

impl Controls {
    /// Builds the context again, as it would be sent now, and fires `context`. Every request does this by
    /// itself. Within a `context` handler it is an error.
    pub async fn rebuild_context(&self) -> Result<MessageList, ControlError> {
        let _paused = self.cx().pause();
        let step_cx = self.nested_step_cx()?;
        if let NoteAuthor::Hook(id) = &self.cx().author {
            let meta = step_cx.generation().meta(*id);
            if meta.is_some_and(|meta| meta.point == PointId::Context) {
                let message = "cannot rebuild the context while it is being built".into();
                return Err(ControlError { code: "context".into(), message });
            }
        }
        Ok(step_cx.build_context().await?.messages)
    }

    /// Compacts the conversation now, whatever its length. From a tool or a hook at a point, the compaction
    /// happens before the next request.
    pub async fn force_compaction(&self) -> Result<(), ControlError> {
        self.force_compaction_with_instructions("").await
    }

    /// Compacts the conversation now, with instructions for the model that writes the summary.
    pub async fn force_compaction_with_instructions(
        &self,
        instructions: &str,
    ) -> Result<(), ControlError> {
        if self.is_within_a_step() {
            self.session().state().overrides_mut().compact_request = Some(instructions.to_owned());
            return Ok(());
        }
        let _paused = self.cx().pause();
        Ok(compaction::compact(&self.nested_step_cx()?, CompactionCause::forced(instructions))
            .await?)
    }

    /// Asks a model outside the conversation. The request fires `model.pre` and `model.post`, counts
    /// against the run's budget and ends with the run.
    pub async fn complete(&self, completion: Completion) -> Result<CompletionResult, ControlError> {
        let _paused = self.cx().pause();
        let models = match completion.model {
            Some(model) => Arc::from([model]),
            None => self.session().models(),
        };
        let request = Request {
            system: completion.system.into(),
            messages: completion.messages.into_iter().collect(),
            notes: 0,
            tools: Arc::default(),
            thinking: Thinking::Off,
            max_tokens: completion.max_tokens,
        };
        match self.nested_step_cx()?.send_side_request(models, request).await? {
            Ok(reply) => Ok(CompletionResult { text: reply.text(), usage: reply.usage }),
            Err(error) => {
                Err(ControlError { code: error.kind.as_str().into(), message: error.message })
            }
        }
    }

    /// Sends a text to the model. The text is not parsed for directives.
    pub fn send(&self, content: impl Into<Content>, time: SendTime) {
        let (session, content) = (self.session(), content.into());
        if time == SendTime::Now {
            self.abort();
        }
        if time == SendTime::Steer {
            let mut state = session.state();
            if state.is_busy() {
                return state.steer(content, self.entry_source());
            }
        }
        session.prompt_plain(content).detach();
    }
}

impl From<RunExit> for ControlError {
    fn from(exit: RunExit) -> Self {
        let is_aborted = exit.reason == EndReason::Aborted;
        let message = || if is_aborted { "the run was aborted" } else { exit.reason.as_str() };
        match exit.failure {
            Some(failure) => ControlError { code: failure.code, message: failure.message },
            None => ControlError { code: exit.reason.as_str().into(), message: message().into() },
        }
    }
}
