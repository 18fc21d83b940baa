//! The spawner: our own binary, started a second time, small and with one thread. It forks a minder
//! for every command. A fork of the main process would cost more, depending on its memory.

use std::{
    collections::HashSet,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    pipe::PipeFlags,
    process::{
        DumpableBehavior, Pid, PidfdFlags, Signal, pidfd_open, set_child_subreaper,
        set_dumpable_behavior,
    },
};

use crate::confine::{self, exit_now};
use crate::process::{
    SPAWNER_ARG, VIEW_ARG, minder, temp, tree,
    wire::{self, Report},
};

/// Serves as the spawner and never returns, if this process was started as one; else does nothing.
pub(crate) fn run_spawner_if_requested() {
    match std::env::args_os().nth(1) {
        Some(word) if word == SPAWNER_ARG => std::process::exit(serve()),
        Some(word) if word == VIEW_ARG => std::process::exit(check_view()),
        _ => {}
    }
}

/// Says on standard output why this machine allows no view of the files.
fn check_view() -> i32 {
    match confine::mounts::check() {
        Ok(()) => 0,
        Err(why) => {
            let _ = rustix::io::write(rustix::stdio::stdout(), why.as_bytes());
            1
        }
    }
}

/// The files of a call, received with the request.
pub(crate) struct MinderFds {
    /// The connection to the caller: the request comes in and the report goes out. The call ends
    /// when the other end is gone.
    pub(crate) control: UnixStream,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// The input of the command, if it has one.
    pub(crate) stdin: Option<OwnedFd>,
}

/// Serves calls. One minder is always forked in advance and waits for the next call, which saves
/// the call a fork.
fn serve() -> i32 {
    let Ok(socket) = detach() else { return 2 };
    confine::prepare();
    let Ok((taken_read, taken_write)) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC) else {
        return 1;
    };
    let mut minders: Vec<(Pid, OwnedFd)> = vec![];
    let mut ready = start_minder(&socket, &taken_write, &mut minders);
    let mut failed_starts = 0;
    loop {
        // Messages are read by the minder, so of the socket only the hang-up is polled. If no minder can be
        // started, calls are refused here.
        let refuses = ready.is_none() && failed_starts >= MAX_FAILED_STARTS;
        let events = if refuses { PollFlags::RDHUP | PollFlags::IN } else { PollFlags::RDHUP };
        let mut waiting =
            vec![PollFd::new(&socket, events), PollFd::new(&taken_read, PollFlags::IN)];
        waiting.extend(minders.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)));
        let retry = Timespec { tv_sec: 0, tv_nsec: RETRY.as_nanos() as _ };
        match poll(&mut waiting, ready.is_none().then_some(&retry)) {
            Err(Errno::INTR) => continue,
            Err(_) => return 1,
            Ok(_) => {}
        }
        let has_event: Vec<_> =
            waiting.iter().map(|waiting| !waiting.revents().is_empty()).collect();
        // The caller is gone. The minders end their commands and themselves.
        if waiting[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
            wait_and_remove_folder(&mut minders);
            return 0;
        }
        if refuses && has_event[0] {
            refuse_call(&socket);
        }
        let was_taken = has_event[1] && rustix::io::read(&taken_read, &mut [0; 1]).is_ok();
        if has_event[2..].contains(&true) {
            reap_minders(&mut minders);
        }
        let is_alive = minders.iter().any(|(pid, _)| Some(*pid) == ready);
        if was_taken || !is_alive {
            ready = start_minder(&socket, &taken_write, &mut minders);
            failed_starts = if ready.is_some() { 0 } else { failed_starts + 1 };
        }
    }
}

/// The pause before another minder is started, after one could not be.
const RETRY: Duration = Duration::from_millis(50);

/// The number of failed starts in a row after which calls are refused: one second.
const MAX_FAILED_STARTS: u32 = 20;

/// Answers the next call: it is not started.
fn refuse_call(socket: &OwnedFd) {
    if let Ok(Some(mut fds)) = receive(socket) {
        let why = "no more processes or files can be opened: too many of them are in use";
        let _ = wire::send(&mut fds.control, &Report::NotStarted(why.into()).encode());
    }
}

/// Removes the private folder once no minder is left, in case its owner could not.
fn wait_and_remove_folder(minders: &mut Vec<(Pid, OwnedFd)>) {
    while !minders.is_empty() {
        let mut waiting: Vec<_> =
            minders.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)).collect();
        let _ = poll(&mut waiting, None);
        reap_minders(minders);
    }
    if let Some(private) = std::env::args_os().nth(2) {
        temp::remove(private.as_ref());
    }
}

/// Drops everything inherited: terminal, open files, signal handlers.
fn detach() -> rustix::io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::net::getsockname(&socket)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    close_others(&socket, &null);
    reset_signals();
    // Without a terminal, no process started here can read a person's keys.
    let _ = rustix::process::setsid();
    // Processes of a killed minder are reparented to us.
    set_child_subreaper(Some(rustix::process::getpid()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(socket)
}

#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_others(socket: &OwnedFd, null: &OwnedFd) {
    use std::os::fd::AsRawFd;
    let highest = socket.as_raw_fd().max(null.as_raw_fd()).cast_unsigned();
    // SAFETY: only descriptors above those that this process opened itself are closed.
    unsafe { libc::close_range(highest + 1, u32::MAX, 0) };
    for fd in 3..highest {
        if fd.cast_signed() != socket.as_raw_fd() && fd.cast_signed() != null.as_raw_fd() {
            // SAFETY: as above; no code in this process owns inherited descriptors.
            unsafe { libc::close(fd.cast_signed()) };
        }
    }
}

/// Resets all signals: an ignored signal would stay ignored in every command.
#[expect(unsafe_code, reason = "rustix does not set signal handlers")]
fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: the default handler is set; no code of ours runs in a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: the empty signal set is written before it is read.
    unsafe {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Reaps ended minders. If one was killed, ends the processes it left to us.
fn reap_minders(minders: &mut Vec<(Pid, OwnedFd)>) {
    let mut killed = false;
    tree::reap(|pid, status| {
        if minders.iter().any(|(minder, _)| *minder == pid) {
            minders.retain(|(minder, _)| *minder != pid);
            killed |= status.signaled();
        }
    });
    if killed {
        let minder_pids: HashSet<_> = minders.iter().map(|(pid, _)| *pid).collect();
        tree::end_all_below(None, &minder_pids);
    }
}

/// The next call; `None` if the message is not a call.
fn receive(socket: &OwnedFd) -> rustix::io::Result<Option<MinderFds>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut fds = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut fds, flags)?;
    if received.bytes == 0 {
        return Err(Errno::PIPE);
    }
    let mut files = fds.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => vec![],
    });
    Ok((|| {
        let (control, stdout, stderr) = (files.next()?, files.next()?, files.next()?);
        Some(MinderFds { control: control.into(), stdout, stderr, stdin: files.next() })
    })())
}

fn start_minder(
    socket: &OwnedFd,
    taken_write: &OwnedFd,
    minders: &mut Vec<(Pid, OwnedFd)>,
) -> Option<Pid> {
    match fork() {
        Ok(Some(pid)) => match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => {
                minders.push((pid, pidfd));
                Some(pid)
            }
            // It cannot be watched, and has no call yet.
            Err(_) => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                None
            }
        },
        // Tried again at the next event.
        Err(_) => None,
        Ok(None) => {
            minders.clear();
            let result = catch_unwind(AssertUnwindSafe(|| run_minder(socket, taken_write)));
            exit_now(if result.is_ok() { 0 } else { 101 })
        }
    }
}

/// Waits for one call and runs it. Returns when the socket is closed.
fn run_minder(socket: &OwnedFd, taken_write: &OwnedFd) {
    let wants_view = std::env::args_os().nth(3).is_some_and(|word| word == VIEW_ARG);
    let prepared = confine::PreparedSandbox::new(wants_view);
    while let Ok(call) = receive(socket) {
        if let Some(fds) = call {
            close(socket);
            minder::mind(fds, prepared, || {
                let _ = rustix::io::write(taken_write, b".");
                close(taken_write);
            });
            return;
        }
    }
}

/// Forks. Returns `None` in the child.
#[expect(unsafe_code, reason = "rustix does not fork")]
fn fork() -> rustix::io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so no other thread's state can be inconsistent in the
    // child.
    match unsafe { libc::fork() } {
        pid if pid < 0 => Err(Errno::AGAIN),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Closes a file of the spawner in the minder. Its owner is the spawner's loop, which does not
/// continue in this process.
#[expect(unsafe_code, reason = "closes what the forked copy of another function owns")]
fn close(file: &OwnedFd) {
    use std::os::fd::AsRawFd;
    // SAFETY: the owner is not used or dropped after this: the process ends with `exit_now`.
    unsafe { libc::close(file.as_raw_fd()) };
}
