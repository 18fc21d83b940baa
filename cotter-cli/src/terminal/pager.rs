//! Shows a long text in the person's pager, on a terminal only.

use std::{
    env,
    fs::File,
    io::{self, IsTerminal, Write},
    process::{Command, ExitCode, Stdio},
};

use rustix::termios::tcgetwinsize;

use crate::terminal::screen::print_stdout;

/// The pager of a person who named none. It shows colours and nothing else that is not text.
const DEFAULT: &str = "less -R";

/// Shows a text on a terminal in `$PAGER`, if it is longer than the terminal is high. Returns false if the
/// text was not shown: it is short, or the pager cannot be started.
pub(crate) fn page(text: &str, tty: &File) -> bool {
    let rows = tcgetwinsize(tty).map_or(0, |size| usize::from(size.ws_row));
    if rows == 0 || text.lines().count() < rows {
        return false;
    }
    run_pager(text, tty).unwrap_or(false)
}

/// Prints a text on standard output, through the pager if that is a terminal.
pub(crate) fn page_stdout(text: &str) -> ExitCode {
    let is_paged = io::stdout().is_terminal()
        && File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .is_ok_and(|tty| page(text, &tty));
    if is_paged { ExitCode::SUCCESS } else { print_stdout(text) }
}

fn run_pager(text: &str, tty: &File) -> io::Result<bool> {
    let named = env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let pager = named.unwrap_or_else(|| DEFAULT.into());
    let mut child = Command::new("/bin/sh")
        .args(["-c", &pager])
        .stdin(Stdio::piped())
        .stdout(tty.try_clone()?)
        .stderr(tty.try_clone()?)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(text.as_bytes()) {
            // The person left the pager before the end.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
    }
    // 126 and 127: the shell did not find the pager.
    Ok(child.wait()?.code().is_some_and(|code| code < 126))
}
