//! A minder: one process per call, which starts the command, waits for it, and ends everything that
//! came of it when it is done, when its caller wants no more of it, or when its caller is gone.

use std::{collections::HashSet, io::Read, os::unix::net::UnixStream, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, WaitStatus, pidfd_open, set_child_subreaper},
};

use crate::confine::{Confinement, enter::PreparedSandbox, guard::PathGuard};
use crate::process::{
    Exit, ProcessEnd, launch,
    spawner_main::MinderFds,
    tree,
    wire::{self, Report, Request},
};

/// How often it is looked how many processes there are.
const LOOK: Duration = Duration::from_millis(100);

/// Every how many looks all of them are counted, however the machine stands.
const THOROUGH: usize = 10;

/// Does all of it; the report is the last thing. `begun` is called once, when the command is on its way.
pub(crate) fn mind(mut handed: MinderFds, prepared: PreparedSandbox, begun: impl FnOnce()) {
    let request = receive(&mut handed);
    let MinderFds { mut control, stdout, stderr, stdin } = handed;
    let files = launch::Files { stdin, stdout, stderr };
    let report = match request {
        Ok(request) => run(&request, prepared, &control, files, begun),
        Err(why) => {
            begun();
            Report::NotStarted(why)
        }
    };
    let _ = wire::send(&mut control, &report.encode());
}

fn receive(handed: &mut MinderFds) -> Result<Request, String> {
    set_child_subreaper(Some(rustix::process::getpid())).map_err(|cause| cause.to_string())?;
    let body = wire::receive(&mut handed.control).map_err(|cause| cause.to_string())?;
    Request::decode(&body).ok_or_else(|| "the request is not understood".into())
}

fn run(
    request: &Request,
    prepared: PreparedSandbox,
    control: &UnixStream,
    files: launch::Files,
    begun: impl FnOnce(),
) -> Report {
    let mounted = request.confinement.as_ref().is_some_and(Confinement::mounts);
    let mut guard =
        request.confinement.as_ref().map(|confinement| PathGuard::take(confinement, mounted));
    let started = launch::launch(request, mounted, prepared, &files);
    begun();
    drop(files);
    let (pid, failed) = match started {
        Ok(started) => started,
        Err(cause) => return Report::NotStarted(cause.to_string()),
    };
    let mut remarks = vec![];
    let mut caller = Caller { control, guard: &mut guard };
    let status = watch(pid, &mut caller, request.processes as usize, &mut remarks);
    while caller.has_spoken() && caller.hear() {}
    if let Some(guard) = guard {
        remarks.extend(guard.put_back());
    }
    match said_why(failed) {
        Some(why) => Report::NotStarted(why),
        None => Report::Ended(ProcessEnd { exit: exit(status), remarks }),
    }
}

/// Who wants the command: until the line is closed, they may say what was approved meanwhile.
struct Caller<'a> {
    control: &'a UnixStream,
    guard: &'a mut Option<PathGuard>,
}

impl Caller<'_> {
    fn has_spoken(&self) -> bool {
        let mut waiting = [PollFd::new(self.control, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waiting, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Takes one message; whether they still want the command.
    fn hear(&mut self) -> bool {
        let heard = wire::receive(&mut &*self.control).ok();
        let Some(paths) = heard.and_then(|body| wire::approved_in(&body)) else { return false };
        if let Some(guard) = self.guard {
            guard.approve(&paths);
        }
        true
    }
}

/// Waits until the command is done or nobody wants it any more, then ends what is left.
fn watch(
    command: Pid,
    caller: &mut Caller<'_>,
    most: usize,
    remarks: &mut Vec<String>,
) -> Option<WaitStatus> {
    let mut status = None;
    if let Ok(held) = pidfd_open(command, PidfdFlags::empty()) {
        let before = tree::count_all().unwrap_or(0);
        for looks in 1_usize.. {
            let mut waiting =
                [PollFd::new(&held, PollFlags::IN), PollFd::new(caller.control, PollFlags::IN)];
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
            let seen = poll(&mut waiting, Some(&look));
            // Orphans come to us and would stay as zombies.
            let none_left = tree::reap(|pid, its| {
                if pid == command {
                    status = Some(its);
                }
            });
            if none_left {
                return status;
            }
            let spoken = !waiting[1].revents().is_empty();
            let ended = status.is_some() || spoken && !caller.hear();
            if ended || seen.is_err_and(|cause| cause != rustix::io::Errno::INTR) {
                break;
            }
            // One short read says whether a longer look is worth it. Others may have ended meanwhile, so
            // how much there is more than before is not all: now and then it is looked anyway.
            let due = looks.is_multiple_of(THOROUGH);
            let worth =
                tree::count_all().is_none_or(|now| now > before + most || due && now > most);
            if worth && tree::count_below() > most {
                remarks.push(format!("it had more than {most} processes and was ended"));
                break;
            }
        }
    }
    let (ended, left) = tree::end_all_below(Some(command), &HashSet::new());
    if left > 0 {
        remarks.push(format!("{left} of its processes could not be ended"));
    }
    status.or(ended)
}

fn exit(status: Option<WaitStatus>) -> Exit {
    let code = status.and_then(WaitStatus::exit_status).map(Exit::Code);
    let signal = status.and_then(WaitStatus::terminating_signal).map(Exit::Signal);
    code.or(signal).unwrap_or(Exit::Signal(9))
}

/// What the command's process wrote before it could become the command.
fn said_why(mut failed: impl Read) -> Option<String> {
    let mut why = String::new();
    failed.read_to_string(&mut why).ok().filter(|length| *length > 0)?;
    Some(why)
}
