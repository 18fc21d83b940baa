//! outcome

use crate::history::tool_error_kind::ToolErrorKind;
use serde::Serialize;

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
