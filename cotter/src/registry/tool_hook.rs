//! A shorthand for hooks around tool calls: an id, the tools, a phase and a function. It registers handlers
//! at `tool.pre` and `tool.post`.

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    hooks::{
        handler::named,
        points::{
            tool_post::{ToolPost, ToolPostEvent},
            tool_pre::{ToolPre, ToolPreChange, ToolPreEvent},
        },
    },
    registry::Registry,
};

/// The answer of a check before a tool runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolCheck {
    /// The check has no objection.
    Pass,
    /// The call does not run, for this reason.
    Block(String),
    /// The call runs with this input instead.
    Modified(Value),
}

/// A hook before or after tools.
///
/// Hooks before a tool run in the order of registration. The first block ends the chain, and each hook sees
/// the input that the one before it left. Hooks after a tool only observe; they cannot block.
pub struct ToolHook {
    id: SmolStr,
    description: SmolStr,
    tools: Option<Vec<String>>,
    phase: ToolHookPhase,
}

type ToolCheckFn = dyn Fn(&str, &Value) -> ToolCheck + Send + Sync;
type ToolObserveFn = dyn Fn(&str, &Value, &str) + Send + Sync;

enum ToolHookPhase {
    Pre(Box<ToolCheckFn>),
    Post(Box<ToolObserveFn>),
}

impl ToolHook {
    /// Makes a hook that checks tool and input before the tool runs.
    pub fn pre(
        id: impl Into<SmolStr>,
        check: impl Fn(&str, &Value) -> ToolCheck + Send + Sync + 'static,
    ) -> Self {
        ToolHook::new(id, ToolHookPhase::Pre(Box::new(check)))
    }

    /// Makes a hook that observes tool, input and result after the tool ran.
    pub fn post(
        id: impl Into<SmolStr>,
        observe: impl Fn(&str, &Value, &str) + Send + Sync + 'static,
    ) -> Self {
        ToolHook::new(id, ToolHookPhase::Post(Box::new(observe)))
    }

    fn new(id: impl Into<SmolStr>, phase: ToolHookPhase) -> Self {
        ToolHook { id: id.into(), description: SmolStr::default(), tools: None, phase }
    }

    /// Limits the hook to tools whose name matches one of these globs; `"*"` is every tool.
    pub fn tools<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the description: the purpose of the hook in one sentence.
    pub fn description(mut self, description: impl Into<SmolStr>) -> Self {
        self.description = description.into();
        self
    }

    pub(crate) fn register(self, registry: &mut Registry) {
        let tools = self.tools.unwrap_or_else(|| vec!["*".into()]);
        match self.phase {
            ToolHookPhase::Pre(check) => {
                let change =
                    move |call: &ToolPreEvent| match check(&call.tool_name, &call.tool_input) {
                        ToolCheck::Pass => ToolPreChange::Keep,
                        ToolCheck::Block(reason) => ToolPreChange::Block(reason),
                        ToolCheck::Modified(input) => ToolPreChange::Input(input),
                    };
                let hook = named(self.id, change).tools(tools).description(self.description);
                registry.transform(ToolPre, hook);
            }
            ToolHookPhase::Post(observe) => {
                let observe = move |ran: &ToolPostEvent| {
                    observe(&ran.tool_name, &ran.tool_input, &ran.result)
                };
                let hook = named(self.id, observe).tools(tools).description(self.description);
                registry.observe(ToolPost, hook);
            }
        }
    }
}
