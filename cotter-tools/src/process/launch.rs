//! The steps from a minder to the command.

use std::{
    ffi::{CString, OsStr, c_int, c_void},
    io::{self, PipeReader, PipeWriter, Write},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    panic::{AssertUnwindSafe, catch_unwind},
};

use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::confine::enter::PreparedSandbox;
use crate::{
    confine::{exit_now, interpreters::describe_exec_error},
    process::wire::Request,
};

/// The data a process needs to become the command.
struct Launch<'a> {
    request: &'a Request,
    prepared: PreparedSandbox,
    files: &'a Files,
    failure_pipe: PipeWriter,
}

/// The input and output of the command. Without `stdin` its input is empty.
pub(crate) struct Files {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Starts the command. The pipe holds the reason if the command could not be started.
pub(crate) fn launch(
    request: &Request,
    prepared: PreparedSandbox,
    files: &Files,
) -> io::Result<(Pid, PipeReader)> {
    let (failure_reader, failure_pipe) = io::pipe()?;
    let mut launch = Launch { request, prepared, files, failure_pipe };
    Ok((start(&mut launch)?, failure_reader))
}

/// Starts a process that shares our memory until it becomes the command, while we wait. Nothing is
/// copied; a fork would take longer than all later steps together.
#[expect(
    unsafe_code,
    reason = "neither rustix nor std starts a process that confines itself first"
)]
fn start(launch: &mut Launch) -> io::Result<Pid> {
    extern "C" fn run(launch: *mut c_void) -> c_int {
        // SAFETY: it points to the value that `start` borrows, and `start` waits.
        let launch = unsafe { &mut *launch.cast::<Launch>() };
        let why = catch_unwind(AssertUnwindSafe(|| launch.become_command()));
        let why = why.unwrap_or_else(|_| "internal error before the command was started".into());
        let _ = launch.failure_pipe.write_all(why.as_bytes());
        exit_now(127)
    }
    const STACK: usize = 512 * 1024;
    let mut stack = Box::<[u128]>::new_uninit_slice(STACK / size_of::<u128>());
    let top: *mut MaybeUninit<u128> = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this process has one thread, which waits until the child has its own memory or is
    // gone; the stack is the child's own, large enough and aligned; `run` neither unwinds nor
    // returns.
    let pid = unsafe { libc::clone(run, top.cast(), flags, (&raw mut *launch).cast()) };
    match Pid::from_raw(pid.max(0)) {
        Some(pid) => Ok(pid),
        None => Err(io::Error::last_os_error()),
    }
}

impl Launch<'_> {
    /// Returns only on failure, with the reason.
    fn become_command(&mut self) -> String {
        match self.prepare() {
            Ok(()) => execute(self.request),
            Err(why) => why,
        }
    }

    fn prepare(&mut self) -> Result<(), String> {
        let request = self.request;
        let cannot = |what: &str| {
            let what = what.to_owned();
            move |cause: rustix::io::Errno| format!("cannot {what}: {cause}")
        };
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(cannot("set its parent death signal"))?;
        rustix::process::setsid().map_err(cannot("create a session for it"))?;
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(Resource::Core, none)
            .map_err(cannot("switch core dumps off"))?;
        if let Some(stdin) = &self.files.stdin {
            rustix::stdio::dup2_stdin(stdin).map_err(cannot("connect its input"))?;
        }
        rustix::stdio::dup2_stdout(&self.files.stdout).map_err(cannot("connect its output"))?;
        rustix::stdio::dup2_stderr(&self.files.stderr).map_err(cannot("connect its output"))?;
        let unconfined = |cause| format!("cannot confine it: {cause}");
        // Before its folder is entered: there may be another one in its place in the view.
        if let Some(confinement) = &request.confinement {
            confinement.enter_prepared_view(&self.prepared).map_err(unconfined)?;
        }
        let shown = request.cwd.display();
        rustix::process::chdir(&request.cwd).map_err(cannot(&format!("enter {shown}")))?;
        if let Some(confinement) = &request.confinement {
            confinement.enter(&mut self.prepared).map_err(unconfined)?;
        }
        Ok(())
    }
}

fn execute(request: &Request) -> String {
    let c_string = |text: &OsStr| CString::new(text.as_bytes());
    let c_strings = |texts: &mut dyn Iterator<Item = &OsStr>| {
        texts.map(c_string).collect::<Result<Vec<_>, _>>()
    };
    let program = request.program.as_os_str();
    let mut args = std::iter::once(program).chain(request.args.iter().map(|arg| &**arg));
    let mut environment = request.environment.iter().map(|entry| &**entry);
    let (Ok(program), Ok(args), Ok(environment)) =
        (c_string(program), c_strings(&mut args), c_strings(&mut environment))
    else {
        return "an argument or a variable contains a NUL byte".into();
    };
    let cause = exec(&program, &args, &environment);
    describe_exec_error(&request.program, &cause)
}

#[expect(unsafe_code, reason = "rustix has no execve outside its runtime")]
fn exec(program: &CString, args: &[CString], environment: &[CString]) -> std::io::Error {
    let pointers = |texts: &[CString]| -> Vec<_> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (args, environment) = (pointers(args), pointers(environment));
    // SAFETY: both lists end with a null and point to strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), environment.as_ptr()) };
    std::io::Error::last_os_error()
}
