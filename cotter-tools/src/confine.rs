//! Confinement of commands by the operating system: what a call may touch is worked out here, and the
//! kernel sees to it.
//!
//! - **Landlock** opens files: the system, the project, roots and caches to read; the project, write
//!   roots, caches and a private temp folder to write. The home folder at large is not open.
//! - **seccomp** takes sockets away by zone, and what no build needs: tracing, kernel keys, mounts,
//!   namespaces, io_uring, typing into a terminal.
//! - Landlock cannot close a folder within an open one. For that there is a **mount namespace**:
//!   protected paths that exist are mounted read-only over themselves, closed folders are empty. Where
//!   the machine allows no such namespace, closed folders are left out of what is opened, entry by
//!   entry; protected paths are written down before the call, and put back after it, when none of its
//!   processes is left. The same holds everywhere for protected paths that do not exist yet: who makes
//!   one finds it gone after the call, and is told. What is taken away is set aside, not destroyed.
//! - For a command that outlives its call the same holds at its end, but for what was there before it
//!   and is otherwise now: a person may have written there meanwhile, so it is told and left. What is
//!   made while it runs is told as long as it runs; what another call was approved to write meanwhile
//!   stays.
//!
//! Not covered: repositories further down in the project than its root and the folders on the way to
//! the working folder; a pseudo-terminal, which confined commands cannot open; a protected path that a
//! process outside happens to read in the moments between its change and its restoration.

pub(crate) mod enter;
pub(crate) mod filter;
#[cfg(target_os = "linux")]
pub(crate) mod guard;
pub(crate) mod mounts;
pub(crate) mod protect;
pub(crate) mod refusals;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use cotter::{
    Workspace,
    builtin::is_protected,
    fs::git,
    permission::facts::{Facts, SimpleCommand},
};

#[cfg(target_os = "linux")]
pub(crate) use crate::confine::enter::{PreparedSandbox, prepare};

pub use cotter::permission::mode::Sandbox;

/// How much of the network a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// None, this machine's own sockets included.
    Off,
    /// The internet, and nothing local but loopback.
    On,
    /// The internet, and sockets of this machine such as a key agent's.
    WithLocal,
}

impl Network {
    const WORDS: [(Network, &'static str); 3] =
        [(Network::Off, "off"), (Network::On, "on"), (Network::WithLocal, "with-local")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(network, _)| *network == self).map_or("off", |(_, word)| word)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(network, _)| *network)
    }
}

/// Which system calls a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallSet {
    /// Those that a build needs.
    Few,
    /// All but those by which it could act for somebody else: for a program that a person chose, which may
    /// be a browser with namespaces of its own.
    Most,
}

impl SyscallSet {
    const WORDS: [(SyscallSet, &'static str); 2] =
        [(SyscallSet::Few, "few"), (SyscallSet::Most, "most")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(calls, _)| *calls == self).map_or("few", |(_, word)| word)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(calls, _)| *calls)
    }
}

/// What a command may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Which system calls it has.
    pub calls: SyscallSet,
    /// How much of the network it has.
    pub network: Network,
    /// Files and folders it may read and run, with all below, besides those of the system.
    pub reads: Vec<PathBuf>,
    /// Files and folders it may read, run and write, with all below.
    pub writes: Vec<PathBuf>,
    /// The same, but only where protected paths within can be mounted read-only.
    pub guarded_writes: Vec<PathBuf>,
    /// Closed to it, also inside of what is open.
    pub closed: Vec<PathBuf>,
    /// Not to be written, also inside of what may be written.
    pub protected: Vec<PathBuf>,
    /// Where goes what it wrote there all the same, when it is put back. Without one nothing is put back.
    pub aside: Option<PathBuf>,
    /// Whether it outlives its call. What was there before it and changes meanwhile may be a person's
    /// doing: it is told and left. What was not there is taken away like after any other.
    pub outlives: bool,
}

impl Confinement {
    /// Everything its user may touch but for what is closed to every tool: for a server that a person
    /// chose. Without `local` it speaks to no socket of this machine but over loopback: there are programs
    /// that type for a person, start others or draw over a screen for whoever asks them to.
    #[cfg(feature = "mcp")]
    pub(crate) fn of_server(closed: Vec<PathBuf>, local: bool) -> Self {
        Confinement {
            calls: SyscallSet::Most,
            network: if local { Network::WithLocal } else { Network::On },
            reads: vec![],
            writes: vec!["/".into()],
            guarded_writes: vec![],
            closed,
            protected: vec![],
            aside: None,
            outlives: false,
        }
    }

    /// What git needs outside the project, and what must not be written in what is open.
    pub(crate) fn open_repositories(&mut self, facts: &Facts, place: &Workspace) {
        let folders = crate::confine::protect::folders(place);
        for git in folders.iter().filter_map(|folder| git::worktree(folder)) {
            self.writes.extend(crate::confine::protect::writes(&git));
            self.guarded_writes.push(git.common);
        }
        let approved = |path: &PathBuf| {
            let named = |written: &PathBuf| written.starts_with(path) || path.starts_with(written);
            facts.writes.iter().any(|written| named(written) && is_protected(written, place))
        };
        let made = |path: &PathBuf| path.ends_with(".git") && makes_repository(facts);
        let mut protected = crate::confine::protect::paths(&folders);
        protected.retain(|path| !approved(path) && !made(path));
        self.protected = protected;
    }

    pub(crate) fn lists(&self) -> [&[PathBuf]; 6] {
        let aside = self.aside.as_slice();
        [&self.reads, &self.writes, &self.guarded_writes, &self.closed, &self.protected, aside]
    }

    pub(crate) fn from_lists(
        calls: SyscallSet,
        network: Network,
        outlives: bool,
        lists: Vec<Vec<PathBuf>>,
    ) -> Option<Self> {
        let [reads, writes, guarded_writes, closed, protected, aside] = lists.try_into().ok()?;
        let aside = aside.into_iter().next();
        Some(Confinement {
            calls,
            network,
            reads,
            writes,
            guarded_writes,
            closed,
            protected,
            aside,
            outlives,
        })
    }
}

/// Whether a call is git making a repository, and nothing else that could write into it.
pub(crate) fn makes_repository(facts: &Facts) -> bool {
    let says = |command: &SimpleCommand, at: usize, word: &str| {
        command.words.get(at).is_some_and(|said| said.text == word)
    };
    facts.commands.iter().all(|command| says(command, 0, "git"))
        && facts.commands.iter().any(|command| says(command, 1, "init"))
}

/// Where every command may read: the system, but not what people keep on it.
const SYSTEM: [&str; 24] = [
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/proc",
    "/sys",
    "/dev/random",
    "/dev/urandom",
    "/run/systemd/resolve",
    "/run/current-system",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/pacman",
    "/var/cache/fontconfig",
    "/var/cache/man",
    "/home/linuxbrew/.linuxbrew",
];

/// What of [`SYSTEM`] there is, where it really is, without what lies in another of them. Looked up once.
pub(crate) fn system() -> &'static [PathBuf] {
    static FOUND: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let mut found: Vec<PathBuf> = vec![];
        let mut real: Vec<_> =
            SYSTEM.iter().filter_map(|path| Path::new(path).canonicalize().ok()).collect();
        real.sort_unstable();
        for path in real {
            if !found.iter().any(|open| path.starts_with(open)) {
                found.push(path);
            }
        }
        found
    });
    &FOUND
}

/// Why this machine cannot confine, where it cannot. Looked up once.
#[cfg(target_os = "linux")]
pub fn unsupported() -> Option<String> {
    static FOUND: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| crate::confine::enter::check().err()).clone()
}

/// Why this machine cannot confine, where it cannot.
#[cfg(not(target_os = "linux"))]
pub fn unsupported() -> Option<String> {
    Some("only Linux can confine commands".into())
}
