//! The powers of a handler, and the verdict of a gate.

/// The right of a handler at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Power {
    /// Reads the event and adds notes. A failure changes nothing.
    Observe,
    /// Returns pass, ask or block. A failure blocks.
    Gate,
    /// Replaces the event. The point defines the effect of a failure.
    Transform,
    /// Answers a question in place of the person. A failure is no answer.
    Answer,
}

impl Power {
    /// The power's word in files, events and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Power::Observe => "observe",
            Power::Gate => "gate",
            Power::Transform => "transform",
            Power::Answer => "answer",
        }
    }
}

/// The result of a gate on a tool call: `Pass < Ask < Block`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The gate has no objection.
    Pass,
    /// A person must approve the call first, for this reason.
    Ask(String),
    /// The call does not run, for this reason. The model gets the reason.
    Block(String),
}

impl Verdict {
    /// Creates `Ask` with a reason.
    pub fn ask(reason: impl Into<String>) -> Self {
        Verdict::Ask(reason.into())
    }

    /// Creates `Block` with a reason.
    pub fn block(reason: impl Into<String>) -> Self {
        Verdict::Block(reason.into())
    }
}
