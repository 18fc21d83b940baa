//! Signals and kills: a run ends properly, or is closed when its session is opened again.

use std::{fs, path::Path, process::Child};

use expect_test::expect;
use rustix::process::Signal;

use crate::support::{World, send_signal, wait_until};

const SLOW: &str = r#"{"text": "a b", "delayMs": 20}, {"text": "never"}"#;
const HANGS: &str = r#"{"text": "soon", "delayMs": 600000}"#;

fn check_abort(signal: Signal) {
    let world = World::new();
    let script = world.script(HANGS);
    let child = world.spawn(&["-p", "--script", &script, "go"]);
    world.wait_for_session("\"role\":\"user\"");
    send_signal(&child, signal);
    let output = child.wait_with_output().unwrap();
    let expected = "exit 130\n--- stderr\nerror: the run was aborted\n";
    assert_eq!(world.shown(&output), expected, "{signal:?}");
    world.wait_for_session("\"reason\":\"aborted\"");
}

#[test]
fn a_signal_aborts_the_run() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        check_abort(signal);
    }
}

#[test]
fn aborted_stream_json_ends_with_a_result() {
    let world = World::new();
    let script = world.script(HANGS);
    let child = world.spawn(&["-p", "--script", &script, "--output-format", "stream-json", "go"]);
    world.wait_for_session("\"role\":\"user\"");
    send_signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    expect![[r#"
        exit 130
        --- stdout
        {"type":"session.open","v":1,"seq":1,"at":"[TIME]","sessionId":"[ID1]","runId":"","step":0,"agentId":"main","how":"created"}
        {"type":"session.start","v":1,"seq":2,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","model":"script"}
        {"type":"message","v":1,"seq":3,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","entry":{"type":"message","id":"00000001","parentId":null,"timestamp":"[TIME]","message":{"role":"user","content":"go"}}}
        {"type":"session.end","v":1,"seq":4,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","reason":"aborted"}
        {"type":"result","sessionId":"[ID1]","runId":"r1","reason":"aborted","text":"","steps":1,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":0.0}
    "#]].assert_eq(&world.shown(&output));
}

#[test]
fn a_session_has_one_writer() {
    let world = World::new();
    let script = world.script(HANGS);
    let child = world.spawn(&["-p", "--script", &script, "go"]);
    world.wait_for_session("\"role\":\"user\"");
    let id = world.id();
    world.check(
        &["-p", "--model", "rehearsal", "--resume", &id, "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.local/share/cotter/sessions/[ID1].jsonl is in use by another process

            hint: wait until that process ends, or start a new session
        "#]],
    );
    assert_eq!(world.output(&["sessions", "show", &id]).status.code(), Some(0), "looking is free");
    send_signal(&child, Signal::INT);
    child.wait_with_output().unwrap();
    let again = ["-p", "--model", "rehearsal", "--resume", &id, "list"];
    assert_eq!(world.output(&again).status.code(), Some(0));
}

#[test]
fn killed_run_is_closed_when_its_session_is_resumed() {
    let world = World::new();
    let script = world.script(HANGS);
    let mut child = world.spawn(&["-p", "--script", &script, "go"]);
    world.wait_for_session("\"role\":\"user\"");
    child.kill().unwrap();
    child.wait().unwrap();
    let id = world.id();
    world.check(
        &["-p", "--model", "rehearsal", "--resume", &id, "list src"],
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(
        &["ledger", &id],
        expect![[r#"
            exit 0
            --- stdout
            run r1 began [TIME] with script
            run r1 ended: crashed, steps: 0
            run r2 began [TIME] with rehearsal
              r2.1 call_r2_1_0: list {"path":"src"}
                pass by zone, zone safe
              call_r2_1_0 came to ok in N ms
            run r2 ended: end_turn, steps: 2
        "#]],
    );
    assert_eq!(world.output(&["ledger", &id, "verify"]).status.code(), Some(0));
}

#[test]
fn run_waits_for_a_slow_model() {
    let world = World::new();
    let script = world.script(SLOW);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        a b
    "#]],
    );
}

/// Processes that a call may leave behind: in another group, in another session, without a parent. Each
/// writes its process id.
const LEAVERS: &str = "sleep 1000 & echo $! >> pids; \
    setsid sh -c 'echo $$ >> pids; exec sleep 1000' & \
    (setsid env -i sh -c 'echo $$ >> pids; trap \"\" TERM INT HUP; while :; do sleep 1; done' &); \
    echo $$ >> pids; wait";

/// Ends a run during a `bash` call and waits until no process of the call is left.
fn check_leavers(end: impl FnOnce(&Child)) -> World {
    let world = World::new();
    world.settings(r#"{"permissions": {"allow": ["bash"]}}"#);
    let call = serde_json::json!({"calls": [{"name": "bash", "input": {"command": LEAVERS}}]});
    let script = world.script(&format!("{call}, {{\"text\": \"never\"}}"));
    let child = world.spawn(&["-p", "--script", &script, "go"]);
    let pids = || {
        let text = fs::read_to_string(world.path("project/pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until(|| pids().len() == 4, "four processes");
    let alive = |pid: &String| Path::new("/proc").join(pid).join("exe").read_link().is_ok();
    assert!(pids().iter().all(alive), "{:?}", pids());
    end(&child);
    child.wait_with_output().unwrap();
    wait_until(|| !pids().iter().any(alive), "all of them are gone");
    world
}

#[test]
fn s17_abort_leaves_no_process_of_a_command() {
    let world = check_leavers(|child| send_signal(child, Signal::INT));
    world.wait_for_session("\"reason\":\"aborted\"");
}

#[test]
fn s17_kill_leaves_no_process_of_a_command() {
    let world = check_leavers(|child| send_signal(child, Signal::KILL));
    let id = world.id();
    world.check(
        &["-p", "--model", "rehearsal", "--resume", &id, "list src"],
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(&["sessions", "show", &id], expect![[r#"
        exit 0
        --- stdout
        user: go
        assistant: (calls) bash {"command":"sleep 1000 & echo $! >> pids; setsid sh -c 'echo $$ >> pids; exec sleep 1000' & (setsid env -i sh -c 'echo $$ >> pids; trap \"\" TERM INT HUP; while :; do sleep 1; done' &); echo $$ >> pids; wait"}
        bash (unavailable): The outcome is unknown: the process ended while this call ran. It was not run again. Check before you repeat it.
        user: list src
        assistant: (calls) list {"path":"src"}
        list: b.txt
        assistant: rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]]);
}
