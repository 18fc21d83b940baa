//! Subagents: isolated agents the model calls by name, through the one tool `invoke_subagent`.
//!
//! Of the conversation a subagent sees nothing but the prompt it is given. `@name` in a person's text
//! stays there: it tells the model whom to call, unless [`MentionMode::Dispatch`] lets a leading one call
//! it right away. A subagent is a function ([`Mention::new`]), which may build an agent for the run it
//! works for ([`MentionCx::child`]), or an agent by its config ([`Mention::agent`]).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Mention};
//! use cotter::invoke::subagent::MentionCx;
//! use cotter_test::{Scripted, Step};
//! use serde_json::json;
//!
//! let model = Scripted::new([
//!     Step::call("invoke_subagent", json!({"name": "tide", "prompt": "Oban"})),
//!     Step::text("At noon."),
//! ]);
//! let tide = |cx: MentionCx| async move { Ok(format!("{}: 12:00", cx.prompt).into()) };
//! let agent = Agent::builder(model)
//!     .define_mention(Mention::new("tide", tide).description("Knows when the tide is high."))
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
    agent::{child::ChildBuilder, controls::Controls, step_cx::Scene, view::Face},
    fs::workspace::Place,
    history::{end_reason::Reason, message::Content, tool_error_kind::ErrorKind},
    hooks::{
        events::EventKind,
        handler::Failure,
        notes::{Calling, Speaker},
        points::{
            Admit,
            subagent::{SubagentEnd, SubagentEnded, SubagentStart, SubagentStarted},
        },
    },
    invoke::{
        agent_config::AgentConfig,
        callable::{BoxError, Callable, failed},
        named_item::{Called, Kind},
        skill::{failure_of, list, shaped, unavailable, unshaped},
    },
    model::tools::{Output, ToolError, ToolSpec},
    permission::{Zone, facts::Facts},
    tool::{Tool, Working, permit::Permit},
};

/// A subagent: a name, and what works under it.
pub struct Mention {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    work: Work,
}

enum Work {
    Function(Callable<MentionCx, Content>),
    Agent(Registered),
}

/// An agent of the registry, by its config.
pub(crate) struct Registered {
    config: std::sync::RwLock<Arc<AgentConfig>>,
    /// Held by every run of it; `true` once it has left.
    gone: RwLock<bool>,
}

impl Mention {
    /// A subagent that is a function of its prompt.
    ///
    /// The function may build an agent of its own ([`MentionCx::child`]), call something else or
    /// answer by itself. It is called once per call of the tool, also several at once; its failure is
    /// a result for the model.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(MentionCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Content, BoxError>> + Send + 'static,
    {
        let work = Callable::new(function, |done: Result<Content, BoxError>| done.map_err(failed));
        Mention { name: name.into(), description: String::new(), work: Work::Function(work) }
    }

    /// A subagent that is an agent: a prompt, tools, skills and a model of its own.
    pub fn agent(config: AgentConfig) -> Self {
        let (name, description) = (config.name.clone(), config.description.clone());
        let config = std::sync::RwLock::new(Arc::new(config));
        Mention {
            name,
            description,
            work: Work::Agent(Registered { config, gone: RwLock::new(false) }),
        }
    }

    /// When to call it: what the model reads.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    pub(crate) fn registered(&self) -> Option<&Registered> {
        match &self.work {
            Work::Agent(registered) => Some(registered),
            Work::Function(_) => None,
        }
    }

    async fn work(&self, cx: MentionCx) -> Result<Content, Failure> {
        let cancel = cx.cancel().clone();
        match &self.work {
            Work::Function(function) => function.call(cx, &cancel).await,
            Work::Agent(registered) => registered.work(cx).await,
        }
    }
}

impl Registered {
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

    async fn work(&self, cx: MentionCx) -> Result<Content, Failure> {
        // Whoever is about to leave waits for its runs: one of them that waited here, within another,
        // would be waited for by itself.
        let Some(_there) = self.gone.try_read().ok().filter(|gone| !**gone) else {
            return Err(Failure::Error(format!("subagent `{}` is no longer there", cx.name)));
        };
        let agent =
            cx.child().config(AgentConfig::clone(&self.config())).build().map_err(failed)?;
        let reply = agent.process_request(cx.prompt.as_str()).await.map_err(failed)?;
        match reply.reason {
            Reason::EndTurn | Reason::ShortCircuit => Ok(Content::Text(reply.text())),
            Reason::Aborted => Err(Failure::Cancelled),
            reason => {
                let why = reply.error.map_or_else(|| reason.as_str().into(), |error| error.message);
                Err(Failure::Error(why))
            }
        }
    }
}

/// What a subagent is told.
#[derive(Clone)]
#[non_exhaustive]
pub struct MentionCx {
    /// The name it was called by.
    pub name: SmolStr,
    /// All it is to know of the conversation.
    pub prompt: String,
    /// What it can do beyond its answer.
    pub controls: Controls,
}

impl MentionCx {
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

impl Face {
    /// The subagent of that name, where this agent may call it.
    pub(crate) fn subagent(&self, name: &str) -> Option<&Arc<Mention>> {
        match self.find(Kind::Subagent, name)? {
            Called::Subagent(mention) => Some(mention),
            _ => None,
        }
    }

    /// The subagents this agent's model may call.
    pub(crate) fn subagents(&self) -> impl Iterator<Item = &Arc<Mention>> {
        self.in_force(Kind::Subagent).filter_map(|called| match called {
            Called::Subagent(mention) => Some(mention),
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
    fn effects(&self, _: &Value, _: &Place) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> Working<'_> {
        Box::pin(async move {
            let input = permit.input();
            let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
            let started = SubagentStarted {
                call_id: permit.call_id().clone(),
                name: text("name").into(),
                prompt: text("prompt"),
            };
            invoke(Scene::of(permit.cx()), started).await
        })
    }
}

async fn invoke(scene: Scene, started: SubagentStarted) -> Result<Output, ToolError> {
    let name = started.name.clone();
    let Some(mention) = scene.face.subagent(&name).cloned() else {
        let known = scene.face.subagents().map(|mention| mention.name.as_str());
        return Err(unavailable("Subagent", &name, "is not registered", known));
    };
    let decided = scene.fire::<SubagentStart>(|| started.clone()).await;
    let verdict = decided.as_ref().and_then(|decided| decided.strictest());
    if let Some((meta, Admit::Block(reason))) = verdict {
        let words = crate::hooks::notes::blocked_words(&meta.name, reason);
        return Err(unshaped(&words, ErrorKind::Denied));
    }
    scene.emit(EventKind::SubagentStart { name: name.clone() });
    let owner = scene.face.owner_of(Kind::Subagent, &name);
    let cx = scene.cx.spoken_by(match &scene.cx.speaker {
        // The call it works for is known by the tool's voice; what it may do is its owner's.
        Speaker::Tool(calling) => {
            let (tool, call_id) = (calling.tool.clone(), calling.call_id.clone());
            Speaker::Tool(Arc::new(Calling { tool, owner, call_id }))
        }
        _ => Speaker::called("subagent", &name, owner),
    });
    let told = MentionCx { name: name.clone(), prompt: started.prompt, controls: cx.controls() };
    let cancel = scene.cx.cancel().clone();
    let mut ending = Ending { scene, event: Some(cancelled(&started.call_id, &name)) };
    let done = mention.work(told).await;
    let (status, text) = match &done {
        Ok(content) => ("success", content.text().into_owned()),
        Err(failure) => ("error", failure.to_string()),
    };
    ending.event =
        Some(SubagentEnded { call_id: started.call_id, name: name.clone(), status, text });
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

fn cancelled(call_id: &SmolStr, name: &SmolStr) -> SubagentEnded {
    let text = Failure::Cancelled.to_string();
    SubagentEnded { call_id: call_id.clone(), name: name.clone(), status: "error", text }
}

impl Scene {
    async fn end_subagent(&self, event: SubagentEnded) {
        self.emit(EventKind::SubagentEnd { name: event.name.clone(), status: event.status });
        self.fire::<SubagentEnd>(|| event).await;
    }
}

/// Tells of a subagent's end also when its call is dropped.
struct Ending {
    scene: Scene,
    event: Option<SubagentEnded>,
}

impl Ending {
    fn tell(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (event, scene) = (self.event.take()?, self.scene.clone());
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move { scene.end_subagent(event).await }))
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.tell();
    }
}
