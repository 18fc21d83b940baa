//! What the kernel refused, told in words: which root would open it, or that the network is off.

use std::path::{Path, PathBuf};

use cotter::{Workspace, fs::paths};
use cotter_files::command_hook::ProcessExit;

use crate::confine::{Confinement, Network};

/// How programs say that they were refused.
const REFUSED: [&str; 7] = [
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "device or resource busy",
    "eacces",
    "eperm",
    "erofs",
];

/// How programs say that they reached nobody.
const UNREACHED: [&str; 9] = [
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

/// What is told where the network is off.
const NO_NETWORK: &str = "the sandbox closes the network for this command, this machine's own sockets \
    included: only a call that is judged to use it has it, once a rule or a person allows it (a program \
    that nobody knows is not judged so); `\"sandbox\": \"off\"` in the person's settings opens it for all";

/// The words round a refused socket: names of calls, and of what programs do with one.
const SOCKETS: [&str; 7] = ["socket", "connect", "bind", "listen", "dial", "/dev/tcp", "/dev/udp"];

/// Whether what was refused is a socket: the filter says so with this one word, and the program, or
/// what stands before it in the output, tells what it was at.
fn is_about_socket(line: &str, output: &str) -> bool {
    let refused = ["operation not permitted", "eperm"].iter().any(|word| line.contains(word));
    refused && {
        let all = output.to_lowercase();
        SOCKETS.iter().any(|word| all.contains(word))
    }
}

/// What holds for every hook that is closed off.
const CONFINED: &str = "it runs confined, as commands of the agent do: it reads the project and the \
    `readRoots` of your settings, and writes only where they may";

/// No more is said, however much was refused.
const MOST: usize = 3;

impl Confinement {
    /// What to tell about refusals that a command's output speaks of, with its working folder in the
    /// place. A guess: programs say it in their own ways.
    pub(crate) fn refusals(&self, output: &str, place: &Workspace) -> Vec<String> {
        let mut told: Vec<String> = vec![];
        for line in output.lines() {
            let low = line.to_lowercase();
            let off = self.network == Network::Off;
            let said = if off && UNREACHED.iter().any(|word| low.contains(word)) {
                Some(NO_NETWORK.to_owned())
            } else if REFUSED.iter().any(|word| low.contains(word)) {
                let paths = named(line, place);
                match paths.iter().find_map(|path| self.refused(path, place)) {
                    None if off && paths.is_empty() && is_about_socket(&low, output) => {
                        Some(NO_NETWORK.to_owned())
                    }
                    said => said,
                }
            } else {
                None
            };
            if let Some(said) = said
                && !told.contains(&said)
            {
                told.push(said);
            }
            if told.len() == MOST {
                break;
            }
        }
        told
    }

    /// The same of a hook that did not end well, with what holds for all that are closed off.
    pub(crate) fn refusals_of_hook(
        &self,
        exit: ProcessExit,
        said: &str,
        place: &Workspace,
    ) -> Vec<String> {
        let is_refusal = |line: &&str| {
            let low = line.to_lowercase();
            REFUSED.iter().any(|word| low.contains(word))
        };
        let lines: Vec<_> = said.lines().filter(is_refusal).collect();
        // What is not executable is nobody's to open.
        let plain = lines.iter().flat_map(|line| named(line, place)).find(|path| is_plain(path));
        if let (ProcessExit::Code(126), Some(path)) = (exit, plain) {
            let shown = paths::shown(&path, place);
            return vec![format!("{shown} is not executable: `chmod +x` makes it so")];
        }
        let told = self.refusals(said, place);
        let is_dim = lines.iter().any(|line| named(line, place).is_empty());
        if told.is_empty() && !is_dim {
            return told;
        }
        [CONFINED.to_owned()].into_iter().chain(told).collect()
    }

    /// Why a path was refused, if it was us.
    fn refused(&self, path: &Path, place: &Workspace) -> Option<String> {
        let below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let shown = paths::shown(path, place);
        if place.is_closed(path) {
            return Some(format!("{shown} is closed to commands"));
        }
        if let Some(protected) = self.protected.iter().find(|protected| path.starts_with(protected))
        {
            let shown = paths::shown(protected, place);
            return Some(format!(
                "writing to {shown} was refused: it decides what runs later, and this call was not \
                 approved for it"
            ));
        }
        if below(&self.writes) {
            return None;
        }
        if place.is_writable(path) {
            return Some(format!(
                "writing to {shown} was refused: this command was judged to change nothing"
            ));
        }
        if path.starts_with("/proc") || path.starts_with("/sys") {
            return Some(format!(
                "access to {shown} was refused: there is what belongs to other processes and the system"
            ));
        }
        if cotter::fs::workspace::is_system(path) || path.starts_with("/dev") {
            return Some(format!("writing to {shown} was refused: it is the system's"));
        }
        if path.components().any(|name| name.as_os_str() == ".git") {
            return Some(format!(
                "writing to {shown} was refused: of a repository outside the project only what a \
                 commit needs is open"
            ));
        }
        let what = if below(&self.reads) || below(crate::confine::system()) {
            "writing to"
        } else {
            "access to"
        };
        let root = if path.is_dir() { path } else { path.parent()? };
        // Nobody is told to open everything, or all of their home.
        let too_much =
            root.parent().is_none() || place.home().is_some_and(|home| home.starts_with(root));
        let open = if too_much {
            String::new()
        } else {
            format!("; `--add-dir {}` would open it", root.display())
        };
        Some(format!(
            "{what} {shown} was refused: it is outside the project{open}. For files nobody needs later \
             there is $TMPDIR"
        ))
    }
}

/// Whether a path is a file that nobody may execute.
fn is_plain(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 == 0)
}

/// The paths that a line seems to speak of, resolved.
fn named(line: &str, place: &Workspace) -> Vec<PathBuf> {
    let quoted = line.split(['\'', '"', '`', '‘', '’']).skip(1).step_by(2);
    let words = line.split(": ").chain(line.split_ascii_whitespace());
    let words = quoted.chain(words).map(|word| word.trim_matches([':', ',', '(', ')', '\'', '"']));
    let likely = words.filter(|word| !word.is_empty() && word.len() < 4096 && !word.contains(": "));
    let is_there = |path: &PathBuf| {
        path.exists() || path.parent().is_some_and(|above| above != place.cwd() && above.is_dir())
    };
    likely
        .filter_map(|word| paths::touched(word, place).into_iter().next())
        .filter(is_there)
        .collect()
}
