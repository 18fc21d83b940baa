//! The cost that in-process hooks add to one tool call.

use cotter::{
    Agent, At, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    named,
};

use crate::{
    measure::{Goal, Table, time, time_difference},
    turns::{Instant, Runs, noop, runtime},
};

fn agent_with(count: usize, waits: bool, tools: &str) -> Agent {
    let mut builder = Agent::builder(Instant::calling()).tool(noop());
    for n in 0..count {
        let name = format!("gate-{n}");
        builder = if waits {
            let gate = |call: At<ToolPre>| async move { passes(&call) };
            builder.on(ToolPre, named(name, gate).tools([tools]))
        } else {
            builder.on(ToolPre, named(name, |call: &ToolPreEvent| passes(call)).tools([tools]))
        };
    }
    builder.build().expect("the agent builds")
}

fn passes(call: &ToolPreEvent) -> Verdict {
    if call.tool_name == "rm" { Verdict::block("no") } else { Verdict::Pass }
}

/// Returns the time that hooks add to a turn with one call. Turns with and without hooks alternate.
fn added(count: usize, waits: bool, tools: &str) -> (f64, f64) {
    let mut bare = Runs::new(|| agent_with(0, false, "*"));
    let mut with = Runs::new(|| agent_with(count, waits, tools));
    time_difference(|| bare.batch(), || with.batch())
}

pub(crate) fn measure(table: &mut Table) {
    if table.wants("point with no handler") {
        // This agent has no handler at `session.end`.
        let agent = Agent::builder(Instant::speaking()).build().expect("the agent builds");
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
    for (what, count, waits, goal) in rows {
        if table.wants(what) {
            let (added, bare) = added(count, waits, "*");
            table.add_beside(what, added, ("turn without hooks", bare), Goal::Nanos(goal));
        }
    }
    let what = "100 hooks that do not match, added per call";
    if table.wants(what) {
        let (added, bare) = added(100, false, "other-*");
        table.add_beside(what, added, ("turn without hooks", bare), Goal::None);
    }
    waiting(table);
}

/// Measures ten gates that wait at the same time.
fn waiting(table: &mut Table) {
    let what = "10 gates that sleep 5 ms, run_pre";
    if !table.wants(what) {
        return;
    }
    let mut builder = Agent::builder(Instant::speaking());
    for n in 0..10 {
        let gate = |_: At<ToolPre>| async {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            Verdict::Pass
        };
        builder = builder.on(ToolPre, named(format!("slow-{n}"), gate));
    }
    let agent = builder.build().expect("the agent builds");
    let runtime = runtime();
    let one = time(|| {
        runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(5)).await })
    });
    let ten = time(|| drop(runtime.block_on(agent.run_pre("noop", serde_json::json!({})))));
    table.add_beside(what, ten, ("one sleep", one), Goal::Ratio(1.4));
}
