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

use serde_json::json;
use smol_str::SmolStr;
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{child::ChildBuilder, controls::Controls},
    history::message::Content,
    invoke::{
        agent_config::AgentConfig,
        callable::{BoxError, Callable, failed},
        skill::list,
    },
    model::tools::ToolSpec,
};

/// A subagent: a name, and what works under it.
pub struct Subagent {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) body: SubagentBody,
}

/// The part of a subagent that works.
pub(crate) enum SubagentBody {
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
        let function =
            Callable::new(function, |done: Result<Content, BoxError>| done.map_err(failed));
        Subagent {
            name: name.into(),
            description: String::new(),
            body: SubagentBody::Function(function),
        }
    }

    /// A subagent that is an agent: a prompt, tools, skills and a model of its own.
    pub fn agent(config: AgentConfig) -> Self {
        let (name, description) = (config.name.clone(), config.description.clone());
        let config = std::sync::RwLock::new(Arc::new(config));
        Subagent {
            name,
            description,
            body: SubagentBody::Agent(RegisteredAgent { config, gone: RwLock::new(false) }),
        }
    }

    /// When to call it: what the model reads.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    pub(crate) fn registered(&self) -> Option<&RegisteredAgent> {
        match &self.body {
            SubagentBody::Agent(registered) => Some(registered),
            SubagentBody::Function(_) => None,
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

    /// Keeps it from leaving while the guard is held; `None` if it is leaving or has left.
    pub(crate) fn stay(&self) -> Option<RwLockReadGuard<'_, bool>> {
        // Never waits: `leave` waits for its runs, and one that waited here would wait for itself.
        self.gone.try_read().ok().filter(|gone| !**gone)
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

/// The most bytes the list of subagents takes in the description of `invoke_subagent`.
const LIST_BYTES: usize = 8 * 1024;

/// The tool by which the model calls a subagent.
pub(crate) struct InvokeSubagent {
    pub(crate) spec: ToolSpec,
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
