//! Tools: the functions that the model can call. A call reaches its tool through the
//! [`pipeline`](crate::pipeline).
//!
//! A tool is an [`FnTool`], or a type that implements [`Tool`]. It declares what a call touches ([`Facts`]);
//! floor and gates decide by these facts before the tool runs. The input is checked against the schema first.
//! A call with an invalid input never reaches the tool.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, Permit, ToolError, ToolSpec, permission::{Zone, facts::Facts}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! let spec = ToolSpec::new(
//!     "halve",
//!     "Halves an even number.",
//!     json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
//! );
//! let halve = FnTool::new(spec, |permit: Permit| async move {
//!     match permit.input()["n"].as_i64() {
//!         Some(n) if n % 2 == 0 => Ok((n / 2).to_string().into()),
//!         _ => Err(ToolError::failed("that is odd")),
//!     }
//! });
//! let step = Step::call("halve", json!({"n": 8}))
//!     .and_call("halve", json!({"n": 7}))
//!     .and_call("halve", json!({"n": "x"}));
//! let agent = Agent::builder(ScriptedModel::new([step, Step::text("4, and two mistakes.")]))
//!     .tool(halve.parallel().with_facts(Facts::zone(Zone::Safe)))
//!     .build()?;
//! agent.process_request("Halve them.").await?;
//! let shown = transcript(&agent.main_session().await?);
//! assert!(shown.contains("result c1.1: 4\n"));
//! assert!(shown.contains("result c1.2 (failed): that is odd\n"));
//! assert!(shown.contains("result c1.3 (invalid_args): Invalid arguments for `halve`"));
//! # Ok(())
//! # }
//! ```

pub(crate) mod permit;
pub(crate) mod schema;
pub(crate) mod cap;

use std::{
    future::{Future, ready},
    pin::Pin,
};

use serde_json::Value;

use crate::{
    agent::cx::Cx,
    fs::workspace::Workspace,
    hooks::points::tool_post::ToolPostEvent,
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::facts::Facts,
};

pub use crate::tool::permit::Permit;

/// The future of a running tool.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send + 'a>>;

/// The future of [`Tool::after_hooks`].
pub type AfterHooksFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A tool that the model can call.
///
/// `run` is called at most once per call, and only with a [`Permit`]. Only the pipeline makes a permit, after
/// the decision is on record. The future is dropped when the run is aborted. An `Err` or a panic is an
/// ordinary result: the model gets it, and the run continues. Nothing is retried.
pub trait Tool: Send + Sync + 'static {
    /// Returns name, description and schema. They must not change during the tool's life.
    fn spec(&self) -> &ToolSpec;

    /// Returns the facts of a call with this input. Must be pure and fast: it is called before every gate.
    /// Without facts, the call is treated as unknown code.
    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        let _ = (input, workspace);
        Facts::unknown()
    }

    /// True if calls of this tool may run concurrently with other calls of the same step.
    fn parallel(&self) -> bool {
        false
    }

    /// Runs the call.
    fn run(&self, permit: Permit) -> ToolFuture<'_>;

    /// Called after the hooks at `tool.post` for a call that ran; the hooks may have changed the files it
    /// wrote. Called once per call, and only if there are such hooks. A failure changes nothing.
    fn after_hooks<'a>(&'a self, ran: &'a ToolPostEvent, cx: &'a Cx) -> AfterHooksFuture<'a> {
        let _ = (ran, cx);
        Box::pin(ready(()))
    }
}

/// A tool made of a function.
pub struct FnTool<F> {
    spec: ToolSpec,
    parallel: bool,
    facts: Facts,
    function: F,
}

impl<F, Fut> FnTool<F>
where
    F: Fn(Permit) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    /// Makes a tool that runs `function` with the permit of each call.
    pub fn new(spec: ToolSpec, function: F) -> Self {
        FnTool { spec, parallel: false, facts: Facts::unknown(), function }
    }

    /// Declares that calls of this tool may run concurrently with other calls.
    pub fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// Declares the facts of every call of this tool.
    pub fn with_facts(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }
}

impl<F, Fut> Tool for FnTool<F>
where
    F: Fn(Permit) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        self.facts.clone()
    }

    fn parallel(&self) -> bool {
        self.parallel
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin((self.function)(permit))
    }
}
