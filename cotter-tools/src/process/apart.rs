//! Programs that stay for longer than a call, started in a session of their own: without a terminal
//! they can neither read a person's keys nor type for them.

use std::{ffi::OsString, io, os::unix::process::CommandExt, path::Path, process::Command};

/// The word by which our binary knows that it is to start another program and become it.
const WORD: &str = "__cotter-apart";

/// A command that becomes `program` in a session of its own. `launcher` is a program that calls
/// [`serve_if_asked`](super::serve_if_asked) first.
#[cfg(feature = "mcp")]
pub(crate) fn command(launcher: &Path, program: &Path) -> io::Result<Command> {
    // Told here as it would be told of the program itself.
    program.metadata()?;
    let mut command = Command::new(launcher);
    command.arg(WORD).arg(program);
    Ok(command)
}

/// Becomes the other program, if this process was started for that; else does nothing.
pub(super) fn serve_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|word| word == WORD) {
        std::process::exit(serve(args));
    }
}

fn serve(mut args: impl Iterator<Item = OsString>) -> i32 {
    let Some(program) = args.next() else { return 2 };
    if let Err(cause) = rustix::process::setsid() {
        eprintln!("cannot make a session for it: {cause}");
        return 126;
    }
    let cause = Command::new(&program).args(args).exec();
    eprintln!("cannot run {}: {cause}", Path::new(&program).display());
    127
}
