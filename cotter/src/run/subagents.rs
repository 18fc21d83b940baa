//! Calls a subagent: `invoke_subagent` as a tool of the model and as a method of [`Controls`].

use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{
    agent::{controls::Controls, step_cx::StepCx},
    fs::workspace::Workspace,
    history::{
        message::Content,
        outcome::{EndReason, ToolErrorKind},
    },
    hooks::{
        events::EventKind,
        handler::HandlerFailure,
        notes::{NoteAuthor, ToolCallRef},
        points::{
            Admission,
            subagent::{SubagentEnd, SubagentEndEvent, SubagentStart, SubagentStartEvent},
        },
    },
    invoke::{
        agent_config::AgentConfig,
        callable::failed,
        named_item::NameKind,
        subagent::{InvokeSubagent, RegisteredAgent, Subagent, SubagentBody, SubagentCx},
    },
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::{Zone, facts::Facts},
    run::invoke_result::{format_error, format_failure, format_success, format_unavailable},
    tool::{Tool, ToolFuture, permit::Permit},
};

impl Controls {
    /// Gives a task to a subagent: [`Controls::run_tool`] with `invoke_subagent`, under the name that this
    /// agent gives the tool.
    pub async fn invoke_subagent(&self, name: &str, prompt: &str) -> Result<ToolOutput, ToolError> {
        let [_, subagent_tool] = self.agent().invoke_tool_names();
        self.run_tool(subagent_tool, json!({"name": name, "prompt": prompt})).await
    }
}

impl Tool for InvokeSubagent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The call itself has no effects; each call of the subagent is decided by itself.
    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let input = permit.input();
            let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
            let started = SubagentStartEvent {
                call_id: permit.call_id().clone(),
                name: text("name").into(),
                prompt: text("prompt"),
            };
            invoke(StepCx::of(permit.cx()), started).await
        })
    }
}

async fn invoke(step_cx: StepCx, started: SubagentStartEvent) -> Result<ToolOutput, ToolError> {
    let name = started.name.clone();
    let Some(subagent) = step_cx.view.subagent(&name).cloned() else {
        let names = step_cx.view.subagents().map(|subagent| subagent.name.as_str());
        return Err(format_unavailable("Subagent", &name, "is not registered", names));
    };
    let outcome = step_cx.fire::<SubagentStart>(|| started.clone()).await;
    let verdict = outcome.as_ref().and_then(|outcome| outcome.strictest());
    if let Some((meta, Admission::Block(reason))) = verdict {
        let message = crate::hooks::notes::block_message(&meta.name, reason);
        return Err(format_error(&message, ToolErrorKind::Denied));
    }
    step_cx.emit(EventKind::SubagentStart { name: name.clone() });
    let owner = step_cx.view.owner_of(NameKind::Subagent, &name);
    let cx = step_cx.cx.with_author(match &step_cx.cx.author {
        // The tool call identifies the work; the rights are those of the subagent's owner.
        NoteAuthor::Tool(call) => {
            let (tool, call_id) = (call.tool.clone(), call.call_id.clone());
            NoteAuthor::Tool(Arc::new(ToolCallRef { tool, owner, call_id }))
        }
        _ => NoteAuthor::named("subagent", &name, owner),
    });
    let subagent_cx =
        SubagentCx { name: name.clone(), prompt: started.prompt, controls: cx.controls() };
    let cancel = step_cx.cx.cancel().clone();
    let mut end_guard =
        SubagentEndGuard { step_cx, event: Some(cancelled(&started.call_id, &name)) };
    let result = subagent.work(subagent_cx).await;
    let (status, text) = match &result {
        Ok(content) => ("success", content.text().into_owned()),
        Err(failure) => ("error", failure.to_string()),
    };
    end_guard.event =
        Some(SubagentEndEvent { call_id: started.call_id, name: name.clone(), status, text });
    if let Some(reporting) = end_guard.report() {
        // An abort ends the wait for the hooks; the subagent's result is kept.
        tokio::select! {
            _ = reporting => {}
            () = cancel.cancelled() => {}
        }
    }
    match result {
        Ok(content) => Ok(format_success("subagent", &name, content)),
        Err(failure) => Err(format_failure(&failure)),
    }
}

fn cancelled(call_id: &SmolStr, name: &SmolStr) -> SubagentEndEvent {
    let text = HandlerFailure::Cancelled.to_string();
    SubagentEndEvent { call_id: call_id.clone(), name: name.clone(), status: "error", text }
}

impl StepCx {
    async fn end_subagent(&self, event: SubagentEndEvent) {
        self.emit(EventKind::SubagentEnd { name: event.name.clone(), status: event.status });
        self.fire::<SubagentEnd>(|| event).await;
    }
}

/// Reports the end of a subagent, even if its call is dropped.
struct SubagentEndGuard {
    step_cx: StepCx,
    event: Option<SubagentEndEvent>,
}

impl SubagentEndGuard {
    fn report(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (event, step_cx) = (self.event.take()?, self.step_cx.clone());
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move { step_cx.end_subagent(event).await }))
    }
}

impl Drop for SubagentEndGuard {
    fn drop(&mut self) {
        self.report();
    }
}

impl Subagent {
    async fn work(&self, cx: SubagentCx) -> Result<Content, HandlerFailure> {
        let cancel = cx.cancel().clone();
        match &self.body {
            SubagentBody::Function(function) => function.call(cx, &cancel).await,
            SubagentBody::Agent(registered) => run_agent(registered, cx).await,
        }
    }
}

/// Runs a registered agent on the prompt, as a child of the calling run.
async fn run_agent(
    registered: &RegisteredAgent,
    cx: SubagentCx,
) -> Result<Content, HandlerFailure> {
    let Some(_open) = registered.hold_open() else {
        return Err(HandlerFailure::Error(format!("subagent `{}` was removed", cx.name)));
    };
    let agent =
        cx.child().config(AgentConfig::clone(&registered.config())).build().map_err(failed)?;
    let reply = agent.process_request(cx.prompt.as_str()).await.map_err(failed)?;
    match reply.reason {
        EndReason::EndTurn | EndReason::ShortCircuit => Ok(Content::Text(reply.text())),
        EndReason::Aborted => Err(HandlerFailure::Cancelled),
        reason => {
            let message = reply.error.map_or_else(|| reason.as_str().into(), |error| error.message);
            Err(HandlerFailure::Error(message))
        }
    }
}
