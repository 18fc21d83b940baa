//! Tools: what the model can call. A call gets to its tool through the [`pipeline`](crate::pipeline).
//!
//! A tool is an [`FnTool`], or a type of one's own that implements [`Tool`]. It says what a call
//! touches ([`Facts`]); floor and gates decide by that before it runs. Input is checked against the
//! schema first, and a call that does not fit never reaches it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, Permit, ToolError, ToolSpec, permission::{Zone, facts::Facts}};
//! use cotter_test::{Scripted, Step, transcript};
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
//! let agent = Agent::builder(Scripted::new([step, Step::text("4, and two mistakes.")]))
//!     .tool(halve.parallel().touching(Facts::zone(Zone::Safe)))
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

/// The future of a tool at work.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send + 'a>>;

/// The future of a tool that looks after what hooks did.
pub type SettleFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Something the model can call.
///
/// `run` is called at most once per call, only with a [`Permit`], which only the pipeline makes after
/// the decision is on record. Its future is dropped when the run is aborted. An `Err` or a panic is a
/// result like another: the model is told, the run goes on. Nothing is retried.
pub trait Tool: Send + Sync + 'static {
    /// Name, description and schema, the same for the tool's whole life.
    fn spec(&self) -> &ToolSpec;

    /// What a call with this input would touch. Pure and quick: it is asked before every gate.
    /// A tool that does not say is taken to run unknown code.
    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        let _ = (input, workspace);
        Facts::unknown()
    }

    /// Whether calls of this tool may run beside others of the same step.
    fn parallel(&self) -> bool {
        false
    }

    /// Does the work.
    fn run(&self, permit: Permit) -> ToolFuture<'_>;

    /// The hooks at `tool.post` are through with a call that ran, and may have changed what it wrote.
    /// Called after them, once per call and only where there are any. Failure changes nothing.
    fn settled<'a>(&'a self, ran: &'a ToolPostEvent, cx: &'a Cx) -> SettleFuture<'a> {
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
    /// A tool that runs `function` with the permit of each call.
    pub fn new(spec: ToolSpec, function: F) -> Self {
        FnTool { spec, parallel: false, facts: Facts::unknown(), function }
    }

    /// Says that calls of this tool may run beside others.
    pub fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// Says what every call of this tool touches.
    pub fn touching(mut self, facts: Facts) -> Self {
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
