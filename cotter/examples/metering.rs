//! Observers that meter a session: tokens and money per model, the share of input from the provider's cache,
//! and a line when a run ends. Look at `meter`: an extension is a function over a `Registry`, and its state
//! is what its handlers capture.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use cotter::{
    Agent, Registry,
    history::message::Usage,
    hooks::points::{ModelPost, ModelPostEvent, SessionEnd, SessionEndEvent},
};
use cotter_test::{ScriptedModel, Step};

/// The usage so far, by model.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<BTreeMap<String, ModelUsage>>>);

/// The usage of one model.
#[derive(Clone, Copy, Default)]
struct ModelUsage {
    replies: u32,
    tokens: u64,
    cache_read: u64,
    cache_write: u64,
    usd: f64,
}

fn meter(unit: &mut Registry, meter: &Meter, log: &Arc<Mutex<String>>) {
    let usage = meter.0.clone();
    unit.observe(ModelPost, move |reply: &ModelPostEvent| {
        let mut usage = usage.lock().unwrap_or_else(PoisonError::into_inner);
        let model_usage = usage.entry(reply.model.to_string()).or_default();
        model_usage.replies += 1;
        model_usage.tokens += reply.input_tokens + reply.output_tokens;
        model_usage.cache_read += reply.cache_read;
        model_usage.cache_write += reply.cache_write;
        model_usage.usd += reply.cost_usd.unwrap_or(0.0);
    });
    let (usage, log) = (meter.0.clone(), log.clone());
    unit.observe(SessionEnd, move |ended: &SessionEndEvent| {
        let usage = usage.lock().unwrap_or_else(PoisonError::into_inner);
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        for (model, usage) in &*usage {
            let ModelUsage { replies, tokens, cache_read, cache_write, usd } = usage;
            let why = ended.reason.as_str();
            let _ = writeln!(
                log,
                "{why}: {model}, replies {replies}, tokens {tokens}, cache {cache_read} read and \
                 {cache_write} written, {usd:.3} USD",
            );
        }
    });
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let fresh = Usage { input_tokens: 900, output_tokens: 100, cache_write: 800, cache_read: 0 };
    let cached = Usage { input_tokens: 100, output_tokens: 100, cache_write: 100, cache_read: 800 };
    let steps = [Step::text("One.").and_usage(fresh), Step::text("Two.").and_usage(cached)];
    let model = ScriptedModel::new(steps).priced(0.002);
    let log = Arc::default();
    let agent =
        Agent::builder(model).extend(|unit| meter(unit, &Meter::default(), &log)).build()?;
    agent.process_request("Count.").await?;
    agent.process_request("Go on.").await?;
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(log.clone())
}
