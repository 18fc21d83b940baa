//! Concurrent calls of one step.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use cotter::{
    Agent, FnTool, ToolSpec,
    history::message::{StopReason, Usage},
    model::{Delta, Model, ReplyStream, Request},
    permission::{Zone, facts::Facts},
};
use futures_util::stream;
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    measure::{Goal, Table, time},
    turns::runtime,
};

/// A model that makes `calls` calls in every other reply.
struct ManyCalls {
    name: SmolStr,
    calls: usize,
    called: AtomicBool,
}

impl Model for ManyCalls {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> ReplyStream {
        let calling = !self.called.fetch_xor(true, Ordering::Relaxed);
        let mut deltas = vec![];
        for n in 0..if calling { self.calls } else { 0 } {
            let id = format_smolstr!("c{n}");
            deltas.push(Ok(Delta::Call { id, name: "wait".into(), input: json!({}) }));
        }
        let stop_reason = if calling { StopReason::ToolUse } else { StopReason::EndTurn };
        deltas.push(Ok(Delta::Done { stop_reason, usage: Usage::default() }));
        Box::pin(stream::iter(deltas))
    }
}

fn agent(calls: usize) -> Agent {
    let spec = ToolSpec::new("wait", "waits 10 ms", json!({"type": "object"}));
    let wait = FnTool::new(spec, |_| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok("ok".into())
    });
    let wait = wait.parallel().with_facts(Facts::zone(Zone::Safe));
    let name = "bench/many".into();
    let model = ManyCalls { name, calls, called: AtomicBool::new(false) };
    Agent::builder(model).tool(wait).build().expect("the agent builds")
}

pub(crate) fn measure(table: &mut Table) {
    let row = "20 parallel calls of 10 ms";
    if !table.wants(row) {
        return;
    }
    let run = |calls: usize| {
        let (agent, runtime) = (agent(calls), runtime());
        time(|| assert!(runtime.block_on(agent.process_request("go")).is_ok()))
    };
    let one = run(1);
    table.add_beside(row, run(20), ("one such call", one), Goal::Ratio(1.05));
}
