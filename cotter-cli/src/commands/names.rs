//! `cotter commands` and `cotter agents`: what can be called by name here, and whose it is.

use std::process::ExitCode;

use cotter::{
    ext::{Kind, NameInfo},
    text,
};
use serde_json::json;

use crate::{
    agents::{self, Listed},
    cli::Shape,
    failure::Failure,
    say, setup,
    style::{Style, When},
    trust,
};

/// `cotter commands list` and `cotter agents list`.
pub(crate) fn list(kind: Kind, json: bool, when: When) -> Result<ExitCode, Failure> {
    let place = setup::place(None)?;
    let names = setup::shown(place.clone(), &Shape::default())?.names(kind);
    let profiles = match kind {
        Kind::Subagent => agents::profiles(&place, &trust::seen(&place))?,
        _ => vec![],
    };
    if json {
        let rows = names.iter().map(json_row).chain(profiles.iter().map(profile_json));
        return Ok(say(&rows.map(|row| row + "\n").collect::<String>()));
    }
    let style = Style::on_stdout(when);
    let mark = if kind == Kind::Subagent { '@' } else { '/' };
    let width = names.iter().map(|info| info.name.len()).max().unwrap_or_default();
    let rows = names.iter().map(|info| text_row(info, mark, width, style));
    let rows = rows.chain(profiles.iter().map(|listed| profile_row(listed, width, style)));
    Ok(say(&rows.map(|row| row + "\n").collect::<String>()))
}

/// A profile is not called by the model: it is run with `--agent`.
fn profile_row(listed: &Listed, width: usize, style: Style) -> String {
    let name = text::show_line(&listed.name);
    let padding = " ".repeat(width.saturating_sub(name.len()));
    let about = match &listed.profile {
        Ok(profile) => text::show_line(&profile.description).into_owned(),
        Err(failure) => style.warning(&text::show_line(&failure.in_short())),
    };
    let origin = style.muted(&format!("(profile:{name}, run with --agent)"));
    format!(" {}{padding}  {about}  {origin}", style.strong(&name))
}

fn profile_json(listed: &Listed) -> String {
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
        Err(failure) => row["error"] = failure.in_short().into(),
    }
    row.to_string()
}

/// A name's letters are plain; what is said about it may come from anywhere.
fn text_row(info: &NameInfo, mark: char, width: usize, style: Style) -> String {
    let NameInfo { name, description, owner, shadowed_by, .. } = info;
    let padding = " ".repeat(width - name.len());
    let name = style.strong(&format!("{mark}{name}"));
    let origin = owner.origin.to_string();
    let origin = style.muted(&format!("({})", text::show_line(&origin)));
    let shadowed = shadowed_by.as_ref().map(|by| {
        let by = by.to_string();
        style.warning(&format!("  shadowed by {}", text::show_line(&by)))
    });
    let description = text::show_line(description);
    format!("{name}{padding}  {description}  {origin}{}", shadowed.unwrap_or_default())
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
