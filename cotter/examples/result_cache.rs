//! A cache of tool results: a transform at `tool.pre` answers for the tool, and an observer at `tool.post`
//! stores the results of tools. Look at `Cache::register`. Floor and gates still decide about a call that is
//! answered here; the ledger says `answer`.

use std::{
    collections::HashMap,
    error::Error,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use cotter::{
    Agent, FnTool, Registry, ToolOutput, ToolSpec,
    hooks::points::{ToolPost, ToolPostEvent, ToolPre, ToolPreChange, ToolPreEvent},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{ScriptedModel, Step};
use serde_json::{Value, json};

/// The results of harmless calls, by tool and input.
#[derive(Clone, Default)]
struct Cache(Arc<Mutex<HashMap<(String, String), ToolOutput>>>);

impl Cache {
    fn register(&self, unit: &mut Registry) {
        let cache = self.clone();
        let answer = move |call: &ToolPreEvent| match cache.get(&call.tool_name, &call.tool_input) {
            Some(output) => ToolPreChange::Answer(output),
            None => ToolPreChange::Keep,
        };
        unit.transform(ToolPre, named("cache", answer));
        let cache = self.clone();
        unit.observe(ToolPost, move |ran: &ToolPostEvent| {
            if let (Ok(output), false) = (&*ran.output, ran.facts.has_effects()) {
                cache.put(&ran.tool_name, &ran.tool_input, output.clone());
            }
        });
    }

    fn get(&self, tool: &str, input: &Value) -> Option<ToolOutput> {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.get(&(tool.to_owned(), input.to_string())).cloned()
    }

    fn put(&self, tool: &str, input: &Value, output: ToolOutput) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert((tool.to_owned(), input.to_string()), output);
    }
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let ask = || Step::call("weather", json!({"city": "Oban"}));
    let model = ScriptedModel::new([ask(), ask(), Step::text("Still rain.")]);
    let run_count = Arc::new(AtomicU32::new(0));
    let count = run_count.clone();
    let spec = ToolSpec::new("weather", "Tells the weather.", json!({"type": "object"}));
    let weather = FnTool::new(spec, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok("rain".into()) }
    });
    let agent = Agent::builder(model)
        .tool(weather.with_facts(Facts::zone(Zone::Safe)))
        .extend(|unit| Cache::default().register(unit))
        .build()?;
    let session = agent.new_session().await?;
    session.prompt("How is the weather? Look twice.").await?;

    let mut report = format!("the tool ran {} time\n", run_count.load(Ordering::Relaxed));
    for line in agent.store().lines(session.id())? {
        let row: Value = serde_json::from_slice(&line)?;
        if row["type"] == "ledger" {
            report += &format!("{}: {}\n", row["callId"], row["verdict"]);
        }
    }
    Ok(report)
}
