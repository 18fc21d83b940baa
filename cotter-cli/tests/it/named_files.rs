//! Files outside a trusted folder that its hooks run: scripts of the project.

use std::{fs, path::PathBuf};

use expect_test::{Expect, expect};

use crate::support::World;

/// Refuses calls that name `secret.txt`, and lets the others pass.
const GUARD: &str = "#!/bin/sh\nif grep -q secret.txt; then echo 'not that one' >&2; exit 2; fi\n";

/// Each dialect: the folder, the file that declares the hook, and its contents.
const DIALECTS: [(&str, &str, &str); 3] = [
    (
        ".claude",
        "settings.json",
        r#"{"hooks": {"PreToolUse": [{"hooks": [
            {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/scripts/guard.sh"}]}]}}"#,
    ),
    (
        ".cotter",
        "settings.json",
        r#"{"hooks": {"tool.pre": [{"name": "guard", "command": "\"$COTTER_PROJECT_DIR\"/scripts/guard.sh"}]}}"#,
    ),
    (
        ".cotter",
        "hooks/guard.yaml",
        "id: guard\nphase: pre\ntools: [write, bash, edit]\ncommand: '\"$COTTER_PROJECT_DIR\"/scripts/guard.sh'\n",
    ),
];

fn world((folder, file, text): (&str, &str, &str)) -> World {
    let world =
        World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from("/usr/bin:/bin"));
    world.settings(r#"{"permissions": {"mode": "accept-edits"}}"#);
    world.write_executable("project/scripts/guard.sh", GUARD);
    world.write(&format!("project/{folder}/{file}"), text);
    world.trust_now(&[&format!("project/{folder}")]);
    world
}

/// What becomes of each call, a line each.
fn verdicts(world: &World, calls: &str) -> String {
    let steps: Vec<_> = calls.lines().map(|call| format!(r#"{{"calls": [{call}]}}"#)).collect();
    let script = world.script(&format!("{}, {{\"text\": \"done\"}}", steps.join(", ")));
    let output = world.output(&["-p", "--output-format", "stream-json", "--script", &script, "go"]);
    let mut shown = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str().unwrap() {
            "tool.refused" => shown += &format!("refused {}: {}\n", event["by"], event["reason"]),
            "tool.result" => shown += &format!("ran {}\n", event["output"]),
            _ => {}
        }
    }
    world.plain(&shown)
}

/// Checks the verdicts of a hook for Claude Code, and that no dialect lets the guarded call pass.
fn check(calls: &str, prepare: impl Fn(&World), expected: Expect) {
    let [claude, settings, file] = DIALECTS.map(|dialect| {
        let world = world(dialect);
        prepare(&world);
        let shown = verdicts(&world, calls);
        assert!(!world.path("project/secret.txt").exists(), "{dialect:?}: {shown}");
        shown
    });
    expected.assert_eq(&claude);
    assert_eq!(settings, file);
}

const WRITE: &str = r#"{"name": "write", "input": {"path": "secret.txt", "content": "x"}}"#;

#[test]
fn s15_script_of_a_hook_is_not_written_unasked_by_tools() {
    let calls = format!(
        r#"{{"name": "write", "input": {{"path": "scripts/guard.sh", "content": "exit 0"}}}}
{{"name": "bash", "input": {{"command": "echo exit 0 > scripts/guard.sh"}}}}
{{"name": "bash", "input": {{"command": "mv scripts other"}}}}
{{"name": "bash", "input": {{"command": "chmod -x scripts/guard.sh"}}}}
{WRITE}"#
    );
    check(
        &calls,
        |_| (),
        expect![[r#"
        refused "nobody": "scripts/guard.sh is run by a hook, and no person can be asked"
        refused "nobody": "scripts/guard.sh is run by a hook, and no person can be asked"
        refused "nobody": "scripts is run by a hook, and no person can be asked"
        ran "chmod: changing permissions of 'scripts/guard.sh': Read-only file system\nexit code 1\nwriting to scripts/guard.sh was refused: it decides what runs later, and this call was not approved for it"
        refused "guard": "not that one"
    "#]],
    );
}

/// Code of the project may not change it either, nor put another one in its place.
#[test]
fn s15_script_of_a_hook_is_not_replaced_by_confined_code() {
    let build = "#!/bin/sh\nexec 2> /dev/null\necho exit 0 > scripts/guard.sh\nrm -f scripts/guard.sh\n\
                 chmod -x scripts/guard.sh\nmv scripts other\nrm -rf scripts\nmkdir -p scripts\n\
                 echo exit 0 > new\nmv new scripts/guard.sh\nln -sf /bin/true scripts/guard.sh\ntrue\n";
    let prepare = |world: &World| {
        world.write_executable("project/build.sh", build);
    };
    let calls =
        format!("{{\"name\": \"bash\", \"input\": {{\"command\": \"./build.sh\"}}}}\n{WRITE}");
    check(
        &calls,
        prepare,
        expect![[r#"
        ran "(no output)"
        refused "guard": "not that one"
    "#]],
    );
}

/// A link on the way to it is put back.
#[test]
fn s15_link_to_the_script_of_a_hook_is_put_back() {
    let build = "#!/bin/sh\nrm scripts\nmkdir scripts\nprintf '#!/bin/sh\\nexit 0\\n' > scripts/guard.sh\n\
                 chmod +x scripts/guard.sh\n";
    let prepare = |world: &World| {
        fs::rename(world.path("project/scripts"), world.path("project/real")).unwrap();
        std::os::unix::fs::symlink("real", world.path("project/scripts")).unwrap();
        world.write_executable("project/build.sh", build);
    };
    let calls =
        format!("{{\"name\": \"bash\", \"input\": {{\"command\": \"./build.sh\"}}}}\n{WRITE}");
    check(
        &calls,
        prepare,
        expect![[r#"
        ran "the command changed [T]/project/scripts, which decides what runs later and was not approved: it was restored; the command's version is in [T]/tmp/cotter-[HASH]/aside/1-scripts"
        refused "guard": "not that one"
    "#]],
    );
    // The person is told too.
    let world = world(DIALECTS[0]);
    prepare(&world);
    let script = world.script(
        r#"{"calls": [{"name": "bash", "input": {"command": "./build.sh"}}]}, {"text": "done"}"#,
    );
    let stderr = world.output(&["-p", "--script", &script, "go"]).stderr;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(stderr.contains("/scripts, which decides what runs later"), "{stderr}");
}

/// Other ways to name the script.
#[test]
fn s15_script_of_a_hook_is_found_however_it_is_named() {
    for line in [
        "bash guard",
        "cd scripts && bash guard.sh",
        "cd \\\"$CLAUDE_PROJECT_DIR/scripts\\\" && bash ./guard.sh",
        "D=$CLAUDE_PROJECT_DIR; bash $D/scripts/guard.sh",
        "bash \\\"$(git rev-parse --show-toplevel)/scripts/guard.sh\\\"",
    ] {
        let text = DIALECTS[0].2.replace(r#"\"$CLAUDE_PROJECT_DIR\"/scripts/guard.sh"#, line);
        assert!(text.contains(line), "{text}");
        let world = world((".claude", "settings.json", &text));
        world.write_executable("project/guard", GUARD);
        world.trust_now(&["project/.claude"]);
        let name = if line.ends_with("guard") { "guard" } else { "scripts/guard.sh" };
        let call =
            format!(r#"{{"name": "write", "input": {{"path": "{name}", "content": "exit 0"}}}}"#);
        let shown = verdicts(&world, &call);
        assert!(shown.contains("is run by a hook"), "{line}: {shown}");
        let before = hash(&world);
        world.write(&format!("project/{name}"), "exit 0\n");
        assert_ne!(hash(&world), before, "{line}");
    }
}

/// Whoever changed it: it is another hook than the one that was trusted.
#[test]
fn s6_changed_script_of_a_hook_blocks_until_it_is_trusted() {
    let prepare = |world: &World| {
        world.write_executable("project/scripts/guard.sh", "#!/bin/sh\nexit 0\n");
    };
    check(
        WRITE,
        prepare,
        expect![[r#"
        refused "guard": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
    "#]],
    );
    for dialect in DIALECTS {
        let world = world(dialect);
        let hash = hash(&world);
        prepare(&world);
        assert_ne!(hash, self::hash(&world), "{dialect:?}");
        world.trust_now(&[&format!("project/{}", dialect.0)]);
        let shown = verdicts(&world, WRITE);
        assert!(shown.starts_with("ran"), "{dialect:?}: {shown}");
    }
}

fn hash(world: &World) -> String {
    let shown = world.output(&["trust", "--print"]).stdout;
    String::from_utf8(shown).unwrap().lines().find(|line| line.starts_with("hash")).unwrap().into()
}

#[test]
fn s6_script_of_a_hook_is_shown_with_the_folder() {
    let world = world(DIALECTS[0]);
    world.write_executable("project/scripts/guard.sh", "#!/bin/sh\nexit 0\n");
    world.check_without_terminal(
        &["trust", "--print"],
        expect![[r#"
            exit 0
            --- stdout
            source  [T]/project/.claude
            hash    [HASH][HASH]
            trust   none: it changed since it was trusted

            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    hook guard at PreToolUse
                      runs "$CLAUDE_PROJECT_DIR"/scripts/guard.sh
                      open: it runs in place, in the folder of the session

            files (2)
              exec         17 bytes  .outside/scripts/guard.sh
                          129 bytes  settings.json
              `.outside` holds the files elsewhere that these commands run

            changed since it was trusted
              changed: .outside/scripts/guard.sh
                  #!/bin/sh
                - if grep -q secret.txt; then echo 'not that one' >&2; exit 2; fi
                + exit 0
        "#]],
    );
}

/// A script that is missing when the folder is trusted does not come into use later.
#[test]
fn s6_script_that_appears_later_changes_the_folder() {
    for dialect in DIALECTS.into_iter().take(2) {
        let world = world(dialect);
        let before = hash(&world);
        fs::remove_file(world.path("project/scripts/guard.sh")).unwrap();
        let missing = hash(&world);
        world.trust_now(&[&format!("project/{}", dialect.0)]);
        world.write_executable("project/scripts/guard.sh", "#!/bin/sh\necho '{}'\n");
        assert!(hash(&world) != missing && missing != before, "{dialect:?}");
        let shown = verdicts(&world, WRITE);
        assert!(shown.contains("changed since it was trusted"), "{dialect:?}: {shown}");
    }
}

/// A file that a command runs is code, even if nothing in it says so. One that it only names is not.
#[test]
fn s6_script_without_a_mark_of_code_is_pinned_by_being_run() {
    let guard = "if grep -q secret.txt; then echo 'not that one' >&2; exit 2; fi\n";
    let [claude, settings, file] = DIALECTS;
    for (dialect, line, command) in [
        (
            claude,
            r#"\"$CLAUDE_PROJECT_DIR\"/scripts/guard.sh"#,
            r#"bash \"$CLAUDE_PROJECT_DIR\"/guard notes"#,
        ),
        (
            settings,
            r#""\"$COTTER_PROJECT_DIR\"/scripts/guard.sh""#,
            r#"["bash", "-c", "bash \"$COTTER_PROJECT_DIR\"/guard notes"]"#,
        ),
        (
            file,
            r#"'"$COTTER_PROJECT_DIR"/scripts/guard.sh'"#,
            r#"[bash, -c, 'bash "$COTTER_PROJECT_DIR"/guard notes']"#,
        ),
    ] {
        let text = dialect.2.replace(line, command);
        assert!(text.contains(command), "{text}");
        let world = world((dialect.0, dialect.1, &text));
        let folder = format!("project/{}", dialect.0);
        world.write("project/guard", guard);
        world.write("project/notes", "one\n");
        world.trust_now(&[&folder]);
        let before = hash(&world);
        world.write("project/notes", "two\n");
        assert_eq!(hash(&world), before, "{command}");
        let shown = verdicts(&world, WRITE);
        assert_eq!(shown, "refused \"guard\": \"not that one\"\n", "{command}");
        world.write("project/guard", "exit 0\n");
        assert_ne!(hash(&world), before, "{command}");
        let shown = verdicts(&world, WRITE);
        assert!(shown.contains("changed since it was trusted"), "{command}: {shown}");
    }
}

/// Node and Python load another file for a name without an ending, or for a folder.
#[test]
fn s6_file_that_an_interpreter_finds_for_a_name_is_pinned() {
    for (command, name) in [
        (r#"node \"$CLAUDE_PROJECT_DIR\"/tools/guard"#, "tools/guard.js"),
        (r#"node \"$CLAUDE_PROJECT_DIR\"/tools/guard"#, "tools/guard/index.js"),
        (r#"python3 \"$CLAUDE_PROJECT_DIR\"/tools/guard"#, "tools/guard/__main__.py"),
    ] {
        let line = r#"\"$CLAUDE_PROJECT_DIR\"/scripts/guard.sh"#;
        let text = DIALECTS[0].2.replace(line, command);
        let world = world((".claude", "settings.json", &text));
        let missing = hash(&world);
        world.write(&format!("project/{name}"), "1\n");
        let before = hash(&world);
        world.write(&format!("project/{name}"), "2\n");
        assert!(missing != before && before != hash(&world), "{name}");
        let shown = verdicts(&world, WRITE);
        assert!(shown.contains("changed since it was trusted"), "{name}: {shown}");
    }
}
