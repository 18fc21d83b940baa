//! Finds the interpreters of a project's hooks that are missing or do not start inside the sandbox, before a gate
//! needs them.

use std::path::{Path, PathBuf};

use cotter::{Workspace, text};
use cotter_files::{
    check,
    extensions::{Diagnostic, FileKind, Severity},
    trust::{
        declared::{Declared, Invocation},
        snapshot::Snapshot,
    },
};
use cotter_tools::hooks::{HookRunner, probe::InterpreterFailure};

use crate::{
    error::CliError,
    models::credentials::redactor,
    settings::SettingsFiles,
    setup::{access, tools},
    trust::{TrustSources, show_path},
};

/// Starts interpreters as the confined hooks of a project would.
pub(crate) struct InterpreterCheck {
    hooks: HookRunner,
    workspace: Workspace,
    /// True if hooks run confined: then each interpreter is started once.
    confines: bool,
    /// The variables of the setting `environment`, which reach hooks too.
    variables: Vec<String>,
}

impl InterpreterCheck {
    /// Prepares the check with the person's own settings. Starts nothing.
    pub(crate) fn new(workspace: Workspace) -> Result<Self, CliError> {
        let files = SettingsFiles::load_for_preview(None, &workspace, &TrustSources::empty())?;
        let values = files.values();
        let workspace = access::add_access(workspace, &values.access, &[])?;
        let runner = tools::runner(&values)?;
        let hooks = tools::hook_runner(&runner, &values, redactor())?;
        let variables = values.access.environment.iter().map(|name| name.text.clone()).collect();
        Ok(InterpreterCheck { hooks, workspace, confines: runner.confines(), variables })
    }

    /// Returns the interpreters that the hooks of a source need and that do not start.
    pub(crate) async fn failures(
        &self,
        snapshot: &Snapshot,
        declared: &Declared,
    ) -> Vec<InterpreterFailure> {
        let confined = declared.commands.iter().filter(|command| command.confined);
        let words = confined.filter_map(|command| match &command.command {
            Invocation::Words(words) => Some(words.iter().map(Into::into).collect()),
            Invocation::Shell(line) => Some(vec![line.into()]),
            Invocation::Remote(_) | Invocation::Notified(_) => None,
        });
        let (words, folder): (Vec<_>, _) = (words.collect(), folder_of(snapshot));
        let mut failures = self.hooks.find_missing_interpreters(&words, &folder, &self.workspace);
        if self.confines && !words.is_empty() {
            failures.extend(self.hooks.probe_interpreters(&words, &folder, &self.workspace).await);
        }
        failures
    }
}

/// Describes what this machine adds to the hooks of a source: variables, errors in their files, and programs that do
/// not start. Empty if there is nothing.
pub(crate) async fn describe_hooks(
    check: &Result<InterpreterCheck, CliError>,
    snapshot: &Snapshot,
    declared: &Declared,
) -> String {
    let check = match check {
        Ok(check) => check,
        Err(failure) => {
            return format!("\ninterpreters were not checked: {}\n", failure.one_line());
        }
    };
    let mut shown = String::new();
    if declared.commands.iter().any(|command| command.confined) && !check.variables.is_empty() {
        let names = text::show_line(&check.variables.join(", ")).into_owned();
        shown +=
            &format!("\nits hooks also get the variables of your setting `environment`: {names}\n");
    }
    let errors = errors_in_hook_files(snapshot.source());
    if !errors.is_empty() {
        let line =
            |found: &Diagnostic| format!("  {}: {}\n", show_path(&found.path), found.message);
        shown += "\nerrors in the files of its hooks\n";
        shown += &errors.iter().map(line).collect::<String>();
    }
    let failures = check.failures(snapshot, declared).await;
    if failures.is_empty() {
        return shown;
    }
    let line = |failure: &InterpreterFailure| {
        format!("  {}: {}\n", show_path(&failure.program), failure.reason)
    };
    let lines: String = failures.iter().map(line).collect();
    shown + &format!("\nprograms of its hooks that do not start here\n{lines}  {ADVICE}\n")
}

/// The errors that `cotter hooks check` reports about the hooks of a folder, such as a script that is missing.
pub(crate) fn errors_in_hook_files(source: &Path) -> Vec<Diagnostic> {
    if !source.is_dir() {
        return vec![];
    }
    let checked = check::check(source, FileKind::Hooks);
    let diagnostics = checked.into_iter().flat_map(|file| file.diagnostics);
    diagnostics.filter(|found| found.severity == Severity::Rejected).collect()
}

/// The way out for an interpreter that does not start.
pub(crate) const ADVICE: &str =
    "install it, or open the folders that it needs with `readRoots` in your settings";

/// The folder that the commands of a source start in: a trusted copy looks like the source itself.
fn folder_of(snapshot: &Snapshot) -> PathBuf {
    let source = snapshot.source();
    match source.is_dir() {
        true => source.to_owned(),
        false => source.parent().unwrap_or(source).to_owned(),
    }
}
