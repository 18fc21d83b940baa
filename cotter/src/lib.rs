//! Cotter: an agent runtime built around one extension layer.
//!
//! An agent is a model in a loop with tools. Hooks at every point of the loop can observe it, steer it, ask
//! before it acts and stop it. A permission floor is under all hooks. The ledger shows afterwards what
//! happened and why. The library prints nothing, reads no environment variable and finds no home directory:
//! callers pass everything in.
//!
//! # A first agent
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, ToolSpec, Verdict, permission::{Zone, facts::Facts}};
//! use cotter::hooks::points::{ToolPreEvent, ToolPre};
//! use cotter_test::{ScriptedModel, Step};
//! use serde_json::json;
//!
//! // A model with scripted replies. Any `Model` works here.
//! let model = ScriptedModel::new([
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
//! fn known_ports(call: &ToolPreEvent) -> Verdict {
//!     match call.tool_input["port"].as_str() {
//!         Some("Atlantis") => Verdict::block("there is no such port"),
//!         _ => Verdict::Pass,
//!     }
//! }
//!
//! let agent = Agent::builder(model)
//!     .tool(tide.with_facts(Facts::zone(Zone::Safe)))
//!     .gate(ToolPre, known_ports)
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
//!  typed ─ /command? ── run at once, without the model
//!    │
//!    ▼
//!  /names ─ directive hooks ─ user.prompt.submit ─ skills ─ stored in one append
//!    │          └ an answer in place of the model ends the turn
//!    ▼
//! ┌► compact.pre ─ summary ─ compact.post      if the window is nearly full
//! │  context ─ model.pre ─ notes ─ model ─ model.post
//! │  ▼
//! │ calls? ── none ─► turn.end ─ (error) ─ session.end
//! │  ▼
//! │ scope ─ schema ─ tool.pre transforms ─ floor ─ gates
//! │ one question ─ permission.ask ─ a hook or the person
//! │ ledger ─ permit ─ tool ─ tool.post         a subagent: subagent.start, its own turn, subagent.end
//! └──┘
//! ```
//!
//! The names with dots are [points](hooks::points). A handler at a point has one of four powers
//! ([`Power`]): [observe](Registry::observe), [gate](Registry::gate), [transform](Registry::transform) or
//! [answer](Registry::answer). Other extensions are called by name: directive hooks, skills, subagents,
//! commands. All extensions are registered in one [`Registry`], on the builder or at any time on the
//! [`Agent`]. A run uses new registrations from its next step on.
//!
//! # Tools
//!
//! A tool defines its input, the facts of a call, and its action. Floor and gates decide by the facts. See
//! [`tool`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, Permit, ToolSpec, permission::{Zone, facts::Facts}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
//! let double = FnTool::new(ToolSpec::new("double", "Doubles.", schema), |permit: Permit| async move {
//!     Ok((2 * permit.input()["n"].as_i64().unwrap_or(0)).to_string().into())
//! });
//! let model = ScriptedModel::new([Step::call("double", json!({"n": 21})), Step::text("42.")]);
//! let agent = Agent::builder(model).tool(double.with_facts(Facts::zone(Zone::Safe))).build()?;
//! agent.process_request("Twice 21?").await?;
//! assert!(transcript(&agent.main_session().await?).contains("result c1.1: 42\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # Gates
//!
//! A gate passes, asks or blocks. The strictest verdict wins, in any order, and a gate that fails blocks.
//! See [`hooks`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Verdict, hooks::points::{ToolPreEvent, ToolPre}, named};
//! use cotter_test::ScriptedModel;
//! use serde_json::json;
//!
//! let careful = |call: &ToolPreEvent| match call.tool_input["command"].as_str() {
//!     Some(command) if command.starts_with("rm") => Verdict::block("nothing is deleted here"),
//!     _ => Verdict::Pass,
//! };
//! let agent = Agent::builder(ScriptedModel::new([]))
//!     .gate(ToolPre, named("careful", careful).tools(["bash"]))
//!     .build()?;
//! assert_eq!(agent.run_pre("bash", json!({"command": "rm -r ."})).await.verdict, "block");
//! # Ok(())
//! # }
//! ```
//!
//! # Observers
//!
//! An observer reads the event, and may add a [note](Cx::note) for the model. Its failure changes nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Cx, hooks::points::{SessionStart, SessionStartEvent}, named};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let greet = |_: &SessionStartEvent, cx: &Cx| cx.note("the person is called Ada");
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Good day, Ada.")]));
//! let agent = Agent::builder(model.clone()).observe(SessionStart, named("greet", greet)).build()?;
//! agent.process_request("Hello.").await?;
//! assert!(model.shown().contains("From hook \"greet\": the person is called Ada"));
//! # Ok(())
//! # }
//! ```
//!
//! # Transforms
//!
//! A transform replaces the event; each transform sees the result of the one before it. A changed call is
//! checked and decided like the model's own call.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, builtin::List, hooks::points::{ToolPostChange, ToolPost, ToolPostEvent}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! let hide = |event: &ToolPostEvent| {
//!     ToolPostChange::Result(Ok(format!("{} bytes, not shown", event.result.len()).into()))
//! };
//! let model = ScriptedModel::new([Step::call("list", json!({})), Step::text("I see.")]);
//! let agent = Agent::builder(model).tool(List::default()).transform(ToolPost, hide).build()?;
//! agent.process_request("What is here?").await?;
//! assert!(transcript(&agent.main_session().await?).contains("bytes, not shown"));
//! # Ok(())
//! # }
//! ```
//!
//! # Answers
//!
//! A handler with the power to answer says yes or no in place of the person, if mode or zone raised the
//! question. If a gate or a rule asks, only a person can answer.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, FnTool, ToolSpec, hooks::{points::{PermissionAnswer, PermissionAsk}, ui::Question}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! let spec = ToolSpec::new("build", "Builds.", json!({"type": "object"}));
//! let build = FnTool::new(spec, |_| async { Ok("built".into()) }); // Without facts, a call asks.
//! let one_by_one = |question: &Question| match question.calls.len() {
//!     1 => PermissionAnswer::Yes,
//!     _ => PermissionAnswer::No("one at a time".into()),
//! };
//! let model = ScriptedModel::new([Step::call("build", json!({})), Step::text("Done.")]);
//! let agent = Agent::builder(model).tool(build).answer(PermissionAsk, one_by_one).build()?;
//! agent.process_request("Build it.").await?;
//! assert!(transcript(&agent.main_session().await?).contains("result c1.1: built\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # Permission
//!
//! Under all gates is the floor: rules, the zone of a call, a level and a mode, folded to one ruling. No
//! hook can loosen it. See [`permission`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, builtin::List, permission::{mode::Mode, rule::{Rule, RuleKind}}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! let model = ScriptedModel::new([Step::call("list", json!({})), Step::text("I may not.")]);
//! let agent = Agent::builder(model)
//!     .tool(List::default())
//!     .mode(Mode::AcceptEdits)
//!     .rule(Rule::parse(RuleKind::Deny, "list")?)
//!     .build()?;
//! agent.process_request("What is here?").await?;
//! assert!(transcript(&agent.main_session().await?).contains("result c1.1 (denied)"));
//! # Ok(())
//! # }
//! ```
//!
//! # Directive hooks
//!
//! `/name` in text that a person typed runs a hook before the model sees the text. The hook may rewrite the
//! text, answer in place of the model, or use its [`Controls`]. A name that is not registered stays in the
//! text. Nothing binds in text that no person typed.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, HookCx, HookResult, EndReason};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Very well.")]));
//! let agent = Agent::builder(model.clone())
//!     .define_hook("cancel", |_| async { HookResult::short_circuit("Nothing was sent.") })
//!     .define_hook("formal", |cx: HookCx| async move {
//!         HookResult::rewrite(cx.parsed_text.replace("gonna", "going to"))
//!     })
//!     .build()?;
//! let reply = agent.new_session().await?.prompt("/cancel never mind").await?;
//! assert_eq!((reply.text().as_str(), reply.reason), ("Nothing was sent.", EndReason::ShortCircuit));
//! agent.process_request("I'm gonna sail, ping /me /formal").await?;
//! assert_eq!(model.shown(), "user: I'm going to sail, ping /me\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Skills
//!
//! A skill is text that `/name` adds, as a message before the person's own. The model can call an exposed
//! skill by itself, through the tool `invoke_skill`. See [`invoke::skill`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Skill};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Aye.")]));
//! let pirate = Skill::text("pirate", "Speak like a pirate.").description("A tone.").expose_to_agent();
//! let agent = Agent::builder(model.clone()).define_skill(pirate).build()?;
//! agent.process_request("Shall we sail? /pirate").await?;
//! assert!(model.shown().starts_with("skill: <skill name=\"pirate\">\nSpeak like a pirate."));
//! assert_eq!(model.requests()[0].tools.specs().next().unwrap().name, "invoke_skill");
//! # Ok(())
//! # }
//! ```
//!
//! # Subagents
//!
//! A subagent is an agent that the model calls by name, through the tool `invoke_subagent`. It sees only
//! its prompt, and works under the gates, the ledger and the budget of the calling run. See
//! [`invoke::subagent`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, AgentConfig, Subagent};
//! use cotter_test::{ScriptedModel, Step};
//! use serde_json::json;
//!
//! let reviewer = AgentConfig::new("reviewer")
//!     .with_description("Reviews code.")
//!     .with_system_prompt("You review code and change nothing.")
//!     .with_tools(["read", "list"]);
//! let model = ScriptedModel::new([
//!     Step::call("invoke_subagent", json!({"name": "reviewer", "prompt": "Look at lib.rs."})),
//!     Step::text("It is fine."), // The reply to the reviewer's own request.
//!     Step::text("The reviewer is content."),
//! ]);
//! let agent = Agent::builder(model).define_mention(Subagent::agent(reviewer)).build()?;
//! let reply = agent.process_request("@reviewer please").await?;
//! assert_eq!(reply.text(), "The reviewer is content.");
//! # Ok(())
//! # }
//! ```
//!
//! # Commands
//!
//! A leading `/name args` runs a command, at once and without the model. It returns a status for the
//! person, a prompt for the agent, or nothing. See [`invoke::command`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Command, invoke::command::{CommandCx, CommandResult}};
//! use cotter_test::ScriptedModel;
//!
//! let name = |cx: CommandCx| async move {
//!     cx.controls.session().set_name(&cx.args.join(" "))?;
//!     Ok::<_, cotter::history::store::StoreError>(CommandResult::status("named"))
//! };
//! let agent = Agent::builder(ScriptedModel::new([])).define_command(Command::new("name", name)).build()?;
//! assert_eq!(agent.process_request("/name \"a fine day\"").await?.status.as_deref(), Some("named"));
//! assert_eq!(agent.main_session().await?.name().as_deref(), Some("a fine day"));
//! # Ok(())
//! # }
//! ```
//!
//! # Context
//!
//! The model may get other messages than the stored ones. A transform at
//! [`Context`](hooks::points::Context) sees all messages and all entries, and returns the messages to send.
//! [`each_message`](hooks::points::each_message) handles one message at a time and caches the result.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Message, history::message_list::MessageChange, hooks::points::{Context, ContextEvent, ContextChange}};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let last_only = |build: &ContextEvent| {
//!     let mut left = build.messages.len();
//!     ContextChange::Messages(build.messages.map_messages(|_, _: &Message| {
//!         left -= 1;
//!         if left == 0 { MessageChange::Keep } else { MessageChange::Drop }
//!     }))
//! };
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("One."), Step::text("Two.")]));
//! let agent = Agent::builder(model.clone()).transform(Context, last_only).build()?;
//! agent.process_request("Count.").await?;
//! agent.process_request("Go on.").await?;
//! assert_eq!(model.shown(), "user: Count.\n--\nuser: Go on.\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Compaction
//!
//! A summary replaces the older messages if the model's window is nearly full ([`Limits::compact_at`]), if
//! a request did not fit, or on demand. The model writes the summary, unless a transform at
//! [`CompactPre`](hooks::points::CompactPre) does. The history is kept.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, HookCx, hooks::points::{CompactPreChange, CompactPre, CompactPreEvent}};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let short = |event: &CompactPreEvent| {
//!     CompactPreChange::Summary(format!("{} messages", event.messages.len()))
//! };
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Hello."), Step::text("Yes.")]));
//! let agent = Agent::builder(model.clone())
//!     .transform(CompactPre, short)
//!     .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
//!     .build()?;
//! agent.process_request("Hello?").await?;
//! agent.process_request("/compact Still there?").await?;
//! assert!(model.shown().contains("summary: [Summary of the conversation so far]\n\n2 messages\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # Controls
//!
//! [`Controls`] is the handle through which every handler acts. It adds messages and entries, changes tools
//! and model, and compacts. It sends a request outside the conversation, or a further prompt; it calls a
//! tool and builds a child. See [`agent::controls`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, HookCx, HookResult, agent::controls::Completion};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let translate = |cx: HookCx| async move {
//!     let ask = Completion::new(cx.parsed_text.as_str()).with_system("Translate into English.");
//!     let english = cx.controls.complete(ask).await?;
//!     Ok::<_, cotter::agent::controls::ControlError>(HookResult::rewrite(english.text))
//! };
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Where are you going?"), Step::text("Here.")]));
//! let agent = Agent::builder(model.clone()).define_hook("en", translate).build()?;
//! agent.process_request("/en Quo vadis?").await?;
//! assert_eq!(model.shown(), "user: Quo vadis?\n--\nuser: Where are you going?\n");
//! # Ok(())
//! # }
//! ```
//!
//! # The `Hook` trait
//!
//! A subsystem with tools, text for the system prompt and state per agent implements [`Hook`]; each method
//! is registered at its point. See [`registry::subsystem`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Hook};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! struct House;
//!
//! impl Hook for House {
//!     fn system_prompt(&self) -> Option<String> {
//!         Some("House rules: be kind.".into())
//!     }
//!
//!     fn preprocess(&self, _agent: &str, content: &str) -> Option<String> {
//!         Some(content.trim().to_owned())
//!     }
//! }
//!
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Gladly.")]));
//! let agent = Agent::builder(model.clone()).hook(House).build()?;
//! agent.process_request("  Help me.  ").await?;
//! assert_eq!(&*model.requests()[0].system, "House rules: be kind.");
//! assert_eq!(model.shown(), "user: Help me.\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Sessions
//!
//! A session is a tree of entries that only grows, in memory or in a file. It can be read at any time, even
//! during a run. See [`agent::session`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::Agent;
//! use cotter_test::{ScriptedModel, Step, transcript};
//!
//! let agent = Agent::builder(ScriptedModel::new([Step::text("Tea."), Step::text("Coffee.")])).build()?;
//! let session = agent.new_session().await?;
//! session.prompt("What do I drink?").await?;
//! session.navigate(None).await?; // Back to the start: the next prompt starts a new branch.
//! session.prompt("And now?").await?;
//! assert_eq!(transcript(&session), "user: And now?\nassistant: Coffee.\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Events
//!
//! A [`Run`] is a future, and a stream of events while it works. Other listeners use [`Session::events`].
//! See [`hooks::events`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::Agent;
//! use cotter_test::{ScriptedModel, Step};
//!
//! let agent = Agent::builder(ScriptedModel::new([Step::text("Hello.")])).build()?;
//! let mut run = agent.new_session().await?.prompt("Hello?");
//! let mut names = vec![];
//! while let Some(event) = run.next().await {
//!     names.push(event.kind.name());
//! }
//! assert_eq!((names[0], names[names.len() - 1]), ("session.start", "session.end"));
//! assert_eq!(run.reply().await?.text(), "Hello.");
//! # Ok(())
//! # }
//! ```
//!
//! # The ledger
//!
//! Every decision about every call is recorded before the call runs; each row is chained to the row before
//! it. See [`history::ledger`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, builtin::List, history::ledger};
//! use cotter_test::{ScriptedModel, Step};
//! use serde_json::json;
//!
//! let model = ScriptedModel::new([Step::call("list", json!({})), Step::text("That is all.")]);
//! let agent = Agent::builder(model).tool(List::default()).build()?;
//! let session = agent.new_session().await?;
//! session.prompt("What is here?").await?;
//! let lines = agent.store().lines(session.id())?;
//! assert!(ledger::verify(session.id(), lines.iter().map(Vec::as_slice)).is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! # Testing
//!
//! The crate `cotter-test` has a scripted model, a scripted person, a store that fails on demand and
//! transcripts as text. So an extension can be tested without a network, a clock or a key:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Verdict, builtin::List, hooks::points::{ToolPreEvent, ToolPre}, named};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! let model = ScriptedModel::new([Step::call("list", json!({})), Step::text("I may not look.")]);
//! let agent = Agent::builder(model)
//!     .tool(List::default())
//!     .gate(ToolPre, named("no-looking", |_: &ToolPreEvent| Verdict::block("it is private")))
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
//! # Modules by task
//!
//! | for | see | example |
//! |---|---|---|
//! | building and changing an agent | [`Agent`], [`AgentBuilder`], [`Limits`] | |
//! | tools that the model can call | [`tool`], [`Tool`], [`FnTool`], [`Permit`] | `tool` |
//! | hooks, and the rights of their owners | [`hooks`], [`hooks::points`] | `permission_gate`, `auto_approve`, `metering`, `result_cache` |
//! | notes from hooks to the model | [`Cx::note`] | |
//! | names in typed text | [`invoke::directives`], [`Registry::define_hook`] | `hook_recipes` |
//! | commands | [`invoke::command`] | `command` |
//! | skills | [`invoke::skill`] | `skill`, `exposed_skill` |
//! | subagents, children of a run | [`invoke::subagent`], [`AgentConfig`], [`ChildBuilder`] | `subagent` |
//! | actions of a handler | [`Controls`], [`Cx`] | `pop` |
//! | the context of a request | [`hooks::points::Context`], [`MessageList`] | `context_transform`, `pop` |
//! | compaction | [`hooks::points::CompactPre`], [`Limits::compact_at`] | `custom_compaction` |
//! | subsystems | [`Hook`] | `hook_trait` |
//! | calls that run without a question | [`permission`] | |
//! | asking a person | [`hooks::ui`] | `permission_gate` |
//! | conversations and their stores | [`agent::session`] | `axum_service` |
//! | watching a run | [`hooks::events`], [`Run`] | `axum_service` |
//! | the record of every decision | [`history::ledger`] | |
//! | files of a repository, and trust in them | the crate `cotter-files` | |
//! | models | [`model`]; over HTTP, by name: the crate `cotter-models` (`Providers`) | |
//!
//! The examples are in `cotter/examples`.
//!
//! [`Power`]: permission::verdict::Power
//!
//! # The rooms
//!
//! The modules below are rooms: each uses only the rooms under it. [`builtin`], [`registry`], [`invoke`],
//! [`tool`] and [`hooks`] also name the handles that a handler is given: `Cx`, `Controls`, `ControlError`,
//! `Session` and `ChildBuilder`.

// From the top of a turn to its bottom. `cargo xtask rooms` checks every path against this order.

// The loop: a prompt, model requests, tool calls, the end.
pub(crate) mod run;
// One tool call, from the model's request to its result.
#[cfg(not(unix))]
compile_error!("Cotter needs a Unix system. It is tested on Linux.");

pub mod pipeline;
// The live handles: agent, session, the context of a handler.
pub mod agent;
// Gates, tools and commands that ship with the crate.
pub mod builtin;
// The registrations and their owners, as a snapshot per step.
pub mod registry;
// Items that are called by name: commands, skills, subagents, directive hooks.
pub mod invoke;
// The interface of a tool.
pub mod tool;
// Points, handlers and their dispatch, notes, events, the person.
pub mod hooks;
// The permission floor: rules, zones, levels, modes, verdicts.
pub mod permission;
// The interface of a model, and its requests.
pub mod model;
// Messages, entries, stores, the ledger.
pub mod history;
// The folders of a run, paths, safe opening of files.
pub mod fs;
// Text that is cleaned for display, escaped, redacted.
pub mod text;

// Items of all rooms that only a host needs.
pub mod host;

pub use crate::{
    agent::{
        Agent, AgentBuilder, Limits, child::ChildBuilder, controls::Controls, cx::Cx,
        session::Session, view::Environment,
    },
    fs::workspace::Workspace,
    history::{
        message::Message,
        message_list::{MessageBlock, MessageList},
        outcome::EndReason,
    },
    hooks::handler::{At, named},
    invoke::{
        agent_config::AgentConfig,
        command::Command,
        directive_hook::{HookCx, HookResult},
        skill::Skill,
        subagent::Subagent,
    },
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::{
        origin::{Origin, Owner},
        verdict::Verdict,
    },
    registry::{Registry, subsystem::Hook},
    run::{Reply, Run, RunError},
    tool::{FnTool, Tool, permit::Permit},
};
