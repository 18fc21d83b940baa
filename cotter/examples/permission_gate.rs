//! A gate on tool calls: it passes harmless calls, asks a person about risky ones, and blocks forbidden ones.
//! Look at `mind_the_remote`; the reasons are for the person and for the model.

use std::error::Error;

use cotter::{
    Agent, FnTool, Permit, ToolSpec, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{PersonAnswer, Scripted, ScriptedUi, Step, transcript};
use serde_json::json;

fn mind_the_remote(call: &ToolPreEvent) -> Verdict {
    let args = call.tool_input["args"].as_str().unwrap_or_default();
    match args.split_once(' ').map_or(args, |(first, _)| first) {
        "push" if args.contains("--force") => Verdict::block("it would rewrite shared history"),
        "push" => Verdict::ask("others will see it"),
        _ => Verdict::Pass,
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what came of it")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let model = Scripted::new([
        Step::call("git", json!({"args": "status"}))
            .and_call("git", json!({"args": "push"}))
            .and_call("git", json!({"args": "push --force"})),
        Step::text("Pushed, without force."),
    ]);
    let person = ScriptedUi::new([PersonAnswer::Yes]);
    let agent = Agent::builder(model)
        .tool(git())
        .on(ToolPre, named("mind-the-remote", mind_the_remote).tools(["git"]))
        .ui(person.clone())
        .build()?;
    agent.process_request("Push my work.").await?;
    let conversation = transcript(&agent.main_session().await?);
    Ok(format!("asked: {}\n{conversation}", person.shown()))
}

/// A pretended `git`, which says that it is pretended.
fn git() -> impl cotter::Tool {
    let schema = json!({
        "type": "object",
        "properties": {"args": {"type": "string"}},
        "required": ["args"]
    });
    let pretend = |permit: Permit| async move {
        Ok(format!("(pretended) git {}", permit.input()["args"].as_str().unwrap_or("")).into())
    };
    FnTool::new(ToolSpec::new("git", "Runs git.", schema), pretend)
        .touching(Facts::zone(Zone::Safe))
}
