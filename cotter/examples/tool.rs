//! A custom tool. Look at `impl Tool for Append`: it declares its input, the facts of a call and its work.
//! Floor, gates and rules decide by these facts. The tool runs with the same input that was decided on.

use std::{error::Error, fs, io::Write, path::PathBuf};

use cotter::{
    Agent, Permit, Tool, ToolError, ToolSpec, Workspace,
    permission::{Zone, facts::Facts},
    tool::ToolFuture,
};
use cotter_test::{ScriptedModel, Step, transcript};
use serde_json::{Value, json};

/// A tool that adds a line to a file of the project.
struct Append(ToolSpec);

impl Append {
    fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"file": {"type": "string"}, "line": {"type": "string"}},
            "required": ["file", "line"],
            "additionalProperties": false
        });
        Append(ToolSpec::new("append", "Adds a line to a file.", schema))
    }
}

impl Tool for Append {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        let path: PathBuf = workspace.cwd().join(input["file"].as_str().unwrap_or_default());
        let inside = path.parent() == Some(workspace.project());
        let zone = if inside { Zone::Workspace } else { Zone::External };
        Facts { writes: vec![path], ..Facts::zone(zone) }
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let failed = |error: std::io::Error| ToolError::failed(error.to_string());
            let line = permit.input()["line"].as_str().unwrap_or_default();
            for path in &permit.facts().writes {
                let mut file =
                    fs::File::options().create(true).append(true).open(path).map_err(failed)?;
                writeln!(file, "{line}").map_err(failed)?;
            }
            Ok("written".into())
        })
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
    let model = ScriptedModel::new([
        Step::call("append", json!({"file": "todo.txt", "line": "buy milk"}))
            .and_call("append", json!({"file": "/elsewhere/todo.txt", "line": "buy milk"}))
            .and_call("append", json!({"file": "todo.txt"})),
        Step::text("It is on the list."),
    ]);
    let agent = Agent::builder(model)
        .tool(Append::new())
        .workspace(Workspace::new(folder.path()))
        .build()?;
    agent.process_request("Remember the milk.").await?;
    let written = fs::read_to_string(folder.path().join("todo.txt"))?;
    Ok(format!("{}todo.txt: {written}", transcript(&agent.main_session().await?)))
}
