//! The last steps of a forked process before it becomes the command.

use std::{
    ffi::{CString, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use super::wire::Request;

/// Becomes the command. `mounted` says whether this process has its own view of the files. Comes back only if that fails, and says why.
pub(super) fn launch(
    request: &Request,
    mounted: bool,
    stdout: &OwnedFd,
    stderr: &OwnedFd,
) -> String {
    match prepare(request, mounted, stdout, stderr) {
        Ok(()) => execute(request),
        Err(why) => why,
    }
}

fn prepare(
    request: &Request,
    mounted: bool,
    stdout: &OwnedFd,
    stderr: &OwnedFd,
) -> Result<(), String> {
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |cause: rustix::io::Errno| format!("cannot {what}: {cause}")
    };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(cannot("bind its end to ours"))?;
    rustix::process::setsid().map_err(cannot("make a session for it"))?;
    // The spawner is closed to others, which would close our own `/proc` to us.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(cannot("make it an ordinary process"))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none).map_err(cannot("switch core dumps off"))?;
    rustix::stdio::dup2_stdout(stdout).map_err(cannot("hand it its output"))?;
    rustix::stdio::dup2_stderr(stderr).map_err(cannot("hand it its output"))?;
    let shown = request.cwd.display();
    rustix::process::chdir(&request.cwd).map_err(cannot(&format!("go to {shown}")))?;
    if let Some(confinement) = &request.confinement {
        confinement.enter(mounted).map_err(|cause| format!("cannot confine it: {cause}"))?;
    }
    Ok(())
}

fn execute(request: &Request) -> String {
    let c_string = |word: &OsStr| CString::new(word.as_bytes());
    let words = |words: &mut dyn Iterator<Item = &OsStr>| {
        words.map(c_string).collect::<Result<Vec<_>, _>>()
    };
    let program = request.program.as_os_str();
    let mut args = std::iter::once(program).chain(request.args.iter().map(|arg| &**arg));
    let mut environment = request.environment.iter().map(|entry| &**entry);
    let (Ok(program), Ok(args), Ok(environment)) =
        (c_string(program), words(&mut args), words(&mut environment))
    else {
        return "a word of it contains a NUL".into();
    };
    let cause = become_it(&program, &args, &environment);
    format!("cannot run {}: {cause}", request.program.display())
}

#[expect(unsafe_code, reason = "rustix has no execve outside its runtime")]
fn become_it(program: &CString, args: &[CString], environment: &[CString]) -> std::io::Error {
    let pointers = |words: &[CString]| -> Vec<_> {
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (args, environment) = (pointers(args), pointers(environment));
    // SAFETY: both lists end with a null and point to strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), environment.as_ptr()) };
    std::io::Error::last_os_error()
}
