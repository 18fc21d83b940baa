//! Commands: the start of a person's text, the command that runs, and the text that the model gets.

use std::time::Duration;

use cotter::{
    Agent, Command, Origin, Owner,
    agent::controls::SendTime,
    history::message::{Content, ContentPart},
    hooks::points::{UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent},
    invoke::command::CommandCx,
    named,
};
use cotter_test::{ScriptedModel, Step};
use futures_util::FutureExt;

use super::kit::{Log, Stage, any_object, assert_contains, call, safe, tool};

/// A command that logs its arguments.
fn command(log: &Log, name: &'static str) -> Command {
    let log = log.clone();
    Command::new(name, move |cx: CommandCx| {
        log.add(format!("{name} {:?}", cx.args_raw));
        async {}
    })
}

pub(super) async fn any_whitespace_ends_a_name() {
    let log = Log::default();
    let stage = Stage::new([], |agent| agent.define_command(command(&log, "hi")));
    for text in ["/hi\nfoo", "/hi\tfoo", " /hi x"] {
        let played = stage.say(text).await;
        assert_eq!((played.reason(), played.transcript.as_str()), ("end_turn", ""));
    }
    assert_eq!(log.lines(), [r#"hi "foo""#, r#"hi "foo""#, r#"hi "x""#]);
    assert!(stage.model.requests().is_empty());
}

pub(super) async fn failed_command_is_reported_and_stores_nothing() {
    let stage = Stage::new([], |agent| {
        let bad = Command::new("bad", |_| async { Err::<(), _>("kaboom") });
        agent.define_command(bad)
    });
    let played = stage.say("/bad x").await;
    let told = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    assert_eq!(told, Some("command \"/bad\" failed: kaboom"));
    assert_eq!((played.reason(), played.transcript.as_str()), ("error", ""));
    assert!(played.requests.is_empty());
}

/// A second command of a name from the same origin is refused; the first one stays.
pub(super) async fn first_command_of_a_name_wins() {
    let log = Log::default();
    let first = command(&log, "review");
    let stage = Stage::new([Step::text("ok")], |agent| agent.define_command(first));
    let second = Command::new("review", |_| async { "a prompt" });
    let refused = stage.agent.define_command(second).expect_err("the name is taken");
    assert_contains(&refused.to_string(), "command `review` is already registered");
    assert_eq!(stage.agent.commands().len(), 1);
    stage.say("/review z").await;
    assert_eq!(log.lines(), [r#"review "z""#]);
    assert!(stage.model.requests().is_empty(), "the bare name is no prompt");
    stage.say("/review:1 x").await;
    assert_eq!(stage.model.shown(), "user: /review:1 x\n");
}

pub(super) async fn a_unit_with_two_commands_of_a_name_is_refused() {
    let log = Log::default();
    let agent = Agent::builder(ScriptedModel::new([])).build().expect("it builds");
    let loaded = agent.extend(Owner::new(Origin::User, "mine"), |unit| {
        unit.define_command(command(&log, "y"));
        unit.define_command(command(&log, "x"));
        unit.define_command(command(&log, "x"));
    });
    let error = loaded.expect_err("one name, two commands");
    assert_contains(&error.to_string(), "command `x` is already registered");
    assert!(agent.commands().is_empty(), "a unit loads whole or not at all");
}

pub(super) async fn command_fires_no_user_prompt_submit() {
    let log = Log::default();
    let seen = log.clone();
    let stage = Stage::new([Step::text("ok")], |agent| {
        agent
            .define_command(command(&log, "c"))
            .observe(UserPromptSubmit, move |prompt: &UserPromptSubmitEvent| {
                seen.add(&prompt.prompt)
            })
    });
    stage.say("/c a").await;
    stage.say("plain").await;
    assert_eq!(log.lines(), [r#"c "a""#, "plain"]);
    assert_eq!(stage.model.shown(), "user: plain\n");
}

pub(super) async fn a_command_runs_at_once_beside_a_run() {
    let log = Log::default();
    let noting = log.clone();
    let slow = Step::text("a b c").and_delay(Duration::from_millis(10));
    let stage = Stage::new([slow], |agent| {
        agent.define_command(Command::new("c", move |cx: CommandCx| {
            let idle = cx.controls.session().idle().now_or_never().is_some();
            noting.add(format!("c {:?} idle: {idle}", cx.args_raw));
            async {}
        }))
    });
    let session = stage.session().await;
    let run = tokio::spawn(session.prompt("go").into_future());
    tokio::time::sleep(Duration::from_millis(5)).await;
    let reply = session.prompt("/c now").await.expect("it does not fail");
    assert_eq!((reply.run_id.as_str(), reply.text().as_str()), ("", ""));
    assert_eq!(log.lines(), [r#"c "now" idle: false"#]);
    assert!(!run.is_finished());
    assert_eq!(run.await.expect("no panic").expect("a reply").text(), "a b c");
}

/// Steering text comes from a program: it calls no command and reaches the model unchanged.
pub(super) async fn a_command_is_not_queued() {
    let log = Log::default();
    let stage = Stage::new([call("t"), Step::text("done")], |agent| {
        let steers = safe("t", any_object(), |permit| {
            permit.cx().controls().send("/c x", SendTime::Steer);
            async { Ok("ok".into()) }
        });
        agent.tool(steers).define_command(command(&log, "c"))
    });
    let played = stage.play().await;
    assert!(log.lines().is_empty());
    assert_eq!(played.sent(2).last().map(String::as_str), Some("user: /c x"));
}

/// A transform that adds text before and after a prompt.
fn around(
    before: &'static str,
    after: &'static str,
) -> impl Fn(&UserPromptSubmitEvent) -> UserPromptSubmitChange {
    move |prompt: &UserPromptSubmitEvent| {
        UserPromptSubmitChange::Prompt(format!("{before}{}{after}", prompt.prompt))
    }
}

pub(super) async fn a_rewrite_keeps_the_pictures() {
    let picture = ContentPart::Image { media_type: "image/png".into(), data: "orig".into() };
    let stage =
        Stage::new([Step::text("ok")], |agent| agent.transform(UserPromptSubmit, around("T:", "")));
    stage.say(vec![ContentPart::Text("hi".into()), picture.clone()]).await;
    let requests = stage.model.requests();
    let Some(cotter::Message::User(sent)) = requests[0].messages.iter().next() else {
        panic!("a prompt")
    };
    assert_eq!(sent.content, Content::Parts(vec![ContentPart::Text("T:hi".into()), picture]));
}

/// A prompt that a transform blocks: no later handler and no model is asked.
pub(super) async fn blocked_prompt_stops_the_chain_and_the_model() {
    let log = Log::default();
    let seen = log.clone();
    let stage = Stage::new([], |agent| {
        agent
            .transform(
                UserPromptSubmit,
                named("taker", |_: &UserPromptSubmitEvent| {
                    UserPromptSubmitChange::Block("handled".into())
                }),
            )
            .transform(UserPromptSubmit, move |_: &UserPromptSubmitEvent| {
                seen.add("second");
                UserPromptSubmitChange::Keep
            })
    });
    let played = stage.say("X").await;
    assert_eq!((played.reason(), played.transcript.as_str()), ("blocked", ""));
    let told = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    assert_eq!(told, Some("hook \"taker\" refused the prompt: handled"));
    assert!(log.lines().is_empty() && played.requests.is_empty());
}

pub(super) async fn a_failing_rewrite_refuses_the_prompt() {
    let stage = Stage::new([], |agent| {
        let fails =
            named("fails", |_: &UserPromptSubmitEvent| Err::<UserPromptSubmitChange, _>("boom"));
        agent.transform(UserPromptSubmit, fails).transform(UserPromptSubmit, around("", "!"))
    });
    let played = stage.say("z").await;
    assert_eq!((played.reason(), played.transcript.as_str()), ("blocked", ""));
    let told = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    assert_eq!(told, Some("hook \"fails\" refused the prompt: boom"));
    let heard = played.find_events(&["hook user.prompt.submit"]);
    assert_eq!(heard, ["hook user.prompt.submit fails transform failed"]);
    assert!(played.requests.is_empty());
}

pub(super) async fn a_rewrite_calls_no_command() {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| {
        agent
            .transform(UserPromptSubmit, around("/c ", ""))
            .define_command(command(&log, "c"))
            .tool(tool("t", &log, Ok("ok")))
    });
    stage.say("z").await;
    assert_eq!(stage.model.shown(), "user: /c z\n");
    assert!(log.lines().is_empty());
}
