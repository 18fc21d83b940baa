//! A step sees one generation of the registry, whatever is added and removed during a run. G1, R4, C4.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use cotter::{
    Agent, Command, FnTool, Hook, HookCx, HookResult, Origin, Owner, Registry, Skill, Subagent,
    ToolSpec, Verdict,
    history::message::{StopReason, Usage},
    hooks::points::{ToolPre, ToolPreEvent},
    invoke::command::CommandResult,
    model::{Delta, Model, ReplyStream, Request},
    named,
    permission::{Zone, facts::Facts},
    registry::change::{ChangeResult, RegistryChange},
};
use cotter_test::{fresh, spec};
use futures_util::stream;
use serde_json::json;
use smol_str::SmolStr;

/// Two units whose parts all contain one version number: a tool's schema and a gate that passes only that
/// number; a skill, a subagent, a command, a directive hook.
fn both(version: u64) -> RegistryChange {
    let mut change = RegistryChange::new();
    change.load(owner("tools"), |unit| tools(unit, version));
    change.load(owner("names"), |unit| names(unit, version));
    change.agreed()
}

fn neither() -> RegistryChange {
    let mut change = RegistryChange::new();
    change.load(owner("tools"), |_| {}).load(owner("names"), |_| {});
    change.agreed()
}

fn owner(unit: &str) -> Owner {
    Owner::new(Origin::User, unit)
}

fn tools(unit: &mut Registry, version: u64) {
    let schema =
        json!({"type": "object", "properties": {"v": {"const": version}}, "required": ["v"]});
    let tool = ToolSpec::new("pair", format!("v{version}"), schema);
    let run = move |permit: cotter::Permit| async move {
        Ok(format!("tool {version} input {}", permit.input()["v"]).into())
    };
    unit.tool(FnTool::new(tool, run).with_facts(Facts::zone(Zone::Safe))).gate(
        ToolPre,
        named("gate", move |call: &ToolPreEvent| match call.tool_input["v"].as_u64() {
            Some(v) if v != version => Verdict::block(format!("half: {v} at {version}")),
            _ => Verdict::Pass,
        })
        .tools(["pair"]),
    );
}

fn names(unit: &mut Registry, version: u64) {
    unit.define_skill(
        Skill::text("skill", format!("skill {version}"))
            .description(format!("v{version}"))
            .expose_to_agent(),
    )
    .define_mention(
        Subagent::new("sub", move |_| async move { Ok(format!("sub {version}").into()) })
            .description(format!("v{version}")),
    )
    .define_command(Command::new("cmd", move |_| async move {
        CommandResult::Status(format!("cmd {version}"))
    }))
    .define_hook("dir", move |cx: HookCx| async move {
        HookResult::rewrite(format!("{} dir {version}", cx.parsed_text))
    });
}

/// A model that calls the tool with the number that it is shown, and counts requests whose parts disagree.
struct Reader(Arc<AtomicU64>);

fn number(text: &str) -> Option<u64> {
    let from = text.rfind(|c: char| c.is_alphabetic() && c == 'v')?;
    text[from + 1..].split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Model for Reader {
    fn name(&self) -> &SmolStr {
        const NAME: &SmolStr = &SmolStr::new_static("test/reader");
        NAME
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let described = |name: &str| {
            let spec = request.tools.specs().find(|spec| spec.name == name)?;
            number(&spec.description)
        };
        let seen = ["pair", "invoke_skill", "invoke_subagent"].map(described);
        if seen.iter().any(|version| *version != seen[0]) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        let asked = request.messages.iter().filter(|m| matches!(m, cotter::Message::Assistant(_)));
        let (done, usage) = (asked.count() % 2 == 1, Usage::default());
        let deltas = match seen[0] {
            Some(version) if !done => vec![
                Delta::Call { id: "c".into(), name: "pair".into(), input: json!({"v": version}) },
                Delta::Done { stop_reason: StopReason::ToolUse, usage },
            ],
            _ => vec![
                Delta::Text("done".into()),
                Delta::Done { stop_reason: StopReason::EndTurn, usage },
            ],
        };
        Box::pin(stream::iter(deltas.into_iter().map(Ok)))
    }
}

struct Passing(u64);

impl Hook for Passing {
    fn system_prompt(&self) -> Option<String> {
        Some(format!("passing {}", self.0))
    }
}

/// Adds and removes everything but the unit itself, one item at a time.
fn churn(agent: &Agent, n: u64) {
    let _ = agent.tool(FnTool::new(spec("extra"), |_| async { Ok("extra".into()) }));
    let _ = agent.define_hook("extra", |_| async {});
    let _ = agent.define_skill(Skill::text("extra", "x").expose_to_agent().description("x"));
    let _ = agent.define_command(Command::new("extra", |_| async {}));
    let gate = agent.gate(ToolPre, |_: &ToolPreEvent| Verdict::Pass);
    let space = Owner::new(Origin::User, "hooks");
    let _ = agent.reload(space.clone(), true, |unit| _ = unit.hook(Passing(n)));
    agent.undefine_tool("extra");
    agent.undefine_hook("extra");
    agent.undefine_skill("extra");
    agent.undefine_command("extra");
    if let Ok(gate) = gate {
        agent.set_enabled(gate, false);
        agent.remove(gate);
    }
    if n.is_multiple_of(3) {
        agent.unload(&space);
    }
}

/// G1, R4, C4: a thousand runs while other threads register, remove and replace. One step is shown one
/// generation, and a call that was decided in another generation is refused, never run in part.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g1_r4_c4_concurrent_registrations_never_show_half_a_generation() {
    let disagreed = Arc::new(AtomicU64::new(0));
    let agent = Agent::builder(Reader(disagreed.clone())).build().unwrap();
    assert_eq!(agent.apply(both(0)), Ok(ChangeResult::Applied));
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2u64)
        .map(|thread| {
            let (agent, over) = (agent.clone(), over.clone());
            std::thread::spawn(move || {
                let mut n = 0;
                while !over.load(Ordering::SeqCst) {
                    n += 1;
                    match thread {
                        0 if n % 7 == 0 => drop(agent.apply(neither()).unwrap()),
                        0 => drop(agent.apply(both(n)).unwrap()),
                        _ => churn(&agent, n),
                    }
                    std::thread::yield_now();
                }
                n
            })
        })
        .collect();
    let runs: Vec<_> = (0..8)
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move {
                let mut results = vec![];
                for _ in 0..125 {
                    let session = fresh(&agent).await;
                    session.prompt("go /skill /dir").await.expect("the run ends");
                    results.push(cotter_test::transcript(&session));
                    if let Some(said) = session.invoke_command("cmd", "").await {
                        said.expect("a command that is there runs");
                    }
                }
                results
            })
        })
        .collect();
    let mut transcripts = vec![];
    for run in runs {
        transcripts.extend(run.await.expect("nothing panics"));
    }
    over.store(true, Ordering::SeqCst);
    let turns: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(turns.iter().all(|turns| *turns > 10), "the registry moved: {turns:?}");
    assert_eq!(disagreed.load(Ordering::SeqCst), 0, "a request showed two generations");
    assert_eq!(transcripts.len(), 1000);
    let mut ran = 0;
    for transcript in &transcripts {
        check(transcript);
        ran += usize::from(transcript.contains("result c: tool "));
    }
    assert!(ran > 0, "some calls ran");
}

/// Checks the pairs in a transcript: a skill and a hook of one prompt, a tool and its input. Each pair has
/// one number.
fn check(transcript: &str) {
    let after = |word: &str| -> Option<u64> {
        let rest = &transcript[transcript.find(word)? + word.len()..];
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    assert_eq!(after("\nskill "), after(" dir "), "{transcript}");
    if transcript.contains(": tool ") {
        let (tool, input) = (after(": tool "), after(" input "));
        assert!(tool.is_some() && tool == input, "{transcript}");
    }
    assert!(!transcript.contains("half: "), "{transcript}");
}

/// Hot reload: one session continues while everything is reloaded a thousand times. All parts of a request
/// or a call are of one generation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_reload_a_thousand_times_never_shows_half_a_generation() {
    let disagreed = Arc::new(AtomicU64::new(0));
    let agent = Agent::builder(Reader(disagreed.clone())).build().unwrap();
    assert_eq!(agent.apply(both(0)), Ok(ChangeResult::Applied));
    let reloads = Arc::new(AtomicU64::new(0));
    let thread = {
        let (agent, reloads) = (agent.clone(), reloads.clone());
        std::thread::spawn(move || {
            for n in 1..=1000 {
                assert_eq!(agent.apply(both(n)), Ok(ChangeResult::Applied));
                reloads.store(n, Ordering::SeqCst);
                std::thread::yield_now();
            }
        })
    };
    let session = fresh(&agent).await;
    let mut turns = 0;
    while turns < 20 || reloads.load(Ordering::SeqCst) < 1000 {
        session.prompt("go /skill /dir").await.expect("the run ends");
        turns += 1;
    }
    thread.join().expect("every reload is taken up");
    assert_eq!(disagreed.load(Ordering::SeqCst), 0, "a request showed two generations");
    let transcript = cotter_test::transcript(&session);
    let asked = transcript.matches(": pair {").count();
    assert_eq!(asked, turns);
    assert!(transcript.contains(": tool "), "some calls ran");
    for turn in transcript.split("assistant: done\n").filter(|turn| !turn.is_empty()) {
        check(turn);
    }
}
