//! `ask_user`: the question that the person sees, the answer that the model gets. R11, S1, S4, S29.

use std::time::Duration;

use cotter::{
    Agent, AgentConfig, FnTool, Subagent, ToolSpec,
    permission::{Zone, facts::Facts},
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use cotter_tools::agents::ask_user::AskUser;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

/// Compares the questions to the person, and the conversation.
async fn check(input: Value, answers: impl IntoIterator<Item = PersonAnswer>, expected: Expect) {
    let person = ScriptedUi::new(answers);
    let model = ScriptedModel::new([Step::call("ask_user", input), Step::text("I see.")]);
    let agent = Agent::builder(model).ui(person.clone()).hook(AskUser::default()).build().unwrap();
    agent.process_request("go").await.unwrap();
    let shown = transcript(&agent.main_session().await.unwrap());
    let shown = format!("{}--\n{}", person.prompts(), cotter::text::show(&shown));
    expected.assert_eq(&shown);
}

#[tokio::test]
async fn r11_ask_user_returns_the_typed_answer() {
    check(
        json!({"question": "Which port?"}),
        [PersonAnswer::Line(" 8080 ".into())],
        expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Which port?
        --
        user: go
        call c1.1: ask_user {"question":"Which port?"}
        result c1.1: The person said: 8080
        assistant: I see.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn r11_ask_user_returns_the_chosen_option() {
    let input = json!({"question": "Which colour?", "options": ["red", "blue"]});
    check(
        input,
        [PersonAnswer::Choice(1)],
        expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Which colour?
        - red
        - blue
        - Something else
        --
        user: go
        call c1.1: ask_user {"question":"Which colour?","options":["red","blue"]}
        result c1.1: The person chose "blue".
        assistant: I see.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn r11_ask_user_accepts_an_answer_that_is_not_an_option() {
    let input = json!({"question": "Which colour?", "options": ["red", "blue"]});
    check(
        input,
        [PersonAnswer::Choice(2), PersonAnswer::Line("green".into())],
        expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Which colour?
        - red
        - blue
        - Something else
        The agent has a question. Your answer allows nothing to run.
        │ Which colour?
        --
        user: go
        call c1.1: ask_user {"question":"Which colour?","options":["red","blue"]}
        result c1.1: The person said: green
        assistant: I see.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn r11_ask_user_returns_several_chosen_options() {
    let input = json!({"question": "Which?", "options": ["a", "b", "c"], "multiple": true});
    let answers = [PersonAnswer::Choices(vec![3, 2, 0, 2, 9]), PersonAnswer::Line("and d".into())];
    check(
        input,
        answers,
        expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Which?
        - a
        - b
        - c
        - Something else
        The agent has a question. Your answer allows nothing to run.
        │ Which?
        --
        user: go
        call c1.1: ask_user {"question":"Which?","options":["a","b","c"],"multiple":true}
        result c1.1: The person chose "a" and "c", and said: and d
        assistant: I see.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn r11_ask_user_reports_that_there_was_no_answer() {
    check(json!({"question": "Well?"}), [PersonAnswer::Nothing], expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Well?
        --
        user: go
        call c1.1: ask_user {"question":"Well?"}
        result c1.1: The person did not answer. Do not ask the same again: continue with the most likely meaning and say so, or say what you need to know.
        assistant: I see.
    "#]]).await;
    let input = json!({"question": "Well?", "options": ["a", "b"]});
    check(input, [PersonAnswer::Choice(2), PersonAnswer::Nothing], expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Well?
        - a
        - b
        - Something else
        The agent has a question. Your answer allows nothing to run.
        │ Well?
        --
        user: go
        call c1.1: ask_user {"question":"Well?","options":["a","b"]}
        result c1.1: The person did not answer. Do not ask the same again: continue with the most likely meaning and say so, or say what you need to know.
        assistant: I see.
    "#]]).await;
    let input = json!({"question": "Well?", "options": ["a", "b"]});
    check(input, [PersonAnswer::Choice(7)], expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Well?
        - a
        - b
        - Something else
        --
        user: go
        call c1.1: ask_user {"question":"Well?","options":["a","b"]}
        result c1.1: The person did not answer. Do not ask the same again: continue with the most likely meaning and say so, or say what you need to know.
        assistant: I see.
    "#]]).await;
    check(
        json!({"question": "Well?"}),
        [PersonAnswer::Line("  ".into())],
        expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Well?
        --
        user: go
        call c1.1: ask_user {"question":"Well?"}
        result c1.1: The person left the answer empty.
        assistant: I see.
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r11_ask_user_times_out_if_the_person_never_answers() {
    let person = ScriptedUi::new([PersonAnswer::Silence]);
    let model =
        ScriptedModel::new([Step::call("ask_user", json!({"question": "?"})), Step::text("ok")]);
    let hook = AskUser::default().with_limit(Duration::from_secs(60));
    let agent = Agent::builder(model).ui(person).hook(hook).build().unwrap();
    agent.process_request("go").await.unwrap();
    expect![[r#"
        user: go
        call c1.1: ask_user {"question":"?"}
        result c1.1: The person did not answer. Do not ask the same again: continue with the most likely meaning and say so, or say what you need to know.
        assistant: ok
    "#]].assert_eq(&transcript(&agent.main_session().await.unwrap()));
}

#[tokio::test]
async fn r11_ask_user_without_a_person_is_a_result_and_no_error() {
    let model =
        ScriptedModel::new([Step::call("ask_user", json!({"question": "?"})), Step::text("ok")]);
    let agent = Agent::builder(model).hook(AskUser::default()).build().unwrap();
    agent.process_request("go").await.unwrap();
    expect![[r#"
        user: go
        call c1.1: ask_user {"question":"?"}
        result c1.1: There is no person to ask. Do not ask again: choose the most likely meaning, and say that you did.
        assistant: ok
    "#]].assert_eq(&transcript(&agent.main_session().await.unwrap()));
}

#[tokio::test]
async fn r11_ask_user_refuses_invalid_questions() {
    let mut shown = String::new();
    for input in [
        json!({}),
        json!({"question": "  "}),
        json!({"question": "?", "options": ["one"]}),
        json!({"question": "?", "options": ["1", "2", "3", "4", "5", "6", "7", "8", "9"]}),
        json!({"question": "?", "options": ["a", " a"]}),
        json!({"question": "?", "options": ["a", " "]}),
    ] {
        let person = ScriptedUi::new([PersonAnswer::Line("never".into())]);
        let model = ScriptedModel::new([Step::call("ask_user", input), Step::text("ok")]);
        let hook = AskUser::default();
        let agent = Agent::builder(model).ui(person.clone()).hook(hook).build().unwrap();
        agent.process_request("go").await.unwrap();
        let all = transcript(&agent.main_session().await.unwrap());
        shown += all.lines().find(|line| line.starts_with("result")).unwrap();
        shown += "\n";
        assert_eq!(person.prompts(), "", "nobody was asked");
    }
    expect![[r#"
        result c1.1 (invalid_args): Invalid arguments for `ask_user`: "question" is a required property.
        result c1.1 (invalid_args): the question is empty
        result c1.1 (invalid_args): Invalid arguments for `ask_user`: /options: ["one"] has less than 2 items.
        result c1.1 (invalid_args): Invalid arguments for `ask_user`: /options: ["1","2","3","4","5","6","7","8","9"] has more than 8 items.
        result c1.1 (invalid_args): two options are the same
        result c1.1 (invalid_args): an option is empty
    "#]].assert_eq(&shown);
}

/// S29, S4: every line of the model's text is shown behind a bar, with hidden characters escaped.
#[tokio::test]
async fn s4_ask_user_question_cannot_look_like_a_permission_question() {
    let question = "1. bash {\"command\":\"ls\"}\n   asked by zone: it writes\r\nRun it? [y]es, [n]o: \
                    \u{1b}[2J\u{202e}\u{2028}The agent has no question.";
    let options = json!(["y\n1. bash {}", "n\u{1b}[A"]);
    check(json!({"question": question, "options": options}), [PersonAnswer::Choice(0)], expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ 1. bash {"command":"ls"}
        │    asked by zone: it writes\u{d}
        │ Run it? [y]es, [n]o: \u{1b}[2J\u{202e}\u{2028}The agent has no question.
        - y\n1. bash {}
        - n\u{1b}[A
        - Something else
        --
        user: go
        call c1.1: ask_user {"question":"1. bash {\"command\":\"ls\"}\n   asked by zone: it writes\r\nRun it? [y]es, [n]o: \u001b[2J\u{202e}\u{2028}The agent has no question.","options":["y\n1. bash {}","n\u001b[A"]}
        result c1.1: The person chose "y
        1. bash {}".
        assistant: I see.
    "#]])
        .await;
}

/// S4: a line that is longer than a screen is wide goes on behind the bar.
#[tokio::test]
async fn s4_ask_user_wraps_long_lines_behind_the_bar() {
    let long = format!("Look:{}Run it? [y]es, [n]o: {}", " ".repeat(120), "x".repeat(100));
    check(json!({"question": long}), [PersonAnswer::Line("no".into())], expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Look:
        │                                                      Run it? [y]es,
        │ [n]o:
        │ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        │ xxxxxxxxxxxxxxxxxxxxxxxxxxxx
        --
        user: go
        call c1.1: ask_user {"question":"Look:                                                                                                                        Run it? [y]es, [n]o: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
        result c1.1: The person said: no
        assistant: I see.
    "#]]).await;
    check(json!({"question": "\u{6771}".repeat(80)}), [PersonAnswer::Line("no".into())], expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ 東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東
        │ 東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東
        │ 東東東東東東東東
        --
        user: go
        call c1.1: ask_user {"question":"東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東東"}
        result c1.1: The person said: no
        assistant: I see.
    "#]])
        .await;
}

/// S1: a yes to a question of the model's own is no yes to a call.
#[tokio::test]
async fn s1_ask_user_answer_approves_no_call() {
    let spec = ToolSpec::new("deploy", "Deploys.", json!({"type": "object"}));
    let deploy = FnTool::new(spec, |_| async { Ok("deployed".into()) });
    let question = json!({"question": "May I deploy?", "options": ["yes", "no"]});
    let model = ScriptedModel::new([
        Step::call("ask_user", question).and_call("deploy", json!({})),
        Step::call("deploy", json!({})),
        Step::text("ok"),
    ]);
    // Of the step's own question first, then the model's, then the next step's.
    let person =
        ScriptedUi::new([PersonAnswer::Nothing, PersonAnswer::Choice(0), PersonAnswer::Nothing]);
    let agent = Agent::builder(model)
        .tool(deploy.with_facts(Facts::zone(Zone::External)))
        .ui(person.clone())
        .hook(AskUser::default())
        .build()
        .unwrap();
    agent.process_request("go").await.unwrap();
    let shown = transcript(&agent.main_session().await.unwrap());
    expect![[r#"
        deploy {} <- zone: zone `external` asks at level `standard`
        --
        deploy {} <- zone: zone `external` asks at level `standard`
        --
        The agent has a question. Your answer allows nothing to run.
        │ May I deploy?
        - yes
        - no
        - Something else
        --
        user: go
        call c1.1: ask_user {"question":"May I deploy?","options":["yes","no"]}
        call c1.2: deploy {}
        result c1.1: The person chose "yes".
        result c1.2 (denied): Permission denied for `deploy`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        call c2.1: deploy {}
        result c2.1 (denied): Permission denied for `deploy`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        assistant: ok
    "#]].assert_eq(&format!("{}--\n{}--\n{shown}", person.shown(), person.prompts()));
}

/// A subagent's question is put under its name.
#[tokio::test]
async fn r11_ask_user_of_a_subagent_shows_its_name() {
    let model = ScriptedModel::new([
        Step::call("invoke_subagent", json!({"name": "scout", "prompt": "p"})),
        Step::call("ask_user", json!({"question": "Left or right?"})),
        Step::text("Left."),
        Step::text("ok"),
    ]);
    let person = ScriptedUi::new([PersonAnswer::Line("left".into())]);
    let agent = Agent::builder(model)
        .define_mention(Subagent::agent(AgentConfig::new("scout")))
        .ui(person.clone())
        .hook(AskUser::default())
        .build()
        .unwrap();
    agent.process_request("go").await.unwrap();
    expect![[r#"
        The subagent scout has a question. Your answer allows nothing to run.
        │ Left or right?
    "#]]
    .assert_eq(&person.prompts());
}

/// The question goes with the run.
#[tokio::test]
async fn r11_abort_ends_an_ask_user_question() {
    let model =
        ScriptedModel::new([Step::call("ask_user", json!({"question": "?"})), Step::text("ok")]);
    let agent = Agent::builder(model)
        .ui(ScriptedUi::new([PersonAnswer::Silence]))
        .hook(AskUser::default())
        .build()
        .unwrap();
    let session = agent.main_session().await.unwrap();
    let mut run = session.prompt("go");
    while let Some(event) = run.next().await {
        if event.kind.name() == "tool.call" {
            session.abort();
        }
    }
    let _ = run.reply().await;
    expect![[r#"
        user: go
        call c1.1: ask_user {"question":"?"}
        result c1.1 (cancelled): Cancelled while it ran.
    "#]]
    .assert_eq(&transcript(&session));
}
