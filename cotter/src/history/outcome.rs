//! outcome

use crate::history::tool_error_kind::ErrorKind;
use serde::Serialize;

/// How a tool that ran ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It answered.
    Ok,
    /// It answered that it failed, or panicked.
    Failed,
    /// It took too long.
    TimedOut,
    /// The run was aborted meanwhile.
    Cancelled,
}

impl Outcome {
    /// The outcome that goes with an error kind.
    pub fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Timeout => Outcome::TimedOut,
            ErrorKind::Cancelled => Outcome::Cancelled,
            _ => Outcome::Failed,
        }
    }

    /// The outcome's word in files and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::TimedOut => "timed_out",
            Outcome::Cancelled => "cancelled",
        }
    }
}
