//! `cotter trust` shows what a run would use, read by the same readers.

use std::{collections::BTreeSet, fs, path::PathBuf};

use cotter_test::Dice;
use expect_test::{Expect, expect};
use serde_json::Value;

use crate::{
    support::{World, wait_until},
    terminal::Screen,
};

fn world() -> World {
    let world =
        World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from("/usr/bin:/bin"));
    world.settings(r#"{"sandbox": "off", "permissions": {"level": "permissive"}}"#);
    world
}

/// The part of the view about what would run and what is not used.
fn check(world: &World, source: &str, expected: Expect) {
    let shown = world.shown(&world.output(&["trust", "--print", source]));
    let from = shown.find("\ncommands").or_else(|| shown.find("\nno commands"));
    let part = &shown[from.map_or(0, |from| from + 1)..];
    expected.assert_eq(part.split("\nfiles (").next().unwrap());
}

#[test]
fn s6_commands_in_texts_are_shown_for_every_kind_of_folder() {
    let world = world();
    let text =
        "---\ndescription: x\n---\nSee !`id` and !`git log $1`, not `!x`.\n```\n!`no`\n```\n";
    for folder in [".cotter", ".claude", ".agents", ".cotter/spaces/s", ".agents/plugins/p"] {
        world.write(&format!("project/{folder}/commands/x.md"), text);
        world.write(&format!("project/{folder}/skills/y/SKILL.md"), text);
    }
    world.write("project/.cotter/commands/broken.md", "---\ndescription: [\n---\n!`id`\n");
    world.write(
        "project/.cotter/spaces/s/manifest.json",
        r#"{"id": "s", "name": "S", "version": "1"}"#,
    );
    world.write("project/.agents/plugins/p/plugin.json", r#"{"name": "p"}"#);
    check(
        &world,
        ".cotter",
        expect![[r#"
            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    text of skill y
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill y
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command broken
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill y of space s
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill y of space s
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x of space s
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x of space s
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
        "#]],
    );
    check(
        &world,
        ".claude",
        expect![[r#"
            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    text of skill y
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill y
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
        "#]],
    );
    check(
        &world,
        ".agents",
        expect![[r#"
            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    text of skill p-y of plugin p
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill p-y of plugin p
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command p:x of plugin p
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command p:x of plugin p
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill y
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of skill y
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x
                      runs id
                      open: it runs in the project, as a call of the agent that the gates see
              open    text of command x
                      runs git log $1
                      open: it runs in the project, as a call of the agent that the gates see
        "#]],
    );
}

#[test]
fn s6_hooks_and_servers_are_shown_as_they_are_read() {
    let world = world();
    world.write(
        "project/.cotter/settings.json",
        r#"{"hooks": {"tool.pre": [
          {"command": "./a.sh", "env": ["TOKEN"]},
          {"name": "b", "command": ["python3", "hooks/b.py"], "tools": ["bash"]}]},
        "mcpServers": {"one": {"command": "./one", "args": ["${KEY:-x}"], "env": {"A": "${B}"}}}}"#,
    );
    world.write("project/.cotter/hooks/b.py", "");
    world.write(
        "project/.cotter/hooks/c.yaml",
        "id: c\nphase: pre\ncommand: ./c.sh\nenabled: false\n",
    );
    world.write_executable("project/.cotter/c.sh", "#!/bin/sh\n");
    world.write("project/.cotter/logs/x.log", "x");
    check(
        &world,
        ".cotter",
        expect![[r#"
            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    hook a at tool.pre, with variables TOKEN
                      runs ./a.sh
                      open: `./a.sh` is not a file of the folder
              pinned  hook b at tool.pre
                      runs python3 hooks/b.py
              open    MCP server one, with variables B, KEY, sets A
                      runs ./one "${KEY:-x}"
                      open: it runs in the project, not in the trusted copy
              pinned  hook c at tool.pre, switched off
                      runs ./c.sh
        "#]],
    );
    // What a run refuses is refused here.
    world.write(
        "project/.cotter/settings.json",
        r#"{"hooks": {"tool.pre": [{"commmand": "./a.sh"}]}}"#,
    );
    check(
        &world,
        ".cotter",
        expect![[r#"
        exit 1
        --- stderr
        error: [T]/project/.cotter/settings.json:1:26: $.hooks["tool.pre"][0].commmand: unknown key `commmand`

        hint: did you mean `command`?
    "#]],
    );
}

/// Text of a command file, with lines that a run would execute and lines that it would not.
fn command_text(dice: &mut Dice, number: u64) -> String {
    let mut text = String::from("---\ndescription: x\n---\n");
    for line in 0..dice.below(4) {
        let command = format!("touch ran-{number}-{line}");
        text += &match dice.below(7) {
            0 => format!("!`{command}`\n"),
            1 => format!("see !`{command}` there\n"),
            2 => format!("```\n!`{command}`\n```\n"),
            3 => format!("x!`{command}`\n"),
            4 => format!("~~~ a\n!`{command}`\n~~\n!`{command}`\n~~~\n"),
            5 => format!("`!`{command}``\n"),
            _ => format!("- !`{command}` !`{command}-b`\n"),
        };
    }
    text
}

fn settings_text(dice: &mut Dice) -> String {
    let points = ["tool.pre", "tool.post", "user.prompt.submit", "turn.end"];
    let mut hooks = vec![];
    for point in points.iter().take(1 + dice.below(4) as usize) {
        let entries = (0..dice.below(3)).map(|number| match dice.below(4) {
            0 => format!(r#"{{"name": "n{number}-{point}", "command": "./{number}.sh {point}"}}"#),
            1 => format!(r#"{{"command": ["echo", "{number}", "{point}"]}}"#),
            2 => format!(r#"{{"command": "x{number} {point}", "env": ["E"]}}"#),
            _ => format!(r#"{{"name": "m{number}-{point}", "command": "y", "timeoutMs": 10}}"#),
        });
        hooks.push(format!("\"{point}\": [{}]", entries.collect::<Vec<_>>().join(", ")));
    }
    format!("{{\"hooks\": {{{}}}, {}}}", hooks.join(", "), servers_text(dice, "own"))
}

/// Servers that leave a file when they start, and servers at an address.
fn servers_text(dice: &mut Dice, word: &str) -> String {
    let servers = (0..dice.below(3)).map(|number| {
        let name = format!("{word}-{number}");
        match dice.below(3) {
            0 => format!(r#""{name}": {{"command": "touch", "args": ["ran-{name}"]}}"#),
            1 => format!(
                r#""{name}": {{"command": "touch", "args": ["ran-{name}"], "env": {{"A": "1"}}}}"#
            ),
            _ => format!(r#""{name}": {{"type": "http", "url": "http://127.0.0.1:9/{name}"}}"#),
        }
    });
    format!("\"mcpServers\": {{{}}}", servers.collect::<Vec<_>>().join(", "))
}

/// A settings file as Claude Code has it.
fn claude_settings_text(dice: &mut Dice) -> String {
    let events = ["PreToolUse", "PostToolUse", "Stop", "UserPromptSubmit", "SessionEnd", "Setup"];
    let mut hooks = vec![];
    for event in events.iter().take(1 + dice.below(6) as usize) {
        let entries = (0..dice.below(3)).map(|number| match dice.below(5) {
            0 => format!(r#"{{"type": "command", "command": "./{number}.sh {event}"}}"#),
            1 => format!(r#"{{"type": "command", "command": "x{number} {event}", "timeout": 5}}"#),
            2 => format!(r#"{{"type": "http", "url": "https://x.example/{event}/{number}"}}"#),
            3 => format!(r#"{{"type": "prompt", "prompt": "fine {number}?"}}"#),
            _ => format!(r#"{{"command": "y{number} {event}"}}"#),
        });
        let entries = entries.collect::<Vec<_>>().join(", ");
        hooks.push(format!("\"{event}\": [{{\"matcher\": \"Write\", \"hooks\": [{entries}]}}]"));
    }
    format!("{{\"hooks\": {{{}}}}}", hooks.join(", "))
}

/// A hook that is a file.
fn hook_file_text(dice: &mut Dice, number: u64) -> String {
    let more = match dice.below(5) {
        0 => "enabled: false\n",
        1 => "tools: [write]\n",
        2 => "description: |\n  phase: post\n",
        3 => "timeoutMs: 10\n",
        _ => "",
    };
    let phase = if dice.below(2) == 0 { "pre" } else { "post" };
    format!("id: y{number}\nphase: {phase}\n{more}command: echo {number}\n")
}

/// The text with one change: a part is removed, doubled or replaced.
fn mutated(dice: &mut Dice, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = dice.below(chars.len() as u64) as usize;
    let to = (at + 1 + dice.below(6) as usize).min(chars.len());
    let middle: String = match dice.below(4) {
        0 => String::new(),
        1 => chars[at..to].iter().chain(&chars[at..to]).collect(),
        2 => ["\"", "}", "`", "!", "\n", "//", "null"][dice.below(7) as usize].into(),
        _ => return text.into(),
    };
    chars[..at].iter().collect::<String>() + &middle + &chars[to..].iter().collect::<String>()
}

/// The names in the rows of a list of the project's; `None` if a run does not start.
fn listed(world: &World, args: &[&str]) -> Option<BTreeSet<String>> {
    let output = world.output(&[args, &["--json"]].concat());
    let lines = String::from_utf8(output.stdout).unwrap();
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_project = rows.filter(|row| row["origin"].is_null() || row["origin"] == "project");
    let names = of_project.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    output.status.success().then_some(names)
}

/// The files that the project's servers make when a run starts, and its commands and skills when each is used
/// once.
fn files_made(world: &World) -> BTreeSet<String> {
    let script = world.script(r#"{"text": "done"}"#);
    let lists = ["commands", "skills"].map(|kind| listed(world, &[kind, "list"]).unwrap());
    let prompts = lists.iter().flatten().map(|name| format!("/{name}"));
    for prompt in prompts.chain(["go".into()]) {
        // A gate of the project may refuse the commands, which is not asked here.
        let mut run = world.command(&["-p", "--script", &script, &prompt]);
        run.env("COTTER_DISABLE_HOOKS", "force").output().unwrap();
    }
    let files = fs::read_dir(world.path("project")).unwrap().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names.filter(|name| name.starts_with("ran-")).collect()
}

/// Files of every kind that declares something, each with a change or none.
fn write_project(world: &World, dice: &mut Dice) {
    let mut files = vec![
        (".cotter/settings.json".to_owned(), settings_text(dice)),
        (".claude/settings.json".into(), claude_settings_text(dice)),
        (".mcp.json".into(), format!("{{{}}}", servers_text(dice, "shared"))),
    ];
    for (number, folder) in (0..).zip([".cotter", ".claude"]) {
        files.push((format!("{folder}/commands/c{number}.md"), command_text(dice, number)));
        files.push((format!("{folder}/skills/k{number}/SKILL.md"), command_text(dice, 2 + number)));
        files.push((format!(".cotter/hooks/y{number}.yaml"), hook_file_text(dice, number)));
    }
    // A run refuses some files as a whole, so few of them change at once.
    let changes = [dice.below(files.len() as u64), dice.below(files.len() as u64)];
    for (number, (name, text)) in (0..).zip(files) {
        let text = if changes.contains(&number) { mutated(dice, &text) } else { text };
        world.write(&format!("project/{name}"), text);
    }
}

/// Whatever a run would ask, start or execute is in the view, and nothing else is. What a run refuses, the
/// view refuses.
#[test]
fn s6_view_lists_exactly_what_a_run_uses() {
    let mut refused = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let world = world();
        write_project(&world, &mut dice);
        let printed = world.output(&["trust", "--print"]);
        let shown = String::from_utf8(printed.stdout).unwrap();
        world.trust_now(&["project/.cotter", "project/.claude", "project/.mcp.json"]);
        let hooks = listed(&world, &["hooks", "list"]);
        assert_eq!(printed.status.success(), hooks.is_some(), "seed {seed}: {shown}");
        let Some(hooks) = hooks else {
            refused += 1;
            continue;
        };
        let lines = || shown.lines().map(str::trim_start);
        let declared = |kind: &str, end: &str| -> BTreeSet<String> {
            let names = lines().filter_map(|line| {
                let rest = line.strip_prefix("pinned").or_else(|| line.strip_prefix("open"))?;
                Some(rest.trim().strip_prefix(kind)?.split(end).next()?.to_owned())
            });
            names.collect()
        };
        assert_eq!(declared("hook ", " at "), hooks, "seed {seed}: {shown}");
        let servers = listed(&world, &["mcp", "list"]).unwrap();
        assert_eq!(declared("MCP server ", ","), servers, "seed {seed}: {shown}");
        let touched = lines().filter_map(|line| line.strip_prefix("runs touch "));
        // A change may add a word to a command.
        let touched =
            touched.flat_map(str::split_whitespace).filter(|word| word.starts_with("ran-"));
        let touched: BTreeSet<_> = touched.map(str::to_owned).collect();
        assert_eq!(touched, files_made(&world), "seed {seed}: {shown}");
    }
    assert!(refused > 0, "some cases are refused");
}

/// The schema that `init` wrote is told in one line, and a long text goes through the pager.
#[test]
fn s6_show_all_leaves_out_the_schema_and_uses_the_pager() {
    let world = world().with_env("PAGER", "cat > shown.txt; echo paged");
    world.output(&["init"]);
    let mut screen = Screen::new(&world, &["trust"]);
    let asked = |screen: &Screen, times: usize| {
        wait_until(|| screen.text().matches("[y]es, [n]o: ").count() == times, "the question");
    };
    asked(&screen, 1);
    screen.type_keys("s\n");
    asked(&screen, 2);
    screen.type_keys("n\n");
    let seen = screen.end(&world);
    assert!(seen.contains("paged"), "{seen}");
    let shown = fs::read_to_string(world.path("project/shown.txt")).unwrap();
    assert!(shown.contains("skills/house-style/SKILL.md"), "{shown}");
    assert!(shown.contains("(the schema that `cotter schema project-settings` prints)"), "{shown}");
    assert!(shown.lines().count() < 200, "{}", shown.lines().count());
    // Without a terminal there is no pager. A changed schema is shown.
    world.write("project/.cotter/settings.schema.json", "{\"own\": 1}");
    let shown = world.shown(&world.output(&["trust", "--show"]));
    assert!(shown.contains("| {\"own\": 1}") && !shown.contains("paged"), "{shown}");
}

/// An interpreter of a home folder is started once, confined: one whose parts are closed would make a gate block.
#[test]
fn b3_s7_interpreters_that_do_not_start_are_shown_before_trust() {
    let world = World::new().with_env("NO_COLOR", "1");
    let folders = [world.path("home/.pyenv/shims"), world.path("home/bin")];
    let path = std::env::join_paths(folders.into_iter().chain([PathBuf::from("/usr/bin")]));
    let world = world.with_env("PATH", path.unwrap());
    world.write("home/.pyenv/version.sh", "echo Python 3.12");
    world.write_executable(
        "home/.pyenv/shims/python3",
        "#!/bin/sh\n. \"$HOME/.pyenv/version.sh\"\necho started >> \"$HOME/.pyenv/log\" || true\n",
    );
    world.write("home/closed/version.sh", "echo v20");
    world.write_executable("home/bin/node", "#!/bin/sh\n. \"$HOME/closed/version.sh\"\n");
    // What the project brings does not run before it is trusted.
    let ran = world.path("project/ran");
    world.write_executable("project/.claude/ruby", format!("#!/bin/sh\ntouch {}\n", ran.display()));
    world.write("project/.claude/guard.js", "#!/usr/bin/env node\n");
    world.write(
        "project/.claude/settings.json",
        r#"{"hooks": {"PreToolUse": [{"hooks": [
            {"type": "command", "command": "python3 .claude/guard.py"},
            {"type": "command", "command": "node \"$CLAUDE_PROJECT_DIR\"/.claude/guard.js || exit 2"},
            {"type": "command", "command": ".claude/ruby x.rb"},
            {"type": "command", "command": "ruby x.rb"},
            {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/guard.php"}]}]}}"#,
    );
    world.write_executable("project/.claude/guard.php", "#!/opt/nowhere/php\n");
    let shown = world.shown(&world.output(&["trust", "--print", ".claude"]));
    let from = shown.find("\nprograms of its hooks").expect("one does not start");
    expect![[r#"
        programs of its hooks that do not start here
          ruby: it is not in `PATH`
          /opt/nowhere/php: it is not there, and [T]/project/.claude/guard.php needs it
          [T]/home/bin/node: exit code 2; [T]/home/bin/node: 2: .: cannot open [T]/home/closed/version.sh: Permission denied; access to [T]/home/closed/version.sh was refused: it is outside the project; `"readRoots": ["~/closed/version.sh"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder
          install it, or open the folders that it needs with `readRoots` in your settings
    "#]].assert_eq(&shown[from + 1..]);
    let shown = world.shown(&world.output(&["doctor"]));
    let rows = shown.lines().skip_while(|line| !line.contains("home/bin/node")).take(3);
    let rows: String = rows.map(|line| format!("{}\n", line.trim())).collect();
    expect![[r#"
        broken  [T]/home/bin/node: does not start, and hooks of the project need it
        reason exit code 2; [T]/home/bin/node: 2: .: cannot open [T]/home/closed/version.sh: Permission denied; access to [T]/home/closed/version.sh was refused: it is outside the project; `"readRoots": ["~/closed/version.sh"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder
        hint install it, or open the folders that it needs with `readRoots` in your settings
    "#]].assert_eq(&rows);
    assert!(!ran.exists());
    // Nothing is confined, so nothing is hidden and nothing is started. What is missing is told all the same.
    world.settings(r#"{"sandbox": "off"}"#);
    let shown = world.shown(&world.output(&["trust", "--print", ".claude"]));
    assert!(shown.contains("ruby: it is not in `PATH`") && !shown.contains("bin/node:"), "{shown}");
}
