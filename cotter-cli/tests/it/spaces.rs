//! Spaces: added and trusted by a person, loaded by name, removed completely. C14.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use expect_test::expect;

use crate::{
    reload::{Running, wait_for_refusal},
    support::{World, rehearsal},
    terminal::Screen,
};

pub(crate) const OWN: &str = "home/.config/cotter/spaces";

/// A space with the files of a hook, a skill with triggers and an agent.
const MY_SPACE: &[(&str, &str)] = &[
    (
        "manifest.json",
        r#"{"id": "my-space", "name": "My space", "version": "1.2.0", "description": "An example."}"#,
    ),
    (
        "hooks/pre-write.yaml",
        "id: pre-write\nname: No system folders\ndescription: Keeps out of system directories.\nphase: pre\ntools: [write, edit]\n",
    ),
    (
        "hooks/pre-write.sh",
        "#!/bin/sh\nif grep -q '\"path\":\"etc/'; then\n  echo '{\"Blocked\": true, \"Reason\": \"Cannot modify system directories\"}'\nfi\n",
    ),
    (
        "hooks/audit.yaml",
        "id: audit\nphase: post\ncommand: 'cat >> \"$COTTER_PROJECT_DIR/audit.log\"; echo >> \"$COTTER_PROJECT_DIR/audit.log\"'\n",
    ),
    (
        "skills/specialist.yaml",
        "---\nid: specialist\nname: Specialist\ndescription: Knows the deployment\ntriggers:\n  - pattern: \"deploy|container\"\n    type: regex\n---\nAlways deploy {{project_name}} on a Tuesday.\n",
    ),
    ("agents/assistant.yaml", "id: assistant\ndescription: Assists.\nprompt: You assist.\n"),
];

pub(crate) fn world() -> World {
    World::new().with_env("NO_COLOR", "1")
}

pub(crate) fn put(world: &World, folder: &str, files: &[(&str, &str)]) -> PathBuf {
    for (name, text) in files {
        let path = world.write(&format!("{folder}/{name}"), text);
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    world.path(folder)
}

/// Runs a command at a terminal and types an answer.
pub(crate) fn at_terminal(world: &World, args: &[&str], answer: &str) -> String {
    let mut screen = Screen::new(world, args);
    screen.wait_for("[s]how all, [y]es, [n]o: ");
    screen.type_keys(&format!("{answer}\n"));
    screen.end(world)
}

#[test]
fn c14_space_is_added_loaded_and_removed() {
    let world = world();
    put(&world, "my-space", MY_SPACE);
    expect![[r#"
        exit 0
        from    [T]/my-space
        source  [T]/home/.config/cotter/spaces/my-space
        hash    [HASH][HASH]
        trust   none yet

        commands, pinned (all their code is in the files below) or open (they run other code too)
          open    hook audit at tool.post
                  runs cat >> "$COTTER_PROJECT_DIR/audit.log"; echo >> "$COTTER_PROJECT_DIR/audit.log"
                  open: it has shell syntax (`>`)
          pinned  hook pre-write at tool.pre
                  runs ./hooks/pre-write.sh

        files (6)
                       56 bytes  agents/assistant.yaml
                      113 bytes  hooks/audit.yaml
          exec        118 bytes  hooks/pre-write.sh
                      116 bytes  hooks/pre-write.yaml
                       88 bytes  manifest.json
                      177 bytes  skills/specialist.yaml

        Trust it as it is, and let it run?
        [s]how all, [y]es, [n]o: y
        space `my-space` 1.2.0 is installed: 2 hooks, 1 skill, 1 agent
        `cotter -p --space my-space PROMPT` uses it
    "#]].assert_eq(&at_terminal(&world, &["spaces", "add", "../my-space"], "y"));
    world.check(
        &["spaces", "list"],
        expect![[r#"
        exit 0
        --- stdout
        my-space  1.2.0  An example.  (user, trusted)
          [T]/my-space
    "#]],
    );
    // The space is not loaded by default.
    world.check(
        &rehearsal(&[], "write x to etc/a"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"etc/a","content":"x"} gave 1 line:
        created etc/a, 1 line

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(
        &rehearsal(&["--space", "my-space"], "write x to etc/b then write y to ok.txt"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"etc/b","content":"x"} was refused: Hook "pre-write" blocked the action: Cannot modify system directories. Adjust your approach; do not retry the exact same call.

            `write` {"path":"ok.txt","content":"y"} gave 1 line:
            created ok.txt, 1 line

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            refused: write: Cannot modify system directories (pre-write, space:my-space)
        "#]],
    );
    assert!(!world.path("project/etc/b").exists());
    expect![[r#"
        {"tool":"write","input":{"path":"ok.txt","content":"y"},"result":"created ok.txt, 1 line"}
    "#]]
    .assert_eq(&fs::read_to_string(world.path("project/audit.log")).unwrap());
    // The trigger adds its skill, and its agent can be called.
    let script = world.script(r#"{"text": "on a Tuesday"}"#);
    world.check(
        &["-p", "--script", &script, "--space", "my-space", "please deploy it"],
        expect![[r#"
            exit 0
            --- stdout
            on a Tuesday
        "#]],
    );
    let said =
        fs::read_to_string(world.sessions().join(format!("{}.jsonl", world.ids().last().unwrap())));
    assert!(said.unwrap().contains("Always deploy project on a Tuesday."));
    world.check(
        &rehearsal(&["--space", "my-space"], "/agents"),
        expect![[r#"
            exit 0
            --- stdout
            @general: Works on a task by itself and reports the result
            @reviewer: Reviews code or text and reports what is wrong
            @assistant: Assists
        "#]],
    );
    world.check(
        &rehearsal(&["--space", "my-space"], "/spaces"),
        expect![[r#"
        exit 0
        --- stdout
        my-space (trusted, loaded)
    "#]],
    );
    world.check(
        &["spaces", "remove", "my-space"],
        expect![[r#"
            exit 0
            --- stdout
            space `my-space` is removed, and is no longer trusted
        "#]],
    );
    world.check(
        &["trust", "--list"],
        expect![[r#"
        exit 0
        --- stdout
        nothing is trusted
    "#]],
    );
    world.check(
        &rehearsal(&["--space", "my-space"], "read a.txt"),
        expect![[r#"
            exit 1
            --- stderr
            error: there is no space `my-space`

            hint: `cotter spaces list` shows the spaces
        "#]],
    );
}

#[test]
fn c14_spaces_new_makes_a_valid_space() {
    let world = world();
    world.check(
        &["spaces", "new", "De ploy"],
        expect![[r#"
            exit 2
            --- stderr
            error: `De ploy` cannot be the id of a space

            hint: use lower-case letters, digits and `-`, and start with a letter or digit
        "#]],
    );
    world.check(
        &["spaces", "new", "deploy"],
        expect![[r#"
        exit 0
        --- stdout
          deploy/manifest.json
          deploy/hooks/pre-write.yaml
          deploy/hooks/pre-write.sh
          deploy/skills/specialist.yaml
          deploy/agents/assistant.yaml

        `cotter spaces check deploy` checks it, `cotter spaces add deploy` adds it.
    "#]],
    );
    world.check(
        &["spaces", "new", "deploy"],
        expect![[r#"
            exit 1
            --- stderr
            error: deploy already exists

            hint: nothing was changed
        "#]],
    );
    world.check(
        &["spaces", "check", "deploy"],
        expect![[r#"
            exit 0
            --- stdout
            deploy/manifest.json: ok
            deploy/hooks/pre-write.yaml: ok
            deploy/skills/specialist.yaml: ok
            deploy/agents/assistant.yaml: ok

            checked 1 space, 1 hook, 1 skill, 1 agent: 4 ok
        "#]],
    );
    world.check_without_terminal(
        &["spaces", "add", "deploy"],
        expect![[r#"
            exit 3
            --- stdout
            space `deploy` 0.1.0 is installed: 1 hook, 1 skill, 1 agent
            --- stderr
            error: space `deploy` is not trusted yet: there is no terminal to ask on

            hint: `cotter trust [T]/home/.config/cotter/spaces/deploy` shows it and asks; `--trust=[HASH][HASH]` trusts it for one run
        "#]],
    );
    world.write("project/deploy/manifest.json", "{\"id\": \"deploy\",\n\"nam\": \"x\"}");
    world.write("project/deploy/hooks/pre-write.yaml", "id: pre-write\nphase: prod\n");
    world.write("project/deploy/skills/specialist.yaml", "---\nid: x\n");
    world.write("project/deploy/extensions/x.js", "");
    world.check(&["spaces", "check", "deploy", "--json"], expect![[r#"
        exit 1
        --- stdout
        {"path":"deploy/extensions","kind":"space","status":"ok","diagnostics":[{"line":null,"severity":"warning","message":"scripts are not run by this version"}]}
        {"path":"deploy/manifest.json","kind":"space","status":"rejected","diagnostics":[{"line":2,"severity":"rejected","message":"$.nam: unknown key `nam`; did you mean `name`?"}]}
        {"path":"deploy/hooks/pre-write.yaml","kind":"hook","status":"rejected","diagnostics":[{"line":2,"severity":"rejected","message":"there is no phase `prod`; there are `pre`, `post`"}]}
        {"path":"deploy/skills/specialist.yaml","kind":"skill","status":"rejected","diagnostics":[{"line":null,"severity":"rejected","message":"it has neither a front matter nor a `body`"}]}
        {"path":"deploy/agents/assistant.yaml","kind":"agent","status":"ok","diagnostics":[]}
    "#]]);
    world.check_without_terminal(
        &["spaces", "add", "deploy"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/project/deploy cannot be used as a space
              caused by: manifest.json:2: $.nam: unknown key `nam`; did you mean `name`?
              caused by: hooks/pre-write.yaml:2: there is no phase `prod`; there are `pre`, `post`

            hint: a space with errors is not loaded; `cotter spaces check PATH` lists them
        "#]],
    );
    symlink("/etc/passwd", world.path("project/deploy/skills/passwd")).unwrap();
    world.check(&["spaces", "check", "deploy"], expect![[r#"
        exit 1
        --- stdout
        deploy: rejected
          rejected  [T]/project/deploy/skills/passwd is a link to a path outside the folder, /etc/passwd; move the link's target into the folder: everything that runs must be in it

        checked 1 space: 1 rejected
    "#]]);
    world.check_without_terminal(
        &["spaces", "add", "deploy"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/project/deploy/skills/passwd is a link to a path outside the folder, /etc/passwd

            hint: move the link's target into the folder: everything that runs must be in it
        "#]],
    );
    world.check(
        &["spaces", "check", "nowhere"],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot check nowhere
          caused by: No such file or directory (os error 2)

        hint: name a file or a folder that exists
    "#]],
    );
    world.check_without_terminal(
        &["spaces", "add", "nowhere"],
        expect![[r#"
            exit 1
            --- stderr
            error: folder nowhere not found
              caused by: No such file or directory (os error 2)
        "#]],
    );
}

/// For machines: a space is added without a question, and a run uses it by the hash that its starter names.
#[test]
fn c14_s8_untrusted_space_stops_the_start() {
    let world = world();
    put(&world, "my-space", MY_SPACE);
    world.check_without_terminal(
        &["spaces", "add", "../my-space"],
        expect![[r#"
            exit 3
            --- stdout
            space `my-space` 1.2.0 is installed: 2 hooks, 1 skill, 1 agent
            --- stderr
            error: space `my-space` is not trusted yet: there is no terminal to ask on

            hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=[HASH][HASH]` trusts it for one run
        "#]],
    );
    world.check_without_terminal(
        &rehearsal(&["--space", "my-space"], "read a.txt"),
        expect![[r#"
            exit 3
            --- stderr
            error: cannot load space `my-space`: it is not trusted

            hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=HASH` trusts it for one run
        "#]],
    );
    world.check_without_terminal(
        &rehearsal(&["--space", "my-space", "--require-trust"], "read a.txt"),
        expect![[r#"
            exit 3
            --- stderr
            error: a named space is not trusted
              caused by: [T]/home/.config/cotter/spaces/my-space is not trusted yet (`cotter trust [T]/home/.config/cotter/spaces/my-space` shows it)

            hint: `cotter trust` shows it and asks; `--trust=HASH` trusts it for one run
        "#]],
    );
    let rows = String::from_utf8(world.output(&["spaces", "list", "--json"]).stdout).unwrap();
    expect![[r#"
        {"id":"my-space","origin":"user","trust":"not trusted","path":"[T]/home/.config/cotter/spaces/my-space","name":"My space","version":"1.2.0","description":"An example.","source":"[T]/my-space","rev":null,"revision":null,"hash":"[HASH][HASH]"}
    "#]].assert_eq(&world.plain(&rows));
    let row: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let hash = format!("--trust={}", row["hash"].as_str().unwrap());
    world.check_without_terminal(
        &rehearsal(&["--space", "my-space", &hash], "write x to etc/b"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"etc/b","content":"x"} was refused: Hook "pre-write" blocked the action: Cannot modify system directories. Adjust your approach; do not retry the exact same call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            refused: write: Cannot modify system directories (pre-write, space:my-space)
        "#]],
    );
    // The trust for one run does not apply to the next.
    world.check_without_terminal(
        &rehearsal(&["--space", "my-space"], "read a.txt"),
        expect![[r#"
            exit 3
            --- stderr
            error: cannot load space `my-space`: it is not trusted

            hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=HASH` trusts it for one run
        "#]],
    );
    world.check_without_terminal(
        &rehearsal(&["--space", "my-space", "--safe-mode"], "read a.txt"),
        expect![[r#"
            exit 2
            --- stderr
            error: the argument '--space <ID>' cannot be used with '--safe-mode'

            hint: `cotter --help` lists the arguments
        "#]],
    );
    world.check_without_terminal(
        &rehearsal(&["--safe-mode"], "/spaces load my-space"),
        expect![[r#"
            exit 1
            --- stderr
            error: command "/spaces" failed: no space can be loaded in safe mode

            hint: `cotter commands list` shows what each command is for
        "#]],
    );
    world.check_without_terminal(
        &rehearsal(&["--space", "my-spac"], "read a.txt"),
        expect![[r#"
        exit 1
        --- stderr
        error: there is no space `my-spac`

        hint: did you mean `my-space`?
    "#]],
    );
    world.check_without_terminal(
        &rehearsal(&["--space", "../x"], "read a.txt"),
        expect![[r#"
            exit 2
            --- stderr
            error: invalid value '../x' for '--space <ID>': the id of a space has lower-case letters, digits and `-`

            hint: `cotter --help` lists the arguments
        "#]],
    );
}

/// A space that changed since it was trusted keeps its gates and loses the rest.
#[test]
fn c14_s2_s6_space_changed_after_trust_keeps_its_gates() {
    let world = world();
    put(&world, "my-space", MY_SPACE);
    at_terminal(&world, &["spaces", "add", "../my-space"], "y");
    let path = format!("{OWN}/my-space/hooks/pre-write.sh");
    world.write(&path, "#!/bin/sh\ntouch \"$COTTER_PROJECT_DIR/ran\"\n");
    world.check(&rehearsal(&["--space", "my-space"], "write x to etc/b"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"etc/b","content":"x"} was refused: Hook "pre-write" blocked the action: Cannot modify system directories. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: space `my-space` changed since it was trusted: its trusted hooks still apply, nothing else of it is used (`cotter trust [T]/home/.config/cotter/spaces/my-space` shows the changes)
        refused: write: Cannot modify system directories (pre-write, space:my-space)
    "#]]);
    assert!(!world.path("project/ran").exists());
    world.check(
        &rehearsal(&["--space", "my-space", "--require-trust"], "write x to etc/b"),
        expect![[r#"
            exit 3
            --- stderr
            error: a named space is not trusted
              caused by: [T]/home/.config/cotter/spaces/my-space changed since it was trusted (`cotter trust [T]/home/.config/cotter/spaces/my-space` shows how)

            hint: `cotter trust` shows it and asks; `--trust=HASH` trusts it for one run
        "#]],
    );
    world.check(
        &["spaces", "list"],
        expect![[r#"
        exit 0
        --- stdout
        my-space  1.2.0  An example.  (user, changed)
          [T]/my-space
    "#]],
    );
    world.check(
        &["untrust", world.path(&format!("{OWN}/my-space")).to_str().unwrap()],
        expect![[r#"
            exit 0
            --- stdout
            [T]/home/.config/cotter/spaces/my-space is no longer trusted
        "#]],
    );
    world.check(&rehearsal(&["--space", "my-space"], "write x to etc/b"), expect![[r#"
        exit 3
        --- stderr
        error: cannot load space `my-space`: it is not trusted

        hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=HASH` trusts it for one run
    "#]]);
}

/// During a run: a space that changed is no longer trusted, and its gates stay. After `untrust` they go.
#[test]
fn c14_s2_hot_reload_of_a_space() {
    let world = world();
    put(
        &world,
        "guard",
        &[
            ("manifest.json", r#"{"id": "guard", "name": "Guard", "version": "1"}"#),
            ("hooks/no.yaml", "id: no\nphase: pre\ntools: read\n"),
            ("hooks/no.sh", "#!/bin/sh\necho '{\"blocked\": true, \"reason\": \"guarded\"}'\n"),
        ],
    );
    at_terminal(&world, &["spaces", "add", "../guard"], "y");
    let run = Running::new(&world, &["--space", "guard"]);
    wait_for_refusal(&world, true);
    world.write(&format!("{OWN}/guard/hooks/no.sh"), "#!/bin/sh\n");
    run.wait_for("changed since it was trusted");
    wait_for_refusal(&world, true);
    let path = world.path(&format!("{OWN}/guard"));
    let untrusted = world.output(&["untrust", path.to_str().unwrap()]);
    assert!(untrusted.status.success());
    wait_for_refusal(&world, false);
    // A person trusts the new contents, and the space is loaded again.
    world.write_executable(&format!("{OWN}/guard/hooks/no.sh"), "#!/bin/sh\nexit 1\n");
    at_terminal(&world, &["trust", path.to_str().unwrap()], "y");
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: space `guard` changed since it was trusted: its trusted hooks still apply, nothing else of it is used (`cotter trust [T]/home/.config/cotter/spaces/guard` shows the changes)
        warning: space `guard` is not trusted any more
        error: the run was aborted
    "#]]);
}

/// A project's spaces are trusted with its folder, and loaded by name like others.
#[test]
fn c14_s6_project_spaces_are_trusted_with_their_folder() {
    let world = world();
    put(&world, "project/.cotter/spaces/my-space", MY_SPACE);
    world.check_without_terminal(
        &rehearsal(&["--space", "my-space"], "write x to etc/b"),
        expect![[r#"
            exit 3
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: cannot load space `my-space`: it is not trusted

            hint: `cotter trust [T]/project/.cotter` shows it and asks; `--trust=HASH` trusts it for one run
        "#]],
    );
    world.check(&["trust", "--print"], expect![[r#"
        exit 0
        --- stdout
        source  [T]/project/.cotter
        hash    [HASH][HASH]
        trust   none yet

        commands, pinned (all their code is in the files below) or open (they run other code too)
          open    space my-space: hook audit at tool.post
                  runs cat >> "$COTTER_PROJECT_DIR/audit.log"; echo >> "$COTTER_PROJECT_DIR/audit.log"
                  open: it has shell syntax (`>`)
          pinned  space my-space: hook pre-write at tool.pre
                  runs ./hooks/pre-write.sh

        files (6)
                       56 bytes  spaces/my-space/agents/assistant.yaml
                      113 bytes  spaces/my-space/hooks/audit.yaml
          exec        118 bytes  spaces/my-space/hooks/pre-write.sh
                      116 bytes  spaces/my-space/hooks/pre-write.yaml
                       88 bytes  spaces/my-space/manifest.json
                      177 bytes  spaces/my-space/skills/specialist.yaml
    "#]]);
    at_terminal(&world, &["trust"], "y");
    world.check(&rehearsal(&["--space", "my-space"], "write x to etc/b"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"etc/b","content":"x"} was refused: Hook "pre-write" blocked the action: Cannot modify system directories. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: Cannot modify system directories (pre-write, space:my-space)
    "#]]);
    world.check(
        &["spaces", "list"],
        expect![[r#"
        exit 0
        --- stdout
        my-space  1.2.0  An example.  (project, trusted)
          [T]/project/.cotter/spaces/my-space
    "#]],
    );
    // One of the person's own spaces has the same name.
    put(&world, "other", MY_SPACE);
    world.write(
        "other/hooks/pre-write.sh",
        "#!/bin/sh\necho '{\"blocked\": true, \"reason\": \"mine\"}'\n",
    );
    at_terminal(&world, &["spaces", "add", "../other"], "y");
    world.check(&rehearsal(&["--space", "my-space"], "write x to etc/b"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"etc/b","content":"x"} was refused: Hook "pre-write" blocked the action: mine. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: the project has a space `my-space` too; yours is used
        refused: write: mine (pre-write, space:my-space)
    "#]]);
    world.check(
        &["spaces", "list"],
        expect![[r#"
        exit 0
        --- stdout
        my-space  1.2.0  An example.  (user, trusted)
          [T]/other
        my-space  1.2.0  An example.  (project, trusted)
          [T]/project/.cotter/spaces/my-space
    "#]],
    );
}

/// The command loads, unloads and switches. A run with one prompt shows only its output.
#[test]
fn c14_spaces_command_loads_unloads_and_switches() {
    let world = world();
    for id in ["one", "two"] {
        let manifest = format!(r#"{{"id": "{id}", "name": "N", "version": "1"}}"#);
        put(
            &world,
            id,
            &[("manifest.json", &manifest), ("skills/a.md", "---\nid: a\n---\ntext\n")],
        );
        at_terminal(&world, &["spaces", "add", &format!("../{id}")], "y");
    }
    world.check(
        &rehearsal(&[], "/spaces load one"),
        expect![[r#"
            exit 0
            --- stdout
            space `one` is loaded until this run ends: 1 skill
        "#]],
    );
    world.check(
        &rehearsal(&["--space", "one"], "/spaces"),
        expect![[r#"
        exit 0
        --- stdout
        one (trusted, loaded)
        two (trusted)
    "#]],
    );
    world.check(
        &rehearsal(&["--space", "one"], "/spaces switch two"),
        expect![[r#"
            exit 0
            --- stdout
            space `one` is unloaded
            space `two` is loaded until this run ends: 1 skill
        "#]],
    );
    world.check(
        &rehearsal(&["--space", "one"], "/spaces unload one"),
        expect![[r#"
        exit 0
        --- stdout
        space `one` is unloaded
    "#]],
    );
    world.check(
        &rehearsal(&["--space", "one"], "/spaces unload two"),
        expect![[r#"
        exit 1
        --- stderr
        error: command "/spaces" failed: no space `two` is loaded

        hint: `cotter commands list` shows what each command is for
    "#]],
    );
    world.check(
        &rehearsal(&[], "/spaces swich two"),
        expect![[r#"
            exit 1
            --- stderr
            error: command "/spaces" failed: expected `/spaces`, or `/spaces` with `load ID`, `unload ID` or `switch ID`

            hint: `cotter commands list` shows what each command is for
        "#]],
    );
}

/// A command cannot load hooks that the operator disabled.
#[test]
fn l18_c14_spaces_command_cannot_load_hooks_disabled_by_the_operator() {
    let at = world();
    put(&at, "my-space", MY_SPACE);
    at_terminal(&at, &["spaces", "add", "../my-space"], "y");
    let mut at = at;
    for (word, verb) in [("1", "load"), ("force", "load"), ("1", "switch"), ("force", "switch")] {
        at = at.with_env("COTTER_DISABLE_HOOKS", word);
        let typed = format!("/spaces {verb} my-space");
        let expected = expect![[r#"
            exit 1
            --- stderr
            error: command "/spaces" failed: cannot load a space while `COTTER_DISABLE_HOOKS` is set: it may have hooks

            hint: `cotter commands list` shows what each command is for
        "#]];
        at.check(&rehearsal(&[], &typed), expected);
    }
    at = at.with_env("COTTER_DISABLE_HOOKS", "0");
    let loaded = at.output(&rehearsal(&[], "/spaces switch my-space"));
    assert!(loaded.status.success(), "{}", at.shown(&loaded));
}

/// The next process repairs whatever a killed process left.
#[test]
fn c14_leftovers_of_a_killed_spaces_command_are_repaired() {
    let world = world();
    put(&world, "my-space", MY_SPACE);
    let lock = world.path("home/.config/cotter/spaces.lock.json");
    // The space was copied and has no record.
    world.check_without_terminal(
        &["spaces", "add", "../my-space"],
        expect![[r#"
            exit 3
            --- stdout
            space `my-space` 1.2.0 is installed: 2 hooks, 1 skill, 1 agent
            --- stderr
            error: space `my-space` is not trusted yet: there is no terminal to ask on

            hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=[HASH][HASH]` trusts it for one run
        "#]],
    );
    fs::remove_file(&lock).unwrap();
    world.write(&format!("{OWN}/.new/half"), "");
    world.check(
        &["spaces", "list"],
        expect![[r#"
        exit 0
        --- stdout
        my-space  1.2.0  An example.  (user, not trusted)
          [T]/home/.config/cotter/spaces/my-space
    "#]],
    );
    world.check_without_terminal(
        &["spaces", "add", "../my-space"],
        expect![[r#"
            exit 3
            --- stdout
            space `my-space` 1.2.0 is installed: 2 hooks, 1 skill, 1 agent
            --- stderr
            error: space `my-space` is not trusted yet: there is no terminal to ask on

            hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=[HASH][HASH]` trusts it for one run
        "#]],
    );
    assert!(!world.path(&format!("{OWN}/.new")).exists());
    // The space was moved aside and not replaced.
    let place = world.path(&format!("{OWN}/my-space"));
    fs::rename(&place, world.path(&format!("{OWN}/.old-my-space"))).unwrap();
    world.check_without_terminal(
        &["spaces", "update"],
        expect![[r#"
        exit 0
        --- stdout
        space `my-space` is up to date
    "#]],
    );
    assert!(place.join("manifest.json").exists());
    // The space has a record and no folder.
    fs::remove_dir_all(&place).unwrap();
    world.check_without_terminal(
        &["spaces", "add", "../my-space"],
        expect![[r#"
            exit 3
            --- stdout
            space `my-space` 1.2.0 is installed: 2 hooks, 1 skill, 1 agent
            --- stderr
            error: space `my-space` is not trusted yet: there is no terminal to ask on

            hint: `cotter trust [T]/home/.config/cotter/spaces/my-space` shows it and asks; `--trust=[HASH][HASH]` trusts it for one run
        "#]],
    );
    world.check_without_terminal(
        &["spaces", "add", "../my-space"],
        expect![[r#"
            exit 1
            --- stderr
            error: the space `my-space` already exists

            hint: `cotter spaces update my-space` updates it, `cotter spaces remove my-space` removes it
        "#]],
    );
    // The folder has other contents.
    fs::remove_file(&lock).unwrap();
    world.write(&format!("{OWN}/my-space/more"), "");
    world.check_without_terminal(
        &["spaces", "add", "../my-space"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/spaces/my-space already exists, with other contents

            hint: `cotter spaces remove my-space` removes it
        "#]],
    );
    // The records cannot be read: nothing is changed.
    world.write("home/.config/cotter/spaces.lock.json", r#"{"v": 2, "spaces": []}"#);
    world.check_without_terminal(
        &["spaces", "remove", "my-space"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/spaces.lock.json:1:7: $.v: this version reads only format 1
        "#]],
    );
    assert!(place.exists());
    fs::remove_file(&lock).unwrap();
    world.check_without_terminal(
        &["spaces", "remove", "my-space"],
        expect![[r#"
            exit 0
            --- stdout
            space `my-space` is removed
        "#]],
    );
    assert!(!place.exists());
}

/// A process that an agent starts may look, and adds nothing.
#[test]
fn c14_s1_agent_cannot_add_or_remove_spaces() {
    let world = world().with_env("COTTER_CALL", "1");
    put(&world, "my-space", MY_SPACE);
    for args in [
        &["spaces", "add", "../my-space"][..],
        &["spaces", "remove", "my-space"],
        &["spaces", "update"],
        &["spaces", "new", "x"],
    ] {
        assert_eq!(world.output(args).status.code(), Some(3), "{args:?}");
    }
    world.check(
        &["spaces", "list"],
        expect![[r#"
        exit 0
        --- stdout
        there are no spaces
    "#]],
    );
    assert!(world.output(&["spaces", "check", "../my-space"]).status.success());
    assert!(!world.path("home/.config").exists());
}

/// The script in the README, unchanged, in a terminal.
#[test]
fn space_page_of_the_readme_runs_unchanged() {
    let readme = include_str!("../../../README.md");
    let (_, page) =
        readme.split_once("<!-- spaces: run by a test, as it stands -->\n```sh\n").unwrap();
    let (script, rest) = page.split_once("```").unwrap();
    let promised = rest.split_once("```text\n").and_then(|(_, text)| text.split_once("```"));
    let promised = promised.unwrap().0.trim_end();
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_cotter")).parent().unwrap();
    let world = world().with_env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    let mut screen = Screen::of("/bin/bash", &world, &["--norc", "-ec", script]);
    screen.wait_for("[y]es, [n]o:");
    screen.type_keys("y\n");
    let seen = screen.end(&world);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    assert!(seen.contains(promised), "{seen}");
    assert!(!world.path("project/prod/app.env").exists(), "{seen}");
}
