//! Hooks as people write them, on machines as people have them: each answers, and none is refused what it needs.

use std::{path::PathBuf, process::Command};

use expect_test::{Expect, expect};
use serde_json::json;

use crate::support::World;

/// A project with one trusted hook for Claude Code, which runs this line.
fn world(line: &str) -> World {
    let world =
        World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from("/usr/bin:/bin"));
    world.settings(r#"{"permissions": {"mode": "accept-edits"}, "claude": {"home": false}}"#);
    let hooks = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": line}]}]});
    world.write("project/.claude/settings.json", json!({"hooks": hooks}).to_string());
    world
}

/// What a person is told of a write, made with these arguments.
fn told(world: &World, args: &[&str]) -> String {
    world.trust_now(&["project/.claude"]);
    let script = world.script(
        r#"{"calls": [{"name": "write", "input": {"path": "new.txt", "content": "x"}}]}, {"text": "done"}"#,
    );
    let output = world.output(&[&["-p", "--script", &script], args, &["go"]].concat());
    world.plain(&String::from_utf8_lossy(&output.stderr))
}

/// Git reads what the settings at home name.
#[test]
fn b3_hook_calls_git_with_the_settings_of_a_person() {
    let world = world("git status --porcelain && git config work.name >&2; exit 2");
    world.write(
        "home/.gitconfig",
        "[core]\n\texcludesFile = ~/.ignored\n[include]\n\tpath = work/git\n",
    );
    world.write("home/.ignored", "*.tmp\n");
    let init = ["init", "-q"].into_iter();
    let made = Command::new("git").args(init).current_dir(world.path("project")).status();
    assert!(made.unwrap().success());
    world.write("home/work/git", "[work]\n\tname = depot\n");
    expect![[r#"
        refused: write: depot (git-58f91f, project)
    "#]]
    .assert_eq(&told(&world, &[]));
    // What a command of the agent could write or link decides nothing.
    world.write("home/private/notes", "[work]\n\tname = notes\n");
    std::os::unix::fs::symlink(world.path("home/private/notes"), world.path("home/link")).unwrap();
    world.write("home/.gitconfig", "[include]\n\tpath = link\n");
    let said = told(&world, &[]);
    assert!(!said.contains("refused: write: notes") && said.contains("was refused"), "{said}");
    // A secret's name is not opened.
    world.write("home/.gitconfig", "[include]\n\tpath = .ssh/id_rsa\n");
    world.write("home/.ssh/id_rsa", "[work]\n\tname = key\n");
    let said = told(&world, &[]);
    assert!(!said.contains("key\n") && said.contains("id_rsa was refused"), "{said}");
}

/// What shells read when they start does not decide what a hook answers.
#[test]
fn b3_hook_starts_a_shell_that_reads_its_startup_files() {
    let check = |line: &str, expected: Expect| {
        let world = world(line);
        world.write("home/.bashrc", "export A=1\n");
        world.write("home/.toolrc", "export A=1\n");
        expected.assert_eq(&told(&world, &[]));
    };
    check(
        "bash -c '. ~/.bashrc; true'",
        expect![[r#"
        hook `PreToolUse-54df15`: access to [T]/home/.bashrc was refused: it is outside the project; `"readRoots": ["~/.bashrc"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder
    "#]],
    );
    // Another file may hold what it decides by. The way out opens this one alone.
    check(
        "bash -c '. ~/.toolrc; true'",
        expect![[r#"
        refused: write: it exited with code 0: bash: line 1: [T]/home/.toolrc: Permission denied; access to [T]/home/.toolrc was refused: it is outside the project; `"readRoots": ["~/.toolrc"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder (PreToolUse-ce7d31, project)
    "#]],
    );
}

/// A hook that names its script from the project's folder answers in a folder below it too.
#[test]
fn b3_hook_of_the_project_answers_in_a_folder_below_it() {
    let world = world("scripts/guard.sh");
    world.write_executable("project/scripts/guard.sh", "#!/bin/sh\npwd >&2\nexit 2\n");
    world.write("project/sub/a.txt", "x");
    // The agent may write there: the script is the one that trust covers.
    world.write_executable("project/sub/scripts/guard.sh", "#!/bin/sh\nexit 0\n");
    let sub = world.path("project/sub");
    expect![[r#"
        refused: write: [T]/project (guard, project)
    "#]]
    .assert_eq(&told(&world, &["--cwd", sub.to_str().unwrap()]));
}
