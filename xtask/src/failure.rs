//! The only error type of `xtask`: the failure, its causes, and a hint.

use std::fmt;

/// An error for a person to read. No code branches on it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// The nearest cause first.
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hint: None }
    }

    pub(crate) fn with_cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the task that failed as the message; the old message becomes its first cause.
    pub(crate) fn context(mut self, message: impl Into<String>) -> Self {
        self.causes.insert(0, self.message);
        self.message = message.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for cause in &self.causes {
            write!(f, "\n  caused by: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {hint}")?;
        }
        Ok(())
    }
}
