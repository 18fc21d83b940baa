//! Hooks that are files, `hooks/*.yaml`: the person's own and, behind trust, a project's.

use std::fs;

use expect_test::expect;

use crate::{
    support::{World, rehearsal},
    terminal::Screen,
};

const OWN: &str = "home/.config/cotter";
const PROJECT: &str = "project/.cotter";

const NO_PROD: &str =
    "id: no-prod\ndescription: Nothing is written to production.\nphase: pre\ntools: [write]\n";
const NO_PROD_SH: &str = "#!/bin/sh\nif grep -q '\"path\":\"prod'; then echo '{\"blocked\": true, \"reason\": \"not in production\"}'; fi\n";
const SIGN: &str = "id: sign\nphase: pre\ntools: write\ncommand: ./hooks/lib/sign.sh\n";
const SIGN_SH: &str = "#!/bin/sh\nsed -n 's/^.*\"path\":\"\\([^\"]*\\)\".*$/{\"modified\": {\"path\": \"\\1\", \"content\": \"signed\"}}/p'\n";
const AUDIT: &str = "id: audit\nphase: post\ncommand: 'cat >> \"$COTTER_PROJECT_DIR/audit.log\"'\n";

fn world() -> World {
    World::new().with_env("NO_COLOR", "1")
}

/// A gate with its script in the same folder.
fn no_prod(world: &World, folder: &str) {
    world.write(&format!("{folder}/hooks/no-prod.yaml"), NO_PROD);
    world.write_executable(&format!("{folder}/hooks/no-prod.sh"), NO_PROD_SH);
}

/// A hook that rewrites the input of a call.
fn sign(world: &World, folder: &str) {
    world.write(&format!("{folder}/hooks/sign.yaml"), SIGN);
    world.write_executable(&format!("{folder}/hooks/lib/sign.sh"), SIGN_SH);
}

/// The rows of hooks from files.
fn listed(world: &World) -> String {
    let output = world.output(&["hooks", "list"]);
    let shown = world.shown(&output);
    let of_files = |line: &&str| !line.contains("(kernel)") && !line.contains("(embedder)");
    shown.lines().filter(of_files).map(|line| format!("{line}\n")).collect()
}

/// Trusts the project's files, at a terminal.
fn trust(world: &World, further: &[&str]) {
    let mut screen = Screen::new(world, &[&["trust"], further].concat());
    screen.wait_for("[y]es, [n]o:");
    screen.type_keys("y\n");
    let seen = screen.end(world);
    assert!(seen.contains("is trusted"), "{seen}");
}

#[test]
fn c14_user_hook_files_block_modify_and_observe() {
    let world = world();
    no_prod(&world, OWN);
    sign(&world, OWN);
    world.write(&format!("{OWN}/hooks/audit.yaml"), AUDIT);
    world.check(&rehearsal(&[], "write x to prod.txt then write y to ok.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        `write` {"path":"ok.txt","content":"y"} gave 1 line:
        created ok.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: not in production (no-prod)
    "#]]);
    assert!(!world.path("project/prod.txt").exists());
    assert_eq!(fs::read_to_string(world.path("project/ok.txt")).unwrap(), "signed");
    expect![[r#"{"tool":"write","input":{"path":"ok.txt","content":"signed"},"result":"created ok.txt, 1 line"}"#]].assert_eq(&fs::read_to_string(world.path("project/audit.log")).unwrap());
    expect![[r#"
        exit 0
        --- stdout
        audit                 tool.post           observe          (user)
        no-prod               tool.pre            transform, gate  (user)  for write  Nothing is written to production.
        sign                  tool.pre            transform, gate  (user)  for write
    "#]].assert_eq(&listed(&world));
}

#[test]
fn s30_hook_of_a_file_is_disabled_by_name() {
    let world = world();
    no_prod(&world, OWN);
    world.check(
        &rehearsal(&["--without", "no-prod"], "write x to prod.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} gave 1 line:
        created prod.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.settings(r#"{"disable": ["user/no-prod"]}"#);
    world.check(
        &rehearsal(&[], "write x to prod2.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod2.txt","content":"x"} gave 1 line:
        created prod2.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre            transform, gate  (user)  for write  Nothing is written to production.  switched off
    "#]].assert_eq(&listed(&world));
    // The hook's own file may disable it too; a disabled hook needs no program.
    world.settings("{}");
    world.write(&format!("{OWN}/hooks/no-prod.yaml"), format!("{NO_PROD}enabled: false\n"));
    fs::remove_file(world.path(&format!("{OWN}/hooks/no-prod.sh"))).unwrap();
    world.check(
        &rehearsal(&[], "write x to prod3.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod3.txt","content":"x"} gave 1 line:
        created prod3.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre                       (user)  for write  Nothing is written to production.  switched off
    "#]].assert_eq(&listed(&world));
    let rows = String::from_utf8(world.output(&["hooks", "list", "--json"]).stdout).unwrap();
    expect![[r#"{"name":"no-prod","description":"Nothing is written to production.","point":"tool.pre","powers":[],"origin":"user","owner":"[T]/home/.config/cotter/hooks","tools":["write"],"enabled":false}"#]].assert_eq(&world.plain(rows.lines().last().unwrap()));
}

#[test]
fn c14_hook_files_with_errors_stop_the_start_and_are_all_reported() {
    let world = world();
    no_prod(&world, OWN);
    world.write(&format!("{OWN}/hooks/broken.yaml"), "id: broken\nphase: prod\n");
    world.write(&format!("{OWN}/hooks/twice.yaml"), "id: no-prod\nphase: pre\ncommand: 'true'\n");
    world.write(&format!("{OWN}/hooks/lost.yaml"), "id: lost\n\nphase: pre\ncommand: ./lost.sh\n");
    world.check(&rehearsal(&[], "read a.txt"), expect![[r#"
        exit 1
        --- stderr
        error: cannot load hooks
          caused by: [T]/home/.config/cotter/hooks/broken.yaml:2: there is no phase `prod`; there are `pre`, `post`
          caused by: [T]/home/.config/cotter/hooks/lost.yaml:4: there is no program `./lost.sh` in the folder that has `hooks`
          caused by: [T]/home/.config/cotter/hooks/twice.yaml:1: the id `no-prod` is already defined by no-prod.yaml

        hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
    "#]]);
    world.check(&["hooks", "list"], expect![[r#"
        exit 1
        --- stderr
        error: cannot load hooks
          caused by: [T]/home/.config/cotter/hooks/broken.yaml:2: there is no phase `prod`; there are `pre`, `post`
          caused by: [T]/home/.config/cotter/hooks/lost.yaml:4: there is no program `./lost.sh` in the folder that has `hooks`
          caused by: [T]/home/.config/cotter/hooks/twice.yaml:1: the id `no-prod` is already defined by no-prod.yaml

        hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
    "#]]);
    world.check(&["explain", "read", r#"{"path": "a.txt"}"#], expect![[r#"
        exit 1
        --- stderr
        error: cannot load hooks
          caused by: [T]/home/.config/cotter/hooks/broken.yaml:2: there is no phase `prod`; there are `pre`, `post`
          caused by: [T]/home/.config/cotter/hooks/lost.yaml:4: there is no program `./lost.sh` in the folder that has `hooks`
          caused by: [T]/home/.config/cotter/hooks/twice.yaml:1: the id `no-prod` is already defined by no-prod.yaml

        hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
    "#]]);
}

/// The error for a tool name in a file of hooks or settings that no tool has here.
fn tool_name_error(write: impl Fn(&World, &str)) -> String {
    let mut shown = String::new();
    for name in ["Write", "BASH", "MultiEdit"] {
        let world = world();
        write(&world, name);
        let output = world.output(&rehearsal(&[], "read a.txt"));
        shown += &format!("# {name}\n{}", world.shown(&output));
    }
    shown
}

/// A name that differs by case, or that another host has, would match nothing.
#[test]
fn c1_hook_file_with_another_spelling_of_a_tool_stops_the_start() {
    let shown = tool_name_error(|world, name| {
        no_prod(world, OWN);
        let hook = NO_PROD.replace("[write]", &format!("[read, {name}]"));
        world.write(&format!("{OWN}/hooks/no-prod.yaml"), hook);
    });
    expect![[r#"
        # Write
        exit 1
        --- stderr
        error: cannot load hooks
          caused by: [T]/home/.config/cotter/hooks/no-prod.yaml:4: `tools`: there is no tool `Write`: here it is `write`

        hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
        # BASH
        exit 1
        --- stderr
        error: cannot load hooks
          caused by: [T]/home/.config/cotter/hooks/no-prod.yaml:4: `tools`: there is no tool `BASH`: here it is `bash`

        hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
        # MultiEdit
        exit 1
        --- stderr
        error: cannot load hooks
          caused by: [T]/home/.config/cotter/hooks/no-prod.yaml:4: `tools`: there is no tool `MultiEdit`: here it is `edit`

        hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
    "#]].assert_eq(&shown);
}

#[test]
fn l7_hook_of_settings_with_another_spelling_of_a_tool_stops_the_start() {
    let shown = tool_name_error(|world, name| {
        let hook = format!(r#"{{"tools": ["read", "{name}"], "command": "true"}}"#);
        world.settings(&format!(r#"{{"hooks": {{"tool.pre": [{hook}]}}}}"#));
    });
    expect![[r##"
        # Write
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:35: $.hooks["tool.pre"][0].tools: there is no tool `Write`: here it is `write`
        # BASH
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:35: $.hooks["tool.pre"][0].tools: there is no tool `BASH`: here it is `bash`
        # MultiEdit
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:35: $.hooks["tool.pre"][0].tools: there is no tool `MultiEdit`: here it is `edit`
    "##]].assert_eq(&shown);
}

#[test]
fn l12_hook_for_an_unknown_tool_is_reported() {
    let world = world();
    no_prod(&world, OWN);
    world.write(
        &format!("{OWN}/hooks/no-prod.yaml"),
        NO_PROD.replace("[write]", "[wirte, 'mcp__*', mcp__a__b, x*]"),
    );
    world.settings(
        r#"{"hooks": {"tool.pre": [{"name": "lint", "tools": ["bahs"], "command": "true"}]}}"#,
    );
    world.check(&rehearsal(&[], "read a.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/home/.config/cotter/settings.json: hook `lint` is for the tool `bahs`, which does not exist; did you mean `bash`?
        warning: [T]/home/.config/cotter/hooks: hook `no-prod` is for the tool `wirte`, which does not exist; did you mean `write`?
    "#]]);
}

#[test]
fn s3_config_home_inside_the_project_is_not_the_users() {
    let world = world();
    let world_home = world.path("project/conf");
    let world = world.with_env("COTTER_HOME", world_home);
    world.check(
        &rehearsal(&[], "read a.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    no_prod(&world, "project/conf");
    world.check(
        &rehearsal(&[], "read a.txt"),
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/project/conf/hooks is inside the project, so its hooks are not used

            hint: keep your own hooks outside [T]/project
        "#]],
    );
}

#[test]
fn s6_project_hook_files_are_shown_before_they_run() {
    let world = world();
    no_prod(&world, PROJECT);
    sign(&world, PROJECT);
    world.write(&format!("{PROJECT}/hooks/audit.yaml"), AUDIT);
    world.write(
        &format!("{PROJECT}/hooks/lint.yaml"),
        "id: lint\nphase: post\nenabled: no\ncommand: [npm, run, lint]\n",
    );
    world.check(
        &["trust", "--print"],
        expect![[r#"
            exit 0
            --- stdout
            source  [T]/project/.cotter
            hash    [HASH][HASH]
            trust   none yet

            commands, pinned (all their code is in the files below) or open (they run other code too)
              open    hook audit at tool.post
                      runs cat >> "$COTTER_PROJECT_DIR/audit.log"
                      open: it has shell syntax (`>`)
              open    hook lint at tool.post, switched off
                      runs npm run lint
                      open: `npm` runs scripts of `package.json` and installed packages
              pinned  hook no-prod at tool.pre
                      runs ./hooks/no-prod.sh
              pinned  hook sign at tool.pre
                      runs ./hooks/lib/sign.sh

            files (6)
                           72 bytes  hooks/audit.yaml
              exec         98 bytes  hooks/lib/sign.sh
                           59 bytes  hooks/lint.yaml
              exec        102 bytes  hooks/no-prod.sh
                           85 bytes  hooks/no-prod.yaml
                           62 bytes  hooks/sign.yaml
        "#]],
    );
    // In an untrusted folder nothing runs, and a broken file is no error.
    world.write(&format!("{PROJECT}/hooks/broken.yaml"), "id: broken\n");
    world.check(
        &rehearsal(&[], "write x to prod.txt"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"prod.txt","content":"x"} gave 1 line:
            created prod.txt, 1 line

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        "#]],
    );
    assert!(!world.path("project/audit.log").exists());
    // A file that cannot be read cannot be trusted.
    world.check(
        &["trust", "--print"],
        expect![[r#"
            exit 1
            --- stderr
            error: cannot load hooks
              caused by: [T]/project/.cotter/hooks/broken.yaml:1: missing key `phase`

            hint: these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all errors
        "#]],
    );
}

#[test]
fn s3_project_hook_file_rewrites_only_with_a_grant() {
    let world = world();
    no_prod(&world, PROJECT);
    sign(&world, PROJECT);
    trust(&world, &[]);
    world.check(&rehearsal(&[], "write y to ok.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"ok.txt","content":"y"} was refused: Hook "sign" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: it may not change anything: its owner was not granted `rewrite` (sign, project)
    "#]]);
    assert!(!world.path("project/ok.txt").exists());
    trust(&world, &["--rewrite"]);
    let prompt = "write x to prod.txt then write y to ok.txt";
    world.check(&rehearsal(&[], prompt), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        `write` {"path":"ok.txt","content":"y"} gave 1 line:
        created ok.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: not in production (no-prod, project)
    "#]]);
    assert!(!world.path("project/prod.txt").exists());
    assert_eq!(fs::read_to_string(world.path("project/ok.txt")).unwrap(), "signed");
    expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre            transform, gate  (project)  for write  Nothing is written to production.
        sign                  tool.pre            transform, gate  (project)  for write
    "#]].assert_eq(&listed(&world));
    world.check(
        &rehearsal(&["--without", "project/no-prod", "--without", "sign"], "write x to prod.txt"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"prod.txt","content":"x"} gave 1 line:
            created prod.txt, 1 line

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    world.check(
        &rehearsal(&["--safe-mode"], "write x to prod2.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod2.txt","content":"x"} gave 1 line:
        created prod2.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

/// A changed file loosens nothing.
#[test]
fn s2_trusted_gate_of_a_file_stays_when_its_folder_changes_or_disappears() {
    let world = world();
    no_prod(&world, PROJECT);
    trust(&world, &[]);
    let prompt = rehearsal(&[], "write x to prod.txt");
    let refused = expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: not in production (no-prod, project)
    "#]];
    refused.assert_eq(&world.shown(&world.output(&prompt)));
    // A script that passes everything, and an invalid hook file.
    world.write_executable(&format!("{PROJECT}/hooks/no-prod.sh"), "#!/bin/sh\n");
    world.write(&format!("{PROJECT}/hooks/no-prod.yaml"), "id: no-prod\nphase: none\n");
    world.check(&prompt, expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/project/.cotter changed since it was trusted: its trusted hooks and rules still apply, nothing else of it runs (`cotter trust` shows how it changed)
        refused: write: not in production (no-prod, project)
    "#]]);
    fs::remove_dir_all(world.path(&format!("{PROJECT}/hooks"))).unwrap();
    world.check(&prompt, expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/project/.cotter changed since it was trusted: its trusted hooks and rules still apply, nothing else of it runs (`cotter trust` shows how it changed)
        refused: write: not in production (no-prod, project)
    "#]]);
    // Commands that only report show the same.
    expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre            gate       (project)  for write  Nothing is written to production.
    "#]].assert_eq(&listed(&world));
    world.check(
        &["explain", "write", r#"{"path": "prod.txt", "content": "x"}"#],
        expect![[r#"
        exit 0
        --- stdout
        write {"path":"prod.txt","content":"x"}
        pass
        decided by zone

          writes    [T]/project/prod.txt
          zone      workspace

          scope     scope                        pass
          schema    schema                       pass
          kernel    project-roots                pass
          kernel    system-directories           pass
          kernel    own-files                    pass
          kernel    protected-paths              pass
          kernel    destructive-commands         pass
          kernel    not-understood               pass
          kernel    secret-then-network          pass
          gate      no-prod                      would be asked   (project)
          zone      workspace at level standard  pass
          mode      ask                          pass
    "#]],
    );
    fs::remove_dir_all(world.path(PROJECT)).unwrap();
    world.check(&prompt, expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/project/.cotter was trusted, and is gone: its trusted hooks and rules still apply, nothing else of it runs (`cotter untrust` removes the trust)
        refused: write: not in production (no-prod, project)
    "#]]);
    expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre            gate       (project)  for write  Nothing is written to production.
    "#]].assert_eq(&listed(&world));
    assert!(!world.path("project/prod.txt").exists());
}

#[test]
fn c14_hooks_check_reports_each_file() {
    let world = world();
    no_prod(&world, PROJECT);
    world.write(
        &format!("{PROJECT}/settings.json"),
        "{\"hooks\": {\n  \"tool.pre\": [{\"comand\": \"x\"}]\n}}",
    );
    world.write(&format!("{PROJECT}/hooks/late.yaml"), "id: late\nphase: past\n");
    world.write(
        &format!("{PROJECT}/hooks/\u{1b}[31m.yaml"),
        "id: a\nphase: pre\ncommand: \u{1b}[31m\n",
    );
    world.check(
        &["hooks", "check", ".cotter"],
        expect![[r#"
            exit 1
            --- stdout
            .cotter/hooks/\u{1b}[31m.yaml: rejected
              rejected  line 3: it is not YAML
            .cotter/hooks/late.yaml: rejected
              rejected  line 2: there is no phase `past`; did you mean `post`?
            .cotter/hooks/no-prod.yaml: ok
            .cotter/settings.json: rejected
              rejected  line 2: $.hooks["tool.pre"][0].comand: unknown key `comand`; did you mean `command`?

            checked 3 hooks, 1 file of settings: 1 ok, 3 rejected
        "#]],
    );
    world.check(&["hooks", "check", ".", "--json"], expect![[r#"
        exit 1
        --- stdout
        {"path":"./.cotter/hooks/\u001b[31m.yaml","kind":"hook","status":"rejected","diagnostics":[{"line":3,"severity":"rejected","message":"it is not YAML"}]}
        {"path":"./.cotter/hooks/late.yaml","kind":"hook","status":"rejected","diagnostics":[{"line":2,"severity":"rejected","message":"there is no phase `past`; did you mean `post`?"}]}
        {"path":"./.cotter/hooks/no-prod.yaml","kind":"hook","status":"ok","diagnostics":[]}
        {"path":"./.cotter/settings.json","kind":"settings","status":"rejected","diagnostics":[{"line":2,"severity":"rejected","message":"$.hooks[\"tool.pre\"][0].comand: unknown key `comand`; did you mean `command`?"}]}
    "#]]);
    world.check(
        &["hooks", "check", ".cotter/hooks/no-prod.yaml"],
        expect![[r#"
            exit 0
            --- stdout
            .cotter/hooks/no-prod.yaml: ok

            checked 1 hook: 1 ok
        "#]],
    );
    world.check(
        &["hooks", "check", "none"],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot check none
          caused by: No such file or directory (os error 2)

        hint: name a file or a folder that exists
    "#]],
    );
    world.check(
        &["hooks", "check", "src"],
        expect![[r#"
            exit 0
            --- stdout
            no hooks found in src

            hint: expected `settings.json` and `hooks/*.yaml` of a `.cotter`, settings of a `.claude`, `hooks/hooks.json` of a plugin, `hooks/*.yaml` of a space
        "#]],
    );
}

/// The example files, unchanged.
#[test]
fn l8_c5_example_policy_and_space_work_unchanged() {
    let world = world();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../cotter-files/tests/data");
    for (folder, names) in [
        (
            "policy",
            &["settings.json", "hooks/check.sh", "hooks/no-prod.yaml", "hooks/no-prod.sh"][..],
        ),
        (
            "my-space",
            &[
                "hooks/pre-write.yaml",
                "hooks/pre-write.sh",
                "hooks/no-tabs.yaml",
                "hooks/no-tabs.sh",
            ][..],
        ),
    ] {
        for name in names {
            let text = fs::read_to_string(format!("{data}/{folder}/{name}")).unwrap();
            world.write_executable(&format!("{OWN}/{name}"), &text);
        }
        let checked = world.output(&["hooks", "check", &format!("{data}/{folder}")]);
        assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    }
    let prompt = "write force to a.txt then write secret to b.txt then write draft to c.txt then write x to /srv/prod/d.txt then write x to /etc/hosts";
    world.check(&rehearsal(&[], prompt), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"a.txt","content":"force"} was refused: Hook "policy-check" blocked the action: the policy knows no force. Adjust your approach; do not retry the exact same call.

        `write` {"path":"b.txt","content":"secret"} was refused: Hook "policy-check" blocked the action: secrets stay where they are. Adjust your approach; do not retry the exact same call.

        `write` {"path":"c.txt","content":"draft"} gave 1 line:
        created c.txt, 1 line

        `write` {"path":"/srv/prod/d.txt","content":"x"} was refused: Hook "no-prod" blocked the action: Production paths are off-limits in this session. Adjust your approach; do not retry the exact same call.

        `write` {"path":"/etc/hosts","content":"x"} was refused: Hook "pre-write" blocked the action: Cannot modify system directories. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: the policy knows no force (policy-check)
        refused: write: secrets stay where they are (policy-check)
        refused: write: Production paths are off-limits in this session. (no-prod)
        refused: write: Cannot modify system directories (pre-write)
    "#]]);
}

/// The hook that the skill about hooks describes works unchanged, with both kinds of declaration.
#[test]
fn hook_of_the_write_hook_skill_works_unchanged() {
    let world = world();
    let said = world.output(&["skills", "show", "write-hook"]).stdout;
    let said = String::from_utf8(said).unwrap();
    let block = |language: &str| {
        let (_, rest) = said.split_once(&format!("```{language}\n")).unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        text.lines().map(|line| format!("{}\n", line.trim_start_matches("   "))).collect::<String>()
    };
    world.write_executable(&format!("{OWN}/hooks/no-prod.sh"), block("sh"));
    let prompt = rehearsal(&[], "write x to config/prod.txt");
    let refused = |world: &World| {
        assert_eq!(
            String::from_utf8(world.output(&prompt).stderr).unwrap(),
            "refused: write: config/prod is changed by hand only; put it into config/staging (no-prod)\n"
        );
    };
    world.settings(&block("json"));
    refused(&world);
    world.settings("{}");
    world.write(&format!("{OWN}/hooks/no-prod.yaml"), block("yaml"));
    refused(&world);
    let checked = world.output(&["hooks", "check", world.path(OWN).to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0));
}
