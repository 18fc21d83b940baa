//! The options and the result of [`Controls::exec`](crate::agent::controls::Controls::exec).

use std::{path::PathBuf, time::Duration};

/// Where a program runs, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecOptions {
    /// The folder it runs in; without one, the run's.
    pub cwd: Option<PathBuf>,
    /// How long it may take; without one, as long as any command.
    pub timeout: Option<Duration>,
}

impl ExecOptions {
    /// The same in another folder.
    pub fn with_cwd(self, cwd: impl Into<PathBuf>) -> Self {
        ExecOptions { cwd: Some(cwd.into()), ..self }
    }

    /// The same with a limit of time.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        ExecOptions { timeout: Some(timeout), ..self }
    }
}

/// What came of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecResult {
    /// What it wrote to its output.
    pub stdout: String,
    /// What it wrote to its error output.
    pub stderr: String,
    /// Its exit code, where it ended by itself.
    pub code: Option<i32>,
    /// Whether it was ended: it took too long, or wrote too much.
    pub killed: bool,
}
