//! Remarks about files, for their authors: which file, which line, what became of it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::document::location::SettingsError;

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
    /// It was loaded without something that would guard or act.
    InPart,
    /// It was left out.
    Rejected,
}

impl Severity {
    /// The word for it in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "ok",
            Severity::Repaired => "repaired",
            Severity::InPart => "in part",
            Severity::Rejected => "rejected",
        }
    }
}

impl Diagnostic {
    /// Something about a file, or about a line of it.
    pub fn new(
        path: &Path,
        line: Option<usize>,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Diagnostic { path: path.into(), line, severity, message: message.into() }
    }

    /// A rejected file: the error of a strict reader, with its line, JSON path and hint.
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
