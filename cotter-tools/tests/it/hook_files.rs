//! `hooks/*.yaml` as real processes: a space as its page has it, and a policy that is a command.

use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use cotter::{
    Agent, FnTool, Origin, Owner, ToolSpec, Workspace,
    permission::{Zone, facts::Facts},
};
use cotter_files::{
    command_hook::{self, HookHost, HookLocation, hook_files::load_hooks},
    document::Document,
    settings::{Settings, SettingsOwner},
};
use cotter_test::ScriptedModel;
use cotter_tools::hooks::HookRunner;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::machine::{Scratch, runner};

const SPACE: &[(&str, &str)] = &[
    (
        "hooks/pre-write.yaml",
        include_str!("../../../cotter-files/tests/data/my-space/hooks/pre-write.yaml"),
    ),
    (
        "hooks/pre-write.sh",
        include_str!("../../../cotter-files/tests/data/my-space/hooks/pre-write.sh"),
    ),
    (
        "hooks/no-tabs.yaml",
        include_str!("../../../cotter-files/tests/data/my-space/hooks/no-tabs.yaml"),
    ),
    (
        "hooks/no-tabs.sh",
        include_str!("../../../cotter-files/tests/data/my-space/hooks/no-tabs.sh"),
    ),
    (
        "hooks/audit.yaml",
        include_str!("../../../cotter-files/tests/data/my-space/hooks/audit.yaml"),
    ),
    ("hooks/audit.sh", include_str!("../../../cotter-files/tests/data/my-space/hooks/audit.sh")),
    ("manifest.json", include_str!("../../../cotter-files/tests/data/my-space/manifest.json")),
];

const POLICY: &[(&str, &str)] = &[
    ("settings.json", include_str!("../../../cotter-files/tests/data/policy/settings.json")),
    ("hooks/check.sh", include_str!("../../../cotter-files/tests/data/policy/hooks/check.sh")),
    (
        "hooks/no-prod.yaml",
        include_str!("../../../cotter-files/tests/data/policy/hooks/no-prod.yaml"),
    ),
    ("hooks/no-prod.sh", include_str!("../../../cotter-files/tests/data/policy/hooks/no-prod.sh")),
];

/// A project, and a folder beside it with hooks.
struct Machine {
    scratch: Scratch,
    agent: Agent,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        for name in ["project/.git", "folder/hooks", "temp"] {
            fs::create_dir_all(scratch.path().join(name)).unwrap();
        }
        for (name, text) in files {
            let path = scratch.path().join("folder").join(name);
            fs::write(&path, text).unwrap();
            if name.ends_with(".sh") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let tool = |name: &str| {
            let spec = ToolSpec::new(name, "works", json!({"type": "object"}));
            let tool = FnTool::new(spec, |_| async { Ok("worked".into()) });
            tool.with_facts(Facts::zone(Zone::Safe))
        };
        let agent = Agent::builder(ScriptedModel::new([]))
            .workspace(Workspace::new(&scratch.path().join("project")))
            .tool(tool("write"))
            .tool(tool("read"))
            .build()
            .unwrap();
        Machine { scratch, agent }
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("folder")
    }

    /// Loads the folder for an owner, as a program would.
    fn load(&self, owner: &Owner) -> &Self {
        let folder = self.folder();
        let runner = runner().with_temp_below(&self.scratch.path().join("temp"));
        let path: OsString = std::env::var_os("PATH").unwrap();
        let starts: Arc<dyn HookHost> = Arc::new(HookRunner::new(runner, [("PATH".into(), path)]));
        let base = HookLocation {
            state: None,
            folder: folder.clone(),
            confined: command_hook::is_confined(owner),
            host: starts,
        };
        let hooks = load_hooks(&folder).unwrap();
        let settings = settings(&folder.join("settings.json"));
        let put = |unit: &mut cotter::Registry| {
            command_hook::register_all(unit, &settings.hooks, &base);
            hooks.register(unit, &base);
        };
        self.agent.extend(owner.clone(), put).unwrap();
        self
    }

    /// The outcome of calls.
    async fn calls(&self, calls: &[(&str, Value)]) -> String {
        let mut out = String::new();
        for (tool, input) in calls {
            let checked = self.agent.run_pre(tool, input.clone()).await;
            let _ = write!(out, "{tool} {input}: {}", checked.verdict);
            let _ = match &checked.reason {
                Some(reason) => write!(out, ", {reason}"),
                None => Ok(()),
            };
            let _ = match checked.input == *input {
                true => writeln!(out),
                false => writeln!(out, ", with {}", checked.input),
            };
        }
        out
    }
}

fn settings(path: &Path) -> Settings {
    let document = Document::load(path).unwrap();
    document
        .map(|it| Settings::from_document(&it, SettingsOwner::User).unwrap())
        .unwrap_or_default()
}

fn user() -> Owner {
    Owner::new(Origin::User, "folder")
}

fn space() -> Owner {
    Owner::new(Origin::Space("my-space".into()), "folder")
}

async fn check(files: &[(&str, &str)], owner: Owner, calls: &[(&str, Value)], expected: Expect) {
    let machine = Machine::new(files);
    expected.assert_eq(&machine.load(&owner).calls(calls).await);
}

fn written(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({"path": path, "content": content}))
}

#[tokio::test]
async fn c5_space_hooks_block_and_modify_writes() {
    let calls = [
        written("/etc/hosts", "x"),
        written("/usr/lib/x", "x"),
        written("src/a.c", "x"),
        written("src/a.c", "\tx"),
        ("read", json!({"path": "/etc/hosts"})),
    ];
    check(
        SPACE,
        user(),
        &calls,
        expect![[r#"
        write {"path":"/etc/hosts","content":"x"}: block, Cannot modify system directories
        write {"path":"/usr/lib/x","content":"x"}: block, Cannot modify system directories
        write {"path":"src/a.c","content":"x"}: pass
        write {"path":"src/a.c","content":"\tx"}: pass, with {"path":"src/a.c","content":"  x"}
        read {"path":"/etc/hosts"}: pass
    "#]],
    )
    .await;
    // Without the grant to rewrite, a rewriting hook blocks.
    check(SPACE, space(), &calls, expect![[r#"
        write {"path":"/etc/hosts","content":"x"}: block, Cannot modify system directories
        write {"path":"/usr/lib/x","content":"x"}: block, Cannot modify system directories
        write {"path":"src/a.c","content":"x"}: pass
        write {"path":"src/a.c","content":"\tx"}: block, it may not change anything: its owner was not granted `rewrite`
        read {"path":"/etc/hosts"}: pass
    "#]]).await;
    check(
        SPACE,
        space().with_rewrite(),
        &calls[3..4],
        expect![[r#"
        write {"path":"src/a.c","content":"\tx"}: pass, with {"path":"src/a.c","content":"  x"}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn c4_post_hook_gets_the_result_and_changes_nothing() {
    let machine = Machine::new(SPACE);
    machine.load(&user());
    let said = machine.agent.run_post("read", json!({"path": "a"}), "one").await;
    assert_eq!(said, "one");
    let log = fs::read_to_string(machine.scratch.path().join("project/audit.log")).unwrap();
    expect![[r#"
        [audit] {"tool":"read","input":{"path":"a"},"result":"one"}
    "#]]
    .assert_eq(&log);
    // A post hook that fails does not withhold the result.
    fs::write(machine.folder().join("hooks/audit.sh"), "#!/bin/sh\nexit 3\n").unwrap();
    let said = machine.agent.run_post("read", json!({"path": "a"}), "two").await;
    assert_eq!(said, "two");
}

#[tokio::test]
async fn c14_unloaded_space_leaves_no_hooks() {
    let machine = Machine::new(SPACE);
    let before = machine.agent.hooks();
    machine.load(&space());
    assert_eq!(machine.agent.hooks().len(), before.len() + 3);
    assert!(machine.agent.unload(&space()));
    assert_eq!(machine.agent.hooks(), before);
    let calls = machine.calls(&[written("/etc/hosts", "x")]).await;
    expect![[r#"
        write {"path":"/etc/hosts","content":"x"}: pass
    "#]]
    .assert_eq(&calls);
}

#[tokio::test]
async fn l8_policy_command_decides_by_exit_code_and_output() {
    let calls = [
        written("/srv/prod/app.env", "x"),
        ("write", json!({"file_path": "/srv/prod/app.env"})),
        written("/srv/staging/app.env", "x"),
        written("a", "git push --force"),
        written("a", "the secret"),
        written("a", "a draft"),
    ];
    check(POLICY, user(), &calls, expect![[r#"
        write {"path":"/srv/prod/app.env","content":"x"}: block, Production paths are off-limits in this session.
        write {"file_path":"/srv/prod/app.env"}: block, Production paths are off-limits in this session.
        write {"path":"/srv/staging/app.env","content":"x"}: pass
        write {"path":"a","content":"git push --force"}: block, the policy knows no force
        write {"path":"a","content":"the secret"}: block, secrets stay where they are
        write {"path":"a","content":"a draft"}: pass
    "#]]).await;
    check(POLICY, Owner::new(Origin::Project, "folder"), &calls[..2], expect![[r#"
        write {"path":"/srv/prod/app.env","content":"x"}: block, Production paths are off-limits in this session.
        write {"file_path":"/srv/prod/app.env"}: block, Production paths are off-limits in this session.
    "#]]).await;
}

/// The keys of another dialect, or misspelled ones, may have been meant as a refusal.
#[tokio::test]
async fn l8_answer_of_a_hook_file_without_a_known_key_is_a_failure() {
    let mut shown = String::new();
    for answer in [
        "{}",
        r#"{"verdict": "no thanks"}"#,
        r#"{"reason": "because"}"#,
        r#"{"status": "ok", "Blocked": false}"#,
        r#"{"block": true}"#,
        r#"{"continue": false}"#,
    ] {
        let hook = format!("id: x\nphase: pre\ncommand: |\n  echo '{answer}'\n");
        let machine = Machine::new(&[("hooks/x.yaml", &hook)]);
        let calls = machine.load(&user()).calls(&[written("a", "x")]).await;
        let _ = write!(shown, "{answer}\n  {calls}");
    }
    expect![[r#"
        {}
          write {"path":"a","content":"x"}: pass
        {"verdict": "no thanks"}
          write {"path":"a","content":"x"}: block, its answer has no known key, only `verdict`
        {"reason": "because"}
          write {"path":"a","content":"x"}: block, its answer has no known key, only `reason`
        {"status": "ok", "Blocked": false}
          write {"path":"a","content":"x"}: pass
        {"block": true}
          write {"path":"a","content":"x"}: block, 
        {"continue": false}
          write {"path":"a","content":"x"}: block, 
    "#]]
    .assert_eq(&shown);
}
