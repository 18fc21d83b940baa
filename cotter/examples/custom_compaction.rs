//! A custom compaction: a transform at `compact.pre` gives the summary, and the model is not asked for one.
//! Look at `list_prompts`. A `Block` prevents the compaction; after a failure, the model is asked for the
//! summary.

use std::error::Error;

use cotter::{
    Agent, HookCx, Message,
    history::message::UserMessageKind,
    hooks::points::{CompactPost, CompactPostEvent, CompactPre, CompactPreChange, CompactPreEvent},
    named,
};
use cotter_test::{RecordingModel, ScriptedModel, Step};

fn list_prompts(event: &CompactPreEvent) -> CompactPreChange {
    let prompts = event.messages.iter().filter_map(|message| match message {
        Message::User(user) if user.kind == UserMessageKind::Typed => {
            Some(format!("- {}", user.content.text()))
        }
        _ => None,
    });
    let prompts: Vec<_> = prompts.collect();
    if prompts.is_empty() {
        return CompactPreChange::Block("the person asked nothing".into());
    }
    CompactPreChange::Summary(format!("The person asked:\n{}", prompts.join("\n")))
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let replies = ["Blue.", "Because of scattering.", "Red, in the evening."].map(Step::text);
    let model = RecordingModel::new(ScriptedModel::new(replies));
    let report = |done: &CompactPostEvent, cx: &cotter::Cx| {
        cx.note(format!("{} by {}", done.trigger, done.by.as_deref().unwrap_or("the model")));
    };
    let agent = Agent::builder(model.clone())
        .transform(CompactPre, named("list-prompts", list_prompts))
        .observe(CompactPost, named("report", report))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .build()?;
    for prompt in ["What colour is the sky?", "Why?", "/compact Always?"] {
        agent.process_request(prompt).await?;
    }
    Ok(model.shown())
}
