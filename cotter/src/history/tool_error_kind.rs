//! tool_error_kind

use serde::Serialize;

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
