//! Runs programs. A command is a line of words, as typed in the workspace's root.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use crate::failure::Failure;

/// The root of the workspace in which cargo runs this program.
///
/// The root is read at run time and not at build time, because one build may serve two checkouts.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|xtask| Path::new(&xtask).parent().map(Path::to_owned))
        .ok_or_else(|| {
            Failure::new("the workspace was not found: `CARGO_MANIFEST_DIR` is not set")
                .with_hint("run `cargo xtask`, not the binary")
        })
}

/// Runs `line` to its end. Its output goes to the terminal.
///
/// `env` is added to the environment of this one command.
pub(crate) fn run(line: &str, env: &[(&str, &str)]) -> Result<(), Failure> {
    let status = command(line)?
        .envs(env.iter().copied())
        .status()
        .map_err(|error| not_started(line).with_cause(error))?;
    succeeded(line, status)
}

/// Runs `line` to its end like [`run`], and counts the lines of its standard error that begin with `mark`.
pub(crate) fn run_and_count(
    line: &str,
    env: &[(String, String)],
    mark: &str,
) -> Result<usize, Failure> {
    let envs = env.iter().map(|(name, value)| (name, value));
    let mut child = command(line)?
        .envs(envs)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_started(line).with_cause(error))?;
    let said = child.stderr.take().expect("standard error is a pipe");
    let count = pass_on_and_count(said, mark).map_err(|error| lost(line).with_cause(error))?;
    let status = child.wait().map_err(|error| lost(line).with_cause(error))?;
    succeeded(line, status).map(|()| count)
}

fn pass_on_and_count(from: impl io::Read, mark: &str) -> io::Result<usize> {
    let (mut from, mut line, mut count) = (BufReader::new(from), Vec::new(), 0);
    while from.read_until(b'\n', &mut line)? > 0 {
        count += usize::from(line.starts_with(mark.as_bytes()));
        io::stderr().write_all(&line)?;
        line.clear();
    }
    Ok(count)
}

/// Runs `line` to its end and returns its standard output.
pub(crate) fn output(line: &str) -> Result<String, Failure> {
    let output = command(line)?
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(line).with_cause(error))?;
    succeeded(line, output.status)?;
    String::from_utf8(output.stdout).map_err(|error| {
        Failure::new(format!("the output of `{line}` is not UTF-8")).with_cause(error)
    })
}

/// True if `line` can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(line: &str) -> Result<bool, Failure> {
    let status = command(line)?.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.is_ok_and(|status| status.success()))
}

fn command(line: &str) -> Result<Command, Failure> {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a command line has a first word");
    let mut command = Command::new(program);
    command.args(words).current_dir(root()?).stdin(Stdio::null());
    Ok(command)
}

fn not_started(line: &str) -> Failure {
    Failure::new(format!("`{line}` could not be started"))
}

fn lost(line: &str) -> Failure {
    Failure::new(format!("what `{line}` says could not be read"))
}

fn succeeded(line: &str, status: ExitStatus) -> Result<(), Failure> {
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` failed: {status}"))) }
}
