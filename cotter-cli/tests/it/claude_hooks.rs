//! The output for a person about hooks that were written for Claude Code: their names, the effect of their
//! answers, and the reason why a hook did not run.

use expect_test::expect;

use crate::{
    claude_files::{trust, world},
    support::World,
};

const WRITE: &str = r#"{"calls": [{"name": "write", "input": {"path": "n.txt", "content": "x"}}]},
    {"text": "done"}"#;

/// A settings file of the project with one hook per event and command.
fn hooks(world: &World, hooks: &[(&str, &str)]) {
    let entry = |(event, command): &(&str, &str)| {
        let entry = serde_json::json!([{"hooks": [{"type": "command", "command": command}]}]);
        format!("\"{event}\": {entry}")
    };
    let entries: Vec<_> = hooks.iter().map(entry).collect();
    let text = format!("{{\"hooks\": {{{}}}}}", entries.join(", "));
    world.write("project/.claude/settings.json", &text);
    trust(world);
}

/// A settings file of the project with gates before every call.
fn gates(world: &World, commands: &[&str]) {
    let handler = |command: &&str| serde_json::json!({"type": "command", "command": command});
    let handlers: Vec<_> = commands.iter().map(handler).collect();
    let settings = serde_json::json!({"hooks": {"PreToolUse": [{"hooks": handlers}]}});
    world.write("project/.claude/settings.json", settings.to_string());
    trust(world);
}

/// A disabled name stays the name of the same hook, whatever hooks are added before or after it.
#[test]
fn b3_disabled_hook_name_never_disables_another_hook() {
    let world = world();
    let off =
        r#"{"sandbox": "off", "disable": ["echo-1fc063"], "permissions": {"level": "permissive"}}"#;
    world.settings(off);
    gates(&world, &["echo tea >&2; exit 2"]);
    let script = world.script(WRITE);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
    "#]],
    );
    gates(&world, &["echo coffee >&2; exit 2", "echo tea >&2; exit 2"]);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: coffee (echo-69117b, project)
    "#]],
    );
    gates(&world, &["echo coffee >&2; exit 2"]);
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/home/.config/cotter/settings.json:1:32: $.disable[0]: cannot switch off hook `echo-1fc063`: no hook has this name
        refused: write: coffee (echo-69117b, project)
    "#]]);
    // The first word of a command is not the name of the hook.
    world.settings(&off.replace("-1fc063", ""));
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/home/.config/cotter/settings.json:1:32: $.disable[0]: cannot switch off hook `echo`: no hook has this name; there is `echo-69117b`
        refused: write: coffee (echo-69117b, project)
    "#]]);
    world.check(
        &["-p", "--script", &script, "--without", "echo", "go"],
        expect![[r#"
            exit 1
            --- stderr
            error: --without: no hook is named `echo`

            hint: there is `echo-69117b`
        "#]],
    );
}

/// A hook is named after its script file while it is the only hook of that file; with two, neither is.
#[test]
fn b3_disabling_one_hook_of_a_script_keeps_its_second_hook() {
    let world = world();
    let off = r#"{"sandbox": "off", "disable": ["guard"], "permissions": {"level": "permissive"}}"#;
    world.settings(off);
    world.write("project/.claude/guard.sh", "[ $1 = tea ] || { echo no $1 >&2; exit 2; }");
    gates(&world, &["sh .claude/guard.sh tea"]);
    let script = world.script(WRITE);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
    "#]],
    );
    gates(&world, &["sh .claude/guard.sh tea", "sh .claude/guard.sh coffee"]);
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/home/.config/cotter/settings.json:1:32: $.disable[0]: cannot switch off hook `guard`: no hook has this name; there is `guard-40ac67`, `guard-f9b41e`
        refused: write: no coffee (guard-f9b41e, project)
    "#]]);
}

/// One name may mean a project's hook and the person's own hook; a note says that both are disabled.
#[test]
fn b3_s30_name_that_disables_several_hooks_is_reported() {
    let world = world();
    let own = r#"{"sandbox": "off", "permissions": {"level": "permissive"},
        "hooks": {"tool.pre": [{"name": "guard", "command": "false"}]}}"#;
    world.settings(own);
    world.write("project/.claude/guard.sh", "exit 2");
    gates(&world, &["sh .claude/guard.sh"]);
    let script = world.script(WRITE);
    world.check(&["-p", "--script", &script, "--without", "guard", "go"], expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: `guard` switches off several hooks: `user/guard` of [T]/home/.config/cotter/settings.json, `project/guard` of [T]/project/.claude/settings.json
    "#]]);
    world.check(
        &["-p", "--script", &script, "--without", "project/guard", "go"],
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            refused: write: hook guard exited with code 1 (guard)
        "#]],
    );
}

/// An `allow` of a project's hook does not count, and the output says so.
#[test]
fn b3_s3_allow_of_a_project_hook_is_reported_as_ignored() {
    let world = world();
    let allow = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'"#;
    hooks(&world, &[("PreToolUse", allow)]);
    let input = r#"{"path": "n.txt", "content": "x"}"#;
    let tried = ["hooks", "test", "tool.pre", "--tool", "write", "--input", input];
    world.check(&tried, expect![[r#"
        exit 0
        --- stdout
        tool.pre write {"path":"n.txt","content":"x"}
        pass

          echo-9aee05  (project)  gate       pass in N ms: its `allow` does not count: hooks of the origin `project` may only tighten
    "#]]);
    let explained = world.output(&["explain", "--run-hooks", "write", input]).stdout;
    let explained = world.plain(&String::from_utf8(explained).unwrap());
    let rows: String = explained
        .lines()
        .filter(|line| line.contains("echo-"))
        .map(|line| line.trim_start().to_owned() + "\n")
        .collect();
    expect![[r#"
        gate      echo-9aee05                    pass   its `allow` does not count: hooks of the origin `project` may only tighten  (project)
    "#]].assert_eq(&rows);
    let script = world.script(WRITE);
    world.output(&["-p", "--script", &script, "go"]);
    world.check(&["hooks", "log"], expect![[r#"
        exit 0
        --- stdout
        session [ID1]
        run r1 began [TIME] with script
        [TIME]  r1.1  tool.pre write  echo-9aee05 (project)  pass in N ms: its `allow` does not count: hooks of the origin `project` may only tighten
    "#]]);
}

/// Names of Claude Code get an answer with our names.
#[test]
fn b3_claude_names_of_events_and_tools_get_a_hint_with_ours() {
    let world = world();
    world.check(
        &["hooks", "test", "PreToolUse"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no point `PreToolUse`

            hint: the event `PreToolUse` of Claude Code is `tool.pre` here
        "#]],
    );
    world.check(
        &["hooks", "test", "SubagentStop"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no point `SubagentStop`

            hint: the event `SubagentStop` of Claude Code is `turn.end` here
        "#]],
    );
    world.check(&["hooks", "test", "tool.pre", "--tool", "Bash"], expect![[r#"
        exit 0
        --- stdout
        tool.pre Bash {}
        pass
        no hook is at this point
        --- stderr
        warning: there is no tool `Bash`: the tool `Bash` of Claude Code is `bash` or `bash_background` here
    "#]]);
    world.check(
        &["explain", "Bash", "ls"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no tool `Bash`

            hint: the tool `Bash` of Claude Code is `bash` or `bash_background` here
        "#]],
    );
    world.check(
        &["explain", "Write", "{}"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no tool `Write`

            hint: the tool `Write` of Claude Code is `write` here
        "#]],
    );
}

/// A run that a hook ends is not reported as aborted.
#[test]
fn b3_run_ended_by_a_hook_names_the_hook_and_its_reason() {
    let world = world();
    let end = r#"echo '{"continue": false, "stopReason": "the build is broken"}'"#;
    hooks(&world, &[("PostToolUse", end)]);
    let script = world.script(WRITE);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 3
        --- stderr
        error: hook `echo-9d9ca3` ended the run: the build is broken
    "#]],
    );
    let script = world.script(&WRITE.replace("n.txt", "m.txt"));
    let json = world.output(&["-p", "--script", &script, "--output-format", "json", "go"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    expect![[r#""blocked" {"code":"blocked","message":"hook `echo-9d9ca3` ended the run: the build is broken"}"#]].assert_eq(&format!("{} {}", json["reason"], json["error"]));
}

/// A refusal is reported with the hook's origin, also if the hook's failure refused or the hook answered a
/// question.
#[test]
fn b3_refusal_names_the_origin_of_the_hook_in_every_form() {
    let world = world();
    let settings = r#"{"sandbox": "off", "claudeHooks": {"onFailure": "block"}}"#;
    world.settings(settings);
    let script = world.script(WRITE);
    hooks(&world, &[("PreToolUse", "echo it broke >&2; exit 1")]);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: it exited with code 1: it broke (echo-cafeae, project)
    "#]],
    );
    let deny = r#"echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": "not today"}}}'"#;
    hooks(&world, &[("PermissionRequest", deny)]);
    let bash = world.script(
        r#"{"calls": [{"name": "bash", "input": {"command": "git push"}}]}, {"text": "done"}"#,
    );
    world.check(
        &["-p", "--script", &bash, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        refused: bash: not today (echo-3fbe7b, project)
    "#]],
    );
}

/// A failed hook is reported as failed, and a hook that did not run as not run.
#[test]
fn b3_failed_hooks_and_skipped_hooks_are_reported_as_such() {
    let world = world();
    hooks(
        &world,
        &[
            (
                "PreToolUse",
                "printf 'npm error one\\nnpm error two\\n\\nnpm error log\\n' >&2; exit 1",
            ),
            ("PostToolUse", "echo after"),
            ("PostToolUseFailure", "echo failed"),
        ],
    );
    let script = world.script(
        r#"{"calls": [{"name": "read", "input": {"path": "gone.txt"}}]}, {"text": "done"}"#,
    );
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        hook `printf-de9039` failed and passes: it exited with code 1: npm error one
        npm error two

        npm error log
    "#]],
    );
    world.check(&["hooks", "log"], expect![[r#"
        exit 0
        --- stdout
        session [ID1]
        run r1 began [TIME] with script
        [TIME]  r1.1  tool.pre read  printf-de9039 (project)  failed and passed in N ms: it exited with code 1: npm error one\nnpm error two\n\nnpm error log
        [TIME]  r1.1  tool.post read  echo-ca872b (project)  did not run: the tool failed, which is `PostToolUseFailure`
        [TIME]  r1.1  tool.post read  echo-cf1e9b (project)  seen in N ms
    "#]]);
    world.check(
        &["hooks", "test", "tool.post", "--tool", "bash"],
        expect![[r#"
        exit 0
        --- stdout
        tool.post bash {}
        pass

          echo-ca872b  (project)  observe    seen in N ms
          echo-cf1e9b  (project)  observe    did not run: the tool did not fail
    "#]],
    );
    let tried = ["hooks", "test", "tool.pre", "--tool", "bash", "--json"];
    world.check(&tried, expect![[r#"
        exit 0
        --- stdout
        {"verdict":"pass","reason":"","decidedBy":"","input":{},"notes":[],"notices":["hook `printf-de9039` failed and passes: it exited with code 1: npm error one\nnpm error two\n\nnpm error log"],"hooks":[{"name":"printf-de9039","origin":"project","power":"gate","matched":true,"verdict":"failed_passed","ms":N,"reason":"it exited with code 1: npm error one\nnpm error two\n\nnpm error log"}]}
    "#]]);
}

/// A confined hook of a project that was denied access says that it runs confined, and names the way out.
#[test]
fn b3_s18_confined_hook_that_is_denied_access_reports_the_confinement() {
    let world = world();
    world.settings(r#"{"permissions": {"level": "permissive"}}"#);
    world.write("elsewhere/rules.txt", "x");
    hooks(&world, &[("PreToolUse", "cat ../elsewhere/rules.txt || exit 1")]);
    let script = world.script(WRITE);
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: it exited with code 1: cat: ../elsewhere/rules.txt: Permission denied; access to [T]/elsewhere/rules.txt was refused: it is outside the project; `"readRoots": ["[T]/elsewhere"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder (cat-a05911, project)
    "#]]);
    world.write("project/.claude/guard.sh", "exit 0");
    hooks(&world, &[("PreToolUse", ".claude/guard.sh")]);
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        hook `guard`: .claude/guard.sh is not executable: `chmod +x` makes it so
        hook `guard` failed and passes: it exited with code 126: /bin/sh: 1: .claude/guard.sh: Permission denied
    "#]]);
}
