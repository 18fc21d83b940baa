//! The floor and the person: the questions, the allowed answers, and the text that the model gets.

use std::path::Path;

use cotter::{
    Agent, AgentBuilder, Cx, Permit, Tool, ToolOutput, ToolSpec, Verdict, Workspace,
    hooks::points::{ToolPre, ToolPreEvent},
    permission::{
        Zone,
        facts::Facts,
        guard::Guard,
        mode::{Level, Mode},
        rule::{Rule, RuleKind},
    },
    tool::ToolFuture,
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step};
use serde_json::{Value, json};

use super::kit::{Log, any_object, assert_contains, call, play, safe, tool, tool_with_facts};

/// Returns the result for a call of `t` in that zone: `pass`, `ask` or `block`.
async fn decide_call(zone: Zone, build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> &'static str {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        build(agent.tool(tool_with_facts("t", &log, zone)).ui(ScriptedUi::new([PersonAnswer::Yes])))
    })
    .await;
    let (asked, ran) =
        (!played.find_events(&["permission.request"]).is_empty(), !log.lines().is_empty());
    match (asked, ran) {
        (false, true) => "pass",
        (true, true) => "ask",
        (false, false) => "block",
        (true, false) => panic!("a yes did not count"),
    }
}

fn rule(kind: RuleKind, text: &str) -> Rule {
    Rule::parse(kind, text).expect("the rule is well formed")
}

pub(super) async fn question_without_a_person_refuses() {
    let log = Log::default();
    let noting = log.clone();
    let played = play([call("ask_user").and_call("t", json!({})), Step::text("done")], |agent| {
        agent.tool(tool_with_facts("t", &log, Zone::External)).gate(
            ToolPre,
            move |_: &ToolPreEvent, cx: &Cx| {
                noting.add(format!("has ui: {}", cx.has_ui()));
                Verdict::Pass
            },
        )
    })
    .await;
    assert_contains(played.results()[0], "c1.1 (not_found): Unknown tool: ask_user.");
    assert_contains(played.results()[1], "c1.2 (denied): ");
    assert_contains(played.results()[1], "no person can be asked");
    assert_eq!(log.lines(), ["has ui: false"]);
}

/// A person who does not answer in time has not agreed.
pub(super) async fn unanswered_question_refuses() {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool_with_facts("t", &log, Zone::External))
            .ui(ScriptedUi::new([PersonAnswer::Silence]))
    })
    .await;
    assert_contains(
        played.results()[0],
        "c1.1 (denied): Permission denied for `t`: zone `external` asks at level `standard`, and no answer came in time",
    );
    assert!(log.lines().is_empty(), "it ran");
}

/// An input must be an object. Any other input is refused before a question.
pub(super) async fn invalid_input_is_not_asked_about(input: Value) {
    let log = Log::default();
    let ui = ScriptedUi::new([PersonAnswer::Yes]);
    let played = play([Step::call("t", input), Step::text("done")], |agent| {
        agent.tool(tool_with_facts("t", &log, Zone::External)).ui(ui.clone())
    })
    .await;
    assert_contains(played.results()[0], "c1.1 (invalid_args): ");
    assert_eq!((ui.questions().len(), log.lines().len()), (0, 0));
}

pub(super) async fn answer_is_bound_to_the_shown_input() {
    let mut shown = vec![];
    for input in [r#"{"b":2,"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#] {
        let log = Log::default();
        let ui = ScriptedUi::new([PersonAnswer::Yes]);
        let step = Step::call("b", serde_json::from_str(input).expect("JSON"));
        play([step, Step::text("done")], |agent| {
            agent.tool(tool_with_facts("b", &log, Zone::External)).ui(ui.clone())
        })
        .await;
        let asked = ui.questions()[0].calls[0].clone();
        assert_eq!(asked.preview, format!("b {input}"));
        assert_eq!(log.lines(), [asked.preview]);
        shown.push(asked.digest);
    }
    assert_ne!(shown[0], shown[1], "the order of keys is part of what was shown");
    assert_eq!(shown[0], shown[2]);
}

/// A tool is judged by its facts. A tool without facts asks, whatever its name.
pub(super) async fn a_name_decides_nothing(name: &str) {
    for (facts, asks) in [(Facts::unknown(), true), (Facts::zone(Zone::Safe), false)] {
        let log = Log::default();
        let ui = ScriptedUi::new([PersonAnswer::Yes]);
        play([call(name), Step::text("done")], |agent| {
            agent.tool(tool_with_facts(name, &log, facts.zone)).ui(ui.clone())
        })
        .await;
        assert_eq!(ui.questions().len(), usize::from(asks), "{facts:?}");
        assert_eq!(log.lines(), [format!("{name} {{}}")]);
    }
}

pub(super) async fn mode_decides_without_a_rule() {
    let modes = [
        (Mode::Ask, "ask"),
        (Mode::AcceptEdits, "ask"),
        (Mode::Plan, "block"),
        (Mode::Auto, "block"),
    ];
    for (mode, expected) in modes {
        let got = decide_call(Zone::External, |agent| agent.mode(mode)).await;
        assert_eq!(got, expected, "{mode}");
    }
}

pub(super) async fn no_mode_lets_an_asked_call_pass() {
    let modes = [
        (Mode::Ask, "ask"),
        (Mode::AcceptEdits, "ask"),
        (Mode::Plan, "ask"),
        (Mode::Auto, "block"),
    ];
    for (mode, expected) in modes {
        let asks = rule(RuleKind::Ask, "t");
        let got = decide_call(Zone::Safe, |agent| agent.mode(mode).rule(asks)).await;
        assert_eq!(got, expected, "{mode}");
    }
}

pub(super) async fn deny_then_ask_then_allow_then_zone() {
    use RuleKind::{Allow, Ask, Deny};
    let table: [(&[RuleKind], &str); 4] =
        [(&[Allow, Ask, Deny], "block"), (&[Allow, Ask], "ask"), (&[Allow], "pass"), (&[], "ask")];
    for (kinds, expected) in table {
        let got = decide_call(Zone::Machine, |agent| {
            kinds.iter().fold(agent, |agent, kind| agent.rule(rule(*kind, "t")))
        })
        .await;
        assert_eq!(got, expected, "{kinds:?}");
    }
}

/// A tool that cannot state its facts.
struct Confused(ToolSpec);

impl Tool for Confused {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        panic!("no idea")
    }

    fn run(&self, _: Permit) -> ToolFuture<'_> {
        Box::pin(async { Ok(ToolOutput::from("ran")) })
    }
}

pub(super) async fn a_check_that_fails_refuses() {
    let confused = Confused(ToolSpec::new("t", "for a test", any_object()));
    let played = play([call("t"), Step::text("done")], |agent| agent.tool(confused)).await;
    assert_contains(played.results()[0], "c1.1 (denied): ");
    assert_eq!(played.reason(), "end_turn");

    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        let fails = |_: &ToolPreEvent| Err::<Verdict, _>("the classifier is ill");
        agent.tool(tool("t", &log, Ok("ran"))).gate(ToolPre, fails)
    })
    .await;
    assert_contains(played.results()[0], "the classifier is ill");
    assert_eq!((log.lines().len(), played.reason()), (0, "end_turn"));
}

pub(super) async fn reason_of_a_no_reaches_the_model() {
    let log = Log::default();
    let played = play([call("write"), Step::text("done")], |agent| {
        let ui = ScriptedUi::new([PersonAnswer::No("use the other file".into())]);
        agent.tool(tool_with_facts("write", &log, Zone::External)).ui(ui)
    })
    .await;
    assert_eq!(
        played.results(),
        [
            "c1.1 (denied): Permission denied for `write`: use the other file. Do not retry this exact call."
        ]
    );
    assert_eq!(
        played.find_events(&["permission.response", "tool.refused"]),
        ["permission.response c1.1=false by test", "tool.refused c1.1 test: use the other file"]
    );
    assert!(log.lines().is_empty());
}

/// A call that a tool makes for the model is judged by its own facts.
pub(super) async fn nested_call_is_decided_separately() {
    let log = Log::default();
    let ui = ScriptedUi::new([PersonAnswer::No("not her".into())]);
    let calls_tool = safe("call_tool", any_object(), |permit: Permit| async move {
        let input = permit.input();
        let name = input["name"].as_str().unwrap_or_default();
        permit.cx().controls().run_tool(name, input["args"].clone()).await
    });
    let args = json!({"space": "org", "action": "org.remove_member", "args": {"id": "x"}});
    let step = Step::call("call_tool", json!({"name": "space_run_action", "args": args}));
    let played = play([step, Step::text("done")], |agent| {
        agent
            .tool(calls_tool)
            .tool(tool_with_facts("space_run_action", &log, Zone::External))
            .ui(ui.clone())
    })
    .await;
    assert_eq!(
        ui.shown(),
        format!("space_run_action {args} <- zone: zone `external` asks at level `standard`\n")
    );
    assert_contains(played.results()[0], "c1.1 (denied): ");
    assert_contains(played.results()[0], "not her");
    assert!(log.lines().is_empty());
}

/// A tool that reads or writes the file in its input, in a field of any name.
struct Touches {
    spec: ToolSpec,
    writes: bool,
    log: Log,
}

impl Touches {
    fn new(name: &str, writes: bool, log: &Log) -> Self {
        let spec = ToolSpec::new(name.to_owned(), "for a test", any_object());
        Touches { spec, writes, log: log.clone() }
    }
}

impl Tool for Touches {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        let given = input.as_object().into_iter().flat_map(|fields| fields.values());
        let paths: Vec<_> = given.filter_map(Value::as_str).collect();
        match self.writes {
            true => Facts::of_paths(&[], &paths, workspace),
            false => Facts::of_paths(&paths, &[], workspace),
        }
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        self.log.add(permit.input().to_string());
        Box::pin(async { Ok(ToolOutput::from("ok")) })
    }
}

/// Rules over files are about the files that a call touches, whatever the name of the field. A rule without
/// a pattern is about every call of the tool.
pub(super) async fn rules_over_files(patterns: &[&str], input: Value, matches: bool) {
    let tool = Touches::new("t", false, &Log::default());
    let builder = Agent::builder(ScriptedModel::new([]))
        .workspace(Workspace::new(Path::new("/srv/app")))
        .tool(tool);
    let specs = patterns.iter().map(|pattern| format!("t({pattern})"));
    let rules = match patterns.is_empty() {
        true => vec!["t".to_owned()],
        false => specs.collect(),
    };
    let builder =
        rules.iter().fold(builder, |builder, text| builder.rule(rule(RuleKind::Deny, text)));
    let agent = builder.build().expect("it is well made");
    let explained = agent.explain("t", input).await;
    let expected = match matches {
        true => ("block", format!("rule deny {}", rules[0])),
        false => ("pass", "zone".to_owned()),
    };
    assert_eq!((explained.verdict, explained.decided_by), expected);
}

/// A yes for the session covers the call that was shown; a different call asks again.
pub(super) async fn session_answer_covers_the_shown_call() {
    let log = Log::default();
    let ui =
        ScriptedUi::new([PersonAnswer::YesForSession, PersonAnswer::No("not that one".into())]);
    let write = |path: &str| Step::call("w", json!({"p": path}));
    let steps = [write("1"), write("1"), write("2"), Step::text("done")];
    let played = play(steps, |agent| {
        agent
            .workspace(Workspace::new(Path::new("/srv/app")))
            .level(Level::Strict)
            .tool(Touches::new("w", true, &log))
            .ui(ui.clone())
    })
    .await;
    assert_eq!(ui.questions().len(), 2);
    assert_eq!(ui.questions()[0].calls[0].offer, ["write(./1)"]);
    assert_eq!(log.lines(), [r#"{"p":"1"}"#, r#"{"p":"1"}"#]);
    assert_contains(played.results()[2], "c3.1 (denied): Permission denied for `w`: not that one.");
}

/// An approval that was never given cannot be revoked, and an approval is revoked once.
pub(super) async fn session_rule_is_revoked_once() {
    let log = Log::default();
    let ui = ScriptedUi::new([PersonAnswer::YesForSession]);
    let step = Step::call("w", json!({"p": "1"}));
    let agent = Agent::builder(ScriptedModel::new([step, Step::text("done")]))
        .workspace(Workspace::new(Path::new("/srv/app")))
        .level(Level::Strict)
        .tool(Touches::new("w", true, &log))
        .ui(ui)
        .build()
        .expect("it is well made");
    agent.process_request("go").await.expect("it runs to its end");
    let session = agent.main_session().await.expect("it is open");
    let granted = || session.approvals().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(!session.revoke_approval("write(./2)"), "nothing of the kind was granted");
    assert_eq!(granted(), ["allow write(./1)"]);
    assert!(session.revoke_approval("write(./1)"));
    assert!(granted().is_empty());
    assert!(!session.revoke_approval("write(./1)"));
}

fn no_production() -> Guard {
    let guard = Guard::new("no-prod", ["fetch*"]).expect("the glob is well formed");
    guard.deny_field("url", "prod").expect("the pattern is well formed")
}

/// A call that a guard rejects does not run, and the model gets the guard's name and the reason.
pub(super) async fn a_guard_rejects_and_is_named() {
    let log = Log::default();
    let ui = ScriptedUi::new([PersonAnswer::Yes]);
    let step = Step::call("fetch_page", json!({"url": "https://prod.example"}));
    let played = play([step, Step::text("done")], |agent| {
        agent
            .tool(tool_with_facts("fetch_page", &log, Zone::Safe))
            .extend(|unit| _ = unit.guard(no_production()))
            .ui(ui.clone())
    })
    .await;
    assert_eq!(
        played.results(),
        [
            "c1.1 (denied): Denied: the policy no-prod rejects it: `url` matches `prod`. Do not retry this exact call."
        ]
    );
    assert_eq!(
        played.find_events(&["tool.refused"]),
        ["tool.refused c1.1 policy no-prod: the policy no-prod rejects it: `url` matches `prod`"]
    );
    assert_eq!((ui.questions().len(), log.lines().len()), (0, 0), "a guard rejects, it never asks");
}

/// A guard changes nothing for a tool that it does not cover.
pub(super) async fn a_guard_leaves_other_tools_alone() {
    let explain = async |guarded: bool| {
        let tool = tool_with_facts("t", &Log::default(), Zone::Safe);
        let builder = Agent::builder(ScriptedModel::new([])).tool(tool);
        let builder = match guarded {
            true => builder.extend(|unit| _ = unit.guard(no_production())),
            false => builder,
        };
        let agent = builder.build().expect("it is well made");
        agent.explain("t", json!({"url": "https://prod.example"})).await
    };
    let (with, without) = (explain(true).await, explain(false).await);
    assert_eq!((with.verdict, with.decided_by.as_str()), ("pass", "zone"));
    assert_eq!(with.considered, without.considered);
}
