//! The context that the model gets: context transforms, messages and entries of extensions, the summary of
//! a branch.

use cotter::{
    Command, Message,
    history::entry::EntryBody,
    hooks::points::{Context, ContextChange, ContextEvent},
    invoke::command::CommandCx,
    named,
};
use cotter_test::{Step, transcript};
use serde_json::{Map, Value, json};

use super::kit::{Log, Played, Stage, any_object, call, play, safe, tool};

/// A transform that adds a message.
fn appends(text: &'static str) -> impl Fn(&ContextEvent) -> ContextChange {
    move |build: &ContextEvent| {
        ContextChange::messages(build.messages.iter().cloned().chain([Message::user(text)]))
    }
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn types(played: &Played) -> Vec<String> {
    let types = played.session.entries().into_iter().map(|entry| match entry.body() {
        EntryBody::Message(Message::User(_)) => "user".into(),
        EntryBody::Message(Message::Assistant(_)) => "assistant".into(),
        EntryBody::Message(_) => "toolResult".into(),
        _ => entry.to_json()["type"].as_str().unwrap_or_default().to_owned(),
    });
    types.collect()
}

/// A transform that fails ends the run, because it may be the one that hides something from the model.
pub(super) async fn a_failing_transform_ends_the_run() {
    let stage = Stage::new([], |agent| {
        let fails = named("fails", |_: &ContextEvent| Err::<ContextChange, _>("ctxboom"));
        let agent = agent.transform(Context, appends("A")).transform(Context, fails);
        agent.transform(Context, appends("C"))
    });
    let played = stage.say("q").await;
    assert_eq!((played.reason(), played.transcript.as_str()), ("error", "user: q\n"));
    let told = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    assert_eq!(told, Some("hook \"fails\" failed to build the context: ctxboom"));
    assert!(played.requests.is_empty());
}

pub(super) async fn transform_adds_messages_to_the_request() {
    let stage = Stage::new([Step::text("ok")], |agent| agent.transform(Context, appends("P")));
    let played = stage.say("q").await;
    assert_eq!(stage.model.shown(), "user: q\nuser: P\n");
    assert_eq!(played.transcript, "user: q\nassistant: ok\n");
}

pub(super) async fn transform_replaces_messages_of_the_request() {
    let replaces = |_: &ContextEvent| ContextChange::messages([Message::user("MUT")]);
    let stage = Stage::new([Step::text("ok")], |agent| agent.transform(Context, replaces));
    let played = stage.say("q").await;
    assert_eq!(stage.model.shown(), "user: MUT\n");
    assert_eq!(played.transcript, "user: q\nassistant: ok\n");
}

pub(super) async fn the_context_is_built_for_each_request() {
    let log = Log::default();
    let seen = log.clone();
    let played = play([call("t"), Step::text("done")], |agent| {
        agent
            .tool(tool("t", &Log::default(), Ok("ok")))
            .observe(Context, move |build: &ContextEvent| seen.add(build.messages.len()))
    })
    .await;
    assert_eq!((log.lines(), played.requests.len()), (vec!["1".into(), "3".into()], 2));
}

/// Replaces each entry `branch_summary` by a message with its summary, at its position.
fn branches(build: &ContextEvent) -> ContextChange {
    let shown = build.entries().into_iter().filter_map(|entry| match entry.body() {
        EntryBody::Custom(fields) if fields["type"] == "branch_summary" => {
            let summary = fields["summary"].as_str().unwrap_or_default();
            Some(Message::user(format!("<summary>\n{summary}</summary>")))
        }
        EntryBody::Message(message) => Some(message.clone()),
        _ => None,
    });
    ContextChange::messages(shown)
}

pub(super) async fn abandoned_branch_is_sent_as_its_summary() {
    let steps = ["r1", "r2", "r3"].map(Step::text);
    let stage = Stage::new(steps, |agent| agent.transform(Context, branches));
    stage.say("u1").await;
    stage.say("u2").await;
    let session = stage.session().await;
    let second = session.entries()[2].clone();
    session.navigate(second.parent_id().map(|id| id.as_str())).await.expect("r1 is there");
    let about = json!({"type": "branch_summary", "fromId": &**second.id(), "summary": "did stuff"});
    session.save_entry(fields(about)).expect("a type of our own");
    let played = stage.say("u3").await;
    assert_eq!(
        played.sent(3),
        ["user: u1", "assistant: r1", "user: <summary>\ndid stuff</summary>", "user: u3"]
    );
    assert_eq!(types(&played), ["user", "assistant", "branch_summary", "user", "assistant"]);
}

/// Stores a message and two entries, one of them with secret details. The model gets only the message.
fn notes(cx: &CommandCx) {
    let stored = "it is stored";
    cx.controls.save_entry(fields(json!({"type": "st", "n": 1}))).expect(stored);
    cx.controls.append_message(Message::user("note")).expect(stored);
    cx.controls.save_entry(fields(json!({"type": "m", "details": "secret"}))).expect(stored);
}

pub(super) async fn custom_entries_are_stored_and_only_messages_sent() {
    let stage = Stage::new([Step::text("ok")], |agent| {
        agent.define_command(Command::new("note", |cx: CommandCx| async move { notes(&cx) }))
    });
    stage.say("/note").await;
    let played = stage.say("q").await;
    assert_eq!(types(&played), ["st", "user", "m", "user", "assistant"]);
    assert_eq!(stage.model.shown(), "user: note\nuser: q\n");
}

pub(super) async fn appended_message_starts_no_request() {
    let stage = Stage::new([], |agent| {
        agent.define_command(Command::new("n", |cx: CommandCx| async move {
            cx.controls.append_message(Message::user("N")).map(drop)
        }))
    });
    let played = stage.say("/n").await;
    assert_eq!((played.transcript.as_str(), played.requests.len()), ("user: N\n", 0));
}

pub(super) async fn nothing_comes_between_a_call_and_its_result() {
    let stage = Stage::new([call("t"), Step::text("done")], |agent| {
        agent.tool(safe("t", any_object(), |permit| {
            let added = permit.cx().controls().append_message(Message::user("N"));
            async {
                added.map(|_| "ok".into()).map_err(|e| cotter::ToolError::failed(e.to_string()))
            }
        }))
    });
    let played = stage.play().await;
    let stored = "user: go\ncall c1.1: t {}\nresult c1.1: ok\nuser: N\nassistant: done\n";
    assert_eq!(transcript(&played.session), stored);
    assert_eq!(played.sent(2).last().map(String::as_str), Some("user: N"));
}
