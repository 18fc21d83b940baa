//! The tool `bash`: what the model gets of a command.

use cotter::{
    Agent, FnTool, Message, Permit, Tool, ToolSpec,
    agent::exec::ExecOptions,
    permission::{Zone, facts::Facts},
};
use cotter_test::{ScriptedModel, Step, not_tested, transcript};
use cotter_tools::{
    bash::Bash,
    process::{Runner, environment::Environment},
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::machine::{
    Scratch, agent, alive, bash, bash_result, pid_in, runner, wait_until_gone, with_environment,
};

/// A command line and its result.
async fn check(command: &str, expected: Expect) {
    let scratch = Scratch::new();
    expected.assert_eq(&scratch.tidy(&bash_result(runner(), scratch.workspace(), command).await));
}

#[tokio::test]
async fn bash_result_is_the_output_and_a_nonzero_exit_code() {
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
async fn bash_output_that_is_not_utf8_gets_replacement_characters() {
    check(r"printf 'a\000b\377c\303'", expect!["a�b�c�"]).await;
}

#[tokio::test]
async fn s10_bash_runs_without_profile_and_without_input() {
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
async fn bash_call_may_start_in_another_folder() {
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
            bash(runner(), scratch.workspace(), json!({"command": "pwd", "cwd": cwd})).await;
        expected.assert_eq(&scratch.tidy(&shown));
    }
}

#[tokio::test]
async fn s7_bash_command_gets_only_listed_variables() {
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
    let shown = bash_result(runner.clone(), scratch.workspace(), "env | sort").await;
    let temp = runner.temp().unwrap().display().to_string();
    let mark = |line: &str| {
        line.split_once("COTTER_CALL=")
            .map_or(line.to_owned(), |(_, mark)| format!("COTTER_CALL=({} letters)", mark.len()))
    };
    // Only root gets this one: it runs commands without its capabilities.
    let lines = shown.lines().filter(|line| !line.starts_with("TAR_OPTIONS="));
    let shown: Vec<_> = lines.map(mark).collect();
    expect![[r#"
        COTTER_CALL=(32 letters)
        GIT_CONFIG_COUNT=6
        GIT_CONFIG_KEY_0=core.fsmonitor
        GIT_CONFIG_KEY_1=core.hooksPath
        GIT_CONFIG_KEY_2=core.pager
        GIT_CONFIG_KEY_3=safe.bareRepository
        GIT_CONFIG_KEY_4=log.showSignature
        GIT_CONFIG_KEY_5=tag.gpgSign
        GIT_CONFIG_VALUE_0=false
        GIT_CONFIG_VALUE_1=/dev/null
        GIT_CONFIG_VALUE_2=cat
        GIT_CONFIG_VALUE_3=explicit
        GIT_CONFIG_VALUE_4=false
        GIT_CONFIG_VALUE_5=false
        GIT_EDITOR=true
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
async fn s17_bash_timeout_ends_the_command_and_its_children() {
    let scratch = Scratch::new();
    let command = "echo begun; setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000";
    let input = json!({"command": command, "timeout_ms": 400});
    let (_, shown) = bash(runner(), scratch.workspace(), input).await;
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
async fn s17_abort_leaves_no_process_of_a_bash_call() {
    for runner in [runner(), with_environment(Runner::direct())] {
        let scratch = Scratch::new();
        let command = "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; sleep 1000";
        let agent = agent(runner, scratch.workspace(), &[json!({"command": command})]);
        let session = agent.main_session().await.unwrap();
        let run = tokio::spawn({
            let session = session.clone();
            async move { session.prompt("go").await }
        });
        let pid = pid_in(&scratch.path().join("pid")).await;
        assert!(session.abort());
        run.await.unwrap().unwrap();
        wait_until_gone(pid).await;
    }
}

#[tokio::test]
async fn s17_child_that_keeps_the_output_open_does_not_delay_the_result() {
    check("sleep 1000 & echo done", expect!["done"]).await;
    check("setsid sleep 1000 & disown; echo done", expect!["done"]).await;
}

#[tokio::test]
async fn s17_bash_call_ends_at_64_mb_of_output() {
    let scratch = Scratch::new();
    let shown = bash_result(runner(), scratch.workspace(), "yes").await;
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
async fn renderers_get_stdout_and_stderr_separately() {
    let scratch = Scratch::new();
    let command = "echo out; echo err >&2; exit 2";
    let (session, _) = bash(runner(), scratch.workspace(), json!({"command": command})).await;
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

/// P8: a handler's program gets its words unchanged, a failing program is no error, and a program that would
/// ask is not run without a person.
#[tokio::test]
async fn p8_exec_of_a_handler_runs_its_words_through_bash() {
    let scratch = Scratch::new();
    let tool = FnTool::new(
        ToolSpec::new("tool", "for a test", json!({"type": "object"})),
        |permit: Permit| async move {
            let controls = permit.cx().controls();
            let mut told = String::new();
            let words = vec!["%s|", "a b", "$(touch x)", "it's", "*", "-n", "x\ny", ""];
            for (program, args) in
                [("printf", words), ("ls", vec!["nowhere"]), ("sudo", vec!["true"])]
            {
                let done = controls.exec(program, args, ExecOptions::default()).await;
                told += &match done {
                    Ok(done) => format!("{:?} {:?} {:?}\n", done.stdout, done.code, done.killed),
                    Err(error) => format!("{}: {}\n", error.kind.as_str(), error.message),
                };
            }
            Ok(told.into())
        },
    );
    let model = ScriptedModel::new([Step::call("tool", json!({})), Step::text("done")]);
    let agent = Agent::builder(model)
        .workspace(scratch.workspace())
        .tool(Bash::new(runner()))
        .tool(tool.with_facts(Facts::zone(Zone::Safe)))
        .build()
        .unwrap();
    agent.process_request("go").await.unwrap();
    expect![[r#"
        user: go
        call c1.1: tool {}
        result c1.1: "a b|$(touch x)|it's|*|-n|x\ny||" Some(0) false
        "" Some(2) false
        denied: Permission denied for `bash`: zone `machine` asks at level `standard`, and no person can be asked. Do not retry this exact call.
        assistant: done
    "#]]
    .assert_eq(&transcript(&agent.main_session().await.unwrap()));
}

#[tokio::test]
async fn bash_output_is_streamed_while_the_command_runs() {
    let scratch = Scratch::new();
    let agent = agent(
        runner(),
        scratch.workspace(),
        &[json!({"command": "printf 'a\\303'; printf '\\244b\\n'; echo c >&2"})],
    );
    let session = agent.main_session().await.unwrap();
    let mut run = session.prompt("go");
    let mut told = String::new();
    while let Some(event) = run.next().await {
        if let cotter::hooks::events::EventKind::ToolOutput { text, .. } = &event.kind {
            told += text;
        }
    }
    expect![[r#"
        aäb
        c
    "#]]
    .assert_eq(&told);
}

/// A project in a folder beside another; the command's result with both names taken out.
async fn check_refused(command: &str, expected: Expect) {
    if runner().cannot_confine().is_some() {
        assert!(std::env::var_os("COTTER_TEST_CONFINE").is_none());
        not_tested("nothing confines");
        return;
    }
    let scratch = Scratch::new();
    for folder in ["project/.git/hooks", "beside"] {
        std::fs::create_dir_all(scratch.path().join(folder)).unwrap();
    }
    std::fs::write(scratch.path().join("beside/file"), "private").unwrap();
    std::fs::write(scratch.path().join("project/run.sh"), command).unwrap();
    let workspace = cotter::Workspace::new(&scratch.path().join("project"));
    let said = bash_result(runner(), workspace, "bash run.sh").await;
    // A view words it in its own way.
    let said = said.replace("Read-only file system", "Permission denied");
    // The quotes of `mkdir` depend on the locale.
    expected.assert_eq(&scratch.tidy(&said).replace(['‘', '’'], "'"));
}

#[tokio::test]
async fn b8_denied_access_hint_names_the_root_to_add() {
    check_refused("echo x > ../beside/new", expect![[r#"
        run.sh: line 1: ../beside/new: Permission denied
        exit code 1
        access to PROJECT/beside/new was refused: it is outside the project; `--add-dir PROJECT/beside` would open it. Use $TMPDIR for temporary files"#]]).await;
    check_refused("cat ../beside/file", expect![[r#"
        cat: ../beside/file: Permission denied
        exit code 1
        access to PROJECT/beside/file was refused: it is outside the project; `--add-dir PROJECT/beside` would open it. Use $TMPDIR for temporary files"#]]).await;
    check_refused("mkdir /somewhere", expect![[r#"
        mkdir: cannot create directory '/somewhere': Permission denied
        exit code 1
        access to /somewhere was refused: it is outside the project. Use $TMPDIR for temporary files"#]]).await;
    check_refused("touch .git/hooks/pre-commit", expect![[r#"
        touch: cannot touch '.git/hooks/pre-commit': Permission denied
        exit code 1
        writing to .git/hooks was refused: it decides what runs later, and this call was not approved for it"#]]).await;
    check_refused(
        "echo x > /etc/x",
        expect![[r#"
            run.sh: line 1: /etc/x: Permission denied
            exit code 1
            writing to /etc/x was refused: it belongs to the system"#]],
    )
    .await;
}

/// Paths under `/proc` are seldom written, so a refusal there is not reported as a write.
#[tokio::test]
async fn b8_denied_read_of_proc_gets_no_hint_about_writing() {
    check_refused(
        "echo 'cat: /proc/1/environ: Permission denied' >&2; exit 1",
        expect![[r#"
        cat: /proc/1/environ: Permission denied
        exit code 1
        access to /proc/1/environ was refused: it belongs to other processes or the system"#]],
    )
    .await;
}

/// A refused socket is only `EPERM`; the rest of the output shows that it was a socket.
#[tokio::test]
async fn b8_denied_socket_hint_names_the_socket() {
    check_refused("exec 3<>/dev/tcp/127.0.0.1/9", expect![[r#"
        run.sh: socket: Operation not permitted
        run.sh: line 1: /dev/tcp/127.0.0.1/9: Operation not permitted
        exit code 1
        the sandbox blocks the network for this command, including this machine's own sockets: only a call that is known to use the network gets it, once a rule or a person allows it (an unknown program never does); `"sandbox": "off"` in the person's settings opens it for all"#]]).await;
    let trace = "printf '  s = socket.socket()\\nPermissionError: [Errno 1] Operation not permitted\\n' >&2; exit 1";
    check_refused(trace, expect![[r#"
          s = socket.socket()
        PermissionError: [Errno 1] Operation not permitted
        exit code 1
        the sandbox blocks the network for this command, including this machine's own sockets: only a call that is known to use the network gets it, once a rule or a person allows it (an unknown program never does); `"sandbox": "off"` in the person's settings opens it for all"#]]).await;
    check_refused(
        "echo 'chown: changing it: Operation not permitted' >&2; exit 1",
        expect![[r#"
        chown: changing it: Operation not permitted
        exit code 1"#]],
    )
    .await;
}

#[tokio::test]
async fn b8_denied_connection_hint_says_that_the_network_is_off() {
    check_refused("curl -s -S http://127.0.0.1:9/", expect![[r#"
        curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server
        exit code 7
        the sandbox blocks the network for this command, including this machine's own sockets: only a call that is known to use the network gets it, once a rule or a person allows it (an unknown program never does); `"sandbox": "off"` in the person's settings opens it for all"#]]).await;
}

/// A repository whose own configuration runs programs, which leave a mark.
fn hostile(scratch: &Scratch, config: &str) {
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.current_dir(scratch.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        assert!(git.args(args).status().unwrap().success());
    };
    std::fs::write(scratch.path().join("f"), "one\n").unwrap();
    git(&["init", "-q", "-b", "main", "."]);
    git(&["add", "f"]);
    git(&["commit", "-qm", "one"]);
    std::fs::write(scratch.path().join("f"), "two\n").unwrap();
    let evil = scratch.path().join("evil.sh");
    std::fs::write(&evil, "#!/bin/sh\necho evil ran >&2\n").unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&evil).status().unwrap().success());
    let file = scratch.path().join(".git/config");
    let config = config.replace("EVIL", &evil.display().to_string());
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &config).unwrap();
}

#[tokio::test]
async fn s12_safe_git_command_runs_no_program_of_the_repository() {
    let scratch = Scratch::new();
    hostile(&scratch, "[core]\nfsmonitor = EVIL\npager = EVIL\n");
    let plain =
        std::process::Command::new("git").arg("status").current_dir(scratch.path()).output();
    assert!(String::from_utf8_lossy(&plain.unwrap().stderr).contains("evil ran"));
    let commands = ["git status --short f", "git diff --stat", "git log --oneline --format=%s"];
    for command in commands {
        let said = bash_result(runner(), scratch.workspace(), command).await;
        assert!(!said.contains("evil ran"), "{command}: {said}");
    }
}

#[test]
fn s12_git_with_programs_in_the_repository_config_is_not_safe() {
    let zone = |config: &str| {
        let scratch = Scratch::new();
        hostile(&scratch, config);
        Bash::new(runner()).effects(&json!({"command": "git diff"}), &scratch.workspace()).zone
    };
    assert_eq!(zone("[core]\nfsmonitor = EVIL\n"), Zone::Safe);
    assert_eq!(zone("[diff]\nexternal = EVIL\n"), Zone::Build);
    assert_eq!(zone("[diff \"x\"]\ntextconv = EVIL\n"), Zone::Build);
    assert_eq!(zone(" [ FILTER \"x\"]\nclean = EVIL\n"), Zone::Build);
    assert_eq!(zone("[include] path = EVIL\n"), Zone::Build);
}
