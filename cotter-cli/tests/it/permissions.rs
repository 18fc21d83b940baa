//! Answers that hold for longer: for a session, or permanently as a rule. A rule is shown, and can be
//! narrowed, listed and removed.

use std::fs;

use expect_test::{Expect, expect};

use crate::{
    support::{World, wait_until},
    terminal::Screen,
};

const SETTINGS: &str = r#"// My own.
{
  "permissions": {
    "level": "strict", // careful
    "allow": [
      "bash(make *)", // builds
    ],
  },
}
"#;

fn world() -> World {
    let world = World::new().with_env("NO_COLOR", "1");
    world.settings(SETTINGS);
    world
}

/// Runs a prompt at a terminal and types the next line at each question.
fn check(world: &World, prompt: &str, lines: &[&str], expected: Expect) {
    let mut screen = Screen::new(world, &["-p", "--ask", "--model", "rehearsal", prompt]);
    for (before, line) in lines.iter().enumerate() {
        let asked = || screen.text().matches("Run it?").count() > before;
        wait_until(asked, &format!("a question for {line:?}"));
        screen.type_keys(&format!("{line}\n"));
    }
    expected.assert_eq(&screen.end(world));
}

fn settings(world: &World) -> String {
    fs::read_to_string(world.path("home/.config/cotter/settings.json")).unwrap()
}

#[test]
fn l14_yes_applies_to_one_call() {
    let world = world();
    check(
        &world,
        "write one to x.txt then write two to x.txt",
        &["y", "n"],
        expect![[r#"
        exit 0
        1. write {"path":"x.txt","content":"one"}
           asked by zone: zone `workspace` asks at level `strict`
           session or always would allow: write(./x.txt)
        Run it? [y]es, [s]ession, [a]lways, [n]o: y
        1. write {"path":"x.txt","content":"two"}
           asked by zone: zone `workspace` asks at level `strict`
           session or always would allow: write(./x.txt)
        Run it? [y]es, [s]ession, [a]lways, [n]o: n
        refused: write: the answer was no (terminal)
        rehearsal: `write` {"path":"x.txt","content":"one"} gave 1 line:
        created x.txt, 1 line

        `write` {"path":"x.txt","content":"two"} was refused: Permission denied for `write`. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    assert_eq!(settings(&world), SETTINGS);
}

#[test]
fn l14_session_answer_applies_to_equal_calls_of_this_session() {
    let world = world();
    check(
        &world,
        "write one to x.txt then write two to x.txt then write one to y.txt",
        &["s", "n"],
        expect![[r#"
            exit 0
            1. write {"path":"x.txt","content":"one"}
               asked by zone: zone `workspace` asks at level `strict`
               session or always would allow: write(./x.txt)
            Run it? [y]es, [s]ession, [a]lways, [n]o: s
            1. write {"path":"y.txt","content":"one"}
               asked by zone: zone `workspace` asks at level `strict`
               session or always would allow: write(./y.txt)
            Run it? [y]es, [s]ession, [a]lways, [n]o: n
            refused: write: the answer was no (terminal)
            rehearsal: `write` {"path":"x.txt","content":"one"} gave 1 line:
            created x.txt, 1 line

            `write` {"path":"x.txt","content":"two"} gave 1 line:
            replaced x.txt, 1 line

            `write` {"path":"y.txt","content":"one"} was refused: Permission denied for `write`. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    assert_eq!(settings(&world), SETTINGS);
    check(
        &world,
        "write one to x.txt",
        &["n"],
        expect![[r#"
        exit 0
        1. write {"path":"x.txt","content":"one"}
           asked by zone: zone `workspace` asks at level `strict`
           session or always would allow: write(./x.txt)
        Run it? [y]es, [s]ession, [a]lways, [n]o: n
        refused: write: the answer was no (terminal)
        rehearsal: `write` {"path":"x.txt","content":"one"} was refused: Permission denied for `write`. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

#[test]
fn l14_always_answer_adds_an_allow_rule_to_the_settings() {
    let world = world();
    check(
        &world,
        "run touch one",
        &["a"],
        expect![[r#"
            exit 0
            1. bash {"command":"touch one"}
               asked by zone: zone `workspace` asks at level `strict`
               session or always would allow: bash(touch one)
            Run it? [y]es, [s]ession, [a]lways, [n]o: a
            stored in [T]/home/.config/cotter/settings.json
            rehearsal: `bash` {"command":"touch one"} gave 1 line:
            (no output)

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    expect![[r#"
        // My own.
        {
          "permissions": {
            "level": "strict", // careful
            "allow": [
              "bash(make *)", // builds
              "bash(touch one)",
            ],
          },
        }
    "#]]
    .assert_eq(&settings(&world));
    check(
        &world,
        "run touch one",
        &[],
        expect![[r#"
        exit 0
        rehearsal: `bash` {"command":"touch one"} gave 1 line:
        (no output)

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(
        &["permissions", "list"],
        expect![[r#"
        exit 0
        --- stdout
        mode ask, level strict, sandbox auto
        allow  bash(make *)     user, [T]/home/.config/cotter/settings.json:6:7
        allow  bash(touch one)  user, [T]/home/.config/cotter/settings.json:7:7
    "#]],
    );
    world.check(&["permissions", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"kind":"allow","rule":"bash(make *)","origin":"user","at":"[T]/home/.config/cotter/settings.json:6:7"}
        {"kind":"allow","rule":"bash(touch one)","origin":"user","at":"[T]/home/.config/cotter/settings.json:7:7"}
    "#]]);
    world.check(
        &["permissions", "revoke", "bash(touch on)"],
        expect![[r#"
        exit 1
        --- stderr
        error: there is no allow rule `bash(touch on)` in your settings

        hint: did you mean `bash(touch one)`?
    "#]],
    );
    world.check(
        &["permissions", "revoke", "bash(touch one)"],
        expect![[r#"
        exit 0
        --- stdout
        bash(touch one) is no longer allowed ([T]/home/.config/cotter/settings.json)
    "#]],
    );
    assert_eq!(settings(&world).matches("touch").count(), 0, "{}", settings(&world));
    check(
        &world,
        "run touch one",
        &["n"],
        expect![[r#"
        exit 0
        1. bash {"command":"touch one"}
           asked by zone: zone `workspace` asks at level `strict`
           session or always would allow: bash(touch one)
        Run it? [y]es, [s]ession, [a]lways, [n]o: n
        refused: bash: the answer was no (terminal)
        rehearsal: `bash` {"command":"touch one"} was refused: Permission denied for `bash`. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

#[test]
fn s4_typed_rule_must_cover_the_call_and_not_exceed_the_offer() {
    let world = world();
    check(
        &world,
        "write one to src/x.txt then write two to src/x.txt",
        &["a write(", "a bash(ls *)", "a write(./**)", "a always", "a write(./src/x.txt)"],
        expect![[r#"
            exit 0
            1. write {"path":"src/x.txt","content":"one"}
               asked by zone: zone `workspace` asks at level `strict`
               session or always would allow: write(./src/**)
            Run it? [y]es, [s]ession, [a]lways, [n]o: a write(
            rule `write(`: `(` without `)` at the end
            Run it? [y]es, [s]ession, [a]lways, [n]o: a bash(ls *)
            `bash(ls *)` does not cover this call
            Run it? [y]es, [s]ession, [a]lways, [n]o: a write(./**)
            `write(./**)` would allow more than write(./src/**)
            Run it? [y]es, [s]ession, [a]lways, [n]o: a always
            `always` does not cover this call
            Run it? [y]es, [s]ession, [a]lways, [n]o: a write(./src/x.txt)
            stored in [T]/home/.config/cotter/settings.json
            rehearsal: `write` {"path":"src/x.txt","content":"one"} gave 1 line:
            created src/x.txt, 1 line

            `write` {"path":"src/x.txt","content":"two"} gave 1 line:
            replaced src/x.txt, 1 line

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    assert!(settings(&world).contains("\"write(./src/x.txt)\""), "{}", settings(&world));
    assert!(!settings(&world).contains("ls *"), "{}", settings(&world));
}

#[test]
fn l14_question_of_a_kernel_gate_is_repeated_for_every_call() {
    let world = world();
    check(
        &world,
        "write x to AGENTS.md then write y to AGENTS.md",
        &["a", "s", "y", "n"],
        expect![[r#"
            exit 0
            1. write {"path":"AGENTS.md","content":"x"}
               asked by zone: zone `workspace` asks at level `strict`
               asked by protected-paths: AGENTS.md decides what runs later
            Run it? [y]es, [n]o: a
            type y or n; text after n is sent to the model
            Run it? [y]es, [n]o: s
            type y or n; text after n is sent to the model
            Run it? [y]es, [n]o: y
            1. write {"path":"AGENTS.md","content":"y"}
               asked by zone: zone `workspace` asks at level `strict`
               asked by protected-paths: AGENTS.md decides what runs later
            Run it? [y]es, [n]o: n
            refused: write: the answer was no (terminal)
            rehearsal: `write` {"path":"AGENTS.md","content":"x"} gave 1 line:
            created AGENTS.md, 1 line

            `write` {"path":"AGENTS.md","content":"y"} was refused: Permission denied for `write`. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    assert_eq!(settings(&world), SETTINGS);
}

#[test]
fn revoking_an_unknown_rule_is_an_error() {
    let world = world();
    world.check(
        &["permissions", "revoke", "read"],
        expect![[r#"
            exit 1
            --- stderr
            error: there is no allow rule `read` in your settings

            hint: `cotter permissions list` shows the rules
        "#]],
    );
    world.settings("{}");
    world.check(
        &["permissions", "list"],
        expect![[r#"
        exit 0
        --- stdout
        mode ask, level standard, sandbox auto
        no rules: zones decide
    "#]],
    );
    world.check(
        &["permissions", "list", "--json"],
        expect![[r#"
        exit 0
    "#]],
    );
    world.check(
        &["permissions", "revoke", "read"],
        expect![[r#"
            exit 1
            --- stderr
            error: there is no allow rule `read` in your settings

            hint: `cotter permissions list` shows the rules
        "#]],
    );
}

/// The README's command, with a person at the terminal.
#[test]
fn readme_prompt_asks_only_before_the_push() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let prompt = "write hello to a.txt then read a.txt then replace hello by goodbye in a.txt then run cat a.txt then run git push";
    assert!(readme.contains(&format!("\"{prompt}\"")), "the README shows something else");
    let world = World::new().with_env("NO_COLOR", "1");
    fs::remove_file(world.path("project/a.txt")).unwrap();
    let prompt = format!("{prompt} then write x to ../x.txt then run cotter -p hello");
    check(
        &world,
        &prompt,
        &["n not today"],
        expect![[r#"
            exit 0
            1. bash {"command":"git push"}
               asked by zone: zone `external` asks at level `standard`
               session or always would allow: bash(git push)
            Run it? [y]es, [s]ession, [a]lways, [n]o: n not today
            refused: bash: not today (terminal)
            refused: write: [T]/x.txt is outside the project (project-roots)
            refused: bash: zone `never` is forbidden for every call (zone)
            rehearsal: `write` {"path":"a.txt","content":"hello"} gave 1 line:
            created a.txt, 1 line

            `read` {"path":"a.txt"} gave 1 line:
                 1	hello

            `edit` {"path":"a.txt","edits":[{"old":"hello","new":"goodbye"}]} gave 8 lines:
            edited a.txt, 1 place
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +1 @@
            -hello
            \ No newline at end of file
            +goodbye
            \ No newline at end of file

            `bash` {"command":"cat a.txt"} gave 1 line:
            goodbye

            `bash` {"command":"git push"} was refused: Permission denied for `bash`: not today. Do not retry this exact call.

            `write` {"path":"../x.txt","content":"x"} was refused: Hook "project-roots" blocked the action: [T]/x.txt is outside the project. Adjust your approach; do not retry the exact same call.

            `bash` {"command":"cotter -p hello"} was refused: Denied: zone `never` is forbidden for every call. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    assert_eq!(fs::read_to_string(world.path("project/a.txt")).unwrap(), "goodbye");
    assert!(!world.path("x.txt").exists());
    let told = world.output(&["sessions", "show", &world.id()]);
    expect![[r#"
        exit 0
        --- stdout
        user: write hello to a.txt then read a.txt then replace hello by goodbye in a.txt then run cat a.txt then run git push then write x to ../x.txt then run cotter -p hello
        assistant: (calls) write {"path":"a.txt","content":"hello"}
        write: created a.txt, 1 line
        assistant: (calls) read {"path":"a.txt"}
        read:      1	hello
        assistant: (calls) edit {"path":"a.txt","edits":[{"old":"hello","new":"goodbye"}]}
        edit: edited a.txt, 1 place
        --- a/a.txt
        +++ b/a.txt
        @@ -1 +1 @@
        -hello
        \ No newline at end of file
        +goodbye
        \ No newline at end of file
        assistant: (calls) bash {"command":"cat a.txt"}
        bash: goodbye
        assistant: (calls) bash {"command":"git push"}
        bash (denied): Permission denied for `bash`: not today. Do not retry this exact call.
        assistant: (calls) write {"path":"../x.txt","content":"x"}
        write (denied): Hook "project-roots" blocked the action: [T]/x.txt is outside the project. Adjust your approach; do not retry the exact same call.
        assistant: (calls) bash {"command":"cotter -p hello"}
        bash (denied): Denied: zone `never` is forbidden for every call. Do not retry this exact call.
        assistant: rehearsal: `write` {"path":"a.txt","content":"hello"} gave 1 line:
        created a.txt, 1 line

        `read` {"path":"a.txt"} gave 1 line:
             1	hello

        `edit` {"path":"a.txt","edits":[{"old":"hello","new":"goodbye"}]} gave 8 lines:
        edited a.txt, 1 place
        --- a/a.txt
        +++ b/a.txt
        @@ -1 +1 @@
        -hello
        \ No newline at end of file
        +goodbye
        \ No newline at end of file

        `bash` {"command":"cat a.txt"} gave 1 line:
        goodbye

        `bash` {"command":"git push"} was refused: Permission denied for `bash`: not today. Do not retry this exact call.

        `write` {"path":"../x.txt","content":"x"} was refused: Hook "project-roots" blocked the action: [T]/x.txt is outside the project. Adjust your approach; do not retry the exact same call.

        `bash` {"command":"cotter -p hello"} was refused: Denied: zone `never` is forbidden for every call. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
    "#]].assert_eq(&world.shown(&told));
}

/// A call that was refused without a question is named, with the flag that would ask.
#[test]
fn call_refused_without_a_question_names_the_ask_flag() {
    let world = world();
    world.check(&["-p", "--model", "rehearsal", "run touch one"], expect![[r#"
        exit 0
        --- stdout
        rehearsal: `bash` {"command":"touch one"} was refused: Permission denied for `bash`: zone `workspace` asks at level `strict`, and no person can be asked. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: bash {"command":"touch one"}: zone `workspace` asks at level `strict`, and no person can be asked; `--ask` asks you on the terminal
    "#]]);
}
