//! Cotter: an agent runtime built round one extension layer.
//!
//! An agent is a model in a loop with tools. Hooks at every moment of the loop can watch it, steer
//! it, ask before it acts and stop it; a permission floor stands under all of them; the ledger shows
//! afterwards what happened and why. The library prints nothing, reads no environment variable and
//! finds no home directory: callers pass things in.
//!
//! # A first agent
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, ToolSpec, Verdict, permission::Zone, tool::Facts};
//! use cotter::points::{ToolCalled, ToolPre};
//! use cotter_test::{Scripted, Step};
//! use serde_json::json;
//!
//! // A model that says what it was told to say. Any `Model` will do.
//! let model = Scripted::new([
//!     Step::call("tide", json!({"port": "Oban"})),
//!     Step::text("High water is at noon."),
//! ]);
//!
//! // A tool says what it takes, what a call of it touches, and what it does.
//! let schema = json!({"type": "object", "properties": {"port": {"type": "string"}}});
//! let spec = ToolSpec::new("tide", "Tells when the tide is high.", schema);
//! let tide = FnTool::new(spec, |_permit| async { Ok("12:00".into()) });
//!
//! // A hook is a function at a point. This one is a gate: it may pass, ask or block.
//! fn known_ports(call: &ToolCalled) -> Verdict {
//!     match call.tool_input["port"].as_str() {
//!         Some("Atlantis") => Verdict::block("there is no such port"),
//!         _ => Verdict::Pass,
//!     }
//! }
//!
//! let agent = Agent::builder(model)
//!     .tool(tide.touching(Facts::zone(Zone::Safe)))
//!     .on(ToolPre, known_ports)
//!     .build()?;
//! let reply = agent.process_request("When is high water at Oban?").await?;
//! assert_eq!(reply.text(), "High water is at noon.");
//! # Ok(())
//! # }
//! ```
//!
//! # The turn
//!
//! ```text
//! prompt ─ user.prompt.submit ─┐
//!                              ▼
//!         ┌────────────► context ─ model.pre ─ notes ─ model ─ model.post
//!         │                    ▼
//!         └── tools ◄──── calls?      scope ─ schema ─ transforms ─ floor ─ gates
//!                              ▼ none        ─ one question ─ permit ─ run ─ tool.post
//!                          turn.end ─ (error) ─ session.end
//! ```
//!
//! The names with dots are [points]. A handler at a point has one of four powers ([`Power`]):
//! [observe](Registry::observe), [gate](Registry::on), [transform](Registry::transform) or
//! [answer](Registry::answer).
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | building and changing an agent | [`Agent`], [`AgentBuilder`], [`Limits`] |
//! | what the model can call | [`tool`], [`Tool`], [`FnTool`], [`Permit`] |
//! | hooks, and who may register what | [`ext`], [`points`] |
//! | words from hooks to the model | [`Cx::note`] |
//! | names in what a person typed | [`directives`] |
//! | what runs unasked | [`permission`] |
//! | asking a person | [`ui`] |
//! | conversations and where they are kept | [`session`] |
//! | watching a run | [`events`], [`Run`] |
//! | what happened, and why | [`ledger`] |
//! | models | [`model`] |
//!
//! # Testing
//!
//! The crate `cotter-test` has a scripted model, a scripted person, a store that fails on demand and
//! transcripts as text, so that an extension can be tested without a network, a clock or a key:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Verdict, builtin::List, points::{ToolCalled, ToolPre}, named};
//! use cotter_test::{Scripted, Step, transcript};
//! use serde_json::json;
//!
//! let model = Scripted::new([Step::call("list", json!({})), Step::text("I may not look.")]);
//! let agent = Agent::builder(model)
//!     .tool(List::default())
//!     .on(ToolPre, named("no-looking", |_: &ToolCalled| Verdict::block("it is private")))
//!     .build()?;
//! agent.process_request("What is here?").await?;
//! assert_eq!(
//!     transcript(&agent.main_session().await?),
//!     "user: What is here?\n\
//!      call c1.1: list {}\n\
//!      result c1.1 (denied): Hook \"no-looking\" blocked the action: it is private. \
//!      Adjust your approach; do not retry the exact same call.\n\
//!      assistant: I may not look.\n",
//! );
//! # Ok(())
//! # }
//! ```
//!
//! [`Power`]: points::Power
//!
//! The modules stand in the order of a turn.

pub mod points;
pub mod ext;
pub mod hook;
pub mod cx;
pub mod controls;
pub mod directives;
pub mod command;
pub mod skill;
pub mod mention;
mod agent;
mod agents;
mod child;
mod face;
pub mod session;
pub mod message;
mod messages;
mod spine;
mod run;
mod turn;
mod prompt;
mod compact;
mod request;
mod budget;
mod scene;
pub mod model;
pub mod tool;
pub mod permission;
pub mod builtin;
mod notes;
pub mod ledger;
pub mod events;
pub mod ui;
#[cfg(feature = "files")]
pub mod settings;
pub mod redact;
pub mod text;

pub use self::{
    agent::{Agent, AgentBuilder, Limits},
    agents::AgentConfig,
    child::ChildBuilder,
    command::Command,
    controls::Controls,
    cx::{Cx, Place},
    ext::{At, HookCx, HookResult, Origin, Owner, Registry, named},
    face::Environment,
    hook::Hook,
    mention::Mention,
    message::Message,
    messages::{Block, Messages},
    points::Verdict,
    run::{Reason, Reply, Run, RunError},
    session::Session,
    skill::Skill,
    tool::{FnTool, Output, Permit, Tool, ToolError, ToolSpec},
};
