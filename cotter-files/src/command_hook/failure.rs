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

/// The signals of crashes, and those that a limit of the host or of the system sends: ILL, TRAP, ABRT, BUS, KILL,
/// SEGV, XCPU, XFSZ, SYS.
const HOST_SIGNALS: [i32; 9] = [4, 5, 6, 7, 9, 11, 24, 25, 31];

/// Phrases of programs that ran out of something.
const EXHAUSTED: [&str; 15] = [
    "no space left on device",
    "disk quota exceeded",
    "resource temporarily unavailable",
    "resource unavailable",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
    "too many open files",
    "file too large",
    "file size limit",
    "can't start new thread",
    "cannot fork",
    "eagain",
    "enospc",
    // A file of compiled Python that was cut off.
    "marshal data",
];

impl HookFailure {
    /// The failure of a request to a server: the host's if memory or files ran out here, else the hook's.
    pub fn of_request(why: String) -> Self {
        if says_exhausted(&why) { HookFailure::Host(why) } else { HookFailure::Hook(why) }
    }
}

fn says_exhausted(text: &str) -> bool {
    let lower = text.to_lowercase();
    EXHAUSTED.iter().any(|phrase| lower.contains(phrase))
}

impl ProcessOutput {
    /// The exit code of a program that could answer. An error if it was ended by a signal, or if the sandbox
    /// had refused it something that the answer may depend on: what it then says is not its answer.
    pub(crate) fn exit_code(&self) -> Result<i32, HookFailure> {
        match self.exit {
            ProcessExit::Signal(signal) if HOST_SIGNALS.contains(&signal) => {
                Err(HookFailure::Host(describe_signal(signal)))
            }
            ProcessExit::Signal(signal) => Err(format!("it was ended by signal {signal}").into()),
            ProcessExit::Code(code) if !self.blocked_accesses.is_empty() => {
                let why = exit_error(code, &self.stderr);
                Err(HookFailure::Host(format!("{why}; {}", self.blocked_accesses.join("; "))))
            }
            // A shell says by such a code how a program that it started ended.
            ProcessExit::Code(code) if HOST_SIGNALS.contains(&(code - 128)) => {
                Err(HookFailure::Host(describe_signal(code - 128)))
            }
            ProcessExit::Code(code) if code != 2 && self.ran_out(code) => {
                Err(HookFailure::Host(exit_error(code, &self.stderr)))
            }
            ProcessExit::Code(code) => Ok(code),
        }
    }

    /// The failure of a resident program that ended instead of answering.
    pub fn end_failure(&self) -> HookFailure {
        if let Err(HookFailure::Host(why)) = self.exit_code() {
            return HookFailure::Host(format!("it has ended: {why}"));
        }
        match String::from_utf8_lossy(&self.stderr).trim() {
            "" => "it has ended: it wrote nothing to stderr".to_owned().into(),
            stderr => format!("it has ended: {}", text::show_line(stderr)).into(),
        }
    }

    /// True if standard error says that memory, disk, processes or files ran out. A program that succeeded may
    /// speak of such things: there only an error of the system counts, which ends its line.
    fn ran_out(&self, code: i32) -> bool {
        let stderr = String::from_utf8_lossy(&self.stderr);
        let ends_line = |line: &str| {
            let lower = line.trim_end().to_lowercase();
            EXHAUSTED
                .iter()
                .any(|phrase| lower.strip_suffix(phrase).is_some_and(|rest| rest.ends_with(": ")))
        };
        if code == 0 { stderr.lines().any(ends_line) } else { says_exhausted(&stderr) }
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

fn describe_signal(signal: i32) -> String {
    format!(
        "it was ended by signal {signal}: it crashed, or a limit of memory, time or processes ended it"
    )
}

/// The error of a hook that exited with a code without a meaning, with the end of its standard error.
pub(crate) fn exit_error(code: i32, stderr: &[u8]) -> String {
    match text::take_last_lines(&String::from_utf8_lossy(stderr)) {
        end if end.is_empty() => format!("it exited with code {code}"),
        end => format!("it exited with code {code}: {end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system took from a hook is no answer of the hook.
    #[test]
    fn c1_hook_that_ran_out_of_something_is_not_asked() {
        let check = |exit: ProcessExit, stderr: &str| {
            let output = ProcessOutput {
                exit,
                stdout: vec![],
                stderr: stderr.into(),
                remarks: vec![],
                blocked_accesses: vec![],
            };
            match output.exit_code() {
                Ok(_) => "answers",
                Err(HookFailure::Hook(_)) => "failed",
                Err(HookFailure::Host(_)) => "host",
            }
        };
        for (exit, stderr, expected) in [
            (ProcessExit::Code(127), "sh: 1: python3: not found", "answers"),
            (ProcessExit::Code(134), "", "host"),
            (ProcessExit::Code(133), "", "host"),
            (ProcessExit::Signal(6), "", "host"),
            (ProcessExit::Signal(13), "", "failed"),
            (ProcessExit::Code(141), "", "answers"),
            (ProcessExit::Code(1), "mktemp: failed: No space left on device", "host"),
            (ProcessExit::Code(1), "OSError: [Errno 24] Too many open files", "host"),
            (ProcessExit::Code(1), "EOFError: marshal data too short", "host"),
            (ProcessExit::Code(1), "no such rule", "answers"),
            (ProcessExit::Code(2), "cannot fork", "answers"),
        ] {
            assert_eq!(check(exit, stderr), expected, "{exit:?} {stderr}");
        }
    }
}
