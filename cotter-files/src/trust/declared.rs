//! Whether all the code of a declared command is in the snapshot that was trusted.
//!
//! Pure, and careful: what is not known for sure to be pinned is open.

use std::path::{Component, Path, PathBuf};

use crate::trust::snapshot::Snapshot;

/// A command that a folder declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeclaredCommand {
    /// What it is, for a person: `hook no-prod at tool.pre`.
    pub what: String,
    /// What would run.
    pub command: Invocation,
    /// The folder of the source that it runs in; empty for the source itself.
    pub folder: PathBuf,
    /// Why it is open, whatever its words are: `it sets LD_PRELOAD`.
    pub doubt: Option<String>,
}

/// How a command is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// A program and its arguments, as they are.
    Words(Vec<String>),
    /// A line for a shell. Plain words are executed without one.
    Shell(String),
    /// Nothing here: what runs is at an address.
    Elsewhere(String),
    /// Nothing runs: an address is told what happens.
    Told(String),
}

/// Whether the code of a command is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// All of it is in the snapshot or belongs to the system.
    Pinned,
    /// It runs something else too, or that cannot be told; in words.
    Open(String),
}

/// Where programs of the system are.
const SYSTEM: [&str; 4] = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"];

/// Programs that run the file they are given, and the options with which they run nothing else: letters
/// that may be joined, and words.
const INTERPRETERS: &[(&str, &str, &[&str])] = &[
    ("sh", "efux", &[]),
    ("dash", "efux", &[]),
    ("bash", "efux", &["--noprofile", "--norc"]),
    ("python3", "BEIOSbqsu", &[]),
    ("python", "BEIOSbqsu", &[]),
    ("node", "", &["--no-warnings"]),
    ("perl", "TWtw", &[]),
    ("ruby", "w", &[]),
];

/// Programs that run whatever other files, folders or hosts have for them, in words.
const RUNNERS: &[(&str, &str)] = &[
    ("npm", "runs what `package.json` and installed packages say"),
    ("pnpm", "runs what `package.json` and installed packages say"),
    ("yarn", "runs what `package.json` and installed packages say"),
    ("npx", "runs a package that it may fetch first"),
    ("bunx", "runs a package that it may fetch first"),
    ("uvx", "runs a package that it may fetch first"),
    ("pipx", "runs a package that it may fetch first"),
    ("bun", "may fetch packages and run them"),
    ("deno", "may fetch modules and run them"),
    ("uv", "may fetch packages and run them"),
    ("pip", "may fetch packages and run them"),
    ("pip3", "may fetch packages and run them"),
    ("make", "runs what a makefile says"),
    ("gmake", "runs what a makefile says"),
    ("just", "runs what a justfile says"),
    ("cargo", "builds and runs code of the project"),
    ("go", "builds and runs code of the project"),
    ("docker", "runs an image"),
    ("podman", "runs an image"),
    ("git", "runs what a repository's configuration says"),
];

/// Programs of the system that run nothing, whatever they are given.
const PLAIN: &[&str] =
    &["cat", "echo", "false", "head", "jq", "printf", "tail", "test", "true", "wc"];

impl DeclaredCommand {
    /// A command, by what it is for a person.
    pub fn new(what: impl Into<String>, command: Invocation) -> Self {
        DeclaredCommand { what: what.into(), command, folder: PathBuf::new(), doubt: None }
    }

    /// The same, run in a folder of the source.
    pub fn in_folder(self, folder: impl Into<PathBuf>) -> Self {
        DeclaredCommand { folder: folder.into(), ..self }
    }

    /// The same, open for a reason that its words do not show: variables that are set for it, another
    /// folder that it runs in.
    pub fn with_doubt(self, why: impl Into<String>) -> Self {
        DeclaredCommand { doubt: Some(why.into()), ..self }
    }

    /// Whether all its code is in the snapshot. It runs in the snapshot's copy, which has the files of
    /// its source and nothing else.
    pub fn pinning(&self, snapshot: &Snapshot) -> Pinning {
        let code = TrustedCode { snapshot, folder: &self.folder };
        let judged = match &self.command {
            Invocation::Words(words) => judge(words, code),
            Invocation::Shell(line) => match plain_words(line) {
                Ok(words) => judge(&words, code),
                Err(why) => Err(why),
            },
            Invocation::Told(_) => Err("what is told leaves this machine".into()),
            Invocation::Elsewhere(_) => Err("what runs there is not to be seen from here".into()),
        };
        match (judged, &self.doubt) {
            (Err(why), _) => Pinning::Open(why),
            (Ok(()), Some(doubt)) => Pinning::Open(doubt.clone()),
            (Ok(()), None) => Pinning::Pinned,
        }
    }
}

/// What is trusted, and the folder in it that a command runs in.
#[derive(Clone, Copy)]
struct TrustedCode<'a> {
    snapshot: &'a Snapshot,
    folder: &'a Path,
}

/// The words of a line that no shell would read otherwise.
fn plain_words(line: &str) -> Result<Vec<String>, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " \t_-./:,@%+".contains(c);
    if let Some(other) = line.chars().find(|c| !is_plain(*c)) {
        return Err(match other {
            '=' => "it sets something (`=`)".into(),
            '"' | '\'' => format!("it has shell syntax (`{other}`)"),
            other => format!("it has shell syntax (`{}`)", other.escape_debug()),
        });
    }
    Ok(line.split_ascii_whitespace().map(str::to_owned).collect())
}

fn judge(words: &[String], code: TrustedCode<'_>) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("there is no command".into());
    };
    if program.contains('/') && !Path::new(program).has_root() {
        starts(program, code)?;
        return arguments.iter().try_for_each(|word| stays(word, code));
    }
    let name = system_name(program)?;
    if let Some((_, letters, options)) = INTERPRETERS.iter().find(|(known, ..)| *known == name) {
        return interprets(name, letters, options, arguments, code);
    }
    if let Some((_, why)) = RUNNERS.iter().find(|(known, _)| *known == name) {
        return Err(format!("`{name}` {why}"));
    }
    if !PLAIN.contains(&name) {
        return Err(format!("`{name}` is not known to run nothing else"));
    }
    arguments.iter().try_for_each(|word| stays(word, code))
}

/// The name of a program of the system: alone, or in a folder of the system.
fn system_name(program: &str) -> Result<&str, String> {
    match program.rsplit_once('/') {
        None => Ok(program),
        Some((folder, name)) if SYSTEM.contains(&folder) => Ok(name),
        Some(_) => Err(format!("`{program}` is outside of what is trusted")),
    }
}

/// A program of the snapshot, and who runs it.
fn starts(program: &str, code: TrustedCode<'_>) -> Result<(), String> {
    let (executable, bytes) = find(program, code)?;
    if !executable {
        return Err(format!("`{program}` is not executable"));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let Some(line) = bytes.strip_prefix(b"#!") else {
        return Err(format!("`{program}` has no `#!` line"));
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line =
        std::str::from_utf8(line).map_err(|_| format!("`{program}` has a strange `#!` line"))?;
    let other = || format!("`{program}` is run by `{}`", line.trim().escape_debug());
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let (by, options) = match words.as_slice() {
        ["/usr/bin/env" | "/bin/env", by] if !by.contains(['/', '=']) => (*by, &[][..]),
        [by, options @ ..] if by.starts_with('/') => {
            (system_name(by).map_err(|_| other())?, options)
        }
        _ => return Err(other()),
    };
    let known = INTERPRETERS.iter().find(|(known, ..)| *known == by);
    let (_, letters, known) = known.ok_or_else(other)?;
    match options.iter().all(|option| is_harmless(option, letters, known)) {
        true => Ok(()),
        false => Err(other()),
    }
}

/// An interpreter whose first operand is a file of the snapshot.
fn interprets(
    name: &str,
    letters: &str,
    options: &[&str],
    arguments: &[String],
    code: TrustedCode<'_>,
) -> Result<(), String> {
    let operand = arguments.iter().position(|word| !is_harmless(word, letters, options));
    let Some((script, rest)) = operand.and_then(|at| arguments[at..].split_first()) else {
        return Err(format!("`{name}` reads its code from standard input"));
    };
    if script.starts_with('-') {
        return Err(format!("`{name} {script}` runs something else than a file"));
    }
    find(script, code)?;
    rest.iter().try_for_each(|word| stays(word, code))
}

fn is_harmless(word: &str, letters: &str, options: &[&str]) -> bool {
    let joined = word.strip_prefix('-').filter(|rest| !rest.is_empty());
    options.contains(&word) || joined.is_some_and(|rest| rest.chars().all(|c| letters.contains(c)))
}

/// A file of the snapshot, by a path from the folder that the command runs in.
fn find<'a>(path: &str, code: TrustedCode<'a>) -> Result<(bool, &'a [u8]), String> {
    code.snapshot
        .file(&code.folder.join(path))
        .ok_or_else(|| format!("`{path}` is no file of the folder"))
}

/// An argument that names nothing outside: a plain word, or a path of the snapshot.
fn stays(word: &str, code: TrustedCode<'_>) -> Result<(), String> {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let leaves = |part: &str| Path::new(part).components().any(|at| at == Component::ParentDir);
    if (word.contains('/') || leaves(value)) && find(value, code).is_err() {
        return Err(format!("`{word}` is no file of the folder"));
    }
    Ok(())
}
