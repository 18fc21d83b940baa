//! `/spaces` in a session with several prompts.

use std::fs;

use cotter::{Session, invoke::named_item::NameKind};
use cotter_files::{
    command_hook::{ProcessOutput, ProcessSpec, ResidentProcess},
    trust::snapshot::Snapshot,
};
use cotter_test::ScriptedModel;

use crate::spaces::*;

/// A hook host that starts nothing, because no call is made.
struct Never;

impl HookHost for Never {
    fn run(
        &self,
        _: ProcessSpec,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        Box::pin(async { Err("nothing is started here".into()) })
    }

    fn serve(&self, _: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        Err("nothing is started here".into())
    }
}

/// Renders everything that is registered.
fn registered(agent: &Agent) -> String {
    let kinds = [NameKind::Skill, NameKind::Command, NameKind::Subagent, NameKind::Hook];
    let names: Vec<_> = kinds.into_iter().flat_map(|kind| agent.names(kind)).collect();
    format!("{:#?}\n{names:#?}\n{:#?}", agent.hooks(), agent.policy())
}

/// Lists the registered hooks and skills of spaces.
fn of_spaces(agent: &Agent) -> Vec<String> {
    let hooks = agent.hooks();
    let hooks = hooks.iter().map(|hook| format!("{}/{}", hook.owner.origin, hook.name));
    let skills = agent.names(NameKind::Skill);
    let skills = skills.iter().map(|skill| format!("{}/{}", skill.owner.origin, skill.name));
    hooks.chain(skills).filter(|line| line.starts_with("space")).collect()
}

/// Creates three spaces, all but `three` trusted.
fn spaces(root: &Path) -> Spaces {
    let (own, store) = (root.join("spaces"), TrustStore::open(root.join("trust")));
    for id in ["one", "two", "three"] {
        let space = own.join(id);
        fs::create_dir_all(space.join("hooks")).unwrap();
        fs::create_dir_all(space.join("skills")).unwrap();
        let manifest = format!(r#"{{"id": "{id}", "name": "N", "version": "1"}}"#);
        fs::write(space.join("manifest.json"), manifest).unwrap();
        let hook = "id: gate\nphase: pre\ncommand: 'true'\n";
        fs::write(space.join("hooks/gate.yaml"), hook).unwrap();
        fs::write(space.join("skills/same.md"), "---\nid: same\n---\ntext\n").unwrap();
        if id != "three" {
            let _ = store.trust(&Snapshot::take(&space).unwrap(), Grants::default()).unwrap();
        }
    }
    let spaces = Spaces::of(&Workspace::new(root), Some(own), Ok(store), &[], &[], false);
    spaces.set_hook_host(&(Arc::new(Never) as Arc<dyn HookHost>));
    spaces
}

/// Runs commands, and renders the reply to each with the registrations of spaces after it.
async fn run_commands(session: &Session, agent: &Agent, root: &Path, typed: &[&str]) -> String {
    let mut transcript = String::new();
    for typed in typed {
        let reply = session.prompt(*typed).reply().await;
        let text = reply.map_or_else(|error| error.to_string(), |reply| reply.text().to_owned());
        let text = text.replace(&*root.to_string_lossy(), "[T]");
        transcript += &format!("> {typed}\n{text}\n  {:?}\n", of_spaces(agent));
    }
    transcript
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the whole transcript is here")]
async fn c14_s2_session_loads_switches_and_unloads_a_space() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let spaces = spaces(&root);
    let builder = Agent::builder(ScriptedModel::new([])).workspace(Workspace::new(&root));
    let agent = builder.extend(|unit| spaces.command(unit)).build().unwrap();
    let before = registered(&agent);
    let session = agent.new_session().await.unwrap();
    let first = run_commands(
        &session,
        &agent,
        &root,
        &[
            "/spaces",
            "/spaces load one",
            "/spaces load two",
            "/spaces",
            "/spaces load three",
            "/spaces switch two",
            "/spaces switch one",
            "/spaces switch three",
            "/spaces switch nine",
        ],
    );
    let first = first.await;
    // The gate is removed from its file. A new load keeps it until a person unloads the space.
    fs::remove_file(root.join("spaces/one/hooks/gate.yaml")).unwrap();
    let typed = ["/spaces load one", "/spaces unload one", "/spaces unload one"];
    let transcript = first + &run_commands(&session, &agent, &root, &typed).await;
    expect_test::expect![[r#"
        > /spaces
        one (trusted)
        three (not trusted)
        two (trusted)
          []
        > /spaces load one
        space `one` is loaded until this run ends: 1 hook, 1 skill
          ["space:one/gate", "space:one/same"]
        > /spaces load two
        space `two` is loaded until this run ends: 1 hook, 1 skill
          ["space:one/gate", "space:two/gate", "space:one/same", "space:two/same"]
        > /spaces
        one (trusted, loaded)
        three (not trusted)
        two (trusted, loaded)
          ["space:one/gate", "space:two/gate", "space:one/same", "space:two/same"]
        > /spaces load three
        command "/spaces" failed: cannot load space `three`: it is not trusted (`cotter trust [T]/spaces/three` shows it and asks; `--trust=HASH` trusts it for one run)
          ["space:one/gate", "space:two/gate", "space:one/same", "space:two/same"]
        > /spaces switch two
        space `one` is unloaded
        space `two` is loaded until this run ends: 1 hook, 1 skill
          ["space:two/gate", "space:two/same"]
        > /spaces switch one
        space `two` is unloaded
        space `one` is loaded until this run ends: 1 hook, 1 skill
          ["space:one/gate", "space:one/same"]
        > /spaces switch three
        command "/spaces" failed: cannot load space `three`: it is not trusted (`cotter trust [T]/spaces/three` shows it and asks; `--trust=HASH` trusts it for one run)
          ["space:one/gate", "space:one/same"]
        > /spaces switch nine
        command "/spaces" failed: there is no space `nine` (`cotter spaces list` shows the spaces)
          ["space:one/gate", "space:one/same"]
        > /spaces load one
        space `one` is loaded until this run ends: 1 hook
        warning: space `one` changed since it was trusted: its trusted hooks still apply, nothing else of it is used (`cotter trust [T]/spaces/one` shows the changes)
          ["space:one/gate"]
        > /spaces unload one
        space `one` is unloaded
          []
        > /spaces unload one
        command "/spaces" failed: no space `one` is loaded
          []
    "#]].assert_eq(&transcript);
    assert_eq!(registered(&agent), before);
    assert_eq!(agent.complete_command("spaces", "l"), ["load"]);
    assert_eq!(agent.complete_command("spaces", "load t"), ["load three", "load two"]);
}
