//! Tells whether all the code of a declared command is in the trusted snapshot.
//!
//! The check reads no files, and it is careful: a command that is not certainly pinned is open.

use std::path::{Component, Path, PathBuf};

use crate::{
    folder::diagnostic::Diagnostic,
    trust::{snapshot::Snapshot, state},
};

/// Everything that a source would run, and what of it would not be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The commands, in the order of the source.
    pub commands: Vec<DeclaredCommand>,
    /// The parts that are not used, each with the reason.
    pub refused: Vec<Diagnostic>,
}

/// A command that a source declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeclaredCommand {
    /// The description for a person: `hook no-prod at tool.pre`.
    pub description: String,
    /// The command.
    pub command: Invocation,
    /// The folder that the command runs in, relative to the source; empty for the source itself.
    pub folder: PathBuf,
    /// A reason why the command is open that its words do not show: `it sets LD_PRELOAD`.
    pub doubt: Option<String>,
    /// True for hooks, which run confined.
    pub confined: bool,
}

/// The form of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// A program and its arguments, executed as they are.
    Words(Vec<String>),
    /// A line for a shell. A line of plain words is executed without a shell.
    Shell(String),
    /// No local program: the code runs at an address.
    Remote(String),
    /// No program: events are sent to an address.
    Notified(String),
}

/// The result of the check whether the code of a command is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// All the code is in the snapshot or belongs to the system.
    Pinned,
    /// The command also runs other code, or this is unknown. Holds the reason.
    Open(String),
}

/// The folders of system programs.
const SYSTEM_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"];

/// Programs that run the file they are given, and their harmless options: single letters that may be joined,
/// and whole words. With these options they run no other code.
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

/// Programs that run code from other files, folders or hosts, with a description of that code.
const RUNNERS: &[(&str, &str)] = &[
    ("npm", "runs scripts of `package.json` and installed packages"),
    ("pnpm", "runs scripts of `package.json` and installed packages"),
    ("yarn", "runs scripts of `package.json` and installed packages"),
    ("npx", "runs a package that it may fetch first"),
    ("bunx", "runs a package that it may fetch first"),
    ("uvx", "runs a package that it may fetch first"),
    ("pipx", "runs a package that it may fetch first"),
    ("bun", "may fetch packages and run them"),
    ("deno", "may fetch modules and run them"),
    ("uv", "may fetch packages and run them"),
    ("pip", "may fetch packages and run them"),
    ("pip3", "may fetch packages and run them"),
    ("make", "runs the commands of a makefile"),
    ("gmake", "runs the commands of a makefile"),
    ("just", "runs the commands of a justfile"),
    ("cargo", "builds and runs code of the project"),
    ("go", "builds and runs code of the project"),
    ("docker", "runs an image"),
    ("podman", "runs an image"),
    ("git", "runs commands of a repository's configuration"),
];

/// Programs of the system that run no other code, whatever their arguments are.
const PLAIN_PROGRAMS: &[&str] =
    &["cat", "echo", "false", "head", "jq", "printf", "tail", "test", "true", "wc"];

impl DeclaredCommand {
    /// Creates a command with a description for a person.
    pub fn new(description: impl Into<String>, command: Invocation) -> Self {
        let description = description.into();
        DeclaredCommand {
            description,
            command,
            folder: PathBuf::new(),
            doubt: None,
            confined: false,
        }
    }

    /// Sets the folder of the source that the command runs in.
    pub fn in_folder(self, folder: impl Into<PathBuf>) -> Self {
        DeclaredCommand { folder: folder.into(), ..self }
    }

    /// Marks the command as one that runs confined.
    pub fn confined(self) -> Self {
        DeclaredCommand { confined: true, ..self }
    }

    /// Marks the command as open, for a reason that its words do not show, such as variables or another
    /// working folder.
    pub fn with_doubt(self, why: impl Into<String>) -> Self {
        DeclaredCommand { doubt: Some(why.into()), ..self }
    }

    /// Checks whether all the command's code is in the snapshot. The command runs in the snapshot's copy,
    /// which contains only the files of its source.
    pub fn pinning(&self, snapshot: &Snapshot) -> Pinning {
        let code = TrustedCode { snapshot, folder: &self.folder };
        let line = match &self.command {
            Invocation::Words(words) => words.join(" "),
            Invocation::Shell(line) => line.clone(),
            Invocation::Remote(_) | Invocation::Notified(_) => String::new(),
        };
        if let Some(at) = state::find_run_file(snapshot.source(), &line) {
            let why = "which trust leaves out as state: it does not run";
            return Pinning::Open(format!("it names `{}`, {why}", at.display()));
        }
        let result = match &self.command {
            Invocation::Words(words) => check_words(words, code),
            Invocation::Shell(line) => match plain_words(line) {
                Ok(words) => check_words(&words, code),
                Err(why) => Err(why),
            },
            Invocation::Notified(_) => Err("events are sent to another machine".into()),
            Invocation::Remote(_) => Err("the code at that address cannot be checked".into()),
        };
        match (result, &self.doubt) {
            // Where a command runs says more than how it is written.
            (_, Some(doubt)) => Pinning::Open(doubt.clone()),
            (Err(why), None) => Pinning::Open(why),
            (Ok(()), None) => Pinning::Pinned,
        }
    }
}

/// The trusted snapshot, and the folder in it that a command runs in.
#[derive(Clone, Copy)]
struct TrustedCode<'a> {
    snapshot: &'a Snapshot,
    folder: &'a Path,
}

/// Splits a line into words. A line with shell syntax is an error.
fn plain_words(line: &str) -> Result<Vec<String>, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " \t_-./:,@%+".contains(c);
    if let Some(other) = line.chars().find(|c| !is_plain(*c)) {
        return Err(match other {
            '=' => "it sets a variable or an option (`=`)".into(),
            '"' | '\'' => format!("it has shell syntax (`{other}`)"),
            other => format!("it has shell syntax (`{}`)", other.escape_debug()),
        });
    }
    Ok(line.split_ascii_whitespace().map(str::to_owned).collect())
}

fn check_words(words: &[String], code: TrustedCode<'_>) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("the command is empty".into());
    };
    if program.contains('/') && !Path::new(program).has_root() {
        check_program(program, code)?;
        return arguments.iter().try_for_each(|word| check_argument(word, code));
    }
    let name = system_name(program)?;
    if let Some((_, letters, options)) = INTERPRETERS.iter().find(|(known, ..)| *known == name) {
        return check_interpreter(name, letters, options, arguments, code);
    }
    if let Some((_, why)) = RUNNERS.iter().find(|(known, _)| *known == name) {
        return Err(format!("`{name}` {why}"));
    }
    if !PLAIN_PROGRAMS.contains(&name) {
        return Err(format!("`{name}` may run other code"));
    }
    arguments.iter().try_for_each(|word| check_argument(word, code))
}

/// The name of a system program: a name without a folder, or in a folder of the system.
fn system_name(program: &str) -> Result<&str, String> {
    match program.rsplit_once('/') {
        None => Ok(program),
        Some((folder, name)) if SYSTEM_FOLDERS.contains(&folder) => Ok(name),
        Some(_) => Err(format!("`{program}` is outside the trusted folder")),
    }
}

/// Checks that a program of the snapshot is executable, and a binary or a script of a known interpreter.
fn check_program(program: &str, code: TrustedCode<'_>) -> Result<(), String> {
    let (executable, bytes) = find_file(program, code)?;
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
    let line = std::str::from_utf8(line)
        .map_err(|_| format!("the `#!` line of `{program}` is not UTF-8"))?;
    let unknown_interpreter = || format!("`{program}` is run by `{}`", line.trim().escape_debug());
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let (interpreter, options) = match words.as_slice() {
        ["/usr/bin/env" | "/bin/env", interpreter] if !interpreter.contains(['/', '=']) => {
            (*interpreter, &[][..])
        }
        [interpreter, options @ ..] if interpreter.starts_with('/') => {
            (system_name(interpreter).map_err(|_| unknown_interpreter())?, options)
        }
        _ => return Err(unknown_interpreter()),
    };
    let row = INTERPRETERS.iter().find(|(name, ..)| *name == interpreter);
    let (_, letters, harmless) = row.ok_or_else(unknown_interpreter)?;
    match options.iter().all(|option| is_harmless(option, letters, harmless)) {
        true => Ok(()),
        false => Err(unknown_interpreter()),
    }
}

/// Checks that the first operand of an interpreter is a file of the snapshot.
fn check_interpreter(
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
        return Err(format!("`{name} {script}` runs code that is not a file"));
    }
    find_file(script, code)?;
    rest.iter().try_for_each(|word| check_argument(word, code))
}

fn is_harmless(word: &str, letters: &str, options: &[&str]) -> bool {
    let joined = word.strip_prefix('-').filter(|rest| !rest.is_empty());
    options.contains(&word) || joined.is_some_and(|rest| rest.chars().all(|c| letters.contains(c)))
}

/// Finds a file of the snapshot by a path from the folder that the command runs in.
fn find_file<'a>(path: &str, code: TrustedCode<'a>) -> Result<(bool, &'a [u8]), String> {
    code.snapshot
        .file(&code.folder.join(path))
        .ok_or_else(|| format!("`{path}` is not a file of the folder"))
}

/// Checks that an argument names no file outside: it is a plain word, or a path of the snapshot.
fn check_argument(word: &str, code: TrustedCode<'_>) -> Result<(), String> {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let leaves = |part: &str| Path::new(part).components().any(|at| at == Component::ParentDir);
    if (word.contains('/') || leaves(value)) && find_file(value, code).is_err() {
        return Err(format!("`{word}` is not a file of the folder"));
    }
    Ok(())
}
