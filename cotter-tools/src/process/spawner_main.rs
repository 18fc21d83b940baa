//! The spawner: our own binary started once more, small and with one thread, which forks a minder for
//! every command. A fork of the large process would cost more the more memory it has.

use std::{
    collections::HashSet,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    panic::{AssertUnwindSafe, catch_unwind},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    pipe::PipeFlags,
    process::{
        DumpableBehavior, Pid, PidfdFlags, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    },
};

use crate::confine;
use crate::process::{WORD, minder, temp, tree};

/// Serves as the spawner and never comes back, if this process was started to be one; else does
/// nothing.
pub(crate) fn serve_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|word| word == WORD) {
        std::process::exit(serve());
    }
}

/// What a minder works with, handed over with the request.
pub(crate) struct MinderFds {
    /// Where the request comes from and the report goes to. When its other end is gone, all ends.
    pub(crate) control: UnixStream,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// What the command reads, where it reads anything.
    pub(crate) stdin: Option<OwnedFd>,
}

/// Keeps one minder ready, which waits for the next call by itself: a call waits for one fork less.
fn serve() -> i32 {
    let Ok(socket) = settle() else { return 2 };
    confine::prepare();
    let Ok((taken, take)) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC) else { return 1 };
    let mut minders: Vec<(Pid, OwnedFd)> = vec![];
    let mut ready = start_minder(&socket, &take, &mut minders);
    loop {
        // Of the socket only its end is looked at: what comes is the minder's.
        let mut waiting =
            vec![PollFd::new(&socket, PollFlags::RDHUP), PollFd::new(&taken, PollFlags::IN)];
        waiting.extend(minders.iter().map(|(_, held)| PollFd::new(held, PollFlags::IN)));
        match poll(&mut waiting, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return 1,
            Ok(_) => {}
        }
        let seen: Vec<_> = waiting.iter().map(|waiting| !waiting.revents().is_empty()).collect();
        // Nobody is there any more. The minders end their commands, and themselves.
        if seen[0] {
            clear_up(&mut minders);
            return 0;
        }
        let was_taken = seen[1] && rustix::io::read(&taken, &mut [0; 1]).is_ok();
        if seen[2..].contains(&true) {
            take_leave(&mut minders);
        }
        let is_there = minders.iter().any(|(pid, _)| Some(*pid) == ready);
        if was_taken || !is_there {
            ready = start_minder(&socket, &take, &mut minders);
        }
    }
}

/// Removes the private folder, which its owner may not have had the time to, once nobody writes there.
fn clear_up(minders: &mut Vec<(Pid, OwnedFd)>) {
    while !minders.is_empty() {
        let mut waiting: Vec<_> =
            minders.iter().map(|(_, held)| PollFd::new(held, PollFlags::IN)).collect();
        let _ = poll(&mut waiting, None);
        take_leave(minders);
    }
    if let Some(private) = std::env::args_os().nth(2) {
        temp::remove(private.as_ref());
    }
}

/// Leaves everything behind that came with the start: terminal, other files, other ways with signals.
fn settle() -> rustix::io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::net::getsockname(&socket)?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    close_others(&socket, &nothing);
    reset_signals();
    // Without a terminal nothing that is started here can read a person's keys.
    let _ = rustix::process::setsid();
    // What a killed minder leaves behind comes to us.
    set_child_subreaper(Some(rustix::process::getpid()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(socket)
}

#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_others(socket: &OwnedFd, nothing: &OwnedFd) {
    use std::os::fd::AsRawFd;
    let highest = socket.as_raw_fd().max(nothing.as_raw_fd()).cast_unsigned();
    // SAFETY: only numbers above those this process has opened itself are closed.
    unsafe { libc::close_range(highest + 1, u32::MAX, 0) };
    for fd in 3..highest {
        if fd.cast_signed() != socket.as_raw_fd() && fd.cast_signed() != nothing.as_raw_fd() {
            // SAFETY: as above; nothing in this process owns what was inherited.
            unsafe { libc::close(fd.cast_signed()) };
        }
    }
}

/// What was ignored would stay ignored in every command.
#[expect(unsafe_code, reason = "rustix does not set signal handlers")]
fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: the default handler is set; no code of ours runs in a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an empty set of signals is written before it is read.
    unsafe {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Who was killed instead of ending by itself left its processes to us.
fn take_leave(minders: &mut Vec<(Pid, OwnedFd)>) {
    let mut killed = false;
    tree::reap(|pid, status| {
        if minders.iter().any(|(minder, _)| *minder == pid) {
            minders.retain(|(minder, _)| *minder != pid);
            killed |= status.signaled();
        }
    });
    if killed {
        let spared: HashSet<_> = minders.iter().map(|(pid, _)| *pid).collect();
        tree::end_all_below(None, &spared);
    }
}

/// The next call, or `None` if what came is none.
fn receive(socket: &OwnedFd) -> rustix::io::Result<Option<MinderFds>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut handed = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut handed, flags)?;
    if got.bytes == 0 {
        return Err(Errno::PIPE);
    }
    let mut files = handed.drain().flat_map(|message| match message {
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
    take: &OwnedFd,
    minders: &mut Vec<(Pid, OwnedFd)>,
) -> Option<Pid> {
    match fork() {
        Ok(Some(pid)) => {
            minders.push((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?));
            Some(pid)
        }
        // Tried again with the next thing that happens.
        Err(_) => None,
        Ok(None) => {
            minders.clear();
            let done = catch_unwind(AssertUnwindSafe(|| be_minder(socket, take)));
            exit_now(if done.is_ok() { 0 } else { 101 })
        }
    }
}

/// Waits for a call and minds it. At the socket's end there is nothing to do.
fn be_minder(socket: &OwnedFd, take: &OwnedFd) {
    let prepared = confine::PreparedSandbox::new();
    while let Ok(call) = receive(socket) {
        if let Some(handed) = call {
            close(socket);
            minder::mind(handed, prepared, || {
                let _ = rustix::io::write(take, b".");
                close(take);
            });
            return;
        }
    }
}

/// In the child there is no pid.
#[expect(unsafe_code, reason = "rustix does not fork")]
fn fork() -> rustix::io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so the child is in no half-done state of another.
    match unsafe { libc::fork() } {
        pid if pid < 0 => Err(Errno::AGAIN),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends without anything that was to be done at the end of the process this one was forked from.
#[expect(unsafe_code, reason = "rustix has no _exit outside its runtime")]
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it takes a number and does not come back.
    unsafe { libc::_exit(code) }
}

/// The minder must not hold what is the spawner's. Its owner is the spawner's loop, which never goes on
/// in this process.
#[expect(unsafe_code, reason = "closes what the forked copy of another function owns")]
fn close(file: &OwnedFd) {
    use std::os::fd::AsRawFd;
    // SAFETY: the owner is not used or dropped after this: the process ends with `exit_now`.
    unsafe { libc::close(file.as_raw_fd()) };
}
