//! `cotter commands` and `cotter agents`: what can be called by name here, and whose it is.

use std::process::ExitCode;

use cotter::{
    ext::{Kind, NameInfo},
    text,
};
use serde_json::json;

use crate::{
    failure::Failure,
    say, setup,
    style::{Style, When},
};

/// `cotter commands list` and `cotter agents list`.
pub(crate) fn list(kind: Kind, json: bool, when: When) -> Result<ExitCode, Failure> {
    let names = setup::shown(setup::place(None)?)?.names(kind);
    if json {
        return Ok(say(&names.iter().map(|info| json_row(info) + "\n").collect::<String>()));
    }
    let style = Style::on_stdout(when);
    let mark = if kind == Kind::Subagent { '@' } else { '/' };
    let width = names.iter().map(|info| info.name.len()).max().unwrap_or_default();
    let row = |info: &NameInfo| text_row(info, mark, width, style) + "\n";
    Ok(say(&names.iter().map(row).collect::<String>()))
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
