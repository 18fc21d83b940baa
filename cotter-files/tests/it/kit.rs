//! Helpers of these tests: a diary of events, and tools that write into it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{
    Agent, FnTool, Reply, RunError, Session, Tool, ToolSpec,
    permission::{Zone, facts::Facts},
};
use serde_json::json;

/// A list of events in order. Clones write into the same diary.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All lines so far, each with a line end.
    pub(crate) fn shown(&self) -> String {
        self.lines().iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A tool that takes any object, writes `NAME INPUT` into the diary and answers `NAME ran`.
pub(crate) fn probe(name: &'static str, zone: Zone, diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec(name), move |permit| {
        diary.add(format!("{name} {}", permit.input()));
        async move { Ok(format!("{name} ran").into()) }
    })
    .touching(Facts::zone(zone))
}

/// A harmless tool that may run in parallel and takes as long as its input says (`ms`). It records its start
/// and its end.
pub(crate) fn nap(diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec("nap"), move |permit| napping(permit, diary.clone()))
        .parallel()
        .touching(Facts::zone(Zone::Safe))
}

async fn napping(
    permit: cotter::Permit,
    diary: Diary,
) -> Result<cotter::ToolOutput, cotter::ToolError> {
    diary.add(format!("{} starts", permit.call_id()));
    tokio::time::sleep(Duration::from_millis(permit.input()["ms"].as_u64().unwrap_or(0))).await;
    diary.add(format!("{} ends", permit.call_id()));
    Ok(format!("{} rested", permit.call_id()).into())
}

pub(crate) fn spec(name: &'static str) -> ToolSpec {
    ToolSpec::new(name, format!("the tool {name}"), json!({"type": "object"}))
}

/// Shows why a run ended, with its details.
pub(crate) fn ending(reply: &Result<Reply, RunError>) -> String {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => &error.reply,
    };
    match &reply.error {
        Some(failed) => format!("{}: {}: {}", reply.reason.as_str(), failed.code, failed.message),
        None => reply.reason.as_str().into(),
    }
}

/// Creates a new session of the agent.
pub(crate) async fn fresh(agent: &Agent) -> Session {
    agent.new_session().await.expect("the store takes a new session")
}

/// A pseudo-random number generator: the same numbers for the same start value.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}
