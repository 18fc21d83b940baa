//! Stands in for every program that the oracle's commands find on their `PATH`: it writes down its words, then
//! becomes the real program of its name, if that is harmless in a scratch tree. A program that would run code
//! reads the files its words name, and does nothing else.
//!
//! Called as `oracle_stub SCRIPT` it runs the script with bash, and ends when all processes of the script have.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    io::Write,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
};

use rustix::process::{WaitOptions, set_child_subreaper, wait};

/// The file to which commands are appended: the number of words, then the words, each ended by NUL.
const LOG: &str = "/oracle/log";
/// The name under which the stub runs scripts.
const OWN_NAME: &str = "oracle_stub";
/// The folder of the real programs.
const REAL: &str = "/oracle/real";

/// Programs whose operands are names of tests and targets, not files.
const TAKES_NAMES: [&str; 4] = ["cargo", "git", "make", "npm"];

fn main() -> ExitCode {
    let mut words: Vec<OsString> = env::args_os().collect();
    let name =
        words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default().to_owned();
    if name == OWN_NAME {
        return run_script(words.get(1));
    }
    words[0].clone_from(&name);
    let mut row = format!("{}\0", words.len()).into_bytes();
    for word in &words {
        row.extend_from_slice(word.as_bytes());
        row.push(0);
    }
    let log = OpenOptions::new().append(true).open(LOG);
    if log.and_then(|mut log| log.write_all(&row)).is_err() {
        eprintln!("error: cannot append to {LOG}");
        return ExitCode::from(99);
    }
    let real = Path::new(REAL).join(&name);
    if real.exists() {
        // Only returns if it fails.
        let error = Command::new(real).arg0(&name).args(&words[1..]).exec();
        eprintln!("error: cannot start {}: {error}", name.display());
    }
    if !TAKES_NAMES.iter().any(|other| name == *other) {
        words[1..].iter().for_each(|word| read_files(word));
    }
    ExitCode::SUCCESS
}

/// Reads the files that a word names: as a whole, and after a `=`.
fn read_files(word: &OsStr) {
    let bytes = word.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map(|at| &bytes[at + 1..]);
    for name in [Some(bytes), value].into_iter().flatten() {
        // Most words name no file.
        fs::read(OsStr::from_bytes(name)).ok();
    }
}

/// Runs a script and waits for its processes, also for those that it left behind.
fn run_script(script: Option<&OsString>) -> ExitCode {
    let Some(script) = script else { return ExitCode::from(99) };
    if set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        return ExitCode::from(99);
    }
    let mut bash = Command::new("/usr/bin/bash");
    match bash.args(["--noprofile", "--norc", "-c"]).arg(script).spawn() {
        Ok(_) => while wait(WaitOptions::empty()).is_ok() {},
        Err(_) => return ExitCode::from(99),
    }
    ExitCode::SUCCESS
}
