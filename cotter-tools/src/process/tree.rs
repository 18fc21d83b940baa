//! Processes and what is below them, as `/proc` tells it; and ending all of it.

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

/// How long something that cannot be ended is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the environment of a process is looked at that seems to have none.
const LOOKS: usize = 10;

/// Ends every process below this one and reaps it, whatever group or session it went to: this process
/// must be a subreaper. Of `main`, when it is among them, the status is given back. The number is of
/// those that would not end.
pub(crate) fn end_all_below(
    main: Option<Pid>,
    spared: &HashSet<Pid>,
) -> (Option<WaitStatus>, usize) {
    let begun = Instant::now();
    let mut status = None;
    loop {
        let below = below(std::process::id(), spared);
        below.iter().for_each(|found| found.kill());
        let none_left = reap(|pid, its| {
            if Some(pid) == main {
                status = Some(its);
            }
        });
        if none_left || (below.is_empty() && !spared.is_empty()) {
            return (status, 0);
        }
        if begun.elapsed() > PATIENCE {
            return (status, below.len());
        }
        // Killed is not yet gone: the kernel takes a moment, and there is nothing to wait on.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Takes the status of every child that has ended. Says whether none is left.
pub(crate) fn reap(mut seen: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => seen(pid, status),
            Ok(None) => return false,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// How many processes are below this one.
pub(crate) fn count_below() -> usize {
    below(std::process::id(), &HashSet::new()).len()
}

/// How many processes and threads the machine has: one short read.
pub(crate) fn count_all() -> Option<usize> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Ends every process whose environment has one of these entries, each a mark, until there is none.
pub(crate) fn end_marked(entries: &[impl AsRef<OsStr>]) {
    let is_one = |had: &[u8]| {
        had.starts_with(MARK.as_bytes())
            && entries.iter().any(|entry| entry.as_ref().as_bytes() == had)
    };
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let mut found = false;
        for pid in all() {
            let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // Read after it was held: the number cannot have become another's meanwhile.
            let environment = environment(pid);
            if environment.split(|byte| *byte == 0).any(is_one) {
                found = true;
                let _ = pidfd_send_signal(&held, Signal::KILL);
            }
        }
        if !found {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The environment of a process. One that is just becoming another program has none for a moment, and is looked
/// at again.
fn environment(pid: Pid) -> Vec<u8> {
    for _ in 0..LOOKS {
        let Ok(read) = fs::read(format!("/proc/{pid}/environ")) else { return vec![] };
        // What has no program is the kernel's, or is over.
        if !read.is_empty() || fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            return read;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    vec![]
}

/// Everything below a process, but for some of its children and what is below those.
fn below(root: u32, spared: &HashSet<Pid>) -> Vec<ProcessEntry> {
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
        below.retain(|pid| !spared.contains(pid));
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
        let Ok(held) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        // The number may have become another's since it was listed; then its parent is another too.
        // What only went to a new parent comes with the next round.
        if parent(self.pid) == Some(self.parent) {
            let _ = pidfd_send_signal(&held, Signal::KILL);
        }
    }
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    (fields.next()? != "Z").then_some(())?;
    Pid::from_raw(fields.next()?.parse().ok()?)
}
