//! Notes of one session are found in another. Look at the file: a person can read, fix or delete
//! it. Agents with `memory` in their config have the tools; `project_key` gives a folder per
//! project.

use std::{error::Error, fs, path::Path};

use cotter::Agent;
use cotter_test::{ScriptedModel, Step, transcript};
use cotter_tools::memory::{Memory, project_key};
use serde_json::json;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

async fn session(folder: &Path, prompt: &str, steps: [Step; 2]) -> Result<String, Box<dyn Error>> {
    let agent = Agent::builder(ScriptedModel::new(steps))
        .config(|config| config.memory = true)
        .hook(Memory::open(folder)?)
        .build()?;
    agent.process_request(prompt).await?;
    Ok(transcript(&agent.main_session().await?))
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let data = tempfile::tempdir()?;
    let folder = data.path().join("memory").join(project_key(Path::new("/home/me/shop")));
    let note = json!({"text": "Prices are integers, in cents.", "tags": ["money"]});
    let first = [Step::call("remember", note), Step::text("I will keep that in mind.")];
    let first = session(&folder, "Never use floats for prices.", first).await?;
    let ask = [Step::call("recall", json!({"query": "price format"})), Step::text("In cents.")];
    let second = session(&folder, "How do we store a price?", ask).await?;
    let mut file = String::new();
    for found in fs::read_dir(&folder)? {
        file += &fs::read_to_string(found?.path())?;
    }
    let shown = format!("{file}--\n{first}--\n{second}");
    // The time and the id made from it differ in each run.
    let value = |key: &str| file.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("");
    Ok(shown.replace(value("id: "), "ID").replace(value("created: "), "WHEN"))
}
