//! Stored sessions: listed, shown and continued; broken ones are skipped and reported.

use std::{fs, os::unix::fs::PermissionsExt};

use expect_test::expect;

use crate::support::{REHEARSAL, World, rehearsal};

#[test]
fn sessions_are_listed_and_shown() {
    let world = World::new();
    world.check(
        &["sessions", "list"],
        expect![[r#"
        exit 0
    "#]],
    );
    world.check(
        &["sessions", "list", "--json"],
        expect![[r#"
        exit 0
    "#]],
    );
    world.output(&rehearsal(&[], "read a.txt and read /etc/hostname"));
    world.check(
        &["sessions", "list"],
        expect![[r#"
        exit 0
        --- stdout
        [ID1]  [TIME]  [T]/project  read a.txt and read /etc/hostname
    "#]],
    );
    world.check(&["sessions", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"id":"[ID1]","cwd":"[T]/project","createdAt":"[TIME]","modifiedAt":"[TIME]","title":"read a.txt and read /etc/hostname","bytes":N}
    "#]]);
    let id = world.id();
    world.check(&["sessions", "show", &id], expect![[r#"
        exit 0
        --- stdout
        user: read a.txt and read /etc/hostname
        assistant: (calls) read {"path":"a.txt"}
        (calls) read {"path":"/etc/hostname"}
        read:      1	one
             2	two
        read (denied): Hook "project-roots" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.
        assistant: rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        `read` {"path":"/etc/hostname"} was refused: Hook "project-roots" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
    "#]]);
    world.check(&["sessions", "show", &id, "--json"], expect![[r#"
        exit 0
        --- stdout
        {"type":"message","id":"00000001","parentId":null,"timestamp":"[TIME]","message":{"role":"user","content":"read a.txt and read /etc/hostname"}}
        {"type":"message","id":"00000002","parentId":"00000001","timestamp":"[TIME]","message":{"role":"assistant","content":[{"type":"toolCall","id":"call_r1_1_0","name":"read","input":{"path":"a.txt"}},{"type":"toolCall","id":"call_r1_1_1","name":"read","input":{"path":"/etc/hostname"}}],"model":"rehearsal","usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"stopReason":"tool_use"}}
        {"type":"message","id":"00000003","parentId":"00000002","timestamp":"[TIME]","message":{"role":"toolResult","toolCallId":"call_r1_1_0","toolName":"read","content":"     1\tone\n     2\ttwo\n","is_error":false}}
        {"type":"message","id":"00000004","parentId":"00000003","timestamp":"[TIME]","message":{"role":"toolResult","toolCallId":"call_r1_1_1","toolName":"read","content":"Hook \"project-roots\" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.","is_error":true,"errorKind":"denied"}}
        {"type":"message","id":"00000005","parentId":"00000004","timestamp":"[TIME]","message":{"role":"assistant","content":[{"type":"text","text":"rehearsal: `read` {\"path\":\"a.txt\"} gave 2 lines:\n     1\tone\n     2\ttwo\n\n`read` {\"path\":\"/etc/hostname\"} was refused: Hook \"project-roots\" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.\n\n(rehearsal is an offline stand-in, not a model)"}],"model":"rehearsal","usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"stopReason":"end_turn"}}
    "#]]);
    world.check(&["sessions", "show", &id[..6], "--color", "always"], expect![[r#"
        exit 0
        --- stdout
        [1muser[0m: read a.txt and read /etc/hostname
        [1massistant[0m: (calls) read {"path":"a.txt"}
        (calls) read {"path":"/etc/hostname"}
        [1mread[0m:      1	one
             2	two
        [1mread (denied)[0m: Hook "project-roots" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.
        [1massistant[0m: rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        `read` {"path":"/etc/hostname"} was refused: Hook "project-roots" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
    "#]]);
}

#[test]
fn sessions_show_mutes_notes_compactions_and_other_branches() {
    let world = World::new();
    let lines = [
        r#"{"type":"session","v":1,"id":"abc","cwd":"/","createdAt":"2026-01-01T00:00:00.000Z","parent":null}"#,
        r#"{"type":"message","id":"1","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hi"}}"#,
        r#"{"type":"message","id":"2","parentId":"1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"be brief","is_skill_injection":true}}"#,
        r#"{"type":"message","id":"3","parentId":"2","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"a note\nof two lines","is_note":true}}"#,
        r#"{"type":"message","id":"4","parentId":"1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"another branch"}}"#,
        r#"{"type":"leaf","id":"5","parentId":"4","timestamp":"2026-01-01T00:00:00.000Z","leafId":"3"}"#,
        r#"{"type":"compaction","id":"6","parentId":"3","timestamp":"2026-01-01T00:00:00.000Z","summary":"they spoke","firstKeptId":"3","tokensBefore":9}"#,
        r#"{"type":"pop","id":"7","parentId":"6","timestamp":"2026-01-01T00:00:00.000Z","backToIndex":5}"#,
    ];
    world.write("home/.local/share/cotter/sessions/abc.jsonl", lines.join("\n") + "\n");
    world.check(
        &["sessions", "show", "abc"],
        expect![[r#"
        exit 0
        --- stdout
        user: hi
        skill: be brief
        note: a note
        of two lines
        summary: they spoke
    "#]],
    );
    world.check(
        &["sessions", "show", "abc", "--color=always"],
        expect![[r#"
        exit 0
        --- stdout
        [1muser[0m: hi
        [2mskill: be brief[0m
        [2mnote: a note[0m
        [2mof two lines[0m
        [2msummary: they spoke[0m
    "#]],
    );
}

#[test]
fn sessions_and_ledger_output_redacts_secrets() {
    let world = World::new().with_env("MY_API_KEY", "hunter2hunter2");
    world.output(&rehearsal(&[], "list hunter2hunter2"));
    for args in [vec!["sessions", "list"], vec!["sessions", "show"], vec!["ledger"]] {
        let id = world.id();
        let args: Vec<_> = match *args {
            [_, "list"] => args,
            _ => args.into_iter().chain([id.as_str()]).collect(),
        };
        let output = world.output(&args);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains("[redacted MY_API_KEY]"), "{args:?}: {stdout}");
        assert!(!stdout.contains("hunter2"), "{args:?}: {stdout}");
    }
}

#[test]
fn continue_and_resume_extend_a_session() {
    let world = World::new();
    world.check(
        &rehearsal(&["--continue"], "list"),
        expect![[r#"
            exit 1
            --- stderr
            error: no session was started in [T]/project

            hint: `cotter sessions list` shows the sessions of other folders; `--resume ID` continues one
        "#]],
    );
    world.output(&rehearsal(&[], "list src"));
    let id = world.id();
    world.check(
        &rehearsal(&["--continue"], "read a.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(
        &rehearsal(&["--resume", &id[..5]], "read src/b.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"src/b.txt"} gave 1 line:
             1	three

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    assert_eq!(world.id(), id, "it is the same session");
    world.check(
        &["sessions", "show", &id],
        expect![[r#"
        exit 0
        --- stdout
        user: list src
        assistant: (calls) list {"path":"src"}
        list: b.txt
        assistant: rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
        user: read a.txt
        assistant: (calls) read {"path":"a.txt"}
        read:      1	one
             2	two
        assistant: rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
        user: read src/b.txt
        assistant: (calls) read {"path":"src/b.txt"}
        read:      1	three
        assistant: rehearsal: `read` {"path":"src/b.txt"} gave 1 line:
             1	three

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check(
        &rehearsal(&["--cwd", "src", "--continue"], "list"),
        expect![[r#"
            exit 1
            --- stderr
            error: no session was started in [T]/project/src

            hint: `cotter sessions list` shows the sessions of other folders; `--resume ID` continues one
        "#]],
    );
}

#[test]
fn continue_takes_the_last_written_session() {
    let world = World::new();
    world.output(&rehearsal(&[], "list src"));
    world.output(&rehearsal(&[], "list"));
    let [first, second] = &*world.ids() else { panic!("two sessions") };
    world.output(&rehearsal(&["--resume", first], "read a.txt"));
    world.output(&rehearsal(&["--continue"], "read src/b.txt"));
    let text = |id: &str| fs::read_to_string(world.sessions().join(format!("{id}.jsonl"))).unwrap();
    assert!(text(first).contains("three") && !text(second).contains("three"));
}

#[test]
fn unknown_session_id_error_names_a_near_match() {
    let world = World::new();
    world.check(
        &rehearsal(&["--resume", "nothing"], "list"),
        expect![[r#"
            exit 1
            --- stderr
            error: there is no session `nothing`

            hint: `cotter sessions list` shows the sessions
        "#]],
    );
    world.output(&rehearsal(&[], "list src"));
    let id = world.id();
    let mistyped = format!("{}~{}", &id[..3], &id[4..]);
    let near = format!("\nhint: did you mean `{id}`?\n");
    for args in
        [vec!["sessions", "show"], [&REHEARSAL[..], &["hi", "--resume"]].concat(), vec!["ledger"]]
    {
        let args: Vec<_> = args.into_iter().chain([mistyped.as_str()]).collect();
        let output = world.output(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).ends_with(&near), "{args:?}");
    }
    world.check(
        &["sessions", "show", "../../etc/passwd"],
        expect![[r#"
            exit 1
            --- stderr
            error: there is no session `../../etc/passwd`

            hint: `cotter sessions list` shows the sessions
        "#]],
    );
    world.check(
        &["sessions", "show", ""],
        expect![[r#"
            exit 1
            --- stderr
            error: there is no session ``

            hint: `cotter sessions list` shows the sessions
        "#]],
    );
}

#[test]
fn ambiguous_session_id_prefix_is_an_error() {
    let world = World::new();
    for id in ["abc1", "abc2"] {
        let header = r#"{"type":"session","v":1,"id":"ID","cwd":"/","createdAt":"2026-01-01T00:00:00.000Z","parent":null}"#;
        let name = format!("home/.local/share/cotter/sessions/{id}.jsonl");
        world.write(&name, header.replace("ID", id) + "\n");
    }
    let output = world.output(&["sessions", "show", "abc"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: more than one session begins with `abc`\n\nhint: type more of the id: `abc1`, `abc2`, …\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(world.output(&["sessions", "show", "abc1"]).status.code(), Some(0));
}

#[test]
fn session_files_are_readable_by_their_owner_only() {
    let world = World::new();
    // A longer result than the model gets, so that the whole result goes to a file of its own.
    world.write("project/long.txt", "a line of some length\n".repeat(9000));
    world.output(&rehearsal(&[], "run cat long.txt"));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let data = world.path("home/.local/share/cotter");
    let mut folders = vec![data];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
            }
        }
    }
    assert_eq!(files, 2, "the session and what was too long for the model");
}

#[test]
fn broken_session_lines_are_skipped_and_reported() {
    let world = World::new();
    world.output(&rehearsal(&[], "list src"));
    let path = world.session_file();
    let mut lines: Vec<String> =
        fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    lines.insert(2, "this is not JSON".into());
    let torn = lines.join("\n") + "\n{\"type\":\"message\",\"id\":\"0000";
    fs::write(&path, &torn).unwrap();
    let id = world.id();
    world.check(
        &["sessions", "show", &id],
        expect![[r#"
            exit 0
            --- stdout
            user: list src
            assistant: (calls) list {"path":"src"}
            list: b.txt
            assistant: rehearsal: `list` {"path":"src"} gave 1 line:
            b.txt

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: line 3: the line is not JSON
            warning: line 11: the line is not JSON (the file ends within this line)
        "#]],
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), torn, "looking changes nothing");
    world.check(&rehearsal(&["--continue"], "read a.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/home/.local/share/cotter/sessions/[ID1].jsonl:3: the line is not JSON
        warning: [T]/home/.local/share/cotter/sessions/[ID1].jsonl:11: the line is not JSON (the file ends within this line)
    "#]]);
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.starts_with(&torn), "what was there stays");
    assert_eq!(world.output(&["ledger", &id, "verify"]).status.code(), Some(0));
}

#[test]
fn file_that_is_not_a_session_is_refused_and_unchanged() {
    let world = World::new();
    let bytes = b"\xff\xfe not a session\n{}\n";
    let path = world.write("home/.local/share/cotter/sessions/abcdef.jsonl", bytes);
    for args in
        [vec!["sessions", "show"], [&REHEARSAL[..], &["hi", "--resume"]].concat(), vec!["ledger"]]
    {
        let args: Vec<_> = args.into_iter().chain(["abcdef"]).collect();
        let output = world.output(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!(
            "error: {}:1: not a session: expected a line with \"type\":\"session\"\n\n\
             hint: the file was left as it is\n",
            path.display()
        );
        assert_eq!(stderr, expected, "{args:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn session_of_a_newer_format_is_read_and_not_written() {
    let world = World::new();
    world.output(&rehearsal(&[], "list src"));
    let path = world.session_file();
    let newer = fs::read_to_string(&path).unwrap().replacen("\"v\":1", "\"v\":2", 1);
    fs::write(&path, &newer).unwrap();
    let id = world.id();
    assert_eq!(world.output(&["sessions", "show", &id]).status.code(), Some(0));
    world.check(&rehearsal(&["--resume", &id], "list"), expect![[r#"
        exit 1
        --- stderr
        error: the run failed (store)
          caused by: session `[ID1]` is read-only: a newer version wrote it (format 2; this version reads up to 1)
    "#]]);
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

/// S29: the name of the file is the session's id. The contents of the file may be anything.
#[test]
fn s29_sessions_list_takes_ids_from_file_names() {
    let world = World::new();
    let line = r#"{"type":"session","v":1,"id":"\u001b[31mred","cwd":"/","createdAt":"2026-01-01T00:00:00.000Z","parent":null}"#;
    world.write("home/.local/share/cotter/sessions/abc.jsonl", format!("{line}\n"));
    let shown = String::from_utf8(world.output(&["sessions", "list"]).stdout).unwrap();
    assert!(shown.starts_with("abc  ") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn named_session_is_listed_by_its_name() {
    let world = World::new();
    world.output(&rehearsal(&[], "read a.txt"));
    world.output(&["-p", "--continue", "/name the pier"]);
    world.check(
        &["sessions", "list"],
        expect![[r#"
        exit 0
        --- stdout
        [ID1]  [TIME]  [T]/project  the pier
    "#]],
    );
}

#[test]
fn s1_agent_cannot_read_sessions_with_our_own_program() {
    let world = World::new();
    let script = world.script(r#"{"text": "hello"}"#);
    assert!(world.output(&["-p", "--script", &script, "a secret plan"]).status.success());
    let id = world.id();
    for args in [&["sessions", "list"][..], &["sessions", "show", &id]] {
        let person = world.output(args);
        assert!(String::from_utf8_lossy(&person.stdout).contains("a secret plan"));
        let agent = world.command(args).env("COTTER_CALL", "x").output().unwrap();
        let expected = expect![[r#"
            exit 3
            --- stderr
            error: an agent may only run read-only commands: `explain`, `list`, `show`

            hint: run it yourself in a terminal
        "#]];
        expected.assert_eq(&world.shown(&agent));
    }
}
