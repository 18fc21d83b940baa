//! A gate on tool calls: it passes harmless calls, asks a person about risky ones, and blocks forbidden ones.
//! Look at `check_push`; the reasons are for the person and for the model.

use std::error::Error;

use cotter::{
    Agent, FnTool, Permit, ToolSpec, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use serde_json::json;

fn check_push(call: &ToolPreEvent) -> Verdict {
    let args = call.tool_input["args"].as_str().unwrap_or_default();
    match args.split_once(' ').map_or(args, |(first, _)| first) {
        "push" if args.contains("--force") => Verdict::block("it would rewrite shared history"),
        "push" => Verdict::ask("others will see it"),
        _ => Verdict::Pass,
    }
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let model = ScriptedModel::new([
        Step::call("git", json!({"args": "status"}))
            .and_call("git", json!({"args": "push"}))
            .and_call("git", json!({"args": "push --force"})),
        Step::text("Pushed, without force."),
    ]);
    let person = ScriptedUi::new([PersonAnswer::Yes]);
    let agent = Agent::builder(model)
        .tool(git())
        .gate(ToolPre, named("check-push", check_push).tools(["git"]))
        .ui(person.clone())
        .build()?;
    agent.process_request("Push my work.").await?;
    let conversation = transcript(&agent.main_session().await?);
    Ok(format!("asked: {}\n{conversation}", person.shown()))
}

/// A simulated `git`, which runs nothing.
fn git() -> impl cotter::Tool {
    let schema = json!({
        "type": "object",
        "properties": {"args": {"type": "string"}},
        "required": ["args"]
    });
    let simulate = |permit: Permit| async move {
        Ok(format!("(simulated) git {}", permit.input()["args"].as_str().unwrap_or("")).into())
    };
    FnTool::new(ToolSpec::new("git", "Runs git.", schema), simulate)
        .with_facts(Facts::zone(Zone::Safe))
}
