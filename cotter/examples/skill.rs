//! A skill: `/tone` anywhere in a prompt adds a text before the prompt. Look at `tone`. The model gets the
//! text as a separate message, marked so that a renderer can fold it.

use std::error::Error;

use cotter::{
    Agent, Skill,
    history::message::Content,
    invoke::{callable::BoxError, skill::SkillCx},
};
use cotter_test::{RecordingModel, ScriptedModel, Step};

async fn tone(cx: SkillCx) -> Result<Content, BoxError> {
    let formal = cx.parsed_text.contains("Sir");
    Ok(if formal { "Answer as a butler would." } else { "Answer as a friend would." }.into())
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let model =
        RecordingModel::new(ScriptedModel::new([Step::text("At noon."), Step::text("Noon!")]));
    let agent = Agent::builder(model.clone())
        .define_skill(Skill::new("tone", tone))
        .define_skill(Skill::text("brief", "One sentence, no more."))
        .build()?;
    agent.process_request("/tone Dear Sir, when is lunch? /brief").await?;
    agent.new_session().await?.prompt("/tone hey, lunch? see /usr/bin/lunch").await?;
    Ok(model.shown())
}
