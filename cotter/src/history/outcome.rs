//! How runs and tool calls end, as sessions store it and events tell it.

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

/// How a tool that ran ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolOutcome {
    /// It answered.
    Ok,
    /// It answered that it failed, or panicked.
    Failed,
    /// It took too long.
    TimedOut,
    /// The run was aborted meanwhile.
    Cancelled,
}

impl ToolOutcome {
    /// The outcome that goes with an error kind.
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

/// The kinds of failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// The input does not fit the tool.
    InvalidArgs,
    /// There is no such tool or thing.
    NotFound,
    /// A person, a rule or a hook said no.
    Denied,
    /// It took too long.
    Timeout,
    /// The run was aborted.
    Cancelled,
    /// It cannot be had here or now.
    Unavailable,
    /// It tried and failed.
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

    /// The kind of that word; an unknown one is a failure.
    pub fn parse(word: &str) -> Self {
        let known = Self::WORDS.iter().find(|(_, known)| *known == word);
        known.map_or(ToolErrorKind::Failed, |(kind, _)| *kind)
    }
}
