//! Whole runs with an in-process model: text, and text after one tool call.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use cotter::{
    Agent, FnTool, Session, ToolSpec,
    history::{
        jsonl::JsonlStore,
        message::{StopReason, Usage},
        message_list::MessageList,
    },
    model::{Delta, Model, ReplyStream, Request, Thinking},
    permission::{Zone, facts::Facts},
};
use futures_util::{StreamExt, stream};
use serde_json::json;
use smol_str::SmolStr;
use tokio::runtime::{Builder, Runtime};

use crate::measure::{Goal, Table, median_of};

/// A model that answers at once. If `calls` is set, every other reply is a tool call.
pub(crate) struct InstantModel {
    name: SmolStr,
    calls: bool,
    called: AtomicBool,
}

impl InstantModel {
    pub(crate) fn with_text() -> Self {
        InstantModel { name: "bench/instant".into(), calls: false, called: AtomicBool::new(false) }
    }

    pub(crate) fn with_calls() -> Self {
        InstantModel { calls: true, ..InstantModel::with_text() }
    }
}

impl Model for InstantModel {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> ReplyStream {
        let usage = Usage::default();
        let call = self.calls && !self.called.fetch_xor(true, Ordering::Relaxed);
        let first = if call {
            Delta::Call { id: "c1".into(), name: "noop".into(), input: json!({}) }
        } else {
            Delta::Text("All right.".into())
        };
        let stop_reason = if call { StopReason::ToolUse } else { StopReason::EndTurn };
        Box::pin(stream::iter([Ok(first), Ok(Delta::Done { stop_reason, usage })]))
    }
}

/// Makes a tool that does nothing and returns at once.
pub(crate) fn noop() -> impl cotter::Tool {
    let spec = ToolSpec::new("noop", "does nothing", json!({"type": "object"}));
    FnTool::new(spec, |_| async { Ok("ok".into()) }).with_facts(Facts::zone(Zone::Safe))
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

/// Runs on one agent after another. Each agent is dropped with its memory before its session gets long.
pub(crate) struct Runs<F> {
    runtime: Runtime,
    make: F,
    session: Option<Session>,
}

impl<F: Fn() -> Agent> Runs<F> {
    pub(crate) fn new(make: F) -> Self {
        Runs { runtime: runtime(), make, session: None }
    }

    /// Returns the mean time of 200 runs on a fresh agent.
    pub(crate) fn batch(&mut self) -> f64 {
        const BATCH: u32 = 200;
        self.session = None;
        let session = self.runtime.block_on((self.make)().new_session());
        let session = self.session.insert(session.expect("a session is made"));
        let started = std::time::Instant::now();
        for _ in 0..BATCH {
            let reply = self.runtime.block_on(session.prompt("hello"));
            assert!(reply.is_ok(), "the run works");
        }
        started.elapsed().as_nanos() as f64 / f64::from(BATCH)
    }
}

pub(crate) fn measure(table: &mut Table) {
    let rows: [(&str, bool, bool, f64); 4] = [
        ("text turn, memory", false, false, 1_500.0),
        ("turn with one tool, memory", true, false, 5_000.0),
        ("text turn, JSON lines", false, true, 6_000.0),
        ("turn with one tool, JSON lines", true, true, 15_000.0),
    ];
    for (row, with_calls, file, goal) in rows {
        if !table.wants(row) {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder is made");
        let mut runs = Runs::new(|| {
            let model =
                if with_calls { InstantModel::with_calls() } else { InstantModel::with_text() };
            let builder = Agent::builder(model).tool(noop());
            let builder =
                if file { builder.store(JsonlStore::new(folder.path())) } else { builder };
            builder.build().expect("the agent builds")
        });
        // The floor is measured in turn with the runs, so that a busy moment affects both.
        let mut floors = vec![];
        let ours = median_of(200, || {
            floors.push(model_alone());
            runs.batch()
        });
        let floor = median_of(floors.len(), || floors.pop().unwrap_or_default());
        table.add_beside(row, ours, ("the model alone", floor), Goal::Nanos(goal));
    }
}

/// Returns the mean time of 200 answers of the model on a runtime, without an agent.
fn model_alone() -> f64 {
    const BATCH: u32 = 200;
    let (runtime, model) = (runtime(), InstantModel::with_text());
    let started = std::time::Instant::now();
    for _ in 0..BATCH {
        let request = Request {
            system: "".into(),
            messages: MessageList::default(),
            notes: 0,
            tools: Arc::default(),
            thinking: Thinking::Off,
            max_tokens: None,
        };
        let deltas = runtime.block_on(model.stream(request).collect::<Vec<_>>());
        assert_eq!(std::hint::black_box(deltas).len(), 2);
    }
    started.elapsed().as_nanos() as f64 / f64::from(BATCH)
}
