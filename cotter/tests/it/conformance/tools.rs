//! Tools: the owner of a name, the result of a call, and the order of calls.

use std::sync::Arc;

use cotter::{
    Agent, Message, Origin, Owner, Permit, Registry, ToolError, ToolOutput,
    builtin::Read,
    history::message::{Content, ContentPart, StopReason},
    hooks::{
        events::{Event, EventKind},
        points::{ToolPost, ToolPostChange, ToolPostEvent, ToolPre, ToolPreEvent},
    },
    named,
};
use cotter_test::{ScriptedModel, Step};
use serde_json::{Value, json};

use super::kit::{Log, Stage, any_object, assert_contains, call, play, safe, slow, tool};

pub(super) async fn an_extension_loads_once() {
    let log = Log::default();
    let four = |unit: &mut Registry| {
        for name in ["a", "b", "c", "d"] {
            unit.tool(tool(name, &log, Ok("ok")));
        }
    };
    let agent = Agent::builder(ScriptedModel::new([])).extend(four).build().expect("four tools");
    let error = agent.extend(Owner::embedder(), four).expect_err("the same four again");
    assert_contains(&error.to_string(), "tool `a` is already registered");
    assert_eq!(agent.tools().specs().count(), 4);
}

pub(super) async fn first_tool_of_a_name_wins(second: Owner) {
    let log = Log::default();
    let stage = Stage::new([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("the first")))
    });
    let again = stage.agent.extend(second, |unit| _ = unit.tool(tool("t", &log, Ok("the second"))));
    assert_contains(
        &again.expect_err("the name is taken").to_string(),
        "tool `t` is already registered",
    );
    assert_eq!(stage.agent.tools().specs().count(), 1);
    assert_eq!(stage.play().await.results(), ["c1.1: the first"]);
}

pub(super) async fn a_unit_with_two_tools_of_a_name_is_refused() {
    let log = Log::default();
    let agent = Agent::builder(ScriptedModel::new([]));
    let built = agent.tool(tool("t", &log, Ok("1"))).tool(tool("t", &log, Ok("2"))).build();
    let error = built.err().expect("one name, two tools");
    assert_contains(&error.to_string(), "tool `t` is already registered");
}

/// A call of a missing tool gets one result, and the run continues.
pub(super) async fn unknown_tool(there: &[&str], called: &str, hint: &str) {
    let log = Log::default();
    let played = play([call(called), Step::text("done")], |agent| {
        there.iter().fold(agent, |agent, name| agent.tool(tool(name, &log, Ok("ok"))))
    })
    .await;
    assert_eq!(played.results().len(), 1);
    assert_contains(played.results()[0], &format!("c1.1 (not_found): Unknown tool: {called}."));
    assert_contains(played.results()[0], hint);
    assert_eq!((log.lines().len(), played.requests.len()), (0, 2));
}

/// Checks an invalid input of a tool whose fields are all required strings.
pub(super) async fn invalid_input(name: &str, fields: &[&str], input: Value, part: &str) {
    let log = Log::default();
    let properties: serde_json::Map<_, _> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "required": fields});
    let noting = log.clone();
    let strict = safe(name, schema, move |_| {
        noting.add("ran");
        async { Ok(ToolOutput::from("ok")) }
    });
    let played = play([Step::call(name, input), Step::text("done")], |a| a.tool(strict)).await;
    let refused = format!("c1.1 (invalid_args): Invalid arguments for `{name}`: ");
    assert!(played.results()[0].starts_with(&refused), "{:?}", played.results());
    assert_contains(played.results()[0], part);
    assert_eq!((log.lines().len(), played.reason()), (0, "end_turn"));
}

/// The way in which a tool fails.
#[derive(Clone, Copy)]
pub(super) enum Fails {
    Err(&'static str),
    Panic(&'static str),
}

pub(super) async fn tool_failure_reaches_the_model_and_is_not_retried(fails: Fails) {
    let log = Log::default();
    let noting = log.clone();
    let failing = safe("t", any_object(), move |_| {
        noting.add("ran");
        async move {
            match fails {
                Fails::Err(words) => Err(ToolError::failed(words)),
                Fails::Panic(words) => panic!("{words}"),
            }
        }
    });
    let played = play([call("t"), Step::text("done")], |agent| agent.tool(failing)).await;
    let told = match fails {
        Fails::Err(words) => format!("c1.1 (failed): {words}"),
        Fails::Panic(words) => format!("c1.1 (failed): the tool panicked: {words}"),
    };
    assert_eq!(played.results(), [told]);
    assert_eq!(log.lines(), ["ran"]);
    assert_eq!((played.requests.len(), played.reply.text().as_str()), (2, "done"));
}

pub(super) async fn parts_are_joined_for_the_model_and_stored() {
    let picture = ContentPart::Image { media_type: "image/png".into(), data: "AAAA".into() };
    let parts = vec![ContentPart::Text("a".into()), picture, ContentPart::Text("b".into())];
    let shows = safe("t", any_object(), move |_| {
        let output = ToolOutput::from(parts.clone());
        async { Ok(output) }
    });
    let played = play([call("t"), Step::text("done")], |agent| agent.tool(shows)).await;
    let Some(Message::ToolResult(result)) = played.requests[1].messages.last() else {
        panic!("a result comes last");
    };
    assert_eq!(result.content.text(), "a\nb");
    assert!(matches!(&result.content, Content::Parts(parts) if parts.len() == 3));
    assert_eq!(result.error, None);
}

pub(super) async fn render_data_is_not_sent_to_the_model() {
    let shows = safe("t", any_object(), |_| async {
        Ok(ToolOutput { content: "covered".into(), render_data: Some(json!({"colour": "mauve"})) })
    });
    let played = play([call("t"), Step::text("done")], |agent| agent.tool(shows)).await;
    assert_eq!(played.sent(2).last().map(String::as_str), Some("toolResult: covered"));
    let stored = played.session.entries().iter().map(|e| e.to_json()).collect::<Vec<_>>();
    assert_eq!(stored[2]["message"]["renderData"], json!({"colour": "mauve"}));
}

pub(super) async fn empty_output_is_named() {
    let log = Log::default();
    let empty = tool("t", &log, Ok(""));
    let played = play([call("t"), Step::text("done")], |agent| agent.tool(empty)).await;
    assert_eq!(played.results(), ["c1.1: (no output)"]);
}

pub(super) async fn a_tool_out_of_scope_is_neither_shown_nor_run() {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).scope(["other"])
    })
    .await;
    assert!(played.requests[0].tools.is_empty());
    assert_eq!(played.results(), ["c1.1 (denied): The tool `t` is not available to this agent."]);
    assert!(log.lines().is_empty());
}

pub(super) async fn out_of_scope_unknown_and_invalid_calls_differ() {
    let log = Log::default();
    let step = call("other").and_call("missing", json!({})).and_call("coder", json!("{bad"));
    let played = play([step, Step::text("done")], |agent| {
        let agent = agent.tool(tool("coder", &log, Ok("ok"))).tool(tool("other", &log, Ok("ok")));
        agent.scope(["coder"])
    })
    .await;
    let kinds: Vec<_> =
        played.results().iter().map(|line| line.split(':').next().unwrap_or_default()).collect();
    assert_eq!(kinds, ["c1.1 (denied)", "c1.2 (not_found)", "c1.3 (invalid_args)"]);
    assert!(log.lines().is_empty());
}

pub(super) async fn error_text_reaches_the_model_unchanged() {
    let log = Log::default();
    let failing = tool("bash", &log, Err("bash blew up"));
    let played = play([call("bash"), Step::text("done")], |agent| agent.tool(failing)).await;
    assert_eq!(
        played.find_events(&["tool.result"]),
        [r#"tool.result c1.1 (failed) "bash blew up""#]
    );
    assert_eq!(played.results(), ["c1.1 (failed): bash blew up"]);
    assert_eq!(played.reply.text(), "done");
}

pub(super) async fn unparsable_arguments_are_answered() {
    let log = Log::default();
    let cut = Step::call("write", json!(r#"{"path":"a","text":"lo"#));
    let played = play([cut.and_stop(StopReason::MaxTokens), Step::text("done")], |agent| {
        agent.tool(tool("write", &log, Ok("ok")))
    })
    .await;
    assert_eq!(played.results().len(), 1);
    assert_contains(played.results()[0], "c1.1 (invalid_args)");
    assert_contains(played.results()[0], "send complete arguments, smaller if they were cut off");
    assert_eq!((log.lines().len(), played.reason()), (0, "end_turn"));
}

pub(super) async fn sequential_tools_run_in_order_past_a_failure() {
    let log = Log::default();
    let step = call("b").and_call("a", json!({}));
    let played = play([step, Step::text("done")], |agent| {
        agent.tool(tool("a", &log, Ok("A"))).tool(tool("b", &log, Err("no")))
    })
    .await;
    assert_eq!(log.lines(), ["b", "a"]);
    assert_eq!(played.results(), ["c1.1 (failed): no", "c1.2: A"]);
}

/// Of two calls the first takes longer: it ends last and is answered first.
pub(super) async fn parallel_tools_run_concurrently() {
    let log = Log::default();
    let step = call("q").and_call("r", json!({}));
    let played = play([step, Step::text("done")], |agent| {
        agent.tool(slow("r", &log, 10)).tool(slow("q", &log, 20))
    })
    .await;
    assert_eq!(log.lines(), ["q begins", "r begins", "r is done", "q is done"]);
    assert_eq!(played.results(), ["c1.1: q", "c1.2: r"]);
}

pub(super) async fn results_stand_in_call_order() {
    let log = Log::default();
    let step = call("slow").and_call("med", json!({})).and_call("fast", json!({}));
    let played = play([step, Step::text("done")], |agent| {
        let agent = agent.tool(slow("slow", &log, 30)).tool(slow("med", &log, 20));
        agent.tool(slow("fast", &log, 10))
    })
    .await;
    assert_eq!(played.results(), ["c1.1: slow", "c1.2: med", "c1.3: fast"]);
    assert_eq!(
        played.find_events(&["tool.result"]),
        [r#"tool.result c1.3 "fast""#, r#"tool.result c1.2 "med""#, r#"tool.result c1.1 "slow""#,]
    );
}

/// Aborts its own run and never answers.
fn aborting(
    log: &Log,
) -> impl Fn(Permit) -> std::future::Pending<Result<ToolOutput, ToolError>> + use<> {
    let log = log.clone();
    move |permit| {
        log.add(permit.call_id());
        permit.cx().cancel().cancel();
        std::future::pending()
    }
}

pub(super) async fn abort_answers_waiting_calls() {
    let log = Log::default();
    let step = call("t").and_call("t", json!({}));
    let aborts = safe("t", any_object(), aborting(&log));
    let played = play([step], |agent| agent.tool(aborts)).await;
    assert_eq!(log.lines(), ["c1.1"]);
    assert_eq!(
        played.results(),
        [
            "c1.1 (cancelled): Cancelled while it ran.",
            "c1.2 (cancelled): Cancelled: the run ended before this call started.",
        ]
    );
    assert_eq!((played.reason(), played.requests.len()), ("aborted", 1));
}

pub(super) async fn abort_answers_parallel_calls() {
    let log = Log::default();
    let step = call("waits").and_call("t", json!({}));
    let aborts = safe("t", any_object(), aborting(&log)).parallel();
    let played = play([step], |agent| agent.tool(slow("waits", &log, 50)).tool(aborts)).await;
    assert_eq!(log.lines(), ["waits begins", "c1.2"]);
    assert_eq!(
        played.results(),
        ["c1.1 (cancelled): Cancelled while it ran.", "c1.2 (cancelled): Cancelled while it ran.",]
    );
    assert_eq!(played.reason(), "aborted");
}

pub(super) async fn a_failed_call_on_the_wire() {
    let failing = safe("t", any_object(), |_| async {
        tokio::time::sleep(std::time::Duration::from_millis(12)).await;
        Err(ToolError::failed("é".repeat(3000)))
    });
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(failing).limits(|limits| limits.result_bytes = 2048)
    })
    .await;
    let is_result = |event: &&Arc<Event>| matches!(event.kind, EventKind::ToolResult { .. });
    let event = played.events.iter().find(is_result).expect("a result is told");
    let wire: Value = serde_json::from_str(&event.to_json()).expect("an event is JSON");
    let told =
        json!([wire["type"], wire["callId"], wire["is_error"], wire["errorKind"], wire["ms"]]);
    assert_eq!(told, json!(["tool.result", "c1.1", true, "failed", 12]));
    // The model gets the head and the tail, cut between characters, with a mark for the missing part.
    let stored = played.transcript.lines().filter(|line| line.contains("é")).collect::<String>();
    assert!((1024..2100).contains(&stored.len()), "{}", stored.len());
    assert_contains(&played.transcript, "bytes left out");
}

/// Transforms run one after the other on the result. After one fails, the result is withheld from the later
/// ones.
pub(super) async fn a_failed_transform_withholds_the_result() {
    let log = Log::default();
    let adds = |words: &'static str| {
        named(words, move |ran: &ToolPostEvent| {
            ToolPostChange::Result(Ok(ToolOutput::from(format!("{}{words}", ran.result))))
        })
    };
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &log, Ok("base")))
            .transform(ToolPost, adds("|1"))
            .transform(
                ToolPost,
                named("fails", |_: &ToolPostEvent| Err::<ToolPostChange, _>("trboom")),
            )
            .transform(
                ToolPost,
                named("seen", {
                    let log = log.clone();
                    move |ran: &ToolPostEvent| {
                        log.add(&*ran.result);
                        ToolPostChange::Keep
                    }
                }),
            )
    })
    .await;
    let heard = played.find_events(&["hook tool.post"]);
    let heard: Vec<_> = heard.iter().map(String::as_str).collect();
    assert_eq!(
        heard,
        [
            "hook tool.post |1 transform replace",
            "hook tool.post fails transform failed",
            "hook tool.post seen transform keep",
        ]
    );
    let withheld = "the tool ran, but its result is withheld: trboom";
    assert_eq!(log.lines(), ["t", withheld]);
    assert_eq!(played.results(), [format!("c1.1 (unavailable): {withheld}")]);
}

/// The results of every step go to the model: no tool ends a run.
pub(super) async fn results_always_go_to_the_model() {
    let log = Log::default();
    let step = call("a").and_call("b", json!({}));
    let played = play([step, Step::text("done")], |agent| {
        agent.tool(tool("a", &log, Ok("A"))).tool(tool("b", &log, Ok("B")))
    })
    .await;
    assert_eq!(played.sent(2)[2..], ["toolResult: A", "toolResult: B"]);
    assert_eq!((played.requests.len(), played.reply.text().as_str()), (2, "done"));
}

/// No call of a reply that reached its length limit runs, even if the call looks complete.
pub(super) async fn calls_of_a_cut_reply_do_not_run() {
    let log = Log::default();
    let cut = call("t").and_stop(StopReason::MaxTokens);
    let played =
        play([cut, Step::text("done")], |agent| agent.tool(tool("t", &log, Ok("ok")))).await;
    assert_eq!(
        played.results(),
        ["c1.1 (invalid_args): Not run: the reply reached its length limit; send complete \
             arguments, smaller if they were cut off."]
    );
    assert_eq!((log.lines().len(), played.reply.text().as_str()), (0, "done"));
}

/// A built-in tool is replaced only after it was removed; a second registration is refused.
pub(super) async fn a_built_in_tool_is_replaced_explicitly() {
    let log = Log::default();
    let steps = [Step::call("read", json!({"path": "x"})), Step::text("done")];
    let stage = Stage::new(steps, |agent| agent.tool(Read::default()));
    let refused = stage.agent.tool(tool("read", &log, Ok("mine"))).expect_err("it is taken");
    assert_contains(&refused.to_string(), "tool `read` is already registered");
    assert!(stage.agent.undefine_tool("read"));
    stage.agent.tool(tool("read", &log, Ok("mine"))).expect("the name is free");
    assert_eq!(stage.play().await.results(), ["c1.1: mine"]);
    assert_eq!(log.lines(), ["read"]);
}

/// Calls that a tool makes have their own ids, pass every hook, and leave one result in history.
pub(super) async fn calls_within_a_call() {
    let log = Log::default();
    let (seen, noting) = (log.clone(), log.clone());
    let outer = safe("outer", any_object(), move |permit| {
        let noting = noting.clone();
        async move {
            let controls = permit.cx().controls();
            for (name, input) in [("inner", json!({"x": 5})), ("zzz", json!({}))] {
                let answer = match controls.run_tool(name, input).await {
                    Ok(output) => output.content.text().into_owned(),
                    Err(error) => error.kind.as_str().to_owned(),
                };
                noting.add(format!("{name}: {answer}"));
            }
            Ok(ToolOutput::from("ok"))
        }
    });
    let watching = Owner::new(Origin::User, "watch");
    let stage = Stage::new([call("outer"), Step::text("done")], |agent| {
        agent.tool(outer).tool(tool("inner", &Log::default(), Ok("ok")))
    });
    let watch = move |called: &ToolPreEvent| {
        seen.add(format!("{} {} {}", called.tool_name, called.call_id, called.tool_input));
    };
    stage.agent.extend(watching, |unit| _ = unit.observe(ToolPre, watch)).expect("the user may");
    let played = stage.play().await;
    assert_eq!(
        log.lines(),
        ["outer c1.1 {}", r#"inner c1.1/1 {"x":5}"#, "inner: ok", "zzz: not_found"]
    );
    assert_eq!(played.results(), ["c1.1: ok"]);
    let told = played.events.iter().filter_map(|event| {
        let within = event.parent_call_id.as_deref().unwrap_or("-");
        match &event.kind {
            EventKind::ToolResult { call_id, error: None, .. } => {
                Some(format!("{call_id} ran in {within}"))
            }
            EventKind::ToolRefused { call_id, by, .. } => {
                Some(format!("{call_id} refused in {within}: {by}"))
            }
            _ => None,
        }
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["c1.1/1 ran in c1.1", "c1.1/2 refused in c1.1: scope", "c1.1 ran in -"]
    );
}
