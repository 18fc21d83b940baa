//! The tool `bash_background`: processes with a name, a log and an end.

use cotter::Agent;
use cotter_test::{Said, Scripted, ScriptedUi, Step, transcript};
use cotter_tools::{background::background, process::Runner};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::machine::{Scratch, alive, gone, pid_in, runner};

fn agent(runner: Runner, scratch: &Scratch, calls: &[Value]) -> Agent {
    let steps = calls.iter().map(|input| Step::call("bash_background", input.clone()));
    Agent::builder(Scripted::new(steps.chain([Step::text("done")])))
        .place(scratch.place())
        .ui(ScriptedUi::new(vec![Said::Yes; calls.len()]))
        .extend(background(runner))
        .build()
        .unwrap()
}

/// Calls one after the other, and what the model gets.
async fn check(calls: &[Value], expected: Expect) {
    let (scratch, runner) = (Scratch::new(), runner());
    let agent = agent(runner.clone(), &scratch, calls);
    agent.process_request("go").await.unwrap();
    let shown = transcript(&agent.main_session().await.unwrap());
    let logs = runner.logs().unwrap().display().to_string();
    let results: Vec<_> = shown.lines().filter(|line| !line.starts_with("call ")).collect();
    expected.assert_eq(&scratch.tidy(&results.join("\n").replace(&logs, "LOGS")));
}

const SERVER: &str = "echo up; setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000";

#[tokio::test]
async fn s17_a_process_has_a_name_a_log_and_an_end() {
    check(
        &[
            json!({"action": "list"}),
            json!({"action": "start", "command": SERVER, "name": "web"}),
            json!({"action": "start", "command": "sleep 1000", "name": "web"}),
            json!({"action": "start", "command": "echo bad; exit 3"}),
            json!({"action": "log", "name": "web"}),
            json!({"action": "list"}),
            json!({"action": "stop", "name": "web"}),
            json!({"action": "log", "name": "web"}),
            json!({"action": "list"}),
            json!({"action": "stop"}),
            json!({"action": "start"}),
        ],
        expect![[r#"
            user: go
            result c1.1: no background process
            result c2.1: `web` is running; its log is LOGS/s1-web-1.log
            up
            result c3.1 (invalid_args): `web` is running already; stop it first, or take another name
            result c4.1: `p1` was started and has ended: exit code 3
            bad
            result c5.1: `web` is running
            up
            result c6.1: `p1` has ended: exit code 3 — echo bad; exit 3
            `web` is running — echo up; setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000
            result c7.1: `web` has ended: ended by signal 9
            up
            result c8.1 (not_found): there is no background process `web`; `list` shows the names
            result c9.1: `p1` has ended: exit code 3 — echo bad; exit 3
            result c10.1 (invalid_args): `name` is needed: `list` shows the names
            result c11.1 (invalid_args): `command` is needed to start one
            assistant: done"#]],
    )
    .await;
}

#[tokio::test]
async fn s17_no_more_than_eight_run() {
    let mut calls = vec![json!({"action": "start", "command": "sleep 1000"}); 9];
    calls.push(json!({"action": "stop", "name": "p3"}));
    calls.push(json!({"action": "start", "command": "sleep 1000", "name": "again"}));
    check(
        &calls,
        expect![[r#"
        user: go
        result c1.1: `p1` is running; its log is LOGS/s1-p1-1.log
        result c2.1: `p2` is running; its log is LOGS/s1-p2-1.log
        result c3.1: `p3` is running; its log is LOGS/s1-p3-1.log
        result c4.1: `p4` is running; its log is LOGS/s1-p4-1.log
        result c5.1: `p5` is running; its log is LOGS/s1-p5-1.log
        result c6.1: `p6` is running; its log is LOGS/s1-p6-1.log
        result c7.1: `p7` is running; its log is LOGS/s1-p7-1.log
        result c8.1: `p8` is running; its log is LOGS/s1-p8-1.log
        result c9.1 (unavailable): 8 processes are running already; stop one first
        result c10.1: `p3` has ended: ended by signal 9
        result c11.1: `again` is running; its log is LOGS/s1-again-1.log
        assistant: done"#]],
    )
    .await;
}

#[tokio::test]
async fn s17_a_process_ends_with_its_session_and_with_its_agent() {
    for by_session in [true, false] {
        let scratch = Scratch::new();
        let agent = agent(runner(), &scratch, &[json!({"action": "start", "command": SERVER})]);
        let session = agent.new_session().await.unwrap();
        session.prompt("go").await.unwrap();
        let pid = pid_in(&scratch.path().join("pid")).await;
        assert!(alive(pid));
        if by_session {
            session.close().await;
        } else {
            drop((session, agent));
        }
        gone(pid).await;
    }
}
