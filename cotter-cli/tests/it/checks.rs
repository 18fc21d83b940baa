//! `cotter skills|commands|agents|hooks check`: each command checks files of its own kind, in their usual
//! folders.

use expect_test::{Expect, expect};

use crate::support::World;

const AGENT: &str = "---\nname: A\ndescription: Reads.\ntools: read, Grep\n---\nRead.\n";
const SKILL: &str = "---\nname: one\ndescription: One.\n---\nDo it.\n";
const COMMAND: &str = "---\ndescription: Fix.\n---\nFix $1.\n";
const HOOK: &str = "id: one\nphase: pre\ncommand: [echo]\n";
const CLAUDE: &str = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}}"#;

fn each(world: &World, path: &str, expected: Expect) {
    let kinds = ["agents", "skills", "commands", "hooks"];
    let shown = kinds.map(|kind| {
        let output = world.output(&[kind, "check", path]);
        format!("$ {kind} check {path}\n{}", world.shown(&output))
    });
    expected.assert_eq(&shown.concat());
}

/// A world with files of every kind below a folder.
fn filled(below: &str) -> World {
    let world = World::new();
    for (name, text) in [
        ("agents/a.md", AGENT),
        ("skills/one/SKILL.md", SKILL),
        ("commands/fix.md", COMMAND),
        ("README.md", "# Read me\n"),
    ] {
        world.write(&format!("project/{below}/{name}"), text);
    }
    world
}

#[test]
fn c9_folder_made_by_init_passes_every_check() {
    let world = World::new();
    world.output(&["init"]);
    each(
        &world,
        ".cotter",
        expect![[r#"
            $ agents check .cotter
            exit 0
            --- stdout
            .cotter/agents/tester.md: ok

            checked 1 agent: 1 ok
            $ skills check .cotter
            exit 0
            --- stdout
            .cotter/skills/house-style/SKILL.md: ok

            checked 1 skill: 1 ok
            $ commands check .cotter
            exit 0
            --- stdout
            .cotter/commands/review.md: ok

            checked 1 command: 1 ok
            $ hooks check .cotter
            exit 0
            --- stdout
            .cotter/settings.json: ok

            checked 1 file of settings: 1 ok
        "#]],
    );
}

#[test]
fn b3_check_reads_a_claude_folder_in_its_dialect() {
    let world = filled(".claude");
    world.write("project/.claude/settings.json", CLAUDE);
    world.write("project/.claude/settings.local.json", CLAUDE.replace("PreToolUse", "PreToolUsed"));
    world.write("project/.claude/hooks/notes.yaml", "not: ours\n");
    each(
        &world,
        ".claude",
        expect![[r#"
            $ agents check .claude
            exit 0
            --- stdout
            .claude/agents/a.md: ok

            checked 1 agent: 1 ok
            $ skills check .claude
            exit 0
            --- stdout
            .claude/skills/one/SKILL.md: ok

            checked 1 skill: 1 ok
            $ commands check .claude
            exit 0
            --- stdout
            .claude/commands/fix.md: ok

            checked 1 command: 1 ok
            $ hooks check .claude
            exit 0
            --- stdout
            .claude/settings.json: ok
            .claude/settings.local.json: ok
              note      line 1: there is no event `PreToolUsed`: did you mean `PreToolUse`?

            checked 2 files of settings: 2 ok
        "#]],
    );
    each(
        &world,
        ".",
        expect![[r#"
            $ agents check .
            exit 0
            --- stdout
            ./.claude/agents/a.md: ok

            checked 1 agent: 1 ok
            $ skills check .
            exit 0
            --- stdout
            ./.claude/skills/one/SKILL.md: ok

            checked 1 skill: 1 ok
            $ commands check .
            exit 0
            --- stdout
            ./.claude/commands/fix.md: ok

            checked 1 command: 1 ok
            $ hooks check .
            exit 0
            --- stdout
            ./.claude/settings.json: ok
            ./.claude/settings.local.json: ok
              note      line 1: there is no event `PreToolUsed`: did you mean `PreToolUse`?

            checked 2 files of settings: 2 ok
        "#]],
    );
}

#[test]
fn b3_check_finds_plugin_files_by_the_manifest() {
    let world = filled("plug");
    let manifest = r#"{"name": "plug", "commands": ["./more"], "hooks": "./on.json"}"#;
    world.write("project/plug/.claude-plugin/plugin.json", manifest);
    world.write("project/plug/more/extra.md", COMMAND);
    world.write("project/plug/on.json", CLAUDE);
    world.write("project/plug/hooks/hooks.json", "{\n  \"hooks\": []\n}");
    each(
        &world,
        "plug",
        expect![[r#"
            $ agents check plug
            exit 0
            --- stdout
            plug/agents/a.md: ok

            checked 1 agent: 1 ok
            $ skills check plug
            exit 0
            --- stdout
            plug/skills/one/SKILL.md: ok

            checked 1 skill: 1 ok
            $ commands check plug
            exit 0
            --- stdout
            plug/commands/fix.md: ok
            plug/more/extra.md: ok

            checked 2 commands: 2 ok
            $ hooks check plug
            exit 1
            --- stdout
            plug/hooks/hooks.json: rejected
              rejected  line 2: expected an object, found a list
            plug/on.json: ok

            checked 2 hooks: 1 ok, 1 rejected
        "#]],
    );
    let market = filled("market/plugins/one");
    market.write("project/market/plugins/one/.claude-plugin/plugin.json", "{\"name\": \"one\"}");
    market
        .write("project/market/groups/two/.claude-plugin/plugin.json", "{\"agents\": \"./b.md\"}");
    market.write("project/market/groups/two/b.md", AGENT);
    market.check(
        &["agents", "check", "market"],
        expect![[r#"
            exit 0
            --- stdout
            market/plugins/one/agents/a.md: ok

            checked 1 agent: 1 ok
        "#]],
    );
    market.check(
        &["agents", "check", "market/groups"],
        expect![[r#"
            exit 0
            --- stdout
            market/groups/two/b.md: ok

            checked 1 agent: 1 ok
        "#]],
    );
}

#[test]
fn c14_check_reads_a_space_alone_and_inside_its_project() {
    let world = filled(".cotter/spaces/deploy");
    world.write(
        "project/.cotter/spaces/deploy/manifest.json",
        r#"{"id": "deploy", "name": "Deploy", "version": "1"}"#,
    );
    world.write("project/.cotter/spaces/deploy/hooks/one.yaml", HOOK);
    each(
        &world,
        ".cotter",
        expect![[r#"
            $ agents check .cotter
            exit 0
            --- stdout
            .cotter/spaces/deploy/agents/a.md: ok

            checked 1 agent: 1 ok
            $ skills check .cotter
            exit 0
            --- stdout
            .cotter/spaces/deploy/skills/one/SKILL.md: ok

            checked 1 skill: 1 ok
            $ commands check .cotter
            exit 0
            --- stdout
            .cotter/spaces/deploy/commands/fix.md: ok

            checked 1 command: 1 ok
            $ hooks check .cotter
            exit 0
            --- stdout
            .cotter/spaces/deploy/hooks/one.yaml: ok

            checked 1 hook: 1 ok
        "#]],
    );
    each(
        &world,
        ".cotter/spaces/deploy",
        expect![[r#"
            $ agents check .cotter/spaces/deploy
            exit 0
            --- stdout
            .cotter/spaces/deploy/agents/a.md: ok

            checked 1 agent: 1 ok
            $ skills check .cotter/spaces/deploy
            exit 0
            --- stdout
            .cotter/spaces/deploy/skills/one/SKILL.md: ok

            checked 1 skill: 1 ok
            $ commands check .cotter/spaces/deploy
            exit 0
            --- stdout
            .cotter/spaces/deploy/commands/fix.md: ok

            checked 1 command: 1 ok
            $ hooks check .cotter/spaces/deploy
            exit 0
            --- stdout
            .cotter/spaces/deploy/hooks/one.yaml: ok

            checked 1 hook: 1 ok
        "#]],
    );
}

#[test]
fn c9_check_reads_a_collection_as_the_requested_kind() {
    let world = World::new();
    world.write("project/many/b/fine.md", AGENT);
    world.write("project/many/b/README.md", "# All of them\n");
    world.write("project/many/a.yaml", "description: x\n");
    world.check(
        &["agents", "check", "many"],
        expect![[r#"
            exit 1
            --- stdout
            many/a.yaml: rejected
              rejected  it has neither a front matter nor a `body`
            many/b/fine.md: ok

            checked 2 agents: 1 ok, 1 rejected
        "#]],
    );
    world.write("project/hooky/one.yaml", HOOK);
    world.check(
        &["hooks", "check", "hooky"],
        expect![[r#"
            exit 0
            --- stdout
            hooky/one.yaml: ok

            checked 1 hook: 1 ok
        "#]],
    );
    world.write("project/other/compose.yaml", "services: {}\n");
    each(
        &world,
        "other",
        expect![[r#"
            $ agents check other
            exit 1
            --- stdout
            other/compose.yaml: rejected
              rejected  it has neither a front matter nor a `body`

            checked 1 agent: 1 rejected
            $ skills check other
            exit 1
            --- stdout
            other/compose.yaml: rejected
              rejected  it has neither a front matter nor a `body`

            checked 1 skill: 1 rejected
            $ commands check other
            exit 0
            --- stdout
            no commands found in other

            hint: expected `commands/*.md` of this folder, or of a `.cotter`, `.claude`, `.agents`, plugin or space in it
            $ hooks check other
            exit 0
            --- stdout
            no hooks found in other

            hint: expected `settings.json` and `hooks/*.yaml` of a `.cotter`, settings of a `.claude`, `hooks/hooks.json` of a plugin, `hooks/*.yaml` of a space
        "#]],
    );
}

#[test]
fn c9_check_without_matches_says_which_files_it_expects() {
    let world = World::new();
    each(
        &world,
        "src",
        expect![[r#"
            $ agents check src
            exit 0
            --- stdout
            no agents found in src

            hint: expected `agents/*.md`, `*.yaml` and `agents/NAME/agent.json` of this folder, or of a `.cotter`, `.claude`, `.agents`, plugin or space in it
            $ skills check src
            exit 0
            --- stdout
            no skills found in src

            hint: expected `skills/NAME/SKILL.md`, `skills/*.md` and `*.yaml` of this folder, or of a `.cotter`, `.claude`, `.agents`, plugin or space in it
            $ commands check src
            exit 0
            --- stdout
            no commands found in src

            hint: expected `commands/*.md` of this folder, or of a `.cotter`, `.claude`, `.agents`, plugin or space in it
            $ hooks check src
            exit 0
            --- stdout
            no hooks found in src

            hint: expected `settings.json` and `hooks/*.yaml` of a `.cotter`, settings of a `.claude`, `hooks/hooks.json` of a plugin, `hooks/*.yaml` of a space
        "#]],
    );
    world.check(
        &["agents", "check", "src", "--json"],
        expect![[r#"
        exit 0
    "#]],
    );
}

#[test]
fn c9_check_reads_a_single_file_as_the_requested_kind() {
    let world = World::new();
    world.write("project/README.md", "# Read me\n");
    world.write("project/x.json", "{}");
    world.write("project/.claude/settings.json", CLAUDE);
    each(
        &world,
        "README.md",
        expect![[r#"
            $ agents check README.md
            exit 0
            --- stdout
            README.md: ok
              note      it has no `description`: the model sees only its name

            checked 1 agent: 1 ok
            $ skills check README.md
            exit 0
            --- stdout
            README.md: ok
              note      it has no front matter: it is used only if it is named

            checked 1 skill: 1 ok
            $ commands check README.md
            exit 0
            --- stdout
            README.md: ok

            checked 1 command: 1 ok
            $ hooks check README.md
            exit 1
            --- stdout
            README.md: rejected
              rejected  line 1: $: expected an object, found `#`

            checked 1 file of settings: 1 rejected
        "#]],
    );
    each(
        &world,
        "a.txt",
        expect![[r#"
            $ agents check a.txt
            exit 1
            --- stdout
            a.txt: rejected
              rejected  agents are files whose name ends in `.md` or `.yaml`, or is `agent.json`

            checked 1 agent: 1 rejected
            $ skills check a.txt
            exit 1
            --- stdout
            a.txt: rejected
              rejected  skills are files whose name ends in `.md` or `.yaml`

            checked 1 skill: 1 rejected
            $ commands check a.txt
            exit 1
            --- stdout
            a.txt: rejected
              rejected  commands are files whose name ends in `.md`

            checked 1 command: 1 rejected
            $ hooks check a.txt
            exit 1
            --- stdout
            a.txt: rejected
              rejected  line 1: $: expected an object, found `one`

            checked 1 file of settings: 1 rejected
        "#]],
    );
    each(
        &world,
        "x.json",
        expect![[r#"
            $ agents check x.json
            exit 0
            --- stdout
            x.json: ok

            checked 1 profile: 1 ok
            $ skills check x.json
            exit 1
            --- stdout
            x.json: rejected
              rejected  skills are files whose name ends in `.md` or `.yaml`

            checked 1 skill: 1 rejected
            $ commands check x.json
            exit 1
            --- stdout
            x.json: rejected
              rejected  commands are files whose name ends in `.md`

            checked 1 command: 1 rejected
            $ hooks check x.json
            exit 0
            --- stdout
            x.json: ok

            checked 1 file of settings: 1 ok
        "#]],
    );
    world.check(
        &["hooks", "check", ".claude/settings.json"],
        expect![[r#"
            exit 0
            --- stdout
            .claude/settings.json: ok

            checked 1 file of settings: 1 ok
        "#]],
    );
}

#[test]
fn c9_check_reports_unknown_tools_in_both_spellings() {
    let world = World::new();
    let agent = |tools: &str| format!("---\ndescription: x\ntools: {tools}\n---\nDo it.\n");
    world.write("project/agents/a.md", agent("[raed, write, mcp__x__y, 'g*']"));
    world.write(
        "project/agents/b.md",
        agent("Raed, Write, WebSearch, Task\ndisallowedTools: Bsah, Bash"),
    );
    world.write(
        "project/agents/p/agent.json",
        "{\n  \"systemPrompt\": \"x\",\n  \"tools\": [\"read\", \"bsah\"]\n}",
    );
    world.check(
        &["agents", "check", "agents"],
        expect![[r#"
            exit 0
            --- stdout
            agents/a.md: ok
              note      line 3: there is no tool `raed` here; did you mean `read`?
            agents/b.md: ok
              note      line 3: there is no tool `Raed` here; did you mean `Read`?
              note      line 3: there is no tool `WebSearch` here
              note      line 4: there is no tool `Bsah` here; did you mean `Bash`?
            agents/p/agent.json: ok
              note      line 3: there is no tool `bsah` here; did you mean `bash`?

            checked 2 agents, 1 profile: 3 ok
        "#]],
    );
    world.check(&["agents", "check", "agents", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"path":"agents/a.md","kind":"agent","status":"ok","diagnostics":[{"line":3,"severity":"warning","message":"there is no tool `raed` here; did you mean `read`?"}]}
        {"path":"agents/b.md","kind":"agent","status":"ok","diagnostics":[{"line":3,"severity":"warning","message":"there is no tool `Raed` here; did you mean `Read`?"},{"line":3,"severity":"warning","message":"there is no tool `WebSearch` here"},{"line":4,"severity":"warning","message":"there is no tool `Bsah` here; did you mean `Bash`?"}]}
        {"path":"agents/p/agent.json","kind":"profile","status":"ok","diagnostics":[{"line":3,"severity":"warning","message":"there is no tool `bsah` here; did you mean `bash`?"}]}
    "#]]);
}

#[test]
fn b3_check_recognises_claude_settings_under_any_file_name() {
    let world = World::new();
    let agent =
        CLAUDE.replace("\"command\", \"command\": \"true\"", "\"agent\", \"prompt\": \"Look.\"");
    world.write("project/.claude/hooks/examples/settings-small.json", CLAUDE);
    world.write("project/guard.json", &agent);
    world.write("project/trees.json", r#"{"description": "x", "hooks": {"WorktreeCreate": []}}"#);
    // Our own settings file is read as ours, whatever its contents are, as at a start.
    world.write("project/.cotter/settings.json", CLAUDE);
    let files = [
        ".claude/hooks/examples/settings-small.json",
        "guard.json",
        "trees.json",
        ".cotter/settings.json",
    ];
    let shown = files.map(|file| world.shown(&world.output(&["hooks", "check", file])));
    expect![[r#"
        exit 0
        --- stdout
        .claude/hooks/examples/settings-small.json: ok

        checked 1 file of settings: 1 ok
        exit 0
        --- stdout
        guard.json: in part
          not used  line 1: handlers `agent` are not honoured yet: this gate fails each time

        checked 1 file of settings: 1 in part
        exit 0
        --- stdout
        trees.json: ok
          note      line 1: hooks at `WorktreeCreate` are not honoured: no worktrees are created

        checked 1 file of settings: 1 ok
        exit 1
        --- stdout
        .cotter/settings.json: rejected
          rejected  line 1: $.hooks.PreToolUse: there is no point `PreToolUse`; the event of Claude Code is `tool.pre` here

        checked 1 file of settings: 1 rejected
    "#]].assert_eq(&shown.concat());
}

#[test]
fn c9_check_accepts_equal_names_within_a_collection() {
    let world = World::new();
    let skill = SKILL.replace("description: One.", "description: One.\nallowed-tools: Bash(git *)");
    world.write("project/collection/agents/a/one.md", AGENT);
    world.write("project/collection/agents/b/one.md", AGENT);
    world.write("project/collection/skills/a/one/SKILL.md", SKILL);
    world.write("project/collection/skills/b/one/SKILL.md", &skill);
    let command = COMMAND.replace("Fix.\n", "{{WHAT}}\nallowed-tools: Read\n");
    world.write("project/collection/commands/a/fix.md", &command);
    each(
        &world,
        "collection",
        expect![[r#"
            $ agents check collection
            exit 0
            --- stdout
            collection/agents/a/one.md: ok
            collection/agents/b/one.md: ok
              note      collection/agents/a/one.md also defines the subagent `A`; if both are loaded, that file is used

            checked 2 agents: 2 ok
            $ skills check collection
            exit 0
            --- stdout
            collection/skills/a/one/SKILL.md: ok
            collection/skills/b/one/SKILL.md: ok
              note      line 4: `allowed-tools` allows nothing here: use `allow` rules in your settings
              note      collection/skills/a/one/SKILL.md also defines the skill `one`; if both are loaded, that file is used

            checked 2 skills: 2 ok
            $ commands check collection
            exit 0
            --- stdout
            collection/commands/a/fix.md: repaired
              repaired  line 2: it is not YAML; read with its values in quotes
              note      line 3: `allowed-tools` allows nothing here: use `allow` rules in your settings

            checked 1 command: 1 repaired
            $ hooks check collection
            exit 0
            --- stdout
            no hooks found in collection

            hint: expected `settings.json` and `hooks/*.yaml` of a `.cotter`, settings of a `.claude`, `hooks/hooks.json` of a plugin, `hooks/*.yaml` of a space
        "#]],
    );
}
