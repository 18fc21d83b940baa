//! Several subagents at once, with the run's budget divided among them. Look at the results: they
//! come in the order of the tasks, and a failed task ends no other.

use std::error::Error;

use cotter::{Agent, Subagent, invoke::subagent::SubagentCx};
use cotter_test::{ScriptedModel, Step, transcript};
use cotter_tools::agents::delegate::Delegate;
use serde_json::json;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let tasks = json!({"tasks": [
        {"agent": "reader", "prompt": "parser.rs"},
        {"agent": "reader", "prompt": "missing.rs"},
        {"agent": "counter", "prompt": "parser.rs", "max_turns": 3},
    ]});
    let reader = |cx: SubagentCx| async move {
        match cx.prompt.as_str() {
            "missing.rs" => Err("there is no such file".into()),
            file => Ok(format!("{file} parses").into()),
        }
    };
    // A child agent for the run: it has the same gates, and spends from its task's share.
    let counter = |cx: SubagentCx| async move {
        let model = ScriptedModel::new([Step::text("212 lines")]);
        let child = cx.child().id("counter").model(model).build()?;
        Ok(child.process_request(cx.prompt.as_str()).await?.text().into())
    };
    let model = ScriptedModel::new([Step::call("delegate", tasks), Step::text("Two of three.")]);
    let agent = Agent::builder(model)
        .define_mention(Subagent::new("reader", reader).description("Reads a file."))
        .define_mention(Subagent::new("counter", counter).description("Counts lines."))
        .hook(Delegate)
        .build()?;
    agent.process_request("Look at these.").await?;
    Ok(transcript(&agent.main_session().await?))
}
