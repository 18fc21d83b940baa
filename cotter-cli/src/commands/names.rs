//! `cotter commands` and `cotter agents`: the names that can be called here, with their owners.

use std::process::ExitCode;

use cotter::{
    Owner,
    invoke::named_item::{NameInfo, NameKind},
};
use serde_json::json;

use crate::{
    args::SetupArgs,
    error::CliError,
    paths,
    setup::{
        self,
        selected_agent::{self, ProfileEntry},
    },
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
        table::{Page, StyledSpan},
    },
    trust,
};

/// `cotter commands list` and `cotter agents list`.
pub(crate) fn list(kind: NameKind, json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let names = setup::build_preview(workspace.clone(), &SetupArgs::default())?.names(kind);
    let profiles = match kind {
        NameKind::Subagent => selected_agent::profiles(&workspace, &trust::scan_trust(&workspace))?,
        _ => vec![],
    };
    if json {
        let rows = names.iter().map(json_row).chain(profiles.iter().map(profile_json));
        return Ok(print_stdout(&rows.map(|row| row + "\n").collect::<String>()));
    }
    let mark = if kind == NameKind::Subagent { '@' } else { '/' };
    let rows = names.iter().map(|info| text_row(info, mark));
    let rows: Vec<_> = rows.chain(profiles.iter().map(profile_row)).collect();
    Ok(print_stdout(&Page::on_stdout(color).rows(&rows)))
}

/// Renders the row of a profile. The model cannot call a profile; `--agent` runs it.
fn profile_row(listed: &ProfileEntry) -> (Vec<StyledSpan>, Vec<StyledSpan>) {
    let name = StyledSpan::new(Style::strong, &format!(" {}", listed.name));
    let description = match &listed.profile {
        Ok(profile) => StyledSpan::plain(&profile.description),
        Err(failure) => StyledSpan::new(Style::warning, &failure.one_line()),
    };
    let origin = format!("(profile:{}, run with --agent)", listed.name);
    (vec![name], vec![description, StyledSpan::new(Style::muted, &origin)])
}

fn profile_json(listed: &ProfileEntry) -> String {
    let mut row = json!({
        "name": listed.name,
        "description": "",
        "origin": format!("profile:{}", listed.name),
        "owner": listed.path,
    });
    match &listed.profile {
        Ok(profile) => {
            row["description"] = profile.description.as_str().into();
            row["origin"] = format!("profile:{}", profile.name).into();
        }
        Err(failure) => row["error"] = failure.one_line().into(),
    }
    row.to_string()
}

fn text_row(info: &NameInfo, mark: char) -> (Vec<StyledSpan>, Vec<StyledSpan>) {
    let NameInfo { name, description, owner, shadowed_by, .. } = info;
    named_row(&format!("{mark}{name}"), description, owner, shadowed_by.as_ref())
}

/// Renders the row of a name: its description, its origin, and the owner that shadows it.
pub(crate) fn named_row(
    name: &str,
    description: &str,
    owner: &Owner,
    shadowed_by: Option<&Owner>,
) -> (Vec<StyledSpan>, Vec<StyledSpan>) {
    let origin = StyledSpan::new(Style::muted, &format!("({})", owner.origin));
    let mut last = vec![StyledSpan::plain(description), origin];
    let shadowed = shadowed_by.map(|by| format!("shadowed by {by}"));
    last.extend(shadowed.map(|words| StyledSpan::new(Style::warning, &words)));
    (vec![StyledSpan::new(Style::strong, name)], last)
}

fn json_row(info: &NameInfo) -> String {
    let mut row = json!({
        "name": info.name,
        "description": info.description,
        "origin": info.owner.origin.to_string(),
        "owner": info.owner.unit,
    });
    if let Some(by) = &info.shadowed_by {
        row["shadowedBy"] = json!({"origin": by.origin.to_string(), "owner": by.unit});
    }
    row.to_string()
}
