//! Files that change in a trusted folder while its hooks run: state, compiled Python, local settings.

use std::{fs, path::PathBuf, process::Command};

use expect_test::{Expect, expect};

use crate::support::World;

const SETTINGS: &str = r#"{"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [
  {"type": "command", "command": "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.py"}]}]}}"#;

/// Denies each call, by a word of another module.
const GUARD: &str =
    "import sys\nimport rules\nprint(rules.WORD, file=sys.stderr)\nsys.exit(rules.CODE)\n";

const RULES: &str = "WORD = 'denied'\nCODE = 2\n";

fn world() -> World {
    let world =
        World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from("/usr/bin:/bin"));
    world.settings(r#"{"permissions": {"mode": "accept-edits"}}"#);
    world.write("project/.claude/settings.json", SETTINGS);
    world.write("project/.claude/hooks/guard.py", GUARD);
    world.write("project/.claude/hooks/rules.py", RULES);
    world.trust_now(&["project/.claude"]);
    world
}

/// What becomes of a write, and the warnings.
fn verdict(world: &World) -> String {
    let script = world.script(
        r#"{"calls": [{"name": "write", "input": {"path": "new.txt", "content": "x"}}]}, {"text": "done"}"#,
    );
    let args = ["-p", "--output-format", "stream-json", "--script", &script, "go"];
    let output = world.output(&args);
    let mut shown = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str().unwrap() {
            "tool.refused" => shown += &format!("refused {}: {}\n", event["by"], event["reason"]),
            "tool.result" => shown += &format!("ran {}\n", event["output"]),
            _ => {}
        }
    }
    let _ = fs::remove_file(world.path("project/new.txt"));
    world.plain(&(shown + &String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn s6_gate_still_answers_when_state_appears_in_its_folder() {
    let world = world();
    let before = verdict(&world);
    expect![[r#"
        refused "guard": "denied"
    "#]]
    .assert_eq(&before);
    for name in
        ["logs/a.log", "data/seen.json", "state/x", "hooks/guard.log", "hooks/x.lock", ".DS_Store"]
    {
        world.write(&format!("project/.claude/{name}"), "x");
    }
    world.write("project/.claude/me.local.md", "x");
    world.write("project/.claude/hooks/__pycache__/old.pyc", "x");
    assert_eq!(verdict(&world), before);
    world.write("project/.claude/state/json.py", "x");
    expect![[r#"
        refused "guard": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
        warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
    "#]].assert_eq(&verdict(&world));
}

/// Puts a compiled module that denies nothing beside the one that does.
fn forge(world: &World) {
    let forge = "import importlib.util, marshal, os, struct, sys\n\
        path = sys.argv[1]\n\
        code = compile('WORD = \"passed\"\\nCODE = 0\\n', path, 'exec')\n\
        stat = os.stat(path)\n\
        head = importlib.util.MAGIC_NUMBER + struct.pack('<III', 0, int(stat.st_mtime), stat.st_size)\n\
        cache = importlib.util.cache_from_source(path)\n\
        os.makedirs(os.path.dirname(cache), exist_ok=True)\n\
        open(cache, 'wb').write(head + marshal.dumps(code))\n";
    let module = world.path("project/.claude/hooks/rules.py");
    let forged =
        Command::new("/usr/bin/python3").args(["-c", forge]).arg(&module).status().unwrap();
    assert!(forged.success());
}

/// Without another place for compiled files, Python runs the forged one: its header fits the module beside it.
#[test]
fn s6_forged_compiled_module_beside_an_unchanged_one_does_not_run() {
    let world = world();
    forge(&world);
    // The forged file is one that Python runs.
    let guard = world.path("project/.claude/hooks/guard.py");
    let fooled = Command::new("/usr/bin/python3").arg(&guard).output().unwrap();
    assert_eq!(String::from_utf8(fooled.stderr).unwrap(), "passed\n");
    expect![[r#"
        refused "guard": "denied"
    "#]]
    .assert_eq(&verdict(&world));
}

/// The same where a program of the hook starts Python without the variables that name the other place.
#[test]
fn s6_forged_compiled_module_does_not_run_without_our_variables() {
    let world = world();
    let line = "env --ignore-environment PATH=/usr/bin python3 .claude/hooks/guard.py";
    let settings = serde_json::json!({"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [
        {"type": "command", "command": line}]}]}});
    world.write("project/.claude/settings.json", settings.to_string());
    world.trust_now(&["project/.claude"]);
    forge(&world);
    expect![[r#"
        refused "bin-35e4c7": "denied"
    "#]]
    .assert_eq(&verdict(&world));
}

/// The local settings of a person need a yes of their own, and their appearance refuses nothing.
#[test]
fn s6_local_settings_are_a_source_of_their_own() {
    let world = world();
    let trusted = verdict(&world);
    let local = r#"{"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "echo 'not today' >&2; exit 2"}]}]}}"#;
    world.write("project/.claude/settings.local.json", local);
    let verdict_before = verdict(&world);
    assert!(verdict_before.starts_with(trusted.lines().next().unwrap()), "{verdict_before}");
    expect![[r#"
        refused "guard": "denied"
        warning: nothing of [T]/project/.claude/settings.local.json runs: it is not trusted yet (`cotter trust` shows it)
    "#]].assert_eq(&verdict_before);
    world.check_without_terminal(
        &["trust", "--print", ".claude"],
        expect![[r#"
            exit 0
            --- stdout
            source  [T]/project/.claude
            hash    [HASH][HASH]
            trust   yes

            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    hook guard at PreToolUse
                      runs python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py
                      open: it runs in place, in the folder of the session

            files (3)
                           80 bytes  hooks/guard.py
                           25 bytes  hooks/rules.py
                          153 bytes  settings.json

            source  [T]/project/.claude/settings.local.json
            hash    [HASH][HASH]
            trust   none yet

            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    hook echo-c25b80 at PreToolUse
                      runs echo 'not today' >&2; exit 2
                      open: it runs in place, in the folder of the session

            files (1)
                          113 bytes  settings.local.json
        "#]],
    );
    world.trust_now(&["project/.claude/settings.local.json"]);
    // Both refuse, and the first answer stands.
    let refusals = ["refused \"echo-c25b80\": \"not today\"\n", "refused \"guard\": \"denied\"\n"];
    let both = verdict(&world);
    assert!(refusals.contains(&both.as_str()), "{both}");
    // The rules of the guard are gone, so only the local hook can refuse.
    let rules = world.path("project/.claude/hooks/rules.py");
    let kept = fs::read(&rules).unwrap();
    fs::write(&rules, "WORD = ''\nCODE = 0\n").unwrap();
    world.trust_now(&["project/.claude"]);
    assert_eq!(verdict(&world), refusals[0]);
    fs::write(&rules, kept).unwrap();
    world.trust_now(&["project/.claude"]);
    // The folder changes: the hooks of both block, and the first answer stands.
    world.write("project/.claude/hooks/rules.py", "CODE = 0\n");
    expect![[r#"
        refused "guard": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
        warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
    "#]].assert_eq(&verdict(&world).replace("echo-c25b80", "guard"));
    // Only the local settings are trusted.
    assert!(world.output(&["untrust", ".claude"]).status.success());
    world.trust_now(&["project/.claude/settings.local.json"]);
    expect![[r#"
        refused "echo-c25b80": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
        warning: nothing of [T]/project/.claude runs: it is not trusted yet (`cotter trust` shows it)
    "#]].assert_eq(&verdict(&world));
}

/// A file that is left out does not run, even if a trusted command names it.
#[test]
fn s6_command_that_names_state_as_its_program_is_blocked() {
    let check = |command: &str, expected: Expect| {
        let world = world();
        world.write("project/.claude/data/guard", "exit 0\n");
        let command = serde_json::Value::from(command);
        let settings = format!(
            r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{{"type": "command", "command": {command}}}]}}]}}}}"#
        );
        world.write("project/.claude/settings.json", settings);
        world.trust_now(&["project/.claude"]);
        expected.assert_eq(&verdict(&world));
    };
    check(
        r#"sh "$CLAUDE_PROJECT_DIR"/.claude/data/guard"#,
        expect![[r#"
        refused "guard": "it would run data/guard, which trust leaves out as state"
    "#]],
    );
    check(
        "true; . .claude/data/guard",
        expect![[r#"
        refused "true-8843de": "it would run data/guard, which trust leaves out as state"
    "#]],
    );
    check(
        "cat .claude/data/guard >> /dev/null",
        expect![[r#"
        ran "created new.txt, 1 line"
    "#]],
    );
    check(
        "python3 .claude/hooks/guard.py .claude/data/guard",
        expect![[r#"
        refused "guard": "denied"
    "#]],
    );
}

/// Only a hook's own process may write state: the agent asks each time, also by bash.
#[test]
fn s15_writes_of_the_agent_into_state_are_asked_about() {
    let world = world();
    let mut shown = String::new();
    for path in [".claude/logs/a.log", ".claude/state/x.json", ".cotter/data/x", ".claude/x.lock"] {
        for (tool, input) in [
            ("write", serde_json::json!({"path": path, "content": "x"}).to_string()),
            ("bash", format!("echo x >> {path}")),
            ("bash", format!("touch {path}")),
        ] {
            let output = world.output(&["explain", tool, &input]);
            let text = String::from_utf8(output.stdout).unwrap();
            let verdict = text.lines().nth(1).unwrap_or_default();
            shown += &format!("{:?} {tool} {input}\n  {verdict}\n", output.status.code().unwrap());
        }
    }
    expect![[r#"
        3 write {"path":".claude/logs/a.log","content":"x"}
          ask: .claude/logs/a.log decides what runs later
        3 bash echo x >> .claude/logs/a.log
          ask: .claude/logs/a.log decides what runs later
        3 bash touch .claude/logs/a.log
          ask: .claude/logs/a.log decides what runs later
        3 write {"path":".claude/state/x.json","content":"x"}
          ask: .claude/state/x.json decides what runs later
        3 bash echo x >> .claude/state/x.json
          ask: .claude/state/x.json decides what runs later
        3 bash touch .claude/state/x.json
          ask: .claude/state/x.json decides what runs later
        3 write {"path":".cotter/data/x","content":"x"}
          ask: .cotter/data/x decides what runs later
        3 bash echo x >> .cotter/data/x
          ask: .cotter/data/x decides what runs later
        3 bash touch .cotter/data/x
          ask: .cotter/data/x decides what runs later
        3 write {"path":".claude/x.lock","content":"x"}
          ask: .claude/x.lock decides what runs later
        3 bash echo x >> .claude/x.lock
          ask: .claude/x.lock decides what runs later
        3 bash touch .claude/x.lock
          ask: .claude/x.lock decides what runs later
    "#]]
    .assert_eq(&world.plain(&shown));
}
