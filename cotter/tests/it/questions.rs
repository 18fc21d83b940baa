//! One question per step: its askers, the handlers that may answer it, and the binding of an answer. S4.

use std::{path::Path, sync::Arc, time::Duration};

use cotter::{
    Agent, AgentBuilder, ToolSpec, Verdict, Workspace,
    hooks::{
        points::{
            Admission, PermissionAnswer, PermissionAsk, SessionStart, SessionStartEvent, ToolPre,
            ToolPreEvent,
        },
        ui::{CallApproval, Question, QuestionAnswer, Ui, UiFuture},
    },
    named,
    permission::{
        Zone,
        facts::Facts,
        mode::Mode,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{
    Diary, PersonAnswer, ScriptedModel, ScriptedUi, Step, fresh, probe, spec, transcript,
};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::records;

/// Puts two calls that ask to a person. Checks the questions, the calls that ran, and the transcript.
async fn check(
    said: PersonAnswer,
    register: impl FnOnce(AgentBuilder) -> AgentBuilder,
    expected: Expect,
) {
    let (diary, ui) = (Diary::default(), ScriptedUi::new([said]));
    let calls = Step::call("risky", json!({"n": 1})).and_call("risky", json!({"n": 2}));
    let builder = Agent::builder(ScriptedModel::new([calls, Step::text("done")]))
        .ui(ui.clone())
        .tool(probe("risky", Zone::External, &diary));
    let agent = register(builder).build().unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let shown = transcript(&session);
    expected.assert_eq(&format!("{}--\n{}--\n{shown}", ui.shown(), diary.shown()));
}

/// S4: one question lists every call and every asker.
#[tokio::test]
async fn s4_one_question_lists_every_call_and_every_asker() {
    let cautious = |call: &ToolPreEvent| match call.tool_input["n"].as_i64() {
        Some(2) => Verdict::ask("two is a lot"),
        _ => Verdict::Pass,
    };
    let register = |builder: AgentBuilder| {
        builder
            .gate(ToolPre, named("cautious", cautious))
            .rule(Rule::parse(RuleKind::Ask, "risky").unwrap())
    };
    check(
        PersonAnswer::Yes,
        register,
        expect![[r#"
        risky {"n":1} <- rule ask risky: the rule `ask risky` asks
        risky {"n":2} <- rule ask risky: the rule `ask risky` asks; cautious: two is a lot
        --
        risky {"n":1}
        risky {"n":2}
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1: risky ran
        result c1.2: risky ran
        assistant: done
    "#]],
    )
    .await;
}

#[tokio::test]
async fn s4_each_call_of_a_question_is_answered_separately() {
    check(
        PersonAnswer::Each(vec![false, true]),
        |builder| builder,
        expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`
        risky {"n":2} <- zone: zone `external` asks at level `standard`
        --
        risky {"n":2}
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`. Do not retry this exact call.
        result c1.2: risky ran
        assistant: done
    "#]],
    )
    .await;
}

#[tokio::test]
async fn s4_reason_of_a_no_reaches_the_model() {
    check(PersonAnswer::No("use the other one".into()), |builder| builder, expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`
        risky {"n":2} <- zone: zone `external` asks at level `standard`
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: use the other one. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: use the other one. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn s4_answer_with_another_question_id_refuses() {
    check(PersonAnswer::WrongQuestion, |builder| builder, expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`
        risky {"n":2} <- zone: zone `external` asks at level `standard`
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: the answer was to another question. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: the answer was to another question. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn s4_answer_with_wrong_digests_refuses() {
    check(
        PersonAnswer::WrongDigest,
        |builder| builder,
        expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`
        risky {"n":2} <- zone: zone `external` asks at level `standard`
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`. Do not retry this exact call.
        assistant: done
    "#]],
    )
    .await;
}

#[tokio::test]
async fn s4_missing_answer_refuses() {
    check(PersonAnswer::Nothing, |builder| builder, expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`
        risky {"n":2} <- zone: zone `external` asks at level `standard`
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn s4_answer_timeout_refuses() {
    let start = tokio::time::Instant::now();
    check(PersonAnswer::Silence, |builder| builder, expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`
        risky {"n":2} <- zone: zone `external` asks at level `standard`
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and no answer came in time. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and no answer came in time. Do not retry this exact call.
        assistant: done
    "#]]).await;
    assert_eq!(start.elapsed(), Duration::from_secs(30 * 60));
}

#[tokio::test]
async fn question_without_a_person_refuses_and_says_why() {
    check(PersonAnswer::Yes, |builder| builder.ui(cotter::hooks::ui::Headless), expect![[r#"
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and no person can be asked. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and no person can be asked. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

/// A hook may answer in place of the person if only the zone asks.
#[tokio::test]
async fn answer_hook_may_answer_a_question_of_the_zone() {
    let yes = |builder: AgentBuilder| {
        builder.answer(PermissionAsk, named("yes", |_: &Question| PermissionAnswer::Yes))
    };
    check(
        PersonAnswer::No("the person was asked".into()),
        yes,
        expect![[r#"
        --
        risky {"n":1}
        risky {"n":2}
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1: risky ran
        result c1.2: risky ran
        assistant: done
    "#]],
    )
    .await;
}

/// The strictest answer wins.
#[tokio::test]
async fn strictest_answer_of_two_hooks_wins() {
    let both = |builder: AgentBuilder| {
        builder.answer(PermissionAsk, named("yes", |_: &Question| PermissionAnswer::Yes)).answer(
            PermissionAsk,
            named("no", |_: &Question| PermissionAnswer::No("not now".into())),
        )
    };
    check(
        PersonAnswer::Yes,
        both,
        expect![[r#"
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: not now. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: not now. Do not retry this exact call.
        assistant: done
    "#]],
    )
    .await;
}

/// If a gate or a rule asks, only the person may answer.
#[tokio::test]
async fn answer_hook_cannot_answer_a_question_of_a_gate_or_rule() {
    let yes = || named("yes", |_: &Question| PermissionAnswer::Yes);
    let gate = |builder: AgentBuilder| {
        let asks = |_: &ToolPreEvent| Verdict::ask("sure?");
        builder.answer(PermissionAsk, yes()).gate(ToolPre, named("gate", asks))
    };
    check(PersonAnswer::No("I was asked".into()), gate, expect![[r#"
        risky {"n":1} <- zone: zone `external` asks at level `standard`; gate: sure?
        risky {"n":2} <- zone: zone `external` asks at level `standard`; gate: sure?
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: I was asked. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: I was asked. Do not retry this exact call.
        assistant: done
    "#]]).await;
    let rule = |builder: AgentBuilder| {
        builder.answer(PermissionAsk, yes()).rule(Rule::parse(RuleKind::Ask, "risky").unwrap())
    };
    check(PersonAnswer::No("I was asked".into()), rule, expect![[r#"
        risky {"n":1} <- rule ask risky: the rule `ask risky` asks
        risky {"n":2} <- rule ask risky: the rule `ask risky` asks
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: I was asked. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: I was asked. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn permission_ask_gate_refuses_before_the_person_is_asked() {
    let quiet = |builder: AgentBuilder| {
        let gate = |_: &Question| Admission::block("no questions at night");
        builder.gate(PermissionAsk, named("quiet", gate))
    };
    check(PersonAnswer::Yes, quiet, expect![[r#"
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Permission denied for `risky`: no questions at night. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `risky`: no questions at night. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

/// Mode `auto` asks no person: a call that would ask is refused.
#[tokio::test]
async fn mode_auto_refuses_calls_that_would_ask() {
    check(PersonAnswer::Yes, |builder| builder.mode(Mode::Auto), expect![[r#"
        --
        --
        user: go
        call c1.1: risky {"n":1}
        call c1.2: risky {"n":2}
        result c1.1 (denied): Denied: zone `external` asks at level `standard`, and mode `auto` asks nobody. Do not retry this exact call.
        result c1.2 (denied): Denied: zone `external` asks at level `standard`, and mode `auto` asks nobody. Do not retry this exact call.
        assistant: done
    "#]]).await;
}

/// A person who changes the agent before saying yes.
struct Busy<F>(Diary, F);

impl<F: Fn() + Send + Sync + 'static> Ui for Busy<F> {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        self.0.add("asked");
        (self.1)();
        Box::pin(async move { Some(QuestionAnswer::all(&question, CallApproval::Yes, "person")) })
    }
}

/// Runs one call that asks; `meanwhile` runs before the person answers. Checks the calls that ran, and the
/// transcript.
async fn check_meanwhile(meanwhile: fn(&Agent), expected: Expect) {
    let diary = Diary::default();
    let cell = Arc::new(std::sync::OnceLock::<Agent>::new());
    let busy = {
        let cell = cell.clone();
        Busy(diary.clone(), move || meanwhile(cell.get().expect("the agent is there")))
    };
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("risky", json!({})), Step::text("done")]))
            .ui(busy)
            .tool(probe("risky", Zone::External, &diary))
            .build()
            .unwrap();
    let _ = cell.set(agent.clone());
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let records = records(&**agent.store(), session.id());
    expected.assert_eq(&format!("{}{}{records}", diary.shown(), transcript(&session)));
}

/// S4, S2: gates run again before a yes counts.
#[tokio::test]
async fn s4_a_gate_registered_during_the_question_blocks() {
    let meanwhile = |agent: &Agent| {
        let gate = named("late", |_: &ToolPreEvent| Verdict::block("not any more"));
        agent.gate(ToolPre, gate).unwrap();
    };
    check_meanwhile(meanwhile, expect![[r#"
        asked
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "late" blocked the action: not any more. Adjust your approach; do not retry the exact same call.
        assistant: done
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 person [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} block late not any more person
        run.end r1 end_turn
    "#]]).await;
}

/// S2: a yes to one question does not answer another that was never asked.
#[tokio::test]
async fn s4_gate_that_asks_after_the_question_refuses() {
    let meanwhile = |agent: &Agent| {
        agent.gate(ToolPre, named("late", |_: &ToolPreEvent| Verdict::ask("really?"))).unwrap();
    };
    check_meanwhile(meanwhile, expect![[r#"
        asked
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Denied: late asks for it only now: really?.
        assistant: done
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 person [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} block late really? person
        run.end r1 end_turn
    "#]]).await;
}

#[tokio::test]
async fn s2_deny_rule_added_during_the_question_acts_at_once() {
    let meanwhile = |agent: &Agent| {
        let deny = |unit: &mut cotter::Registry| {
            unit.rule(Rule::parse(RuleKind::Deny, "risky").unwrap());
        };
        agent.extend(cotter::Owner::new(cotter::Origin::User, "settings"), deny).unwrap();
    };
    check_meanwhile(meanwhile, expect![[r#"
        asked
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Denied: the rule `deny risky` denies it. Do not retry this exact call.
        assistant: done
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 person [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} block rule deny risky the rule `deny risky` denies it person
        run.end r1 end_turn
    "#]]).await;
}

#[tokio::test]
async fn s2_a_tool_removed_during_the_question_does_not_run() {
    check_meanwhile(|agent| assert!(agent.undefine_tool("risky")), expect![[r#"
        asked
        user: go
        call c1.1: risky {}
        result c1.1 (not_found): The tool no longer exists.
        assistant: done
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 person [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} block scope The tool no longer exists. person
        run.end r1 end_turn
    "#]]).await;
}

/// S4: an answer is bound to the tool's definition.
#[tokio::test]
async fn s4_a_tool_redefined_during_the_question_does_not_run() {
    let meanwhile = |agent: &Agent| {
        agent.undefine_tool("risky");
        let other = ToolSpec { description: "quite another".into(), ..spec("risky") };
        let tool = cotter::FnTool::new(other, |_| async { Ok("the other ran".into()) });
        agent.tool(tool.with_facts(Facts::zone(Zone::Safe))).unwrap();
    };
    check_meanwhile(meanwhile, expect![[r#"
        asked
        user: go
        call c1.1: risky {}
        result c1.1 (unavailable): The tool has changed since this call was decided.
        assistant: done
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 person [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} block scope The tool has changed since this call was decided. person
        run.end r1 end_turn
    "#]]).await;
}

/// An approval stays valid if something unrelated is registered.
#[tokio::test]
async fn s4_an_unrelated_registration_does_not_undo_a_yes() {
    let meanwhile = |agent: &Agent| {
        agent.observe(SessionStart, named("other", |_: &SessionStartEvent| ())).unwrap();
    };
    check_meanwhile(meanwhile, expect![[r#"
        asked
        risky {}
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 person [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} pass zone person
        outcome c1.1 ok
        run.end r1 end_turn
    "#]]).await;
}

/// S4: the digest binds session, call, tool definition, input and working folder.
#[tokio::test]
async fn s4_call_digest_binds_every_property_of_the_call() {
    let mut digests = vec![];
    let plain = ("risky", "n", "/project", "the tool risky");
    for (tool, input, folder, description) in [
        plain,
        ("other", "n", "/project", "the tool risky"),
        ("risky", "m", "/project", "the tool risky"),
        ("risky", "n", "/elsewhere", "the tool risky"),
        ("risky", "n", "/project", "another tool"),
    ] {
        let ui = ScriptedUi::new([]);
        let spec = ToolSpec { description: description.into(), ..spec("risky") };
        let spec = ToolSpec { name: tool.into(), ..spec };
        let run = |_| async { Ok("ran".into()) };
        let step = || Step::call(tool, json!({"key": input}));
        let agent =
            Agent::builder(ScriptedModel::new([step(), Step::text("x"), step(), Step::text("x")]))
                .workspace(Workspace::new(Path::new(folder)))
                .ui(ui.clone())
                .tool(cotter::FnTool::new(spec, run).with_facts(Facts::zone(Zone::External)))
                .build()
                .unwrap();
        let _ = fresh(&agent).await.prompt("go").await;
        // An equal call id, in another session.
        agent.set_model(ScriptedModel::new([step(), Step::text("x")]));
        let _ = fresh(&agent).await.prompt("go").await;
        digests.extend(ui.questions().iter().map(|question| question.calls[0].digest.clone()));
    }
    assert_eq!(digests.len(), 10);
    let different: std::collections::HashSet<_> = digests.iter().collect();
    assert_eq!(different.len(), 10, "{digests:?}");
}
