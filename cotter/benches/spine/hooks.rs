//! The cost that in-process hooks add to one tool call.

use cotter::{
    Agent, At, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    named,
};

use crate::{
    measure::{Goal, Table, time, time_difference},
    turns::{InstantModel, Runs, noop, runtime},
};

fn agent_with(count: usize, is_async: bool, tools: &str) -> Agent {
    let mut builder = Agent::builder(InstantModel::with_calls()).tool(noop());
    for n in 0..count {
        let name = format!("gate-{n}");
        builder = if is_async {
            let gate = |call: At<ToolPre>| async move { decide(&call) };
            builder.gate(ToolPre, named(name, gate).tools([tools]))
        } else {
            builder.gate(ToolPre, named(name, |call: &ToolPreEvent| decide(call)).tools([tools]))
        };
    }
    builder.build().expect("the agent builds")
}

fn decide(call: &ToolPreEvent) -> Verdict {
    if call.tool_name == "rm" { Verdict::block("no") } else { Verdict::Pass }
}

/// Returns the time that hooks add to a turn with one call, and the time of the turn without hooks. Turns
/// with and without hooks alternate.
fn added_time(count: usize, is_async: bool, tools: &str) -> (f64, f64) {
    let mut bare = Runs::new(|| agent_with(0, false, "*"));
    let mut hooked = Runs::new(|| agent_with(count, is_async, tools));
    time_difference(|| bare.batch(), || hooked.batch())
}

pub(crate) fn measure(table: &mut Table) {
    if table.wants("point with no handler") {
        // This agent has no handler at `session.end`.
        let agent = Agent::builder(InstantModel::with_text()).build().expect("the agent builds");
        let probe = agent.silent_point_probe();
        table.add("point with no handler", time(|| assert!(!probe())), Goal::Nanos(2.0));
    }
    let rows = [
        ("1 sync hook, added per call", 1, false, 150.0),
        ("10 sync hooks, added per call", 10, false, 800.0),
        ("100 sync hooks, added per call", 100, false, 7_000.0),
        ("1 async hook, added per call", 1, true, 200.0),
        ("10 async hooks, added per call", 10, true, 1_200.0),
        ("100 async hooks, added per call", 100, true, 12_000.0),
    ];
    for (row, count, is_async, goal) in rows {
        if table.wants(row) {
            let (added, bare) = added_time(count, is_async, "*");
            table.add_beside(row, added, ("turn without hooks", bare), Goal::Nanos(goal));
        }
    }
    let row = "100 hooks that do not match, added per call";
    if table.wants(row) {
        let (added, bare) = added_time(100, false, "other-*");
        table.add_beside(row, added, ("turn without hooks", bare), Goal::None);
    }
    measure_waiting(table);
}

/// Measures ten gates that wait at the same time.
fn measure_waiting(table: &mut Table) {
    let row = "10 gates that sleep 5 ms, run_pre";
    if !table.wants(row) {
        return;
    }
    let mut builder = Agent::builder(InstantModel::with_text());
    for n in 0..10 {
        let gate = |_: At<ToolPre>| async {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            Verdict::Pass
        };
        builder = builder.gate(ToolPre, named(format!("slow-{n}"), gate));
    }
    let agent = builder.build().expect("the agent builds");
    let runtime = runtime();
    let one = time(|| {
        runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(5)).await })
    });
    let ten = time(|| drop(runtime.block_on(agent.run_pre("noop", serde_json::json!({})))));
    table.add_beside(row, ten, ("one sleep", one), Goal::Ratio(1.4));
}
