//! `cotter skills|commands|agents|hooks|spaces check PATH`: every file of a kind, with its diagnostics.

use std::{path::Path, process::ExitCode};

use cotter::text;
use cotter_files::{
    check::{self, CheckedFile},
    extensions::{Diagnostic, FileKind, Severity},
};
use serde_json::json;

use crate::{
    error::CliError,
    paths,
    settings::{
        SettingsFiles,
        checks::{self, UnknownTool},
    },
    setup::{self, selected_agent::ProfileChecker},
    terminal::{
        screen::print_stdout,
        style::{self, ColorChoice, Style},
    },
    trust::{self, show_path},
};

/// Prints one line per file, and the totals. Exit code 1 if a file is rejected.
pub(crate) fn files(
    kind: FileKind,
    path: &Path,
    json: bool,
    color: ColorChoice,
) -> Result<ExitCode, CliError> {
    if let Err(cause) = path.symlink_metadata() {
        let failure = CliError::new(format!("cannot check {}", show_path(path))).with_cause(cause);
        return Err(failure.with_hint("name a file or a folder that exists"));
    }
    let mut checked = check::check(path, kind);
    let is_profile = |file: &CheckedFile| file.kind == FileKind::Profiles;
    if checked.iter().any(|file| !file.tools.is_empty() || is_profile(file)) {
        let known = setup::own_tools()?;
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        checked.iter_mut().for_each(|file| add_tool_diagnostics(file, &known));
        let workspace = paths::find_workspace(None)?;
        // Settings that cannot be read are reported by the commands that need them.
        let settings =
            SettingsFiles::load_for_preview(None, &workspace, &trust::scan_trust(&workspace)).ok();
        let mut start = ProfileChecker::new(&workspace, settings.as_ref())?;
        let profiles = checked.iter_mut().filter(|file| is_profile(file));
        profiles.for_each(|file| add_start_diagnostics(file, &mut start, &known));
    }
    let style = Style::on_stdout(color);
    let row = |file: &CheckedFile| {
        if json { json_row(file) } else { text_rows(file, style) }
    };
    let mut out: String = checked.iter().map(row).collect();
    if !json {
        out += &match checked.is_empty() {
            true => no_files_message(kind, path, style),
            false => summarize(&checked),
        };
    }
    let exit_code = print_stdout(&out);
    let is_rejected = checked.iter().any(|file| file.status == Severity::Rejected);
    Ok(if is_rejected { ExitCode::FAILURE } else { exit_code })
}

/// Adds diagnostics about tools that an agent names and that do not exist: a typo leaves the agent without
/// them.
fn add_tool_diagnostics(file: &mut CheckedFile, known: &[&str]) {
    for (line, tool) in &file.tools {
        if checks::may_exist(tool, known) {
            continue;
        }
        let hint = UnknownTool::of(tool, known).hint();
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let shown = text::cut_chars(&text::show_line(tool), 40).into_owned();
        let why = format!("there is no tool `{shown}` here{hint}");
        file.diagnostics.push(Diagnostic::new(&file.path, *line, Severity::Warning, why));
    }
}

/// Adds the diagnostics that a start would give about a profile.
fn add_start_diagnostics(file: &mut CheckedFile, start: &mut ProfileChecker, known: &[&str]) {
    if file.status == Severity::Rejected {
        return;
    }
    file.diagnostics.extend(start.check(&file.path, &file.path, known));
    let worst = file.diagnostics.iter().map(|diagnostic| diagnostic.severity).max();
    file.status = worst.unwrap_or(file.status);
}

/// Returns the number of files of each kind, and their results.
fn summarize(checked: &[CheckedFile]) -> String {
    let mut kinds: Vec<(&str, usize)> = vec![];
    for file in checked {
        let word = match file.kind {
            FileKind::Settings => "file of settings",
            kind => kind.as_str(),
        };
        match kinds.iter_mut().find(|(known, _)| *known == word) {
            Some((_, number)) => *number += 1,
            None => kinds.push((word, 1)),
        }
    }
    let kinds: Vec<_> = kinds.iter().map(|(word, number)| style::count(*number, word)).collect();
    let statuses =
        [Severity::Warning, Severity::Repaired, Severity::PartlyUsed, Severity::Rejected];
    let statuses = statuses.iter().filter_map(|status| {
        let number = checked.iter().filter(|file| file.status == *status).count();
        (number > 0).then(|| format!("{number} {}", status.as_str()))
    });
    let statuses: Vec<_> = statuses.collect();
    format!("\nchecked {}: {}\n", kinds.join(", "), statuses.join(", "))
}

/// Returns the message for a path without files of this kind, with the patterns that were searched.
fn no_files_message(kind: FileKind, path: &Path, style: Style) -> String {
    let where_else =
        "of this folder, or of a `.cotter`, `.claude`, `.agents`, plugin or space in it";
    let (what, patterns) = match kind {
        FileKind::Skills => {
            ("skills", format!("`skills/NAME/SKILL.md`, `skills/*.md` and `*.yaml` {where_else}"))
        }
        FileKind::Commands => ("commands", format!("`commands/*.md` {where_else}")),
        FileKind::Agents => {
            ("agents", format!("`agents/*.md`, `*.yaml` and `agents/NAME/agent.json` {where_else}"))
        }
        FileKind::Hooks => (
            "hooks",
            "`settings.json` and `hooks/*.yaml` of a `.cotter`, settings of a `.claude`, \
             `hooks/hooks.json` of a plugin, `hooks/*.yaml` of a space"
                .to_owned(),
        ),
        _ => ("files", "a folder with a `manifest.json`".to_owned()),
    };
    let (path, hint) = (show_path(path), style.good("hint:"));
    format!("no {what} found in {path}\n\n{hint} expected {patterns}\n")
}

fn json_row(file: &CheckedFile) -> String {
    let diagnostic = |one: &Diagnostic| json!({"line": one.line, "severity": word(one.severity), "message": one.message});
    let row = json!({
        "path": file.path,
        "kind": file.kind.as_str(),
        "status": file.status.as_str(),
        "diagnostics": file.diagnostics.iter().map(diagnostic).collect::<Vec<_>>(),
    });
    format!("{row}\n")
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        severity => severity.as_str(),
    }
}

fn text_rows(file: &CheckedFile, style: Style) -> String {
    let path = file.path.to_string_lossy();
    let status = match file.status {
        Severity::Warning => style.good("ok"),
        Severity::Repaired => style.warning("repaired"),
        Severity::PartlyUsed => style.warning("in part"),
        Severity::Rejected => style.bad("rejected"),
    };
    let mut rows = format!("{}: {status}\n", text::show_line(&path));
    for diagnostic in &file.diagnostics {
        let (word, paint): (_, fn(Style, &str) -> String) = match diagnostic.severity {
            Severity::Warning => ("note", Style::muted),
            Severity::Repaired => ("repaired", Style::warning),
            Severity::PartlyUsed => ("not used", Style::warning),
            Severity::Rejected => ("rejected", Style::bad),
        };
        let space = " ".repeat(10 - word.len());
        let line = diagnostic.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let message = text::show_line(&diagnostic.message);
        rows += &format!("  {}{space}{line}{message}\n", paint(style, word));
    }
    rows
}
