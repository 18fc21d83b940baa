//! Diagnostics about files, for their authors: the file, the line, and whether the file was loaded.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::document::location::SettingsError;

/// A problem in a file that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, if the problem is on one line.
    pub line: Option<usize>,
    /// The consequence for the file.
    pub severity: Severity,
    /// The description of the problem, with a way to fix it if known.
    pub message: String,
}

/// The consequence of a problem for its file, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file was loaded; something in it has no effect.
    Warning,
    /// The file was loaded, but was read in another way than it was written.
    Repaired,
    /// The file was loaded without a part that would guard or act.
    PartlyUsed,
    /// The file was skipped.
    Rejected,
}

impl Severity {
    /// The word for this severity in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "ok",
            Severity::Repaired => "repaired",
            Severity::PartlyUsed => "in part",
            Severity::Rejected => "rejected",
        }
    }
}

impl Diagnostic {
    /// Creates a diagnostic about a file, or about one line of the file.
    pub fn new(
        path: &Path,
        line: Option<usize>,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Diagnostic { path: path.into(), line, severity, message: message.into() }
    }

    /// Creates the diagnostic of a rejected file from the error of a strict reader, with its line, JSON path
    /// and hint.
    pub(crate) fn of_error(path: &Path, error: &SettingsError) -> Self {
        let location = error.location();
        let at = location.map(|location| format!("{}: ", location.path())).unwrap_or_default();
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        let line = location.and_then(|location| usize::try_from(location.line()).ok());
        let message = format!("{at}{}{hint}", error.message());
        Diagnostic::new(path, line, Severity::Rejected, message)
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
