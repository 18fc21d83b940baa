//! `cotter permissions`: all rules with their origins and locations, and the removal of a rule.

use std::process::ExitCode;

use cotter::{Origin, Workspace, permission::rule::RuleKind, text};
use serde_json::json;

use crate::{
    args::SetupArgs,
    error::CliError,
    paths,
    settings::{OwnedRule, SettingsFiles, edit},
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
    let files = load_files(&workspace)?;
    let rules = files.owned_rules();
    if json {
        let row = |OwnedRule { kind, rule, owner }: &OwnedRule<'_>| {
            let (origin, at) = (owner.origin.to_string(), rule.location.to_string());
            json!({"kind": kind.as_str(), "rule": rule.text, "origin": origin, "at": at})
                .to_string()
        };
        return Ok(print_stdout(&rules.iter().map(|rule| row(rule) + "\n").collect::<String>()));
    }
    // The mode and the level result from everything that an agent loads, so an agent is built to read them.
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
    let rows = rules.iter().map(|OwnedRule { kind, rule, owner }| {
        let at = StyledSpan::new(Style::muted, &format!("{}, {}", owner.origin, rule.location));
        (vec![StyledSpan::plain(kind.as_str()), StyledSpan::plain(&rule.text)], vec![at])
    });
    out += &page.rows(&rows.collect::<Vec<_>>());
    if rules.is_empty() {
        out += "no rules: zones decide\n";
    }
    Ok(print_stdout(&out))
}

/// `cotter permissions revoke RULE`.
pub(crate) fn revoke(typed: &str) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let files = load_files(&workspace)?;
    let allow_rules = files.owned_rules().into_iter().filter(|rule| rule.kind == RuleKind::Allow);
    let (mine, others): (Vec<_>, Vec<_>) =
        allow_rules.partition(|rule| rule.owner.origin == Origin::User);
    let has_typed_text = |rule: &OwnedRule<'_>| rule.rule.text == typed;
    if mine.iter().any(has_typed_text) {
        let path = edit::revoke(typed)?;
        let shown = text::show_line(typed);
        return Ok(print_stdout(&format!("{shown} is no longer allowed ({})\n", path.display())));
    }
    let shown = text::show_line(typed).into_owned();
    if let Some(OwnedRule { rule, owner, .. }) = others.iter().find(|rule| has_typed_text(rule)) {
        let (origin, at) = (&owner.origin, &rule.location);
        return Err(CliError::new(format!("`{shown}` is the {origin}'s rule, not yours"))
            .with_hint(format!("it is in {at}")));
    }
    let failure = CliError::new(format!("there is no allow rule `{shown}` in your settings"));
    let my_texts = mine.iter().map(|rule| rule.rule.text.as_str());
    Err(failure.suggest(typed, my_texts, "`cotter permissions list` shows the rules"))
}

/// Loads the settings files of a folder. These commands have no flag `--settings`.
fn load_files(workspace: &Workspace) -> Result<SettingsFiles, CliError> {
    let settings_flag = None;
    SettingsFiles::load(settings_flag, workspace, &crate::trust::scan_trust(workspace))
}
