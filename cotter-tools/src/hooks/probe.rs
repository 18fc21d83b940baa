//! Starts the interpreters of hooks once, before a person trusts the hooks: an interpreter that does not start
//! inside the sandbox makes a gate block every call.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use cotter::{Workspace, text};
use cotter_files::command_hook::{HookHost, ProcessExit, ProcessSpec};

use crate::{confine::interpreters, hooks::HookRunner};

/// The folder that an interpreter starts in. Nothing there chooses another version or runs code.
const NEUTRAL_FOLDER: &str = "/usr";

/// The time an interpreter has to print its version.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The most interpreters that are started for one source.
const MAX_PROBES: usize = 16;

/// Interpreters that do not know `--version`.
const WITHOUT_VERSION: [&str; 1] = ["lua"];

/// An interpreter that does not start as a hook would start it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterpreterFailure {
    /// The program.
    pub program: PathBuf,
    /// The reason, in one line.
    pub reason: String,
}

impl HookRunner {
    /// Returns the interpreters that these commands need and that are not on this machine. Starts nothing.
    pub fn find_missing_interpreters(
        &self,
        commands: &[Vec<OsString>],
        folder: &Path,
        workspace: &Workspace,
    ) -> Vec<InterpreterFailure> {
        let environment = self.environment_for_search(workspace);
        let missing = commands
            .iter()
            .flat_map(|words| interpreters::missing(words, folder, workspace.home(), &environment));
        let mut failures: Vec<_> = missing
            .map(|missing| {
                let name = text::show_line(&missing.name).into_owned();
                let reason = match missing.script {
                    Some(script) => format!(
                        "it is not there, and {} needs it",
                        text::show_line(&script.to_string_lossy())
                    ),
                    None => "it is not in `PATH`".to_owned(),
                };
                InterpreterFailure { program: name.into(), reason }
            })
            .collect();
        failures.dedup();
        failures
    }

    /// The variables of a hook, with those that name the project.
    fn environment_for_search(&self, workspace: &Workspace) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment(&version_request(Path::new(""), workspace));
        for name in ["CLAUDE_PROJECT_DIR", "COTTER_PROJECT_DIR"] {
            environment.push((name.into(), workspace.project().into()));
        }
        environment
    }

    /// Starts each interpreter that these commands of confined hooks need once, with `--version`, confined as
    /// the hooks would be. Returns those that fail.
    ///
    /// Only interpreters outside the system and outside the project are started: the system's are always
    /// readable, and what a project brings does not run before a person trusts it. `folder` is the one that
    /// the commands start in.
    pub async fn probe_interpreters(
        &self,
        commands: &[Vec<OsString>],
        folder: &Path,
        workspace: &Workspace,
    ) -> Vec<InterpreterFailure> {
        let environment = self.environment_for_search(workspace);
        let started = commands.iter().flat_map(|words| {
            interpreters::started_by(words, folder, workspace.home(), &environment)
        });
        let may_start = |path: &PathBuf| {
            let knows_version = !WITHOUT_VERSION.iter().any(|name| path.ends_with(name));
            knows_version && !is_in_project(path, folder, workspace)
        };
        let programs: BTreeSet<_> = started.filter(may_start).collect();
        let probes = programs.into_iter().take(MAX_PROBES).map(async |program| {
            let reason = self.why_not_started(&program, workspace).await?;
            Some(InterpreterFailure { program, reason })
        });
        futures_util::future::join_all(probes).await.into_iter().flatten().collect()
    }

    /// The reason why an interpreter does not start. `None` if it does.
    async fn why_not_started(&self, program: &Path, workspace: &Workspace) -> Option<String> {
        let run = self.run(version_request(program, workspace));
        let output = match tokio::time::timeout(MAX_TIME, run).await {
            Ok(Ok(output)) => output,
            Ok(Err(reason)) => return Some(text::show_line(&reason).into_owned()),
            Err(_) => return Some(format!("no answer within {} s", MAX_TIME.as_secs())),
        };
        let exit = match output.exit {
            ProcessExit::Code(0) => return None,
            ProcessExit::Code(code) => format!("exit code {code}"),
            ProcessExit::Signal(signal) => format!("signal {signal}"),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last_line = stderr.lines().rev().find(|line| !line.trim().is_empty());
        let mut parts = vec![exit];
        parts.extend(last_line.map(|line| text::show_line(line.trim()).into_owned()));
        parts.extend(output.blocked_accesses);
        Some(parts.join("; "))
    }
}

/// True if a program belongs to what is asked about: it may not run yet.
fn is_in_project(path: &Path, folder: &Path, workspace: &Workspace) -> bool {
    let real = path.canonicalize();
    let mut paths = [Some(path), real.as_deref().ok()].into_iter().flatten();
    paths.any(|path| path.starts_with(workspace.project()) || path.starts_with(folder))
}

fn version_request(program: &Path, workspace: &Workspace) -> ProcessSpec {
    let words = vec![program.into(), "--version".into()];
    ProcessSpec::confined(words, NEUTRAL_FOLDER, workspace.clone())
}
