//! Subagents: isolated agents that the model calls by name, through the tool `invoke_subagent`.
//!
//! A subagent sees only the prompt of its call, nothing of the conversation. `@name` in a person's text
//! stays there and tells the model which subagent to call. With [`MentionMode::Dispatch`] a leading `@name`
//! calls the subagent at once. A subagent is a function ([`Subagent::new`]), which may build a child
//! ([`SubagentCx::child`]), or an agent with a config ([`Subagent::agent`]).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Subagent};
//! use cotter::invoke::subagent::SubagentCx;
//! use cotter_test::{ScriptedModel, Step};
//! use serde_json::json;
//!
//! let model = ScriptedModel::new([
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

/// A subagent: a name, and the function or agent behind it.
pub struct Subagent {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) body: SubagentBody,
}

/// The function or the agent behind a subagent.
pub(crate) enum SubagentBody {
    Function(Callable<SubagentCx, Content>),
    Agent(RegisteredAgent),
}

/// An agent of the registry, with its config.
pub(crate) struct RegisteredAgent {
    config: std::sync::RwLock<Arc<AgentConfig>>,
    /// Read-locked by every run of the agent; `true` once the agent is unregistered.
    is_gone: RwLock<bool>,
}

impl Subagent {
    /// Makes a subagent from a function of its prompt.
    ///
    /// The function may build a child ([`SubagentCx::child`]), call something else or answer by itself. It
    /// is called once per call of the tool, also several times in parallel. Its failure is a result for the
    /// model.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(SubagentCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Content, BoxError>> + Send + 'static,
    {
        let function =
            Callable::new(function, |result: Result<Content, BoxError>| result.map_err(failed));
        Subagent {
            name: name.into(),
            description: String::new(),
            body: SubagentBody::Function(function),
        }
    }

    /// Makes a subagent from an agent with its own prompt, tools, skills and model.
    pub fn agent(config: AgentConfig) -> Self {
        let (name, description) = (config.name.clone(), config.description.clone());
        let config = std::sync::RwLock::new(Arc::new(config));
        Subagent {
            name,
            description,
            body: SubagentBody::Agent(RegisteredAgent { config, is_gone: RwLock::new(false) }),
        }
    }

    /// Sets the description, from which the model knows when to call the subagent.
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

    /// Waits until the agent has no run, and lets no further run begin. Returns true if it was registered.
    pub(crate) async fn wait_and_close(&self) -> bool {
        !std::mem::replace(&mut *self.is_gone.write().await, true)
    }

    /// Keeps the agent registered while the guard is held; `None` if it is closing or closed.
    pub(crate) fn hold_open(&self) -> Option<RwLockReadGuard<'_, bool>> {
        // Never waits: `wait_and_close` waits for the agent's runs, and a run that waited here would wait for
        // itself.
        self.is_gone.try_read().ok().filter(|gone| !**gone)
    }
}

/// The context of a subagent.
#[derive(Clone)]
#[non_exhaustive]
pub struct SubagentCx {
    /// The name that the subagent was called by.
    pub name: SmolStr,
    /// The prompt: all that the subagent knows of the conversation.
    pub prompt: String,
    /// The controls: actions beyond the answer.
    pub controls: Controls,
}

impl SubagentCx {
    /// Returns the token that fires when the calling run is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        self.controls.cx().cancel()
    }

    /// Builds a child of the run, under the run's policy, ledger and budget.
    pub fn child(&self) -> ChildBuilder {
        self.controls.cx().child()
    }
}

/// The effect of a leading `@name` in a person's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MentionMode {
    /// The name stays in the text, and the model decides.
    #[default]
    Model,
    /// The subagent is called with the rest of the text, without the model.
    Dispatch,
}

/// The greatest size of the list of subagents in the description of `invoke_subagent`, in bytes.
const LIST_BYTES: usize = 8 * 1024;

/// The tool with which the model calls a subagent.
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
