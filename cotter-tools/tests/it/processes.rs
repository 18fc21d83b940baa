//! Processes end with the process that started them, even if they tried to detach.

use std::path::Path;

use cotter_tools::process::{Exit, Runner, running::Stream};
use expect_test::{Expect, expect};

use crate::machine::{
    Scratch, alive, job, pid_in, runner, wait_until, wait_until_gone, with_environment,
};

/// Ways to leave a process behind. Each writes its number to the file `pid` and stays for long.
const LEAVERS: [(&str, &str); 7] = [
    ("a plain child", "sleep 1000 & echo $! > pid; wait"),
    ("nohup", "nohup sleep 1000 > /dev/null 2>&1 & echo $! > pid; wait"),
    ("another session", "setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait"),
    (
        "another session, its parent gone",
        "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &); sleep 1000",
    ),
    ("a double fork", "( ( sh -c 'echo $$ > pid; exec sleep 1000' & ) & ); sleep 1000"),
    ("no environment left", "setsid env -i sh -c 'echo $$ > pid; exec sleep 1000' & wait"),
    (
        "deaf to signals",
        "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM INT HUP; echo $$ > pid; while :; do sleep 1; done' & wait",
    ),
];

#[tokio::test]
async fn s17_dropped_command_ends_with_its_children() {
    let runner = runner();
    for (way, command) in LEAVERS {
        let scratch = Scratch::new();
        let running = runner.start(job(command, &scratch.path())).await.unwrap();
        let pid = pid_in(&scratch.path().join("pid")).await;
        assert!(alive(pid), "{way}");
        drop(running);
        wait_until_gone(pid).await;
    }
}

#[tokio::test]
async fn s17_ended_command_has_no_children_left() {
    let runner = runner();
    for (way, command) in LEAVERS {
        let scratch = Scratch::new();
        let mut running = runner.start(job(command, &scratch.path())).await.unwrap();
        let pid = pid_in(&scratch.path().join("pid")).await;
        running.end();
        let ended = running.wait_for_end().await.unwrap();
        assert!(!alive(pid), "{way}");
        assert_eq!(ended.exit, Exit::Signal(9), "{way}");
    }
}

#[tokio::test]
async fn s17_children_left_behind_end_with_the_command() {
    let runner = runner();
    for (way, command) in LEAVERS {
        let scratch = Scratch::new();
        // The command waits only until the pid is written, not for its children.
        let command = command.trim_end_matches("; sleep 1000").trim_end_matches("wait");
        let command = format!("{command}\nuntil [ -s pid ]; do :; done; exit 3");
        let running = runner.start(job(&command, &scratch.path())).await.unwrap();
        let ended = running.wait_for_end().await.unwrap();
        let pid = pid_in(&scratch.path().join("pid")).await;
        assert!(!alive(pid), "{way}");
        assert_eq!(ended.exit, Exit::Code(3), "{way}");
    }
}

#[tokio::test]
async fn s17_without_a_spawner_the_group_and_marked_processes_end() {
    let runner = with_environment(Runner::direct());
    for (way, command) in LEAVERS.into_iter().filter(|(way, _)| *way != "no environment left") {
        let scratch = Scratch::new();
        let running = runner.start(job(command, &scratch.path())).await.unwrap();
        let pid = pid_in(&scratch.path().join("pid")).await;
        assert!(alive(pid), "{way}");
        drop(running);
        wait_until_gone(pid).await;
    }
}

/// The number of the process that minds the command: the parent of its shell.
fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

const HIDDEN: &str =
    "echo $$ > shell; (setsid sh -c 'echo $$ > pid; exec sleep 1000' &); sleep 1000";

#[tokio::test]
async fn s17_children_end_if_the_minder_is_killed() {
    let (runner, scratch) = (runner(), Scratch::new());
    let running = runner.start(job(HIDDEN, &scratch.path())).await.unwrap();
    let pid = pid_in(&scratch.path().join("pid")).await;
    let shell = pid_in(&scratch.path().join("shell")).await;
    kill(parent(shell));
    assert!(running.wait_for_end().await.is_err());
    wait_until_gone(pid).await;
    wait_until_gone(shell).await;
}

#[tokio::test]
async fn s17_children_end_if_the_spawner_is_killed_and_a_new_one_starts() {
    let (runner, scratch) = (runner(), Scratch::new());
    let mut running = runner.start(job(HIDDEN, &scratch.path())).await.unwrap();
    let pid = pid_in(&scratch.path().join("pid")).await;
    kill(parent(parent(pid_in(&scratch.path().join("shell")).await)));
    running.end();
    running.wait_for_end().await.unwrap();
    assert!(!alive(pid));
    check(
        &runner,
        &scratch.path(),
        "echo again",
        expect![[r#"
        out: again
        Code(0)"#]],
    )
    .await;
}

#[tokio::test]
async fn s17_marked_processes_end_if_minder_and_spawner_are_killed() {
    let (runner, scratch) = (runner(), Scratch::new());
    let running = runner.start(job(HIDDEN, &scratch.path())).await.unwrap();
    let pid = pid_in(&scratch.path().join("pid")).await;
    let minder = parent(pid_in(&scratch.path().join("shell")).await);
    kill(parent(minder));
    kill(minder);
    assert!(running.wait_for_end().await.is_err());
    wait_until_gone(pid).await;
}

/// The test below starts this very program once more, to be killed; this says where it works.
const HELD: &str = "COTTER_TEST_HELD";

#[tokio::test]
async fn s17_children_end_if_our_process_is_killed() {
    if let Some(folder) = std::env::var_os(HELD) {
        let runner = runner().with_temp_below(Path::new(&folder));
        let running = runner.start(job(HIDDEN, Path::new(&folder))).await.unwrap();
        running.wait_for_end().await.unwrap();
        return;
    }
    let scratch = Scratch::new();
    let mut held = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::s17_children_end_if_our_process_is_killed"])
        .env(HELD, scratch.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = pid_in(&scratch.path().join("pid")).await;
    let shell = pid_in(&scratch.path().join("shell")).await;
    let (minder, spawner) = (parent(shell), parent(parent(shell)));
    held.kill().unwrap();
    held.wait().unwrap();
    for pid in [pid, shell, minder, spawner] {
        wait_until_gone(pid).await;
    }
    let left = std::fs::read_dir(scratch.path()).unwrap().flatten().map(|entry| entry.file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["pid", "shell"], "the private folder is gone too");
}

/// The output of a command by stream, and its end.
async fn shown(runner: &Runner, cwd: &Path, command: &str) -> String {
    let mut running = match runner.start(job(command, cwd)).await {
        Ok(running) => running,
        Err(cause) => return format!("error: {cause}"),
    };
    let mut said = [String::new(), String::new()];
    while let Some(chunk) = running.next().await {
        let text = String::from_utf8_lossy(&chunk.bytes);
        said[usize::from(chunk.stream == Stream::Stderr)] += &text;
    }
    let mut shown = String::new();
    for (name, text) in ["out", "err"].iter().zip(&said) {
        text.lines().for_each(|line| shown += &format!("{name}: {line}\n"));
    }
    match running.wait_for_end().await {
        Ok(ended) => {
            ended.remarks.iter().for_each(|line| shown += &format!("remark: {line}\n"));
            shown += &format!("{:?}", ended.exit);
        }
        Err(cause) => shown += &format!("error: {cause}"),
    }
    shown.replace(&cwd.display().to_string(), "PROJECT")
}

async fn check(runner: &Runner, cwd: &Path, command: &str, expected: Expect) {
    expected.assert_eq(&shown(runner, cwd, command).await);
}

#[tokio::test]
async fn command_output_and_exit_are_equal_with_and_without_a_spawner() {
    let check = async |command: &str, expected: Expect| {
        let scratch = Scratch::new();
        let minded = shown(&runner(), &scratch.path(), command).await;
        assert_eq!(shown(&Runner::direct(), &scratch.path(), command).await, minded);
        expected.assert_eq(&minded);
    };
    check(
        "pwd; echo no >&2; exit 7",
        expect![[r#"
        out: PROJECT
        err: no
        Code(7)"#]],
    )
    .await;
    check("kill -TERM $$", expect!["Signal(15)"]).await;
    check(
        "cat; echo nothing",
        expect![[r#"
        out: nothing
        Code(0)"#]],
    )
    .await;
    check(
        "yes | head -1; echo ${PIPESTATUS[0]}",
        expect![[r#"
        out: y
        out: 141
        Code(0)"#]],
    )
    .await;
}

#[tokio::test]
async fn s1_command_has_no_terminal() {
    let scratch = Scratch::new();
    check(
        &runner(),
        &scratch.path(),
        ": < /dev/tty",
        expect![[r#"
        err: /bin/bash: line 1: /dev/tty: No such device or address
        Code(1)"#]],
    )
    .await;
}

#[tokio::test]
async fn missing_program_is_reported() {
    let scratch = Scratch::new();
    let mut wrong = job("true", &scratch.path());
    wrong.program = "/nowhere/bash".into();
    let running = runner().start(wrong.clone()).await.unwrap();
    let cause = running.wait_for_end().await.unwrap_err();
    expect!["cannot run /nowhere/bash: No such file or directory (os error 2)"]
        .assert_eq(&cause.to_string());
    let cause = Runner::direct().start(wrong.clone()).await.unwrap_err();
    expect!["cannot run /nowhere/bash: No such file or directory (os error 2)"]
        .assert_eq(&cause.to_string());
    let cause = Runner::new("/nowhere/spawner").start(wrong).await.unwrap_err();
    expect!["cannot start /nowhere/spawner: No such file or directory (os error 2)"]
        .assert_eq(&cause.to_string());
}

#[tokio::test]
async fn s17_a_command_with_too_many_processes_is_ended() {
    let scratch = Scratch::new();
    check(
        &runner(),
        &scratch.path(),
        "for i in {1..1100}; do sleep 1000 & done; wait",
        expect![[r#"
            remark: it had more than 1024 processes and was ended
            Signal(9)"#]],
    )
    .await;
}

/// Processes that do not belong to the command do not change its limit when they end.
#[tokio::test]
async fn s17_process_limit_counts_only_processes_of_the_command() {
    let scratch = Scratch::new();
    let crowd: Vec<_> = (0..600)
        .map(|_| std::process::Command::new("sleep").arg("1000").spawn().unwrap())
        .collect();
    let begun = scratch.path().join("begun");
    let leave = async {
        wait_until(|| begun.exists(), "the command begins").await;
        for mut child in crowd {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        std::fs::write(scratch.path().join("go"), "").unwrap();
    };
    let command = "touch begun; until [ -e go ]; do sleep 0.01; done
        for i in {1..1100}; do sleep 1000 & done; wait";
    let (runner, folder) = (runner(), scratch.path());
    let (shown, ()) = tokio::join!(shown(&runner, &folder, command), leave);
    expect![[r#"
        remark: it had more than 1024 processes and was ended
        Signal(9)"#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn command_inherits_no_file_descriptors() {
    let scratch = Scratch::new();
    check(
        &runner(),
        &scratch.path(),
        "ls /proc/self/fd",
        expect![[r#"
        out: 0
        out: 1
        out: 2
        out: 3
        Code(0)"#]],
    )
    .await;
}
