//! The limits of a run: steps, money, tokens, time, and when to compact.

use std::time::Duration;

/// When a run ends by itself, and how patient it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, EndReason, builtin::List};
/// use cotter_test::{Scripted, Step};
/// use serde_json::json;
///
/// let for_ever = (0..10).map(|_| Step::call("list", json!({})));
/// let agent = Agent::builder(Scripted::new(for_ever))
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
    /// The most requests of one run. An agent that works for it has as many of its own: what all of them
    /// do together is bounded by money and tokens.
    pub max_steps: Option<u32>,
    /// The most one run may cost, in dollars. A price that is not known ends the run.
    pub max_budget_usd: Option<f64>,
    /// The most tokens one run may use.
    pub max_tokens: Option<u64>,
    /// How often a request is tried again after a passing failure, per model.
    pub retries: u32,
    /// How long to wait before the first retry; doubled for each that follows.
    pub backoff: Duration,
    /// How long a person has to answer.
    pub question: Duration,
    /// The most bytes of one tool result the model gets.
    pub result_bytes: usize,
    /// The share of the model's window at which the conversation is summed up; `None` for never.
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
