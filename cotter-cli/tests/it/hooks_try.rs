//! Commands that test and log hooks: `hooks test`, `explain --run-hooks`, `hooks log`.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use expect_test::{Expect, expect};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{World, send_signal};

/// A world with these entries in the person's own settings, by point.
fn world(hooks: &str) -> World {
    let world = World::new().with_env("NO_COLOR", "1").with_env("PATH", "/usr/bin:/bin");
    world.settings(&format!("{{\"hooks\": {{{hooks}}}}}"));
    world
}

fn check(hooks: &str, args: &[&str], expected: Expect) {
    world(hooks).check(&[&["hooks", "test"], args].concat(), expected);
}

const GUARDS: &str = r#""tool.pre": [
    { "name": "tidy", "tools": ["write"], "command": "echo looking >&2; echo '{\"input\": {\"path\": \"tidy.txt\", \"content\": \"x\"}, \"additionalContext\": \"Tidied up.\"}'" },
    { "name": "no-prod", "tools": ["write", "ed*"], "power": "gate", "command": "if grep -q prod; then echo 'not in production' >&2; exit 1; fi" },
    { "name": "shell", "tools": ["bash"], "command": "echo no shell >&2; exit 1" },
    { "name": "look", "power": "observe", "command": "true" },
    { "name": "later", "async": true, "command": "echo done >&2" },
]"#;

const WRITE: [&str; 5] =
    ["tool.pre", "--tool", "write", "--input", r#"{"path": "a.txt", "content": "x"}"#];

#[test]
fn l8_hooks_test_shows_the_answer_of_every_hook_of_a_point() {
    check(
        GUARDS,
        &WRITE,
        expect![[r#"
            exit 0
            --- stdout
            tool.pre write {"path":"a.txt","content":"x"}
            pass

              tidy     (user)  transform  replace in N ms
                stderr: looking
              no-prod  (user)  gate       pass in N ms
              shell    (user)  transform  did not match: it is for bash
              look     (user)  observe    seen in N ms
              later    (user)  observe    seen in N ms
                stderr: done

            the input after the hooks
              {"path":"tidy.txt","content":"x"}

            notes to the model
              From hook "tidy": Tidied up.
        "#]],
    );
    check(
        GUARDS,
        &["tool.pre", "--tool", "edit", "--input", r#"{"path": "prod"}"#],
        expect![[r#"
            exit 3
            --- stdout
            tool.pre edit {"path":"prod"}
            block: not in production
            decided by no-prod

              tidy     (user)  transform  did not match: it is for write
              no-prod  (user)  gate       block in N ms: not in production
              shell    (user)  transform  did not match: it is for bash
              look     (user)  observe    not reached: an earlier hook ended the point
              later    (user)  observe    not reached: an earlier hook ended the point
        "#]],
    );
    check(
        GUARDS,
        &["tool.pre", "--tool", "no_such_tool"],
        expect![[r#"
        exit 0
        --- stdout
        tool.pre no_such_tool {}
        pass

          tidy     (user)  transform  did not match: it is for write
          no-prod  (user)  gate       did not match: it is for write, ed*
          shell    (user)  transform  did not match: it is for bash
          look     (user)  observe    seen in N ms
          later    (user)  observe    seen in N ms
            stderr: done
    "#]],
    );
    check(
        GUARDS,
        &["tool.pre", "--tool", "bash", "--input", "git push", "--json"],
        expect![[r#"
            exit 3
            --- stdout
            {"verdict":"block","reason":"no shell","decidedBy":"shell","input":{"command":"git push"},"notes":[],"hooks":[{"name":"tidy","origin":"user","power":"transform","matched":false,"verdict":"pass","ms":N},{"name":"no-prod","origin":"user","power":"gate","matched":false,"verdict":"pass","ms":N},{"name":"shell","origin":"user","power":"transform","matched":true,"verdict":"block","ms":N,"reason":"no shell"},{"name":"look","origin":"user","power":"observe","matched":true,"verdict":"not reached","ms":N},{"name":"later","origin":"user","power":"observe","matched":true,"verdict":"not reached","ms":N}]}
        "#]],
    );
    check(
        "",
        &["tool.pre", "--tool", "write"],
        expect![[r#"
        exit 0
        --- stdout
        tool.pre write {}
        pass
        no hook is at this point
    "#]],
    );
}

/// The payload of a point, saved by a hook.
fn saved_payload(point: &str, args: &[&str]) -> Value {
    let world = world("");
    let told = world.path("told.json");
    let command = format!("cat > {}", told.display());
    world
        .settings(&json!({"hooks": {point: [{"name": "scribe", "command": command}]}}).to_string());
    let output = world.output(&[&["hooks", "test", point], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", world.shown(&output));
    serde_json::from_str(&world.plain(&fs::read_to_string(told).unwrap())).unwrap()
}

#[test]
fn hook_payload_of_a_dry_run_has_the_flag_and_the_facts_of_the_call() {
    let call = ["--tool", "write", "--input", r#"{"path": "a.txt", "content": "x"}"#];
    expect![[r#"{"v":1,"event":"tool.pre","sessionId":"","runId":"","step":0,"agentId":"main","cwd":"[T]/project","projectDir":"[T]/project","dryRun":true,"callId":"trial","toolName":"write","toolInput":{"path":"a.txt","content":"x"},"facts":{"reads":[],"writes":["[T]/project/a.txt"],"hosts":[],"commands":[],"zone":"workspace"}}"#]].assert_eq(&saved_payload("tool.pre", &call).to_string());
}

/// Checks the payload of each point without the common fields.
#[test]
fn hooks_test_builds_a_payload_for_every_point() {
    let mut rows = String::new();
    for row in cotter::hooks::points::POINTS.iter().filter(|row| row.name != "context") {
        let args: &[&str] = match row.name {
            "tool.post" => &["--tool", "read", "--input", "a.txt", "--result", "one"],
            "user.prompt.submit" => &["--prompt", "deploy it"],
            _ if row.is_about_tools() => &["--tool", "t"],
            _ => &[],
        };
        let mut payload = saved_payload(row.name, args);
        assert_eq!((&payload["event"], &payload["dryRun"]), (&json!(row.name), &json!(true)));
        for key in [
            "v",
            "event",
            "sessionId",
            "runId",
            "step",
            "agentId",
            "cwd",
            "projectDir",
            "dryRun",
            "facts",
        ] {
            payload.as_object_mut().unwrap().remove(key);
        }
        rows += &format!("{} {payload}\n", row.name);
    }
    expect![[r#"
        session.open {"how":"created"}
        session.start {"model":"none"}
        user.prompt.submit {"rawPrompt":"deploy it","prompt":"deploy it"}
        model.pre {"attempt":1,"messageCount":1,"model":"none"}
        model.post {"toolCallCount":0,"costUsd":0.0,"cacheWrite":0,"cacheRead":0,"outputTokens":0,"inputTokens":0,"stopReason":"end_turn","model":"none"}
        tool.pre {"callId":"trial","toolInput":{},"toolName":"t"}
        permission.ask {"calls":[{"callId":"trial","name":"","preview":"{}","asks":[{"by":"trial","reason":"this is a dry run of hooks"}]}],"id":"trial"}
        tool.post {"durationMs":0,"outcome":"ok","is_error":false,"result":"one","callId":"trial","toolInput":{"path":"a.txt"},"toolName":"read"}
        tool.refused {"reason":"this is a dry run of hooks","by":"trial","toolInput":{},"toolName":"t","callId":"trial"}
        compact.pre {"firstKeptId":"","tokensBefore":0,"trigger":"forced"}
        compact.post {"summary":"","firstKeptId":"","tokensBefore":0,"trigger":"forced"}
        subagent.start {"prompt":"","name":"trial","callId":"trial"}
        subagent.end {"text":"","status":"success","name":"trial","callId":"trial"}
        turn.end {"goneOn":0,"text":""}
        error {"message":"this is a dry run of hooks","code":"other"}
        session.end {"reason":"end_turn"}
        session.close {"runs":1}
    "#]].assert_eq(&rows);
}

#[test]
fn hooks_test_shows_answers_at_points_without_calls() {
    let hooks = r#"
        "user.prompt.submit": [{ "name": "shout", "command": "echo '{\"prompt\": \"DEPLOY IT\"}'" }],
        "tool.post": [{ "name": "hide", "command": "echo '{\"result\": \"hidden\"}'" }],
        "turn.end": [{ "name": "more", "command": "echo '{\"goOn\": \"test it first\"}'" }],
        "permission.ask": [{ "name": "fine", "command": "echo '{\"answer\": \"yes\"}'" }],
        "model.pre": [{ "name": "broken", "command": ["./no-such-program"] }],
        "session.start": [{ "name": "lax", "onFailure": "pass", "command": "kill -15 $$" }],
    "#;
    check(
        hooks,
        &["user.prompt.submit", "--prompt", "deploy it"],
        expect![[r#"
            exit 0
            --- stdout
            user.prompt.submit deploy it
            pass

              shout  (user)  transform  replace in N ms

            the text after the hooks
              DEPLOY IT
        "#]],
    );
    check(
        hooks,
        &["tool.post", "--tool", "read", "--result", "one", "--json"],
        expect![[r#"
        exit 0
        --- stdout
        {"verdict":"pass","reason":"","decidedBy":"","input":{},"text":"hidden","notes":[],"hooks":[{"name":"background-approvals","origin":"embedder","power":"observe","matched":false,"verdict":"pass","ms":N},{"name":"hide","origin":"user","power":"transform","matched":true,"verdict":"replace","ms":N}]}
    "#]],
    );
    check(
        hooks,
        &["turn.end"],
        expect![[r#"
        exit 3
        --- stdout
        turn.end
        go_on: test it first
        decided by more

          more  (user)  gate       go_on in N ms: test it first
    "#]],
    );
    check(
        hooks,
        &["permission.ask", "--tool", "bash"],
        expect![[r#"
        exit 3
        --- stdout
        permission.ask bash {}
        yes
        decided by fine

          fine  (user)  answer     yes in N ms
    "#]],
    );
    check(
        hooks,
        &["model.pre"],
        expect![[r#"
        exit 0
        --- stdout
        model.pre
        pass

          broken  (user)  observe    failed in N ms: cannot run [T]/home/.config/cotter/./no-such-program: No such file or directory (os error 2)
    "#]],
    );
    check(
        hooks,
        &["session.start"],
        expect![[r#"
            exit 0
            --- stdout
            session.start
            pass

              lax  (user)  observe    failed and passed in N ms: it was ended by signal 15

            messages to you
              hook `lax` failed and passes: it was ended by signal 15
        "#]],
    );
}

#[test]
fn hooks_test_refuses_invalid_arguments_before_a_hook_runs() {
    check(
        "",
        &["tool.per", "--tool", "t"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no point `tool.per`

        hint: did you mean `tool.pre`?
    "#]],
    );
    check(
        "",
        &["context"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no point `context`

        hint: there are session.open, session.start, user.prompt.submit, model.pre, model.post, tool.pre, permission.ask, tool.post, tool.refused, compact.pre, compact.post, subagent.start, subagent.end, turn.end, error, session.end, session.close
    "#]],
    );
    check(
        "",
        &["tool.pre"],
        expect![[r#"
            exit 2
            --- stderr
            error: `tool.pre` needs `--tool`

            hint: cotter hooks test tool.pre --tool bash --input '{"command": "git push"}'
        "#]],
    );
    check(
        "",
        &["user.prompt.submit"],
        expect![[r#"
            exit 2
            --- stderr
            error: `user.prompt.submit` needs `--prompt`

            hint: cotter hooks test user.prompt.submit --prompt 'deploy it'
        "#]],
    );
    check(
        "",
        &["model.pre", "--tool", "t"],
        expect![[r#"
        exit 2
        --- stderr
        error: `model.pre` takes no `--tool`
    "#]],
    );
    check(
        "",
        &["tool.pre", "--tool", "t", "--result", "r"],
        expect![[r#"
        exit 2
        --- stderr
        error: `tool.pre` takes no `--result`
    "#]],
    );
    check(
        "",
        &["tool.pre", "--input", "{}"],
        expect![[r#"
            exit 2
            --- stderr
            error: the following required arguments were not provided
              caused by: --tool <TOOL>

            hint: `cotter hooks test --help` lists the arguments
        "#]],
    );
    check(
        "",
        &["tool.pre", "--tool", "t", "--input", "{"],
        expect![[r#"
            exit 2
            --- stderr
            error: cannot parse the input for `t`: EOF while parsing an object at line 1 column 1

            hint: give it as JSON: cotter explain bash '{"command": "git push"}'
        "#]],
    );
    check(
        "",
        &["tool.pre", "--tool", "t", "--input", "[1]"],
        expect![[r#"
            exit 2
            --- stderr
            error: cannot parse the input for `t`: it is not an object

            hint: give it as JSON: cotter explain bash '{"command": "git push"}'
        "#]],
    );
    check(
        "",
        &["tool.pre", "--tool", "t", "--input", "@none.json"],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot read the input from none.json
          caused by: No such file or directory (os error 2)
    "#]],
    );
}

#[test]
fn hooks_test_reads_the_input_from_a_file_or_a_pipe() {
    let world = world(GUARDS);
    world.write("project/call.json", r#"{"path": "prod.txt"}"#);
    world.check(
        &["hooks", "test", "tool.pre", "--tool", "edit", "--input", "@call.json"],
        expect![[r#"
            exit 3
            --- stdout
            tool.pre edit {"path":"prod.txt"}
            block: not in production
            decided by no-prod

              tidy     (user)  transform  did not match: it is for write
              no-prod  (user)  gate       block in N ms: not in production
              shell    (user)  transform  did not match: it is for bash
              look     (user)  observe    not reached: an earlier hook ended the point
              later    (user)  observe    not reached: an earlier hook ended the point
        "#]],
    );
    let piped = ["hooks", "test", "tool.pre", "--tool", "edit", "--input", "-"];
    world.check_piped(
        &piped,
        br#"{"path": "prod.txt"}"#,
        expect![[r#"
            exit 3
            --- stdout
            tool.pre edit {"path":"prod.txt"}
            block: not in production
            decided by no-prod

              tidy     (user)  transform  did not match: it is for write
              no-prod  (user)  gate       block in N ms: not in production
              shell    (user)  transform  did not match: it is for bash
              look     (user)  observe    not reached: an earlier hook ended the point
              later    (user)  observe    not reached: an earlier hook ended the point
        "#]],
    );
}

/// An untrusted hook is not started, even for a test.
#[test]
fn s6_hooks_test_runs_project_hooks_only_if_trusted() {
    let world = world("");
    world.output(&["init"]);
    world.write_executable(
        "project/.cotter/hooks/no-prod.sh",
        format!("#!/bin/sh\ntouch {}\necho no >&2\nexit 1\n", world.path("project/ran").display()),
    );
    world.check(
        &[&["hooks", "test"], &WRITE[..]].concat(),
        expect![[r#"
            exit 0
            --- stdout
            tool.pre write {"path":"a.txt","content":"x"}
            pass
            no hook is at this point
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            hint: `--here` runs the hooks of this folder as they are on disk
        "#]],
    );
    world.check(
        &["explain", "write", r#"{"path": "a", "content": "b"}"#, "--run-hooks", "--json"],
        expect![[r#"
            exit 0
            --- stdout
            {"verdict":"pass","reason":"","decidedBy":"zone","facts":{"reads":[],"writes":["[T]/project/a"],"hosts":[],"commands":[],"zone":"workspace"},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"project-roots","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"system-directories","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"own-files","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"protected-paths","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"destructive-commands","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"not-understood","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"secret-then-network","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"workspace at level standard","origin":"kernel","kind":"zone","matched":true,"verdict":"pass","reason":""},{"name":"ask","origin":"kernel","kind":"mode","matched":true,"verdict":"pass","reason":""}]}
        "#]],
    );
    assert!(!world.path("project/ran").exists());
}

/// A command that an agent starts runs no hooks and prints no log.
#[test]
fn s1_agent_cannot_test_hooks_or_read_the_hook_log() {
    let world = world(GUARDS).with_env("COTTER_CALL", "c1");
    let run_hooks = ["explain", "read", "a.txt", "--run-hooks"];
    let batch = ["explain", "--batch", "-", "--run-hooks"];
    let test = ["hooks", "test", "tool.pre", "--tool", "write"];
    for args in [&run_hooks[..], &batch, &test, &["hooks", "log"]] {
        let shown = world.shown(&world.output(args));
        assert!(shown.starts_with("exit 3\n--- stderr\nerror: an agent may only run"), "{shown}");
    }
}

#[test]
fn l8_explain_runs_hooks_only_with_the_flag() {
    let world = world(GUARDS);
    let write = r#"{"path": "a.txt", "content": "x"}"#;
    world.check(
        &["explain", "write", write],
        expect![[r#"
        exit 0
        --- stdout
        write {"path":"a.txt","content":"x"}
        pass
        decided by zone

          writes    [T]/project/a.txt
          zone      workspace

          scope     scope                        pass
          schema    schema                       pass
          transform tidy                         would be asked   (user)
          kernel    project-roots                pass
          kernel    system-directories           pass
          kernel    own-files                    pass
          kernel    protected-paths              pass
          kernel    destructive-commands         pass
          kernel    not-understood               pass
          kernel    secret-then-network          pass
          gate      no-prod                      would be asked   (user)
          zone      workspace at level standard  pass
          mode      ask                          pass
    "#]],
    );
    world.check(
        &["explain", "write", write, "--run-hooks"],
        expect![[r#"
        exit 0
        --- stdout
        write {"path":"a.txt","content":"x"}
        pass
        decided by zone

        the input as hooks left it
          {"path":"tidy.txt","content":"x"}

          writes    [T]/project/tidy.txt
          zone      workspace

          scope     scope                        pass
          schema    schema                       pass
          transform tidy                         replace   (user)
          kernel    project-roots                pass
          kernel    system-directories           pass
          kernel    own-files                    pass
          kernel    protected-paths              pass
          kernel    destructive-commands         pass
          kernel    not-understood               pass
          kernel    secret-then-network          pass
          gate      no-prod                      pass     (user)
          zone      workspace at level standard  pass
          mode      ask                          pass
    "#]],
    );
    let file = world.write("calls.jsonl", r#"{"tool": "bash", "input": {"command": "ls"}}"#);
    let file = file.to_str().unwrap();
    world.check(&["explain", "--batch", file, "--run-hooks"], expect![[r#"
        exit 0
        --- stdout
        {"verdict":"block","reason":"no shell","decidedBy":"shell","facts":{"reads":[],"writes":[],"hosts":[],"commands":["ls"],"zone":"safe","confined":true},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"tidy","origin":"user","kind":"transform","matched":false,"verdict":"pass","reason":""},{"name":"no-prod","origin":"user","kind":"gate","matched":false,"verdict":"pass","reason":""},{"name":"shell","origin":"user","kind":"transform","matched":true,"verdict":"block","reason":"no shell"}]}
    "#]]);
    assert!(!world.path("project/tidy.txt").exists(), "nothing runs");
}

/// A call that a hook rewrites is checked like the model's own: by the schema, and by its new facts.
#[test]
fn c2_explain_decides_on_the_call_as_hooks_rewrote_it() {
    let hook = |answer: &str| json!({"name": "made", "command": ["echo", answer]}).to_string();
    let explain = |answer: &str, expected: Expect| {
        let world = world(&format!("\"tool.pre\": [{}]", hook(answer)));
        let input = r#"{"path": "a.txt"}"#;
        world.check(&["explain", "read", input, "--run-hooks", "--json"], expected);
    };
    explain(
        r#"{"input": {"path": 1}}"#,
        expect![[r#"
        exit 3
        --- stdout
        {"verdict":"block","reason":"Invalid arguments for `read`: /path: 1 is not of type \"string\".","decidedBy":"schema","facts":{"reads":["[T]/project/a.txt"],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"input":{"path":1},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"made","origin":"user","kind":"transform","matched":true,"verdict":"replace","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"block","reason":"Invalid arguments for `read`: /path: 1 is not of type \"string\"."}]}
    "#]],
    );
    explain(
        r#"{"input": {"path": "/etc/shadow"}}"#,
        expect![[r#"
        exit 3
        --- stdout
        {"verdict":"block","reason":"/etc/shadow is outside the project","decidedBy":"project-roots","facts":{"reads":["/etc/shadow"],"writes":[],"hosts":[],"commands":[],"zone":"machine"},"input":{"path":"/etc/shadow"},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"made","origin":"user","kind":"transform","matched":true,"verdict":"replace","reason":""},{"name":"project-roots","origin":"kernel","kind":"kernel","matched":true,"verdict":"block","reason":"/etc/shadow is outside the project"},{"name":"system-directories","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"own-files","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"protected-paths","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"destructive-commands","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"not-understood","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"secret-then-network","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"machine at level standard","origin":"kernel","kind":"zone","matched":true,"verdict":"ask","reason":"zone `machine` asks at level `standard`"},{"name":"ask","origin":"kernel","kind":"mode","matched":true,"verdict":"pass","reason":""}]}
    "#]],
    );
    explain(
        r#"{"ask": "really?"}"#,
        expect![[r#"
        exit 3
        --- stdout
        {"verdict":"ask","reason":"really?","decidedBy":"made","facts":{"reads":["[T]/project/a.txt"],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"made","origin":"user","kind":"transform","matched":true,"verdict":"ask","reason":"really?"},{"name":"project-roots","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"system-directories","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"own-files","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"protected-paths","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"destructive-commands","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"not-understood","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"secret-then-network","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"safe at level standard","origin":"kernel","kind":"zone","matched":true,"verdict":"pass","reason":""},{"name":"ask","origin":"kernel","kind":"mode","matched":true,"verdict":"pass","reason":""}]}
    "#]],
    );
    explain(
        r#"{"result": "cached"}"#,
        expect![[r#"
        exit 0
        --- stdout
        {"verdict":"pass","reason":"","decidedBy":"zone","facts":{"reads":["[T]/project/a.txt"],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"made","origin":"user","kind":"transform","matched":true,"verdict":"answer","reason":""},{"name":"project-roots","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"system-directories","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"own-files","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"protected-paths","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"destructive-commands","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"not-understood","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"secret-then-network","origin":"kernel","kind":"kernel","matched":true,"verdict":"pass","reason":""},{"name":"safe at level standard","origin":"kernel","kind":"zone","matched":true,"verdict":"pass","reason":""},{"name":"ask","origin":"kernel","kind":"mode","matched":true,"verdict":"pass","reason":""}]}
    "#]],
    );
    explain(
        "{",
        expect![[r#"
            exit 3
            --- stdout
            {"verdict":"block","reason":"its output begins with `{` and is not JSON: EOF while parsing an object at line 1 column 1","decidedBy":"made","facts":{"reads":["[T]/project/a.txt"],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"considered":[{"name":"scope","origin":"kernel","kind":"scope","matched":true,"verdict":"pass","reason":""},{"name":"schema","origin":"kernel","kind":"schema","matched":true,"verdict":"pass","reason":""},{"name":"made","origin":"user","kind":"transform","matched":true,"verdict":"failed","reason":"its output begins with `{` and is not JSON: EOF while parsing an object at line 1 column 1"}]}
        "#]],
    );
}

const LOGGED: &str = r#"
    "session.open": [{ "name": "opened", "command": "true" }],
    "session.start": [{ "name": "greet", "command": ["echo", "Be brief."] }],
    "model.pre": [{ "name": "broken", "command": "echo 'ouch\u001b[31m' >&2; kill -9 $$" }],
    "tool.pre": [
        { "name": "no-prod", "tools": ["write"], "command": "echo looking >&2; if grep -q prod; then echo '{\"block\": true, \"reason\": \"not in production\"}'; fi" },
        { "name": "shell", "tools": ["bash"], "command": "true" },
        { "name": "look", "power": "observe", "command": "true" },
        { "name": "off", "command": "true" },
    ],
    "tool.post": [{ "name": "reads", "tools": ["read"], "command": "true" }],
    "tool.refused": [{ "name": "mourn", "command": "true" }],
    "session.end": [{ "name": "bye", "command": "true" }],
    "session.close": [{ "name": "closed", "command": "true" }],
"#;

fn logged() -> World {
    let world = world("");
    world.settings(&format!("{{\"disable\": [\"off\"], \"hooks\": {{{LOGGED}}}}}"));
    world
}

const PROMPT: [&str; 4] =
    ["-p", "--model", "rehearsal", "write x to ok.txt then write x to prod.txt"];

#[test]
fn hook_log_lists_each_hook_run() {
    let world = logged();
    world.check(
        &["hooks", "log"],
        expect![[r#"
            exit 1
            --- stderr
            error: no session was started in [T]/project

            hint: `cotter sessions list` shows the sessions of other folders; name one
        "#]],
    );
    world.output(&PROMPT);
    world.check(
        &["hooks", "log"],
        expect![[r#"
            exit 0
            --- stdout
            session [ID1]
            [TIME]  session.open  opened (user)  seen in N ms
            run r1 began [TIME] with rehearsal
            [TIME]  r1.0  session.start  greet (user)  seen in N ms
            [TIME]  r1.1  model.pre  broken (user)  failed in N ms: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
              stderr: ouch\u{1b}[31m
            [TIME]  r1.1  tool.pre write  no-prod (user)  pass in N ms
              stderr: looking
            [TIME]  r1.1  tool.pre write  look (user)  seen in N ms
            [TIME]  r1.1  tool.pre write  shell (user)  did not match: it is for bash
            [TIME]  r1.1  tool.pre write  off (user)  switched off
            [TIME]  r1.1  tool.post write  reads (user)  did not match: it is for read
            [TIME]  r1.2  model.pre  broken (user)  failed in N ms: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
              stderr: ouch\u{1b}[31m
            [TIME]  r1.2  tool.pre write  no-prod (user)  block in N ms: not in production
              stderr: looking
            [TIME]  r1.2  tool.pre write  shell (user)  did not match: it is for bash
            [TIME]  r1.2  tool.pre write  look (user)  not reached: no-prod had refused it
            [TIME]  r1.2  tool.pre write  off (user)  switched off
            [TIME]  r1.2  tool.refused write  mourn (user)  seen in N ms
            [TIME]  r1.3  model.pre  broken (user)  failed in N ms: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
              stderr: ouch\u{1b}[31m
            [TIME]  r1.3  session.end  bye (user)  seen in N ms
            [TIME]  session.close  closed (user)  seen in N ms
        "#]],
    );
    let id = world.id();
    let rows = world.output(&["hooks", "log", &id[..4], "--json"]).stdout;
    let rows = String::from_utf8(rows).unwrap();
    assert_eq!(rows.lines().count(), 17, "{rows}");
    expect![[r#"{"sessionId":"[ID1]","runId":"r1","step":2,"at":"[TIME]","point":"tool.pre","tool":"write","name":"no-prod","origin":"user","power":"transform","matched":true,"verdict":"block","ms":N,"reason":"not in production","stderr":"looking"}"#]].assert_eq(&world.plain(rows.lines().nth(9).unwrap()));
    world.check(
        &["ledger", &id, "verify"],
        expect![[r#"
        exit 0
        --- stdout
        14 rows in order, the last is [HASH]
        this is order, not proof: who can write the file can write all of it anew
        keep the last hash elsewhere and give it as `--head`
    "#]],
    );
}

#[test]
fn hook_log_is_empty_for_a_session_without_hooks() {
    let world = world("");
    world.output(&["-p", "--model", "rehearsal", "read a.txt"]);
    world.check(
        &["hooks", "log"],
        expect![[r#"
        exit 0
        --- stdout
        no hook ran in session [ID1]
    "#]],
    );
    let lines = fs::read_to_string(world.session_file()).unwrap();
    assert!(!lines.contains("hooks.ran"), "{lines}");
}

/// Hooks at the start and end of a session do not create a session without messages.
#[test]
fn command_with_a_status_only_stores_no_session() {
    let world = logged();
    world.output(&["-p", "/commands"]);
    assert_eq!(world.ids(), [""; 0]);
}

/// The log can start before the session does, and continues with later sessions.
#[test]
fn hook_log_follows_new_sessions_until_a_signal() {
    let world = logged();
    let mut child = world.spawn(&["hooks", "log", "-f"]);
    let mut waits = BufReader::new(child.stderr.take().unwrap());
    let mut words = String::new();
    waits.read_line(&mut words).unwrap();
    assert_eq!(words, "no session was started in this folder yet; waiting for one\n");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |end: &str| {
        let mut seen = String::new();
        for line in lines.by_ref() {
            seen += &format!("{line}\n");
            if line.contains(end) {
                break;
            }
        }
        world.plain(&seen)
    };
    world.output(&PROMPT);
    let first = until("closed (user)");
    assert_eq!(
        first,
        world
            .plain(&String::from_utf8(world.output(&["hooks", "log"]).stdout).unwrap())
            .replace("[ID2]", "[ID1]")
    );
    world.output(&PROMPT);
    let second = until("closed (user)");
    assert!(second.starts_with("session [ID2]\n"), "{second}");
    send_signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lines.next(), None);
}

/// An older session that is resumed appears in the log from its resumption on.
#[test]
fn hook_log_follows_a_resumed_older_session() {
    let world = logged();
    world.output(&PROMPT);
    let older = world.id();
    world.output(&PROMPT);
    let mut child = world.spawn(&["hooks", "log", "-f"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |end: &str| {
        let mut seen = String::new();
        for line in lines.by_ref() {
            seen += &format!("{line}\n");
            if line.contains(end) {
                break;
            }
        }
        world.plain(&seen)
    };
    let newest = until("closed (user)");
    assert!(newest.starts_with("session [ID2]\n"), "{newest}");
    world.output(&["-p", "--model", "rehearsal", "--resume", &older, "write x to prod.txt"]);
    expect![[r#"
        session [ID1]
        [TIME]  session.open  opened (user)  seen in N ms
        run r2 began [TIME] with rehearsal
        [TIME]  r2.0  session.start  greet (user)  seen in N ms
        [TIME]  r2.1  model.pre  broken (user)  failed in N ms: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
          stderr: ouch\u{1b}[31m
        [TIME]  r2.1  tool.pre write  no-prod (user)  block in N ms: not in production
          stderr: looking
        [TIME]  r2.1  tool.pre write  shell (user)  did not match: it is for bash
        [TIME]  r2.1  tool.pre write  look (user)  not reached: no-prod had refused it
        [TIME]  r2.1  tool.pre write  off (user)  switched off
        [TIME]  r2.1  tool.refused write  mourn (user)  seen in N ms
        [TIME]  r2.2  model.pre  broken (user)  failed in N ms: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
          stderr: ouch\u{1b}[31m
        [TIME]  r2.2  session.end  bye (user)  seen in N ms
        [TIME]  session.close  closed (user)  seen in N ms
    "#]]
    .assert_eq(&until("closed (user)"));
    send_signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A line is printed when it is complete, and a named session when it exists.
#[test]
fn hook_log_prints_a_line_once_it_is_complete() {
    let world = logged();
    world.output(&PROMPT);
    let whole = fs::read(world.session_file()).unwrap();
    let expected = world.output(&["hooks", "log"]).stdout;
    let other = world.sessions().join("other.jsonl");
    let mut command = world.command(&["hooks", "log", "-f", "other"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut words = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut words).unwrap();
    assert_eq!(words, "there is no session other yet; waiting for it\n");
    let mut file = fs::File::create(&other).unwrap();
    for piece in whole.chunks(whole.len() / 7) {
        std::io::Write::write_all(&mut file, piece).unwrap();
    }
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let expected = String::from_utf8(expected).unwrap();
    for line in expected.lines().skip(1) {
        let seen = lines.by_ref().find(|line| !line.starts_with("session "));
        assert_eq!(seen.as_deref(), Some(line));
    }
    send_signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
