//! The limits of a run: steps, money, tokens, time, and when to compact.

use std::time::Duration;

/// The limits at which a run ends by itself, and its timeouts and retries.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, EndReason, builtin::List};
/// use cotter_test::{ScriptedModel, Step};
/// use serde_json::json;
///
/// let for_ever = (0..10).map(|_| Step::call("list", json!({})));
/// let agent = Agent::builder(ScriptedModel::new(for_ever))
///     .tool(List::default())
///     .limits(|limits| limits.max_steps = Some(3))
///     .build()?;
/// let reply = agent.process_request("Go on and on.").await?;
/// assert_eq!((reply.reason, reply.steps), (EndReason::MaxTurns, 3));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The greatest number of requests in one run. Each child has the same limit for itself; money and
    /// tokens limit all of them together.
    pub max_steps: Option<u32>,
    /// The greatest cost of one run, in dollars. An unknown price ends the run.
    pub max_budget_usd: Option<f64>,
    /// The greatest number of tokens in one run.
    pub max_tokens: Option<u64>,
    /// The number of retries after a transient error, per model.
    pub retries: u32,
    /// The wait before the first retry; it doubles with each retry.
    pub backoff: Duration,
    /// The time that a person has to answer.
    pub question: Duration,
    /// The greatest number of bytes of one tool result that the model gets.
    pub result_bytes: usize,
    /// The share of the model's window at which the conversation is compacted; `None` for never.
    pub compact_at: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_steps: None,
            max_budget_usd: None,
            max_tokens: None,
            retries: 3,
            backoff: Duration::from_millis(500),
            question: Duration::from_secs(30 * 60),
            result_bytes: 48 * 1024,
            compact_at: Some(0.8),
        }
    }
}
