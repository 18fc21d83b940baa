//! `cotter skills|commands|agents|hooks check PATH`: every file of a kind, and what is wrong with it.

use std::{path::Path, process::ExitCode};

use cotter::{
    files::{self, CheckedFile, Diagnostic, FileKind, Severity},
    text,
};
use serde_json::json;

use crate::{
    failure::Failure,
    say,
    style::{Style, When},
};

/// One line per file; exit 1 when something was rejected.
pub(crate) fn files(
    kind: FileKind,
    path: &Path,
    json: bool,
    when: When,
) -> Result<ExitCode, Failure> {
    if let Err(cause) = path.symlink_metadata() {
        let failure = Failure::new(format!("cannot check {}", path.display())).with_cause(cause);
        return Err(failure.with_hint("name a file or a folder that exists"));
    }
    let checked = files::check(path, kind);
    let style = Style::on_stdout(when);
    let row = |file: &CheckedFile| {
        if json { json_row(file) } else { text_rows(file, style) }
    };
    let said = say(&checked.iter().map(row).collect::<String>());
    let is_rejected = checked.iter().any(|file| file.status == Severity::Rejected);
    Ok(if is_rejected { ExitCode::FAILURE } else { said })
}

fn json_row(file: &CheckedFile) -> String {
    let told = |told: &Diagnostic| json!({"line": told.line, "severity": word(told.severity), "message": told.message});
    let row = json!({
        "path": file.path,
        "kind": file.kind.as_str(),
        "status": file.status.as_str(),
        "diagnostics": file.diagnostics.iter().map(told).collect::<Vec<_>>(),
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
        Severity::Rejected => style.bad("rejected"),
    };
    let mut rows = format!("{}: {status}\n", text::show_line(&path));
    for told in &file.diagnostics {
        let line = told.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        rows += &format!("  {line}{}\n", text::show_line(&told.message));
    }
    rows
}
