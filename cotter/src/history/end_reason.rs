//! end_reason

use serde::Serialize;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The model had said what it had to say.
    EndTurn,
    /// Somebody aborted it.
    Aborted,
    /// It reached the limit of steps.
    MaxTurns,
    /// It reached the limit of money or tokens.
    BudgetExceeded,
    /// The model's reply did not fit, again and again.
    MaxTokens,
    /// The model declined.
    Refusal,
    /// A hook refused the prompt, or ended the run.
    Blocked,
    /// A hook answered in the model's stead.
    ShortCircuit,
    /// It failed.
    Error,
    /// Its process died; written when the session was opened again.
    Crashed,
}

impl EndReason {
    /// The reason's word in files and events.
    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::EndTurn => "end_turn",
            EndReason::Aborted => "aborted",
            EndReason::MaxTurns => "max_turns",
            EndReason::BudgetExceeded => "budget_exceeded",
            EndReason::MaxTokens => "max_tokens",
            EndReason::Refusal => "refusal",
            EndReason::Blocked => "blocked",
            EndReason::ShortCircuit => "short_circuit",
            EndReason::Error => "error",
            EndReason::Crashed => "crashed",
        }
    }
}
