//! Files that were written for Claude Code, in a project, in the home folder and as plugins: behind trust,
//! with the same verdicts as in Claude Code.

mod gates;

use std::{
    fs::{self},
    path::PathBuf,
};

use expect_test::{Expect, expect};

use crate::{support::World, terminal::Screen};

/// Hooks in Python and shell: a deny, a refusal by exit code, a changed input, text for the model.
const SETTINGS: &str = r#"{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": ["Bash(rm -rf:*)"],
    "deny": ["Read(./secret.txt)", "WebFetch(domain:"],
    "ask": ["Bash(git push:*)"],
    "defaultMode": "bypassPermissions"
  },
  "hooks": {
    "PreToolUse": [
      {"matcher": "Write|Edit", "hooks": [
        {"type": "command", "command": "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.py"}
      ]},
      {"matcher": "Bash", "hooks": [
        {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/no-prod.sh", "timeout": 30}
      ]}
    ],
    "PostToolUse": [{"hooks": [{"type": "command", "command": "echo ran >> ran.txt"}]}]
  },
  "statusLine": {"type": "command", "command": "date"}
}
"#;

const GUARD: &str = r#"import json, sys
told = json.load(sys.stdin)
path = told["tool_input"]["file_path"]
if path.endswith("b.txt"):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",
        "permissionDecision": "deny", "permissionDecisionReason": "b.txt is closed"}}))
"#;

const NO_PROD: &str = r#"#!/bin/sh
if grep -q prod; then echo "not in production" >&2; exit 2; fi
"#;

pub(crate) fn world() -> World {
    let path = std::env::var_os("PATH").unwrap();
    let world = World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from(path));
    world.settings(r#"{"sandbox": "off", "permissions": {"level": "permissive"}}"#);
    world
}

/// A project with hooks, rules, a skill, an agent and a command for Claude Code.
fn project(world: &World) {
    world.write("project/.claude/settings.json", SETTINGS);
    world.write("project/.claude/hooks/guard.py", GUARD);
    world.write_executable("project/.claude/hooks/no-prod.sh", NO_PROD);
    world.write("project/secret.txt", "secret\n");
    world.write(
        "project/.claude/skills/parcels/SKILL.md",
        "---\nname: parcels\ndescription: Weighs parcels\n---\nWeigh: !`touch ran.txt`\n",
    );
    world.write("project/.claude/commands/track.md", "---\ndescription: Track\n---\nTrack $1.\n");
    world.write("project/.claude/agents/tracker.md", "---\ndescription: Tracks\n---\nYou track.\n");
}

const CALLS: &str = r#"
    {"calls": [{"name": "write", "input": {"path": "src/b.txt", "content": "x"}},
               {"name": "write", "input": {"path": "new.txt", "content": "x"}},
               {"name": "bash", "input": {"command": "echo prod"}},
               {"name": "bash", "input": {"command": "echo test"}},
               {"name": "read", "input": {"path": "secret.txt"}}]},
    {"text": "done"}"#;

/// Trusts all sources, by typed answers.
pub(crate) fn trust(world: &World) {
    let mut screen = Screen::new(world, &["trust"]);
    let sources = world.output(&["trust", "--print"]).stdout;
    let sources = String::from_utf8(sources).unwrap().matches("\ntrust   none").count();
    assert!(sources > 0, "there is something to trust");
    for before in 0..sources {
        let asked = || screen.text().matches("[y]es, [n]o: ").count() > before;
        crate::support::wait_until(asked, "a question");
        screen.type_keys("y\n");
    }
    screen.end(world);
}

/// Checks the outcome of each call, and the standard error.
fn verdicts(world: &World, args: &[&str], expected: Expect) {
    let script = world.script(CALLS);
    let mut all = vec!["-p", "--output-format", "stream-json", "--script", &script];
    all.extend(args);
    all.push("go");
    let output = world.output(&all);
    let shown = decided(&output.stdout) + &String::from_utf8_lossy(&output.stderr);
    expected.assert_eq(&world.plain(&shown));
}

/// The outcomes of the calls of a run, from its events.
fn decided(events: &[u8]) -> String {
    let mut shown = String::new();
    for line in String::from_utf8_lossy(events).lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str().unwrap() {
            "tool.refused" => shown += &format!("refused {}: {}\n", event["by"], event["reason"]),
            "tool.result" => shown += &format!("ran {} {}\n", event["name"], event["output"]),
            "note" => shown += &format!("note {}\n", event["text"]),
            _ => {}
        }
    }
    shown
}

#[test]
fn b3_s8_untrusted_claude_folder_runs_nothing() {
    let world = world();
    project(&world);
    verdicts(
        &world,
        &[],
        expect![[r#"
            ran "write" "src/b.txt exists and was not read yet; read it first, so that nothing in it is lost"
            ran "write" "created new.txt, 1 line"
            ran "bash" "prod\n"
            ran "bash" "test\n"
            ran "read" "     1\tsecret\n"
            warning: nothing of [T]/project/.claude runs: it is not trusted yet (`cotter trust` shows it)
        "#]],
    );
    let script = world.script(r#"{"text": "done"}"#);
    world.check(
        &["-p", "--script", &script, "/parcels now"],
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            warning: nothing of [T]/project/.claude runs: it is not trusted yet (`cotter trust` shows it)
        "#]],
    );
    assert!(!world.path("project/ran.txt").exists(), "nothing ran");
    // At a terminal, a person is asked for trust only on request.
    let mut screen = Screen::new(&world, &["-p", "--script", &script, "--ask", "go"]);
    screen.type_keys("");
    let shown = screen.end(&world);
    assert!(shown.contains(".claude runs: it is not trusted yet"), "{shown}");
    assert!(!world.path("project/ran.txt").exists(), "nothing ran");
    world.check(&["-p", "--require-trust", "--script", &script, "go"], expect![[r#"
        exit 3
        --- stderr
        error: a source of the project is not trusted
          caused by: nothing of [T]/project/.claude runs: it is not trusted yet (`cotter trust` shows it)

        hint: `cotter trust` shows it and asks; `--trust=HASH` trusts it for one run
    "#]]);
}

#[test]
fn b3_trusted_python_and_shell_hooks_give_their_verdicts() {
    let world = world();
    project(&world);
    world.check(
        &["trust", "--print"],
        expect![[r#"
            exit 0
            --- stdout
            source  [T]/project/.claude
            hash    [HASH][HASH]
            trust   none yet

            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    hook guard at PreToolUse
                      runs python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py
                      open: it runs in place, in the folder of the session
              open    hook no-prod at PreToolUse
                      runs "$CLAUDE_PROJECT_DIR"/.claude/hooks/no-prod.sh
                      open: it runs in place, in the folder of the session
              open    hook echo-d91856 at PostToolUse
                      runs echo ran >> ran.txt
                      open: it runs in place, in the folder of the session
              open    text of skill parcels
                      runs touch ran.txt
                      open: it runs in the project, as a call of the agent that the gates see

            files (6)
                           39 bytes  agents/tracker.md
                           37 bytes  commands/track.md
                          275 bytes  hooks/guard.py
              exec         73 bytes  hooks/no-prod.sh
                          750 bytes  settings.json
                           74 bytes  skills/parcels/SKILL.md
        "#]],
    );
    trust(&world);
    verdicts(
        &world,
        &[],
        expect![[r#"
            refused "guard": "b.txt is closed"
            ran "write" "created new.txt, 1 line"
            refused "no-prod": "not in production"
            ran "bash" "test\n"
            refused "rule deny Read(./secret.txt)": "the rule `deny Read(./secret.txt)` denies it"
            warning: [T]/project/.claude/settings.json:5: rule `WebFetch(domain:`: `(` without `)` at the end: it applies to every call of `WebFetch`
        "#]],
    );
    assert!(world.path("project/ran.txt").exists(), "the hook after tools ran");
    let list = world.output(&["hooks", "list"]).stdout;
    let list = String::from_utf8(list).unwrap();
    let list: String =
        list.lines().filter(|line| line.contains("project")).map(|l| l.to_owned() + "\n").collect();
    expect![[r#"
        guard                 tool.pre            gate       (project)  for Edit, Write, edit, write  PreToolUse
        no-prod               tool.pre            gate       (project)  for Bash, bash, bash_background  PreToolUse
        echo-d91856           tool.post           observe    (project)  PostToolUse
        project-roots         tool.pre            gate       (kernel)  Blocks calls that read outside the roots or write outside the project.
    "#]].assert_eq(&world.plain(&list));
    world.check(&["permissions", "list"], expect![[r#"
        exit 0
        --- stdout
        mode ask, level permissive, sandbox off
        deny  Read(./secret.txt)  project, [T]/project/.claude/settings.json:5:14
        deny  WebFetch            project, [T]/project/.claude/settings.json:5:36
        ask   Bash(git push:*)    project, [T]/project/.claude/settings.json:6:13
        --- stderr
        warning: [T]/project/.claude/settings.json:5: rule `WebFetch(domain:`: `(` without `)` at the end: it applies to every call of `WebFetch`
    "#]]);
}

#[test]
fn b3_s6_claude_folder_changed_after_trust_blocks_the_calls_it_guards() {
    let world = world();
    project(&world);
    trust(&world);
    world.write("project/.claude/hooks/json.py", "raise SystemExit(0)\n");
    verdicts(
        &world,
        &[],
        expect![[r#"
            refused "guard": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
            refused "guard": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
            refused "no-prod": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
            refused "no-prod": "[T]/project/.claude changed since it was trusted: `cotter trust` shows the difference"
            refused "rule deny Read(./secret.txt)": "the rule `deny Read(./secret.txt)` denies it"
            warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
            warning: [T]/project/.claude/settings.json:5: rule `WebFetch(domain:`: `(` without `)` at the end: it applies to every call of `WebFetch`
        "#]],
    );
    fs::remove_dir_all(world.path("project/.claude")).unwrap();
    verdicts(
        &world,
        &[],
        expect![[r#"
            refused "guard": "[T]/project/.claude cannot be compared with what was trusted: cannot read [T]/project/.claude"
            refused "guard": "[T]/project/.claude cannot be compared with what was trusted: cannot read [T]/project/.claude"
            refused "no-prod": "[T]/project/.claude cannot be compared with what was trusted: cannot read [T]/project/.claude"
            refused "no-prod": "[T]/project/.claude cannot be compared with what was trusted: cannot read [T]/project/.claude"
            refused "rule deny Read(./secret.txt)": "the rule `deny Read(./secret.txt)` denies it"
            warning: [T]/project/.claude was trusted, and is gone: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter untrust` removes the trust)
            warning: [T]/project/.claude/settings.json:5: rule `WebFetch(domain:`: `(` without `)` at the end: it applies to every call of `WebFetch`
        "#]],
    );
}

#[test]
fn b3_on_failure_setting_makes_failed_claude_hooks_block() {
    let world = world();
    world.write(
        "project/.claude/settings.json",
        r#"{"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [
            {"type": "command", "command": "exit 1"}]}]}}"#,
    );
    trust(&world);
    let script = r#"{"calls": [{"name": "write", "input": {"path": "n.txt", "content": "x"}}]},
        {"text": "done"}"#;
    let script = world.script(script);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            hook `exit-66d45a` failed and passes: it exited with code 1
        "#]],
    );
    world.write("project/.cotter/settings.json", r#"{"claudeHooks": {"onFailure": "block"}}"#);
    trust(&world);
    world.settings(r#"{"sandbox": "off", "claudeHooks": {"onFailure": "pass"}}"#);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            refused: write: it exited with code 1 (exit-66d45a, project)
        "#]],
    );
}

#[test]
fn b3_cotter_command_wins_over_a_claude_command_of_the_same_name() {
    let world = world();
    project(&world);
    world.write("project/.cotter/commands/track.md", "Ours.");
    trust(&world);
    world.check(&["commands", "list"], expect![[r#"
        exit 0
        --- stdout
        /compact   Summarise the conversation now; TEXT says what matters: /compact [TEXT]  (embedder)
        /name      Name this session, or show its name: /name [TEXT]  (embedder)
        /retry     Send your last prompt again  (embedder)
        /tools     List the tools that the model may call  (embedder)
        /skills    List the skills  (embedder)
        /agents    List the subagents that the model may call  (embedder)
        /commands  List the commands  (embedder)
        /spaces    Lists spaces, loads and unloads them: /spaces [load|unload|switch ID]  (embedder)
        /track     (project)
        --- stderr
        warning: [T]/project/.claude/settings.json:5: rule `WebFetch(domain:`: `(` without `)` at the end: it applies to every call of `WebFetch`
        warning: [T]/project/.claude/commands/track.md: the command `track` is already defined by project ([T]/project/.cotter (1))
    "#]]);
}

/// A home folder with a rule, a hook and a skill.
fn home(world: &World) {
    world.write(
        "home/.claude/settings.json",
        r#"{"permissions": {"allow": ["Bash(git status)"], "deny": ["Read(./a.txt)"]},
            "hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [
              {"type": "command", "command": "echo no writing >&2; exit 2"}]}]},
            "enabledPlugins": {"depot@shop": true, "off@shop": false}}"#,
    );
    world.write("home/.claude/skills/weigh/SKILL.md", "---\ndescription: Weighs\n---\nWeigh.\n");
    world.write("home/.agents/skills/label/SKILL.md", "---\ndescription: Labels\n---\nLabel.\n");
}

#[test]
fn b3_claude_home_folder_is_asked_about_once_or_reported_once_headless() {
    let world = world();
    home(&world);
    let script = world.script(
        r#"{"calls": [{"name": "write", "input": {"path": "n.txt", "content": "x"}}]}, {"text": "done"}"#,
    );
    let run = ["-p", "--script", &script, "go"];
    world.check(&run, expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: the files in [T]/home/.claude and [T]/home/.agents are not used: set `"claude": {"home": true}` in your settings to use them, `false` to never use them
    "#]]);
    world.check(
        &run,
        expect![[r#"
        exit 0
        --- stdout
        done
    "#]],
    );
    let asked = ["-p", "--ask", "--script", &script, "go"];
    let mut screen = Screen::new(&world, &asked);
    screen.wait_for("[y]es, [n]o: ");
    screen.type_keys("maybe\n");
    screen.wait_for("type s, y or n");
    screen.type_keys("s\n");
    // The question is asked again after the list.
    screen.wait_for("deny Read(./a.txt)\r\n[s]how all, [y]es, [n]o: ");
    screen.type_keys("y\n");
    expect![[r#"
        exit 0
        Also use the files in [T]/home/.claude and [T]/home/.agents?
          hooks     1, not confined: they have all your permissions
          rules     1 that allow, 1 that deny
          skills    2
        They would count as your own. The answer is stored in [T]/home/.config/cotter/settings.json.
        [s]how all, [y]es, [n]o: maybe
        type s, y or n; s shows every hook, rule and server
        [s]how all, [y]es, [n]o: s
        [T]/home/.claude/settings.json:
          hook echo-bafad5 at PreToolUse runs echo no writing >&2; exit 2
          allow Bash(git status)
          deny Read(./a.txt)
        [s]how all, [y]es, [n]o: y
        warning: [T]/home/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        refused: write: no writing (echo-bafad5)
        done
    "#]].assert_eq(&screen.end(&world));
    let settings = fs::read_to_string(world.path("home/.config/cotter/settings.json")).unwrap();
    expect![[r#"
        {
          "sandbox": "off",
          "permissions": {"level": "permissive"},
          "claude": {
            "home": true
          }
        }"#]]
    .assert_eq(&settings);
    // The question is not asked again; the answer also holds without a terminal.
    expect![[r#"
        exit 0
        warning: [T]/home/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        refused: write: no writing (echo-bafad5)
        done
    "#]]
    .assert_eq(&Screen::new(&world, &asked).end(&world));
    world.check(
        &run,
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            warning: [T]/home/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
            refused: write: no writing (echo-bafad5)
        "#]],
    );
    world.check(
        &["permissions", "list"],
        expect![[r#"
            exit 0
            --- stdout
            mode ask, level permissive, sandbox off
            deny   Read(./a.txt)     user, [T]/home/.claude/settings.json:1:58
            allow  Bash(git status)  user, [T]/home/.claude/settings.json:1:28
            --- stderr
            warning: [T]/home/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        "#]],
    );
}

/// A plugin with every kind of contents.
fn plugin(world: &World, root: &str) {
    world.write(
        &format!("{root}/.claude-plugin/plugin.json"),
        r#"{"name": "depot", "version": "1.0.0", "lspServers": "./.lsp.json", "agents": ["./more/agents"]}"#,
    );
    world.write(
        &format!("{root}/hooks/hooks.json"),
        r#"{"description": "Guards", "hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [
            {"type": "command", "command": "python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py"}]}]}}"#,
    );
    world.write(&format!("{root}/scripts/guard.py"), GUARD);
    world.write(
        &format!("{root}/skills/weigh/SKILL.md"),
        "---\nname: weigh\ndescription: Weighs\n---\nWeigh it.\n",
    );
    world.write(&format!("{root}/commands/track.md"), "---\ndescription: Track\n---\nTrack $1.\n");
    world.write(
        &format!("{root}/more/agents/tracker.md"),
        "---\nname: tracker\ndescription: Tracks\nskills: [weigh]\n---\nYou track.\n",
    );
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../cotter-tools/tests/mcp-server/fake.py");
    world.write(&format!("{root}/servers/fake.py"), fs::read(server).unwrap());
    let tools = serde_json::json!([{"name": "run", "description": "Runs a command.",
        "inputSchema": {"type": "object"}}]);
    let state = world.write("hand/hand.json", serde_json::json!({ "tools": tools }).to_string());
    let servers = serde_json::json!({"mcpServers": {"hand": {"command": "python3",
        "args": ["${CLAUDE_PLUGIN_ROOT}/servers/fake.py", state]}}});
    world.write(&format!("{root}/.mcp.json"), servers.to_string());
}

fn check_plugin(world: &World, expected: Expect) {
    let script = world.script(
        r#"{"calls": [{"name": "write", "input": {"path": "src/b.txt", "content": "x"}},
            {"name": "mcp__plugin_depot_hand__run", "input": {"command": "true"}}]}, {"text": "done"}"#,
    );
    let mut shown = String::new();
    for args in [
        vec!["-p", "--script", &script, "go"],
        vec!["-p", "--model", "rehearsal", "/depot:track 7"],
        vec!["commands", "list"],
        vec!["skills", "list"],
        vec!["agents", "list"],
        vec!["mcp", "list"],
    ] {
        let output = world.shown(&world.output(&args));
        let ours = |line: &&str| line.contains("depot") || !line.contains("(embedder)");
        let lines: Vec<_> = output.lines().filter(ours).collect();
        shown += &format!("$ {}\n{}\n", args.last().unwrap(), lines.join("\n"));
    }
    expected.assert_eq(&shown);
}

#[test]
fn b3_plugin_named_in_settings_loads_all_its_parts() {
    let world = world();
    plugin(&world, "plugins/depot");
    let folder = world.path("plugins/depot");
    // A manifest may declare servers too; an invalid server is skipped, and the rest loads.
    let manifest =
        r#"{"name": "depot", "agents": ["./more/agents"], "mcpServers": {"odd": {"command": 7}}}"#;
    world.write("plugins/depot/.claude-plugin/plugin.json", manifest);
    world.settings(&format!(
        r#"{{"sandbox": "off", "permissions": {{"level": "permissive"}}, "plugins": [{folder:?}]}}"#
    ));
    check_plugin(
        &world,
        expect![[r#"
            $ go
            exit 0
            --- stdout
            done
            --- stderr
            warning: [T]/plugins/depot/.claude-plugin/plugin.json:1: the server `odd` cannot be read: expected a string, found the number 7
            refused: write: b.txt is closed (guard)
            refused: mcp__plugin_depot_hand__run {"command":"true"}: zone `external` asks at level `permissive`, and no person can be asked; `--ask` asks you on the terminal
            $ /depot:track 7
            exit 0
            --- stdout
            rehearsal: I do not understand "Track 7."

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/plugins/depot/.claude-plugin/plugin.json:1: the server `odd` cannot be read: expected a string, found the number 7
            $ list
            exit 0
            --- stdout
            /depot:track  Track  (user)
            --- stderr
            warning: [T]/plugins/depot/.claude-plugin/plugin.json:1: the server `odd` cannot be read: expected a string, found the number 7
            $ list
            exit 0
            --- stdout
            /depot-weigh    Weighs  (user)
            --- stderr
            warning: [T]/plugins/depot/.claude-plugin/plugin.json:1: the server `odd` cannot be read: expected a string, found the number 7
            $ list
            exit 0
            --- stdout
            @depot-tracker  Tracks  (user)
            --- stderr
            warning: [T]/plugins/depot/.claude-plugin/plugin.json:1: the server `odd` cannot be read: expected a string, found the number 7
            $ list
            exit 0
            --- stdout
            plugin_depot_hand
              run  Runs a command.
        "#]],
    );
}

#[test]
fn b3_s6_project_plugin_needs_trust_and_is_checked_at_each_start() {
    let world = world();
    plugin(&world, "project/.agents/plugins/depot");
    check_plugin(
        &world,
        expect![[r#"
            $ go
            exit 0
            --- stdout
            done
            --- stderr
            warning: nothing of [T]/project/.agents runs: it is not trusted yet (`cotter trust` shows it)
            refused: mcp__plugin_depot_hand__run: Unknown tool: mcp__plugin_depot_hand__run. There are: read, list, write, edit, glob, grep, fetch, bash, bash_background, ask_user, delegate, remember, recall, forget, invoke_skill, invoke_subagent. (scope)
            $ /depot:track 7
            exit 0
            --- stdout
            rehearsal: I do not understand "/depot:track 7"

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: nothing of [T]/project/.agents runs: it is not trusted yet (`cotter trust` shows it)
            $ list
            exit 0
            --- stdout
            $ list
            exit 0
            --- stdout
            $ list
            exit 0
            --- stdout
            $ list
            exit 0
            --- stdout
            no servers: add them to your settings, under `mcpServers`
        "#]],
    );
    trust(&world);
    check_plugin(
        &world,
        expect![[r#"
            $ go
            exit 0
            --- stdout
            done
            --- stderr
            refused: write: b.txt is closed (guard, project)
            refused: mcp__plugin_depot_hand__run {"command":"true"}: zone `external` asks at level `permissive`, and no person can be asked; `--ask` asks you on the terminal
            $ /depot:track 7
            exit 0
            --- stdout
            rehearsal: I do not understand "Track 7."

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
            $ list
            exit 0
            --- stdout
            /depot:track  Track  (project)
            $ list
            exit 0
            --- stdout
            /depot-weigh    Weighs  (project)
            $ list
            exit 0
            --- stdout
            @depot-tracker  Tracks  (project)
            $ list
            exit 0
            --- stdout
            plugin_depot_hand
              run  Runs a command.
        "#]],
    );
    world.write("project/.agents/plugins/depot/scripts/json.py", "raise SystemExit(0)\n");
    check_plugin(
        &world,
        expect![[r#"
            $ go
            exit 0
            --- stdout
            done
            --- stderr
            warning: [T]/project/.agents changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
            refused: write: [T]/project/.agents changed since it was trusted: `cotter trust` shows the difference (guard, project)
            refused: mcp__plugin_depot_hand__run: Unknown tool: mcp__plugin_depot_hand__run. There are: read, list, write, edit, glob, grep, fetch, bash, bash_background, ask_user, delegate, remember, recall, forget, invoke_skill, invoke_subagent. (scope)
            $ /depot:track 7
            exit 0
            --- stdout
            rehearsal: I do not understand "/depot:track 7"

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/project/.agents changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
            $ list
            exit 0
            --- stdout
            $ list
            exit 0
            --- stdout
            $ list
            exit 0
            --- stdout
            $ list
            exit 0
            --- stdout
            no servers: add them to your settings, under `mcpServers`
        "#]],
    );
}

#[test]
fn b3_installed_plugin_is_used_only_if_enabled() {
    let world = world();
    home(&world);
    plugin(&world, "home/.claude/plugins/cache/shop/depot/1.0.0");
    plugin(&world, "home/.claude/plugins/cache/shop/off/1.0.0");
    let root = |name: &str| world.path(&format!("home/.claude/plugins/cache/shop/{name}/1.0.0"));
    let list = serde_json::json!({"version": 2, "plugins": {
        "depot@shop": [{"scope": "user", "installPath": root("depot"), "version": "1.0.0"}],
        "off@shop": [{"scope": "user", "installPath": root("off"), "version": "1.0.0"}]}});
    world.write("home/.claude/plugins/installed_plugins.json", list.to_string());
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    let output = world.output(&["doctor", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sections = told["sections"].as_array().unwrap().iter();
    let sections = sections.filter(|section| section["name"] != "folders");
    let shown: String = sections.map(|section| format!("{section}\n")).collect();
    let shown = format!("{} broken\n{shown}", told["broken"]);
    expect![[r#"
        0 broken
        {"name":"sources","rows":[{"what":"/etc/cotter/settings.json","state":"good","word":"not found","about":{"origin":["operator"]}},{"what":"[T]/home/.config/cotter/settings.json","state":"good","word":"used","about":{"origin":["user"]}},{"what":"[T]/home/.claude","state":"good","word":"used","about":{"origin":["user"]}},{"what":"[T]/home/.agents","state":"good","word":"used","about":{"origin":["user"]}}]}
        {"name":"plugins","rows":[{"what":"depot","state":"good","word":"used","about":{"folder":["[T]/home/.claude/plugins/cache/shop/depot/1.0.0"],"origin":["user"]}}]}
        {"name":"spaces","rows":[]}
        {"name":"profiles","rows":[]}
        {"name":"extensions","rows":[{"what":"[T]/home/.agents","state":"good","word":"user","about":{"skills":["label"]}},{"what":"[T]/home/.claude","state":"good","word":"user","about":{"skills":["weigh"]}},{"what":"[T]/home/.claude/plugins/cache/shop/depot/1.0.0","state":"good","word":"user","about":{"agents":["depot-tracker"],"commands":["depot:track"],"hook":["guard at tool.pre runs python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py"],"servers":["plugin_depot_hand"],"skills":["depot-weigh"]}},{"what":"[T]/home/.claude/settings.json","state":"good","word":"user","about":{"allows":["Bash(git status)"],"denies":["Read(./a.txt)"],"hook":["echo-bafad5 at tool.pre runs echo no writing >&2; exit 2"]}}]}
        {"name":"not honoured","rows":[{"what":"[T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1","state":"note","word":"`lspServers` is not honoured","about":{}},{"what":"[T]/home/.claude/plugins/cache/shop/depot/1.0.0/skills/weigh/SKILL.md","state":"note","word":"its name here is `depot-weigh`, not `depot:weigh`","about":{}},{"what":"[T]/home/.claude/plugins/cache/shop/depot/1.0.0/more/agents/tracker.md","state":"note","word":"its name here is `depot-tracker`, not `depot:tracker`","about":{}}]}
        {"name":"files of hooks","rows":[]}
        {"name":"confinement","rows":[{"what":"commands of the agent","state":"note","word":"not confined: they have all your permissions","about":{"sandbox":["off"]}},{"what":"hooks of the project","state":"note","word":"not confined: they have all your permissions","about":{}},{"what":"servers","state":"note","word":"not confined: they have all your permissions","about":{}},{"what":"your own hooks","state":"note","word":"not confined: they have all your permissions","about":{}}]}
        {"name":"hooks in the last sessions","rows":[]}
        {"name":"switches","rows":[{"what":"mode","state":"good","word":"ask","about":{}},{"what":"level","state":"good","word":"standard","about":{}},{"what":"kernel gates","state":"good","word":"cannot be switched off","about":{"gates":["project-roots, system-directories, own-files, protected-paths, destructive-commands, not-understood, secret-then-network, secret-reads"]}},{"what":"failures of hooks written for Claude Code","state":"good","word":"pass with a warning; `claudeHooks.onFailure` makes them block","about":{}}]}
    "#]].assert_eq(&world.plain(&shown));
}

#[test]
fn s3_plugin_inside_the_project_is_refused_in_user_settings() {
    let world = world();
    plugin(&world, "project/depot");
    let folder = world.path("project/depot");
    world.settings(&format!(r#"{{"plugins": [{folder:?}]}}"#));
    world.check(&["hooks", "list"], expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:14: $.plugins[0]: `[T]/project/depot` is inside the project

        hint: move it to `.agents/plugins` of the project, which is used if you trust it
    "#]]);
    world.settings(r#"{"plugins": ["depot"]}"#);
    world.check(
        &["hooks", "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:14: $.plugins[0]: `depot` is not an absolute path

            hint: begin it with `/` or `~/`
        "#]],
    );
}

#[test]
fn b3_doctor_lists_every_section() {
    let world = world();
    project(&world);
    plugin(&world, "plugins/depot");
    home(&world);
    let folder = world.path("plugins/depot");
    world.settings(&format!(
        r#"{{"sandbox": "off", "plugins": [{folder:?}], "disable": ["project/no-prod"]}}"#
    ));
    world.write("project/.mcp.json", r#"{"mcpServers": {"local": {"command": "true"}}}"#);
    let mut screen = Screen::new(&world, &["trust", ".claude"]);
    screen.wait_for("[y]es, [n]o: ");
    screen.type_keys("y\n");
    screen.end(&world);
    world.write("home/.config/cotter/agents/none.md", "---\nname: none\n---\n");
    let shown = world.shown(&world.output(&["doctor"]));
    // The paths of programs and caches differ between machines.
    let parts = shown.split("\n\n").filter(|part| !part.starts_with("folders\n"));
    let shown = parts.collect::<Vec<_>>().join("\n\n");
    expect![[r#"
        exit 1
        --- stdout
        sources
          ok      /etc/cotter/settings.json: not found  (origin operator)
          ok      [T]/home/.config/cotter/settings.json: used  (origin user)
          note    [T]/home/.claude: not used: not decided yet, see `claude.home` in settings  (origin user)
          note    [T]/home/.agents: not used: not decided yet, see `claude.home` in settings  (origin user)
          note    with `claude.home` in settings: these would be used: hooks: 1, not confined: they have all your permissions; rules: 1 that allow, 1 that deny; skills: 2
          ok      [T]/project/.claude: trusted  (origin project)
          note    [T]/project/.mcp.json: not trusted: nothing of it runs  (origin project)

        plugins
          ok      depot: used  (origin user)
                    folder [T]/plugins/depot

        extensions
          ok      [T]/project/.claude (1): project
                    skills parcels
                    commands track
                    agents tracker
          ok      [T]/project/.claude/settings.json: project
                    hook guard at tool.pre runs python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py
                    hook no-prod at tool.pre runs "$CLAUDE_PROJECT_DIR"/.claude/hooks/no-prod.sh
                    hook echo-d91856 at tool.post runs echo ran >> ran.txt
                    denies Read(./secret.txt), WebFetch
                    asks Bash(git push:*)
          ok      [T]/plugins/depot: user
                    hook guard at tool.pre runs python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py
                    servers plugin_depot_hand
                    skills depot-weigh
                    commands depot:track
                    agents depot-tracker

        not honoured
          note    [T]/plugins/depot/.claude-plugin/plugin.json:1: `lspServers` is not honoured
          note    [T]/project/.claude/settings.json:20: `statusLine` is not honoured: Cotter has no status line
          note    [T]/project/.claude/settings.json:4: `allow` is not honoured: a project may only tighten
          note    [T]/project/.claude/settings.json:5: rule `WebFetch(domain:`: `(` without `)` at the end: it applies to every call of `WebFetch`
          note    [T]/project/.claude/settings.json:7: `defaultMode` `bypassPermissions` is not honoured: a project may only tighten
          broken  [T]/home/.config/cotter/agents/none.md: it has no prompt: write it below the front matter
          note    [T]/plugins/depot/skills/weigh/SKILL.md: its name here is `depot-weigh`, not `depot:weigh`
          note    [T]/plugins/depot/more/agents/tracker.md: its name here is `depot-tracker`, not `depot:tracker`

        confinement
          note    commands of the agent: not confined: they have all your permissions  (sandbox off)
          note    hooks of the project: not confined: they have all your permissions
          note    servers: not confined: they have all your permissions
          note    your own hooks: not confined: they have all your permissions

        switches
          ok      mode: ask
          ok      level: standard
          ok      kernel gates: cannot be switched off
                    gates project-roots, system-directories, own-files, protected-paths, destructive-commands, not-understood, secret-then-network, secret-reads
          ok      failures of hooks written for Claude Code: pass with a warning; `claudeHooks.onFailure` makes them block
          note    no-prod: switched off

        nothing to report  spaces, profiles, files of hooks, hooks in the last sessions

        1 thing is broken: [T]/home/.config/cotter/agents/none.md; 16 notes
    "#]].assert_eq(&shown);
}

/// On a machine without any configuration, the report is short.
#[test]
fn b3_doctor_is_short_without_any_configuration() {
    let world = World::new();
    let shown = world.shown(&world.output(&["doctor"]));
    assert!(shown.lines().count() < 30, "{shown}");
    let parts = shown.split("\n\n");
    let parts = parts.filter(|part| !part.starts_with("folders\n") && !part.starts_with("conf"));
    expect![[r#"
        exit 0
        --- stdout
        sources
          ok      /etc/cotter/settings.json: not found  (origin operator)
          ok      [T]/home/.config/cotter/settings.json: not found  (origin user)

        switches
          ok      mode: ask
          ok      level: standard
          ok      kernel gates: cannot be switched off
                    gates project-roots, system-directories, own-files, protected-paths, destructive-commands, not-understood, secret-then-network, secret-reads

        nothing to report  plugins, spaces, profiles, extensions, not honoured, files of hooks, hooks in the last sessions

        nothing is broken
    "#]]
    .assert_eq(&parts.collect::<Vec<_>>().join("\n\n"));
}

#[test]
fn b3_doctor_reports_failed_hooks_and_broken_settings() {
    let world = world();
    world.settings(
        r#"{"sandbox": "off", "hooks": {"tool.pre": [{"name": "gone", "command": "./gone.sh"}]}}"#,
    );
    let script = world
        .script(r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}}]}, {"text": "done"}"#);
    world.output(&["-p", "--script", &script, "go"]);
    let shown = world.shown(&world.output(&["doctor"]));
    let part = |name: &str, next: &str| {
        let rest = &shown[shown.find(&format!("{name}\n")).unwrap()..];
        rest[..rest.find(&format!("{next}\n")).unwrap()].to_owned()
    };
    expect![[r#"
        hooks in the last sessions
          note    gone: failed 1 of 1 times
                    last failed cannot run [T]/home/.config/cotter/./gone.sh: No such file or directory (os error 2)
                    hint `--without gone` disables it for one run

    "#]].assert_eq(&part("hooks in the last sessions", "switches"));
    world.settings("{");
    world.check(&["doctor"], expect![[r#"
        exit 1
        --- stdout
        sources
          ok      /etc/cotter/settings.json: not found  (origin operator)
          ok      [T]/home/.config/cotter/settings.json: used  (origin user)
          broken  settings: [T]/home/.config/cotter/settings.json:1:1: $: object is not closed (add a `}`)

        hooks in the last sessions
          note    gone: failed 1 of 1 times
                    last failed cannot run [T]/home/.config/cotter/./gone.sh: No such file or directory (os error 2)
                    hint `--without gone` disables it for one run

        nothing to report  plugins, spaces, profiles, extensions, not honoured, files of hooks, confinement, folders, switches

        1 thing is broken: settings; 1 note
    "#]]);
}

/// Creates a plugin and lists it as installed by Claude Code.
fn installed(world: &World, root: &str) {
    plugin(world, root);
    let list = serde_json::json!({"version": 2, "plugins": {
        "depot@shop": [{"scope": "user", "installPath": world.path(root), "version": "1.0.0"}]}});
    world.write("home/.claude/plugins/installed_plugins.json", list.to_string());
}

/// The sections of `doctor` about plugins.
fn plugins(world: &World) -> String {
    sections(&world.shown(&world.output(&["doctor"])), &["plugins", "not honoured"])
}

/// Sections of the output of `doctor`, by their titles.
fn sections(doctor: &str, titles: &[&str]) -> String {
    let is_meant = |part: &&str| titles.contains(&part.lines().next().unwrap_or_default());
    doctor.split("\n\n").filter(is_meant).map(|part| format!("{part}\n")).collect()
}

#[test]
fn b3_s3_plugin_enabled_by_a_project_has_the_rights_of_the_project() {
    let world = world();
    installed(&world, "home/.claude/plugins/cache/shop/depot/1.0.0");
    let settings = r#"{"enabledPlugins": {"depot@shop": true, "none@shop": true}}"#;
    world.write("project/.claude/settings.json", settings);
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    expect![""].assert_eq(&plugins(&world));
    trust(&world);
    expect![[r#"
        plugins
          ok      depot: used  (origin project)
                    folder [T]/home/.claude/plugins/cache/shop/depot/1.0.0
        not honoured
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `lspServers` is not honoured
          broken  [T]/project/.claude/settings.json: the plugin `none@shop` is enabled but not installed: nothing of it is used
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/skills/weigh/SKILL.md: its name here is `depot-weigh`, not `depot:weigh`
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/more/agents/tracker.md: its name here is `depot-tracker`, not `depot:tracker`
    "#]].assert_eq(&plugins(&world));
    // The person's own setting wins over the project's.
    world.write("home/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": false}}"#);
    expect![[r#"
        not honoured
          broken  [T]/project/.claude/settings.json: the plugin `none@shop` is enabled but not installed: nothing of it is used
    "#]].assert_eq(&plugins(&world));
    // If the home folder is not used, none of its plugins is.
    fs::remove_file(world.path("home/.claude/settings.json")).unwrap();
    world.settings(r#"{"sandbox": "off", "claude": {"home": false}}"#);
    expect![[r#"
        not honoured
          note    [T]/project/.claude/settings.json: the plugin `depot@shop` is enabled, but nothing of your home folder is used
          note    [T]/project/.claude/settings.json: the plugin `none@shop` is enabled, but nothing of your home folder is used
    "#]].assert_eq(&plugins(&world));
}

#[test]
fn s3_installed_plugin_inside_the_project_is_not_used_as_the_users() {
    let world = world();
    installed(&world, "project/depot");
    world.write("home/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": true}}"#);
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    expect![[r#"
        plugins
          broken  [T]/project/depot: [T]/project/depot: it is inside the project, so it is not used as your own plugin (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
    "#]]
    .assert_eq(&plugins(&world));
}

#[test]
fn b3_broken_plugin_files_are_reported_and_a_lost_gate_stops_the_start() {
    let world = world();
    let root = world.path("plugins/depot");
    world.settings(&format!(r#"{{"sandbox": "off", "plugins": [{root:?}]}}"#));
    // A path that leads out of the plugin is not read, and a missing file is reported.
    world.write(
        "plugins/depot/.plugin/plugin.json",
        r#"{"name": "The Depot", "skills": ["../../home", "/etc", 7], "commands": {"a": {}},
            "hooks": [{"x": 1}], "mcpServers": "./none.json", "outputStyles": "./s"}"#,
    );
    expect![[r#"
        plugins
          ok      The-Depot: used  (origin user)
                    folder [T]/plugins/depot
        not honoured
          broken  [T]/plugins/depot/.plugin/plugin.json:1: `../../home` is not a path inside the plugin
          broken  [T]/plugins/depot/.plugin/plugin.json:1: `/etc` is not a path inside the plugin
          broken  [T]/plugins/depot/.plugin/plugin.json:1: expected a string, found the number 7
          broken  [T]/plugins/depot/.plugin/plugin.json:1: expected a string, found an object
          broken  [T]/plugins/depot/.plugin/plugin.json:2: file `none.json` not found
          note    [T]/plugins/depot/.plugin/plugin.json:2: `outputStyles` is not honoured
          note    [T]/plugins/depot: `The Depot` cannot be the name of a plugin; the name `The-Depot` is used instead
          note    [T]/plugins/depot/.plugin/plugin.json:1: there is no event `x` that is known here
    "#]].assert_eq(&plugins(&world));
    // An invalid manifest, invalid hooks or a missing folder: nothing starts.
    world.write("plugins/depot/.plugin/plugin.json", "{");
    world.check(
        &["hooks", "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/plugins/depot/.plugin/plugin.json:1: object is not closed

            hint: a gate may be in it, so nothing runs: fix it, or remove it from `plugins` at [T]/home/.config/cotter/settings.json:1:32
        "#]],
    );
    world.write("plugins/depot/.plugin/plugin.json", r#"{"name": "depot"}"#);
    world.write("plugins/depot/hooks/hooks.json", r#"{"hooks": {"PreToolUse": ["#);
    world.check(
        &["hooks", "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/plugins/depot/hooks/hooks.json:1: list is not closed

            hint: a gate may be in it, so nothing runs: fix it, or remove it from `plugins` at [T]/home/.config/cotter/settings.json:1:32
        "#]],
    );
    fs::remove_dir_all(&root).unwrap();
    world.check(&["hooks", "list"], expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:32: $.plugins[0]: folder `[T]/plugins/depot` not found

        hint: the plugin may have a gate: restore the folder, or remove it from `plugins`
    "#]]);
}

/// Appends the output of a start, the plugins in `doctor`, and the last line of `doctor`.
fn starts(world: &World, out: &mut String, what: &str) {
    let start = world.shown(&world.output(&["hooks", "list"]));
    let kernel = |line: &&str| !line.contains("(kernel)") && !line.contains("(embedder)");
    let start: Vec<_> = start.lines().filter(kernel).collect();
    let doctor = world.shown(&world.output(&["doctor"]));
    let plugins = sections(&doctor, &["plugins"]);
    let count = doctor.lines().last().unwrap();
    *out += &format!("== {what}\n{}\n{}\n{count}\n", start.join("\n"), plugins.trim_end());
}

#[test]
fn b3_plugin_with_an_unreadable_gate_stops_the_start_and_doctor_lists_it() {
    const ROOT: &str = "home/.claude/plugins/cache/shop/depot/1.0.0";
    const LIST: &str = "home/.claude/plugins/installed_plugins.json";
    type Breaks = fn(&World);
    let manifest = |world: &World, hooks: &str| {
        let text = format!(r#"{{"name": "depot", "hooks": {hooks}}}"#);
        world.write(&format!("{ROOT}/.claude-plugin/plugin.json"), text);
    };
    let named: [(&str, &str); 5] = [
        ("named and missing", r#""./none.json""#),
        ("named absolutely", r#""/etc/hooks.json""#),
        ("named outside", r#"["../hooks.json"]"#),
        ("no name", "7"),
        ("named by its folder", r#""${CLAUDE_PLUGIN_ROOT}/hooks/hooks.json""#),
    ];
    let breaks: [(&str, Breaks); 8] = [
        ("not UTF-8", |world| {
            _ = world.write(&format!("{ROOT}/hooks/hooks.json"), b"{\"a\": \"\xff\"}")
        }),
        ("too long", |world| {
            _ = world.write(&format!("{ROOT}/hooks/hooks.json"), " ".repeat(1024 * 1024 + 1));
        }),
        ("the folder is gone", |world| fs::remove_dir_all(world.path(ROOT)).unwrap()),
        ("the folder is empty", |world| {
            fs::remove_dir_all(world.path(ROOT)).unwrap();
            fs::create_dir(world.path(ROOT)).unwrap();
        }),
        ("the list is broken", |world| _ = world.write(LIST, "{")),
        ("the list is none", |world| _ = world.write(LIST, r#"{"version": 2}"#)),
        ("the list says nothing of it", |world| {
            _ = world.write(LIST, r#"{"plugins": {"depot@shop": []}}"#);
        }),
        ("it is not in the list", |world| _ = world.write(LIST, r#"{"plugins": {}}"#)),
    ];
    let mut out = String::new();
    let fresh = || {
        let world = world();
        installed(&world, ROOT);
        world.write("home/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": true}}"#);
        world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
        world
    };
    for (what, hooks) in named {
        let world = fresh();
        manifest(&world, hooks);
        starts(&world, &mut out, what);
    }
    for (what, breaks) in breaks {
        let world = fresh();
        breaks(&world);
        starts(&world, &mut out, what);
        // The ways out that the hints name.
        let run = |world: &World| world.output(&["hooks", "list"]).status.success();
        world.write("home/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": false}}"#);
        assert!(run(&world), "{what}");
        world.write("home/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": true}}"#);
        world.settings(r#"{"sandbox": "off", "claude": {"home": false}}"#);
        assert!(run(&world), "{what}");
    }
    expect![[r#"
        == named and missing
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: file `none.json` not found

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: file `none.json` not found (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == named absolutely
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `/etc/hooks.json` is not a path inside the plugin

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `/etc/hooks.json` is not a path inside the plugin (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == named outside
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `../hooks.json` is not a path inside the plugin

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `../hooks.json` is not a path inside the plugin (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == no name
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: expected a string, found the number 7

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: expected a string, found the number 7 (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == named by its folder
        exit 0
        --- stdout
        guard                 tool.pre            transform, gate  (user)  for Write, write  PreToolUse
        guard                 permission.ask      answer           (user)
        plugins
          ok      depot: used  (origin user)
                    folder [T]/home/.claude/plugins/cache/shop/depot/1.0.0
        nothing is broken; 5 notes
        == not UTF-8
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json: a byte in the file is not UTF-8

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json: a byte in the file is not UTF-8 (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == too long
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json: it has more than 1048576 bytes

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json: it has more than 1048576 bytes (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == the folder is gone
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0: it cannot be read: No such file or directory (os error 2)

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0: it cannot be read: No such file or directory (os error 2) (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == the folder is empty
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0: it is not a plugin: it contains no part of one

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0: it is not a plugin: it contains no part of one (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == the list is broken
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/installed_plugins.json:1:1: $: object is not closed

        hint: a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude/plugins/installed_plugins.json: [T]/home/.claude/plugins/installed_plugins.json:1:1: $: object is not closed (a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/installed_plugins.json; 3 notes
        == the list is none
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/installed_plugins.json:1:1: $: missing key `plugins`

        hint: a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude/plugins/installed_plugins.json: [T]/home/.claude/plugins/installed_plugins.json:1:1: $: missing key `plugins` (a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/installed_plugins.json; 3 notes
        == the list says nothing of it
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/installed_plugins.json: `depot@shop` has no `installPath` that is an absolute path

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/installed_plugins.json: [T]/home/.claude/plugins/installed_plugins.json: `depot@shop` has no `installPath` that is an absolute path (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/installed_plugins.json; 3 notes
        == it is not in the list
        exit 0
        --- stdout
        --- stderr
        warning: [T]/home/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used

        1 thing is broken: [T]/home/.claude/settings.json; 3 notes
    "#]].assert_eq(&out);
}

#[test]
fn b3_s30_broken_plugin_enabled_by_a_project_can_be_bypassed() {
    const ROOT: &str = "home/.claude/plugins/cache/shop/depot/1.0.0";
    let world = world();
    installed(&world, ROOT);
    world.write("project/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": ["^1.0"]}}"#);
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    trust(&world);
    world.write(&format!("{ROOT}/hooks/hooks.json"), "[");
    let script = world.script(r#"{"text": "done"}"#);
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json:1: list is not closed

        hint: a gate may be in it, so nothing runs: fix it, run with `--safe-mode`, or disable it for yourself: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
    "#]]);
    world.check(
        &["-p", "--safe-mode", "--script", &script, "go"],
        expect![[r#"
        exit 0
        --- stdout
        done
    "#]],
    );
    let output = |value: &str| {
        let mut command = world.command(&["-p", "--script", &script, "go"]);
        world.shown(&command.env("COTTER_DISABLE_HOOKS", value).output().unwrap())
    };
    expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json:1: list is not closed

        hint: a gate may be in it, so nothing runs: fix it, run with `--safe-mode`, or disable it for yourself: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
    "#]].assert_eq(&output("1"));
    expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/home/.claude/plugins/cache/shop/depot/1.0.0: it has errors, so nothing of it is used
    "#]].assert_eq(&output("force"));
}

#[test]
fn b3_s6_plugin_gates_stay_when_the_folder_that_enabled_them_changes() {
    let world = world();
    installed(&world, "home/.claude/plugins/cache/shop/depot/1.0.0");
    world.write("project/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": true}}"#);
    world.settings(
        r#"{"sandbox": "off", "permissions": {"level": "permissive"}, "claude": {"home": true}}"#,
    );
    trust(&world);
    let mut out = String::new();
    let mut look = |what: &str| {
        let script = world.script(
            r#"{"calls": [{"name": "write", "input": {"path": "src/b.txt", "content": "x"}}]}, {"text": "done"}"#,
        );
        let run = world.shown(&world.output(&["-p", "--script", &script, "go"]));
        let doctor = world.shown(&world.output(&["doctor"]));
        let doctor = sections(&doctor, &["extensions", "not honoured"]);
        out += &format!("== {what}\n{run}{}\n", doctor.trim_end());
    };
    look("trusted");
    world.write("project/.claude/settings.json", "{}");
    look("changed");
    fs::remove_dir_all(world.path("project/.claude")).unwrap();
    look("gone");
    world.write("home/.claude/settings.json", r#"{"enabledPlugins": {"depot@shop": false}}"#);
    look("the person said no");
    expect![[r#"
        == trusted
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: b.txt is closed (guard, project)
        extensions
          ok      [T]/home/.claude/plugins/cache/shop/depot/1.0.0: project
                    hook guard at tool.pre runs python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py
                    servers plugin_depot_hand
                    skills depot-weigh
                    commands depot:track
                    agents depot-tracker
        not honoured
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `lspServers` is not honoured
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/skills/weigh/SKILL.md: its name here is `depot-weigh`, not `depot:weigh`
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/more/agents/tracker.md: its name here is `depot-tracker`, not `depot:tracker`
        == changed
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
        refused: write: b.txt is closed (guard, project)
        extensions
          ok      [T]/home/.claude/plugins/cache/shop/depot/1.0.0: project
                    hook guard at tool.pre runs python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py
        not honoured
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `lspServers` is not honoured
        == gone
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/project/.claude was trusted, and is gone: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter untrust` removes the trust)
        refused: write: b.txt is closed (guard, project)
        extensions
          ok      [T]/home/.claude/plugins/cache/shop/depot/1.0.0: project
                    hook guard at tool.pre runs python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py
        not honoured
          note    [T]/home/.claude/plugins/cache/shop/depot/1.0.0/.claude-plugin/plugin.json:1: `lspServers` is not honoured
        == the person said no
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/project/.claude was trusted, and is gone: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter untrust` removes the trust)

    "#]].assert_eq(&out);
}

#[test]
fn b3_malformed_claude_settings_cannot_be_trusted_and_stop_the_start() {
    let world = world();
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    let mut out = String::new();
    for text in [
        r#"{"hooks": [{"PreToolUse": []}]}"#,
        r#"{"enabledPlugins": ["depot@shop"]}"#,
        r#"{"enabledPlugins": {"depot@shop": "yes"}}"#,
    ] {
        world.write("home/.claude/settings.json", text);
        out += &world.shown(&world.output(&["hooks", "list"]));
        world.write("home/.claude/settings.json", "{}");
        world.write("project/.claude/settings.json", text);
        out += &world.shown(&world.output(&["trust", "--print"]));
    }
    expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:11: $.hooks: expected an object, found a list
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:11: $.hooks: expected an object, found a list
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:20: $.enabledPlugins: expected an object, found a list
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:20: $.enabledPlugins: expected an object, found a list
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:35: $.enabledPlugins["depot@shop"]: expected `true` or `false`, found the string `yes`
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:35: $.enabledPlugins["depot@shop"]: expected `true` or `false`, found the string `yes`
    "#]].assert_eq(&out);
}

/// A plugin of Agent Plugins: the portable parts, and hooks.
fn portable(world: &World, root: &str) {
    plugin(world, root);
    fs::remove_file(world.path(&format!("{root}/.claude-plugin/plugin.json"))).unwrap();
    fs::rename(world.path(&format!("{root}/more/agents")), world.path(&format!("{root}/agents")))
        .unwrap();
    fs::remove_file(world.path(&format!("{root}/.mcp.json"))).unwrap();
    let schema = |of: &str| format!("https://agent-plugins.org/schemas/1.0.0/{of}.schema.json");
    let manifest = serde_json::json!({"$schema": schema("plugin"), "name": "depot",
        "extensions": {"com.example.client": {"a": 1}}});
    world.write(&format!("{root}/plugin.json"), manifest.to_string());
    let state = world.path("hand/hand.json");
    let servers = serde_json::json!({"$schema": schema("mcp"), "mcpServers": {
        "hand": {"type": "stdio", "command": "python3",
            "args": ["${PLUGIN_ROOT}/servers/fake.py", state], "env": {"ODD": "${NONE}"}},
        "old": {"type": "sse", "url": "https://example.com/sse"}}});
    world.write(&format!("{root}/mcp.json"), servers.to_string());
    world.write(&format!("{root}/com.example.client/hooks/hooks.json"), "{}");
}

#[test]
fn b3_agent_plugin_loads_all_its_parts() {
    let world = world();
    portable(&world, "plugins/depot");
    let folder = world.path("plugins/depot");
    world.settings(&format!(
        r#"{{"sandbox": "off", "permissions": {{"level": "permissive"}}, "plugins": [{folder:?}]}}"#
    ));
    check_plugin(
        &world,
        expect![[r#"
            $ go
            exit 0
            --- stdout
            done
            --- stderr
            warning: [T]/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            refused: write: b.txt is closed (guard)
            refused: mcp__plugin_depot_hand__run {"command":"true"}: zone `external` asks at level `permissive`, and no person can be asked; `--ask` asks you on the terminal
            $ /depot:track 7
            exit 0
            --- stdout
            rehearsal: I do not understand "Track 7."

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            /depot:track  Track  (user)
            --- stderr
            warning: [T]/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            /depot-weigh    Weighs  (user)
            --- stderr
            warning: [T]/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            @depot-tracker  Tracks  (user)
            --- stderr
            warning: [T]/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            plugin_depot_hand
              run  Runs a command.
        "#]],
    );
    expect![[r#"
        plugins
          ok      depot: used  (origin user)
                    folder [T]/plugins/depot
        not honoured
          note    [T]/plugins/depot/plugin.json:1: `extensions`: the part for `com.example.client` is not honoured
          broken  [T]/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
          note    [T]/plugins/depot/com.example.client: it is not honoured
          note    [T]/plugins/depot/skills/weigh/SKILL.md: its name here is `depot-weigh`, not `depot:weigh`
          note    [T]/plugins/depot/agents/tracker.md: its name here is `depot-tracker`, not `depot:tracker`
    "#]].assert_eq(&plugins(&world));
}

#[test]
fn b3_s6_agent_plugin_of_the_project_is_shown_before_trust() {
    let world = world();
    portable(&world, "project/.agents/plugins/depot");
    let shown = world.shown(&world.output(&["trust", "--print"]));
    expect![[r#"
        exit 0
        --- stdout
        source  [T]/project/.agents
        hash    [HASH][HASH]
        trust   none yet

        commands, pinned (all their code is in the files below) or open (they run other code too)
          open    hook guard at PreToolUse of plugin depot
                  runs python3 ${CLAUDE_PLUGIN_ROOT}/scripts/guard.py
                  open: it runs in place, in the folder of the session
          open    MCP server plugin_depot_hand, sets ODD, PLUGIN_ROOT, in [T]/project/.agents/plugins/depot
                  runs python3 [T]/project/.agents/plugins/depot/servers/fake.py [T]/hand/hand.json
                  open: it runs in the project, not in the trusted copy

        not used
          plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported

    "#]]
    .assert_eq(&shown[..shown.find("files (").unwrap()]);
    trust(&world);
    check_plugin(
        &world,
        expect![[r#"
            $ go
            exit 0
            --- stdout
            done
            --- stderr
            warning: [T]/project/.agents/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            refused: write: b.txt is closed (guard, project)
            refused: mcp__plugin_depot_hand__run {"command":"true"}: zone `external` asks at level `permissive`, and no person can be asked; `--ask` asks you on the terminal
            $ /depot:track 7
            exit 0
            --- stdout
            rehearsal: I do not understand "Track 7."

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/project/.agents/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            /depot:track  Track  (project)
            --- stderr
            warning: [T]/project/.agents/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            /depot-weigh    Weighs  (project)
            --- stderr
            warning: [T]/project/.agents/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            @depot-tracker  Tracks  (project)
            --- stderr
            warning: [T]/project/.agents/plugins/depot/mcp.json:1: the server `old` cannot be used: servers of the older kind `sse` are not supported
            $ list
            exit 0
            --- stdout
            plugin_depot_hand
              run  Runs a command.
        "#]],
    );
    // A plugin that cannot be read cannot be trusted.
    world.write("project/.agents/plugins/depot/plugin.json", "{");
    world.check(
        &["trust", "--print"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/project/.agents/plugins/depot/plugin.json:1: object is not closed

            hint: a gate may be in it, so nothing runs: fix it and trust it again, or run without the project's extensions: `--safe-mode`
        "#]],
    );
}

/// The person's own plugins may be links.
#[test]
fn b3_linked_plugins_in_the_home_folder_are_found() {
    let world = world();
    plugin(&world, "dotfiles/depot");
    world.write("home/.agents/plugins/data/state.txt", "x");
    std::os::unix::fs::symlink(
        world.path("dotfiles/depot"),
        world.path("home/.agents/plugins/depot"),
    )
    .unwrap();
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    expect![[r#"
        plugins
          ok      depot: used  (origin user)
                    folder [T]/home/.agents/plugins/depot
        not honoured
          note    [T]/home/.agents/plugins/data: it is not a plugin: it contains no part of one
          note    [T]/home/.agents/plugins/depot/.claude-plugin/plugin.json:1: `lspServers` is not honoured
          note    [T]/home/.agents/plugins/depot/skills/weigh/SKILL.md: its name here is `depot-weigh`, not `depot:weigh`
          note    [T]/home/.agents/plugins/depot/more/agents/tracker.md: its name here is `depot-tracker`, not `depot:tracker`
    "#]].assert_eq(&plugins(&world));
    world.write("dotfiles/depot/hooks/hooks.json", "{");
    world.check(
        &["hooks", "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.agents/plugins/depot/hooks/hooks.json:1: object is not closed

            hint: a gate may be in it, so nothing runs: fix it, or remove its folder
        "#]],
    );
}

#[test]
fn b3_s34_http_hook_with_a_forbidden_address_is_reported_at_the_start() {
    let world = world();
    world.write(
        "project/.claude/settings.json",
        r#"{"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "http", "url": "http://127.0.0.1:9/h"}]}]}}"#,
    );
    trust(&world);
    world.check(
        &["-p", "--model", "rehearsal", "write x to b.txt"],
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"x"} was refused: Hook "PreToolUse-704af1" blocked the action: the address must be https, or on the operator's list. Adjust your approach; do not retry the exact same call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/project/.claude/settings.json: hook `PreToolUse-704af1` posts to http://127.0.0.1:9/h, which always fails: the address must be https, or on the operator's list; the operator allows hosts with `COTTER_HOOK_WEBHOOK_ALLOWLIST`
            refused: write: the address must be https, or on the operator's list (PreToolUse-704af1, project)
        "#]],
    );
    expect![[r#"
        not honoured
          broken  [T]/project/.claude/settings.json: hook `PreToolUse-704af1` posts to http://127.0.0.1:9/h, which always fails: the address must be https, or on the operator's list; the operator allows hosts with `COTTER_HOOK_WEBHOOK_ALLOWLIST`
    "#]].assert_eq(&plugins(&world));
}

#[test]
fn b3_s6_start_with_a_changed_folder_says_how_its_hooks_act() {
    let world = world();
    let guard = r#"{"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "exit 0"}]}]}}"#;
    world.write("project/.claude/settings.json", guard);
    trust(&world);
    world.write("project/.claude/notes.md", "x");
    world.check(
        &["-p", "--model", "rehearsal", "write x to b.txt then read a.txt"],
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"x"} was refused: Hook "exit-acae3d" blocked the action: [T]/project/.claude changed since it was trusted: `cotter trust` shows the difference. Adjust your approach; do not retry the exact same call.

            `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
            refused: write: [T]/project/.claude changed since it was trusted: `cotter trust` shows the difference (exit-acae3d, project)
        "#]],
    );
}

/// Trust in one folder does not let a nearer folder of the same name run.
#[test]
fn b3_s6_relative_hook_path_resolves_only_inside_the_trusted_folder() {
    let world = world();
    let guard = r#"{"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": ".claude/guard.sh"}]}]}}"#;
    world.write("project/.claude/settings.json", guard);
    world.write_executable("project/.claude/guard.sh", "#!/bin/sh\nexit 0\n");
    trust(&world);
    world.write_executable("project/sub/.claude/guard.sh", "#!/bin/sh\ntouch ran\n");
    world.check(&["-p", "--model", "rehearsal", "--cwd", "sub", "write x to b.txt"], expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"b.txt","content":"x"} was refused: Hook "guard" blocked the action: it would run code in [T]/project/sub/.claude, not in [T]/project/.claude, which is trusted. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: nothing of [T]/project/sub/.claude runs: it is not trusted yet (`cotter trust` shows it)
        refused: write: it would run code in [T]/project/sub/.claude, not in [T]/project/.claude, which is trusted (guard, project)
    "#]]);
    assert!(!world.path("project/sub/ran").exists());
}

#[test]
fn b3_doctor_shows_the_contents_of_the_home_folder_and_the_source_of_the_mode() {
    let world = world();
    home(&world);
    let text = r#"{"permissions": {"defaultMode": "acceptEdits", "allow": ["Bash(git log)"]}}"#;
    world.write("home/.claude/settings.local.json", text);
    let shown = |world: &World| {
        let doctor = world.shown(&world.output(&["doctor"]));
        sections(&doctor, &["exit 0", "switches"])
    };
    expect![[r#"
        exit 0
        --- stdout
        sources
          ok      /etc/cotter/settings.json: not found  (origin operator)
          ok      [T]/home/.config/cotter/settings.json: used  (origin user)
          note    [T]/home/.claude: not used: not decided yet, see `claude.home` in settings  (origin user)
          note    [T]/home/.agents: not used: not decided yet, see `claude.home` in settings  (origin user)
          note    with `claude.home` in settings: these would be used: hooks: 1, not confined: they have all your permissions; rules: 2 that allow, 1 that deny; mode: accept-edits, set in [T]/home/.claude/settings.local.json; skills: 2
        switches
          ok      mode: ask
          ok      level: permissive
                    by [T]/home/.config/cotter/settings.json
          ok      kernel gates: cannot be switched off
                    gates project-roots, system-directories, own-files, protected-paths, destructive-commands, not-understood, secret-then-network, secret-reads
    "#]].assert_eq(&shown(&world));
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    expect![[r#"
        switches
          ok      mode: accept-edits
                    by [T]/home/.claude/settings.local.json
          ok      level: standard
          ok      kernel gates: cannot be switched off
                    gates project-roots, system-directories, own-files, protected-paths, destructive-commands, not-understood, secret-then-network, secret-reads
          ok      failures of hooks written for Claude Code: pass with a warning; `claudeHooks.onFailure` makes them block
    "#]].assert_eq(&shown(&world));
}

/// A rule that would allow any program allows nothing. The others of the file are in force.
#[test]
fn s11_allow_rule_that_names_no_program_is_reported_and_the_others_load() {
    let world = world();
    let text = r#"{"permissions": {
  "allow": ["Bash(* --version)",
            "Bash(ls | * x)",
            "Bash(git push:*)"],
  "deny": ["Bash(*--no-verify*)"]
}}"#;
    world.write("home/.claude/settings.json", text);
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    let doctor = world.shown(&world.output(&["doctor"]));
    expect![[r#"
        not honoured
          broken  [T]/home/.claude/settings.json:2: rule `Bash(* --version)`: it would allow any program: name one, or write `Bash` for every command: it allows nothing
          broken  [T]/home/.claude/settings.json:3: rule `Bash(ls | * x)`: it would allow any program: name one, or write `Bash` for every command: it allows nothing
    "#]].assert_eq(&sections(&doctor, &["not honoured"]));
    let script = world.script(
        r#"{"calls": [{"name": "bash", "input": {"command": "curl --version"}},
                      {"name": "bash", "input": {"command": "ls | rm x"}},
                      {"name": "bash", "input": {"command": "git commit --no-verify"}},
                      {"name": "bash", "input": {"command": "git push origin main"}}]},
           {"text": "done"}"#,
    );
    let output = world.output(&["-p", "--output-format", "stream-json", "--script", &script, "go"]);
    expect![[r#"
        warning: [T]/home/.claude/settings.json:2: rule `Bash(* --version)`: it would allow any program: name one, or write `Bash` for every command: it allows nothing
        warning: [T]/home/.claude/settings.json:3: rule `Bash(ls | * x)`: it would allow any program: name one, or write `Bash` for every command: it allows nothing
    "#]]
    .assert_eq(&world.plain(&String::from_utf8_lossy(&output.stderr)));
    expect![[r#"
        refused "nobody": "zone `network` asks at level `standard`, and no person can be asked"
        refused "nobody": "`rm x` deletes a file, and no person can be asked"
        refused "rule deny Bash(*--no-verify*)": "the rule `deny Bash(*--no-verify*)` denies it"
        ran "bash" "fatal: not a git repository (or any of the parent directories): .git\nexit code 128"
    "#]].assert_eq(&world.plain(&decided(&output.stdout)));
}

/// The verdicts on commands in a world, a line each.
fn explained(world: &World, commands: &[&str]) -> String {
    let line = |command: &&str| {
        let output = world.output(&["explain", "bash", command]);
        let shown = String::from_utf8(output.stdout).unwrap();
        format!("{command}\n    {}\n", shown.lines().nth(1).unwrap_or_default())
    };
    commands.iter().map(line).collect()
}

#[test]
fn l12_stars_in_the_rules_of_claude_settings_span_any_text() {
    let patterns = r#"["Bash(git * main)", "Bash(*--no-verify*)", "Bash(git push *--force*)", "Bash(cat *.env*)"]"#;
    let commands = [
        "git push origin main",
        "git commit -m x --no-verify",
        "git push --force-with-lease origin x",
        "cat sub/.env.local",
        "git push origin other",
        "git commit -m x",
        "cat a.txt",
    ];
    let denying = world();
    let settings = format!(r#"{{"permissions": {{"deny": {patterns}}}}}"#);
    denying.write("project/.claude/settings.json", settings);
    trust(&denying);
    expect![[r#"
        git push origin main
            block: the rule `deny Bash(git * main)` denies it
        git commit -m x --no-verify
            block: the rule `deny Bash(*--no-verify*)` denies it
        git push --force-with-lease origin x
            block: the rule `deny Bash(git push *--force*)` denies it
        cat sub/.env.local
            block: the rule `deny Bash(cat *.env*)` denies it
        git push origin other
            ask: zone `external` asks at level `permissive`
        git commit -m x
            ask: zone `build` asks at level `permissive`
        cat a.txt
            pass
    "#]]
    .assert_eq(&explained(&denying, &commands));
    let allowing = world();
    allowing.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    let settings = format!(r#"{{"permissions": {{"allow": {patterns}}}}}"#);
    allowing.write("home/.claude/settings.json", settings);
    expect![[r#"
        git push origin main
            pass
        git commit -m x --no-verify
            ask: zone `build` asks at level `standard`
        git push --force-with-lease origin x
            ask: zone `external` asks at level `standard`; `git push` overwrites or deletes what is elsewhere
        cat sub/.env.local
            pass
        git push origin other
            ask: zone `external` asks at level `standard`
        git commit -m x
            ask: zone `build` asks at level `standard`
        cat a.txt
            pass
    "#]].assert_eq(&explained(&allowing, &commands));
}

/// In files for Claude Code `Bash(*)` is every command. The gates of the kernel still ask.
#[test]
fn l12_star_alone_allows_every_command_but_what_the_gates_ask_about() {
    let world = world();
    world.write("home/.claude/settings.json", r#"{"permissions": {"allow": ["Bash(*)"]}}"#);
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    for (command, code) in [("frob --now", 0), ("git push origin main", 0), ("git push -f", 3)] {
        let output = world.output(&["explain", "bash", command]);
        assert_eq!(output.status.code(), Some(code), "{}", world.shown(&output));
    }
}

#[test]
fn c9_start_summarises_repaired_files() {
    let world = world();
    for number in 0..9 {
        let agent = format!("---\ndescription: a: {number}\n---\nDo it.\n");
        world.write(&format!("home/.claude/agents/a{number}.md"), agent);
        world.write(&format!("home/.claude/agents/b{number}.md"), "---\nname: b\n");
    }
    world.settings(r#"{"sandbox": "off", "claude": {"home": true}}"#);
    world.check(&["-p", "--model", "rehearsal", "--no-session", "hi"], expect![[r#"
        exit 0
        --- stdout
        rehearsal: I do not understand "hi"

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/home/.claude/agents/b0.md:1: the front matter has no end: a second line `---` is missing
        warning: [T]/home/.claude/agents/b1.md:1: the front matter has no end: a second line `---` is missing
        warning: [T]/home/.claude/agents/b2.md:1: the front matter has no end: a second line `---` is missing
        warning: [T]/home/.claude/agents/b3.md:1: the front matter has no end: a second line `---` is missing
        warning: [T]/home/.claude/agents/b4.md:1: the front matter has no end: a second line `---` is missing
        warning: [T]/home/.claude: 4 more not used, 9 repairs (`cotter doctor` lists them)
    "#]]);
    let doctor = world.shown(&world.output(&["doctor"]));
    assert_eq!(doctor.matches("read with its values in quotes").count(), 9);
    assert_eq!(doctor.matches("the front matter has no end").count(), 9);
}
