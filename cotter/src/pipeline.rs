//! A tool call, from the model's request to its result: `run_step` takes the calls of one step the whole
//! way. The dry runs in this room report the decision about a call and run nothing. This room asks no model
//! and names no subsystem.

// The stages of a call, in order.
mod decide;
mod question;
mod batch;
mod execute;
// A call that a handler makes.
mod nested;
// Calls and hooks without effects.
pub mod explain;
pub mod dry_run;
mod check;

use smol_str::{SmolStr, format_smolstr};

pub(crate) use crate::pipeline::execute::close_open_calls;
use crate::{
    agent::step_cx::StepCx,
    history::{message::ToolCall, store::StoreError},
    pipeline::{
        batch::segments,
        decide::decide_calls,
        execute::{may_run_in_parallel, run_segment, store_result},
        question::ask_about_step,
    },
};

/// Takes the calls of a step through the pipeline: decide, ask a person, run, store. Every call gets
/// exactly one result, in call order. In an interrupted step, only the calls in `resumed` continue.
pub(crate) async fn run_step(
    step_cx: &StepCx,
    calls: Vec<ToolCall>,
    resumed: Option<Vec<SmolStr>>,
) -> Result<(), StepEnd> {
    let mut decisions = decide_calls(step_cx, calls, resumed).await?;
    let question = format_smolstr!("{}.{}", step_cx.run_id(), step_cx.cx.step());
    ask_about_step(step_cx, &mut decisions, question).await?;
    let parallel: Vec<_> = decisions.iter().map(may_run_in_parallel).collect();
    let mut decisions = decisions.into_iter();
    for segment in segments(&parallel) {
        let batch = decisions.by_ref().take(segment.len()).collect();
        step_cx.state().clear_running_calls();
        let (results, outcomes_stored) = run_segment(step_cx, batch).await?;
        // A call that ran gets its result, also if the store failed meanwhile.
        let results_stored = results.into_iter().map(|result| store_result(step_cx, result));
        results_stored.fold(outcomes_stored, Result::and)?;
    }
    step_cx.state().commit_and_start_sync()?;
    if step_cx.is_cancelled() { Err(StepEnd::Aborted) } else { Ok(()) }
}

/// The reason why a step is the last of its run.
pub(crate) enum StepEnd {
    /// The run was aborted.
    Aborted,
    /// A decision or a result could not be stored.
    Store(StoreError),
}

impl From<StoreError> for StepEnd {
    fn from(error: StoreError) -> Self {
        StepEnd::Store(error)
    }
}
