//! Runs: their start and end, their limits, and their events.

use std::time::Duration;

use cotter::{
    Agent, At, Cx, Message, Registry, Run, Verdict,
    history::message::{StopReason, Usage},
    hooks::{
        events::EventKind,
        points::{
            Context, ContextChange, ContextEvent, Error, ModelPost, ModelPre, Point, RunFailure,
            SessionEnd, SessionEndEvent, SessionStart, SessionStartEvent, ToolPost, ToolPre,
            ToolRefused, TurnEnd, TurnEndEvent, TurnEndVerdict, UserPromptSubmit,
        },
    },
    model::{Delta, Model, ModelErrorKind, ReplyStream, Request},
    named,
    permission::Zone,
};
use cotter_test::{PersonAnswer, ScriptedUi, Step, transcript};
use futures_util::stream;
use serde_json::json;
use smol_str::SmolStr;

use super::kit::{Log, Played, Stage, assert_contains, call, play, tool, tool_with_facts};

/// Logs every `session.end` with its reason.
fn ends(log: &Log) -> impl Fn(&SessionEndEvent) + use<> {
    let log = log.clone();
    move |ended: &SessionEndEvent| log.add(format!("session.end {}", ended.reason.as_str()))
}

/// Reads the events of a run up to the first one that `wanted` accepts.
async fn until(run: &mut Run, wanted: impl Fn(&EventKind) -> bool) {
    while let Some(event) = run.next().await {
        if wanted(&event.kind) {
            return;
        }
    }
    panic!("the run ended before that");
}

fn is_delta(kind: &EventKind) -> bool {
    matches!(kind, EventKind::TextDelta { .. })
}

pub(super) async fn an_abort_before_the_first_request_ends_the_run() {
    let log = Log::default();
    let played = play([Step::text("never said")], |agent| {
        agent
            .observe(SessionStart, |_: &SessionStartEvent, cx: &Cx| cx.cancel().cancel())
            .observe(SessionEnd, ends(&log))
    })
    .await;
    assert_eq!(log.lines(), ["session.end aborted"]);
    assert!(played.requests.is_empty());
}

pub(super) async fn error_comes_before_session_end() {
    let log = Log::default();
    let noting = log.clone();
    let played = play([Step::error(ModelErrorKind::BadRequest)], |agent| {
        let error = move |failed: &RunFailure| noting.add(format!("error {}", failed.code));
        agent.observe(Error, error).observe(SessionEnd, ends(&log))
    })
    .await;
    assert_eq!(log.lines(), ["error bad_request", "session.end error"]);
    let error = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    assert_eq!(error, Some("the script says so"));
}

pub(super) async fn a_failing_observer_changes_no_end() {
    let log = Log::default();
    let played = play([Step::text("done")], |agent| {
        agent
            .observe(SessionEnd, |_: &SessionEndEvent| Err::<(), _>("stop"))
            .observe(SessionEnd, |_: &SessionEndEvent| -> () { panic!("stop") })
            .observe(SessionEnd, ends(&log))
    })
    .await;
    assert_eq!(log.lines(), ["session.end end_turn"]);
    assert_eq!(played.find_events(&["session.end"]), ["session.end end_turn"]);
}

pub(super) async fn an_abort_while_text_streams_keeps_it() {
    let log = Log::default();
    let stage = Stage::new([Step::text("half a reply").and_hang()], |agent| {
        agent.observe(SessionEnd, ends(&log))
    });
    let mut run = stage.run().await;
    until(&mut run, is_delta).await;
    run.abort();
    let reply = run.await.expect("an abort is no failure");
    assert_eq!((reply.reason.as_str(), reply.text().as_str()), ("aborted", "half a reply"));
    assert_eq!(log.lines(), ["session.end aborted"]);
}

pub(super) async fn an_abort_drops_calls_of_half_a_reply() {
    let log = Log::default();
    let half = Step::text("abc").and_call("t", json!({})).and_hang();
    let stage = Stage::new([half], |agent| agent.tool(tool("t", &log, Ok("ok"))));
    let mut run = stage.run().await;
    until(&mut run, is_delta).await;
    run.abort();
    assert_eq!(run.await.expect("an abort is no failure").reason.as_str(), "aborted");
    let session = stage.agent.main_session().await.expect("a session is made");
    assert_eq!(transcript(&session), "user: go\nassistant: abc\n");
    assert!(log.lines().is_empty());
}

pub(super) async fn a_dropped_run_ends_properly() {
    let log = Log::default();
    let stage = Stage::new([Step::text("half a reply").and_hang()], |agent| {
        agent.observe(SessionEnd, ends(&log))
    });
    let mut run = stage.run().await;
    until(&mut run, is_delta).await;
    drop(run);
    // The dropped run holds the session until it has ended.
    let session = stage.agent.main_session().await.expect("a session is made");
    session.idle().await;
    assert_eq!(transcript(&session), "user: go\nassistant: half a reply\n");
    assert_eq!(log.lines(), ["session.end aborted"]);
}

/// Logs each time a point fires.
fn watch<P: Point>(unit: &mut Registry, log: &Log, point: P) {
    let log = log.clone();
    unit.observe(point, move |_: &P::Event| log.add(P::ID));
}

pub(super) async fn points_fire_in_the_order_of_a_turn() {
    let log = Log::default();
    play([call("t").and_call("ghost", json!({})), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).extend(|unit| {
            watch(unit, &log, SessionStart);
            watch(unit, &log, UserPromptSubmit);
            watch(unit, &log, Context);
            watch(unit, &log, ModelPre);
            watch(unit, &log, ModelPost);
            watch(unit, &log, ToolPre);
            watch(unit, &log, ToolPost);
            watch(unit, &log, ToolRefused);
            watch(unit, &log, TurnEnd);
            watch(unit, &log, Error);
            watch(unit, &log, SessionEnd);
        })
    })
    .await;
    #[rustfmt::skip]
    assert_eq!(log.lines(), [
        "session.start", "user.prompt.submit",
        "context", "model.pre", "model.post", "tool.pre", "t", "tool.post", "tool.refused",
        "context", "model.pre", "model.post",
        "turn.end", "session.end",
    ]);
}

/// Continues the run once, for this reason.
fn once(reason: &'static str) -> impl Fn(&TurnEndEvent) -> TurnEndVerdict {
    move |ending: &TurnEndEvent| match ending.continued_in_row {
        0 => TurnEndVerdict::GoOn(reason.into()),
        _ => TurnEndVerdict::Stop,
    }
}

pub(super) async fn turn_end_gate_continues_the_run() {
    let steps = [Step::text("one"), Step::text("two")];
    let played = play(steps, |agent| agent.gate(TurnEnd, once("AGAIN"))).await;
    assert_eq!(played.requests.len(), 2);
    assert_eq!(played.sent(2)[..2], ["user: go", "assistant: one"]);
    assert_contains(&played.sent(2)[2], "AGAIN");
    assert_eq!(played.reply.text(), "two");
}

pub(super) async fn messages_removed_by_context_stay_in_history() {
    let forgets = |build: &ContextEvent| {
        let kept =
            build.messages.iter().filter(|message| !matches!(message, Message::Assistant(_)));
        ContextChange::messages(kept.cloned())
    };
    let played = play([Step::text("one"), Step::text("two")], |agent| {
        agent.gate(TurnEnd, once("AGAIN")).transform(Context, forgets)
    })
    .await;
    assert_eq!((played.sent(2).len(), played.sent(2)[0].as_str()), (2, "user: go"));
    assert_contains(&played.sent(2)[1], "AGAIN");
    assert_contains(&played.transcript, "assistant: one\n");
}

pub(super) async fn continued_run_has_a_message_to_answer() {
    let steps = [Step::text("one"), Step::text("two")];
    let played = play(steps, |agent| agent.gate(TurnEnd, once(""))).await;
    let last = played.requests[1].messages.last();
    assert!(matches!(last, Some(Message::User(_))), "{last:?}");
    // A gate that always continues is limited.
    let steps = [(); 9].map(|()| Step::text("more"));
    let played =
        play(steps, |a| a.gate(TurnEnd, |_: &TurnEndEvent| TurnEndVerdict::GoOn("more".into())))
            .await;
    assert_eq!((played.requests.len(), played.reason()), (9, "end_turn"));
}

pub(super) async fn a_failing_gate_at_the_turns_end_changes_nothing() {
    let fails =
        named("edits", |_: &TurnEndEvent| Err::<TurnEndVerdict, _>("there is no entry `nope`"));
    let played = play([Step::text("one"), Step::text("two")], |a| a.gate(TurnEnd, fails)).await;
    assert_eq!((played.requests.len(), played.reason()), (1, "end_turn"));
    assert_eq!(played.transcript, "user: go\nassistant: one\n");
    assert_eq!(played.find_events(&["hook turn.end"]), ["hook turn.end edits gate failed"]);
}

pub(super) async fn continued_turn_stays_within_one_run() {
    let log = Log::default();
    play([Step::text("one"), Step::text("two")], |agent| {
        agent.gate(TurnEnd, once("REV")).extend(|unit| {
            watch(unit, &log, SessionStart);
            watch(unit, &log, ModelPost);
            watch(unit, &log, TurnEnd);
            watch(unit, &log, SessionEnd);
        })
    })
    .await;
    assert_eq!(
        log.lines(),
        ["session.start", "model.post", "turn.end", "model.post", "turn.end", "session.end"]
    );
}

pub(super) async fn an_abort_interrupts_a_hanging_gate() {
    let log = Log::default();
    let hangs = |_: At<ToolPre>| std::future::pending::<Verdict>();
    let stage = Stage::new([call("t")], |agent| {
        let patient = named("hangs", hangs).limit(Duration::from_hours(1));
        agent.tool(tool("t", &log, Ok("ok"))).gate(ToolPre, patient)
    });
    let run = stage.run().await;
    let cancel = run.cancel_token();
    let began = tokio::time::Instant::now();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        cancel.cancel();
    });
    assert_eq!(run.await.expect("an abort is no failure").reason.as_str(), "aborted");
    assert!(began.elapsed() < Duration::from_secs(1));
    let session = stage.agent.main_session().await.expect("a session is made");
    assert_contains(&transcript(&session), "result c1.1 (cancelled): Cancelled");
    assert!(log.lines().is_empty());
}

pub(super) async fn a_session_starts_a_run_per_prompt() {
    let log = Log::default();
    let stage = Stage::new([Step::text("one"), Step::text("two")], |agent| {
        agent.extend(|unit| {
            watch(unit, &log, SessionStart);
            watch(unit, &log, SessionEnd);
        })
    });
    stage.play().await;
    stage.play().await;
    assert_eq!(log.lines(), ["session.start", "session.end", "session.start", "session.end"]);
}

pub(super) async fn steps_are_limited() {
    let log = Log::default();
    let played = play([call("t"), call("t"), call("t")], |agent| {
        agent.tool(tool("t", &log, Ok("ok"))).limits(|limits| limits.max_steps = Some(2))
    })
    .await;
    assert_eq!((played.reason(), played.reply.steps), ("max_turns", 2));
    assert_eq!(played.results(), ["c1.1: ok", "c2.1: ok"]);
}

pub(super) async fn truncated_reply_is_continued_three_times() {
    let steps = [(); 5].map(|()| Step::text("on and on").and_stop(StopReason::MaxTokens));
    let played = play(steps, |agent| agent).await;
    assert_eq!((played.reason(), played.requests.len()), ("max_tokens", 4));
}

pub(super) async fn refusal_is_the_end_reason() {
    let refuses = Step::text("I would rather not").and_stop(StopReason::Refusal);
    assert_eq!(play([refuses], |agent| agent).await.reason(), "refusal");
}

pub(super) async fn tool_call_event_precedes_its_result() {
    let log = Log::default();
    let played =
        play([call("t"), Step::text("done")], |agent| agent.tool(tool("t", &log, Ok("ok")))).await;
    assert_eq!(
        played.find_events(&["message call", "tool.", "message result", "session.end"]),
        [
            "message call c1.1: t {}",
            "tool.call c1.1 t {}",
            "tool.result c1.1 \"ok\"",
            "message result c1.1: ok",
            "session.end end_turn",
        ]
    );
    assert_eq!(played.reply.steps, 2);
}

pub(super) async fn thinking_closes_before_text_opens() {
    let played = play([Step::text("said").and_thinking("thought")], |agent| agent).await;
    assert_eq!(
        played.find_events(&["text.", "thinking."]),
        [
            "thinking.start",
            "thinking.delta \"thought\"",
            "thinking.end",
            "text.start",
            "text.delta \"said\"",
            "text.end",
        ]
    );
}

/// A model that streams these pieces for every request.
struct Pieces(SmolStr, Vec<Delta>);

impl Model for Pieces {
    fn name(&self) -> &SmolStr {
        &self.0
    }

    fn stream(&self, _: Request) -> ReplyStream {
        Box::pin(stream::iter(self.1.clone().into_iter().map(Ok).collect::<Vec<_>>()))
    }
}

pub(super) async fn text_and_thinking_are_never_open_together() {
    let done = Delta::Done { stop_reason: StopReason::EndTurn, usage: Usage::default() };
    let mixed = vec![
        Delta::Text("a".into()),
        Delta::Thinking("b".into()),
        Delta::Thinking("c".into()),
        Delta::Text("d".into()),
        done,
    ];
    let agent = Agent::builder(Pieces("test/pieces".into(), mixed)).build().expect("it builds");
    let mut run = agent.main_session().await.expect("a session is made").prompt("go");
    let mut heard = vec![];
    while let Some(event) = run.next().await {
        let name = event.kind.name();
        if name.starts_with("text.") || name.starts_with("thinking.") {
            heard.push(name);
        }
    }
    #[rustfmt::skip]
    assert_eq!(heard, [
        "text.start", "text.delta", "text.end",
        "thinking.start", "thinking.delta", "thinking.delta", "thinking.end",
        "text.start", "text.delta", "text.end",
    ]);
}

pub(super) async fn text_closes_before_a_call() {
    let log = Log::default();
    let steps = [Step::text("look").and_call("t", json!({})), Step::text("done")];
    let played = play(steps, |agent| agent.tool(tool("t", &log, Ok("ok")))).await;
    assert_eq!(
        played.find_events(&["text.", "tool.call"]),
        [
            "text.start",
            "text.delta \"look\"",
            "text.end",
            "tool.call c1.1 t {}",
            "text.start",
            "text.delta \"done\"",
            "text.end",
        ]
    );
}

pub(super) async fn events_end_with_the_end_and_the_reply_agrees() {
    let played = play([Step::text("done")], |agent| agent).await;
    let last = played.events.last().map(|event| &event.kind);
    assert!(
        matches!(last, Some(EventKind::SessionEnd { reason }) if *reason == played.reply.reason)
    );
    assert_eq!(
        played.find_events(&["message assistant"]),
        [format!("message assistant: {}", played.reply.text())]
    );
    assert!(played.events.iter().all(|event| event.run_id == played.reply.run_id));
}

pub(super) async fn listener_gets_run_ends_until_it_is_dropped() {
    let log = Log::default();
    let stage = Stage::new([Step::text("T"), Step::text("U")], |agent| {
        agent.id("scout").observe(SessionEnd, ends(&log))
    });
    let session = stage.agent.main_session().await.expect("a session is made");
    let mut listener = session.events();
    stage.play().await;
    let mut heard = vec![];
    while let Some(event) = listener.try_next() {
        assert_eq!(event.agent_id, "scout");
        heard.push(cotter_test::shown_event(&event));
    }
    assert!(heard.contains(&"message assistant: T".to_owned()));
    assert_eq!(heard.last().map(String::as_str), Some("session.end end_turn"));
    let hook = stage.agent.hooks().into_iter().find(|hook| hook.point == SessionEnd::ID);
    assert!(stage.agent.remove(hook.expect("the observer").id));
    stage.play().await;
    assert_eq!(log.lines(), ["session.end end_turn"], "it was gone for the second run");
}

pub(super) async fn run_has_start_and_end_and_counts_steps() {
    let log = Log::default();
    let played = play([call("t"), call("t"), Step::text("done")], |agent| {
        agent.tool(tool("t", &log, Ok("ok")))
    })
    .await;
    let names: Vec<_> = played.events.iter().map(|event| event.kind.name()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"session.start"), Some(&"session.end")));
    assert!(played.events.is_sorted_by_key(|event| (event.seq, event.step)));
    assert_eq!(replies(&played), [1, 2, 3]);
}

/// The step of each reply.
fn replies(played: &Played) -> Vec<u32> {
    let replies =
        played.events.iter().filter(|event| matches!(event.kind, EventKind::ModelPost(_)));
    replies.map(|event| event.step).collect()
}

pub(super) async fn a_retry_is_no_step() {
    let steps = [Step::error(ModelErrorKind::RateLimited), Step::text("done")];
    let played = play(steps, |agent| agent).await;
    assert_eq!(played.find_events(&["retry"]), ["retry 1 rate_limited 500ms"]);
    assert_eq!((replies(&played), played.reply.steps), (vec![1], 1));
}

pub(super) async fn a_cut_reply_ends_its_step() {
    let cut = Step::text("on and").and_stop(StopReason::MaxTokens);
    let played = play([cut, Step::text("on")], |agent| agent).await;
    assert_eq!(replies(&played), [1, 2]);
    let order: Vec<_> = played
        .events
        .iter()
        .map(|event| event.kind.name())
        .filter(|name| ["note", "model.post"].contains(name))
        .collect();
    assert_eq!(order, ["model.post", "note", "model.post"]);
}

pub(super) async fn question_and_answer_events_are_sent_once() {
    for (said, yes) in [(PersonAnswer::Yes, true), (PersonAnswer::No("no".into()), false)] {
        let log = Log::default();
        let played = play([call("t"), Step::text("done")], |agent| {
            agent.tool(tool_with_facts("t", &log, Zone::External)).ui(ScriptedUi::new([said]))
        })
        .await;
        assert_eq!(
            played.find_events(&["permission."]),
            [
                "permission.request r1.1 c1.1".to_owned(),
                format!("permission.response c1.1={yes} by test"),
            ]
        );
        assert_eq!(log.lines().len(), usize::from(yes));
    }
}

pub(super) async fn a_broken_stream_still_ends_the_run() {
    let broken = Step::text("half").and_error(ModelErrorKind::Other, None);
    let played = play([broken], |agent| agent).await;
    assert_eq!(played.reason(), "error");
    assert_eq!(
        played.find_events(&["error", "session.end"]),
        ["error other: the script says so", "session.end error"]
    );
    assert_eq!(played.events.last().map(|event| event.kind.name()), Some("session.end"));
    // The streamed text of a failed attempt does not count.
    assert_eq!(played.transcript, "user: go\n");
}
