//! Hooks that are programs, from settings files: the person's own and, behind trust, a project's.

use std::fs;

use expect_test::expect;

use crate::{
    support::{World, rehearsal},
    terminal::Screen,
};

const OWN: &str = r#"{
  "hooks": {
    "tool.pre": [
      { "name": "no-prod", "tools": ["write"], "command": "./hooks/no-prod.sh", "description": "Nothing is written to production." },
    ],
    "session.start": [{ "name": "greet", "command": ["echo", "Be brief."] }],
  },
}
"#;

const NO_PROD: &str = "#!/bin/sh\nif grep -q prod; then echo 'not in production' >&2; exit 1; fi\n";

/// A person with a hook of their own.
fn world() -> World {
    let world = World::new().with_env("NO_COLOR", "1");
    world.settings(OWN);
    world.write_executable("home/.config/cotter/hooks/no-prod.sh", NO_PROD);
    world
}

#[test]
fn l8_user_hook_blocks_a_call() {
    let world = world();
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
    assert!(!world.path("project/prod.txt").exists() && world.path("project/ok.txt").exists());
}

#[test]
fn s30_without_flag_and_settings_disable_hooks_by_name() {
    let world = world();
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
    world.check(
        &rehearsal(&["--without", "no-prd"], "write x to a.txt"),
        expect![[r#"
            exit 1
            --- stderr
            error: --without: no hook is named `no-prd`

            hint: did you mean `no-prod`?
        "#]],
    );
    world.check(
        &rehearsal(&["--without", "project-roots"], "write x to a.txt"),
        expect![[r#"
            exit 1
            --- stderr
            error: --without: cannot disable kernel gate `project-roots`
        "#]],
    );
    world.settings(&OWN.replacen('{', r#"{"disable": ["user/no-prod", "none"],"#, 1));
    world.check(&rehearsal(&[], "write x to prod2.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod2.txt","content":"x"} gave 1 line:
        created prod2.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/home/.config/cotter/settings.json:1:30: $.disable[1]: cannot switch off hook `none`: no hook has this name
    "#]]);
    world.check(&["hooks", "list"], expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre            transform, gate  (user)  for write  Nothing is written to production.  switched off
        greet                 session.start       observe          (user)
        project-roots         tool.pre            gate             (kernel)  Blocks calls that read outside the roots or write outside the project.
        system-directories    tool.pre            gate             (kernel)  Blocks calls that write to system directories, such as /etc, /usr and /dev.
        own-files             tool.pre            gate             (kernel)  Blocks calls that touch closed files, such as settings, keys and sessions; asks if a command could reach them through a folder that contains them.
        protected-paths       tool.pre            gate             (kernel)  Asks before a file is written that decides what runs later, such as .git/hooks.
        destructive-commands  tool.pre            gate             (kernel)  Asks before a call destroys data that cannot be restored.
        not-understood        tool.pre            gate             (kernel)  Asks if the effects of a call are not known beforehand.
        secret-then-network   tool.pre            gate             (kernel)  After a secret was read, asks before anything reaches beyond this machine.
        secret-reads          tool.pre            observe          (kernel)
        background            session.close       observe          (embedder)  Ends background processes with their session.
        background-news       model.pre           observe          (embedder)  Reports unapproved changes by background processes.
        background-end        session.end         observe          (embedder)  Reports unapproved changes by background processes.
        background-approvals  tool.post           observe          (embedder)  for write, edit, bash, bash_background  Records the protected paths that a call was approved to write.
        AskUser               user.prompt.submit  transform        (embedder)
        Delegate              user.prompt.submit  transform        (embedder)
        Memory                user.prompt.submit  transform        (embedder)
        --- stderr
        warning: [T]/home/.config/cotter/settings.json:1:30: $.disable[1]: cannot switch off hook `none`: no hook has this name
    "#]]);
}

#[test]
fn hooks_list_shows_owners() {
    world().check(&["hooks", "list"], expect![[r#"
        exit 0
        --- stdout
        no-prod               tool.pre            transform, gate  (user)  for write  Nothing is written to production.
        greet                 session.start       observe          (user)
        project-roots         tool.pre            gate             (kernel)  Blocks calls that read outside the roots or write outside the project.
        system-directories    tool.pre            gate             (kernel)  Blocks calls that write to system directories, such as /etc, /usr and /dev.
        own-files             tool.pre            gate             (kernel)  Blocks calls that touch closed files, such as settings, keys and sessions; asks if a command could reach them through a folder that contains them.
        protected-paths       tool.pre            gate             (kernel)  Asks before a file is written that decides what runs later, such as .git/hooks.
        destructive-commands  tool.pre            gate             (kernel)  Asks before a call destroys data that cannot be restored.
        not-understood        tool.pre            gate             (kernel)  Asks if the effects of a call are not known beforehand.
        secret-then-network   tool.pre            gate             (kernel)  After a secret was read, asks before anything reaches beyond this machine.
        secret-reads          tool.pre            observe          (kernel)
        background            session.close       observe          (embedder)  Ends background processes with their session.
        background-news       model.pre           observe          (embedder)  Reports unapproved changes by background processes.
        background-end        session.end         observe          (embedder)  Reports unapproved changes by background processes.
        background-approvals  tool.post           observe          (embedder)  for write, edit, bash, bash_background  Records the protected paths that a call was approved to write.
        AskUser               user.prompt.submit  transform        (embedder)
        Delegate              user.prompt.submit  transform        (embedder)
        Memory                user.prompt.submit  transform        (embedder)
    "#]]);
    world().check(&["hooks", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"name":"project-roots","description":"Blocks calls that read outside the roots or write outside the project.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"system-directories","description":"Blocks calls that write to system directories, such as /etc, /usr and /dev.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"own-files","description":"Blocks calls that touch closed files, such as settings, keys and sessions; asks if a command could reach them through a folder that contains them.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"protected-paths","description":"Asks before a file is written that decides what runs later, such as .git/hooks.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"destructive-commands","description":"Asks before a call destroys data that cannot be restored.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"not-understood","description":"Asks if the effects of a call are not known beforehand.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"secret-then-network","description":"After a secret was read, asks before anything reaches beyond this machine.","point":"tool.pre","powers":["gate"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"secret-reads","description":"","point":"tool.pre","powers":["observe"],"origin":"kernel","owner":"cotter","tools":null,"enabled":true}
        {"name":"background","description":"Ends background processes with their session.","point":"session.close","powers":["observe"],"origin":"embedder","owner":"program","tools":null,"enabled":true}
        {"name":"background-news","description":"Reports unapproved changes by background processes.","point":"model.pre","powers":["observe"],"origin":"embedder","owner":"program","tools":null,"enabled":true}
        {"name":"background-end","description":"Reports unapproved changes by background processes.","point":"session.end","powers":["observe"],"origin":"embedder","owner":"program","tools":null,"enabled":true}
        {"name":"background-approvals","description":"Records the protected paths that a call was approved to write.","point":"tool.post","powers":["observe"],"origin":"embedder","owner":"program","tools":["write","edit","bash","bash_background"],"enabled":true}
        {"name":"AskUser","description":"","point":"user.prompt.submit","powers":["transform"],"origin":"embedder","owner":"program","tools":null,"enabled":true}
        {"name":"Delegate","description":"","point":"user.prompt.submit","powers":["transform"],"origin":"embedder","owner":"program","tools":null,"enabled":true}
        {"name":"Memory","description":"","point":"user.prompt.submit","powers":["transform"],"origin":"embedder","owner":"program","tools":null,"enabled":true}
        {"name":"no-prod","description":"Nothing is written to production.","point":"tool.pre","powers":["transform","gate"],"origin":"user","owner":"[T]/home/.config/cotter/settings.json","tools":["write"],"enabled":true}
        {"name":"greet","description":"","point":"session.start","powers":["observe"],"origin":"user","owner":"[T]/home/.config/cotter/settings.json","tools":null,"enabled":true}
    "#]]);
}

/// A repository with one of each kind of file that could run.
fn repository(world: &World) {
    let mark = |what: &str| format!("touch {}", world.path(&format!("ran-{what}")).display());
    let hook = mark("hook");
    world.write(
        "project/.cotter/settings.json",
        format!(
            r#"{{"hooks": {{"session.start": [{{"name": "sly", "command": "{hook}; echo sly"}}],
                 "tool.pre": [{{"name": "gate", "command": "./hooks/gate.sh"}}]}},
                "permissions": {{"deny": ["read(secret.txt)"]}}}}"#
        ),
    );
    world.write_executable(
        "project/.cotter/hooks/gate.sh",
        format!("#!/bin/sh\n{}\n", mark("script")),
    );
    let server = format!(
        r#"{{"mcpServers": {{"sly": {{"command": "/bin/sh", "args": ["-c", "{}"]}}}}}}"#,
        mark("server")
    );
    world.write("project/.mcp.json", server);
    let skill = format!("---\ntriggers:\n  - pattern: read\n---\nRead !`{}` it.\n", mark("skill"));
    world.write("project/.cotter/skills/sly.md", skill);
}

fn list_markers(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.path("")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("ran-")).collect();
    names.sort();
    names
}

#[test]
fn s8_untrusted_repository_runs_nothing() {
    let world = World::new().with_env("NO_COLOR", "1");
    repository(&world);
    world.write("project/secret.txt", "open\n");
    world.check(&rehearsal(&[], "read secret.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"secret.txt"} gave 1 line:
             1	open

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        warning: nothing of [T]/project/.mcp.json runs: it is not trusted yet (`cotter trust` shows it)
    "#]]);
    world.check(&rehearsal(&[], "/sly read secret.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: I do not understand "/sly read secret.txt"

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        warning: nothing of [T]/project/.mcp.json runs: it is not trusted yet (`cotter trust` shows it)
    "#]]);
    world.check(&["hooks", "list"], expect![[r#"
        exit 0
        --- stdout
        project-roots         tool.pre            gate       (kernel)  Blocks calls that read outside the roots or write outside the project.
        system-directories    tool.pre            gate       (kernel)  Blocks calls that write to system directories, such as /etc, /usr and /dev.
        own-files             tool.pre            gate       (kernel)  Blocks calls that touch closed files, such as settings, keys and sessions; asks if a command could reach them through a folder that contains them.
        protected-paths       tool.pre            gate       (kernel)  Asks before a file is written that decides what runs later, such as .git/hooks.
        destructive-commands  tool.pre            gate       (kernel)  Asks before a call destroys data that cannot be restored.
        not-understood        tool.pre            gate       (kernel)  Asks if the effects of a call are not known beforehand.
        secret-then-network   tool.pre            gate       (kernel)  After a secret was read, asks before anything reaches beyond this machine.
        secret-reads          tool.pre            observe    (kernel)
        background            session.close       observe    (embedder)  Ends background processes with their session.
        background-news       model.pre           observe    (embedder)  Reports unapproved changes by background processes.
        background-end        session.end         observe    (embedder)  Reports unapproved changes by background processes.
        background-approvals  tool.post           observe    (embedder)  for write, edit, bash, bash_background  Records the protected paths that a call was approved to write.
        AskUser               user.prompt.submit  transform  (embedder)
        Delegate              user.prompt.submit  transform  (embedder)
        Memory                user.prompt.submit  transform  (embedder)
    "#]]);
    assert_eq!(list_markers(&world), [] as [&str; 0]);
    world.check(&rehearsal(&["--require-trust"], "read secret.txt"), expect![[r#"
        exit 3
        --- stderr
        error: a source of the project is not trusted
          caused by: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
          caused by: nothing of [T]/project/.mcp.json runs: it is not trusted yet (`cotter trust` shows it)

        hint: `cotter trust` shows it and asks; `--trust=HASH` trusts it for one run
    "#]]);
    world.check(
        &rehearsal(&["--safe-mode"], "read secret.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"secret.txt"} gave 1 line:
             1	open

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

#[test]
fn s3_project_settings_that_loosen_do_not_load() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", r#"{"permissions": {"allow": ["bash"]}}"#);
    let hash = |world: &World| {
        let printed = world.output(&["trust", "--print"]);
        let text = String::from_utf8(printed.stdout).unwrap();
        let hash = text.lines().find_map(|line| line.strip_prefix("hash    ")).unwrap().to_owned();
        format!("--trust={hash}")
    };
    // A source that could never load cannot be shown for trust.
    world.check(&["trust", "--print"], expect![[r#"
        exit 1
        --- stderr
        error: [T]/project/.cotter/settings.json:1:27: $.permissions.allow: `allow` rules are not allowed in a project's settings

        hint: a project may only tighten: move this to your own settings
    "#]]);
    world.write("project/.cotter/settings.json", r#"{"permissions": {"mode": "accept-edits"}}"#);
    world.check(
        &rehearsal(&[&hash(&world)], "read a.txt"),
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/project/.cotter/settings.json: the mode of the project is looser than yours

            hint: a project may only tighten the policy; put this in your own settings
        "#]],
    );
    world.write("project/.cotter/settings.json", r#"{"permissions": {"mode": "plan"}}"#);
    world.check(&rehearsal(&[&hash(&world)], "write x to b.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"b.txt","content":"x"} was refused: Denied: mode `plan` allows only safe calls. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: mode `plan` allows only safe calls (mode)
    "#]]);
}

/// The page in the README runs unchanged, in a terminal: from nothing to a hook that blocks a call.
#[test]
fn hook_page_of_the_readme_runs_unchanged() {
    let readme = include_str!("../../../README.md");
    let (_, page) = readme.split_once("<!-- run by a test, as it stands -->\n```sh\n").unwrap();
    let (script, rest) = page.split_once("```").unwrap();
    let promised = rest.split_once("```text\n").and_then(|(_, text)| text.split_once("```"));
    let promised = promised.unwrap().0.trim_end();
    let world = World::new().with_env("NO_COLOR", "1");
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_cotter")).parent().unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let world = world.with_env("PATH", path);
    let mut screen = Screen::of("/bin/bash", &world, &["--norc", "-ec", script]);
    screen.wait_for("[y]es, [n]o:");
    screen.type_keys("y\n");
    let seen = screen.end(&world);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    assert!(seen.contains(promised), "{seen}");
    assert!(seen.contains("it would be refused"), "{seen}");
    assert!(world.path("project/shop/notes.txt").exists(), "{seen}");
    assert!(!world.path("project/shop/prod.env").exists(), "{seen}");
    let again = world.output(&["init", "shop"]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn starter_project_passes_every_check() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.check(
        &["init"],
        expect![[r#"
            exit 0
            --- stdout
            created [T]/project/.cotter:
              settings.json
              settings.schema.json
              hooks/no-prod.sh
              skills/house-style/SKILL.md
              commands/review.md
              agents/tester.md

            Nothing in it runs before you trust it: `cotter trust` shows it and asks.
        "#]],
    );
    world.check(
        &["init"],
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/project/.cotter already exists

            hint: nothing was changed; `cotter init DIR` creates one in another folder
        "#]],
    );
    for (kind, folder) in [
        ("skills", ".cotter/skills"),
        ("commands", ".cotter/commands"),
        ("agents", ".cotter/agents"),
        ("hooks", ".cotter"),
    ] {
        let checked = world.output(&[kind, "check", folder]);
        assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

/// A changed file loosens nothing: a trusted gate stays in force when the folder changes or disappears, until
/// a person removes the trust.
#[test]
fn s2_trusted_gate_stays_when_its_folder_changes_or_disappears() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.output(&["init"]);
    let mut screen = Screen::new(&world, &["trust"]);
    screen.wait_for("[y]es, [n]o:");
    screen.type_keys("y\n");
    assert!(screen.end(&world).contains("is trusted"));
    let prompt = "write x to prod.txt";
    world.check(&rehearsal(&[], prompt), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: this would change production; work on a copy instead. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: this would change production; work on a copy instead (no-prod, project)
    "#]]);
    world.write_executable("project/.cotter/hooks/no-prod.sh", "#!/bin/sh\nexit 0\n");
    world.check(&rehearsal(&[], prompt), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: this would change production; work on a copy instead. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/project/.cotter changed since it was trusted: its trusted hooks and rules still apply, nothing else of it runs (`cotter trust` shows how it changed)
        refused: write: this would change production; work on a copy instead (no-prod, project)
    "#]]);
    fs::remove_dir_all(world.path("project/.cotter")).unwrap();
    world.check(&rehearsal(&[], prompt), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "no-prod" blocked the action: this would change production; work on a copy instead. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/project/.cotter was trusted, and is gone: its trusted hooks and rules still apply, nothing else of it runs (`cotter untrust` removes the trust)
        refused: write: this would change production; work on a copy instead (no-prod, project)
    "#]]);
    world.check(&rehearsal(&["--require-trust"], prompt), expect![[r#"
        exit 3
        --- stderr
        error: a source of the project is not trusted
          caused by: [T]/project/.cotter was trusted, and is gone: its trusted hooks and rules still apply, nothing else of it runs (`cotter untrust` removes the trust)

        hint: `cotter trust` shows it and asks; `--trust=HASH` trusts it for one run
    "#]]);
    assert!(!world.path("project/prod.txt").exists());
    // A folder that cannot be read does not count as the trusted one.
    fs::create_dir(world.path("project/.cotter")).unwrap();
    std::os::unix::fs::symlink("/tmp", world.path("project/.cotter/out")).unwrap();
    let unreadable = world.output(&rehearsal(&[], prompt));
    let unreadable = world.shown(&unreadable);
    assert!(unreadable.contains("refused: write: this would change production"), "{unreadable}");
    assert!(unreadable.contains(".cotter/out"), "{unreadable}");
    fs::remove_dir_all(world.path("project/.cotter")).unwrap();
    // Only the trusted source still shows where the project begins.
    fs::remove_dir_all(world.path("project/.git")).unwrap();
    let below = world.output(&rehearsal(&["--cwd", "src"], prompt));
    assert!(world.shown(&below).contains("refused: write: this would change production"));
    world.check(
        &["untrust"],
        expect![[r#"
        exit 0
        --- stdout
        [T]/project/.cotter is no longer trusted
    "#]],
    );
    world.check(
        &rehearsal(&[], prompt),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} gave 1 line:
        created prod.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

/// On a terminal, the last column wraps below its own start.
#[test]
fn l12_lists_wrap_within_the_terminal_width() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.settings(
        r#"{"hooks": {"session.start": [{"name": "greet", "command": "true", "description": "Says hello to whoever it is that starts a session, and nothing else at all."}]}}"#,
    );
    let screen = |args: &[&str]| Screen::with_columns(80, &world, args).end(&world);
    let shown = ["hooks", "skills", "commands", "agents"].map(|kind| screen(&[kind, "list"]));
    for line in shown.iter().flat_map(|shown| shown.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let first: Vec<_> =
        shown.iter().map(|shown| shown.lines().take(6).collect::<Vec<_>>()).collect();
    let first: String = first.concat().iter().map(|line| format!("{line}\n")).collect();
    expect![[r#"
        exit 0
        greet                 session.start       observe
            (user)  Says hello to whoever it is that starts a session, and nothing else
            at all.
        project-roots         tool.pre            gate
            (kernel)  Blocks calls that read outside the roots or write outside the
        exit 0
        /review-change  How to review a change to code. Use it when a diff, a commit, a
                        branch or a pull request is to be reviewed.  (embedder)
        /write-hook     How to write a hook that gates or watches what this agent does.
                        Use it when something is to be blocked, asked about, checked or
                        recorded automatically.  (embedder)
        exit 0
        /compact   Summarise the conversation now; TEXT says what matters: /compact
                   [TEXT]  (embedder)
        /name      Name this session, or show its name: /name [TEXT]  (embedder)
        /retry     Send your last prompt again  (embedder)
        /tools     List the tools that the model may call  (embedder)
        exit 0
        @general   Works on a task by itself and reports the result. For work with many
                   steps or much reading, if only the result matters here.  (embedder)
        @reviewer  Reviews code or text and reports what is wrong. Changes nothing. Name
                   the files to read and what to look for.  (embedder)
    "#]]
    .assert_eq(&first);
    // Without a terminal each row is one line, unless `COLUMNS` sets a width.
    let rows = |world: &World| {
        let shown = String::from_utf8(world.output(&["skills", "list"]).stdout).unwrap();
        shown.lines().count()
    };
    assert_eq!(rows(&world), 3);
    assert!(rows(&world.with_env("COLUMNS", "60")) > 3);
}

/// A hook that is asked again about a rewritten call fails again; the second failure is not reported.
#[test]
fn l8_passing_hook_failure_is_reported_once_per_call() {
    let world = World::new();
    world.write("project/b.txt", "other\n");
    world.settings(
        r#"{"hooks": {"tool.pre": [
             {"name": "lax", "tools": ["read"], "command": "kill -15 $$; true", "onFailure": "pass"},
             {"name": "other", "tools": ["read"], "command": "echo '{\"input\": {\"path\": \"b.txt\"}}'"}]}}"#,
    );
    let script = world.script(
        r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}},
                      {"name": "read", "input": {"path": "src/b.txt"}}]},
           {"calls": [{"name": "read", "input": {"path": "a.txt"}}]},
           {"text": "done"}"#,
    );
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
            exit 0
            --- stdout
            done
            --- stderr
            hook `lax` failed and passes: it was ended by signal 15
            hook `lax` failed and passes: it was ended by signal 15
            hook `lax` failed and passes: it was ended by signal 15
        "#]],
    );
    world.check(
        &["hooks", "log"],
        expect![[r#"
            exit 0
            --- stdout
            session [ID1]
            run r1 began [TIME] with script
            [TIME]  r1.1  tool.pre read  lax (user)  failed and passed in N ms: it was ended by signal 15
            [TIME]  r1.1  tool.pre read  other (user)  replace in N ms
            [TIME]  r1.1  tool.pre read  lax (user)  failed and passed in N ms: it was ended by signal 15
            [TIME]  r1.1  tool.pre read  lax (user)  failed and passed in N ms: it was ended by signal 15
            [TIME]  r1.1  tool.pre read  other (user)  replace in N ms
            [TIME]  r1.1  tool.pre read  lax (user)  failed and passed in N ms: it was ended by signal 15
            [TIME]  r1.2  tool.pre read  lax (user)  failed and passed in N ms: it was ended by signal 15
            [TIME]  r1.2  tool.pre read  other (user)  replace in N ms
            [TIME]  r1.2  tool.pre read  lax (user)  failed and passed in N ms: it was ended by signal 15
        "#]],
    );
}

/// The variables that a person's settings name reach the hooks of a project in every dialect, and others do
/// not. `trust` shows the variables that a hook asks for.
#[test]
fn s7_setting_environment_reaches_the_hooks_of_a_project() {
    let world = World::new()
        .with_env("NO_COLOR", "1")
        .with_env("PATH", "/usr/bin:/bin")
        .with_env("NOTIFY_TOPIC", "builds")
        .with_env("TOKEN", "of-the-entry")
        .with_env("OTHER", "of-nobody");
    let line = "echo \"$NOTIFY_TOPIC, $TOKEN, $OTHER\" >&2; exit 2";
    let command = serde_json::Value::from(line);
    world.write(
        "project/.cotter/settings.json",
        format!(
            r#"{{"hooks": {{"tool.pre": [
                {{"name": "own", "tools": ["write"], "command": {command}}},
                {{"name": "asking", "tools": ["read"], "command": {command}, "env": ["TOKEN"]}}]}}}}"#
        ),
    );
    world.write(
        "project/.cotter/hooks/file.yaml",
        format!("id: file\nphase: pre\ntools: [edit]\ncommand: {command}\n"),
    );
    world.write(
        "project/.claude/settings.json",
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"matcher": "Bash", "hooks": [
                {{"type": "command", "command": {command}}}]}}]}}}}"#
        ),
    );
    world.trust_now(&["project/.cotter", "project/.claude"]);
    let verdicts = || {
        let mut shown = String::new();
        for (tool, input) in [
            ("write", r#"{"path": "n.txt", "content": "x"}"#),
            ("read", r#"{"path": "a.txt"}"#),
            ("edit", r#"{"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}"#),
            ("bash", r#"{"command": "ls"}"#),
        ] {
            let script = world.script(&format!(
                r#"{{"calls": [{{"name": "{tool}", "input": {input}}}]}}, {{"text": "done"}}"#
            ));
            let output = world.output(&["-p", "--script", &script, "go"]);
            shown += &String::from_utf8(output.stderr).unwrap();
        }
        shown
    };
    expect![[r#"
        refused: write: , , (own, project)
        refused: read: , of-the-entry, (asking, project)
        refused: edit: , , (file, project)
        refused: bash: , , (echo-222518, project)
    "#]]
    .assert_eq(&verdicts());
    world.settings(r#"{"environment": ["NOTIFY_TOPIC"]}"#);
    expect![[r#"
        refused: write: builds, , (own, project)
        refused: read: builds, of-the-entry, (asking, project)
        refused: edit: builds, , (file, project)
        refused: bash: builds, , (echo-222518, project)
    "#]]
    .assert_eq(&verdicts());
    let view = world.shown(&world.output(&["trust", "--print"]));
    assert!(view.contains("hook asking at tool.pre, with variables TOKEN\n"), "{view}");
    let shared = "its hooks also get the variables of your setting `environment`: NOTIFY_TOPIC\n";
    assert_eq!(view.matches(shared).count(), 2, "{view}");
}
