//! The time to start the command line, compared with the cheapest program. Also the time of a turn with a
//! provider on this machine, over plain HTTP.

#[path = "../../cotter/benches/spine/measure.rs"]
#[expect(dead_code, reason = "shared with the spine's bench, which uses all of it")]
mod measure;

use std::{
    fs,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use cotter_test::{Answer, Dialect, LocalProvider};
use measure::{Goal, Table, median_of};
use serde_json::json;
use tempfile::TempDir;

fn main() {
    let mut table = Table::from_args();
    let home = tempfile::tempdir().expect("a folder is made");
    fs::write(home.path().join("notes.txt"), "one\ntwo\n").expect("a file is written");
    add(&mut table, "cotter --version", Goal::Ratio(1.5), || cotter(&home, &["--version"]));
    let rehearsal = ["-p", "--model", "rehearsal", "read notes.txt"];
    add(&mut table, "cotter -p, rehearsal reads a file", Goal::Nanos(6e6), || {
        cotter(&home, &rehearsal)
    });
    for (name, dialect) in [
        ("anthropic", Dialect::AnthropicMessages),
        ("openai", Dialect::OpenAiChat),
        ("openai-responses", Dialect::OpenAiResponses),
    ] {
        let line = Line::new(name, dialect, &home);
        let what = |what: &str| format!("cotter -p over plain http, {name}{what}");
        add(&mut table, &what(""), Goal::Nanos(6e6), || line.command(TURN));
        add_arrival(&mut table, &what(", until its request is there"), &line);
        add(&mut table, &what(" has a file read"), Goal::Nanos(6e6), || line.command(READ));
        if table.wants(&what(", peak memory")) {
            let peak = median_of(30, || peak_of(&mut line.command(READ)));
            table.add(&what(", peak memory"), peak, Goal::Bytes(12e6));
        }
    }
    table.print();
}

/// Adds a row with the whole time of a command.
fn add(table: &mut Table, what: &str, goal: Goal, command: impl Fn() -> Command) {
    if !table.wants(what) {
        return;
    }
    // Both programs run in turn, so that a busy moment affects both.
    let mut floors = vec![];
    let ours = median_of(200, || {
        floors.push(time_of(&mut Command::new("/bin/true")));
        time_of(&mut command())
    });
    let floor = median_of(floors.len(), || floors.pop().unwrap_or_default());
    table.add_beside(what, ours, ("/bin/true", floor), goal);
}

/// Adds a row with the time from the start of a command until its request reaches the provider.
fn add_arrival(table: &mut Table, what: &str, line: &Line) {
    if !table.wants(what) {
        return;
    }
    let ours = median_of(200, || {
        let started = Instant::now();
        time_of(&mut line.command(TURN));
        let arrived = *line.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.duration_since(started).as_nanos() as f64
    });
    table.add(what, ours, Goal::None);
}

/// A provider on this machine.
struct Line<'h> {
    provider: LocalProvider,
    model: String,
    home: &'h TempDir,
    /// The arrival time of its last request.
    arrived: Arc<Mutex<Instant>>,
}

/// The prompts: a plain answer, and an answer after reading a file.
const TURN: &str = "say hello";
const READ: &str = "read notes.txt";

impl<'h> Line<'h> {
    fn new(name: &str, dialect: Dialect, home: &'h TempDir) -> Self {
        let arrived = Arc::new(Mutex::new(Instant::now()));
        let clock = arrived.clone();
        let provider = LocalProvider::start_with(dialect, move |request| {
            *clock.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let body = String::from_utf8_lossy(&request.body);
            match body.contains(READ) && !body.contains("two") {
                true => Answer::call("call_1", "read", json!({"path": "notes.txt"})),
                false => Answer::text("Hello there, all of you."),
            }
        });
        Line { provider, model: format!("{name}/x"), home, arrived }
    }

    fn command(&self, prompt: &str) -> Command {
        let mut command = cotter(self.home, &["-p", "--model", &self.model, prompt]);
        for house in ["ANTHROPIC", "OPENAI"] {
            command.env(format!("{house}_BASE_URL"), self.provider.url());
            command.env(format!("{house}_API_KEY"), "a key");
        }
        command
    }
}

fn cotter(home: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cotter"));
    command.args(args).env_clear().env("HOME", home.path()).current_dir(home.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn time_of(command: &mut Command) -> f64 {
    let started = Instant::now();
    let status = command.status().expect("the program starts");
    assert!(status.success(), "the program works");
    started.elapsed().as_nanos() as f64
}

/// Returns the peak memory of a command in bytes, from `/proc`. The system's accounting of an ended child
/// would include the memory of its parent.
fn peak_of(command: &mut Command) -> f64 {
    let mut child = command.spawn().expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0f64;
    while child.try_wait().expect("it can be waited for").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kilobytes.map_or(0.0, |kilobytes: f64| kilobytes * 1024.0));
    }
    peak
}
