//! The setting `hookRoots`: folders and log files that hooks of projects may write besides.

use std::path::PathBuf;

use expect_test::{Expect, expect};

use crate::support::World;

/// Runs a write beside a logger of the project, with these settings of the person.
fn check(logger: &str, hook_roots: &str, expected: Expect) -> World {
    let world =
        World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from("/usr/bin:/bin"));
    world.settings(&format!(
        r#"{{"permissions": {{"mode": "accept-edits"}}, "hookRoots": [{hook_roots}]}}"#
    ));
    world.write("home/.claude/settings.json", "{}");
    let settings = serde_json::json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": logger}]}]}});
    world.write("project/.claude/settings.json", settings.to_string());
    world.trust_now(&["project/.claude"]);
    let script = world.script(
        r#"{"calls": [{"name": "write", "input": {"path": "new.txt", "content": "x"}}]},
           {"calls": [{"name": "bash", "input": {"command": "sh -c 'echo x >> ~/.claude/logs/x.log'"}}]}, {"text": "done"}"#,
    );
    let output = world.output(&["-p", "--script", &script, "go"]);
    expected.assert_eq(&world.plain(&String::from_utf8_lossy(&output.stderr)));
    world
}

#[test]
fn s8_logs_at_home_are_written_where_the_person_agreed() {
    let logger = "cat >> ~/.claude/logs/x.log";
    check(
        logger,
        "",
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        refused: write: /bin/sh: 1: cannot create [T]/home/.claude/logs/x.log: Directory nonexistent (cat-39610a, project)
        refused: bash: [T]/home/.claude/logs/x.log is outside the project (project-roots)
    "#]],
    );
    let world = check(
        logger,
        r#""~/.claude/logs""#,
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        refused: bash: [T]/home/.claude/logs/x.log is outside the project (project-roots)
    "#]],
    );
    let log = std::fs::read_to_string(world.path("home/.claude/logs/x.log")).unwrap();
    assert!(log.starts_with('{') && !log.contains("\nx\n"), "{log}");
}

#[test]
fn s8_one_log_file_is_written_where_the_person_agreed() {
    let logger = "cat >> ~/.claude/calls.log";
    check(
        logger,
        "",
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        refused: write: it exited with code 2: /bin/sh: 1: cannot create [T]/home/.claude/calls.log: Read-only file system; access to [T]/home/.claude/calls.log was refused: `"hookRoots": ["~/.claude/calls.log"]` in your settings lets hooks write it (cat-a35c87, project)
        refused: bash: [T]/home/.claude/logs/x.log is outside the project (project-roots)
    "#]],
    );
    let world = check(
        logger,
        r#""~/.claude/calls.log""#,
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        refused: bash: [T]/home/.claude/logs/x.log is outside the project (project-roots)
    "#]],
    );
    assert!(world.path("home/.claude/calls.log").exists());
    check(
        "cd ~/.claude && cat >> calls.log",
        "",
        expect![[r#"
            warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
            refused: write: it exited with code 2: /bin/sh: 1: cannot create calls.log: Read-only file system; it runs confined: it reads the project and the `readRoots` of your settings, and writes the project, `logs`, `data`, `state`, `cache` and `tmp` in its own folder, and your `hookRoots` (cd-206d2b, project)
            refused: bash: [T]/home/.claude/logs/x.log is outside the project (project-roots)
        "#]],
    );
}

#[test]
fn s8_home_folder_of_claude_itself_is_not_opened() {
    check(
        "true",
        r#""~/.claude""#,
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        error: [T]/home/.config/cotter/settings.json:1:57: $.hookRoots[0]: hooks of projects may not write `~/.claude`

        hint: name a folder of logs or a log file, such as `~/.claude/logs`
    "#]],
    );
    check(
        "true",
        r#""~/.claude/settings.json""#,
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        error: [T]/home/.config/cotter/settings.json:1:57: $.hookRoots[0]: hooks of projects may not write `~/.claude/settings.json`

        hint: name a folder of logs or a log file, such as `~/.claude/logs`
    "#]],
    );
    check(
        "true",
        r#""~/.config/cotter/logs""#,
        expect![[r#"
        warning: the files in [T]/home/.claude are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
        error: [T]/home/.config/cotter/settings.json:1:57: $.hookRoots[0]: hooks of projects may not write `~/.config/cotter/logs`

        hint: name a folder of logs or a log file, such as `~/.claude/logs`
    "#]],
    );
}
