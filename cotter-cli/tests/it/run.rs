//! `cotter -p` as text: answers, models, limits, prompts, folders.

use std::fs;

use expect_test::expect;

use crate::support::{REHEARSAL, World, rehearsal};

#[test]
fn run_reads_a_file_and_prints_the_answer() {
    World::new().check(
        &rehearsal(&[], "read a.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

#[test]
fn refused_call_is_reported_on_stderr_with_exit_0() {
    World::new().check(&rehearsal(&[], "read /etc/hostname"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"/etc/hostname"} was refused: Hook "project-roots" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: read: /etc/hostname is outside the project (project-roots)
    "#]]);
}

#[test]
fn run_without_a_usable_model_exits_2_and_stores_nothing() {
    let world = World::new();
    world.check(&["-p", "hi"], expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
    "#]]);
    world.check(
        &["-p", "--model", "anthropic/claude-sonnet-5", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no key for `anthropic`

            hint: set `ANTHROPIC_API_KEY`
        "#]],
    );
    world.check(
        &["-p", "--model", "rehearsal/x", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no provider `rehearsal`

            hint: did you mean `--model rehearsal`?
        "#]],
    );
    assert!(!world.sessions().exists());
}

#[test]
fn model_flag_wins_over_variable_and_settings() {
    let world = World::new();
    world.settings(r#"{"model": "rehearsal"}"#);
    assert!(world.output(&["-p", "list src"]).status.success());
    let world = world.with_env("COTTER_MODEL", "env/model");
    world.check(
        &["-p", "list src"],
        expect![[r#"
            exit 2
            --- stderr
            error: cannot use the model `env/model`, which `COTTER_MODEL` names
              caused by: there is no provider `env`

            hint: `cotter models list` shows the providers; another one is described in the settings, under `providers`
        "#]],
    );
    assert!(world.output(&rehearsal(&[], "list src")).status.success());
}

#[test]
fn piped_input_is_a_data_part_after_the_prompt() {
    let world = World::new();
    world.check_piped(
        &rehearsal(&[], "list src"),
        b"read a.txt\n",
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    let stored = fs::read_to_string(world.session_file()).unwrap();
    let parts =
        r#""content":[{"type":"text","text":"list src"},{"type":"data","text":"read a.txt\n"}]"#;
    assert!(stored.contains(parts), "{stored}");
}

#[test]
fn piped_input_can_be_the_whole_prompt() {
    let world = World::new();
    world.check_piped(
        &REHEARSAL,
        b"list src\n",
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `list` {"path":"src"} gave 1 line:
            b.txt

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    world.check_piped(
        &rehearsal(&[], "list src"),
        b" \n",
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check_piped(
        &REHEARSAL,
        b"\n",
        expect![[r#"
        exit 2
        --- stderr
        error: there is no prompt

        hint: type it after `-p`, or pipe it in
    "#]],
    );
    world.check_piped(&REHEARSAL, b"list \xff\n", expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"�"} failed (not_found): cannot list �: No such file or directory (os error 2)

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: standard input is not UTF-8: invalid bytes were replaced
    "#]]);
    world.check_piped(
        &REHEARSAL,
        &vec![b'x'; 10 * 1024 * 1024 + 1],
        expect![[r#"
        exit 1
        --- stderr
        error: standard input has more than 10485760 bytes

        hint: put it into a file of the project and name the file in the prompt
    "#]],
    );
}

#[test]
fn run_without_a_prompt_is_a_usage_error() {
    let world = World::new();
    world.check(
        &REHEARSAL,
        expect![[r#"
        exit 2
        --- stderr
        error: there is no prompt

        hint: type it after `-p`, or pipe it in
    "#]],
    );
    world.check(
        &rehearsal(&[], "  "),
        expect![[r#"
        exit 2
        --- stderr
        error: there is no prompt

        hint: type it after `-p`, or pipe it in
    "#]],
    );
}

#[test]
fn limits_end_a_run_with_code_3() {
    let world = World::new();
    world.check(
        &rehearsal(&["--max-turns", "1"], "list src"),
        expect![[r#"
            exit 3
            --- stderr
            error: the run reached its limit of 1 steps

            hint: `--max-turns N` allows more
        "#]],
    );
    let script = world.script(r#"{"calls": [{"name": "list"}]}, {"text": "done"}"#);
    world.check(
        &["-p", "--script", &script, "--max-budget-usd", "1", "go"],
        expect![[r#"
            exit 2
            --- stderr
            error: the price of `script` is unknown, so a budget of 1 USD cannot be enforced

            hint: remove the budget
        "#]],
    );
    assert!(world.output(&rehearsal(&["--max-budget-usd", "1"], "list")).status.success());
}

#[test]
fn a_failing_model_ends_a_run_with_code_1() {
    let world = World::new();
    let script = world.script(r#"{"error": {"kind": "auth"}}"#);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
            exit 1
            --- stderr
            error: the run failed (auth)
              caused by: the script says so
        "#]],
    );
    let script = world.script(
        r#"{"error": {"kind": "overloaded", "retryAfterMs": 1}}, {"text": "there you are"}"#,
    );
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        there you are
        --- stderr
        retry: the model failed (overloaded); again in N ms
    "#]],
    );
    let script = world.script("");
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
            exit 1
            --- stderr
            error: the run failed (bad_request)
              caused by: the script has no step for request 1
        "#]],
    );
}

#[test]
fn broken_script_error_names_its_place() {
    let world = World::new();
    world.check(
        &["-p", "--script", "none.json", "go"],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot read the script none.json
          caused by: No such file or directory (os error 2)
    "#]],
    );
    let script = world.script("{\"text\": \"a\"},\n  {\"txet\": \"b\"}");
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 1
        --- stderr
        error: [T]/script.json:2:4: $.steps[1].txet: unknown key `txet`

        hint: did you mean `text`?
    "#]],
    );
    let script = world.script("{\"text\": \"a\"},\n  {\"error\": {\"kind\": \"odd\"}}");
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 1
        --- stderr
        error: [T]/script.json:2:22: $.steps[1].error.kind: expected one of `auth`, `rate_limited`, `overloaded`, `context_overflow`, `bad_request`, `network`, `timeout`, `cancelled`, `other`, found the string `odd`
    "#]]);
    let script = world.script("{\"text\": \"a}");
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 1
        --- stderr
        error: [T]/script.json:1:21: $.steps[0].text: string is not closed

        hint: add a `"`
    "#]],
    );
    assert!(!world.sessions().exists(), "a script that is none starts no session");
}

#[test]
fn no_session_flag_stores_nothing() {
    let world = World::new();
    world.check(
        &rehearsal(&["--no-session"], "list src"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    assert_eq!(fs::read_dir(world.path("home")).unwrap().count(), 0);
    let homeless = World::new().with_env("HOME", "");
    homeless.check(
        &rehearsal(&["--no-session"], "list src"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    homeless.check(
        &rehearsal(&[], "list src"),
        expect![[r#"
            exit 1
            --- stderr
            error: cannot find the folder for sessions: neither `XDG_DATA_HOME` nor `HOME` is set

            hint: set `HOME`, or run with `--no-session`
        "#]],
    );
}

#[test]
fn cwd_flag_sets_the_working_folder() {
    let world = World::new();
    world.check(
        &rehearsal(&["--cwd", "src"], "list and read ../a.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {} gave 1 line:
        b.txt

        `read` {"path":"../a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(
        &rehearsal(&["--cwd", "nowhere"], "list"),
        expect![[r#"
            exit 1
            --- stderr
            error: cannot work in nowhere
              caused by: No such file or directory (os error 2)

            hint: `--cwd DIR` needs an existing folder
        "#]],
    );
    world.check(
        &rehearsal(&["--cwd", "a.txt"], "list"),
        expect![[r#"
            exit 1
            --- stderr
            error: cannot work in a.txt
              caused by: not a directory

            hint: `--cwd DIR` needs an existing folder
        "#]],
    );
    fs::remove_dir(world.path("project/.git")).unwrap();
    world.check(&rehearsal(&["--cwd", "src"], "read ../a.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"../a.txt"} was refused: Hook "project-roots" blocked the action: [T]/project/a.txt is outside the project. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: read: [T]/project/a.txt is outside the project (project-roots)
    "#]]);
}

#[test]
fn permission_mode_flag_sets_the_mode() {
    let world = World::new();
    world.settings(r#"{"permissions": {"level": "paranoid"}}"#);
    world.check(&rehearsal(&[], "list src"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} was refused: Permission denied for `list`: zone `safe` asks at level `paranoid`, and no person can be asked. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: list {"path":"src"}: zone `safe` asks at level `paranoid`, and no person can be asked; `--ask` asks you on the terminal
    "#]]);
    world.check(&rehearsal(&["--permission-mode", "auto"], "list src"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} was refused: Denied: zone `safe` asks at level `paranoid`, and mode `auto` asks nobody. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: list: zone `safe` asks at level `paranoid`, and mode `auto` asks nobody (mode)
    "#]]);
    world.check(&rehearsal(&["--permission-mode", "plan"], "list src"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} was refused: Permission denied for `list`: zone `safe` asks at level `paranoid`, and no person can be asked. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: list {"path":"src"}: zone `safe` asks at level `paranoid`, and no person can be asked; `--ask` asks you on the terminal
    "#]]);
}

#[test]
fn closed_stdout_is_no_error_for_text_and_json() {
    let world = World::new();
    let script = world.script(r#"{"text": "hello"}"#);
    for format in ["text", "json"] {
        let args = ["-p", "--script", &script, "--output-format", format, "go"];
        let mut child = world.command(&args).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert_eq!(output.status.code(), Some(0), "{format}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn unwritable_stdout_exits_1() {
    let world = World::new();
    let script = world.script(r#"{"text": "hello"}"#);
    for format in ["text", "json", "stream-json"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let args = ["-p", "--script", &script, "--output-format", format, "go"];
        let output = world.command(&args).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("error: cannot write the answer"), "{format}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{format}");
    }
}

#[test]
fn hidden_characters_are_printed_unchanged_to_a_pipe() {
    let world = World::new();
    let script = world.script(r#"{"text": "\u001b[31mred\u202e"}"#);
    let output = world.output(&["-p", "--script", &script, "go"]);
    assert_eq!(output.stdout, "\u{1b}[31mred\u{202e}\n".as_bytes());
}

/// R11: a session finds what an earlier session remembered, in the same project and in no other.
#[test]
fn r11_memory_is_found_by_a_later_session_of_the_same_project() {
    let world = World::new();
    let run = |prompt: &str| world.output(&["-p", "--model", "rehearsal", prompt]);
    assert!(run("remember the kettle is blue").status.success());
    let found = String::from_utf8_lossy(&run("recall kettles").stdout).into_owned();
    assert!(found.contains("the kettle is blue"), "{found}");
    let elsewhere = world.path("home");
    let elsewhere = elsewhere.to_str().unwrap();
    let shown = world.output(&["-p", "--model", "rehearsal", "--cwd", elsewhere, "recall kettles"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("No note matches"), "{shown}");
}
