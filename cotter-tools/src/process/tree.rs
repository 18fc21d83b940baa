//! The process tree by `/proc`, and killing all of it.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, wait,
    },
};

use crate::process::environment::MARK;

/// How long to wait for a process that does not end.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How often an environment that reads as empty is read again.
const READ_ATTEMPTS: usize = 10;

/// Kills and reaps every process below this one, in any group or session. This process must be a
/// subreaper. Returns the status of `main`, if it is among them, and the number of processes that
/// did not end.
pub(crate) fn end_all_below(
    main: Option<Pid>,
    except: &HashSet<Pid>,
) -> (Option<WaitStatus>, usize) {
    let start = Instant::now();
    let mut status = None;
    loop {
        let below = below(std::process::id(), except);
        below.iter().for_each(|process| process.kill());
        let none_left = reap(|pid, exit_status| {
            if Some(pid) == main {
                status = Some(exit_status);
            }
        });
        if none_left || (below.is_empty() && !except.is_empty()) {
            return (status, 0);
        }
        if start.elapsed() > KILL_TIMEOUT {
            return (status, below.len());
        }
        // Killed processes take a moment to go, and there is nothing to wait on.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Reaps every child that has ended. True if none is left.
pub(crate) fn reap(mut on_exit: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => on_exit(pid, status),
            Ok(None) => return false,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// The number of processes below this one.
pub(crate) fn count_below() -> usize {
    below(std::process::id(), &HashSet::new()).len()
}

/// The number of processes and threads of the machine, by one short read.
pub(crate) fn count_all() -> Option<usize> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Kills every process whose environment has one of these marks, until there is none.
pub(crate) fn end_marked(entries: &[impl AsRef<OsStr>]) {
    let is_marked = |variable: &[u8]| {
        variable.starts_with(MARK.as_bytes())
            && entries.iter().any(|entry| entry.as_ref().as_bytes() == variable)
    };
    let start = Instant::now();
    while start.elapsed() < KILL_TIMEOUT {
        let mut found = false;
        for pid in all() {
            let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // Read after the pidfd was opened: the pid cannot have been reused meanwhile.
            let environment = environment(pid);
            if environment.split(|byte| *byte == 0).any(is_marked) {
                found = true;
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            }
        }
        if !found {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The environment of a process. During an exec it is empty for a moment, so it is read again.
fn environment(pid: Pid) -> Vec<u8> {
    for _ in 0..READ_ATTEMPTS {
        let Ok(read) = fs::read(format!("/proc/{pid}/environ")) else { return vec![] };
        // A process without a program is a kernel thread or a zombie.
        if !read.is_empty() || fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            return read;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    vec![]
}

/// All processes below a process, except some of its children and the processes below those.
fn below(root: u32, except: &HashSet<Pid>) -> Vec<ProcessEntry> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for pid in all() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![];
    let mut next: Vec<Pid> = root.try_into().ok().and_then(Pid::from_raw).into_iter().collect();
    while let Some(pid) = next.pop() {
        let mut below = children.remove(&pid).unwrap_or_default();
        below.retain(|pid| !except.contains(pid));
        found.extend(below.iter().map(|child| ProcessEntry { pid: *child, parent: pid }));
        next.extend(below);
    }
    found
}

struct ProcessEntry {
    pid: Pid,
    parent: Pid,
}

impl ProcessEntry {
    fn kill(&self) {
        let Ok(pidfd) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        // The pid may have been reused since it was listed; then its parent differs. A process that
        // only got a new parent is found in the next round.
        if parent(self.pid) == Some(self.parent) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any characters, parentheses too.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    (fields.next()? != "Z").then_some(())?;
    Pid::from_raw(fields.next()?.parse().ok()?)
}
