//! Context transforms: the model may get other messages than the stored ones. Look at `last_two_turns`, a
//! transform that sees all messages, and at `short_results`, which looks at one message at a time. Its
//! changes are cached, so a new turn of a long session costs only its new messages. The history itself is not
//! changed.

use std::error::Error;

use cotter::{
    Agent, FnTool, Message, ToolSpec,
    history::{
        message::{Content, UserMessageKind},
        message_list::MessageChange,
    },
    hooks::points::{Context, ContextChange, ContextEvent, each_message},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{RecordingModel, ScriptedModel, Step, transcript};
use serde_json::json;

fn last_two_turns(event: &ContextEvent) -> ContextChange {
    let is_typed = |message: &Message| matches!(message, Message::User(user) if user.kind == UserMessageKind::Typed);
    let turns = event.messages.iter().filter(|message| is_typed(message)).count();
    let mut turn = 0;
    ContextChange::Messages(event.messages.map_messages(|_, message| {
        turn += usize::from(is_typed(message));
        if turn + 2 > turns { MessageChange::Keep } else { MessageChange::Drop }
    }))
}

fn short_results(message: &Message) -> MessageChange {
    let Message::ToolResult(result) = message else { return MessageChange::Keep };
    let text = result.content.text();
    let Some((first, rest)) = text.split_once('\n') else { return MessageChange::Keep };
    let mut result = result.clone();
    result.content = Content::Text(format!("{first} [and {} more lines]", rest.lines().count()));
    MessageChange::Replace(Message::ToolResult(result))
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let model = RecordingModel::new(ScriptedModel::new([
        Step::text("Hello."),
        Step::call("log", json!({})),
        Step::text("It started."),
        Step::text("You are welcome."),
    ]));
    let spec = ToolSpec::new("log", "Shows the log.", json!({"type": "object"}));
    let log = FnTool::new(spec, |_| async { Ok("started\nlistening\nready".into()) });
    let agent = Agent::builder(model.clone())
        .tool(log.with_facts(Facts::zone(Zone::Safe)))
        .transform(Context, last_two_turns)
        .transform(Context, named("short-results", each_message(short_results)))
        .build()?;
    for prompt in ["Hello?", "How is the server?", "Thanks."] {
        agent.process_request(prompt).await?;
    }
    let stored = transcript(&agent.main_session().await?);
    Ok(format!("{}\nstored:\n{stored}", model.shown()))
}
