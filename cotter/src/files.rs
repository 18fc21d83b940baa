//! Extensions that are files: what a person writes down instead of linking it.
//!
//! A folder of extensions is read whole, without starting anything. What is broken is left out and told
//! with its place; what could be read another way than it was written is read so and told as well.

pub mod front_matter;

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Something about a file that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, where it is about one.
    pub line: Option<usize>,
    /// What became of the file.
    pub severity: Severity,
    /// What is the matter, and where there is one the way out.
    pub message: String,
}

/// What became of a file. Ordered by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It was loaded; something in it has no effect.
    Warning,
    /// It was loaded, read another way than it was written.
    Repaired,
    /// It was left out.
    Rejected,
}

impl Severity {
    /// The word for it in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "ok",
            Severity::Repaired => "repaired",
            Severity::Rejected => "rejected",
        }
    }
}

impl Diagnostic {
    pub(crate) fn new(
        path: &Path,
        line: Option<usize>,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Diagnostic { path: path.into(), line, severity, message: message.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}
