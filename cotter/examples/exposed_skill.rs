//! A skill that the model calls by itself, through the tool `invoke_skill`. Look at `expose_to_agent`: name
//! and description are in the tool's own description; the text is sent only when the model calls the skill.

use std::error::Error;

use cotter::{
    Agent, Skill,
    history::message::Content,
    invoke::{
        callable::BoxError,
        skill::{SkillCaller, SkillCx},
    },
};
use cotter_test::{RecordingModel, ScriptedModel, Step};
use serde_json::json;

async fn citations(cx: SkillCx) -> Result<Content, BoxError> {
    let style = cx.args.unwrap_or_else(|| "plain".into());
    Ok(match cx.source {
        SkillCaller::Agent => format!("Cite every claim, in {style} style."),
        _ => "Cite every claim.".to_owned(),
    }
    .into())
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let model = RecordingModel::new(ScriptedModel::new([
        Step::call("invoke_skill", json!({"name": "citations", "args": "Oxford"})),
        Step::call("invoke_skill", json!({"name": "poetry"})),
        Step::text("Ribosomes make proteins (Palade 1955)."),
    ]));
    let agent = Agent::builder(model.clone())
        .define_skill(
            Skill::new("citations", citations)
                .description("How to cite sources. Call for it before writing on science.")
                .expose_to_agent(),
        )
        .define_skill(Skill::text("poetry", "In verse."))
        .build()?;
    agent.process_request("What are ribosomes?").await?;
    let requests = model.requests();
    let offered =
        requests[0].tools.specs().map(|spec| format!("{}: {}\n", spec.name, spec.description));
    let conversation = cotter_test::transcript(&agent.main_session().await?);
    Ok(format!("{}\n{conversation}", offered.collect::<String>()))
}
