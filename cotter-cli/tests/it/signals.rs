//! Signals and kills: a run ends properly, or is closed when its session is opened again.

use std::{
    cell::RefCell,
    fs::{self, OpenOptions},
    io::Write,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use expect_test::expect;
use rustix::{io::ioctl_fionread, pipe::fcntl_getpipe_size, process::Signal};

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

/// Text that is longer than a pipe holds.
fn long_text() -> String {
    "x".repeat(100_000)
}

/// Waits until the process cannot write more output, because nobody reads it.
fn wait_for_full_pipe(child: &Child) {
    let stdout = child.stdout.as_ref().unwrap();
    let is_full = || {
        let waiting = ioctl_fionread(stdout).unwrap();
        waiting + 4096 >= fcntl_getpipe_size(stdout).unwrap() as u64
    };
    wait_until(is_full, "the pipe is full");
}

/// Sends a signal and returns the exit code that a shell shows.
fn end(child: &mut Child, signal: Signal) -> i32 {
    send_signal(child, signal);
    code_at_end(child, || ())
}

/// Waits for the end of a process. Calls `again` before each look.
fn code_at_end(child: &mut Child, again: impl Fn()) -> i32 {
    let child = RefCell::new(child);
    let has_ended = || {
        again();
        child.borrow_mut().try_wait().unwrap().is_some()
    };
    wait_until(has_ended, "the process ends");
    let status = child.borrow_mut().wait().unwrap();
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap()
}

#[test]
fn a_signal_ends_a_prompt_that_waits_for_its_input() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let world = World::new();
        let mut command = world.command(&["-p", "--model", "rehearsal"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // More than a pipe holds: when it is written, the process is reading.
        let mut input = child.stdin.take().unwrap();
        input.write_all(long_text().as_bytes()).unwrap();
        assert_eq!(end(&mut child, signal), code);
        drop(input);
        assert_eq!(world.ids(), [""; 0]);
    }
}

#[test]
fn a_signal_ends_a_batch_that_waits_for_its_input() {
    let world = World::new();
    let fifo = world.path("calls");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (more, code) in [(None, 143), (Some("--run-hooks"), 130)] {
        let batch = ["explain", "--batch", fifo.to_str().unwrap()];
        let mut child = world.spawn(&batch.into_iter().chain(more).collect::<Vec<_>>());
        let mut calls = OpenOptions::new().write(true).open(&fifo).unwrap();
        // The answer to the first call shows that the process waits for the second.
        calls.write_all(b"{}\n").unwrap();
        let stdout = child.stdout.as_ref().unwrap();
        wait_until(|| ioctl_fionread(stdout).unwrap() > 0, "an answer");
        assert_eq!(end(&mut child, Signal::TERM), code);
    }
}

#[test]
fn a_signal_ends_a_report_that_nobody_reads() {
    let input = format!(r#"{{"command": "echo {}"}}"#, long_text());
    let world = World::new();
    for args in [
        &["explain", "bash", &input][..],
        &["explain", "bash", &input, "--run-hooks"],
        &["hooks", "test", "tool.pre", "--tool", "bash", "--input", &input],
    ] {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut child = world.spawn(args);
            wait_for_full_pipe(&child);
            assert_eq!(end(&mut child, signal), code, "{}", args[0]);
        }
    }
}

#[test]
fn a_signal_ends_a_log_that_nobody_reads() {
    let world = World::new();
    world.settings(r#"{"hooks": {"tool.pre": [{"name": "look", "command": "true"}]}}"#);
    assert!(world.output(&["-p", "--model", "rehearsal", "read a.txt"]).status.success());
    let lines = fs::read_to_string(world.session_file()).unwrap();
    fs::write(world.session_file(), lines.repeat(2000)).unwrap();
    let mut child = world.spawn(&["hooks", "log", "-f"]);
    wait_for_full_pipe(&child);
    assert_eq!(end(&mut child, Signal::TERM), 130);
}

/// The first signal asks a run to end. A run that cannot, because nobody reads its output, ends at a later one.
#[test]
fn a_second_signal_ends_a_run_that_does_not_react() {
    let world = World::new();
    let script = world.script(&format!(r#"{{"text": "{}"}}"#, long_text()));
    let mut child =
        world.spawn(&["-p", "--script", &script, "--output-format", "stream-json", "go"]);
    wait_for_full_pipe(&child);
    let pid = rustix::process::Pid::from_child(&child);
    let again = || _ = rustix::process::kill_process(pid, Signal::TERM);
    assert_eq!(code_at_end(&mut child, again), 130);
}

#[test]
fn a_signal_stops_a_server_that_does_not_start() {
    let world = World::new().with_env("PATH", "/usr/bin:/bin");
    let started = world.path("started");
    let program = format!("echo $$ > {}; exec sleep 1000", started.display());
    let server = serde_json::json!({"command": "sh", "args": ["-c", program]});
    world.settings(&serde_json::json!({"mcpServers": {"slow": server}}).to_string());
    let child = world.spawn(&["-p", "--model", "rehearsal", "list"]);
    let pid = || fs::read_to_string(&started).unwrap_or_default().trim().to_owned();
    wait_until(|| !pid().is_empty(), "the server is started");
    send_signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(world.shown(&output), "exit 130\n--- stderr\nerror: nothing was sent\n");
    let process = Path::new("/proc").join(pid());
    wait_until(|| process.join("exe").read_link().is_err(), "the server is gone");
}
