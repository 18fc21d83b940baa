//! The floor and the person: who is asked, who may answer, and what is said to the model.

use cotter::{
    AgentBuilder, Cx, Output, Permit, Place, Tool, ToolSpec, Verdict,
    permission::{Mode, Rule, RuleKind, Zone},
    points::{ToolCalled, ToolPre},
    tool::{Facts, Working},
};
use cotter_test::{Said, ScriptedUi, Step};
use serde_json::{Value, json};

use super::kit::{Log, any_object, call, holds, play, safe, tool, touching};

/// What becomes of a call of `t` that touches something of that zone: `pass`, `ask` or `block`.
async fn decided(zone: Zone, build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> &'static str {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        build(agent.tool(touching("t", &log, zone)).ui(ScriptedUi::new([Said::Yes])))
    })
    .await;
    let (asked, ran) = (!played.heard(&["permission.request"]).is_empty(), !log.lines().is_empty());
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

pub(super) async fn nobody_is_there_to_be_asked() {
    let log = Log::default();
    let noting = log.clone();
    let played = play([call("ask_user").and_call("t", json!({})), Step::text("done")], |agent| {
        agent.tool(touching("t", &log, Zone::External)).on(
            ToolPre,
            move |_: &ToolCalled, cx: &Cx| {
                noting.add(format!("has ui: {}", cx.has_ui()));
                Verdict::Pass
            },
        )
    })
    .await;
    holds(played.results()[0], "c1.1 (not_found): Unknown tool: ask_user.");
    holds(played.results()[1], "c1.2 (denied): ");
    holds(played.results()[1], "nobody is there to be asked");
    assert_eq!(log.lines(), ["has ui: false"]);
}

/// Who does not answer in time has not said yes.
pub(super) async fn silence_is_a_no() {
    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent.tool(touching("t", &log, Zone::External)).ui(ScriptedUi::new([Said::Silence]))
    })
    .await;
    holds(
        played.results()[0],
        "c1.1 (denied): Permission denied for `t`: zone `external` asks at level `standard`, and nobody answered in time",
    );
    assert!(log.lines().is_empty(), "it ran");
}

/// Nothing but an object is an input: it is refused before anybody is asked.
pub(super) async fn an_input_that_is_none_is_not_asked_about(input: Value) {
    let log = Log::default();
    let ui = ScriptedUi::new([Said::Yes]);
    let played = play([Step::call("t", input), Step::text("done")], |agent| {
        agent.tool(touching("t", &log, Zone::External)).ui(ui.clone())
    })
    .await;
    holds(played.results()[0], "c1.1 (invalid_args): ");
    assert_eq!((ui.questions().len(), log.lines().len()), (0, 0));
}

pub(super) async fn an_answer_is_bound_to_the_input_as_it_was_shown() {
    let mut shown = vec![];
    for input in [r#"{"b":2,"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#] {
        let log = Log::default();
        let ui = ScriptedUi::new([Said::Yes]);
        let step = Step::call("b", serde_json::from_str(input).expect("JSON"));
        play([step, Step::text("done")], |agent| {
            agent.tool(touching("b", &log, Zone::External)).ui(ui.clone())
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

/// A tool is judged by what it says it touches; one that says nothing asks, whatever it is called.
pub(super) async fn a_name_decides_nothing(name: &str) {
    for (facts, asks) in [(Facts::unknown(), true), (Facts::zone(Zone::Safe), false)] {
        let log = Log::default();
        let ui = ScriptedUi::new([Said::Yes]);
        play([call(name), Step::text("done")], |agent| {
            agent.tool(touching(name, &log, facts.zone)).ui(ui.clone())
        })
        .await;
        assert_eq!(ui.questions().len(), usize::from(asks), "{facts:?}");
        assert_eq!(log.lines(), [format!("{name} {{}}")]);
    }
}

pub(super) async fn modes_where_no_rule_speaks() {
    let modes = [
        (Mode::Ask, "ask"),
        (Mode::AcceptEdits, "ask"),
        (Mode::Plan, "block"),
        (Mode::Auto, "block"),
    ];
    for (mode, expected) in modes {
        let got = decided(Zone::External, |agent| agent.mode(mode)).await;
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
        let got = decided(Zone::Safe, |agent| agent.mode(mode).rule(asks)).await;
        assert_eq!(got, expected, "{mode}");
    }
}

pub(super) async fn deny_then_ask_then_allow_then_zone() {
    use RuleKind::{Allow, Ask, Deny};
    let table: [(&[RuleKind], &str); 4] =
        [(&[Allow, Ask, Deny], "block"), (&[Allow, Ask], "ask"), (&[Allow], "pass"), (&[], "ask")];
    for (kinds, expected) in table {
        let got = decided(Zone::Machine, |agent| {
            kinds.iter().fold(agent, |agent, kind| agent.rule(rule(*kind, "t")))
        })
        .await;
        assert_eq!(got, expected, "{kinds:?}");
    }
}

/// A tool that cannot say what a call touches.
struct Confused(ToolSpec);

impl Tool for Confused {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, _: &Value, _: &Place) -> Facts {
        panic!("no idea")
    }

    fn run(&self, _: Permit) -> Working<'_> {
        Box::pin(async { Ok(Output::from("ran")) })
    }
}

pub(super) async fn a_check_that_fails_refuses() {
    let confused = Confused(ToolSpec::new("t", "for a test", any_object()));
    let played = play([call("t"), Step::text("done")], |agent| agent.tool(confused)).await;
    holds(played.results()[0], "c1.1 (denied): ");
    assert_eq!(played.reason(), "end_turn");

    let log = Log::default();
    let played = play([call("t"), Step::text("done")], |agent| {
        let fails = |_: &ToolCalled| Err::<Verdict, _>("the classifier is ill");
        agent.tool(tool("t", &log, Ok("ran"))).on(ToolPre, fails)
    })
    .await;
    holds(played.results()[0], "the classifier is ill");
    assert_eq!((log.lines().len(), played.reason()), (0, "end_turn"));
}

pub(super) async fn a_no_is_told_with_its_words() {
    let log = Log::default();
    let played = play([call("write"), Step::text("done")], |agent| {
        let ui = ScriptedUi::new([Said::No("use the other file".into())]);
        agent.tool(touching("write", &log, Zone::External)).ui(ui)
    })
    .await;
    assert_eq!(
        played.results(),
        [
            "c1.1 (denied): Permission denied for `write`: use the other file. Do not retry this exact call."
        ]
    );
    assert_eq!(
        played.heard(&["permission.response", "tool.refused"]),
        ["permission.response c1.1=false by test", "tool.refused c1.1 test: use the other file"]
    );
    assert!(log.lines().is_empty());
}

/// A call that a tool makes for the model is judged by what it is itself.
pub(super) async fn a_call_within_a_call_is_judged_for_itself() {
    let log = Log::default();
    let ui = ScriptedUi::new([Said::No("not her".into())]);
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
            .tool(touching("space_run_action", &log, Zone::External))
            .ui(ui.clone())
    })
    .await;
    assert_eq!(
        ui.shown(),
        format!("space_run_action {args} <- zone: zone `external` asks at level `standard`\n")
    );
    holds(played.results()[0], "c1.1 (denied): ");
    holds(played.results()[0], "not her");
    assert!(log.lines().is_empty());
}
