//! The ends of runs and tool calls, as stored in sessions and reported in events.

use serde::Serialize;

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The model finished its reply.
    EndTurn,
    /// The run was aborted.
    Aborted,
    /// The run reached its limit of steps.
    MaxTurns,
    /// The run reached its limit of money or tokens.
    BudgetExceeded,
    /// The model's reply exceeded the token limit repeatedly.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// A hook rejected the prompt or ended the run.
    Blocked,
    /// A hook replied in place of the model.
    ShortCircuit,
    /// The run failed.
    Error,
    /// The process died; written when the session was opened again.
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

/// The outcome of a tool that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolOutcome {
    /// The tool returned an output.
    Ok,
    /// The tool returned an error or panicked.
    Failed,
    /// The tool timed out.
    TimedOut,
    /// The run was aborted during the call.
    Cancelled,
}

impl ToolOutcome {
    /// Returns the outcome for an error kind.
    pub fn of(kind: ToolErrorKind) -> Self {
        match kind {
            ToolErrorKind::Timeout => ToolOutcome::TimedOut,
            ToolErrorKind::Cancelled => ToolOutcome::Cancelled,
            _ => ToolOutcome::Failed,
        }
    }

    /// The outcome's word in files and events.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolOutcome::Ok => "ok",
            ToolOutcome::Failed => "failed",
            ToolOutcome::TimedOut => "timed_out",
            ToolOutcome::Cancelled => "cancelled",
        }
    }
}

/// The kinds of error of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// The input is invalid.
    InvalidArgs,
    /// There is no such tool or object.
    NotFound,
    /// A person, a rule or a hook denied the call.
    Denied,
    /// The call timed out.
    Timeout,
    /// The run was aborted.
    Cancelled,
    /// The tool or a resource is not available here or now.
    Unavailable,
    /// The tool ran and failed.
    Failed,
}

impl ToolErrorKind {
    const WORDS: [(ToolErrorKind, &'static str); 7] = [
        (ToolErrorKind::InvalidArgs, "invalid_args"),
        (ToolErrorKind::NotFound, "not_found"),
        (ToolErrorKind::Denied, "denied"),
        (ToolErrorKind::Timeout, "timeout"),
        (ToolErrorKind::Cancelled, "cancelled"),
        (ToolErrorKind::Unavailable, "unavailable"),
        (ToolErrorKind::Failed, "failed"),
    ];

    /// The kind's word in files and events.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("failed", |(_, word)| word)
    }

    /// Parses a word. An unknown word becomes `Failed`.
    pub fn parse(word: &str) -> Self {
        let row = Self::WORDS.iter().find(|(_, name)| *name == word);
        row.map_or(ToolErrorKind::Failed, |(kind, _)| *kind)
    }
}
