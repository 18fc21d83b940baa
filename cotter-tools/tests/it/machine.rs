//! Real processes in a scratch folder.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use cotter::{Agent, Session, Workspace};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use cotter_tools::{
    bash::Bash,
    process::{Job, Runner, environment::Environment},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with its links resolved, and gone at the end.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::new(&self.path())
    }

    /// Output with the folder's own name taken out.
    pub(crate) fn tidy(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "PROJECT")
    }
}

/// A runner with a spawner, and the environment of this test.
pub(crate) fn runner() -> Runner {
    with_environment(Runner::new(env!("CARGO_BIN_EXE_cotter-spawner")))
}

pub(crate) fn with_environment(runner: Runner) -> Runner {
    runner.with_environment(Environment::chosen(std::env::vars_os(), &[] as &[&str]))
}

/// A command line as a job, unconfined.
pub(crate) fn job(command: &str, cwd: &Path) -> Job {
    Job {
        program: "/bin/bash".into(),
        args: ["--noprofile", "--norc", "-c", command].map(Into::into).into(),
        cwd: cwd.into(),
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        stdin: None,
        confinement: None,
    }
}

/// An agent whose person says yes to everything. It makes these calls, one a step.
pub(crate) fn agent(runner: Runner, workspace: Workspace, calls: &[Value]) -> Agent {
    let steps = calls.iter().map(|input| Step::call("bash", input.clone()));
    let steps: Vec<_> = steps.chain([Step::text("done")]).collect();
    Agent::builder(ScriptedModel::new(steps))
        .ui(ScriptedUi::new(vec![PersonAnswer::Yes; calls.len()]))
        .workspace(workspace)
        .tool(Bash::new(runner))
        .build()
        .unwrap()
}

/// The whole way of one command through the tool, as the model sees its result.
pub(crate) async fn bash(runner: Runner, workspace: Workspace, input: Value) -> (Session, String) {
    let agent = agent(runner, workspace, &[input]);
    agent.process_request("go").await.unwrap();
    let session = agent.main_session().await.unwrap();
    let shown = transcript(&session);
    (session, shown)
}

/// The result of one command line.
pub(crate) async fn bash_result(runner: Runner, workspace: Workspace, command: &str) -> String {
    let (_, shown) = bash(runner, workspace, json!({"command": command})).await;
    let (_, rest) = shown.split_once("result c1.1").unwrap();
    let (result, _) = rest.rsplit_once("\nassistant: done").unwrap();
    result.trim_start_matches(": ").to_owned()
}

/// Waits until `done`, for a minute at most.
pub(crate) async fn wait_until(done: impl Fn() -> bool, what: &str) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_mins(1), "this did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The number of a process that writes it to a file; waits until the file has one.
pub(crate) async fn pid_in(file: &Path) -> u32 {
    let pid = || std::fs::read_to_string(file).unwrap_or_default().trim().parse().ok();
    wait_until(|| pid().is_some(), "a process writes its number").await;
    pid().unwrap()
}

/// Waits until a process is gone.
pub(crate) async fn wait_until_gone(pid: u32) {
    wait_until(|| !alive(pid), "the process is gone").await;
}

pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
