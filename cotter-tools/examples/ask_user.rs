//! An agent that asks the person for a decision. Look at what the person is shown: the asker, the
//! text behind a bar, and an option for any other answer. Here the person is scripted; a program
//! passes its own `Ui`.

use std::error::Error;

use cotter::Agent;
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use cotter_tools::agents::ask_user::AskUser;
use serde_json::json;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let question = json!({
        "question": "There are two databases in the settings. Which one is to be migrated?",
        "options": ["staging", "archive"],
    });
    let model = ScriptedModel::new([
        Step::call("ask_user", question),
        Step::text("Then I leave both alone and write the migration for the new one."),
    ]);
    let person =
        ScriptedUi::new([PersonAnswer::Choice(2), PersonAnswer::Line("neither, a new one".into())]);
    let agent = Agent::builder(model).ui(person.clone()).hook(AskUser::default()).build()?;
    agent.process_request("Migrate the database.").await?;
    let shown = transcript(&agent.main_session().await?);
    Ok(format!("{}\n{shown}", person.prompts()))
}
