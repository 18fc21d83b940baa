//! Settings files: their owners, their precedence, and the errors about broken ones.

use std::fs;

use expect_test::expect;

use crate::support::World;

const LIST: [&str; 4] = ["-p", "--model", "rehearsal", "list src"];

#[test]
fn deny_rule_of_any_settings_file_wins() {
    let world = World::new();
    world.settings(r#"{"permissions": {"deny": ["list"]}}"#);
    let named = world.write("named.json", r#"{"permissions": {"allow": ["list"]}}"#);
    let named = named.to_str().unwrap();
    world.check(&["-p", "--model", "rehearsal", "--settings", named, "list src"], expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} was refused: Denied: the rule `deny list` denies it. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: list: the rule `deny list` denies it (rule deny list)
    "#]]);
}

#[test]
fn nearest_settings_value_wins() {
    let world = World::new();
    world.settings(
        r#"{"model": "user/m", "limits": {"maxTurns": 1}, "permissions": {"mode": "plan"}}"#,
    );
    let named = world.write("named.json", r#"{"model": "rehearsal", "limits": {"maxTurns": 2}}"#);
    let named = named.to_str().unwrap();
    let ok = |args: &[&str]| world.output(args).status.code();
    assert_eq!(ok(&["-p", "--settings", named, "list src"]), Some(0));
    assert_eq!(ok(&["-p", "--settings", named, "--max-turns", "1", "list src"]), Some(3));
    assert_eq!(ok(&LIST), Some(3));
}

#[test]
fn config_home_is_chosen_by_variables() {
    let deny = r#"{"permissions": {"deny": ["list"]}}"#;
    let refused = |world: &World| {
        let output = world.output(&LIST);
        String::from_utf8_lossy(&output.stderr).starts_with("refused: list")
    };
    let world = World::new();
    assert!(!refused(&world));
    world.settings(deny);
    assert!(refused(&world));
    let elsewhere = world.path("config");
    let world = world.with_env("XDG_CONFIG_HOME", &elsewhere);
    assert!(!refused(&world), "the variable stands over the default");
    world.write("config/cotter/settings.json", deny);
    assert!(refused(&world));
    let own = world.path("own");
    let world = world.with_env("COTTER_HOME", &own);
    assert!(!refused(&world), "and `COTTER_HOME` over both");
    world.write("own/settings.json", deny);
    assert!(refused(&world));
}

#[test]
fn untrusted_project_settings_are_not_read() {
    let world = World::new();
    world.write("project/.cotter/settings.json", "this is not even JSON");
    assert_eq!(world.output(&LIST).status.code(), Some(0));
}

#[test]
fn settings_flag_with_a_project_file_may_only_tighten() {
    let world = World::new();
    world.write("project/.cotter/settings.json", r#"{"permissions": {"allow": ["*"]}}"#);
    let args = ["-p", "--model", "rehearsal", "--settings", ".cotter/settings.json", "list src"];
    world.check(
        &args,
        expect![[r#"
            exit 1
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: .cotter/settings.json is inside the project, so its settings are not used

            hint: keep your own settings outside [T]/project
        "#]],
    );
    std::os::unix::fs::symlink(
        world.path("project/.cotter/settings.json"),
        world.path("link.json"),
    )
    .unwrap();
    let link = world.path("link.json");
    let args = ["-p", "--model", "rehearsal", "--settings", link.to_str().unwrap(), "list src"];
    world.check(
        &args,
        expect![[r#"
            exit 1
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: [T]/link.json is inside the project, so its settings are not used

            hint: keep your own settings outside [T]/project
        "#]],
    );
    std::os::unix::fs::symlink(world.path("home"), world.path("project/way")).unwrap();
    world.write("home/named.json", "{}");
    let args = ["-p", "--model", "rehearsal", "--settings", "way/named.json", "list src"];
    world.check(
        &args,
        expect![[r#"
            exit 1
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: way/named.json is inside the project, so its settings are not used

            hint: keep your own settings outside [T]/project
        "#]],
    );
    let inside = world.path("project/.cotter");
    let world = world.with_env("COTTER_HOME", inside);
    world.check(&LIST, expect![[r#"
        exit 1
        --- stderr
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        error: [T]/project/.cotter/settings.json is inside the project, so its settings are not used

        hint: keep your own settings outside [T]/project
    "#]]);
}

/// S3: a home folder that is a repository, or is inside one, is still a home folder. A file that is named
/// there, or that is in a project below it, belongs to the project.
#[test]
fn s3_user_settings_stay_the_users_when_the_project_is_the_home_folder() {
    let world = World::new();
    world.settings(r#"{"permissions": {"deny": ["list"]}}"#);
    world.write("home/.config/cotter/credentials.json", "{}");
    let credentials = world.path("home/.config/cotter/credentials.json");
    fs::set_permissions(credentials, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.write("home/.git/HEAD", "");
    world.write("home/notes/a.txt", "a");
    world.write("home/work/.git/HEAD", "");
    let list = |world: &World, folder: &str, more: &[&str]| {
        let folder = world.path(folder);
        let mut command =
            world.command(&[&["-p", "--model", "rehearsal"], more, &["list"]].concat());
        let output = command.current_dir(folder).output().unwrap();
        let shown = world.shown(&output);
        shown
            .lines()
            .filter(|line| line.starts_with("error:") || line.starts_with("refused:"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let denied = "refused: list: the rule `deny list` denies it (rule deny list)";
    for folder in ["home", "home/notes", "home/.config/cotter"] {
        assert_eq!(list(&world, folder, &[]), denied, "{folder}");
    }
    fs::create_dir_all(world.path(".git")).unwrap();
    fs::remove_dir_all(world.path("home/.git")).unwrap();
    assert_eq!(list(&world, "home/notes", &[]), denied, "a repository above the home folder");
    fs::create_dir_all(world.path("home/.git")).unwrap();
    let named = ["--settings", "../.config/cotter/settings.json"];
    expect![
        "error: ../.config/cotter/settings.json is inside the project, so its settings are not used"
    ]
    .assert_eq(&list(&world, "home/notes", &named));
    let inside = world.path("home/work/.config");
    let world = world.with_env("XDG_CONFIG_HOME", &inside);
    world.write("home/work/.config/cotter/settings.json", "{}");
    expect!["error: [T]/home/work/.config/cotter/settings.json is inside the project, so its settings are not used"].assert_eq(&list(&world, "home/work", &[]));
    let own = world.path("home/.config/cotter");
    let world = world.with_env("COTTER_HOME", own);
    expect!["error: [T]/home/.config/cotter/settings.json is inside the project, so its settings are not used"].assert_eq(&list(&world, "home", &[]));
}

/// `..` leads out of the project again.
#[test]
fn settings_and_mcp_flags_take_files_beside_the_project() {
    let world = World::new();
    world.write("beside/s.json", r#"{"permissions": {"deny": ["list"]}}"#);
    world.write("beside/mcp.json", r#"{"mcpServers": {}}"#);
    let args = ["-p", "--model", "rehearsal", "--mcp", "../beside/mcp.json"];
    world.check(
        &[&args[..], &["--settings", "../beside/s.json", "list src"]].concat(),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `list` {"path":"src"} was refused: Denied: the rule `deny list` denies it. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            refused: list: the rule `deny list` denies it (rule deny list)
        "#]],
    );
}

#[test]
fn broken_settings_error_names_its_place_and_keeps_the_file() {
    let world = World::new();
    let cases = [
        (
            "{\n  \"permissions\": {\"alow\": []}\n}",
            expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:2:19: $.permissions.alow: unknown key `alow`

            hint: did you mean `allow`?
        "#]],
        ),
        (
            "{\"permissions\": {\"deny\": [\"list\",\n  \"read(./x\"]}}",
            expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:2:3: $.permissions.deny[1]: rule `read(./x`: `(` without `)` at the end
        "#]],
        ),
        (
            "{\"permissions\": {\"allow\": [\"bash(* --version)\"]}}",
            expect![[r#"
                exit 1
                --- stderr
                error: [T]/home/.config/cotter/settings.json:1:28: $.permissions.allow[0]: rule `bash(* --version)`: it would allow any program: name one, or write `bash` for every command
            "#]],
        ),
        (
            "{\"permissions\": {\"mode\": \"yolo\"}}",
            expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:26: $.permissions.mode: expected one of `ask`, `accept-edits`, `plan`, `auto`, found the string `yolo`
        "#]],
        ),
        (
            "{\"model\": \"a",
            expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:11: $.model: string is not closed

            hint: add a `"`
        "#]],
        ),
        (
            "{\"hooks\": {\"tool.pre\": [{}]}}",
            expect![[r#"
                exit 1
                --- stderr
                error: [T]/home/.config/cotter/settings.json:1:25: $.hooks["tool.pre"][0]: missing key `command`
            "#]],
        ),
        (
            "\u{1b}[31m",
            expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:1: $: control character U+001B

            hint: in a string, write it as `\u` and four digits
        "#]],
        ),
    ];
    for (text, expected) in cases {
        let path = world.settings(text);
        world.check(&LIST, expected);
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
    assert!(!world.sessions().exists(), "broken settings start no session");
}

#[test]
fn missing_settings_file_is_an_error() {
    let world = World::new();
    world.check(
        &["-p", "--settings", "../none.json", "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: settings file ../none.json not found

            hint: `--settings FILE` needs an existing file
        "#]],
    );
    world.check(
        &["-p", "--settings", "..", "list"],
        expect![[r#"
            exit 1
            --- stderr
            error: ..: expected a file, found a folder
        "#]],
    );
}
