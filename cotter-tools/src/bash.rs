//! `bash`: one command line, run by the bash whose grammar was judged.

pub mod background;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use cotter::{
    Permit, Tool, ToolError, ToolOutput, ToolSpec, Workspace,
    history::outcome::ToolErrorKind,
    permission::{
        Zone,
        facts::{Doubt, Facts, SimpleCommand},
    },
    tool::ToolFuture,
};
use serde_json::{Value, json};

use crate::{
    confine::{Confinement, protect},
    process::{
        Exit, Job, ProcessEnd, Runner, StartError,
        running::{Chunk, RunningProcess, Stream},
    },
    shell,
};

const TIMEOUT: Duration = Duration::from_secs(120);
const LONGEST: Duration = Duration::from_secs(600);
/// The most a command may say.
const MOST_OUTPUT: usize = 64 * 1024 * 1024;
/// The most of each stream that renderers get.
const MOST_RENDERED: usize = 256 * 1024;

/// The tool `bash {command, timeout_ms?, cwd?}`.
pub struct Bash {
    spec: ToolSpec,
    runner: Runner,
}

impl Bash {
    /// Runs commands with this runner.
    pub fn new(runner: Runner) -> Self {
        let spec = ToolSpec::new(
            "bash",
            "Run a bash command line in the project and get its output and exit code. There is no \
             terminal and no input. Everything it started ends with the call: use `bash_background` \
             for a server or a watcher. `timeout_ms` is 120000 unless given, at most 600000.",
            json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "minLength": 1},
                    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600_000},
                    "cwd": {"type": "string", "minLength": 1}
                },
                "required": ["command"],
                "additionalProperties": false
            }),
        );
        Bash { spec, runner }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, input: &Value, place: &Workspace) -> Facts {
        effects(input, place, &self.runner)
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let timeout = permit.input()["timeout_ms"].as_u64().map(Duration::from_millis);
            let timeout = timeout.unwrap_or(TIMEOUT).min(LONGEST);
            let job = job(&permit, &self.runner)?;
            let (confinement, cwd) = (job.confinement.clone(), job.cwd.clone());
            let running = self.runner.start(job).await.map_err(not_started)?;
            let mut said = listen(running, &permit, timeout).await?;
            if let Some(confinement) = confinement {
                let place = permit.cx().place().clone().with_cwd(&cwd);
                said.ended.remarks.extend(confinement.refusals(&said.tail(), &place));
            }
            said.output(timeout)
        })
    }
}

/// What a command line in a folder of the place touches.
pub(crate) fn effects(input: &Value, place: &Workspace, runner: &Runner) -> Facts {
    let outer = place;
    let place = outer.clone().with_cwd(&folder(input, outer));
    let mut facts = shell::facts(input["command"].as_str().unwrap_or_default(), &place);
    if let Some(cwd) = input["cwd"].as_str() {
        let there = cotter::fs::paths::touched(cwd, outer);
        facts.zone =
            there.iter().map(|path| Zone::of_read(path, &place)).fold(facts.zone, Zone::max);
        facts.reads.extend(there);
    }
    raise_git(&mut facts, &place);
    if bash().is_none() {
        facts.doubts.push(Doubt::NotUnderstood("there is no bash on this machine".into()));
    }
    facts.confined = runner.confines_zone(facts.zone);
    facts
}

/// Git that runs unasked must not run what a repository names. Where no setting of ours switches that
/// off, it is as much as any other code of the project.
fn raise_git(facts: &mut Facts, place: &Workspace) {
    let is_git = |command: &SimpleCommand| command.words.iter().any(|word| is_git_name(&word.text));
    let runs = facts.zone <= Zone::Workspace && facts.commands.iter().any(is_git);
    if runs && protect::brings_programs(place, &facts.reads) {
        facts.zone = Zone::Build;
        // Each by itself too: a rule about another command must not let it pass.
        for command in facts.commands.iter_mut().filter(|command| is_git(command)) {
            command.zone = Zone::Build;
        }
    }
}

fn is_git_name(word: &str) -> bool {
    word.rsplit('/').next() == Some("git")
}

/// The folder a command starts in.
fn folder(input: &Value, place: &Workspace) -> PathBuf {
    match input["cwd"].as_str() {
        Some(spelled) => {
            let touched = cotter::fs::paths::touched(spelled, place);
            touched.into_iter().next().unwrap_or_else(|| place.cwd().into())
        }
        None => place.cwd().into(),
    }
}

/// The bash of this machine: from a folder of the system, so that no `PATH` decides.
fn bash() -> Option<&'static Path> {
    const PLACES: [&str; 6] = [
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/local/bin/bash",
        "/run/current-system/sw/bin/bash",
        "/opt/homebrew/bin/bash",
        "/data/data/com.termux/files/usr/bin/bash",
    ];
    static FOUND: OnceLock<Option<&Path>> = OnceLock::new();
    *FOUND.get_or_init(|| PLACES.map(Path::new).into_iter().find(|bash| bash.is_file()))
}

/// The command line of a call as a job.
pub(crate) fn job(permit: &Permit, runner: &Runner) -> Result<Job, ToolError> {
    let no_bash = || ToolError::new(ToolErrorKind::Unavailable, "there is no bash on this machine");
    let program = bash().ok_or_else(no_bash)?;
    let place = permit.cx().place();
    let cwd = folder(permit.input(), place);
    let place = &place.clone().with_cwd(&cwd);
    if !cwd.is_dir() {
        let message = format!("{} is not a folder", cotter::fs::paths::shown(&cwd, place));
        return Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
    }
    let no_temp = |cause: std::io::Error| ToolError::failed(format!("no temp folder: {cause}"));
    let temp = runner.temp().map_err(no_temp)?;
    let mut environment = runner.environment().in_place(place, temp);
    environment.extend(SETTINGS.map(|(name, value)| (name.into(), value.into())));
    if permit.facts().zone <= Zone::Workspace {
        environment.extend(SAFE_GIT.map(|(name, value)| (name.into(), value.into())));
    }
    let command = permit.input()["command"].as_str().unwrap_or_default();
    Ok(Job {
        program: program.into(),
        args: ["--noprofile", "--norc", "-c", command].map(Into::into).into(),
        cwd,
        environment,
        stdin: None,
        confinement: Confinement::of_call(permit.facts(), place, runner).map_err(no_temp)?,
    })
}

/// Nobody is there to page through a text or to type a password.
const SETTINGS: [(&str, &str); 3] =
    [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

/// For calls that run unasked: git runs no program that a repository names. Drivers and filters have
/// names of their own and are not among these: see [`protect::brings_programs`].
const SAFE_GIT: [(&str, &str); 15] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_CONFIG_COUNT", "6"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "core.hooksPath"),
    ("GIT_CONFIG_VALUE_1", "/dev/null"),
    ("GIT_CONFIG_KEY_2", "core.pager"),
    ("GIT_CONFIG_VALUE_2", "cat"),
    ("GIT_CONFIG_KEY_3", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_3", "explicit"),
    ("GIT_CONFIG_KEY_4", "log.showSignature"),
    ("GIT_CONFIG_VALUE_4", "false"),
    ("GIT_CONFIG_KEY_5", "tag.gpgSign"),
    ("GIT_CONFIG_VALUE_5", "false"),
];

pub(crate) fn not_started(cause: StartError) -> ToolError {
    ToolError::new(ToolErrorKind::Unavailable, format!("the command was not run: {cause}"))
}

/// All that a command said, and how it ended.
struct BashOutput {
    /// Both streams in the order in which they arrived.
    bytes: Vec<u8>,
    /// Whose the next so many bytes are.
    parts: Vec<(Stream, usize)>,
    stopped: Option<StopCause>,
    ended: ProcessEnd,
}

/// Why we ended it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopCause {
    Timeout,
    TooMuch,
}

async fn listen(
    mut running: RunningProcess,
    permit: &Permit,
    timeout: Duration,
) -> Result<BashOutput, ToolError> {
    let mut bytes = vec![];
    let mut parts: Vec<(Stream, usize)> = vec![];
    let mut stopped = None;
    let mut live = [Utf8Stream::default(), Utf8Stream::default()];
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    loop {
        let chunk = tokio::select! {
            biased;
            () = &mut deadline, if stopped.is_none() => {
                stopped = Some(StopCause::Timeout);
                running.end();
                continue;
            }
            chunk = running.next() => chunk,
        };
        let Some(Chunk { stream, bytes: mut more }) = chunk else { break };
        more.truncate(MOST_OUTPUT - bytes.len());
        live[stream as usize].pass_on(&more, permit);
        bytes.extend(&more);
        match parts.last_mut() {
            Some((last, length)) if *last == stream => *length += more.len(),
            _ => parts.push((stream, more.len())),
        }
        if bytes.len() == MOST_OUTPUT && stopped.is_none() {
            stopped = Some(StopCause::TooMuch);
            running.end();
        }
    }
    let ended = running.ended().await.map_err(not_started)?;
    Ok(BashOutput { bytes, parts, stopped, ended })
}

/// A stream as listeners get it: never half a letter.
#[derive(Default)]
struct Utf8Stream(Vec<u8>);

impl Utf8Stream {
    fn pass_on(&mut self, more: &[u8], permit: &Permit) {
        self.0.extend(more);
        let whole = match std::str::from_utf8(&self.0) {
            // Of a letter that may still become whole, at most three bytes are kept back.
            Err(broken) if broken.error_len().is_none() => broken.valid_up_to(),
            _ => self.0.len(),
        };
        let rest = self.0.split_off(whole);
        if whole > 0 {
            permit.stream(&shown(&self.0));
        }
        self.0 = rest;
    }
}

/// How a command ended, in words; nothing where it ended well.
pub(crate) fn ending(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("exit code {code}")),
        Exit::Signal(signal) => Some(format!("ended by signal {signal}")),
    }
}

impl BashOutput {
    fn output(&self, timeout: Duration) -> Result<ToolOutput, ToolError> {
        let mut text = shown(&self.bytes);
        for line in self.remarks(timeout) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&line);
        }
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if self.stopped == Some(StopCause::Timeout) {
            return Err(ToolError::new(ToolErrorKind::Timeout, text));
        }
        let code = match self.ended.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        };
        let render_data = json!({
            "stdout": self.stream(Stream::Stdout),
            "stderr": self.stream(Stream::Stderr),
            "exitCode": code,
            "killed": code.is_none(),
        });
        Ok(ToolOutput { content: text.into(), render_data: Some(render_data) })
    }

    /// What the model is told besides the output.
    fn remarks(&self, timeout: Duration) -> Vec<String> {
        let mut remarks = vec![];
        match (self.stopped, self.ended.exit) {
            (Some(StopCause::Timeout), _) => {
                let milliseconds = timeout.as_millis();
                remarks
                    .push(format!("ended after {milliseconds} ms (timeout), with all it started"));
            }
            (Some(StopCause::TooMuch), _) => {
                let most = MOST_OUTPUT / 1024 / 1024;
                remarks.push(format!("ended after {most} MB of output; send it to a file instead"));
            }
            (None, exit) => remarks.extend(ending(exit)),
        }
        remarks.extend(self.ended.remarks.iter().cloned());
        remarks
    }

    /// The end of what it said, where a refusal is told.
    fn tail(&self) -> String {
        shown(&self.bytes[self.bytes.len().saturating_sub(MOST_RENDERED)..])
    }

    /// One stream, cut in the middle where it is long.
    fn stream(&self, wanted: Stream) -> String {
        let mut bytes = vec![];
        let mut at = 0;
        for (stream, length) in &self.parts {
            if *stream == wanted {
                bytes.extend(&self.bytes[at..at + length]);
            }
            at += length;
        }
        if bytes.len() <= MOST_RENDERED {
            return shown(&bytes);
        }
        let half = MOST_RENDERED / 2;
        let (head, tail) = (&bytes[..half], &bytes[bytes.len() - half..]);
        let left_out = bytes.len() - MOST_RENDERED;
        format!("{}\n… [{left_out} bytes left out] …\n{}", shown(head), shown(tail))
    }
}

/// Output as text. What is no text becomes a mark; so does NUL, which some providers refuse.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.into_owned() }
}
