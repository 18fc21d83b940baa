//! The tool `bash`: what the model gets of a command.

use cotter::Message;
use cotter_tools::process::{Environment, Runner};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::machine::{Scratch, agent, alive, bash, gone, pid_in, runner, said, with_environment};

/// A command line and its result.
async fn check(command: &str, expected: Expect) {
    let scratch = Scratch::new();
    expected.assert_eq(&scratch.tidy(&said(runner(), scratch.place(), command).await));
}

#[tokio::test]
async fn output_comes_first_and_the_exit_code_where_it_is_not_zero() {
    check(
        "echo one; echo two >&2",
        expect![[r#"
        one
        two"#]],
    )
    .await;
    check("true", expect!["(no output)"]).await;
    check(
        "printf half; exit 3",
        expect![[r#"
        half
        exit code 3"#]],
    )
    .await;
    check("kill -KILL $$", expect!["ended by signal 9"]).await;
    check(
        "nowhere-to-be-found",
        expect![[r#"
        /bin/bash: line 1: nowhere-to-be-found: command not found
        exit code 127"#]],
    )
    .await;
    check(
        "if",
        expect![[r#"
        /bin/bash: -c: line 2: syntax error: unexpected end of file
        exit code 2"#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_no_text_becomes_marks() {
    check(r"printf 'a\000b\377c\303'", expect!["a�b�c�"]).await;
}

#[tokio::test]
async fn s10_it_is_bash_without_profile_and_without_input() {
    check(
        "shopt login_shell; echo $-; cat; [[ a == a ]] && echo $'\\x62'",
        expect![[r#"
        login_shell    	off
        hBc
        b"#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_may_start_in_another_folder() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("sub")).unwrap();
    std::fs::write(scratch.path().join("file"), "").unwrap();
    for (cwd, expected) in [
        (
            "sub",
            expect![[r#"
        user: go
        call c1.1: bash {"command":"pwd","cwd":"sub"}
        result c1.1: PROJECT/sub
        assistant: done
    "#]],
        ),
        (
            "file",
            expect![[r#"
        user: go
        call c1.1: bash {"command":"pwd","cwd":"file"}
        result c1.1 (invalid_args): file is not a folder
        assistant: done
    "#]],
        ),
        (
            "none",
            expect![[r#"
        user: go
        call c1.1: bash {"command":"pwd","cwd":"none"}
        result c1.1 (invalid_args): none is not a folder
        assistant: done
    "#]],
        ),
    ] {
        let (_, shown) =
            bash(runner(), scratch.place(), json!({"command": "pwd", "cwd": cwd})).await;
        expected.assert_eq(&scratch.tidy(&shown));
    }
}

#[tokio::test]
async fn s7_a_command_knows_nothing_but_what_is_listed() {
    let scratch = Scratch::new();
    let had = [
        ("HOME", "/home/me"),
        ("PATH", "/usr/bin:/bin:./x"),
        ("LANG", "C.UTF-8"),
        ("ANTHROPIC_API_KEY", "sk-1"),
        ("GITHUB_TOKEN", "ghp"),
        ("LD_LIBRARY_PATH", "/x"),
        ("BASH_ENV", "/x"),
        ("BASH_FUNC_ls%%", "() { echo mine; }"),
        ("GIT_DIR", "/x"),
    ];
    let had = had.map(|(name, value)| (name.into(), value.into()));
    let runner = runner().with_environment(Environment::chosen(had, &[] as &[&str]));
    let shown = said(runner.clone(), scratch.place(), "env | sort").await;
    let temp = runner.temp().unwrap().display().to_string();
    let mark = |line: &str| {
        line.split_once("COTTER_CALL=")
            .map_or(line.to_owned(), |(_, mark)| format!("COTTER_CALL=({} letters)", mark.len()))
    };
    let shown: Vec<_> = shown.lines().map(mark).collect();
    expect![[r#"
        COTTER_CALL=(32 letters)
        GIT_CONFIG_COUNT=4
        GIT_CONFIG_KEY_0=core.fsmonitor
        GIT_CONFIG_KEY_1=core.hooksPath
        GIT_CONFIG_KEY_2=core.pager
        GIT_CONFIG_KEY_3=safe.bareRepository
        GIT_CONFIG_VALUE_0=false
        GIT_CONFIG_VALUE_1=/dev/null
        GIT_CONFIG_VALUE_2=cat
        GIT_CONFIG_VALUE_3=explicit
        GIT_OPTIONAL_LOCKS=0
        GIT_PAGER=cat
        GIT_TERMINAL_PROMPT=0
        HOME=/home/me
        LANG=C.UTF-8
        PAGER=cat
        PATH=/usr/bin:/bin
        PWD=PROJECT
        SHLVL=1
        TMPDIR=TEMP
        _=/usr/bin/env"#]]
    .assert_eq(&scratch.tidy(&shown.join("\n").replace(&temp, "TEMP")));
}

#[tokio::test]
async fn s17_a_call_ends_at_its_timeout_with_all_it_started() {
    let scratch = Scratch::new();
    let command = "echo begun; setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000";
    let input = json!({"command": command, "timeout_ms": 400});
    let (_, shown) = bash(runner(), scratch.place(), input).await;
    expect![[r#"
        user: go
        call c1.1: bash {"command":"echo begun; setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000","timeout_ms":400}
        result c1.1 (timeout): begun
        ended after 400 ms (timeout), with all it started
        assistant: done
    "#]].assert_eq(&shown);
    assert!(!alive(pid_in(&scratch.path().join("pid")).await));
}

#[tokio::test]
async fn s17_an_abort_leaves_nothing_behind() {
    for runner in [runner(), with_environment(Runner::direct())] {
        let scratch = Scratch::new();
        let command = "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; sleep 1000";
        let agent = agent(runner, scratch.place(), &[json!({"command": command})]);
        let session = agent.main_session().await.unwrap();
        let run = tokio::spawn({
            let session = session.clone();
            async move { session.prompt("go").await }
        });
        let pid = pid_in(&scratch.path().join("pid")).await;
        assert!(session.abort());
        run.await.unwrap().unwrap();
        gone(pid).await;
    }
}

#[tokio::test]
async fn s17_a_child_that_holds_the_output_open_does_not_hold_the_call() {
    check("sleep 1000 & echo done", expect!["done"]).await;
    check("setsid sleep 1000 & disown; echo done", expect!["done"]).await;
}

#[tokio::test]
async fn s17_a_call_ends_at_64_mb_with_what_it_has() {
    let scratch = Scratch::new();
    let shown = said(runner(), scratch.place(), "yes").await;
    let (head, tail) = (&shown[..10], &shown[shown.len() - 70..]);
    expect![[r#"
        y
        y
        y
        y
        y
        …y
        y
        y
        y
        y
        y
        y
        y
        ended after 64 MB of output; send it to a file instead"#]]
    .assert_eq(&format!("{head}…{tail}"));
}

#[tokio::test]
async fn renderers_get_the_streams_apart() {
    let scratch = Scratch::new();
    let command = "echo out; echo err >&2; exit 2";
    let (session, _) = bash(runner(), scratch.place(), json!({"command": command})).await;
    let data: Vec<Value> = session
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::ToolResult(result) => result.render_data.clone(),
            _ => None,
        })
        .collect();
    expect![[r#"[{"stdout":"out\n","stderr":"err\n","exitCode":2,"killed":false}]"#]]
        .assert_eq(&json!(data).to_string());
}

#[tokio::test]
async fn what_a_command_says_is_told_while_it_works() {
    let scratch = Scratch::new();
    let agent = agent(
        runner(),
        scratch.place(),
        &[json!({"command": "printf 'a\\303'; printf '\\244b\\n'; echo c >&2"})],
    );
    let session = agent.main_session().await.unwrap();
    let mut run = session.prompt("go");
    let mut told = String::new();
    while let Some(event) = run.next().await {
        if let cotter::events::EventKind::ToolOutput { text, .. } = &event.kind {
            told += text;
        }
    }
    expect![[r#"
        aäb
        c
    "#]]
    .assert_eq(&told);
}
