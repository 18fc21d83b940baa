//! Hooks: their verdicts, their order, and the way their notes reach the model.

use std::time::Duration;

use cotter::{
    Agent, At, Cx, Origin, Owner, ToolOutput, Verdict,
    hooks::points::{
        ModelPost, ModelPostEvent, ModelPre, ModelPreEvent, PointId, ToolPost, ToolPostChange,
        ToolPostEvent, ToolPre, ToolPreChange, ToolPreEvent, ToolRefused, ToolRefusedEvent,
        UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent,
    },
    model::ModelErrorKind,
    named,
    permission::{Zone, verdict::Power},
    registry::tool_hook::{ToolCheck, ToolHook},
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step};
use serde_json::{Value, json};

use super::kit::{Log, Played, assert_contains, call, play, safe, tool, tool_with_facts};

/// A gate that logs each call.
fn gate(log: &Log, name: &str, verdict: Verdict) -> impl Fn(&ToolPreEvent) -> Verdict + use<> {
    let (log, name) = (log.clone(), name.to_owned());
    move |_: &ToolPreEvent| {
        log.add(&name);
        verdict.clone()
    }
}

/// A gate that passes the call and adds a note.
fn warns(words: &'static str) -> impl Fn(&ToolPreEvent, &Cx) -> Verdict {
    move |_: &ToolPreEvent, cx: &Cx| {
        cx.output(words);
        Verdict::Pass
    }
}

/// An agent whose hooks are called without a run.
fn build_agent(build: impl FnOnce(cotter::AgentBuilder) -> cotter::AgentBuilder) -> Agent {
    build(Agent::builder(ScriptedModel::new([]))).build().expect("the case is well formed")
}

pub(super) async fn block_reaches_the_model_with_its_reason() {
    let log = Log::default();
    let played = play([call("bash"), Step::text("done")], |agent| {
        agent
            .tool(tool("bash", &log, Ok("ok")))
            .gate(ToolPre, |_: &ToolPreEvent| Verdict::block("destructive command refused"))
    })
    .await;
    assert!(log.lines().is_empty());
    assert_eq!(played.requests.len(), 2);
    assert_contains(played.results()[0], "c1.1 (denied): ");
    assert_contains(
        played.sent(2).last().map_or("", String::as_str),
        "destructive command refused",
    );
}

pub(super) async fn no_hook_is_asked_about_an_unknown_tool() {
    let log = Log::default();
    let played = play([call("ghost"), Step::text("done")], |agent| {
        agent.gate(ToolPre, gate(&log, "asked", Verdict::Pass))
    })
    .await;
    assert_eq!(
        played.results(),
        ["c1.1 (not_found): Unknown tool: ghost. There are no tools here."]
    );
    assert!(log.lines().is_empty());
}

pub(super) async fn output_after_a_tool_is_in_the_next_request() {
    let log = Log::default();
    let seen = log.clone();
    let post = named("post", move |_: &ToolPostEvent, cx: &Cx| {
        seen.add("post");
        cx.note("mind the gap");
    });
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).observe(ToolPost, post)
    })
    .await;
    assert_eq!(log.lines(), ["t", "post"]);
    assert_eq!(played.notes(2), ["From hook \"post\": mind the gap"]);
}

pub(super) async fn no_post_hook_runs_for_a_refused_call() {
    let log = Log::default();
    let (post, refused) = (log.clone(), log.clone());
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool_with_facts("t", &log, Zone::External))
            .ui(ScriptedUi::new([PersonAnswer::No("not today".into())]))
            .observe(ToolPost, move |_: &ToolPostEvent| post.add("post"))
            .observe(ToolRefused, move |_: &ToolRefusedEvent| refused.add("refused"))
    })
    .await;
    assert_eq!(log.lines(), ["refused"]);
    assert_contains(played.results()[0], "c1.1 (denied): ");
}

pub(super) async fn note_before_a_request_is_sent_with_it() {
    let log = Log::default();
    let once = |requesting: &ModelPreEvent, cx: &Cx| {
        if requesting.message_count == 1 {
            cx.note("inventory: 42 units");
        }
    };
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).observe(ModelPre, named("stock", once))
    })
    .await;
    assert_eq!(played.notes(1), ["From hook \"stock\": inventory: 42 units"]);
    assert!(played.notes(2).is_empty());
}

pub(super) async fn model_pre_hook_cannot_stop_a_request() {
    assert_eq!(PointId::ModelPre.row().powers, [Power::Observe]);
    let played = play([Step::text("done")], |agent| {
        agent
            .observe(ModelPre, |_: &ModelPreEvent| Err::<(), _>("stop"))
            .observe(ModelPre, |_: &ModelPreEvent| -> () { panic!("stop") })
    })
    .await;
    assert_eq!((played.reason(), played.reply.text().as_str()), ("end_turn", "done"));
}

pub(super) async fn rewrites_of_a_prompt_chain() {
    let adds = |word: &'static str| {
        move |prompt: &UserPromptSubmitEvent| {
            UserPromptSubmitChange::Prompt(format!("{} {word}", prompt.prompt))
        }
    };
    let played = play([Step::text("done")], |agent| {
        agent
            .transform(UserPromptSubmit, adds("one"))
            .transform(UserPromptSubmit, |_: &UserPromptSubmitEvent| UserPromptSubmitChange::Keep)
            .transform(UserPromptSubmit, adds("two"))
    })
    .await;
    assert_eq!(played.sent(1), ["user: go one two"]);
}

pub(super) async fn transforms_run_by_origin_and_registration() {
    let log = Log::default();
    let noting = |name: &'static str| {
        let log = log.clone();
        named(name, move |_: &ToolPreEvent| {
            log.add(name);
            ToolPreChange::Keep
        })
    };
    let agent = build_agent(|agent| agent);
    let user = Owner::new(Origin::User, "settings");
    let late = noting("user's, first");
    agent.extend(user, |unit| _ = unit.transform(ToolPre, late)).expect("the user may");
    agent.transform(ToolPre, noting("for one tool").tools(["test"])).expect("the program may");
    agent.transform(ToolPre, noting("for all")).expect("the program may");
    agent.run_pre("test", json!({})).await;
    assert_eq!(log.lines(), ["for one tool", "for all", "user's, first"]);
}

pub(super) async fn rewrites_of_an_input_chain() {
    let adds = |key: &'static str| {
        ToolHook::pre(key, move |_, input| {
            let mut input = input.clone();
            input[key] = json!(true);
            ToolCheck::Modified(input)
        })
    };
    let agent =
        build_agent(|agent| agent.tool_hook(adds("added")).tool_hook(adds("also").tools(["test"])));
    let said = agent.run_pre("test", json!({"original": true})).await;
    assert_eq!(said.verdict, "pass");
    assert_eq!(said.input, json!({"original": true, "added": true, "also": true}));
}

pub(super) async fn a_block_ends_the_chain_of_transforms() {
    let log = Log::default();
    let (first, second) = (log.clone(), log.clone());
    let agent = build_agent(|agent| {
        agent
            .tool_hook(ToolHook::pre("first", move |_, _| {
                first.add("first");
                ToolCheck::Block("not this".into())
            }))
            .tool_hook(ToolHook::pre("second", move |_, _| {
                second.add("second");
                ToolCheck::Pass
            }))
    });
    let said = agent.run_pre("test", json!({})).await;
    assert_eq!((said.verdict, said.reason.as_deref()), ("block", Some("not this")));
    assert_eq!(log.lines(), ["first"]);
}

pub(super) async fn rewrites_of_a_result_chain() {
    let adds = |words: &'static str| {
        move |ran: &ToolPostEvent| {
            ToolPostChange::Result(Ok(ToolOutput::from(format!("{}{words}", ran.result))))
        }
    };
    let agent = build_agent(|agent| {
        agent
            .transform(ToolPost, adds(" +global"))
            .transform(ToolPost, named("specific", adds(" +specific")).tools(["test"]))
    });
    assert_eq!(agent.run_post("test", json!({}), "base").await, "base +global +specific");
    assert_eq!(agent.run_post("other", json!({}), "base").await, "base +global");
}

pub(super) async fn a_removed_hook_is_gone_once() {
    let log = Log::default();
    let agent = build_agent(|agent| agent);
    let id = agent.gate(ToolPre, gate(&log, "asked", Verdict::Pass)).expect("it registers");
    assert!(agent.remove(id));
    assert!(!agent.remove(id));
    agent.run_pre("test", json!({})).await;
    assert!(log.lines().is_empty());
}

pub(super) async fn an_invalid_input_meets_no_hook() {
    let log = Log::default();
    let (ran, post) = (log.clone(), log.clone());
    let schema = json!({"type": "object", "required": ["path"]});
    let strict = safe("t", schema, move |_| {
        ran.add("ran");
        async { Ok(ToolOutput::from("ok")) }
    });
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(strict).observe(ToolPost, move |_: &ToolPostEvent| post.add("post"))
    })
    .await;
    assert_contains(played.results()[0], "c1.1 (invalid_args): ");
    assert!(log.lines().is_empty());
}

pub(super) async fn approved_input_is_the_input_that_runs() {
    let log = Log::default();
    let ui = ScriptedUi::new([PersonAnswer::Yes]);
    let seen = log.clone();
    let step = Step::call("t", json!({"path": "draft"}));
    let played = play([step, Step::text("done")], |agent| {
        agent
            .tool(tool_with_facts("t", &log, Zone::External))
            .ui(ui.clone())
            .transform(ToolPre, |_: &ToolPreEvent| ToolPreChange::Input(json!({"path": "final"})))
            .gate(ToolPre, move |call: &ToolPreEvent| {
                seen.add(format!("gate {}", call.tool_input));
                Verdict::Pass
            })
    })
    .await;
    assert_eq!(played.results(), ["c1.1: ok"]);
    assert_eq!(
        ui.shown(),
        "t {\"path\":\"final\"} <- zone: zone `external` asks at level `standard`\n"
    );
    let final_input = r#"{"path":"final"}"#;
    let gate = format!("gate {final_input}");
    assert_eq!(log.lines(), [gate.clone(), gate, format!("t {final_input}")]);
}

pub(super) async fn a_failing_gate_blocks_with_its_words() {
    let agent =
        build_agent(|agent| agent.gate(ToolPre, |_: &ToolPreEvent| Err::<Verdict, _>("nope")));
    let said = agent.run_pre("test", json!({})).await;
    assert_eq!((said.verdict, said.reason.as_deref()), ("block", Some("nope")));
    let agent =
        build_agent(|agent| agent.gate(ToolPre, |_: &ToolPreEvent| -> Verdict { panic!("nope") }));
    let said = agent.run_pre("test", json!({})).await;
    assert_eq!((said.verdict, said.reason.as_deref()), ("block", Some("it panicked: nope")));
}

/// The model gets the reason, and listeners get the name of the hook.
pub(super) async fn a_failing_gate_blocks_and_is_named() {
    let log = Log::default();
    let fails = named("fails", |_: &ToolPreEvent| Err::<Verdict, _>("gate down"));
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).gate(ToolPre, fails)
    })
    .await;
    assert_contains(
        played.results()[0],
        "c1.1 (denied): Hook \"fails\" blocked the action: gate down.",
    );
    assert_eq!(played.find_events(&["hook tool.pre fails"]), ["hook tool.pre fails gate failed"]);
    assert!(log.lines().is_empty());
}

pub(super) async fn no_hook_starts_after_an_abort() {
    let log = Log::default();
    let played = play([call("t")], |agent| {
        agent
            .tool(tool("t", &log, Ok("ok")))
            .observe(ModelPost, |_: &ModelPostEvent, cx: &Cx| cx.cancel().cancel())
            .gate(ToolPre, gate(&log, "asked", Verdict::Pass))
    })
    .await;
    assert!(log.lines().is_empty());
    assert_eq!(played.results().len(), 1);
    assert_contains(played.results()[0], "cancelled");
    assert_eq!(played.reason(), "aborted");
}

pub(super) async fn a_block_ends_the_chain_of_gates() {
    let log = Log::default();
    let agent = build_agent(|agent| {
        agent
            .gate(ToolPre, named("blocker", gate(&log, "blocker", Verdict::block("no shell"))))
            .gate(ToolPre, named("second", gate(&log, "second", Verdict::Pass)))
    });
    let said = agent.run_pre("bash", json!({})).await;
    assert_eq!(said.by.as_deref(), Some("blocker"));
    assert_eq!((said.verdict, said.reason.as_deref()), ("block", Some("no shell")));
    assert_eq!(log.lines(), ["blocker"]);
}

pub(super) async fn hooks_without_an_objection_pass() {
    let agent = build_agent(|agent| {
        agent
            .observe(ToolPre, |_: &ToolPreEvent| ())
            .gate(ToolPre, |_: &ToolPreEvent| Verdict::Pass)
            .transform(ToolPre, |_: &ToolPreEvent| ToolPreChange::Keep)
    });
    let said = agent.run_pre("bash", json!({"a": 1})).await;
    assert_eq!((said.verdict, said.by, said.input), ("pass", None, json!({"a": 1})));
}

pub(super) async fn a_block_without_a_reason_says_so() {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &log, Ok("ok")))
            .gate(ToolPre, named("mute", |_: &ToolPreEvent| Verdict::block(" ")))
    })
    .await;
    assert_contains(played.results()[0], "Hook \"mute\" blocked the action: it gave no reason.");
}

pub(super) async fn a_slow_gate_blocks() {
    let log = Log::default();
    let dawdles = |_: At<ToolPre>| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Verdict::Pass
    };
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &log, Ok("ok")))
            .gate(ToolPre, named("slow", dawdles).limit(Duration::from_millis(25)))
    })
    .await;
    assert!(log.lines().is_empty());
    assert_contains(played.results()[0], "c1.1 (denied): Hook \"slow\" blocked the action");
    assert_contains(played.results()[0], "timed out after 25ms");
}

pub(super) async fn filtered_hook_runs_for_its_tools_only(called: &str, notes: &[&str]) {
    let log = Log::default();
    let played = play([call(called), Step::text("done")], |agent| {
        agent
            .tool(tool("read_file", &log, Ok("ok")))
            .tool(tool("write_file", &log, Ok("ok")))
            .gate(ToolPre, named("w", warns("filtered")).tools(["write_file"]))
    })
    .await;
    assert_eq!(played.notes(2), notes);
    assert_eq!(log.lines(), [called]);
}

/// Runs tool hooks that block with a reason or pass, and checks which ones are called, in order. The last
/// one called decides.
pub(super) async fn checks(
    called: &str,
    checks: &[(&'static str, Option<&'static str>)],
    expected: &[&str],
) {
    let log = Log::default();
    let agent = build_agent(|agent| {
        checks.iter().copied().fold(agent, |agent, (id, blocks)| {
            let log = log.clone();
            agent.tool_hook(ToolHook::pre(id, move |_, _| {
                log.add(id);
                blocks.map_or(ToolCheck::Pass, |reason| ToolCheck::Block(reason.into()))
            }))
        })
    });
    let said = agent.run_pre(called, json!({"command": "rm -rf /"})).await;
    assert_eq!(log.lines(), expected);
    assert_eq!((said.verdict, said.by.as_deref()), ("block", expected.last().copied()));
    let reason = checks.iter().find(|(id, _)| said.by.as_deref() == Some(id));
    assert_eq!(said.reason.as_deref(), reason.and_then(|(_, reason)| *reason));
}

pub(super) async fn every_warning_reaches_the_model() {
    let log = Log::default();
    let played = play([call("bash"), Step::text("done")], |agent| {
        agent
            .tool(tool("bash", &log, Ok("ok")))
            .gate(ToolPre, named("a", warns("warnA")))
            .gate(ToolPre, named("b", warns("warnB")))
            .gate(ToolPre, named("c", warns("")))
    })
    .await;
    assert_eq!(log.lines(), ["bash"]);
    assert_eq!(played.notes(2), ["Output of hook \"a\": warnA", "Output of hook \"b\": warnB"]);
}

pub(super) async fn a_warning_before_a_block_reaches_the_model() {
    let log = Log::default();
    let played = play([call("bash"), Step::text("done")], |agent| {
        agent
            .tool(tool("bash", &log, Ok("ok")))
            .gate(ToolPre, named("a", warns("warnA")))
            .gate(ToolPre, named("b", gate(&log, "b", Verdict::block("no"))))
            .gate(ToolPre, named("c", gate(&log, "c", Verdict::Pass)))
    })
    .await;
    assert_eq!(log.lines(), ["b"]);
    assert_eq!(played.notes(2), ["Output of hook \"a\": warnA"]);
    assert_contains(played.results()[0], "Hook \"b\" blocked the action: no.");
}

pub(super) async fn a_failing_transform_refuses_the_call() {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &log, Ok("ok")))
            .transform(ToolPre, |_: &ToolPreEvent| Err::<ToolPreChange, _>("boom"))
    })
    .await;
    assert!(log.lines().is_empty());
    assert_contains(played.results()[0], "c1.1 (denied): ");
    assert_contains(played.results()[0], "boom");
}

pub(super) async fn a_failing_observer_leaves_the_result() {
    let log = Log::default();
    let fails = named("h", |_: &ToolPostEvent| Err::<(), _>("exit 1"));
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("out"))).observe(ToolPost, fails)
    })
    .await;
    assert_eq!(played.results(), ["c1.1: out"]);
    assert_eq!(played.find_events(&["hook tool.post"]), ["hook tool.post h observe failed"]);
}

pub(super) async fn hook_is_disabled_enabled_and_removed_by_id() {
    let log = Log::default();
    let agent = build_agent(|agent| agent);
    let id = agent.gate(ToolPre, gate(&log, "asked", Verdict::Pass)).expect("it registers");
    assert!(agent.set_enabled(id, false));
    agent.run_pre("t", json!({})).await;
    assert!(log.lines().is_empty());
    assert!(agent.set_enabled(id, true));
    agent.run_pre("t", json!({})).await;
    assert_eq!(log.lines(), ["asked"]);
    assert!(agent.remove(id));
    assert!(!agent.set_enabled(id, true), "a number nobody has");
}

pub(super) async fn the_second_hook_of_a_name_is_refused() {
    let log = Log::default();
    let agent =
        build_agent(|agent| agent.gate(ToolPre, named("x", gate(&log, "1", Verdict::Pass))));
    let again = agent.gate(ToolPre, named("x", gate(&log, "2", Verdict::Pass)));
    assert_contains(
        &again.expect_err("the name is taken").to_string(),
        "hook `x` is already registered",
    );
    agent.run_pre("t", json!({})).await;
    assert_eq!(log.lines(), ["1"]);
}

pub(super) async fn filter(glob: &str, called: &str, matches: bool) {
    let blocks = ToolHook::pre("h", |_: &str, _: &Value| ToolCheck::Block("matched".into()));
    let agent = build_agent(|agent| agent.tool_hook(blocks.tools([glob])));
    let said = agent.run_pre(called, json!({})).await;
    assert_eq!(said.verdict == "block", matches);
}

/// Runs one tool call and one reply, with an observer after the tool.
async fn after_a_tool(says: impl Fn(&ToolPostEvent, &Cx) + Send + Sync + 'static) -> Played {
    let log = Log::default();
    play([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).observe(ToolPost, named("h", says))
    })
    .await
}

pub(super) async fn blank_words_are_not_sent() {
    let played = after_a_tool(|_, cx| cx.note("   ")).await;
    assert_eq!(played.requests[1].notes, 0);
}

pub(super) async fn output_and_context_are_two_notes() {
    let played = after_a_tool(|_, cx| {
        cx.output("OUT");
        cx.note("CTX");
    })
    .await;
    assert_eq!(played.notes(2), ["Output of hook \"h\": OUT", "From hook \"h\": CTX"]);
    assert_eq!(played.find_events(&["note"]).len(), 2);
}

pub(super) async fn a_note_is_delivered_once() {
    let log = Log::default();
    let once = |ran: &ToolPostEvent, cx: &Cx| {
        if ran.call_id == "c1.1" {
            cx.note("only once");
        }
    };
    let played = play([call("t"), call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).observe(ToolPost, once)
    })
    .await;
    assert_eq!((played.notes(2).len(), played.notes(3).len()), (1, 0));
    // The note stays in history at its position, so that prompt caches stay valid.
    let again = played.sent(3).iter().filter(|line| line.contains("only once")).count();
    assert_eq!(again, 1);
}

pub(super) async fn a_flood_of_notes_hides_no_block() {
    let log = Log::default();
    let floods = |_: &ToolPreEvent, cx: &Cx| {
        (0..1000).for_each(|n| cx.note(format!("noise {n}")));
        Verdict::Pass
    };
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &log, Ok("ok")))
            .gate(ToolPre, floods)
            .gate(ToolPre, |_: &ToolPreEvent| Verdict::block("still told"))
    })
    .await;
    assert_contains(played.results()[0], "still told");
    assert_contains(played.notes(2).last().map_or("", String::as_str), "the rest is left out");
    assert!(played.sent(2).iter().any(|line| line.contains("still told")));
}

pub(super) async fn the_words_of_a_block() {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &log, Ok("ok")))
            .gate(ToolPre, named("h", |_: &ToolPreEvent| Verdict::block("r")))
    })
    .await;
    let words = "c1.1 (denied): Hook \"h\" blocked the action: r. \
                 Adjust your approach; do not retry the exact same call.";
    assert_eq!(played.results(), [words]);
}

pub(super) async fn note_before_every_request_is_sent_with_each() {
    let log = Log::default();
    let played = play([call("t"), call("t"), Step::text("done")], |agent| {
        let says = |_: &ModelPreEvent, cx: &Cx| cx.note("P");
        agent.tool(tool("t", &log, Ok("ok"))).observe(ModelPre, named("each", says))
    })
    .await;
    for request in 1..=3 {
        assert_eq!(played.notes(request), ["From hook \"each\": P"]);
    }
}

pub(super) async fn a_retry_loses_no_note() {
    let log = Log::default();
    let steps = [call("t"), Step::error(ModelErrorKind::RateLimited), Step::text("done")];
    let played = play(steps, |agent| {
        let says = |_: &ToolPostEvent, cx: &Cx| cx.note("remember me");
        agent.tool(tool("t", &log, Ok("ok"))).observe(ToolPost, named("h", says))
    })
    .await;
    assert_eq!(played.notes(2), ["From hook \"h\": remember me"], "the attempt that failed");
    assert_eq!(played.notes(3), ["From hook \"h\": remember me"], "the attempt that did not");
    assert_eq!(played.transcript.matches("remember me").count(), 1);
}
