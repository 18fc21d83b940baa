//! The failures of hooks: the hook's own, and those of the host that runs it. Only the hook's own failure can
//! pass.

use std::{fmt, time::Duration};

use crate::command_hook::{MAX_OUTPUT, ProcessExit, ProcessOutput};
use cotter::text;

/// The reason why there is no answer of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookFailure {
    /// The hook failed: its exit code, its output, its time limit. `onFailure` decides whether that blocks.
    Hook(String),
    /// The host failed: the program did not start, was ended, wrote too much, or the sandbox refused it
    /// something. A gate blocks in every dialect, whatever `onFailure` says.
    Host(String),
}

impl From<String> for HookFailure {
    /// A failure of the hook.
    fn from(why: String) -> Self {
        HookFailure::Hook(why)
    }
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookFailure::Hook(why) | HookFailure::Host(why) => f.write_str(why),
        }
    }
}

/// The signals that a limit of the host or of the system sends: KILL, XCPU, XFSZ, SYS.
const HOST_SIGNALS: [i32; 4] = [9, 24, 25, 31];

impl ProcessOutput {
    /// The exit code of a program that could answer. An error if it was ended by a signal, or if it failed
    /// and the sandbox had refused it something: what it then says is not its answer.
    pub(crate) fn exit_code(&self) -> Result<i32, HookFailure> {
        match self.exit {
            ProcessExit::Signal(signal) if HOST_SIGNALS.contains(&signal) => {
                Err(HookFailure::Host(format!(
                    "it was ended by signal {signal}, which a limit of memory, time or processes sends"
                )))
            }
            ProcessExit::Signal(signal) => Err(format!("it was ended by signal {signal}").into()),
            ProcessExit::Code(code) if code != 0 && !self.blocked_accesses.is_empty() => {
                let why = exit_error(code, &self.stderr);
                Err(HookFailure::Host(format!("{why}; {}", self.blocked_accesses.join("; "))))
            }
            ProcessExit::Code(code) => Ok(code),
        }
    }

    /// An error if a part of standard output is missing.
    pub(crate) fn check_whole(&self) -> Result<(), HookFailure> {
        match self.stdout.len() > MAX_OUTPUT {
            true => Err(HookFailure::Host(format!("its output is longer than {MAX_OUTPUT} bytes"))),
            false => Ok(()),
        }
    }
}

/// The error of a hook that exceeded its time limit, with the end of its standard error.
pub(crate) fn time_limit_error(limit: Duration, stderr: &str) -> HookFailure {
    HookFailure::Hook(match text::take_last_lines(stderr) {
        end if end.is_empty() => format!("it took longer than {limit:?}"),
        end => format!("it took longer than {limit:?}; end of its standard error: {end}"),
    })
}

/// The error of a hook that exited with a code without a meaning, with the end of its standard error.
pub(crate) fn exit_error(code: i32, stderr: &[u8]) -> String {
    match text::take_last_lines(&String::from_utf8_lossy(stderr)) {
        end if end.is_empty() => format!("it exited with code {code}"),
        end => format!("it exited with code {code}: {end}"),
    }
}
