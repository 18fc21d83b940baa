//! Commands: listed, completed, called by name or by a leading `/name`, alone or during a run. P1, P2, P3.

use std::sync::Arc;

use cotter::{
    Agent, Command, FnTool, Message, Origin, Owner,
    history::message::ContentPart,
    invoke::command::{CommandCx, CommandResult},
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, spec, transcript};
use expect_test::{Expect, expect};
use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

fn entry(kind: &str) -> Map<String, Value> {
    json!({"type": kind}).as_object().unwrap().clone()
}

async fn burst() -> CommandResult {
    panic!("boo")
}

/// A command that returns its name and arguments.
fn echo_command(name: &'static str) -> Command {
    Command::new(name, |cx: CommandCx| async move {
        CommandResult::Status(format!("{} {:?} {:?}", cx.name, cx.args, cx.args_raw))
    })
}

/// Sends typed texts and checks the replies and the requests to the model.
async fn check(typed: &[&str], expected: Expect) {
    let model =
        RecordingModel::new(ScriptedModel::new((0..typed.len()).map(|_| Step::text("said"))));
    let agent = Agent::builder(model.clone())
        .define_command(echo_command("say"))
        .define_command(echo_command("ns:say"))
        .define_command(Command::new("quiet", |_| async {}))
        .define_command(Command::new("ask", |cx: CommandCx| async move { cx.args_raw }))
        .define_command(Command::new("fail", |_| async { Err::<(), _>("no such branch") }))
        .define_command(Command::new("burst", |_| burst()).description("Bursts."))
        .define_hook("loud", |cx: cotter::HookCx| async move {
            cotter::HookResult::rewrite(cx.parsed_text.to_uppercase())
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let mut shown = String::new();
    for typed in typed {
        let reply = session.prompt(*typed).await;
        let words = reply.as_ref().map_or_else(|_| String::new(), cotter::Reply::text);
        let run = reply.as_ref().map_or_else(|e| e.reply.run_id.clone(), |r| r.run_id.clone());
        shown += &format!("{typed:?} -> {} {run:?} {words:?}\n", ending(&reply));
    }
    shown += &format!("--\n{}--\n{}", model.shown(), transcript(&session));
    expected.assert_eq(&shown);
}

/// P1: all commands are listed with descriptions, including the shadowed ones.
#[tokio::test]
async fn p1_commands_are_listed_completed_and_removed() {
    let branches = |typed: &str| -> Vec<String> {
        ["main", "make"].iter().filter(|b| b.starts_with(typed)).map(|b| (*b).into()).collect()
    };
    let agent = Agent::builder(ScriptedModel::new([]))
        .define_command(echo_command("say").description("Says it."))
        .define_command(echo_command("switch").completions(branches))
        .build()
        .unwrap();
    let user = Owner::new(Origin::User, "settings");
    agent.extend(user.clone(), |unit| _ = unit.define_command(echo_command("mine"))).unwrap();
    let shadowed = agent.extend(Owner::new(Origin::Project, "p"), |unit| {
        unit.define_command(echo_command("mine").description("The project's."));
    });
    shadowed.unwrap();
    let taken = agent.define_command(echo_command("say")).unwrap_err().to_string();
    let no_name = agent.define_command(echo_command("no name")).unwrap_err().to_string();
    let builtin = agent.extend(user, |unit| _ = unit.define_command(echo_command("say")));
    let mut shown = format!("{taken}\n{no_name}\n{:?}\n", builtin.map_err(|e| e.to_string()));
    for command in agent.commands() {
        let shadow =
            command.shadowed_by.map(|by| format!(", shadowed by {by}")).unwrap_or_default();
        shown +=
            &format!("/{} {:?} of {}{shadow}\n", command.name, command.description, command.owner);
    }
    for (name, typed) in [("switch", "ma"), ("switch", "mai"), ("say", ""), ("nobody", "")] {
        shown += &format!("{name} {typed:?}: {:?}\n", agent.complete_command(name, typed));
    }
    shown += &format!("{} {}\n", agent.undefine_command("say"), agent.undefine_command("say"));
    expect![[r#"
        command `say` is already registered by embedder (program)
        `no name` cannot be the name of a command
        Err("command `say` is already registered by embedder (program)")
        /say "Says it." of embedder (program)
        /switch "" of embedder (program)
        /mine "" of user (settings), shadowed by project (p)
        /mine "The project's." of project (p)
        switch "ma": ["main", "make"]
        switch "mai": ["main"]
        say "": []
        nobody "": []
        true false
    "#]]
    .assert_eq(&shown);
    let session = fresh(&agent).await;
    assert!(session.invoke_command("say", "x").await.is_none(), "it is gone");
    assert!(
        session.invoke_command("/switch", "").await.is_none(),
        "the slash is no part of a name"
    );
}

/// P1, P2: a call by name, without a prompt. Nothing is stored and no request is sent.
#[tokio::test]
async fn p1_p2_invoke_command_returns_the_result() {
    let picture = ContentPart::Image { media_type: "image/png".into(), data: "AA==".into() };
    let shot = picture.clone();
    let agent = Agent::builder(ScriptedModel::new([]))
        .define_command(echo_command("say"))
        .define_command(Command::new("quiet", |_| async {}))
        .define_command(Command::new("shot", move |_| {
            let shot = shot.clone();
            async move { CommandResult::prompt_with("look", [shot]) }
        }))
        .define_command(Command::new("fail", |_| async { Err::<(), _>("no such branch") }))
        .define_command(Command::new("burst", |_| burst()))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let mut shown = String::new();
    for (name, args) in
        [("say", "a 'b c'"), ("quiet", ""), ("shot", ""), ("fail", ""), ("burst", "")]
    {
        let result = session.invoke_command(name, args).await.unwrap();
        shown += &format!("{name}: {:?}\n", result.map_err(|failure| failure.to_string()));
    }
    expect![[r#"
        say: Ok(Status("say [\"a\", \"b c\"] \"a 'b c'\""))
        quiet: Ok(Nothing)
        shot: Ok(Prompt(Parts([Text("look"), Image { media_type: "image/png", data: "AA==" }])))
        fail: Err("no such branch")
        burst: Err("it panicked: boo")
    "#]]
    .assert_eq(&shown);
    assert_eq!(transcript(&session), "");
}

/// P2: a status is the answer without a run, a text goes to the model, and an empty result does nothing.
#[tokio::test]
async fn p2_command_result_is_a_status_a_prompt_nothing_or_an_error() {
    check(
        &["/say hello", "/quiet", "/ask Why?", "/fail now", "/burst"],
        expect![[r#"
            "/say hello" -> end_turn "" "say [\"hello\"] \"hello\""
            "/quiet" -> end_turn "" ""
            "/ask Why?" -> end_turn "r1" "said"
            "/fail now" -> error: command: command "/fail" failed: no such branch "" ""
            "/burst" -> error: command: command "/burst" failed: it panicked: boo "" ""
            --
            user: Why?
            --
            user: Why?
            assistant: said
        "#]],
    )
    .await;
}

/// P2: a returned prompt is parsed neither for directives nor for commands.
#[tokio::test]
async fn p2_a_returned_prompt_is_not_parsed() {
    check(
        &["/ask /loud be calm", "/ask /say again", "be /loud please"],
        expect![[r#"
        "/ask /loud be calm" -> end_turn "r1" "said"
        "/ask /say again" -> end_turn "r2" "said"
        "be /loud please" -> end_turn "r3" "said"
        --
        user: /loud be calm
        --
        user: /loud be calm
        assistant: said
        user: /say again
        --
        user: /loud be calm
        assistant: said
        user: /say again
        assistant: said
        user: BE PLEASE
        --
        user: /loud be calm
        assistant: said
        user: /say again
        assistant: said
        user: BE PLEASE
        assistant: said
    "#]],
    )
    .await;
}

/// P3: arguments are quoted as in a shell, and the raw text is available too. A newline ends the name. Only
/// a leading name is a command.
#[tokio::test]
async fn p3_command_is_recognised_at_the_start_and_gets_its_arguments() {
    check(
        &[
            "/say a  'b c' \"d\\\"e\" f\\ g",
            "/say",
            "/say\nfirst\n  second",
            "  /say indented",
            "/ns:say colon",
            "/sayx",
            "/SAY loud",
            "please /say this",
            "/unknown thing",
            "//say",
        ],
        expect![[r#"
            "/say a  'b c' \"d\\\"e\" f\\ g" -> end_turn "" "say [\"a\", \"b c\", \"d\\\"e\", \"f g\"] \"a  'b c' \\\"d\\\\\\\"e\\\" f\\\\ g\""
            "/say" -> end_turn "" "say [] \"\""
            "/say\nfirst\n  second" -> end_turn "" "say [\"first\", \"second\"] \"first\\n  second\""
            "  /say indented" -> end_turn "" "say [\"indented\"] \"indented\""
            "/ns:say colon" -> end_turn "" "ns:say [\"colon\"] \"colon\""
            "/sayx" -> end_turn "r1" "said"
            "/SAY loud" -> end_turn "r2" "said"
            "please /say this" -> end_turn "r3" "said"
            "/unknown thing" -> end_turn "r4" "said"
            "//say" -> end_turn "r5" "said"
            --
            user: /sayx
            --
            user: /sayx
            assistant: said
            user: /SAY loud
            --
            user: /sayx
            assistant: said
            user: /SAY loud
            assistant: said
            user: please /say this
            --
            user: /sayx
            assistant: said
            user: /SAY loud
            assistant: said
            user: please /say this
            assistant: said
            user: /unknown thing
            --
            user: /sayx
            assistant: said
            user: /SAY loud
            assistant: said
            user: please /say this
            assistant: said
            user: /unknown thing
            assistant: said
            user: //say
            --
            user: /sayx
            assistant: said
            user: /SAY loud
            assistant: said
            user: please /say this
            assistant: said
            user: /unknown thing
            assistant: said
            user: //say
            assistant: said
        "#]],
    )
    .await;
}

/// P2: attachments are content parts of the same message, after the text.
#[tokio::test]
async fn p2_attachments_of_a_command_follow_its_prompt_text() {
    let model = RecordingModel::new(ScriptedModel::new([Step::text("a cat")]));
    let shot = |_| async {
        let picture = ContentPart::Image { media_type: "image/png".into(), data: "AA==".into() };
        CommandResult::prompt_with(
            "/shot what is it?",
            [picture, ContentPart::Data("/shot".into())],
        )
    };
    let agent =
        Agent::builder(model.clone()).define_command(Command::new("shot", shot)).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("/shot").await), "end_turn");
    let request = &model.requests()[0];
    let Some(Message::User(user)) = request.messages.last() else { panic!("a prompt was sent") };
    expect![[r#"
        Parts(
            [
                Text(
                    "/shot what is it?",
                ),
                Image {
                    media_type: "image/png",
                    data: "AA==",
                },
                Data(
                    "/shot",
                ),
            ],
        )
    "#]]
    .assert_debug_eq(&user.content);
}

/// P1: a command starts at once during a run. Its changes wait for the run's next safe moment and never
/// separate a call from its result.
#[tokio::test]
async fn p1_p4_command_during_a_run_starts_at_once_and_stores_later() {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (started, go_on) = (started.clone(), go_on.clone());
        FnTool::new(spec("slow"), move |_| {
            let (started, go_on) = (started.clone(), go_on.clone());
            async move {
                started.notify_one();
                go_on.notified().await;
                Ok("slow ran".into())
            }
        })
        .with_facts(Facts::zone(Zone::Safe))
    };
    let mark = |cx: CommandCx| async move {
        let before = cx.controls.entries().len();
        let id = cx.controls.save_entry(entry(&cx.args_raw)).map_err(|e| e.to_string())?;
        cx.controls.append_message(Message::user("by the way")).map_err(|e| e.to_string())?;
        let after = cx.controls.entries().len();
        Ok::<_, String>(CommandResult::Status(format!("{id}: {before} then {after}")))
    };
    let script = [Step::call("slow", json!({})).and_call("slow", json!({})), Step::text("done")];
    let model = RecordingModel::new(ScriptedModel::new(script));
    let agent = Agent::builder(model.clone())
        .tool(slow)
        .define_command(Command::new("mark", mark))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let running = tokio::spawn(session.prompt("go"));
    started.notified().await;
    let said = session.prompt("/mark one").await.unwrap().text();
    go_on.notify_one();
    started.notified().await;
    let more = session.invoke_command("mark", "two").await.unwrap().unwrap();
    go_on.notify_one();
    assert_eq!(ending(&running.await.unwrap()), "end_turn");
    let alone = session.invoke_command("mark", "three").await.unwrap().unwrap();
    let shown = format!("{said}\n{more:?}\n{alone:?}\n--\n{}", transcript(&session));
    expect![[r#"
        00000003: 2 then 2
        Status("00000006: 3 then 3")
        Status("0000000a: 9 then 11")
        --
        user: go
        call c1.1: slow {}
        call c1.2: slow {}
        result c1.1: slow ran
        result c1.2: slow ran
        {"type":"one"}
        user: by the way
        {"type":"two"}
        user: by the way
        assistant: done
        {"type":"three"}
        user: by the way
    "#]]
    .assert_eq(&shown);
    let sent = model.shown();
    assert!(sent.ends_with("user: by the way\nuser: by the way\n"), "the model is told: {sent}");
}

/// P1: a cancelled command ends and leaves the session free.
#[tokio::test]
async fn p1_cancelled_command_ends_and_frees_the_session() {
    let diary = Diary::default();
    let writes = diary.clone();
    let waits = move |cx: CommandCx| {
        let diary = writes.clone();
        async move {
            diary.add("starts");
            if cx.args_raw == "by-itself" {
                cx.controls.cx().cancel().cancel();
            }
            std::future::pending::<()>().await;
        }
    };
    let agent = Agent::builder(ScriptedModel::new([Step::text("hello")]))
        .define_command(Command::new("wait", waits))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("/wait by-itself").await), "aborted");
    let run = session.prompt("/wait");
    let cancel = run.cancel_token();
    let running = tokio::spawn(run);
    while diary.lines().len() < 2 {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    assert_eq!(ending(&running.await.unwrap()), "aborted");
    // A command that is dropped while it runs leaves the session free too.
    assert!(session.invoke_command("wait", "").now_or_never().is_none());
    assert_eq!(diary.lines().len(), 3);
    assert_eq!(ending(&session.prompt("hi").await), "end_turn");
    assert_eq!(transcript(&session), "user: hi\nassistant: hello\n");
}

/// P1, P4: entries that a command stored stay even if the command then fails: it had the session to itself.
#[tokio::test]
async fn p4_failed_command_keeps_its_stored_entries() {
    let half = |cx: CommandCx| async move {
        cx.controls.save_entry(entry("half")).map_err(|e| e.to_string())?;
        Err::<(), _>("the other half is missing".to_owned())
    };
    let agent = Agent::builder(ScriptedModel::new([]))
        .define_command(Command::new("half", half))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("/half").await;
    assert_eq!(
        ending(&reply),
        "error: command: command \"/half\" failed: the other half is missing"
    );
    assert_eq!(transcript(&session), "{\"type\":\"half\"}\n");
}

/// P2: a command gets the attachments of its text, and can move and fork its session.
#[tokio::test]
async fn p2_command_gets_attachments_and_can_move_the_leaf() {
    let undo = |cx: CommandCx| async move {
        let entries = cx.controls.entries();
        let back = entries.len().checked_sub(2).and_then(|index| entries.get(index));
        let to = back.and_then(|entry| entry.parent_id().cloned());
        cx.controls.navigate(to.as_deref())?;
        let fork = cx.controls.fork().await?;
        let words = format!("{} left, {} parts", fork.entries().len(), cx.attachments.len());
        Ok::<_, cotter::history::store::StoreError>(CommandResult::Status(words))
    };
    let agent = Agent::builder(ScriptedModel::new([Step::text("one"), Step::text("two")]))
        .define_command(Command::new("undo", undo))
        .build()
        .unwrap();
    let _ = agent.process_request("first").await;
    let _ = agent.process_request("second").await;
    let parts = vec![ContentPart::Text("/undo".into()), ContentPart::data("some data")];
    assert_eq!(agent.process_request(parts).await.unwrap().text(), "2 left, 1 parts");
    let session = agent.main_session().await.unwrap();
    assert_eq!(transcript(&session), "user: first\nassistant: one\n");
}
