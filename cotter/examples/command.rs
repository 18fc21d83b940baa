//! Commands: a leading `/name args` runs at once, without the model. Look at the result of each command: a
//! status is for the person, a text is a prompt for the agent, and an empty result does nothing.

use std::error::Error;

use cotter::{
    Agent, Command,
    invoke::command::{CommandCx, CommandResult},
};
use cotter_test::{ScriptedModel, Step, transcript};

async fn name(cx: CommandCx) -> Result<CommandResult, Box<dyn Error + Send + Sync>> {
    cx.controls.session().set_name(&cx.args.join(" "))?;
    Ok(CommandResult::status(match cx.controls.session().name() {
        Some(name) => format!("the session is now named {name:?}"),
        None => "the session has no name".into(),
    }))
}

async fn standup(cx: CommandCx) -> String {
    let who = cx.args.first().map_or("everybody", String::as_str);
    format!("Write a stand-up note for {who}. {} entries so far.", cx.controls.entries().len())
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let agent = Agent::builder(ScriptedModel::new([Step::text("All is well.")]))
        .define_command(Command::new("name", name).description("Names the session."))
        .define_command(Command::new("standup", standup).description("Drafts a note.").completions(
            |typed| {
                let names = ["ann", "anton", "bo"].into_iter();
                names.filter(|name| name.starts_with(typed)).map(str::to_owned).collect()
            },
        ))
        .build()?;
    let mut report = String::new();
    for command in agent.commands() {
        report += &format!("/{}: {}\n", command.name, command.description);
    }
    report += &format!("standup an…: {:?}\n", agent.complete_command("standup", "an"));
    for typed in ["/name \"a fine day\"", "/standup ann"] {
        let reply = agent.process_request(typed).await?;
        report += &format!("{typed} -> {} ({} requests)\n", reply.text(), reply.steps);
    }
    Ok(report + "\n" + &transcript(&agent.main_session().await?))
}
