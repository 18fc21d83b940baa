//! The options and the result of [`Controls::exec`](crate::agent::controls::Controls::exec).

use std::{path::PathBuf, time::Duration};

/// The folder and the time limit of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecOptions {
    /// The folder that the program runs in; by default the run's folder.
    pub cwd: Option<PathBuf>,
    /// The time limit; by default the limit of any command.
    pub timeout: Option<Duration>,
}

impl ExecOptions {
    /// Returns these options with another folder.
    pub fn with_cwd(self, cwd: impl Into<PathBuf>) -> Self {
        ExecOptions { cwd: Some(cwd.into()), ..self }
    }

    /// Returns these options with a time limit.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        ExecOptions { timeout: Some(timeout), ..self }
    }
}

/// The result of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecResult {
    /// The text that the program wrote to standard output.
    pub stdout: String,
    /// The text that the program wrote to standard error.
    pub stderr: String,
    /// The exit code, if the program ended by itself.
    pub code: Option<i32>,
    /// True if the program was killed: it took too long or wrote too much.
    pub killed: bool,
}
