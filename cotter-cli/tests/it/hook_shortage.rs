//! Gates on a machine where something is short: the temporary folder cannot be used, or no more processes may
//! start. No call gets past a gate that refuses, in any dialect.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Command, Output},
};

use cotter_test::not_tested;
use expect_test::expect;
use serde_json::json;

use crate::support::World;

/// The number of calls in one step.
const CALLS: usize = 20;

/// Accounts without processes, for tests that root starts: no limit binds root. Each test has its own.
const FOLDER_ACCOUNT: u32 = 61_234;
const PROCESS_ACCOUNT: u32 = 61_235;

/// The ways to declare a gate that refuses every call.
const DIALECTS: [&str; 4] = [
    "claude, of a project",
    "settings, of the person",
    "file, of the person",
    "file, of a project",
];

/// A world with a gate.
fn world(dialect: &str) -> World {
    let world = World::new().with_env("PATH", path());
    let mut settings = json!({"permissions": {"mode": "accept-edits"}});
    let file = "id: no\nphase: pre\ncommand: \"echo never today >&2; exit 1\"\n";
    match dialect {
        "claude, of a project" => {
            let hook = json!({"type": "command", "command": "echo never today >&2; exit 2"});
            let hooks = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}});
            world.write("project/.claude/settings.json", hooks.to_string());
            world.trust_now(&["project/.claude"]);
        }
        "settings, of the person" => {
            settings["hooks"] = json!({"tool.pre": [{"command": "echo never today >&2; exit 1"}]});
        }
        "file, of the person" => _ = world.write("home/.config/cotter/hooks/no.yaml", file),
        _ => {
            world.write("project/.cotter/hooks/no.yaml", file);
            world.trust_now(&["project/.cotter"]);
        }
    }
    world.settings(&settings.to_string());
    world
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A command that runs as an ordinary user in a world that belongs to this user.
fn ordinary(world: &World, account: u32, words: &[&str]) -> Command {
    let (program, rest) = words.split_first().unwrap();
    let mut command = Command::new(program);
    if is_root() {
        let mut give = Command::new("chown");
        give.arg("-R").arg(format!("{account}:{account}")).arg(world.path(""));
        assert!(give.status().unwrap().success());
        command = Command::new("setpriv");
        let account = [format!("--reuid={account}"), format!("--regid={account}")];
        command.args(account).args(["--clear-groups", "--", program]);
    }
    command.args(rest).env_clear().envs(world.env()).current_dir(world.path("project"));
    command
}

/// True if an ordinary user can run these words here.
fn can_run(words: &[&str]) -> bool {
    let world = World::new().with_env("PATH", path());
    ordinary(&world, FOLDER_ACCOUNT, words).output().is_ok_and(|output| output.status.success())
}

fn path() -> PathBuf {
    std::env::var_os("PATH").unwrap().into()
}

/// The number of threads of the user whom the test runs as.
fn own_threads() -> u64 {
    let me = fs::metadata("/proc/self").unwrap().uid();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let own = processes.filter(|path| fs::metadata(path).is_ok_and(|data| data.uid() == me));
    own.filter_map(|path| fs::read_dir(path.join("task")).ok()).map(|it| it.count() as u64).sum()
}

/// Makes calls after a line of shell, and returns the output.
fn calls(world: &World, account: u32, shell: &[&str], line: &str) -> Output {
    let call =
        |n| json!({"name": "write", "input": {"path": format!("out/{n}.txt"), "content": "x"}});
    let calls: Vec<_> = (0..CALLS).map(call).collect();
    let script = world.script(&format!("{{\"calls\": {}}}, {{\"text\": \"done\"}}", json!(calls)));
    let line = format!("{line} && exec \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_cotter");
    let words = [shell, &["bash", "-c", &line, program, "-p", "--script", &script, "go"]].concat();
    let output = ordinary(world, account, &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!world.path("project/out").exists(), "{line}: {said}");
    output
}

/// What became of the calls: how many were refused by the gate itself, and how many because it failed.
fn outcome(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let refused = said.lines().filter(|line| line.starts_with("refused: "));
    let (own, failed): (Vec<_>, Vec<_>) = refused.partition(|line| line.contains("never today"));
    let all = own.len() + failed.len();
    let code = output.status.code().map_or("signal".into(), |code| code.to_string());
    match all == CALLS {
        true if own.len() == CALLS => "refused by the gate".into(),
        true => format!("refused: {}", failed[0]),
        false => format!("exit {code}: {said}"),
    }
}

#[test]
fn l8_gates_hold_when_the_temporary_folder_cannot_be_used() {
    let own = &["unshare", "-Urm"][..];
    let program = env!("CARGO_BIN_EXE_cotter");
    if !can_run(&["unshare", "-Urm", program, "--version"]) {
        return not_tested("an ordinary user cannot mount here");
    }
    let mut shown = String::new();
    for dialect in DIALECTS {
        for (name, shell, line) in [
            ("missing", &[][..], "rmdir \"$TMPDIR\""),
            ("closed", &[], "chmod 500 \"$TMPDIR\""),
            ("read-only", own, "mount -t tmpfs -o ro none \"$TMPDIR\""),
            ("without inodes", own, "mount -t tmpfs -o nr_inodes=1 none \"$TMPDIR\""),
            (
                "full",
                own,
                "mount -t tmpfs -o size=4k none \"$TMPDIR\" && head -c 4096 /dev/zero > \"$TMPDIR/x\"",
            ),
        ] {
            let world = world(dialect);
            let outcome = world.plain(&outcome(&calls(&world, FOLDER_ACCOUNT, shell, line)));
            shown += &format!("{dialect}, {name}: {outcome}\n");
        }
    }
    expect![[r#"
        claude, of a project, missing: refused: refused: write: cannot create a folder for temporary files: No such file or directory (os error 2); `TMPDIR` must name a folder that can be written (echo-f65e83, project)
        claude, of a project, closed: refused: refused: write: cannot create a folder for temporary files: Permission denied (os error 13); `TMPDIR` must name a folder that can be written (echo-f65e83, project)
        claude, of a project, read-only: refused: refused: write: cannot create a folder for temporary files: Read-only file system (os error 30); `TMPDIR` must name a folder that can be written (echo-f65e83, project)
        claude, of a project, without inodes: refused: refused: write: cannot create a folder for temporary files: No space left on device (os error 28); `TMPDIR` must name a folder that can be written (echo-f65e83, project)
        claude, of a project, full: refused by the gate
        settings, of the person, missing: refused by the gate
        settings, of the person, closed: refused by the gate
        settings, of the person, read-only: refused by the gate
        settings, of the person, without inodes: refused by the gate
        settings, of the person, full: refused by the gate
        file, of the person, missing: refused by the gate
        file, of the person, closed: refused by the gate
        file, of the person, read-only: refused by the gate
        file, of the person, without inodes: refused by the gate
        file, of the person, full: refused by the gate
        file, of a project, missing: refused: refused: write: cannot create a folder for temporary files: No such file or directory (os error 2); `TMPDIR` must name a folder that can be written (no, project)
        file, of a project, closed: refused: refused: write: cannot create a folder for temporary files: Permission denied (os error 13); `TMPDIR` must name a folder that can be written (no, project)
        file, of a project, read-only: refused: refused: write: cannot create a folder for temporary files: Read-only file system (os error 30); `TMPDIR` must name a folder that can be written (no, project)
        file, of a project, without inodes: refused: refused: write: cannot create a folder for temporary files: No space left on device (os error 28); `TMPDIR` must name a folder that can be written (no, project)
        file, of a project, full: refused by the gate
    "#]].assert_eq(&shown);
}

#[test]
fn l8_gates_hold_when_no_process_may_start() {
    if !can_run(&[env!("CARGO_BIN_EXE_cotter"), "--version"]) {
        return not_tested("an ordinary user cannot run the program");
    }
    for dialect in DIALECTS {
        let outcome_after = |line: &str| {
            let world = world(dialect);
            outcome(&calls(&world, PROCESS_ACCOUNT, &[], line))
        };
        let outcome_with = |more: u64| {
            let before = if is_root() { 0 } else { own_threads() };
            let outcome = outcome_after(&format!("ulimit -c 0 && ulimit -u {}", before + more));
            assert!(!outcome.starts_with("exit signal"), "{dialect}, {more}: {outcome}");
            outcome
        };
        // The program itself does not start with the lowest limits, its hooks do not with the next.
        for more in [2, 3, 4, 5, 6, 8, 10, 12, 16, 24] {
            outcome_with(more);
        }
        let lowest = outcome_with(0);
        // Other tests of an ordinary user end processes meanwhile, and so raise its limit.
        if is_root() {
            assert_ne!(lowest, "refused by the gate", "{dialect}");
        }
        assert_eq!(outcome_after("true"), "refused by the gate", "{dialect}");
    }
}
