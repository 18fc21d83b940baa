//! `cotter hooks list`: the hooks there are, where each is bound, what it may do and whose it is. What else
//! can be done with them is a file each.

pub(crate) mod log;
pub(crate) mod test;

use std::process::ExitCode;

use cotter::{ext::HookInfo, text};
use serde_json::json;

use crate::{
    failure::Failure,
    say, setup,
    style::{Style, When},
};

/// `cotter hooks list`.
pub(crate) fn list(json: bool, when: When) -> Result<ExitCode, Failure> {
    let agent = setup::shown(setup::place(None)?)?;
    let hooks = joined(agent.hooks());
    if json {
        return Ok(say(&hooks.iter().map(|hook| json_row(hook) + "\n").collect::<String>()));
    }
    let style = Style::on_stdout(when);
    let width = |of: fn(&Hook) -> usize| hooks.iter().map(of).max().unwrap_or_default();
    let widths = [
        width(|hook| text::show_line(&hook.info.name).chars().count()),
        width(|hook| hook.info.point.name().len()),
        width(|hook| hook.powers().len()),
    ];
    Ok(say(&hooks.iter().map(|hook| text_row(hook, widths, style) + "\n").collect::<String>()))
}

/// A hook with everything it may do: one that may change a call also judges what others made of it.
struct Hook {
    info: HookInfo,
    powers: Vec<&'static str>,
}

impl Hook {
    fn powers(&self) -> String {
        self.powers.join(", ")
    }
}

fn joined(infos: Vec<HookInfo>) -> Vec<Hook> {
    let mut hooks: Vec<Hook> = vec![];
    for info in infos {
        let same = |hook: &&mut Hook| {
            let known = &hook.info;
            (&known.name, known.point, &known.owner) == (&info.name, info.point, &info.owner)
        };
        match hooks.iter_mut().find(same) {
            Some(hook) => hook.powers.push(info.power.as_str()),
            None => hooks.push(Hook { powers: vec![info.power.as_str()], info }),
        }
    }
    hooks
}

fn text_row(hook: &Hook, [name, point, powers]: [usize; 3], style: Style) -> String {
    let info = &hook.info;
    let shown = text::show_line(&info.name);
    let padding = " ".repeat(name - shown.chars().count());
    let shown = style.strong(&shown);
    let origin = style.muted(&format!("({})", text::show_line(&info.owner.origin.to_string())));
    let tools = info.tools.as_ref().map(|globs| {
        let globs = globs.join(", ");
        format!("  for {}", text::show_line(&globs))
    });
    let off = if info.enabled { String::new() } else { style.warning("  switched off") };
    let said = match info.description.is_empty() {
        true => String::new(),
        false => format!("  {}", text::show_line(&info.description)),
    };
    let tools = tools.unwrap_or_default();
    let (at, may) = (info.point.name(), hook.powers());
    format!("{shown}{padding}  {at:<point$}  {may:<powers$}  {origin}{tools}{said}{off}")
}

fn json_row(hook: &Hook) -> String {
    let HookInfo { name, description, point, owner, tools, enabled, .. } = &hook.info;
    json!({
        "name": name,
        "description": description,
        "point": point.name(),
        "powers": hook.powers,
        "origin": owner.origin.to_string(),
        "owner": owner.unit,
        "tools": tools,
        "enabled": enabled,
    })
    .to_string()
}
