//! The [`Hook`] trait of subsystems: types that own tools and state.
//!
//! Installing a hook registers each of its methods in the registry. Its tools are ordinary tools, so scope,
//! schema, floor, gates and ledger apply to them. `preprocess` is a transform at `user.prompt.submit`.
//! `on_register_agent` runs before an agent becomes visible, `on_unregister_agent` before it is removed.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Mutex;
//! use cotter::{Agent, Hook, Permit, Workspace, ToolSpec, permission::Zone};
//! use cotter::{permission::facts::Facts, tool::ToolFuture};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//! use serde_json::{Value, json};
//!
//! /// Remembers one thing.
//! #[derive(Default)]
//! struct Slate(Mutex<String>);
//!
//! impl Hook for Slate {
//!     fn schema(&self) -> Vec<ToolSpec> {
//!         let schema = json!({"type": "object", "properties": {"words": {"type": "string"}}});
//!         vec![ToolSpec::new("chalk", "Writes on the slate.", schema)]
//!     }
//!
//!     fn system_prompt(&self) -> Option<String> {
//!         Some("You can write on a slate.".into())
//!     }
//!
//!     fn effects(&self, _: &str, _: &Value, _: &Workspace) -> Facts {
//!         Facts::zone(Zone::Safe)
//!     }
//!
//!     fn dispatch<'a>(&'a self, name: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
//!         (name == "chalk").then(|| -> ToolFuture<'a> {
//!             Box::pin(async move {
//!                 *self.0.lock().expect("no thread panics") = call.input()["words"].to_string();
//!                 Ok("written".into())
//!             })
//!         })
//!     }
//! }
//!
//! let step = Step::call("chalk", json!({"words": "buy milk"}));
//! let model = RecordingModel::new(ScriptedModel::new([step, Step::text("I wrote it down.")]));
//! let agent = Agent::builder(model.clone()).hook(Slate::default()).build()?;
//! agent.process_request("Remember the milk.").await?;
//! assert!(model.shown().contains("result c1.1: written\n"));
//! assert_eq!(&*model.requests()[0].system, "You can write on a slate.");
//! # Ok(())
//! # }
//! ```

use std::{
    future::{Future, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    fs::workspace::Workspace,
    history::outcome::ToolErrorKind,
    hooks::{
        dispatch::panic_message,
        events::Event,
        points::user_prompt_submit::{UserPromptSubmitChange, UserPromptSubmitEvent},
    },
    invoke::agent_config::AgentConfig,
    model::tools::{ToolError, ToolSpec},
    permission::facts::Facts,
    registry::Registry,
    text,
    tool::{Tool, ToolFuture, permit::Permit},
};

/// The future of a hook's method.
pub type SubsystemFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A subsystem: tools that it owns, text for the system prompt, state per agent.
///
/// Every method has a default that does nothing; `()` is a hook that does nothing at all. `schema` and
/// `system_prompt` are called when the hook is installed. The default of `scoped_tools` calls `schema` too. A
/// method that panics counts as having done nothing, with these exceptions: a tool call fails, a prompt is
/// refused, and the installation of the hook or the registration of an agent fails.
pub trait Hook: Send + Sync + 'static {
    /// Returns the tools that this hook owns. No other owner can have a tool of the same name.
    fn schema(&self) -> Vec<ToolSpec> {
        vec![]
    }

    /// Returns text for every agent's system prompt.
    fn system_prompt(&self) -> Option<String> {
        None
    }

    /// Changes an agent's config before the agent is registered. Hooks run in the order of registration, each
    /// on the config that the one before it left.
    fn on_build_agent(&self, config: AgentConfig) -> SubsystemFuture<'_, AgentConfig> {
        Box::pin(ready(config))
    }

    /// Prepares for an agent that is about to be visible. The state that the hook keeps for the agent must be
    /// ready when the future ends.
    fn on_register_agent<'a>(
        &'a self,
        name: &'a str,
        config: &'a AgentConfig,
    ) -> SubsystemFuture<'a, ()> {
        let _ = (name, config);
        Box::pin(ready(()))
    }

    /// Cleans up for an agent that is about to be removed. No run of the agent is in progress.
    fn on_unregister_agent<'a>(&'a self, name: &'a str) -> SubsystemFuture<'a, ()> {
        let _ = name;
        Box::pin(ready(()))
    }

    /// Observes an event of a session: every event of every run, live and in order. A slow hook cannot slow
    /// the run; waiting text is joined, and nothing else is dropped.
    fn on_event(&self, agent: &str, session: &str, event: &Event) {
        let _ = (agent, session, event);
    }

    /// Changes a prompt before it is stored; `None` leaves it unchanged. Hooks run one after the other, each
    /// on the text that the one before it left.
    fn preprocess(&self, agent: &str, content: &str) -> Option<String> {
        let _ = (agent, content);
        None
    }

    /// Returns the tools of this hook that an agent may call, and a line for the agent's `<scope>`.
    fn scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>) {
        let _ = config;
        (self.schema().into_iter().map(|spec| spec.name.into()).collect(), None)
    }

    /// Runs a call of one of this hook's tools; `None` if the tool is not this hook's.
    fn dispatch<'a>(&'a self, name: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        let _ = (name, call);
        None
    }

    /// Returns the facts of a call of one of this hook's tools. Without facts, the call is treated as unknown
    /// code.
    fn effects(&self, name: &str, input: &Value, workspace: &Workspace) -> Facts {
        let _ = (name, input, workspace);
        Facts::unknown()
    }

    /// True if calls of this tool may run concurrently with other calls of the same step.
    fn parallel(&self, name: &str) -> bool {
        let _ = name;
        false
    }
}

impl Hook for () {}

/// The size limit of one hook's text in a system prompt, in bytes.
const FRAGMENT_BYTES: usize = 64 * 1024;

/// A hook in the registry.
pub(crate) struct InstalledHook {
    pub(crate) name: SmolStr,
    pub(crate) hook: Arc<dyn Hook>,
    /// The hook's text for the system prompt.
    pub(crate) fragment: Option<String>,
}

/// Registers each method of a hook at its point.
pub(crate) fn install<H: Hook>(unit: &mut Registry, hook: H) {
    let path = std::any::type_name::<H>();
    let name =
        SmolStr::from(path.split('<').next().and_then(|p| p.rsplit("::").next()).unwrap_or(path));
    let hook: Arc<dyn Hook> = Arc::new(hook);
    let read = AssertUnwindSafe(|| (hook.schema(), hook.system_prompt()));
    let (specs, fragment) = catch_unwind(read).unwrap_or_else(|panic| {
        let message = panic_message(&*panic);
        unit.fail(format!("hook `{name}` panicked: {message}"), None);
        Default::default()
    });
    for spec in specs {
        let tool = Arc::new(HookTool { spec, hook: hook.clone() });
        unit.hook_tool(tool, hook.clone());
    }
    let fragment = fragment.filter(|text| !text.trim().is_empty());
    let fragment = fragment.map(|text| text::cut_bytes(&text, FRAGMENT_BYTES));
    let preprocessor = hook.clone();
    unit.preprocess(&name, move |prompt: &UserPromptSubmitEvent, cx: &Cx| {
        match preprocessor.preprocess(cx.agent_id(), &prompt.prompt) {
            Some(text) if text != prompt.prompt => UserPromptSubmitChange::Prompt(text),
            _ => UserPromptSubmitChange::Keep,
        }
    });
    unit.add_installed_hook(InstalledHook { name, hook, fragment });
}

/// A tool that a hook owns.
struct HookTool {
    spec: ToolSpec,
    hook: Arc<dyn Hook>,
}

impl Tool for HookTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        self.hook.effects(&self.spec.name, input, workspace)
    }

    fn parallel(&self) -> bool {
        self.hook.parallel(&self.spec.name)
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        self.hook.dispatch(&self.spec.name, permit).unwrap_or_else(|| {
            let message =
                format!("the hook that declares the tool `{}` does not run it", self.spec.name);
            Box::pin(ready(Err(ToolError::new(ToolErrorKind::Unavailable, message))))
        })
    }
}

impl InstalledHook {
    /// Returns the tools of this hook that an agent may call. A hook that panics allows none.
    pub(crate) fn find_scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>) {
        catch_unwind(AssertUnwindSafe(|| self.hook.scoped_tools(config))).unwrap_or_default()
    }

    /// Passes an event to the hook. A hook that panics misses the event.
    pub(crate) fn send_event(&self, event: &Event) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.hook.on_event(&event.agent_id, &event.session_id, event);
        }));
    }
}
