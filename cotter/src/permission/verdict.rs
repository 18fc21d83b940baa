//! The powers of a handler, and the verdict of a gate.

/// What a handler at a point may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Power {
    /// Read and add notes. A failure changes nothing.
    Observe,
    /// Pass, ask or block. A failure blocks.
    Gate,
    /// Replace the event. A failure ends as the point's row says.
    Transform,
    /// Answer a question in the person's stead. A failure is no answer.
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

/// What a gate on a tool call says: `Pass < Ask < Block`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing against it.
    Pass,
    /// A person must say yes first, for this reason.
    Ask(String),
    /// It does not happen, for this reason. The model is told.
    Block(String),
}

impl Verdict {
    /// A question to a person, with its reason.
    pub fn ask(reason: impl Into<String>) -> Self {
        Verdict::Ask(reason.into())
    }

    /// A refusal, with its reason.
    pub fn block(reason: impl Into<String>) -> Self {
        Verdict::Block(reason.into())
    }
}
