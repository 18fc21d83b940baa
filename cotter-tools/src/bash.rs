//! The tool `bash`: runs one command line with the bash whose grammar the decision used.

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
    confine::{Confinement, index::EndCheck, protect},
    process::{
        Exit, Job, ProcessEnd, Runner, StartError,
        running::{Chunk, RunningProcess, Stream},
    },
    shell,
};

const TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest output of a command in bytes.
const MAX_OUTPUT: usize = 64 * 1024 * 1024;
/// The most bytes of each stream for renderers.
const MAX_RENDERED: usize = 256 * 1024;

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

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        effects(input, workspace, &self.runner)
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let timeout = permit.input()["timeout_ms"].as_u64().map(Duration::from_millis);
            let timeout = timeout.unwrap_or(TIMEOUT).min(MAX_TIMEOUT);
            let (job, end_check) = job(&permit, &self.runner)?;
            let (confinement, cwd) = (job.confinement.clone(), job.cwd.clone());
            let _place = self.runner.take_place().await;
            let running = self.runner.start(job).await.map_err(start_error)?;
            let running = running.with_end_check(end_check);
            let mut output = collect_output(running, &permit, timeout).await?;
            // What was put back or moved away concerns the person too.
            output.end.remarks.iter().for_each(|remark| permit.cx().notify(remark));
            if let Some(confinement) = confinement {
                let workspace = permit.cx().workspace().clone().with_cwd(&cwd);
                output.end.remarks.extend(confinement.refusals(&output.tail(), &workspace));
            }
            output.tool_output(timeout)
        })
    }
}

/// The facts about a command line in a folder of the workspace.
pub(crate) fn effects(input: &Value, workspace: &Workspace, runner: &Runner) -> Facts {
    let outer = workspace;
    let workspace = outer.clone().with_cwd(&folder(input, outer));
    let mut facts = shell::facts(input["command"].as_str().unwrap_or_default(), &workspace);
    if let Some(cwd) = input["cwd"].as_str() {
        let paths = cotter::fs::paths::touched_paths(cwd, outer);
        facts.zone =
            paths.iter().map(|path| Zone::of_read(path, &workspace)).fold(facts.zone, Zone::max);
        facts.reads.extend(paths);
    }
    raise_git(&mut facts, &workspace);
    if bash().is_none() {
        facts.doubts.push(Doubt::NotUnderstood("there is no bash on this machine".into()));
    }
    decide_confinement(
        &mut facts,
        |zone| runner.counts_as_confined(zone, &workspace),
        || runner.enforces_file_rules(&workspace),
    );
    facts
}

/// Sets how a command will be confined. Words that are only known at run time may name any file: with
/// a view that enforces the rules about files, such a command counts as code of the project.
pub fn decide_confinement(
    facts: &mut Facts,
    is_confined: impl Fn(Zone) -> bool,
    has_view: impl FnOnce() -> bool,
) {
    let is_unknown = |doubt: &Doubt| matches!(doubt, Doubt::Unknown(_));
    if facts.zone <= Zone::Build && facts.doubts.iter().any(is_unknown) && has_view() {
        facts.zone = Zone::Build;
        facts.commands.iter_mut().for_each(|command| command.zone = Zone::Build);
        facts.view = true;
    }
    facts.confined = is_confined(facts.zone);
}

/// Raises the zone of git that runs unasked in a repository whose configuration names programs that
/// our settings cannot switch off. Then git counts like any other code of the project.
fn raise_git(facts: &mut Facts, workspace: &Workspace) {
    let is_git = |command: &SimpleCommand| command.words.iter().any(|word| is_git_name(&word.text));
    let runs_git_unasked = facts.zone <= Zone::Workspace && facts.commands.iter().any(is_git);
    if runs_git_unasked && protect::brings_programs(workspace, &facts.reads) {
        facts.zone = Zone::Build;
        // Also per command: a rule about another command must not allow it.
        for command in facts.commands.iter_mut().filter(|command| is_git(command)) {
            command.zone = Zone::Build;
        }
    }
}

fn is_git_name(word: &str) -> bool {
    word.rsplit('/').next() == Some("git")
}

/// The folder in which a command starts.
fn folder(input: &Value, workspace: &Workspace) -> PathBuf {
    match input["cwd"].as_str() {
        Some(path) => {
            let touched = cotter::fs::paths::touched_paths(path, workspace);
            touched.into_iter().next().unwrap_or_else(|| workspace.cwd().into())
        }
        None => workspace.cwd().into(),
    }
}

/// The bash of this machine, from a system folder, so that `PATH` does not decide.
fn bash() -> Option<&'static Path> {
    const CANDIDATES: [&str; 6] = [
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/local/bin/bash",
        "/run/current-system/sw/bin/bash",
        "/opt/homebrew/bin/bash",
        "/data/data/com.termux/files/usr/bin/bash",
    ];
    static FOUND: OnceLock<Option<&Path>> = OnceLock::new();
    *FOUND.get_or_init(|| CANDIDATES.map(Path::new).into_iter().find(|bash| bash.is_file()))
}

/// The command line of a call as a job, and the check at its end if it is confined.
pub(crate) fn job(permit: &Permit, runner: &Runner) -> Result<(Job, Option<EndCheck>), ToolError> {
    let no_bash = || ToolError::new(ToolErrorKind::Unavailable, "there is no bash on this machine");
    let program = bash().ok_or_else(no_bash)?;
    let workspace = permit.cx().workspace();
    let cwd = folder(permit.input(), workspace);
    let workspace = &workspace.clone().with_cwd(&cwd);
    if !cwd.is_dir() {
        let message =
            format!("{} is not a folder", cotter::fs::paths::format_path(&cwd, workspace));
        return Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
    }
    let temp = runner.temp().map_err(no_temp)?;
    let mut environment = runner.environment().for_workspace(workspace, temp);
    environment.extend(SETTINGS.map(|(name, value)| (name.into(), value.into())));
    if permit.facts().zone <= Zone::Workspace {
        environment.extend(SAFE_GIT.map(|(name, value)| (name.into(), value.into())));
    }
    let (confinement, end_check) = confine(permit, workspace, runner)?;
    if confinement.is_some() && rustix::process::geteuid().is_root() {
        // Without its capabilities, root cannot give files the owners that an archive names.
        environment.push(("TAR_OPTIONS".into(), "--no-same-owner".into()));
    }
    let command = permit.input()["command"].as_str().unwrap_or_default();
    let job = Job {
        program: program.into(),
        args: ["--noprofile", "--norc", "-c", command].map(Into::into).into(),
        cwd,
        environment,
        stdin: None,
        confinement,
    };
    Ok((job, end_check))
}

/// The error of a call whose private folders cannot be made.
fn no_temp(cause: std::io::Error) -> ToolError {
    ToolError::failed(format!("no temp folder: {cause}"))
}

fn confine(
    permit: &Permit,
    workspace: &Workspace,
    runner: &Runner,
) -> Result<(Option<Confinement>, Option<EndCheck>), ToolError> {
    let (facts, rules) = (permit.facts(), permit.cx().file_rules());
    runner.index().finish_dropped();
    let Some((mut plan, before)) =
        Confinement::of_call_with(facts, workspace, runner, Some(&rules)).map_err(no_temp)?
    else {
        return Ok((None, None));
    };
    if facts.confined && !runner.counts_as_confined(facts.zone, workspace) {
        let message = "the command was not run: by now the project has too many files to look at all. A person \
                       is asked when it is called again";
        return Err(ToolError::new(ToolErrorKind::Unavailable, message));
    }
    plan.protect_declared(permit.cx().declared_files(), facts);
    let writes = facts.zone > Zone::Safe;
    let check = writes.then(|| EndCheck::of_call(facts, workspace, runner, before)).transpose();
    Ok((Some(plan), check.map_err(no_temp)?))
}

/// There is no terminal: no pager and no password prompt.
const SETTINGS: [(&str, &str); 3] =
    [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

/// For calls that run unasked: git runs no program that a repository names. Drivers and filters
/// have arbitrary names and cannot be listed here: see [`protect::brings_programs`].
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

pub(crate) fn start_error(cause: StartError) -> ToolError {
    ToolError::new(ToolErrorKind::Unavailable, format!("the command was not run: {cause}"))
}

/// The output of a command, and its end.
struct BashOutput {
    /// Both streams in order of arrival.
    bytes: Vec<u8>,
    /// The stream of each run of bytes, with its length.
    parts: Vec<(Stream, usize)>,
    stop_cause: Option<StopCause>,
    end: ProcessEnd,
}

/// Why Cotter ended the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopCause {
    Timeout,
    TooMuch,
}

async fn collect_output(
    mut running: RunningProcess,
    permit: &Permit,
    timeout: Duration,
) -> Result<BashOutput, ToolError> {
    let mut bytes = vec![];
    let mut parts: Vec<(Stream, usize)> = vec![];
    let mut stop_cause = None;
    let mut live = [Utf8Stream::default(), Utf8Stream::default()];
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    loop {
        let chunk = tokio::select! {
            biased;
            () = &mut deadline, if stop_cause.is_none() => {
                stop_cause = Some(StopCause::Timeout);
                running.end();
                continue;
            }
            chunk = running.next() => chunk,
        };
        let Some(Chunk { stream, bytes: mut more }) = chunk else { break };
        more.truncate(MAX_OUTPUT - bytes.len());
        live[stream as usize].pass_on(&more, permit);
        bytes.extend(&more);
        match parts.last_mut() {
            Some((last, length)) if *last == stream => *length += more.len(),
            _ => parts.push((stream, more.len())),
        }
        if bytes.len() == MAX_OUTPUT && stop_cause.is_none() {
            stop_cause = Some(StopCause::TooMuch);
            running.end();
        }
    }
    let end = running.wait_for_end().await.map_err(start_error)?;
    Ok(BashOutput { bytes, parts, stop_cause, end })
}

/// A stream for listeners that never splits a character.
#[derive(Default)]
struct Utf8Stream(Vec<u8>);

impl Utf8Stream {
    fn pass_on(&mut self, more: &[u8], permit: &Permit) {
        self.0.extend(more);
        let complete = match std::str::from_utf8(&self.0) {
            // Up to three bytes of an incomplete character are held back.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.0.len(),
        };
        let rest = self.0.split_off(complete);
        if complete > 0 {
            permit.stream(&to_text(&self.0));
        }
        self.0 = rest;
    }
}

/// The exit status in words; `None` for success.
pub(crate) fn describe_exit(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("exit code {code}")),
        Exit::Signal(signal) => Some(format!("ended by signal {signal}")),
    }
}

impl BashOutput {
    fn tool_output(&self, timeout: Duration) -> Result<ToolOutput, ToolError> {
        let mut text = to_text(&self.bytes);
        for line in self.remarks(timeout) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&line);
        }
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if self.stop_cause == Some(StopCause::Timeout) {
            return Err(ToolError::new(ToolErrorKind::Timeout, text));
        }
        let code = match self.end.exit {
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

    /// The remarks for the model besides the output.
    fn remarks(&self, timeout: Duration) -> Vec<String> {
        let mut remarks = vec![];
        match (self.stop_cause, self.end.exit) {
            (Some(StopCause::Timeout), _) => {
                let milliseconds = timeout.as_millis();
                remarks
                    .push(format!("ended after {milliseconds} ms (timeout), with all it started"));
            }
            (Some(StopCause::TooMuch), _) => {
                let megabytes = MAX_OUTPUT / 1024 / 1024;
                remarks.push(format!(
                    "ended after {megabytes} MB of output; send it to a file instead"
                ));
            }
            (None, exit) => remarks.extend(describe_exit(exit)),
        }
        remarks.extend(self.end.remarks.iter().cloned());
        remarks
    }

    /// The end of the output, where refusals usually are.
    fn tail(&self) -> String {
        to_text(&self.bytes[self.bytes.len().saturating_sub(MAX_RENDERED)..])
    }

    /// One stream, shortened in the middle if it is long.
    fn stream(&self, wanted: Stream) -> String {
        let mut bytes = vec![];
        let mut at = 0;
        for (stream, length) in &self.parts {
            if *stream == wanted {
                bytes.extend(&self.bytes[at..at + length]);
            }
            at += length;
        }
        if bytes.len() <= MAX_RENDERED {
            return to_text(&bytes);
        }
        let half = MAX_RENDERED / 2;
        let (head, tail) = (&bytes[..half], &bytes[bytes.len() - half..]);
        let omitted = bytes.len() - MAX_RENDERED;
        format!("{}\n… [{omitted} bytes left out] …\n{}", to_text(head), to_text(tail))
    }
}

/// Output as text. Invalid UTF-8 becomes U+FFFD; so does NUL, which some providers refuse.
pub(crate) fn to_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.into_owned() }
}
