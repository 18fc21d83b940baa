//! Loads skills from a folder: one has a trigger and is added by itself, one is broken and gets a diagnostic.
//! In `run`, the whole folder is read, its contents are registered under one owner, and unloading that owner
//! removes them.

use std::{error::Error, fs};

use cotter::{Agent, Origin, Owner};
use cotter_files::extensions::{self, LoadContext};
use cotter_test::{RecordingModel, ScriptedModel, Step};

const TIDES: &str =
    "---\nid: tides\ntriggers: [sail, harbour]\n---\nMind the tide: high water is at noon.";
const BROKEN: &str =
    "---\nid: broken\ntriggers:\n  - pattern: '('\n    type: regex\n---\nNever read.";

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("skills"))?;
    fs::write(folder.path().join("skills/tides.md"), TIDES)?;
    fs::write(folder.path().join("skills/broken.md"), BROKEN)?;

    let model =
        RecordingModel::new(ScriptedModel::new([Step::text("At noon."), Step::text("Fine.")]));
    let agent = Agent::builder(model.clone()).build()?;
    let loaded = extensions::load(folder.path(), &LoadContext::trusted(Origin::User));
    let owner = Owner::new(Origin::User, "my folder");
    agent.extend(owner.clone(), |unit| loaded.register(unit))?;
    agent.new_session().await?.prompt("When can we sail?").await?;
    agent.unload(&owner);
    agent.new_session().await?.prompt("And sail back?").await?;

    let mut shown = String::new();
    for told in &loaded.diagnostics {
        let name = told.path.file_name().unwrap_or_default().display();
        shown += &format!("{name}, line {}: {}\n", told.line.unwrap_or(1), told.message);
    }
    for request in model.requests() {
        shown += &format!("system: {}\n", request.system);
    }
    Ok(shown)
}
