//! Four hooks on directives: `/compact` compacts first, `/opus` asks another model once, `/cancel` answers
//! without the model, `/formal` rewrites the text. Look at `recipes`. A name that is not registered stays in
//! the text.

use std::error::Error;

use cotter::{Agent, HookCx, HookResult, Registry, agent::controls::ModelScope, model::Model};
use cotter_test::{RecordingModel, ScriptedModel, Step, transcript};

fn recipes(unit: &mut Registry, opus: impl Model + Clone) {
    unit.define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await });
    unit.define_hook("opus", move |cx: HookCx| {
        let opus = opus.clone();
        async move { cx.controls.set_model(opus, ModelScope::Turn) }
    });
    unit.define_hook("cancel", |_| async {
        HookResult::short_circuit("Cancelled: nothing was sent to the model.")
    });
    unit.define_hook("formal", |cx: HookCx| async move {
        HookResult::rewrite(cx.parsed_text.replace("gonna", "going to"))
    });
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let replies = ["I see.", "They want to sail.", "On we go."].map(Step::text);
    let small = RecordingModel::new(ScriptedModel::new(replies).named("test/small"));
    let opus =
        RecordingModel::new(ScriptedModel::new([Step::text("A deep answer.")]).named("test/opus"));
    let agent = Agent::builder(small.clone()).extend(|unit| recipes(unit, opus.clone())).build()?;
    for prompt in
        ["/formal I'm gonna sail, ping /me", "/opus why?", "/cancel forget it", "/compact and now?"]
    {
        agent.process_request(prompt).await?;
    }
    let stored = transcript(&agent.main_session().await?);
    Ok(format!("small:\n{}\nopus:\n{}\nstored:\n{stored}", small.shown(), opus.shown()))
}
