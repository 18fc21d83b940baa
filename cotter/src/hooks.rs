//! Hooks: the points of a run, the handlers at them and the one dispatch that runs them; notes to the model,
//! events for listeners, questions to the person. Registrations are kept in [`registry`](crate::registry).
//!
//! A handler is a plain function over a shared event, which answers at once, or an `async` one over
//! an owned handle ([`At`]). It is registered at a point with one of four powers. None can change
//! what it is shown; what it answers is carried out by the runtime.
//!
//! What is called by name is registered too: hooks on directives ([`HookCx`](crate::HookCx), [`HookResult`](crate::HookResult)),
//! [skills](crate::invoke::skill), [subagents](crate::invoke::subagent) and [commands](crate::invoke::command). Within one
//! origin the second of a name is refused; across origins the nearer one is found, and the other is
//! shown as shadowed ([`NameInfo`](crate::invoke::named_item::NameInfo)).
//!
//! # Gates
//!
//! A gate passes, asks or blocks. Of several the strictest stands, whatever their order; one that
//! fails, panics or takes too long blocks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, At, Verdict, hooks::points::{ToolPreEvent, ToolPre}};
//! use cotter_test::Scripted;
//! use serde_json::json;
//!
//! fn at_once(call: &ToolPreEvent) -> Verdict {
//!     if call.facts.writes.is_empty() { Verdict::Pass } else { Verdict::ask("it writes") }
//! }
//!
//! async fn later(call: At<ToolPre>) -> Result<Verdict, std::io::Error> {
//!     let listed = std::fs::read_to_string("/no/such/list")?; // An error blocks.
//!     let known = listed.contains(&*call.tool_name);
//!     Ok(if known { Verdict::Pass } else { Verdict::block("it is not on the list") })
//! }
//!
//! let agent = Agent::builder(Scripted::new([])).on(ToolPre, at_once).on(ToolPre, later).build()?;
//! let checked = agent.run_pre("bash", json!({"command": "ls"})).await;
//! assert_eq!((checked.verdict, checked.by.as_deref()), ("block", Some("later")));
//! # Ok(())
//! # }
//! ```
//!
//! # Observers
//!
//! An observer reads, and may leave a note. Its failure changes nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
//! use cotter::{Agent, history::message::Usage, hooks::points::{ModelPost, ModelPostEvent}};
//! use cotter_test::{Scripted, Step};
//!
//! let spent = Arc::new(AtomicU64::new(0));
//! let meter = spent.clone();
//! let usage = Usage { output_tokens: 7, ..Usage::default() };
//! let agent = Agent::builder(Scripted::new([Step::text("Hello.").and_usage(usage)]))
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
//! A transform replaces what is about to happen; each sees what the one before it made. What it
//! makes is checked and judged like the model's own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, hooks::points::{UserPromptSubmitEvent, UserPromptSubmitChange, UserPromptSubmit}};
//! use cotter_test::{Recording, Scripted, Step};
//!
//! fn expand(prompt: &UserPromptSubmitEvent) -> UserPromptSubmitChange {
//!     UserPromptSubmitChange::Prompt(prompt.prompt.replace("asap", "by Friday"))
//! }
//! let model = Recording::new(Scripted::new([Step::text("It will be done.")]));
//! let agent = Agent::builder(model.clone()).transform(UserPromptSubmit, expand).build()?;
//! agent.process_request("I need it asap").await?;
//! assert_eq!(model.shown(), "user: I need it by Friday\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Answers
//!
//! Where only mode or zone want a person asked, a hook may answer for them. The question of a gate
//! or of an ask rule is a person's to answer, always.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, ToolSpec, hooks::ui::Question};
//! use cotter::hooks::points::{PermissionAnswer, PermissionAsk};
//! use cotter_test::{Scripted, Step, transcript};
//! use serde_json::json;
//!
//! fn only_builds(question: &Question) -> PermissionAnswer {
//!     let builds = question.calls.iter().all(|call| call.name == "build");
//!     if builds { PermissionAnswer::Yes } else { PermissionAnswer::Pass }
//! }
//! let spec = ToolSpec::new("build", "Builds the project.", json!({"type": "object"}));
//! let build = FnTool::new(spec, |_| async { Ok("built".into()) });
//! let agent = Agent::builder(Scripted::new([Step::call("build", json!({})), Step::text("Done.")]))
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
//! Anything that fills a [`Registry`](crate::Registry) is an extension. It is loaded under an [`Owner`](crate::Owner), whole or not
//! at all, at any time, and dropped in one step. What an owner may do depends on its [`Origin`](crate::Origin).
//!
//! ```
//! use cotter::{Agent, Origin, Owner, Registry, Verdict, hooks::points::{ToolPreEvent, ToolPre}};
//! use cotter::permission::{mode::Mode, rule::{Rule, RuleKind}};
//! # use cotter_test::Scripted;
//!
//! fn careful(unit: &mut Registry) {
//!     unit.on(ToolPre, |_: &ToolPreEvent| Verdict::Pass).mode(Mode::Plan);
//! }
//! # let agent = Agent::builder(Scripted::new([])).build()?;
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
