//! Subagents: isolated agents the model calls by name, through the one tool `invoke_subagent`.
//!
//! Of the conversation a subagent sees nothing but the prompt it is given. `@name` in a person's text
//! stays there: it tells the model whom to call, unless [`MentionMode::Dispatch`] lets a leading one call
//! it right away. A subagent is a function ([`Subagent::new`]), which may build an agent for the run it
//! works for ([`SubagentCx::child`]), or an agent by its config ([`Subagent::agent`]).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Subagent};
//! use cotter::invoke::subagent::SubagentCx;
//! use cotter_test::{Scripted, Step};
//! use serde_json::json;
//!
//! let model = Scripted::new([
//!     Step::call("invoke_subagent", json!({"name": "tide", "prompt": "Oban"})),
//!     Step::text("At noon."),
//! ]);
//! let tide = |cx: SubagentCx| async move { Ok(format!("{}: 12:00", cx.prompt).into()) };
//! let agent = Agent::builder(model)
//!     .define_mention(Subagent::new("tide", tide).description("Knows when the tide is high."))
//!     .build()?;
//! assert_eq!(agent.process_request("@tide When is high water?").await?.text(), "At noon.");
//! # Ok(())
//! # }
//! ```

use std::{future::Future, sync::Arc};

use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{child::ChildBuilder, controls::Controls, step_cx::StepCx, view::AgentView},
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
        callable::{BoxError, Callable, failed},
        named_item::{NameKind, NamedItem},
        skill::{failure_of, list, shaped, unavailable, unshaped},
    },
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::{Zone, facts::Facts},
    tool::{Tool, ToolFuture, permit::Permit},
};

/// A subagent: a name, and what works under it.
pub struct Subagent {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    work: SubagentBody,
}

enum SubagentBody {
    Function(Callable<SubagentCx, Content>),
    Agent(RegisteredAgent),
}

/// An agent of the registry, by its config.
pub(crate) struct RegisteredAgent {
    config: std::sync::RwLock<Arc<AgentConfig>>,
    /// Held by every run of it; `true` once it has left.
    gone: RwLock<bool>,
}

impl Subagent {
    /// A subagent that is a function of its prompt.
    ///
    /// The function may build an agent of its own ([`SubagentCx::child`]), call something else or
    /// answer by itself. It is called once per call of the tool, also several at once; its failure is
    /// a result for the model.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(SubagentCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Content, BoxError>> + Send + 'static,
    {
        let work = Callable::new(function, |done: Result<Content, BoxError>| done.map_err(failed));
        Subagent {
            name: name.into(),
            description: String::new(),
            work: SubagentBody::Function(work),
        }
    }

    /// A subagent that is an agent: a prompt, tools, skills and a model of its own.
    pub fn agent(config: AgentConfig) -> Self {
        let (name, description) = (config.name.clone(), config.description.clone());
        let config = std::sync::RwLock::new(Arc::new(config));
        Subagent {
            name,
            description,
            work: SubagentBody::Agent(RegisteredAgent { config, gone: RwLock::new(false) }),
        }
    }

    /// When to call it: what the model reads.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    pub(crate) fn registered(&self) -> Option<&RegisteredAgent> {
        match &self.work {
            SubagentBody::Agent(registered) => Some(registered),
            SubagentBody::Function(_) => None,
        }
    }

    async fn work(&self, cx: SubagentCx) -> Result<Content, HandlerFailure> {
        let cancel = cx.cancel().clone();
        match &self.work {
            SubagentBody::Function(function) => function.call(cx, &cancel).await,
            SubagentBody::Agent(registered) => registered.work(cx).await,
        }
    }
}

impl RegisteredAgent {
    pub(crate) fn config(&self) -> Arc<AgentConfig> {
        self.config.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn set_config(&self, config: AgentConfig) {
        let mut slot = self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        *slot = Arc::new(config);
    }

    /// Waits until no run of it is under way, and lets no further one begin. Whether it was there.
    pub(crate) async fn leave(&self) -> bool {
        !std::mem::replace(&mut *self.gone.write().await, true)
    }

    async fn work(&self, cx: SubagentCx) -> Result<Content, HandlerFailure> {
        // Whoever is about to leave waits for its runs: one of them that waited here, within another,
        // would be waited for by itself.
        let Some(_there) = self.gone.try_read().ok().filter(|gone| !**gone) else {
            return Err(HandlerFailure::Error(format!(
                "subagent `{}` is no longer there",
                cx.name
            )));
        };
        let agent =
            cx.child().config(AgentConfig::clone(&self.config())).build().map_err(failed)?;
        let reply = agent.process_request(cx.prompt.as_str()).await.map_err(failed)?;
        match reply.reason {
            EndReason::EndTurn | EndReason::ShortCircuit => Ok(Content::Text(reply.text())),
            EndReason::Aborted => Err(HandlerFailure::Cancelled),
            reason => {
                let why = reply.error.map_or_else(|| reason.as_str().into(), |error| error.message);
                Err(HandlerFailure::Error(why))
            }
        }
    }
}

/// What a subagent is told.
#[derive(Clone)]
#[non_exhaustive]
pub struct SubagentCx {
    /// The name it was called by.
    pub name: SmolStr,
    /// All it is to know of the conversation.
    pub prompt: String,
    /// What it can do beyond its answer.
    pub controls: Controls,
}

impl SubagentCx {
    /// Fires when the run it works for is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        self.controls.cx().cancel()
    }

    /// An agent that works for the run, under its policy, ledger and budget.
    pub fn child(&self) -> ChildBuilder {
        self.controls.cx().child()
    }
}

/// What a leading `@name` in a person's text does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MentionMode {
    /// It stays in the text, and the model decides.
    #[default]
    Model,
    /// It calls that subagent with the rest of the text, without asking the model.
    Dispatch,
}

impl AgentView {
    /// The subagent of that name, where this agent may call it.
    pub(crate) fn subagent(&self, name: &str) -> Option<&Arc<Subagent>> {
        match self.find(NameKind::Subagent, name)? {
            NamedItem::Subagent(mention) => Some(mention),
            _ => None,
        }
    }

    /// The subagents this agent's model may call.
    pub(crate) fn subagents(&self) -> impl Iterator<Item = &Arc<Subagent>> {
        self.in_force(NameKind::Subagent).filter_map(|called| match called {
            NamedItem::Subagent(mention) => Some(mention),
            _ => None,
        })
    }
}

/// The most bytes the list of subagents takes in the description of `invoke_subagent`.
const LIST_BYTES: usize = 8 * 1024;

/// The tool by which the model calls a subagent.
pub(crate) struct InvokeSubagent {
    spec: ToolSpec,
}

impl InvokeSubagent {
    pub(crate) fn new<'a>(
        tool: impl Into<SmolStr>,
        subagents: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let listed = list(subagents, LIST_BYTES);
        let description = format!(
            "Gives a task to a subagent and returns its answer. The subagent sees nothing of this \
             conversation but the prompt, so put all it needs into it. When a person writes @name, \
             the subagent of that name is meant. Subagents:\n{listed}"
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The subagent's name."},
                "prompt": {"type": "string", "description": "The whole task, in words."},
            },
            "required": ["name", "prompt"],
            "additionalProperties": false,
        });
        InvokeSubagent { spec: ToolSpec::new(tool, description, schema) }
    }
}

impl Tool for InvokeSubagent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Calling changes nothing by itself; each call the subagent makes is judged for itself.
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

async fn invoke(scene: StepCx, started: SubagentStartEvent) -> Result<ToolOutput, ToolError> {
    let name = started.name.clone();
    let Some(mention) = scene.face.subagent(&name).cloned() else {
        let known = scene.face.subagents().map(|mention| mention.name.as_str());
        return Err(unavailable("Subagent", &name, "is not registered", known));
    };
    let decided = scene.fire::<SubagentStart>(|| started.clone()).await;
    let verdict = decided.as_ref().and_then(|decided| decided.strictest());
    if let Some((meta, Admission::Block(reason))) = verdict {
        let words = crate::hooks::notes::blocked_words(&meta.name, reason);
        return Err(unshaped(&words, ToolErrorKind::Denied));
    }
    scene.emit(EventKind::SubagentStart { name: name.clone() });
    let owner = scene.face.owner_of(NameKind::Subagent, &name);
    let cx = scene.cx.spoken_by(match &scene.cx.speaker {
        // The call it works for is known by the tool's voice; what it may do is its owner's.
        NoteAuthor::Tool(calling) => {
            let (tool, call_id) = (calling.tool.clone(), calling.call_id.clone());
            NoteAuthor::Tool(Arc::new(ToolCallRef { tool, owner, call_id }))
        }
        _ => NoteAuthor::called("subagent", &name, owner),
    });
    let told = SubagentCx { name: name.clone(), prompt: started.prompt, controls: cx.controls() };
    let cancel = scene.cx.cancel().clone();
    let mut ending = SubagentEndGuard { scene, event: Some(cancelled(&started.call_id, &name)) };
    let done = mention.work(told).await;
    let (status, text) = match &done {
        Ok(content) => ("success", content.text().into_owned()),
        Err(failure) => ("error", failure.to_string()),
    };
    ending.event =
        Some(SubagentEndEvent { call_id: started.call_id, name: name.clone(), status, text });
    if let Some(told) = ending.tell() {
        // What it did is not lost because the run is aborted while somebody is told.
        tokio::select! {
            _ = told => {}
            () = cancel.cancelled() => {}
        }
    }
    match done {
        Ok(content) => Ok(shaped("subagent", &name, content)),
        Err(failure) => Err(failure_of(&failure)),
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

/// Tells of a subagent's end also when its call is dropped.
struct SubagentEndGuard {
    scene: StepCx,
    event: Option<SubagentEndEvent>,
}

impl SubagentEndGuard {
    fn tell(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (event, scene) = (self.event.take()?, self.scene.clone());
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move { scene.end_subagent(event).await }))
    }
}

impl Drop for SubagentEndGuard {
    fn drop(&mut self) {
        self.tell();
    }
}
