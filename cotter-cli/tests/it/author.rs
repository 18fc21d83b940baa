//! What the author of a hook uses: the starter hook, `hooks check`, `hooks test --here`, `hooks dev`.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use expect_test::expect;

use crate::{
    support::{World, wait_until},
    terminal::Screen,
};

fn world() -> World {
    World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from("/usr/bin:/bin"))
}

/// The exit code of the starter hook for an input.
fn starter(world: &World, input: &str) -> i32 {
    let mut child = Command::new(world.path("project/.cotter/hooks/no-prod.sh"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait().unwrap().code().unwrap()
}

#[test]
fn starter_hook_refuses_names_of_production_and_nothing_else() {
    let world = world();
    world.output(&["init"]);
    let call = |tool_input: serde_json::Value| {
        let call = serde_json::json!({"v": 1, "cwd": "/x/prod", "toolName": "write",
            "toolInput": tool_input, "facts": {"writes": ["prod"]}});
        starter(&world, &call.to_string())
    };
    let write =
        |path: &str, content: &str| call(serde_json::json!({"path": path, "content": content}));
    let bash = |command: &str| call(serde_json::json!({"command": command}));
    for (path, content) in [
        ("products/list.txt", "x"),
        ("src/products/prodigy.rs", "a productive day in prod"),
        ("reproduce.md", "{\"toolInput\": {\"path\": \"prod\"}}"),
        ("a.txt", "\\\" \\\\\", \"path\": \"prod\""),
        ("production-notes/x", "\n\t\u{1f}\u{e9}\u{1f980}"),
        ("", ""),
    ] {
        assert_eq!(write(path, content), 0, "{path} {content}");
    }
    for path in [
        "prod/a.txt",
        "deploy/production/x",
        "a/PROD",
        "config/prod.env",
        ".env.production",
        "with \"quote\"/prod",
        "back\\slash\\/prod",
        "/prod",
    ] {
        assert_eq!(write(path, "x"), 1, "{path}");
        assert_eq!(write(path, &"long \"text\\\" ".repeat(20_000)), 1, "{path}");
    }
    for command in ["kubectl --context=prod apply", "ls /srv/production", "cd prod && make"] {
        assert_eq!(bash(command), 1, "{command}");
    }
    for command in ["echo productive", "cat products/a | wc -l", "grep reproduce a.txt"] {
        assert_eq!(bash(command), 0, "{command}");
    }
    // What is no call is refused.
    for input in ["", "x", "{}", "{\"toolInput\": {\"path\": \"a\"", "[\"toolInput\"]"] {
        assert_eq!(starter(&world, input), 1, "{input}");
    }
    assert_eq!(starter(&world, r#"{"toolInput": {"path": "\u0070rod\u002fx"}}"#), 1);
}

#[test]
fn l8_check_reports_scripts_that_cannot_run_as_errors() {
    let world = world();
    world.write_executable("project/.cotter/hooks/crlf.sh", "#!/bin/sh\r\nexit 0\r\n");
    world.write("project/.cotter/hooks/plain.sh", "#!/bin/sh\nexit 0\n");
    world.write_executable("project/.cotter/hooks/good.sh", "#!/bin/sh\nexit 0\n");
    world.write(
        "project/.cotter/settings.json",
        r#"{"hooks": {"tool.pre": [
            {"name": "good", "command": "./hooks/good.sh"},
            {"name": "crlf", "command": "./hooks/crlf.sh"},
            {"name": "by-sh", "command": ["sh", "hooks/plain.sh"]},
            {"name": "by-sh-crlf", "command": "sh hooks/crlf.sh --now | cat"},
            {"name": "in-project", "command": "python3 \"$COTTER_PROJECT_DIR\"/none.py"}]}}"#,
    );
    world.write(
        "project/.claude/settings.json",
        r#"{"hooks": {"PreToolUse": [{"hooks": [
            {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.cotter/hooks/plain.sh"},
            {"type": "command", "command": "bash $CLAUDE_PROJECT_DIR/.claude/hooks/none.sh"},
            {"type": "command", "command": "${CLAUDE_PROJECT_DIR}/.cotter/hooks/good.sh"},
            {"type": "command", "command": "jq -r .tool_input.command >> ~/log.txt"}]}]}}"#,
    );
    world.check(&["hooks", "check", "."], expect![[r#"
        exit 1
        --- stdout
        ./.claude/settings.json: rejected
          rejected  hook `plain`: [T]/project/.cotter/hooks/plain.sh is not executable: run `chmod +x` on it
          rejected  hook `none`: [T]/project/.claude/hooks/none.sh does not exist: create it, or correct the path
        ./.cotter/settings.json: rejected
          rejected  hook `crlf`: [T]/project/.cotter/hooks/crlf.sh has Windows line ends (CRLF), which its interpreter does not read: run `sed -i 's/\r$//'` on it
          rejected  hook `by-sh-crlf`: [T]/project/.cotter/hooks/crlf.sh has Windows line ends (CRLF), which its interpreter does not read: run `sed -i 's/\r$//'` on it
          rejected  hook `in-project`: [T]/project/none.py does not exist: create it, or correct the path

        checked 2 files of settings: 2 rejected
    "#]]);
    for args in [["doctor", "--color=never"], ["trust", "--print"]] {
        let shown = world.shown(&world.output(&args));
        for error in ["plain.sh is not executable", "none.sh does not exist", "Windows line ends"] {
            assert!(shown.contains(error), "{args:?}: {shown}");
        }
    }
    world.write(
        "project/.cotter/settings.json",
        r#"{"hooks": {"tool.pre": [
            {"name": "plain", "command": ["./hooks/plain.sh"]},
            {"name": "none", "command": ["./hooks/none.sh"]}]}}"#,
    );
    world.check(&["hooks", "check", ".cotter"], expect![[r#"
        exit 1
        --- stdout
        .cotter/settings.json: rejected
          rejected  hook `plain`: `./hooks/plain.sh` is not executable (run `chmod +x` on it)
          rejected  hook `none`: there is no program `./hooks/none.sh` in the folder that has `hooks`

        checked 1 file of settings: 1 rejected
    "#]]);
}

const WRITE: [&str; 4] = ["tool.pre", "--tool", "write", "--input"];
const INPUT: &str = r#"{"path": "a.txt", "content": "x"}"#;

fn gate(world: &World, word: &str) {
    world.write_executable(
        "project/.cotter/hooks/gate.sh",
        format!("#!/bin/sh\necho {word} >&2\nexit 1\n"),
    );
}

fn project() -> World {
    let world = world();
    world.write(
        "project/.cotter/settings.json",
        r#"{"hooks": {"tool.pre": [{"name": "gate", "command": "./hooks/gate.sh"}]}}"#,
    );
    gate(&world, "first");
    world
}

fn answer(screen: &mut Screen, keys: &str) {
    screen.wait_for("[y]es, [n]o: ");
    screen.type_keys(keys);
}

#[test]
fn l8_working_copy_is_tested_after_one_yes_per_terminal() {
    let world = project();
    let args = [&["hooks", "test"], &WRITE[..], &[INPUT, "--here"]].concat();
    world.check_without_terminal(&args, expect![[r#"
        exit 3
        --- stderr
        error: there is no terminal to ask on, and only a person can give trust
          caused by: No such device or address (os error 6)

        hint: `cotter trust --print` shows the contents and their hash; `--trust=HASH` trusts them for one run
    "#]]);
    let mut screen = Screen::new(&world, &args);
    answer(&mut screen, "n\n");
    let refused = screen.end(&world);
    assert!(refused.contains("the answer was no") && !refused.contains("block in"), "{refused}");
    // One terminal, three tests: the second and the third run what was changed meanwhile, unasked.
    let line = |word: &str| {
        format!("sed -i s/echo.*/'echo {word} >\\&2'/ .cotter/hooks/gate.sh; \"$@\"; ")
    };
    let script = format!("\"$@\"; {}{}", line("second"), line("third"));
    let binary = env!("CARGO_BIN_EXE_cotter");
    let all = [&["-c", &script, "sh", binary], &args[..]].concat();
    let mut screen = Screen::of("/bin/sh", &world, &all);
    answer(&mut screen, "y\n");
    let seen = screen.end(&world);
    assert_eq!(seen.matches("[y]es, [n]o: ").count(), 1, "{seen}");
    for word in ["first", "second", "third"] {
        assert!(seen.contains(&format!("block: {word}")), "{word}: {seen}");
    }
    // Another terminal asks again, also without one a stored yes does not count; a run trusts nothing of it.
    let mut screen = Screen::new(&world, &args);
    answer(&mut screen, "n\n");
    screen.end(&world);
    assert_eq!(world.without_terminal(&args).output().unwrap().status.code(), Some(3));
    let listed = world.output(&["trust", "--list"]);
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "nothing is trusted\n");
    // In the shell of an agent it refuses.
    let within = World::command(&world, &args).env("COTTER_CALL", "x").output().unwrap();
    assert!(!within.status.success() && within.stdout.is_empty(), "{within:?}");
}

#[test]
fn l8_hooks_test_takes_a_hash_for_one_run() {
    let world = project();
    let printed = String::from_utf8(world.output(&["trust", "--print"]).stdout).unwrap();
    let hash = printed.lines().find_map(|line| line.strip_prefix("hash    ")).unwrap();
    let trust = format!("--trust={hash}");
    let args = [&["hooks", "test"], &WRITE[..], &[INPUT, &trust]].concat();
    world.check(
        &args,
        expect![[r#"
        exit 3
        --- stdout
        tool.pre write {"path":"a.txt","content":"x"}
        block: first
        decided by gate

          gate  (project)  gate       block in N ms: first
    "#]],
    );
    gate(&world, "changed");
    world.check(
        &args,
        expect![[r#"
        exit 3
        --- stderr
        error: no source or space here has the hash [HASH][HASH]

        hint: `cotter trust --print` shows the hashes
    "#]],
    );
}

#[test]
fn l8_hooks_dev_repeats_the_test_after_each_change() {
    let world = project();
    let args = [&["hooks", "dev"], &WRITE[..], &[INPUT]].concat();
    world.check_without_terminal(&args, expect![[r#"
        exit 3
        --- stderr
        error: there is no terminal to ask on, and only a person can give trust
          caused by: No such device or address (os error 6)

        hint: `cotter trust --print` shows the contents and their hash; `--trust=HASH` trusts them for one run
    "#]]);
    let mut screen = Screen::new(&world, &args);
    answer(&mut screen, "y\n");
    screen.wait_for("block: first");
    screen.wait_for("waiting for a change");
    gate(&world, "second");
    screen.wait_for("block: second");
    // An error in the middle of a change ends nothing.
    let settings = world.path("project/.cotter/settings.json");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, "{").unwrap();
    screen.wait_for("error: ");
    fs::write(&settings, text).unwrap();
    gate(&world, "third");
    wait_until(|| screen.text().contains("block: third"), "the third test");
    // A script of the project is part of the hook.
    let script = |word: &str| {
        world.write_executable(
            "project/scripts/gate.sh",
            format!("#!/bin/sh\necho {word} >&2\nexit 1\n"),
        );
    };
    script("fourth");
    world.write(
        "project/.cotter/settings.json",
        r#"{"hooks": {"tool.pre": [
            {"name": "gate", "command": "\"$COTTER_PROJECT_DIR\"/scripts/gate.sh"}]}}"#,
    );
    wait_until(|| screen.text().contains("block: fourth"), "the fourth test");
    let waits_again = || {
        screen.text().rsplit_once("block: fourth").is_some_and(|(_, end)| end.contains("waiting"))
    };
    wait_until(waits_again, "the end of the fourth test");
    script("fifth");
    wait_until(|| screen.text().contains("block: fifth"), "the fifth test");
    screen.type_keys("\u{3}");
    screen.end(&world);
}
