//! The tool `bash_background`: processes with a name, a log and an end.

use std::{fs, path::Path};

use cotter::Agent;
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use cotter_tools::{
    bash::{Bash, background::background},
    files,
    process::Runner,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::confine::can_confine;
use crate::machine::{Scratch, alive, pid_in, runner, wait_until, wait_until_gone};

fn agent(runner: Runner, scratch: &Scratch, calls: &[Value]) -> Agent {
    let steps = calls.iter().map(|input| Step::call("bash_background", input.clone()));
    Agent::builder(ScriptedModel::new(steps.chain([Step::text("done")])))
        .workspace(scratch.workspace())
        .ui(ScriptedUi::new(vec![PersonAnswer::Yes; calls.len()]))
        .extend(background(runner))
        .build()
        .unwrap()
}

/// Checks the results that the model gets for these calls, one step each.
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
async fn s17_background_process_has_a_name_a_log_and_an_end() {
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
            result c11.1 (invalid_args): `command` is needed to start a process
            assistant: done"#]],
    )
    .await;
}

#[tokio::test]
async fn s17_at_most_eight_background_processes_run() {
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
async fn s17_background_process_ends_with_its_session_and_its_agent() {
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
        wait_until_gone(pid).await;
    }
}

/// Writes files that decide which code runs later, and does not end.
const PLANT: &str = "mkdir .git/hooks .vscode; for file in .git/hooks/pre-commit .vscode/tasks.json \
                     .mcp.json .envrc; do echo evil > $file; done; exec sleep 1000";

/// A repository with a script that plants, an agent that makes these calls there, and its person.
fn planting_agent(runner: Runner, calls: &[(&str, Value)]) -> (Scratch, Agent, ScriptedUi) {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join(".git")).unwrap();
    fs::write(scratch.path().join(".husky"), "old\n").unwrap();
    fs::write(scratch.path().join("plant.sh"), PLANT).unwrap();
    let person = ScriptedUi::new(vec![PersonAnswer::Yes; calls.len()]);
    let steps = calls.iter().map(|(tool, input)| Step::call(*tool, input.clone()));
    let agent = Agent::builder(ScriptedModel::new(steps.chain([Step::text("done")])))
        .workspace(scratch.workspace())
        .ui(person.clone())
        .tool(Bash::new(runner.clone()))
        .extend(files::tools)
        .extend(background(runner))
        .build()
        .unwrap();
    (scratch, agent, person)
}

/// The planted files that exist.
fn planted_files(folder: &Path) -> String {
    let names = [".git/hooks/pre-commit", ".vscode/tasks.json", ".mcp.json", ".envrc", ".husky"];
    let there = names.iter().filter(|name| folder.join(name).symlink_metadata().is_ok());
    there.copied().collect::<Vec<_>>().join(" ")
}

fn start() -> (&'static str, Value) {
    ("bash_background", json!({"action": "start", "command": "sh plant.sh", "name": "web"}))
}

/// Waits until all was planted.
fn wait() -> (&'static str, Value) {
    ("bash", json!({"command": "until grep -q evil .envrc; do sleep 0.01; done 2>/dev/null"}))
}

/// A text for a person or a model, without the names of this machine.
fn tidy(scratch: &Scratch, runner: &Runner, told: &str) -> String {
    let private = runner.temp().unwrap().parent().unwrap().display().to_string();
    let tidy = scratch.tidy(&told.replace(&private, "PRIVATE"));
    // The order in which the files are noticed varies.
    let mut lines: Vec<_> = tidy.lines().collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn s15_protected_files_written_in_background_are_removed_at_stop() {
    let private = Scratch::new();
    let runner = runner().with_temp_below(&private.path());
    if !can_confine() {
        return;
    }
    let stop = ("bash_background", json!({"action": "stop", "name": "web"}));
    let (scratch, agent, person) = planting_agent(runner.clone(), &[start(), wait(), stop]);
    agent.process_request("go").await.unwrap();
    assert_eq!(planted_files(&scratch.path()), ".husky");
    let aside = runner.temp().unwrap().with_file_name("aside/1-.envrc");
    assert_eq!(fs::read_to_string(aside).unwrap(), "evil\n");
    expect![[r#"
        background process `web`: PROJECT/.envrc, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.envrc
        background process `web`: PROJECT/.envrc, which decides what runs later and was not approved, was created while it runs: it is removed when the process ends; check it before you use it
        background process `web`: PROJECT/.git/hooks, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-hooks
        background process `web`: PROJECT/.git/hooks, which decides what runs later and was not approved, was created while it runs: it is removed when the process ends; check it before you use it
        background process `web`: PROJECT/.mcp.json, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.mcp.json
        background process `web`: PROJECT/.mcp.json, which decides what runs later and was not approved, was created while it runs: it is removed when the process ends; check it before you use it
        background process `web`: PROJECT/.vscode, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.vscode
        background process `web`: PROJECT/.vscode, which decides what runs later and was not approved, was created while it runs: it is removed when the process ends; check it before you use it
    "#]].assert_eq(&tidy(&scratch, &runner, &person.notices()));
    let shown = transcript(&agent.main_session().await.unwrap());
    let (_, stopped) = shown.split_once("result c3.1: ").unwrap();
    expect![[r#"
        `web` has ended: ended by signal 9; PROJECT/.mcp.json, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.mcp.json; PROJECT/.vscode, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.vscode; PROJECT/.envrc, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.envrc; PROJECT/.git/hooks, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-hooks
        assistant: done
    "#]].assert_eq(&tidy(&scratch, &runner, stopped));
}

#[tokio::test]
async fn s15_protected_files_written_in_background_are_reported_and_removed_with_the_session() {
    let private = Scratch::new();
    let runner = runner().with_temp_below(&private.path());
    if !can_confine() {
        return;
    }
    let (scratch, agent, person) = planting_agent(runner.clone(), &[start(), wait()]);
    let session = agent.new_session().await.unwrap();
    session.prompt("go").await.unwrap();
    let told = person.notices();
    assert_eq!(told.matches("was created while it runs").count(), 4, "{told}");
    session.close().await;
    assert_eq!(planted_files(&scratch.path()), ".husky");
    let at_the_end = person.notices().replace(&told, "");
    assert_eq!(at_the_end.matches("it was removed").count(), 4, "{at_the_end}");
    fs::write(scratch.path().join(".mcp.json"), "mine").unwrap();
    drop((session, agent));
    assert_eq!(planted_files(&scratch.path()), ".mcp.json .husky");
}

#[tokio::test]
async fn s15_protected_files_approved_during_a_background_process_stay() {
    let runner = runner();
    if !can_confine() {
        return;
    }
    let calls = [
        ("bash_background", json!({"action": "start", "command": "sleep 1000", "name": "web"})),
        ("write", json!({"path": ".envrc", "content": "mine"})),
        ("bash", json!({"command": "echo '{}' > .mcp.json"})),
        ("bash_background", json!({"action": "stop", "name": "web"})),
    ];
    let (scratch, agent, person) = planting_agent(runner.clone(), &calls);
    agent.process_request("go").await.unwrap();
    assert_eq!(planted_files(&scratch.path()), ".mcp.json .envrc .husky");
    assert_eq!(person.notices(), "");
}

/// Checks these calls, one step each, in a project with a secret; each started process has the network.
async fn check_secret(calls: &[(&str, Value)], expected: Expect) {
    if !can_confine() {
        return;
    }
    let runner = runner();
    let (scratch, agent, person) = planting_agent(runner.clone(), calls);
    fs::write(scratch.path().join(".env"), "KEY=1").unwrap();
    fs::write(scratch.path().join("wait.sh"), "echo up; exec sleep 1000").unwrap();
    agent.process_request("go").await.unwrap();
    let shown = transcript(&agent.main_session().await.unwrap());
    let logs = runner.logs().unwrap().display().to_string();
    let results = shown.lines().filter(|line| !line.starts_with("call "));
    let results = results.collect::<Vec<_>>().join("\n").replace(&logs, "LOGS");
    let told = format!(
        "{results}\n-- the person was asked:\n{}-- and told:\n{}",
        person.shown(),
        person.notices()
    );
    expected.assert_eq(&scratch.tidy(&told));
}

fn reaching_out(name: &str) -> (&'static str, Value) {
    let command = "false && curl -s https://example.com; sh wait.sh";
    ("bash_background", json!({"action": "start", "command": command, "name": name}))
}

#[tokio::test]
async fn s21_background_process_with_network_ends_when_a_secret_is_read() {
    let inside = json!({"action": "start", "command": "sh wait.sh", "name": "inside"});
    let calls = [
        reaching_out("web"),
        ("bash_background", inside),
        ("read", json!({"path": ".env"})),
        // Waits for its end.
        ("bash_background", json!({"action": "stop", "name": "web"})),
        reaching_out("again"),
        ("bash_background", json!({"action": "list"})),
    ];
    check_secret(&calls, expect![[r#"
        user: go
        result c1.1: `web` is running; its log is LOGS/s1-web-1.log
        up
        result c2.1: `inside` is running; its log is LOGS/s1-inside-1.log
        up
        result c3.1:      1	KEY=1
        SecretRead(".env")
        note: <system-reminder>
        From hook "background-news": background process `web`: it could reach beyond this machine, and was ended when a secret was read in this session; starting it again needs approval
        </system-reminder>
        result c4.1: `web` has ended: ended by signal 9; it could reach beyond this machine, and was ended when a secret was read in this session; starting it again needs approval
        up
        result c5.1: `again` is running; its log is LOGS/s1-again-1.log
        up
        result c6.1: `again` is running — false && curl -s https://example.com; sh wait.sh
        `inside` is running — sh wait.sh
        assistant: done
        -- the person was asked:
        bash_background {"action":"start","command":"false && curl -s https://example.com; sh wait.sh","name":"web"} <- zone: zone `network` asks at level `standard`
        --
        bash_background {"action":"start","command":"false && curl -s https://example.com; sh wait.sh","name":"again"} <- zone: zone `network` asks at level `standard`; secret-then-network: a secret was read in this session, and this may reach beyond this machine
        -- and told:
        background process `web`: it could reach beyond this machine, and was ended when a secret was read in this session; starting it again needs approval
    "#]]).await;
}

#[tokio::test]
async fn s17_background_logs_are_limited() {
    let (scratch, runner) = (Scratch::new(), runner());
    let start =
        |name: String, command: &str| json!({"action": "start", "name": name, "command": command});
    let mut calls: Vec<_> = (1..=12).map(|number| start(format!("p{number}"), "echo hi")).collect();
    calls.push(json!({"action": "stop", "name": "p9"}));
    calls.push(json!({"action": "list"}));
    calls.push(start("zero".into(), "head -c 20000000 /dev/zero; sleep 1000"));
    let agent = agent(runner.clone(), &scratch, &calls);
    agent.process_request("go").await.unwrap();
    let zero = runner.logs().unwrap().join("s1-zero-1.log");
    let is_cut = || fs::read(&zero).is_ok_and(|log| log.last() == Some(&b'\n'));
    wait_until(is_cut, "the log is cut").await;
    let logs = fs::read_dir(runner.logs().unwrap()).unwrap().flatten();
    let mut kept: Vec<_> = logs
        .map(|log| format!("{:?} {}", log.file_name(), log.metadata().unwrap().len()))
        .collect();
    kept.sort_unstable();
    let shown = transcript(&agent.main_session().await.unwrap());
    let (_, listed) = shown.split_once("result c14.1: ").unwrap();
    let (listed, _) = listed.split_once("\ncall c15.1").unwrap();
    expect![[r#"
        "s1-p10-1.log" 3
        "s1-p11-1.log" 3
        "s1-p12-1.log" 3
        "s1-p5-1.log" 3
        "s1-p6-1.log" 3
        "s1-p7-1.log" 3
        "s1-p8-1.log" 3
        "s1-zero-1.log" 16777263
        `p10` has ended: exit code 0 — echo hi
        `p11` has ended: exit code 0 — echo hi
        `p12` has ended: exit code 0 — echo hi
        `p5` has ended: exit code 0 — echo hi
        `p6` has ended: exit code 0 — echo hi
        `p7` has ended: exit code 0 — echo hi
        `p8` has ended: exit code 0 — echo hi"#]]
    .assert_eq(&format!("{}\n{listed}", kept.join("\n")));
}
