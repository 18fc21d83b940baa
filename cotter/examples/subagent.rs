//! Subagents: agents that the model calls by name, through the tool `invoke_subagent`. Look at the two ways
//! to make one: from a config (`reviewer`), and by a function that builds an agent for the calling run
//! (`translator`). A subagent sees only its prompt, not the conversation. It is under the parent's gates,
//! ledger and budget, and can do nothing that the parent could not do.

use std::error::Error;

use cotter::{
    Agent, AgentConfig, Subagent,
    builtin::List,
    history::message::Content,
    invoke::{callable::BoxError, subagent::SubagentCx},
};
use cotter_test::{RecordingModel, ScriptedModel, Step, transcript};
use serde_json::json;

fn reviewer() -> Subagent {
    Subagent::agent(
        AgentConfig::new("reviewer")
            .with_description("Reviews code. Give it what to look at.")
            .with_system_prompt("You review code. You change nothing.")
            .with_tools(["read", "list"]),
    )
}

async fn translator(cx: SubagentCx) -> Result<Content, BoxError> {
    let small = ScriptedModel::new([Step::text("Sieht gut aus.")]).named("test/small");
    let agent = cx.child().id("translator").system_prompt("Translate.").model(small).build()?;
    Ok(agent.process_request(cx.prompt.as_str()).await?.text().into())
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let call = |name: &str, prompt: &str| {
        Step::call("invoke_subagent", json!({"name": name, "prompt": prompt}))
    };
    let model = RecordingModel::new(ScriptedModel::new([
        call("reviewer", "Review the folder."),
        // The reviewer asks the same model, and gets this reply.
        Step::text("Looks good."),
        call("translator", "Looks good."),
        Step::text("The reviewer says: Sieht gut aus."),
    ]));
    let agent = Agent::builder(model.clone())
        .system_prompt("You keep a repository.")
        .tool(List::default())
        .define_mention(reviewer())
        .define_mention(Subagent::new("translator", translator).description("ApiFormat German."))
        .build()?;
    agent.process_request("@reviewer look at it, and tell me in German").await?;
    let conversation = transcript(&agent.main_session().await?);
    let mut report = conversation + "\n";
    for request in model.requests() {
        let tools: Vec<_> = request.tools.specs().map(|spec| spec.name.as_str()).collect();
        let system = request.system.lines().next().unwrap_or_default();
        report += &format!("{system} {} messages, {}\n", request.messages.len(), tools.join(" "));
    }
    Ok(report)
}
