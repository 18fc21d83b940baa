//! Explains refusals of the kernel: the root that would open a path, or that the network is off.

use std::path::{Path, PathBuf};

use cotter::{
    Workspace,
    fs::{paths, workspace::is_system},
};
use cotter_files::command_hook::ProcessExit;

use crate::confine::{Confinement, Network, hook_root, program_path::is_program, rights};

/// Phrases of programs for a refused access.
const REFUSED: [&str; 8] = [
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "device or resource busy",
    "eacces",
    "eperm",
    "erofs",
    "unable to open database file",
];

/// Phrases of programs for a failed connection.
const NETWORK_ERRORS: [&str; 9] = [
    "could not resolve host",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "couldn't connect",
    "failed to connect",
    "getaddrinfo",
    "socket: operation not permitted",
    "creating socket",
];

/// The remark if the network is off.
const NO_NETWORK: &str = "the sandbox blocks the network for this command, including this machine's own \
    sockets: only a call that is known to use the network gets it, once a rule or a person allows it (an \
    unknown program never does); `\"sandbox\": \"off\"` in the person's settings opens it for all";

/// Words in the output of a program that was refused a socket.
const SOCKETS: [&str; 7] = ["socket", "connect", "bind", "listen", "dial", "/dev/tcp", "/dev/udp"];

/// True if a socket was refused. The filter gives only this error; the rest of the output shows
/// if the program used a socket.
fn is_about_socket(line: &str, output: &str) -> bool {
    let is_refused = ["operation not permitted", "eperm"].iter().any(|word| line.contains(word));
    is_refused && {
        let all = output.to_lowercase();
        SOCKETS.iter().any(|word| all.contains(word))
    }
}

/// The remark for a confined hook if it is not known what was refused.
const CONFINED: &str = "it runs confined: it reads the project and the `readRoots` of your settings, and \
    writes the project, `logs`, `data`, `state`, `cache` and `tmp` in its own folder, and your `hookRoots`";

/// Who was refused something: the remark names another way out.
#[derive(Clone, Copy, PartialEq)]
enum Asker {
    Command,
    Hook,
}

/// Phrases of programs for a write that was refused.
const WRITES: [&str; 6] =
    ["cannot create", "can't create", "cannot touch", "tee: ", "mkdir", "mktemp"];

/// Files in the home folder that shells and programs read when they start. What a hook answers does not depend
/// on them.
const STARTUP: [&str; 10] = [
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".curlrc",
    ".inputrc",
    ".profile",
    ".wgetrc",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

fn is_startup_file(path: &Path, workspace: &Workspace) -> bool {
    let below = workspace.home().and_then(|home| path.strip_prefix(home).ok());
    below.is_some_and(|name| STARTUP.iter().any(|known| name == Path::new(known)))
}

/// Phrases of programs that miss a module, which may be in a folder that the sandbox closes.
const NO_MODULE: [&str; 5] = [
    "no module named",
    "cannot find module",
    "cannot find package",
    "cannot load such file",
    "in @inc",
];

/// What the sandbox refused a hook.
#[derive(Default)]
pub(crate) struct HookRefusals {
    /// Its answer may depend on these.
    pub(crate) decisive: Vec<String>,
    /// A person is told of these: the hook succeeded without.
    pub(crate) told: Vec<String>,
}

/// The most remarks about one command.
const MAX_REMARKS: usize = 3;

impl Confinement {
    /// Remarks about the refusals that a command's output mentions. This is a guess: programs word
    /// refusals in their own way.
    pub(crate) fn refusals(&self, output: &str, workspace: &Workspace) -> Vec<String> {
        self.refusals_of(Asker::Command, output, workspace)
    }

    fn refusals_of(&self, asker: Asker, output: &str, workspace: &Workspace) -> Vec<String> {
        let mut remarks: Vec<String> = vec![];
        for line in output.lines() {
            let lower = line.to_lowercase();
            let network_is_off = self.network == Network::Off;
            let remark = if network_is_off && NETWORK_ERRORS.iter().any(|word| lower.contains(word))
            {
                Some(NO_NETWORK.to_owned())
            } else if REFUSED.iter().any(|word| lower.contains(word)) {
                let about = without_shell(line);
                let paths = paths_in(about, workspace);
                match paths.iter().find_map(|path| self.why_refused(asker, path, workspace)) {
                    None if network_is_off
                        && paths.is_empty()
                        && is_about_socket(&lower, output) =>
                    {
                        Some(NO_NETWORK.to_owned())
                    }
                    remark => remark,
                }
            } else {
                None
            };
            if let Some(remark) = remark
                && !remarks.contains(&remark)
            {
                remarks.push(remark);
            }
            if remarks.len() == MAX_REMARKS {
                break;
            }
        }
        remarks
    }

    /// What a hook was refused, by its output.
    pub(crate) fn refusals_of_hook(
        &self,
        exit: ProcessExit,
        output: &str,
        workspace: &Workspace,
    ) -> HookRefusals {
        let says = |line: &str, words: &[&str]| {
            let lower = line.to_lowercase();
            words.iter().any(|word| lower.contains(word))
        };
        // That is the hook's own failure: no root opens the file.
        if describe_not_executable(exit, output, workspace).is_some() {
            return HookRefusals::default();
        }
        if exit == ProcessExit::Code(0) {
            let is_read = |line: &&str| says(line, &REFUSED) && !says(line, &WRITES);
            let reads: Vec<_> = output.lines().filter(is_read).collect();
            let mut decisive = self.refused_reads(&reads.join("\n"), workspace);
            if decisive.is_empty() && output.lines().any(is_refused_program) {
                decisive.push(CONFINED.to_owned());
            }
            let mut told = self.refusals_of(Asker::Hook, output, workspace);
            told.retain(|remark| !decisive.contains(remark));
            return HookRefusals { decisive, told };
        }
        let mut decisive = self.refusals_of(Asker::Hook, output, workspace);
        let mut refused = output.lines().filter(|line| says(line, &REFUSED));
        let has_unnamed_path = refused.any(|line| paths_in(line, workspace).is_empty());
        if decisive.is_empty() && (has_unnamed_path || says(output, &NO_MODULE)) {
            decisive.push(CONFINED.to_owned());
        }
        HookRefusals { decisive, told: vec![] }
    }

    /// Remarks about existing files that a hook could not read, whatever it made of that.
    fn refused_reads(&self, output: &str, workspace: &Workspace) -> Vec<String> {
        let is_read = |line: &&str| {
            let paths = paths_in(line, workspace);
            let refused =
                |path: &&PathBuf| self.why_refused(Asker::Hook, path, workspace).is_some();
            paths.iter().find(refused).is_some_and(|path| {
                let is_log = hook_root::suggestion(path, workspace.home()).is_some();
                path.exists()
                    && !is_log
                    && !is_startup_file(path, workspace)
                    && !self.is_readable(path)
            })
        };
        let lines: Vec<_> = output.lines().filter(is_read).collect();
        self.refusals_of(Asker::Hook, &lines.join("\n"), workspace)
    }

    /// True if the path is below a folder that is open for reading, or such a file.
    fn is_readable(&self, path: &Path) -> bool {
        let below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let is_covered = self.covered.iter().any(|covered| path.starts_with(covered));
        !is_covered && (below(&self.reads) || below(&self.writes) || below(super::system()))
    }

    /// The reason why we refused a path; `None` if we did not.
    fn why_refused(&self, asker: Asker, path: &Path, workspace: &Workspace) -> Option<String> {
        let below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let shown = paths::format_path(path, workspace);
        if workspace.is_closed(path) {
            return Some(format!("{shown} is closed to commands"));
        }
        if let Some(why) = self.why_hidden(path, workspace) {
            return Some(why);
        }
        let mut protected = self.protected.iter().chain(&self.nested);
        if let Some(protected) = protected.find(|protected| path.starts_with(protected)) {
            let why = match asker {
                Asker::Command => "and this call was not approved for it",
                Asker::Hook => {
                    "and hooks write only `logs`, `data`, `state`, `cache` and `tmp` in their own folder"
                }
            };
            let shown = paths::format_path(protected, workspace);
            return Some(format!(
                "writing to {shown} was refused: it decides what runs later, {why}"
            ));
        }
        if below(&self.writes) {
            return None;
        }
        if workspace.is_writable(path) {
            return Some(format!(
                "writing to {shown} was refused: this command was approved as one that only reads"
            ));
        }
        if path.starts_with("/proc") || path.starts_with("/sys") {
            return Some(format!(
                "access to {shown} was refused: it belongs to other processes or the system"
            ));
        }
        if is_system(path) || path.starts_with("/dev") {
            return Some(format!("writing to {shown} was refused: it belongs to the system"));
        }
        if path.components().any(|name| name.as_os_str() == ".git") {
            return Some(format!(
                "writing to {shown} was refused: in a repository outside the project, only the \
                 paths that a commit needs are open"
            ));
        }
        self.why_outside(asker, path, workspace)
    }

    /// The reason for a path outside the project.
    fn why_outside(&self, asker: Asker, path: &Path, workspace: &Workspace) -> Option<String> {
        let shown = paths::format_path(path, workspace);
        let access = match (self.is_readable(path), is_program(path)) {
            (true, _) => "writing to",
            (false, true) => "starting",
            (false, false) => "access to",
        };
        if asker == Asker::Hook {
            return Some(format!(
                "{access} {shown} was refused: {}",
                way_out_of_hook(path, workspace)
            ));
        }
        let root = if path.is_dir() { path } else { path.parent()? };
        // Never suggest to open the root or the whole home folder.
        let is_too_broad =
            root.parent().is_none() || workspace.home().is_some_and(|home| home.starts_with(root));
        let hint = if is_too_broad {
            String::new()
        } else {
            format!("; `--add-dir {}` would open it", root.display())
        };
        Some(format!(
            "{access} {shown} was refused: it is outside the project{hint}. Use $TMPDIR for \
             temporary files"
        ))
    }

    /// The reason why a path is hidden or empty in a view, if it is.
    fn why_hidden(&self, path: &Path, workspace: &Workspace) -> Option<String> {
        let shown = paths::format_path(path, workspace);
        let mut kept = self.covered.iter().chain(&self.nested);
        let is_closed =
            |kept: &&PathBuf| path.starts_with(kept) && kept.is_dir() && !rights::is_listable(kept);
        if let Some(folder) = kept.find(is_closed) {
            let shown = paths::format_path(folder, workspace);
            return Some(format!(
                "{shown} cannot be listed or is too deep: commands cannot use what is in it"
            ));
        }
        let is_covered = self.covered.iter().any(|covered| path.starts_with(covered));
        is_covered.then(|| {
            format!(
                "reading {shown} was refused: it has a secret's name or a rule is about it, and this \
                 call does not name it. A call that names it is asked about; an allow rule \
                 `read({shown})` of the person opens a secret's name"
            )
        })
    }
}

/// What a person can do about a path outside the project that a hook was refused.
fn way_out_of_hook(path: &Path, workspace: &Workspace) -> String {
    let from_home =
        |path: &Path| match workspace.home().and_then(|home| path.strip_prefix(home).ok()) {
            Some(below) => format!("~/{}", below.display()),
            None => path.display().to_string(),
        };
    let log = hook_root::suggestion(path, workspace.home());
    if let Some(log) = log {
        return format!(
            "`\"hookRoots\": [\"{}\"]` in your settings lets hooks write it",
            from_home(&log)
        );
    }
    // Its folder, or the file alone where its folder holds much else.
    let is_narrow = |path: &&Path| {
        let is_home = |home: &Path| home.starts_with(path) || path.parent() == Some(home);
        path.parent().is_some() && (path.is_file() || !workspace.home().is_some_and(is_home))
    };
    let folder = path.parent().filter(|_| path.is_file());
    let read = [folder, Some(path).filter(|path| path.exists())];
    let read = read.into_iter().flatten().find(is_narrow).map(|path| {
        format!("`\"readRoots\": [\"{}\"]` in your settings lets it be read; ", from_home(path))
    });
    format!(
        "it is outside the project; {}a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder",
        read.unwrap_or_default()
    )
}

/// The remark about a program that a hook could not start because it is not executable.
pub(crate) fn describe_not_executable(
    exit: ProcessExit,
    output: &str,
    workspace: &Workspace,
) -> Option<String> {
    if exit != ProcessExit::Code(126) {
        return None;
    }
    let mut named = output.lines().flat_map(|line| paths_in(line, workspace));
    let path = named.find(|path| is_not_executable(path))?;
    let shown = paths::format_path(&path, workspace);
    Some(format!("{shown} is not executable: `chmod +x` makes it so"))
}

/// True if a path is a file without execute permission.
fn is_not_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 == 0)
}

/// A message of a shell without its own name and the number of the line: `guard.sh: line 3: …`, `guard.sh: 3: …`.
fn without_shell(line: &str) -> &str {
    let numbered = line.match_indices(": ").find_map(|(at, _)| {
        let rest = &line[at + 2..];
        let (number, about) = rest.strip_prefix("line ").unwrap_or(rest).split_once(": ")?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(about)
    });
    numbered.unwrap_or(line)
}

/// True if a shell says that it could not start a program that it looked for in `PATH`.
fn is_refused_program(line: &str) -> bool {
    let about = without_shell(line);
    let name = about.strip_suffix(": Permission denied");
    about != line && name.is_some_and(|name| !name.contains(['/', ' ', ':']))
}

/// The paths that a line seems to mention, resolved, the most likely first: quoted ones, and of each kind the
/// last, which is usually the refused one. What the line begins with is usually the program that says it.
fn paths_in(line: &str, workspace: &Workspace) -> Vec<PathBuf> {
    let quoted: Vec<_> = line.split(['\'', '"', '`', '‘', '’']).skip(1).step_by(2).collect();
    // A shell names its own command `.`, which is no path then.
    let parts: Vec<_> = line.split(": ").filter(|part| *part != ".").collect();
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let (program, parts) = parts.split_at(parts.len().min(1));
    let kinds = [&quoted[..], parts, &words, program];
    let all = kinds.into_iter().flat_map(|kind| kind.iter().rev());
    let words = all.map(|word| word.trim_matches([':', ',', '(', ')', '\'', '"']));
    let candidates =
        words.filter(|word| !word.is_empty() && word.len() < 4096 && !word.contains(": "));
    let may_exist = |path: &PathBuf| {
        path.exists()
            || path.parent().is_some_and(|above| above != workspace.cwd() && above.is_dir())
    };
    candidates
        .filter_map(|word| paths::touched_paths(word, workspace).into_iter().next())
        .filter(may_exist)
        // The shell that says it. Every command may start the programs of the system.
        .filter(|path| !(is_system(path) && is_program(path)))
        .collect()
}
