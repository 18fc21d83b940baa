//! `cotter permissions`: all rules with their origins and locations, and the removal of a rule.

use std::process::ExitCode;

use cotter::{permission::rule::RuleKind, text};
use cotter_files::settings::SourcedText;
use serde_json::json;

use crate::{
    args::SetupArgs,
    error::CliError,
    paths,
    settings::{SettingsFiles, edit},
    setup,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
        table::{Page, StyledSpan},
    },
};

/// `cotter permissions list`.
pub(crate) fn list(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let files = SettingsFiles::load(None, &workspace, &crate::trust::scan_trust(&workspace))?;
    let rules = files.rules();
    if json {
        let row = |(kind, written, origin): &(RuleKind, &SourcedText, String)| {
            let at = written.location.to_string();
            json!({"kind": kind.as_str(), "rule": written.text, "origin": origin, "at": at})
                .to_string()
        };
        return Ok(print_stdout(&rules.iter().map(|rule| row(rule) + "\n").collect::<String>()));
    }
    let agent = setup::build_preview(workspace, &SetupArgs::default())?;
    let page = Page::on_stdout(color);
    let style = page.style;
    let policy = agent.policy();
    let mut out = format!(
        "mode {}, level {}, sandbox {}\n",
        style.strong(policy.mode().as_str()),
        style.strong(policy.level().as_str()),
        style.strong(files.values().sandbox.unwrap_or_default().as_str()),
    );
    let rows = rules.iter().map(|(kind, rule, origin)| {
        let at = StyledSpan::new(Style::muted, &format!("{origin}, {}", rule.location));
        (vec![StyledSpan::plain(kind.as_str()), StyledSpan::plain(&rule.text)], vec![at])
    });
    out += &page.rows(&rows.collect::<Vec<_>>());
    if rules.is_empty() {
        out += "no rules: zones decide\n";
    }
    Ok(print_stdout(&out))
}

/// `cotter permissions revoke RULE`.
pub(crate) fn revoke(rule: &str) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let files = SettingsFiles::load(None, &workspace, &crate::trust::scan_trust(&workspace))?;
    let allowed = |(kind, ..): &&(RuleKind, &SourcedText, String)| *kind == RuleKind::Allow;
    let rules = files.rules();
    let (mine, others): (Vec<_>, Vec<_>) =
        rules.iter().filter(allowed).partition(|(_, _, origin)| origin == "user");
    let named = |(_, written, _): &&&(RuleKind, &SourcedText, String)| written.text == rule;
    if mine.iter().any(|row| named(&row)) {
        let path = edit::revoke(rule)?;
        let shown = text::show_line(rule);
        return Ok(print_stdout(&format!("{shown} is no longer allowed ({})\n", path.display())));
    }
    let shown = text::show_line(rule).into_owned();
    if let Some((_, written, origin)) = others.iter().find(|row| named(row)) {
        let at = written.location.to_string();
        return Err(CliError::new(format!("`{shown}` is the {origin}'s rule, not yours"))
            .with_hint(format!("it is in {at}")));
    }
    let failure = CliError::new(format!("there is no allow rule `{shown}` in your settings"));
    let rules = mine.iter().map(|(_, written, _)| written.text.as_str());
    Err(failure.suggest(rule, rules, "`cotter permissions list` shows the rules"))
}
