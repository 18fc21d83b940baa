//! Hooks: the points of a run, the handlers at these points, and the dispatch that runs the handlers. Also
//! notes to the model, events for listeners and questions to the person. The [`registry`](crate::registry)
//! holds the registrations.
//!
//! A handler is a plain function over a shared event, which answers at once, or an `async` function over an
//! owned handle ([`At`]). It is registered at a point with one of four powers. No handler can change the
//! event it is shown; the runtime applies its answer.
//!
//! Items that are called by name are registered too: hooks on directives ([`HookCx`](crate::HookCx),
//! [`HookResult`](crate::HookResult)), [skills](crate::invoke::skill), [subagents](crate::invoke::subagent)
//! and [commands](crate::invoke::command). Within one origin, a second item of the same name is refused.
//! Across origins, the item of the nearer origin wins, and the other item is listed as shadowed
//! ([`NameInfo`](crate::invoke::named_item::NameInfo)).
//!
//! # Gates
//!
//! A gate passes, asks or blocks. The strictest verdict wins, in any order of the gates. A gate that fails,
//! panics or exceeds its time limit blocks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, At, Verdict, hooks::points::{ToolPreEvent, ToolPre}};
//! use cotter_test::ScriptedModel;
//! use serde_json::json;
//!
//! fn at_once(call: &ToolPreEvent) -> Verdict {
//!     if call.facts.writes.is_empty() { Verdict::Pass } else { Verdict::ask("it writes") }
//! }
//!
//! async fn later(call: At<ToolPre>) -> Result<Verdict, std::io::Error> {
//!     let list = std::fs::read_to_string("/no/such/list")?; // An error blocks.
//!     let is_listed = list.contains(&*call.tool_name);
//!     Ok(if is_listed { Verdict::Pass } else { Verdict::block("it is not on the list") })
//! }
//!
//! let agent = Agent::builder(ScriptedModel::new([])).gate(ToolPre, at_once).gate(ToolPre, later).build()?;
//! let checked = agent.run_pre("bash", json!({"command": "ls"})).await;
//! assert_eq!((checked.verdict, checked.by.as_deref()), ("block", Some("later")));
//! # Ok(())
//! # }
//! ```
//!
//! # Observers
//!
//! An observer reads the event and may add a note. Its failure changes nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
//! use cotter::{Agent, history::message::Usage, hooks::points::{ModelPost, ModelPostEvent}};
//! use cotter_test::{ScriptedModel, Step};
//!
//! let spent = Arc::new(AtomicU64::new(0));
//! let meter = spent.clone();
//! let usage = Usage { output_tokens: 7, ..Usage::default() };
//! let agent = Agent::builder(ScriptedModel::new([Step::text("Hello.").and_usage(usage)]))
//!     .observe(ModelPost, move |reply: &ModelPostEvent| {
//!         meter.fetch_add(reply.output_tokens, Ordering::Relaxed);
//!     })
//!     .build()?;
//! agent.process_request("Hello?").await?;
//! assert_eq!(spent.load(Ordering::Relaxed), 7);
//! # Ok(())
//! # }
//! ```
//!
//! # Transforms
//!
//! A transform replaces the event. Each transform sees the result of the one before it. The result is checked
//! and decided like the model's own output.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, hooks::points::{UserPromptSubmitEvent, UserPromptSubmitChange, UserPromptSubmit}};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! fn expand(prompt: &UserPromptSubmitEvent) -> UserPromptSubmitChange {
//!     UserPromptSubmitChange::Prompt(prompt.prompt.replace("asap", "by Friday"))
//! }
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("It will be done.")]));
//! let agent = Agent::builder(model.clone()).transform(UserPromptSubmit, expand).build()?;
//! agent.process_request("I need it asap").await?;
//! assert_eq!(model.shown(), "user: I need it by Friday\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Answers
//!
//! If only the mode or the zone requires a question, a hook may answer for the person. A question from a gate
//! or an ask rule is always answered by a person.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, ToolSpec, hooks::ui::Question};
//! use cotter::hooks::points::{PermissionAnswer, PermissionAsk};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! fn only_builds(question: &Question) -> PermissionAnswer {
//!     let builds = question.calls.iter().all(|call| call.name == "build");
//!     if builds { PermissionAnswer::Yes } else { PermissionAnswer::Pass }
//! }
//! let spec = ToolSpec::new("build", "Builds the project.", json!({"type": "object"}));
//! let build = FnTool::new(spec, |_| async { Ok("built".into()) });
//! let agent = Agent::builder(ScriptedModel::new([Step::call("build", json!({})), Step::text("Done.")]))
//!     .tool(build)
//!     .answer(PermissionAsk, only_builds)
//!     .build()?;
//! agent.process_request("Build it.").await?;
//! assert!(transcript(&agent.main_session().await?).contains("result c1.1: built\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # Extensions
//!
//! An extension is anything that fills a [`Registry`](crate::Registry). It is loaded at any time under an
//! [`Owner`](crate::Owner), whole or not at all, and unloaded in one step. The rights of an owner depend on
//! its [`Origin`](crate::Origin).
//!
//! ```
//! use cotter::{Agent, Origin, Owner, Registry, Verdict, hooks::points::{ToolPreEvent, ToolPre}};
//! use cotter::permission::{mode::Mode, rule::{Rule, RuleKind}};
//! # use cotter_test::ScriptedModel;
//!
//! fn careful(unit: &mut Registry) {
//!     unit.gate(ToolPre, |_: &ToolPreEvent| Verdict::Pass).mode(Mode::Plan);
//! }
//! # let agent = Agent::builder(ScriptedModel::new([])).build()?;
//! let owner = Owner::new(Origin::Project, "careful");
//! agent.extend(owner.clone(), careful)?;
//! assert!(agent.unload(&owner));
//!
//! let loosens = |unit: &mut Registry| {
//!     unit.rule(Rule::parse(RuleKind::Allow, "bash").expect("it is a rule"));
//! };
//! assert!(agent.extend(owner, loosens).is_err(), "a project may only tighten");
//! # Ok::<(), cotter::registry::RegisterError>(())
//! ```

pub mod points;
pub mod handler;
pub(crate) mod chain;
pub(crate) mod dispatch;
pub(crate) mod clock;
pub mod external;
pub(crate) mod notes;
pub mod events;
pub mod ui;

pub use crate::{
    history::ledger::HandlerId,
    hooks::handler::{At, HandlerFailure, IntoAnswer, IntoHandler, NamedFn, named},
};
