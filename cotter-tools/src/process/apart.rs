//! Programs that stay for longer than a call, started in a session of their own: without a terminal
//! they can neither read a person's keys nor type for them. What is closed to every tool is closed to
//! them by the kernel, where there is something that can.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The word by which our binary knows that it is to start another program and become it. After it come
/// the number of closed folders and these, or `-` where nothing is confined; the program; its arguments.
const WORD: &str = "__cotter-apart";
const UNCONFINED: &str = "-";

/// A command that becomes `program` in a session of its own. `launcher` is a program that calls
/// [`serve_if_asked`](super::serve_if_asked) first.
#[cfg(feature = "mcp")]
pub(crate) fn command(
    launcher: &Path,
    program: &Path,
    closed: Option<&[PathBuf]>,
) -> io::Result<Command> {
    // Told here as it would be told of the program itself.
    program.metadata()?;
    let mut command = Command::new(launcher);
    command.arg(WORD);
    match closed {
        None => command.arg(UNCONFINED),
        Some(closed) => command.arg(closed.len().to_string()).args(closed),
    };
    command.arg(program);
    Ok(command)
}

/// Becomes the other program, if this process was started for that; else does nothing.
pub(super) fn serve_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|word| word == WORD) {
        let why = serve(args).unwrap_or_else(|| "that is not how it is asked for".into());
        eprintln!("{why}");
        std::process::exit(126);
    }
}

/// Comes back only if that fails, with the reason, or with none if it was not asked for properly.
fn serve(mut args: impl Iterator<Item = OsString>) -> Option<String> {
    let count = args.next()?;
    let closed = match count == UNCONFINED {
        true => None,
        false => {
            let count: usize = count.to_str()?.parse().ok()?;
            Some(args.by_ref().take(count).map(PathBuf::from).collect::<Vec<_>>())
        }
    };
    let program = args.next()?;
    if let Err(cause) = rustix::process::setsid() {
        return Some(format!("cannot make a session for it: {cause}"));
    }
    if let Some(closed) = closed
        && let Err(why) = confine(closed)
    {
        return Some(format!("cannot confine it: {why}"));
    }
    let cause = Command::new(&program).args(args).exec();
    Some(format!("cannot run {}: {cause}", Path::new(&program).display()))
}

#[cfg(target_os = "linux")]
fn confine(closed: Vec<PathBuf>) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    // Who finds nothing to close could make it, and write there what we would read as a person's. One of
    // the system is there for everybody; who may not make it has no server that may.
    for folder in closed.iter().filter(|folder| !folder.exists()) {
        let mode = if cotter::place::is_system(folder) { 0o755 } else { 0o700 };
        let _ = std::fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
    }
    crate::confine::Confinement::of_server(closed).keep_out()
}

#[cfg(not(target_os = "linux"))]
fn confine(_: Vec<PathBuf>) -> Result<(), String> {
    Err("only Linux can".into())
}
