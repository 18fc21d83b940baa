//! A handler with the power `answer`: it says yes or no for the person. Look at `answer_by_host`. It is
//! asked only if the mode or the zone raised the question. A question from a gate, an ask rule or a kernel
//! gate is for a person.

use std::error::Error;

use cotter::{
    Agent, FnTool, Permit, ToolSpec, Verdict,
    hooks::{
        points::{PermissionAnswer, PermissionAsk, ToolPre},
        ui::Question,
    },
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{ScriptedModel, ScriptedUi, Step, transcript};
use serde_json::json;

fn answer_by_host(question: &Question) -> PermissionAnswer {
    let hosts = || question.calls.iter().map(|call| call.input["host"].as_str());
    if hosts().all(|host| host == Some("docs.example")) {
        return PermissionAnswer::Yes;
    }
    if hosts().any(|host| host == Some("tracker.example")) {
        return PermissionAnswer::No("no trackers".into());
    }
    PermissionAnswer::Pass
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let fetch = |host: &str| Step::call("fetch", json!({"host": host}));
    let model = ScriptedModel::new([
        fetch("docs.example"),
        fetch("tracker.example"),
        fetch("other.example"),
        fetch("docs.example").and_call("fetch", json!({"host": "docs.example", "as": "root"})),
        Step::text("I read what I could."),
    ]);
    let person = ScriptedUi::default();
    let as_root = |call: &cotter::hooks::points::ToolPreEvent| match call.tool_input.get("as") {
        Some(_) => Verdict::ask("it runs as another user"),
        None => Verdict::Pass,
    };
    let agent = Agent::builder(model)
        .tool(fetch_tool())
        .answer(PermissionAsk, answer_by_host)
        .gate(ToolPre, named("as-root", as_root))
        .ui(person.clone())
        .build()?;
    agent.process_request("Read about it.").await?;
    let conversation = transcript(&agent.main_session().await?);
    Ok(format!("the person was asked:\n{}\n{conversation}", person.shown()))
}

/// A simulated fetch. It declares that it uses the network, so the call needs approval.
fn fetch_tool() -> impl cotter::Tool {
    let spec = ToolSpec::new("fetch", "Fetches a page.", json!({"type": "object"}));
    let simulate = |permit: Permit| async move {
        Ok(format!("(simulated) page of {}", permit.input()["host"].as_str().unwrap_or("")).into())
    };
    FnTool::new(spec, simulate).with_facts(Facts::zone(Zone::Network))
}
