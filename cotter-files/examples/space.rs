//! Loads a space as one owner: a folder with a manifest, a hook, a skill and an agent. In `run`, one call
//! loads the space, and one call unloads it and restores the state before. The program decides how the
//! programs of hooks are started. Here nothing starts them, so the hook fails, and a gate that fails blocks.

use std::{error::Error, fs, os::unix::fs::PermissionsExt, path::Path, pin::Pin, sync::Arc};

use cotter::{
    Agent, hooks::points::PointId, invoke::named_item::NameKind, pipeline::dry_run::DryRun,
};
use cotter_files::{
    command_hook::{HookHost, ProcessOutput, ProcessSpec, ResidentProcess},
    space::{self, Space},
};
use cotter_test::ScriptedModel;
use serde_json::json;

const FILES: [(&str, &str); 5] = [
    ("manifest.json", r#"{"id": "harbour", "name": "Harbour", "version": "1.0.0"}"#),
    ("hooks/no-night.yaml", "id: no-night\nphase: pre\ntools: [sail]\n"),
    ("hooks/no-night.sh", "#!/bin/sh\n"),
    ("skills/tides.md", "---\nid: tides\n---\nHigh water is at noon."),
    ("agents/pilot.yaml", "id: pilot\ndescription: Knows the way in.\nprompt: You know the way.\n"),
];

/// Starts no process. Use `cotter_tools::hooks::HookRunner` to start processes.
struct Nobody;

impl HookHost for Nobody {
    fn run(
        &self,
        _: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        Box::pin(async { Err("nothing is started here".to_owned()) })
    }

    fn serve(&self, _: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        Err("nothing is started here".to_owned())
    }
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    write(folder.path())?;
    let agent = Agent::builder(ScriptedModel::new([])).build()?;
    let mut shown = format!("before: {}\n", everything(&agent).await);
    let space = Space::read(folder.path())?;
    let _ = space.load(&agent, Arc::new(Nobody))?;
    shown += &format!("loaded: {}\n", everything(&agent).await);
    space::unload(&agent, "harbour");
    shown += &format!("after: {}\n", everything(&agent).await);
    Ok(shown)
}

fn write(folder: &Path) -> std::io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Shows the names that can be called, and the verdict about a call.
async fn everything(agent: &Agent) -> String {
    let kinds = [NameKind::Skill, NameKind::Subagent];
    let names = kinds.into_iter().flat_map(|kind| agent.names(kind));
    let names: Vec<_> = names.map(|info| format!("{} by {}", info.name, info.owner)).collect();
    let call = DryRun::at(PointId::ToolPre).with_call("sail", json!({}));
    let tried = agent.try_hooks(call).await;
    format!("{names:?}, a call: {} {:?}", tried.verdict, tried.reason)
}
