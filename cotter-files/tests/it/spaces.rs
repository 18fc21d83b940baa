//! Tests of spaces: read whole or not at all, loaded as one owner, and unloaded completely. C14.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
};

use cotter::{
    Agent, Command, FnTool, Skill, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    invoke::{
        command::{CommandCx, CommandResult},
        named_item::NameKind,
    },
    named,
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
    registry::change::ChangeResult,
};
use cotter_files::{
    command_hook::{HookHost, ProcessExit, ProcessOutput, ProcessSpec, ResidentProcess},
    space::{self, Space},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, spec};
use expect_test::expect;
use serde_json::json;
use tempfile::TempDir;

const MANIFEST: &str = r#"{"id": "deploy", "name": "Deployment", "version": "1.0.0"}"#;

/// A space with everything that a space may contain.
const SPACE: &[(&str, &str)] = &[
    ("manifest.json", MANIFEST),
    ("hooks/pre-write.yaml", "id: pre-write\nphase: pre\ntools: [write]\n"),
    ("hooks/pre-write.sh", "#!/bin/sh\n"),
    ("hooks/audit.yaml", "id: audit\nphase: post\ncommand: ./hooks/pre-write.sh\n"),
    ("skills/specialist.yaml", include_str!("../data/docker-deploy.md")),
    ("agents/assistant.yaml", "id: assistant\ndescription: Helps.\nprompt: Help.\n"),
    ("commands/ship.md", "---\ndescription: Ships it.\n---\nShip $ARGUMENTS\n"),
];

fn put(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), files);
    folder
}

/// Simulated programs: each run is recorded in the diary and gives this answer.
struct Pretended(Diary, &'static str);

impl HookHost for Pretended {
    fn run(
        &self,
        job: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        let Pretended(diary, says) = self;
        let told = String::from_utf8_lossy(&job.stdin).into_owned();
        diary.add(format!("{:?}, confined {}: {told}", job.words, job.confined));
        let stdout = says.as_bytes().to_vec();
        let ran = ProcessOutput {
            exit: ProcessExit::Code(0),
            stdout,
            stderr: vec![],
            remarks: vec![],
            blocked_accesses: vec![],
        };
        Box::pin(async move { Ok(ran) })
    }

    fn serve(&self, _: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        Err("nothing serves here".into())
    }
}

fn starts(diary: &Diary, says: &'static str) -> Arc<dyn HookHost> {
    Arc::new(Pretended(diary.clone(), says))
}

/// Creates an agent with registrations of each kind, some with the names that the space uses.
fn agent(steps: impl IntoIterator<Item = Step>) -> (Agent, RecordingModel<ScriptedModel>) {
    let model = RecordingModel::new(ScriptedModel::new(steps));
    let write = FnTool::new(spec("write"), |permit| async move {
        Ok(format!("written {}", permit.input()["path"]).into())
    });
    let agent = Agent::builder(model.clone())
        .tool(write.with_facts(Facts::zone(Zone::Safe)))
        .gate(ToolPre, named("pre-write", |_: &ToolPreEvent| Verdict::Pass))
        .define_skill(Skill::new("docker-deploy", |_| async { Ok("ours".into()) }))
        .define_command(Command::new("own", |_: CommandCx| async { CommandResult::Nothing }))
        .rule(Rule::parse(RuleKind::Deny, "read(./.env)").unwrap())
        .build()
        .unwrap();
    (agent, model)
}

/// Shows everything that is registered: hooks with their numbers, names with their owners, tools, rules.
fn registered(agent: &Agent) -> String {
    let kinds = [NameKind::Skill, NameKind::Command, NameKind::Subagent, NameKind::Hook];
    let names: Vec<_> = kinds.into_iter().flat_map(|kind| agent.names(kind)).collect();
    let tools: Vec<_> = agent.tools().specs().map(|spec| format!("{spec:?}")).collect();
    format!("{:#?}\n{names:#?}\n{tools:#?}\n{:#?}", agent.hooks(), agent.policy())
}

/// Shows the registrations of spaces.
fn of_spaces(agent: &Agent) -> String {
    let hooks = agent.hooks().into_iter().filter_map(|hook| {
        let origin = hook.owner.origin.to_string();
        let line = format!("{origin} {} {} at {}\n", hook.power.as_str(), hook.name, hook.point);
        origin.starts_with("space").then_some(line)
    });
    let kinds = [NameKind::Skill, NameKind::Command, NameKind::Subagent];
    let names = kinds.into_iter().flat_map(|kind| agent.names(kind)).filter_map(|name| {
        let origin = name.owner.origin.to_string();
        let by = name.shadowed_by.map(|by| format!(", shadowed by {by}")).unwrap_or_default();
        let line = format!("{origin} {} {}{by}\n", name.kind.as_str(), name.name);
        origin.starts_with("space").then_some(line)
    });
    hooks.chain(names).collect()
}

#[tokio::test]
async fn c14_unloading_a_space_restores_the_registry() {
    let folder = tree(SPACE);
    let (agent, model) = agent([Step::text("one"), Step::text("two"), Step::text("three")]);
    let before = registered(&agent);
    agent.process_request("hello").await.unwrap();
    let space = Space::read(folder.path()).unwrap();
    let done = space.load(&agent, starts(&Diary::default(), "")).unwrap();
    assert_eq!(done, ChangeResult::Applied);
    expect![[r#"
        space:deploy observe audit at tool.post
        space:deploy gate pre-write at tool.pre
        space:deploy skill docker-deploy
        space:deploy command ship
        space:deploy subagent assistant
    "#]]
    .assert_eq(&of_spaces(&agent));
    agent.process_request("hello").await.unwrap();
    assert!(space::unload(&agent, "deploy"));
    assert_eq!(registered(&agent), before);
    // The model is shown the same tools as before.
    agent.process_request("hello").await.unwrap();
    let shown =
        model.requests().iter().map(|request| format!("{:?}", request.tools)).collect::<Vec<_>>();
    assert_eq!(shown[0], shown[2]);
    assert_ne!(shown[0], shown[1]);
    assert!(!space::unload(&agent, "deploy"));
}

/// A space is loaded and unloaded within one run: its gate holds from the next call until it is unloaded.
#[tokio::test]
async fn c14_space_is_loaded_and_unloaded_during_a_run() {
    let folder = tree(SPACE);
    let write = || Step::call("write", json!({"path": "prod/a"}));
    let turn = |on: bool| Step::call("turn", json!({"on": on}));
    let steps = [write(), turn(true), write(), turn(false), write(), Step::text("done")];
    let (agent, _) = agent(steps);
    let (before, diary) = (registered(&agent), Diary::default());
    let during = Arc::new(Mutex::new(String::new()));
    let (seen, path, starts) = (
        during.clone(),
        folder.path().to_owned(),
        starts(&diary, r#"{"blocked": true, "reason": "no"}"#),
    );
    let handle = agent.clone();
    let turning = FnTool::new(spec("turn"), move |permit| {
        match permit.input()["on"] == true {
            true => {
                let space = Space::read(&path).unwrap();
                let _ = space.load(&handle, starts.clone()).unwrap();
            }
            false => {
                assert!(space::unload(&handle, "deploy"));
                *seen.lock().unwrap() = registered(&handle);
            }
        }
        async { Ok("turned".into()) }
    });
    agent.tool(turning.with_facts(Facts::zone(Zone::Safe))).unwrap();
    let with_tool = registered(&agent);
    let session = agent.new_session().await.unwrap();
    session.prompt("go").reply().await.unwrap();
    expect![[r#"
        user: go
        call c1.1: write {"path":"prod/a"}
        result c1.1: written "prod/a"
        call c2.1: turn {"on":true}
        result c2.1: turned
        call c3.1: write {"path":"prod/a"}
        result c3.1 (denied): Hook "pre-write" blocked the action: no. Adjust your approach; do not retry the exact same call.
        call c4.1: turn {"on":false}
        result c4.1: turned
        note: <system-reminder>
        A hook that is no longer loaded says: Warning: no
        </system-reminder>
        call c5.1: write {"path":"prod/a"}
        result c5.1: written "prod/a"
        assistant: done
    "#]]
    .assert_eq(&cotter_test::transcript(&session));
    expect![[r#"
        ["./hooks/pre-write.sh"], confined true: {"tool":"write","input":{"path":"prod/a"}}
        ["./hooks/pre-write.sh"], confined true: {"tool":"turn","input":{"on":false},"result":"turned"}
    "#]]
    .assert_eq(&diary.shown());
    assert_eq!(*during.lock().unwrap(), with_tool);
    assert!(agent.undefine_tool("turn"));
    assert_eq!(registered(&agent), before);
}

#[tokio::test]
async fn c14_last_loaded_space_wins_for_equal_names() {
    let (one, two) = (tree(SPACE), tree(SPACE));
    put(two.path(), &[("manifest.json", &MANIFEST.replace("deploy", "other"))]);
    let (agent, _) = agent([]);
    let diary = Diary::default();
    let load = |folder: &TempDir| {
        let space = Space::read(folder.path()).unwrap();
        space.load(&agent, starts(&diary, "")).unwrap()
    };
    assert_eq!(load(&one), ChangeResult::Applied);
    let first = registered(&agent);
    assert_eq!(load(&two), ChangeResult::Applied);
    expect![[r#"
        space:deploy observe audit at tool.post
        space:deploy gate pre-write at tool.pre
        space:other observe audit at tool.post
        space:other gate pre-write at tool.pre
        space:deploy skill docker-deploy, shadowed by space:other (other)
        space:other skill docker-deploy
        space:deploy command ship, shadowed by space:other (other)
        space:other command ship
        space:deploy subagent assistant, shadowed by space:other (other)
        space:other subagent assistant
    "#]]
    .assert_eq(&of_spaces(&agent));
    // A space that is loaded again is the same owner, and keeps its position.
    assert_eq!(load(&one), ChangeResult::Applied);
    assert!(space::unload(&agent, "other"));
    let without_numbers = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| !line.trim().chars().all(|c| c.is_ascii_digit() || c == ','));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(without_numbers(&registered(&agent)), without_numbers(&first));
}

/// A space that is loaded again without its gate keeps the gate: only a person removes it, by unloading.
#[tokio::test]
async fn c14_s2_reloading_a_space_without_its_gate_keeps_the_gate() {
    let folder = tree(SPACE);
    let (agent, _) = agent([]);
    let diary = Diary::default();
    let load = || Space::read(folder.path()).unwrap().load(&agent, starts(&diary, "")).unwrap();
    assert_eq!(load(), ChangeResult::Applied);
    fs::remove_file(folder.path().join("hooks/pre-write.yaml")).unwrap();
    let held =
        vec!["gone: gate `pre-write` at `tool.pre` (runs [\"./hooks/pre-write.sh\"])".to_owned()];
    assert_eq!(load(), ChangeResult::Held { looser: held });
    assert!(of_spaces(&agent).contains("space:deploy gate pre-write"));
    assert!(space::unload(&agent, "deploy"));
    assert_eq!(load(), ChangeResult::Applied);
    assert!(!of_spaces(&agent).contains("gate pre-write"));
}

/// Without the grant a rewrite blocks; with the grant it is applied.
#[tokio::test]
async fn c14_s3_a_space_rewrites_only_with_the_grant() {
    let folder = tree(SPACE);
    let mut shown = String::new();
    for rewrite in [false, true] {
        let (agent, _) = agent([Step::call("write", json!({"path": "a"})), Step::text("done")]);
        let grants = cotter_files::trust::store::Grants::default().with_rewrite(rewrite);
        let space = Space::read(folder.path()).unwrap().with_grants(grants);
        let says = r#"{"modified": {"path": "b"}}"#;
        let _ = space.load(&agent, starts(&Diary::default(), says)).unwrap();
        let session = agent.new_session().await.unwrap();
        session.prompt("go").reply().await.unwrap();
        shown += &cotter_test::transcript(&session);
        let ours = |hook: &cotter::registry::generation::HookInfo| {
            hook.owner.is_same_unit(&space::owner("deploy"))
        };
        let powers = agent.hooks().into_iter().filter(ours).map(|hook| hook.power.as_str());
        shown += &format!("{:?}\n", powers.collect::<Vec<_>>());
    }
    expect![[r#"
        user: go
        call c1.1: write {"path":"a"}
        result c1.1 (denied): Hook "pre-write" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
        assistant: done
        ["observe", "gate"]
        user: go
        call c1.1: write {"path":"a"}
        result c1.1: written "b"
        assistant: done
        ["observe", "transform", "gate"]
    "#]].assert_eq(&shown);
}

#[test]
fn c14_space_with_a_builtin_command_name_loads_without_it() {
    let folder = tree(SPACE);
    put(folder.path(), &[("commands/own.md", "Mine\n"), ("skills/broken.md", "---\nid: [\n---\n")]);
    let (agent, _) = agent([]);
    let space = Space::read(folder.path()).unwrap();
    expect![[r#"
        rejected: skills/broken.md:2: `[` cannot be the name of a skill; use letters, digits, `_` and `-`
    "#]].assert_eq(&show_diagnostics(folder.path(), space.diagnostics()));
    let _ = space.load(&agent, starts(&Diary::default(), "")).unwrap();
    assert!(!of_spaces(&agent).contains("command own"));
}

fn show_diagnostics<'a>(
    root: &Path,
    all: impl IntoIterator<Item = &'a cotter_files::extensions::Diagnostic>,
) -> String {
    let root = format!("{}/", root.canonicalize().unwrap().display());
    let line = |told: &cotter_files::extensions::Diagnostic| {
        format!("{}: {told}\n", told.severity.as_str())
    };
    all.into_iter().map(|told| line(told).replace(&root, "")).collect()
}

/// Shows the exact errors of a space.
fn broken(files: &[(&str, &str)], change: impl Fn(&Path)) -> String {
    let folder = tree(&[SPACE, files].concat());
    change(folder.path());
    let root = folder.path().canonicalize().unwrap();
    match Space::read(folder.path()) {
        Ok(space) => format!("fine: {}\n", show_diagnostics(folder.path(), space.diagnostics())),
        Err(broken) => {
            let told = show_diagnostics(folder.path(), broken.errors());
            told.replace(&*root.to_string_lossy(), "SPACE")
                .replace(&*folder.path().to_string_lossy(), "SPACE")
        }
    }
}

#[test]
fn c14_invalid_space_manifests_have_exact_errors() {
    let cases = [
        "",
        "[]",
        "{",
        "{}",
        r#"{"id": "deploy"}"#,
        r#"{"id": "deploy", "name": "Deployment"}"#,
        r#"{"id": 1, "name": "n", "version": "1"}"#,
        r#"{"id": "", "name": "n", "version": "1"}"#,
        r#"{"id": "De ploy", "name": "n", "version": "1"}"#,
        r#"{"id": "../up", "name": "n", "version": "1"}"#,
        r#"{"id": "-rf", "name": "n", "version": "1"}"#,
        r#"{"id": "a\u001b[31m", "name": "n", "version": "1"}"#,
        r#"{"id": "deploy", "name": "", "version": "1"}"#,
        r#"{"id": "deploy", "name": "n", "version": 1}"#,
        "{\"id\": \"deploy\",\n \"name\": \"n\", \"version\": \"1\", \"descripton\": \"d\"}",
        r#"{"id": "deploy", "name": "n", "version": "1", "hooks": {}}"#,
        r#"{"id": "deploy", "id": "other", "name": "n", "version": "1"}"#,
        r#"{"id": "deploy", "name": "n", "version": "1", "description": []}"#,
        "{\"id\": \"deploy\", \"name\": \"\u{fffd}\", \"version\": \"1\"}",
    ];
    let shown: String = cases
        .iter()
        .map(|case| format!("{case}\n  {}", broken(&[("manifest.json", case)], |_| {})))
        .collect();
    expect![[r#"

          rejected: manifest.json:1: $: expected an object, found the end of the file; an empty settings file is `{}`
        []
          rejected: manifest.json:1: $: expected an object, found a list
        {
          rejected: manifest.json:1: $: object is not closed; add a `}`
        {}
          rejected: manifest.json:1: $: missing key `id`
        {"id": "deploy"}
          rejected: manifest.json:1: $: missing key `name`
        {"id": "deploy", "name": "Deployment"}
          rejected: manifest.json:1: $: missing key `version`
        {"id": 1, "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: expected a string, found the number 1
        {"id": "", "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: `` cannot be the id of a space; use at most 64 lower-case letters, digits and `-`, not `-` first
        {"id": "De ploy", "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: `De ploy` cannot be the id of a space; use at most 64 lower-case letters, digits and `-`, not `-` first
        {"id": "../up", "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: `../up` cannot be the id of a space; use at most 64 lower-case letters, digits and `-`, not `-` first
        {"id": "-rf", "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: `-rf` cannot be the id of a space; use at most 64 lower-case letters, digits and `-`, not `-` first
        {"id": "a\u001b[31m", "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: `a\u{1b}[31m` cannot be the id of a space; use at most 64 lower-case letters, digits and `-`, not `-` first
        {"id": "deploy", "name": "", "version": "1"}
          rejected: manifest.json:1: $.name: expected a string that is not empty, found an empty string
        {"id": "deploy", "name": "n", "version": 1}
          rejected: manifest.json:1: $.version: expected a string, found the number 1
        {"id": "deploy",
         "name": "n", "version": "1", "descripton": "d"}
          rejected: manifest.json:2: $.descripton: unknown key `descripton`; did you mean `description`?
        {"id": "deploy", "name": "n", "version": "1", "hooks": {}}
          rejected: manifest.json:1: $.hooks: unknown key `hooks`; known keys are `$schema`, `id`, `name`, `version`, `description`
        {"id": "deploy", "id": "other", "name": "n", "version": "1"}
          rejected: manifest.json:1: $.id: duplicate key `id`; it is already at manifest.json:1:2; keep one of the two
        {"id": "deploy", "name": "n", "version": "1", "description": []}
          rejected: manifest.json:1: $.description: expected a string, found a list
        {"id": "deploy", "name": "�", "version": "1"}
          fine: 
    "#]].assert_eq(&shown);
}

#[test]
fn c14_s6_space_with_a_broken_gate_or_a_link_is_not_loaded() {
    let none = |_: &Path| {};
    let shown = [
        broken(
            &[("hooks/pre-write.yaml", "id: pre-write\nphase: prod\n"), ("manifest.json", "{}")],
            none,
        ),
        broken(&[], |folder| fs::remove_file(folder.join("manifest.json")).unwrap()),
        broken(&[], |folder| fs::remove_file(folder.join("hooks/pre-write.sh")).unwrap()),
        broken(&[], |folder| {
            fs::rename(folder.join("manifest.json"), folder.join("other.json")).unwrap();
            symlink("other.json", folder.join("manifest.json")).unwrap();
        }),
        broken(&[], |folder| symlink("/etc/passwd", folder.join("skills/passwd.md")).unwrap()),
        broken(&[], |folder| symlink("../..", folder.join("hooks/up")).unwrap()),
        broken(&[], |folder| {
            fs::remove_file(folder.join("hooks/pre-write.sh")).unwrap();
            symlink("../../../../../../bin/true", folder.join("hooks/pre-write.sh")).unwrap();
        }),
        broken(
            &[("hooks/pre-write.yaml", "id: pre-write\nphase: pre\ncommand: ../out.sh\n")],
            none,
        ),
        broken(&[("extensions/x.js", ""), ("settings.json", "{}"), (".mcp.json", "{}")], none),
    ];
    expect![[r#"
        rejected: manifest.json:1: $: missing key `id`
        rejected: hooks/pre-write.yaml:2: there is no phase `prod`; there are `pre`, `post`
        rejected: manifest.json: file not found; a space needs it, with `id`, `name` and `version`
        rejected: hooks/audit.yaml:3: there is no program `./hooks/pre-write.sh` in the folder that has `hooks`
        rejected: hooks/pre-write.yaml: it has no `command`, and no program beside it is called `pre-write` or `pre-write.sh`
        rejected: manifest.json: it is a link, and links are not followed
        rejected: SPACE: skills/passwd.md is a link to a path outside the folder, /etc/passwd; move the link's target into the folder: everything that runs must be in it
        rejected: SPACE: hooks/up is a link to a path outside the folder, ../..; move the link's target into the folder: everything that runs must be in it
        rejected: SPACE: hooks/pre-write.sh is a link to a path outside the folder, ../../../../../../bin/true; move the link's target into the folder: everything that runs must be in it
        rejected: hooks/pre-write.yaml:3: there is no program `../out.sh` in the folder that has `hooks`
        fine: ok: extensions: scripts are not run by this version
        ok: settings.json: a space has no settings; hooks belong in `hooks/*.yaml`
        ok: .mcp.json: a space cannot declare servers

    "#]].assert_eq(&shown.concat());
}
