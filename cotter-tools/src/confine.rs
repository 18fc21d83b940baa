//! Confinement of commands by the operating system. This module computes what a call may touch; the
//! kernel enforces it.
//!
//! - **Landlock** opens files. To read: the system, the project, roots and caches. To write: the
//!   project, write roots, caches and a private temp folder. The home folder as a whole is not
//!   open.
//! - **seccomp** removes sockets by zone, and system calls that no build needs: tracing, kernel
//!   keys, mounts, namespaces, io_uring, typing into a terminal.
//! - Landlock cannot close a folder within an open one, and does not know about owners, modes and
//!   times; a **mount namespace** does this. In this *view* everything but the write roots is
//!   read-only, existing protected paths at any depth too; closed folders appear empty, secret files
//!   and those that a rule denies cannot be read. System V IPC is private.
//! - If the machine allows no view, closed folders are left out of the opened ones, entry by entry;
//!   protected paths are backed up before the call and restored when all its processes have ended.
//! - A protected path that does not exist yet cannot be forbidden: one that a command creates is
//!   removed after the call, and this is reported. Removed content is set aside, not destroyed.
//! - For a command that outlives its call, the same is done at its end, with one exception: a
//!   protected path that existed before and changed is reported and left, because a person may have
//!   changed it. New protected paths are reported while it runs. Paths that another call was
//!   approved to write meanwhile stay.
//!
//! Not covered: pseudo-terminals, which confined commands cannot open; a process outside that reads a
//! protected path between its change and its restoration. `docs/SECURITY.md` lists what stays open.

pub(crate) mod enter;
pub(crate) mod filter;
pub(crate) mod guard;
pub mod hook_root;
pub(crate) mod index;
pub(crate) mod interpreters;
pub(crate) mod mounts;
pub(crate) mod program_path;
pub(crate) mod protect;
pub(crate) mod refusals;
pub(crate) mod rights;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use cotter::{
    Workspace,
    builtin::is_protected,
    fs::{git, paths},
    permission::facts::{CommandWordKind, Facts, SimpleCommand},
};

#[cfg(target_os = "linux")]
pub(crate) use crate::confine::enter::{PreparedSandbox, prepare};

pub use cotter::permission::mode::Sandbox;

/// The network access of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// None, not even local sockets.
    Off,
    /// The internet, and of local sockets only loopback.
    On,
    /// The internet and local sockets, such as a key agent's.
    WithLocal,
}

impl Network {
    const WORDS: [(Network, &'static str); 3] =
        [(Network::Off, "off"), (Network::On, "on"), (Network::WithLocal, "with-local")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(network, _)| *network == self).map_or("off", |(_, word)| word)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, name)| *name == word).map(|(network, _)| *network)
    }
}

/// The system calls of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallSet {
    /// Those that a build needs.
    Few,
    /// All except those that act on other processes. For a program chosen by a person, which may be
    /// a browser with its own namespaces.
    Most,
}

impl SyscallSet {
    const WORDS: [(SyscallSet, &'static str); 2] =
        [(SyscallSet::Few, "few"), (SyscallSet::Most, "most")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(calls, _)| *calls == self).map_or("few", |(_, word)| word)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, name)| *name == word).map(|(calls, _)| *calls)
    }
}

/// The rights of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Its system calls.
    pub calls: SyscallSet,
    /// Its network access.
    pub network: Network,
    /// Files and folders it may read and run, with everything below, besides those of the system.
    pub reads: Vec<PathBuf>,
    /// Files and folders it may read, run and write, with everything below.
    pub writes: Vec<PathBuf>,
    /// Like `writes`, but only if protected paths within can be mounted read-only.
    pub guarded_writes: Vec<PathBuf>,
    /// Closed paths, even inside open ones.
    pub closed: Vec<PathBuf>,
    /// Paths that must not be written, even inside writable ones.
    pub protected: Vec<PathBuf>,
    /// The folder for content of protected paths, when they are restored. `None`: nothing is
    /// restored.
    pub aside: Option<PathBuf>,
    /// True if it runs in a view of its own. If none can be made, it does not start.
    pub view: bool,
    /// Existing protected paths deeper in the project. They must not be written.
    pub nested: Vec<PathBuf>,
    /// Existing files and folders that must not be read: secrets, and paths that a rule denies.
    pub covered: Vec<PathBuf>,
    /// The folder with an unreadable file `file` and an empty folder `folder`, which are mounted over
    /// covered paths.
    pub blank: Option<PathBuf>,
    /// True if it outlives its call. A path that existed before and changed may be a person's
    /// change: it is reported and left. A new path is removed as for any other command.
    pub outlives: bool,
}

impl Confinement {
    /// The confinement of a server chosen by a person: everything its user may touch, except paths
    /// closed to every tool. Without `local` it uses no local socket except loopback: some local
    /// programs type for a person, start other programs or draw on the screen for any client.
    #[cfg(feature = "mcp")]
    pub(crate) fn of_server(closed: Vec<PathBuf>, local: bool, view: bool) -> Self {
        Confinement {
            calls: SyscallSet::Most,
            network: if local { Network::WithLocal } else { Network::On },
            writes: vec!["/".into()],
            closed,
            view,
            ..Confinement::nothing()
        }
    }

    /// A confinement without any rights.
    pub(crate) fn nothing() -> Self {
        Confinement {
            calls: SyscallSet::Few,
            network: Network::Off,
            reads: vec![],
            writes: vec![],
            guarded_writes: vec![],
            closed: vec![],
            protected: vec![],
            aside: None,
            view: false,
            nested: vec![],
            covered: vec![],
            blank: None,
            outlives: false,
        }
    }

    /// Opens the folders that git needs outside the project, and protects paths inside the open
    /// ones.
    pub(crate) fn open_repositories(&mut self, facts: &Facts, workspace: &Workspace) {
        let folders = crate::confine::protect::folders(workspace);
        for git in folders.iter().filter_map(|folder| git::worktree(folder)) {
            self.writes.extend(crate::confine::protect::writes(&git));
            self.guarded_writes.push(git.common);
        }
        let mut protected = crate::confine::protect::paths(&folders);
        protected.retain(|path| !is_approved(path, facts, workspace));
        self.protected = protected;
    }

    pub(crate) fn lists(&self) -> [&[PathBuf]; 9] {
        let (aside, blank) = (self.aside.as_slice(), self.blank.as_slice());
        let (nested, covered) = (&self.nested, &self.covered);
        let writes = [&self.reads, &self.writes, &self.guarded_writes];
        let [reads, writes, guarded_writes] = writes.map(Vec::as_slice);
        let (closed, protected) = (&self.closed, &self.protected);
        [reads, writes, guarded_writes, closed, protected, nested, covered, aside, blank]
    }

    pub(crate) fn with_lists(self, lists: Vec<Vec<PathBuf>>) -> Option<Self> {
        let [reads, writes, guarded_writes, closed, protected, nested, covered, aside, blank] =
            lists.try_into().ok()?;
        let (aside, blank) = (aside.into_iter().next(), blank.into_iter().next());
        Some(Confinement {
            reads,
            writes,
            guarded_writes,
            closed,
            protected,
            nested,
            covered,
            aside,
            blank,
            ..self
        })
    }
}

/// True if a call was decided as one that writes this protected path, or if git creates it.
pub(crate) fn is_approved(path: &Path, facts: &Facts, workspace: &Workspace) -> bool {
    let overlaps = |written: &PathBuf| written.starts_with(path) || path.starts_with(written);
    made_repositories(facts, workspace).iter().any(|made| made == path)
        || facts.writes.iter().any(|written| overlaps(written) && is_protected(written, workspace))
}

/// The commands that create a git repository.
const REPOSITORY_MAKERS: [(&str, &[&str]); 2] =
    [("git", &["init", "clone", "worktree"]), ("cargo", &["new", "init"])];

/// Options of these commands that bring no hooks and no settings into the repository, as `--template` would.
const PLAIN_OPTIONS: [&str; 16] = [
    "-q",
    "--quiet",
    "-b",
    "--initial-branch",
    "--bare",
    "--branch",
    "--depth",
    "--single-branch",
    "--no-checkout",
    "--detach",
    "--lib",
    "--bin",
    "--name",
    "--edition",
    "--vcs",
    "--",
];

/// The `.git` folders of the repositories that a call creates, if it runs nothing else that could write into
/// them.
pub(crate) fn made_repositories(facts: &Facts, workspace: &Workspace) -> Vec<PathBuf> {
    let word = |command: &SimpleCommand, at: usize| {
        command.words.get(at).map(|word| word.text.to_string()).unwrap_or_default()
    };
    let makes = |command: &&SimpleCommand| {
        let (name, verb) = (word(command, 0), word(command, 1));
        let mut makers = REPOSITORY_MAKERS.iter();
        let mut options = command.words.iter().filter(|word| word.text.starts_with('-'));
        let is_plain = |text: &str| PLAIN_OPTIONS.contains(&text.split('=').next().unwrap_or(text));
        makers.any(|(maker, verbs)| *maker == name && verbs.contains(&verb.as_str()))
            && options.all(|word| is_plain(&word.text))
    };
    if !facts.commands.iter().all(|command| word(command, 0) == "git" || makes(&command)) {
        return vec![];
    }
    let makers = facts.commands.iter().filter(makes);
    let folders = makers.flat_map(|command| {
        let operands = command.words.iter().skip(2);
        let operands = operands.filter(|word| word.kind == CommandWordKind::Operand);
        let mut folders: Vec<_> =
            operands.flat_map(|word| paths::touched_paths(&word.text, workspace)).collect();
        // A clone is named after its address.
        match word(command, 1).as_str() {
            "init" if folders.is_empty() => folders.push(workspace.cwd().into()),
            _ => folders.extend(facts.writes.iter().cloned()),
        }
        folders
    });
    folders.map(|folder| folder.join(".git")).collect()
}

/// Exits at once, without the exit handlers of the process this one was forked from.
#[expect(unsafe_code, reason = "rustix has no _exit outside its runtime")]
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// The paths every command may read: the system, without personal files.
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

/// The existing paths of [`SYSTEM`], resolved, without those inside another. Computed once.
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

/// The reason why this machine cannot confine commands, if it cannot. Computed once.
#[cfg(target_os = "linux")]
pub fn unsupported() -> Option<String> {
    static FOUND: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| crate::confine::enter::check().err()).clone()
}

/// The reason why this machine cannot confine commands, if it cannot.
#[cfg(not(target_os = "linux"))]
pub fn unsupported() -> Option<String> {
    Some("only Linux can confine commands".into())
}
