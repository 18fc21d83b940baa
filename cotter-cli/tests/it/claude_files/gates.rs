//! Nothing starts without a gate that the person's own files or a trusted folder declare.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use super::*;
use crate::support::mask;

const ROOT: &str = "home/.claude/plugins/cache/shop/depot/1.0.0";
const LIST: &str = "home/.claude/plugins/installed_plugins.json";
const ON: &str = r#"{"enabledPlugins": {"depot@shop": true}}"#;
const USED: &str =
    r#"{"sandbox": "off", "permissions": {"level": "permissive"}, "claude": {"home": true}}"#;

/// A person with an enabled plugin that Claude Code installed, and with a rule of their own.
fn person() -> World {
    let world = world();
    installed(&world, ROOT);
    world.write(
        "home/.claude/settings.json",
        r#"{"enabledPlugins": {"depot@shop": true}, "permissions": {"deny": ["Read(closed.txt)"]}}"#,
    );
    world.settings(USED);
    world
}

/// The outcome of a write, a read and a command in a folder.
fn calls(world: &World, folder: &Path) -> String {
    calls_with(world, folder, &[])
}

fn calls_with(world: &World, folder: &Path, args: &[&str]) -> String {
    let script = world.script(
        r#"{"calls": [{"name": "write", "input": {"path": "b.txt", "content": "x"}},
            {"name": "read", "input": {"path": "closed.txt"}},
            {"name": "bash", "input": {"command": "true"}}]}, {"text": "done"}"#,
    );
    let all = [&["-p", "--no-session", "--script", &script], args, &["go"]].concat();
    let mut command = world.command(&all);
    named(&world.shown(&command.current_dir(folder).output().unwrap()))
}

/// Masks the digests in names: they depend on folders, which differ.
fn named(shown: &str) -> String {
    mask(shown, "echo-xxxxxx", "echo-[DIGEST]")
}

#[test]
fn b3_s3_user_files_keep_their_origin_when_the_project_is_the_home_folder() {
    let mut out = String::new();
    for named in [false, true] {
        let mut world = person();
        world.write("home/.agents/plugins/shop/hooks/hooks.json", asks("agents"));
        if named {
            world.write("own/settings.json", USED);
            let own = world.path("own");
            world = world.with_env("COTTER_HOME", own);
        }
        fs::create_dir_all(world.path("home/work")).unwrap();
        out += &format!("== COTTER_HOME {named}, at home\n{}", calls(&world, &world.path("home")));
        fs::create_dir(world.path("home/.git")).unwrap();
        let work = world.path("home/work");
        out += &format!("== COTTER_HOME {named}, a repository at home\n{}", calls(&world, &work));
    }
    expect![[r#"
        == COTTER_HOME false, at home
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: b.txt is closed (guard)
        refused: read: the rule `deny Read(closed.txt)` denies it (rule deny Read(closed.txt))
        refused: bash: agents (echo-[DIGEST])
        == COTTER_HOME false, a repository at home
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: b.txt is closed (guard)
        refused: read: the rule `deny Read(closed.txt)` denies it (rule deny Read(closed.txt))
        refused: bash: agents (echo-[DIGEST])
        == COTTER_HOME true, at home
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: b.txt is closed (guard)
        refused: read: the rule `deny Read(closed.txt)` denies it (rule deny Read(closed.txt))
        refused: bash: agents (echo-[DIGEST])
        == COTTER_HOME true, a repository at home
        exit 0
        --- stdout
        done
        --- stderr
        refused: write: b.txt is closed (guard)
        refused: read: the rule `deny Read(closed.txt)` denies it (rule deny Read(closed.txt))
        refused: bash: agents (echo-[DIGEST])
    "#]]
    .assert_eq(&out);
}

/// Hooks that refuse every command with the given text.
fn asks(words: &str) -> String {
    let command = format!("echo {words} >&2; exit 2");
    let hooks = serde_json::json!([{"type": "command", "command": command}]);
    serde_json::json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}}).to_string()
}

#[test]
fn b3_plugin_installed_several_times_keeps_every_gate_that_applies_here() {
    let world = person();
    let root = |name: &str| world.path(&format!("home/.claude/plugins/cache/shop/{name}"));
    for name in ["users", "here", "there"] {
        let folder = format!("home/.claude/plugins/cache/shop/{name}");
        plugin(&world, &folder);
        world.write(&format!("{folder}/hooks/hooks.json"), asks(name));
    }
    let user = serde_json::json!({"scope": "user", "installPath": root("users")});
    let of = |name: &str, scope: &str, project: &str| serde_json::json!({"scope": scope, "installPath": root(name), "projectPath": world.path(project)});
    let here = of("here", "local", "project");
    let there = of("there", "project", "elsewhere");
    let untold = serde_json::json!({"scope": "project", "installPath": root("there")});
    let mut out = String::new();
    for (what, entries) in [
        ("the user's, and another project's", vec![there.clone(), user.clone()]),
        ("this project's behind the user's", vec![user.clone(), here.clone()]),
        ("nobody can tell whose", vec![user.clone(), untold]),
        ("another project's alone", vec![there]),
        ("the same twice", vec![user.clone(), user.clone()]),
        ("one of them nowhere", vec![user, serde_json::json!({"scope": "user"})]),
    ] {
        let list = serde_json::json!({"version": 2, "plugins": {"depot@shop": entries}});
        world.write(LIST, list.to_string());
        let hooks = world.shown(&world.output(&["doctor"]));
        let hooks: String = hooks
            .lines()
            .filter(|line| {
                ["hook ", "skills ", "folder [T]/home/.claude/", "another folder", "installPath"]
                    .iter()
                    .any(|word| line.contains(word))
            })
            .map(|line| format!("{}\n", line.trim()))
            .collect();
        out += &format!("== {what}\n{}", named(&hooks));
    }
    expect![[r#"
        == the user's, and another project's
        folder [T]/home/.claude/plugins/cache/shop/users
        hook echo-[DIGEST] at tool.pre runs echo users >&2; exit 2
        skills depot-weigh
        == this project's behind the user's
        folder [T]/home/.claude/plugins/cache/shop/here
        folder [T]/home/.claude/plugins/cache/shop/users
        hook echo-[DIGEST] at tool.pre runs echo here >&2; exit 2
        skills depot-weigh
        hook echo-[DIGEST] at tool.pre runs echo users >&2; exit 2
        note    [T]/home/.claude/plugins/cache/shop/users: the plugin is used from another folder: only its hooks are used from this one
        == nobody can tell whose
        folder [T]/home/.claude/plugins/cache/shop/users
        folder [T]/home/.claude/plugins/cache/shop/there
        hook echo-[DIGEST] at tool.pre runs echo there >&2; exit 2
        hook echo-[DIGEST] at tool.pre runs echo users >&2; exit 2
        skills depot-weigh
        note    [T]/home/.claude/plugins/cache/shop/there: the plugin is used from another folder: only its hooks are used from this one
        == another project's alone
        folder [T]/home/.claude/plugins/cache/shop/there
        hook echo-[DIGEST] at tool.pre runs echo there >&2; exit 2
        skills depot-weigh
        == the same twice
        folder [T]/home/.claude/plugins/cache/shop/users
        hook echo-[DIGEST] at tool.pre runs echo users >&2; exit 2
        skills depot-weigh
        == one of them nowhere
        folder [T]/home/.claude/plugins/cache/shop/users
        broken  [T]/home/.claude/plugins/installed_plugins.json: [T]/home/.claude/plugins/installed_plugins.json: `depot@shop` has no `installPath` that is an absolute path (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        hook echo-[DIGEST] at tool.pre runs echo users >&2; exit 2
        skills depot-weigh
    "#]].assert_eq(&out);
}

#[test]
fn b3_unreadable_file_in_the_home_folder_stops_the_start() {
    type Breaks = fn(&World);
    let nowhere = |world: &World, name: &str| {
        let path = world.path(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else if path.exists() {
            fs::remove_file(&path).unwrap();
        }
        symlink(world.path("nowhere"), path).unwrap();
    };
    let links = [
        "home/.claude/settings.json",
        "home/.claude",
        "home/.claude/plugins",
        LIST,
        "home/.agents",
        "home/.agents/plugins",
        "home/.agents/plugins/g",
    ];
    let breaks: [(&str, Breaks); 6] = [
        ("a file for .claude", |world| {
            fs::remove_dir_all(world.path("home/.claude")).unwrap();
            world.write("home/.claude", "x");
        }),
        ("a pipe for settings.json", |world| {
            let path = world.path("home/.claude/settings.json");
            fs::remove_file(&path).unwrap();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("a device for settings.json", |world| {
            let path = world.path("home/.claude/settings.json");
            fs::remove_file(&path).unwrap();
            symlink("/dev/zero", path).unwrap();
        }),
        ("a file for the folder of hooks", |world| {
            fs::remove_dir_all(world.path(&format!("{ROOT}/hooks"))).unwrap();
            world.write(&format!("{ROOT}/hooks"), "x");
        }),
        (".claude is in the project", |world| {
            fs::rename(world.path("home/.claude"), world.path("project/dots")).unwrap();
            symlink(world.path("project/dots"), world.path("home/.claude")).unwrap();
        }),
        ("settings.json is in the project", |world| {
            let path = world.path("home/.claude/settings.json");
            fs::rename(&path, world.path("project/dots.json")).unwrap();
            symlink(world.path("project/dots.json"), path).unwrap();
        }),
    ];
    let fresh = || {
        let world = person();
        fs::create_dir_all(world.path("home/.agents/plugins")).unwrap();
        world
    };
    let mut out = String::new();
    for name in links {
        let world = fresh();
        nowhere(&world, name);
        starts(&world, &mut out, &format!("{name} leads nowhere"));
    }
    for (what, breaks) in breaks {
        let world = fresh();
        breaks(&world);
        starts(&world, &mut out, what);
    }
    expect![[r#"
        == home/.claude/settings.json leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json: link to `[T]/nowhere`, which does not exist

        hint: remove the link or create its target

        1 thing is broken: settings; 2 notes
        == home/.claude leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.claude cannot be read
          caused by: No such file or directory (os error 2)

        hint: a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude: [T]/home/.claude cannot be read: No such file or directory (os error 2) (a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude; 3 notes
        == home/.claude/plugins leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins cannot be read
          caused by: it is a broken link

        hint: a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude/plugins/installed_plugins.json: [T]/home/.claude/plugins cannot be read: it is a broken link (a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/installed_plugins.json; 3 notes
        == home/.claude/plugins/installed_plugins.json leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/installed_plugins.json: link to `[T]/nowhere`, which does not exist

        hint: a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude/plugins/installed_plugins.json: [T]/home/.claude/plugins/installed_plugins.json: link to `[T]/nowhere`, which does not exist (a gate may be in `depot@shop`, so nothing runs: fix the file, or disable the folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/installed_plugins.json; 3 notes
        == home/.agents leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.agents cannot be read
          caused by: No such file or directory (os error 2)

        hint: a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings
        plugins
          ok      depot: used  (origin user)
                    folder [T]/home/.claude/plugins/cache/shop/depot/1.0.0
          broken  [T]/home/.agents: [T]/home/.agents cannot be read: No such file or directory (os error 2) (a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.agents; 7 notes
        == home/.agents/plugins leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.agents/plugins cannot be read
          caused by: No such file or directory (os error 2)

        1 thing is broken: settings; 1 note
        == home/.agents/plugins/g leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.agents/plugins/g: it cannot be read: No such file or directory (os error 2)

        hint: a gate may be in it, so nothing runs: fix it, or remove its folder
        plugins
          ok      depot: used  (origin user)
                    folder [T]/home/.claude/plugins/cache/shop/depot/1.0.0
          broken  [T]/home/.agents/plugins/g: [T]/home/.agents/plugins/g: it cannot be read: No such file or directory (os error 2) (a gate may be in it, so nothing runs: fix it, or remove its folder)  (origin user)
        1 thing is broken: [T]/home/.agents/plugins/g; 7 notes
        == a file for .claude
        exit 1
        --- stderr
        error: [T]/home/.claude cannot be read
          caused by: it is not a folder

        hint: a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude: [T]/home/.claude cannot be read: it is not a folder (a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude; 3 notes
        == a pipe for settings.json
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json: expected a file, found a device, pipe or socket

        1 thing is broken: settings; 2 notes
        == a device for settings.json
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json: expected a file, found a device, pipe or socket

        1 thing is broken: settings; 2 notes
        == a file for the folder of hooks
        exit 1
        --- stderr
        error: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json: it cannot be read: Not a directory (os error 20)

        hint: a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json
        plugins
          broken  [T]/home/.claude/plugins/cache/shop/depot/1.0.0: [T]/home/.claude/plugins/cache/shop/depot/1.0.0/hooks/hooks.json: it cannot be read: Not a directory (os error 20) (a gate may be in it, so nothing runs: fix it, or disable it: `"enabledPlugins": {"depot@shop": false}` in [T]/home/.claude/settings.json)  (origin user)
        1 thing is broken: [T]/home/.claude/plugins/cache/shop/depot/1.0.0; 3 notes
        == .claude is in the project
        exit 1
        --- stderr
        error: [T]/home/.claude leads into the project, so it is not used as your own

        hint: a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude: [T]/home/.claude leads into the project, so it is not used as your own (a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings)  (origin user)
        1 thing is broken: [T]/home/.claude; 3 notes
        == settings.json is in the project
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json leads into the project, so it is not used as your own

        hint: a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings

        1 thing is broken: settings; 2 notes
    "#]].assert_eq(&out);
}

/// A home folder that is a link to the project's folder is behind trust.
#[test]
fn b3_s6_home_folder_linked_to_the_project_needs_trust() {
    let world = person();
    fs::rename(world.path("home/.claude"), world.path("project/.claude")).unwrap();
    symlink(world.path("project/.claude"), world.path("home/.claude")).unwrap();
    expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: nothing of [T]/project/.claude runs: it is not trusted yet (`cotter trust` shows it)
    "#]]
    .assert_eq(&calls(&world, &world.path("project")));
}

#[test]
fn b3_missing_plugin_enabled_by_a_trusted_project_is_reported() {
    let world = world();
    world.settings(USED);
    world.write("project/.claude/settings.json", ON);
    trust(&world);
    let mut out = String::new();
    let mut look = |what: &str| {
        out += &format!("== {what}\n{}", calls(&world, &world.path("project")));
        out += &plugins(&world);
    };
    look("no .claude at home");
    fs::create_dir(world.path("home/.claude")).unwrap();
    look("no list");
    fs::remove_dir(world.path("home/.claude")).unwrap();
    symlink(world.path("nowhere"), world.path("home/.claude")).unwrap();
    look("a link that leads nowhere");
    world.settings(r#"{"sandbox": "off", "claude": {"home": false}}"#);
    look("nothing at home is used");
    expect![[r#"
        == no .claude at home
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/project/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        not honoured
          broken  [T]/project/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        == no list
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/project/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        not honoured
          broken  [T]/project/.claude/settings.json: the plugin `depot@shop` is enabled but not installed: nothing of it is used
        == a link that leads nowhere
        exit 1
        --- stderr
        error: [T]/home/.claude cannot be read
          caused by: No such file or directory (os error 2)

        hint: a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings
        plugins
          broken  [T]/home/.claude: [T]/home/.claude cannot be read: No such file or directory (os error 2) (a gate may be in it, so nothing runs: fix it, or disable the home folder with `"claude": {"home": false}` in your settings)  (origin user)
        == nothing at home is used
        exit 0
        --- stdout
        done
        not honoured
          note    [T]/project/.claude/settings.json: the plugin `depot@shop` is enabled, but nothing of your home folder is used
    "#]].assert_eq(&out);
}

/// Several folders of a project may enable the same plugin.
#[test]
fn b3_plugin_enabled_by_two_project_folders_is_used_once() {
    let world = world();
    installed(&world, ROOT);
    world.settings(USED);
    let on = r#"{"enabledPlugins": {"depot@shop": true, "none@shop": true}}"#;
    world.write("project/.claude/settings.json", on);
    world.write("project/src/.claude/settings.json", on);
    let folder = world.path("project/src");
    let printed = world.command(&["trust", "--print"]).current_dir(&folder).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let hashes = printed.lines().filter_map(|line| line.strip_prefix("hash    "));
    let mut args: Vec<_> = hashes.map(|hash| format!("--trust={hash}")).collect();
    args.sort();
    args.dedup();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    expect![[r#"
        exit 0
        --- stdout
        done
        --- stderr
        warning: [T]/project/.claude/settings.json: the plugin `none@shop` is enabled but not installed: nothing of it is used
        warning: [T]/project/src/.claude/settings.json: the plugin `none@shop` is enabled but not installed: nothing of it is used
        refused: write: b.txt is closed (guard, project)
    "#]].assert_eq(&calls_with(&world, &folder, &args));
}

#[test]
fn b3_settings_with_a_misplaced_gate_are_refused() {
    let gate = r#"[{"hooks": [{"type": "command", "command": "exit 2"}]}]"#;
    let many = vec![r#"{"type": "command", "command": "true"}"#; 501].join(",");
    let world = world();
    world.settings(USED);
    let mut out = String::new();
    for text in [
        format!(r#"{{"Hooks": {{"PreToolUse": {gate}}}}}"#),
        format!(r#"{{"hooks": {{"preToolUse": {gate}}}}}"#),
        format!(r#"{{"hooks": {{}}, "PreToolUse": {gate}}}"#),
        format!(r#"{{"pretooluse": {gate}}}"#),
        format!(r#"{{"hooks": {{"hooks": {{"PreToolUse": {gate}}}}}}}"#),
        format!(r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{many}]}}]}}}}"#),
        r#"{"Permissions": {"deny": ["Read"]}}"#.into(),
        r#"{"permissions": {"Deny": ["Read"]}}"#.into(),
        r#"{"enabledplugins": {"depot@shop": true}}"#.into(),
    ] {
        world.write("home/.claude/settings.json", &text);
        out += &world.shown(&world.output(&["hooks", "list"]));
        world.write("home/.claude/settings.json", "{}");
        world.write("project/.claude/settings.json", text);
        out += &world.shown(&world.output(&["trust", "--print"]));
        fs::remove_dir_all(world.path("project/.claude")).unwrap();
    }
    expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:11: $.Hooks: unknown key: it is spelled `hooks`
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:11: $.Hooks: unknown key: it is spelled `hooks`
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:26: $.hooks.preToolUse: unknown event: it is spelled `PreToolUse`
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:26: $.hooks.preToolUse: unknown event: it is spelled `PreToolUse`
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:29: $.PreToolUse: the event `PreToolUse` is outside `hooks`, where it is not read
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:29: $.PreToolUse: the event `PreToolUse` is outside `hooks`, where it is not read
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:16: $.pretooluse: the event `PreToolUse` is outside `hooks`, where it is not read
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:16: $.pretooluse: the event `PreToolUse` is outside `hooks`, where it is not read
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:21: $.hooks.hooks: `hooks` is inside `hooks`, where only events are read
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:21: $.hooks.hooks: `hooks` is inside `hooks`, where only events are read
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:27: $.hooks.PreToolUse[0]: a file has at most 500 hooks: this gate would be lost
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:27: $.hooks.PreToolUse[0]: a file has at most 500 hooks: this gate would be lost
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:17: $.Permissions: unknown key: it is spelled `permissions`
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:17: $.Permissions: unknown key: it is spelled `permissions`
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:26: $.permissions.Deny: unknown key: it is spelled `deny`
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:26: $.permissions.Deny: unknown key: it is spelled `deny`
        exit 1
        --- stderr
        error: [T]/home/.claude/settings.json:1:20: $.enabledplugins: unknown key: it is spelled `enabledPlugins`
        exit 1
        --- stderr
        error: [T]/project/.claude/settings.json:1:20: $.enabledplugins: unknown key: it is spelled `enabledPlugins`
    "#]].assert_eq(&out);
}
