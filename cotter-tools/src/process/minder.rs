//! The minder: one process per call. It starts the command, waits for it, and ends all its
//! processes when it is done, when the caller ends it, or when the caller is gone.

use std::{collections::HashSet, io::Read, os::unix::net::UnixStream, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, WaitStatus, pidfd_open, set_child_subreaper},
};

use crate::confine::{enter::PreparedSandbox, guard::PathGuard};
use crate::process::{
    Exit, ProcessEnd, launch,
    spawner_main::MinderFds,
    tree,
    wire::{self, Report, Request},
};

/// How often the number of processes is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Every how many checks all processes below are counted, even if the machine's total is low.
const FULL_COUNT_EVERY: usize = 10;

/// Runs a whole call; sends the report last. `on_started` is called once, when the command was
/// started.
pub(crate) fn mind(mut fds: MinderFds, prepared: PreparedSandbox, on_started: impl FnOnce()) {
    let request = receive(&mut fds);
    let MinderFds { mut control, stdout, stderr, stdin } = fds;
    let files = launch::Files { stdin, stdout, stderr };
    let report = match request {
        Ok(request) => run(&request, prepared, &control, files, on_started),
        Err(why) => {
            on_started();
            Report::NotStarted(why)
        }
    };
    let _ = wire::send(&mut control, &report.encode());
}

fn receive(fds: &mut MinderFds) -> Result<Request, String> {
    set_child_subreaper(Some(rustix::process::getpid())).map_err(|cause| cause.to_string())?;
    let body = wire::receive(&mut fds.control).map_err(|cause| cause.to_string())?;
    Request::decode(&body).ok_or_else(|| "the request cannot be decoded".into())
}

fn run(
    request: &Request,
    mut prepared: PreparedSandbox,
    control: &UnixStream,
    files: launch::Files,
    on_started: impl FnOnce(),
) -> Report {
    let confinement = request.confinement.as_ref();
    if confinement.is_some_and(|confinement| confinement.view)
        && let Err(why) = prepared.renew_view()
    {
        on_started();
        return Report::NotStarted(format!("cannot confine it: {why}"));
    }
    let mut guard = confinement.map(PathGuard::take);
    let started = launch::launch(request, prepared, &files);
    on_started();
    drop(files);
    let (pid, failure_reader) = match started {
        Ok(started) => started,
        Err(cause) => return Report::NotStarted(cause.to_string()),
    };
    let mut remarks = vec![];
    let mut caller = Caller { control, guard: &mut guard };
    let status = watch(pid, &mut caller, request.processes as usize, &mut remarks);
    while caller.has_message() && caller.read_message() {}
    if let Some(guard) = guard {
        remarks.extend(guard.restore_all());
    }
    match start_failure(failure_reader) {
        Some(why) => Report::NotStarted(why),
        None => Report::Ended(ProcessEnd { exit: exit(status), remarks }),
    }
}

/// The connection to the caller. Until it is closed, the caller may send newly approved paths.
struct Caller<'a> {
    control: &'a UnixStream,
    guard: &'a mut Option<PathGuard>,
}

impl Caller<'_> {
    fn has_message(&self) -> bool {
        let mut waiting = [PollFd::new(self.control, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waiting, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Reads one message. False if the caller no longer wants the command.
    fn read_message(&mut self) -> bool {
        let message = wire::receive(&mut &*self.control).ok();
        let Some(paths) = message.and_then(|body| wire::decode_approved(&body)) else {
            return false;
        };
        if let Some(guard) = self.guard {
            guard.approve(&paths);
        }
        true
    }
}

/// Waits until the command is done or the caller leaves, then ends the remaining processes.
fn watch(
    command: Pid,
    caller: &mut Caller<'_>,
    max_processes: usize,
    remarks: &mut Vec<String>,
) -> Option<WaitStatus> {
    let mut status = None;
    if let Ok(pidfd) = pidfd_open(command, PidfdFlags::empty()) {
        let before = tree::count_all().unwrap_or(0);
        for round in 1_usize.. {
            let mut waiting =
                [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(caller.control, PollFlags::IN)];
            let interval = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.as_nanos() as _ };
            let polled = poll(&mut waiting, Some(&interval));
            // Orphans are reparented to us and would stay as zombies.
            let none_left = tree::reap(|pid, exit_status| {
                if pid == command {
                    status = Some(exit_status);
                }
            });
            if none_left {
                return status;
            }
            let has_message = !waiting[1].revents().is_empty();
            let is_done = status.is_some() || has_message && !caller.read_message();
            if is_done || polled.is_err_and(|cause| cause != rustix::io::Errno::INTR) {
                break;
            }
            // One short read tells if a full count is needed. Other processes may have ended
            // meanwhile, so the difference to the start is not exact; a full count is also done
            // every `FULL_COUNT_EVERY` rounds.
            let is_full_count = round.is_multiple_of(FULL_COUNT_EVERY);
            let should_count = tree::count_all().is_none_or(|now| {
                now > before + max_processes || is_full_count && now > max_processes
            });
            if should_count && tree::count_below() > max_processes {
                remarks.push(format!("it had more than {max_processes} processes and was ended"));
                break;
            }
        }
    }
    let (main_status, left) = tree::end_all_below(Some(command), &HashSet::new());
    if left > 0 {
        remarks.push(format!("{left} of its processes could not be ended"));
    }
    status.or(main_status)
}

fn exit(status: Option<WaitStatus>) -> Exit {
    let code = status.and_then(WaitStatus::exit_status).map(Exit::Code);
    let signal = status.and_then(WaitStatus::terminating_signal).map(Exit::Signal);
    code.or(signal).unwrap_or(Exit::Signal(9))
}

/// The reason that the process wrote before it could become the command.
fn start_failure(mut reader: impl Read) -> Option<String> {
    let mut why = String::new();
    reader.read_to_string(&mut why).ok().filter(|length| *length > 0)?;
    Some(why)
}
