//! `cotter hooks list`: the hooks there are, where each is bound, what it may do and whose it is. What else
//! can be done with them is a file each.

pub(crate) mod log;
pub(crate) mod test;

use std::process::ExitCode;

use cotter::{Owner, command_hook::CommandHook, ext::HookInfo, points::PointId, text};
use serde_json::json;
use smol_str::SmolStr;

use crate::{
    cli::Shape,
    failure::Failure,
    say, setup,
    style::{Style, When},
};

/// `cotter hooks list`.
pub(crate) fn list(json: bool, shape: &Shape, when: When) -> Result<ExitCode, Failure> {
    let (agent, files) = setup::shown_with_files(setup::place(None)?, shape)?;
    let mut hooks = joined(agent.hooks());
    hooks.extend(files.switched_off().map(|(owner, hook)| Hook::switched_off(owner, hook)));
    if json {
        return Ok(say(&hooks.iter().map(|hook| json_row(hook) + "\n").collect::<String>()));
    }
    let style = Style::on_stdout(when);
    let width = |of: fn(&Hook) -> usize| hooks.iter().map(of).max().unwrap_or_default();
    let widths = [
        width(|hook| text::show_line(&hook.name).chars().count()),
        width(|hook| hook.point.name().len()),
        width(|hook| hook.powers().len()),
    ];
    Ok(say(&hooks.iter().map(|hook| text_row(hook, widths, style) + "\n").collect::<String>()))
}

/// A hook with everything it may do: one that may change a call also judges what others made of it.
struct Hook {
    name: SmolStr,
    description: SmolStr,
    point: PointId,
    owner: Owner,
    tools: Option<Vec<String>>,
    enabled: bool,
    powers: Vec<&'static str>,
}

impl Hook {
    /// One that its own file switches off: it may do nothing.
    fn switched_off(owner: &Owner, hook: &CommandHook) -> Self {
        Hook {
            name: hook.name.clone(),
            description: hook.declared.description.clone(),
            point: hook.point,
            owner: owner.clone(),
            tools: hook.declared.tools.clone(),
            enabled: false,
            powers: vec![],
        }
    }

    fn powers(&self) -> String {
        self.powers.join(", ")
    }
}

fn joined(infos: Vec<HookInfo>) -> Vec<Hook> {
    let mut hooks: Vec<Hook> = vec![];
    for info in infos {
        let HookInfo { name, description, point, power, owner, tools, enabled, .. } = info;
        let same =
            |hook: &&mut Hook| (&hook.name, hook.point, &hook.owner) == (&name, point, &owner);
        match hooks.iter_mut().find(same) {
            Some(hook) => hook.powers.push(power.as_str()),
            None => {
                let powers = vec![power.as_str()];
                hooks.push(Hook { name, description, point, owner, tools, enabled, powers });
            }
        }
    }
    hooks
}

fn text_row(hook: &Hook, [name, point, powers]: [usize; 3], style: Style) -> String {
    let shown = text::show_line(&hook.name);
    let padding = " ".repeat(name - shown.chars().count());
    let shown = style.strong(&shown);
    let origin = style.muted(&format!("({})", text::show_line(&hook.owner.origin.to_string())));
    let tools = hook.tools.as_ref().map(|globs| {
        let globs = globs.join(", ");
        format!("  for {}", text::show_line(&globs))
    });
    let off = if hook.enabled { String::new() } else { style.warning("  switched off") };
    let said = match hook.description.is_empty() {
        true => String::new(),
        false => format!("  {}", text::show_line(&hook.description)),
    };
    let tools = tools.unwrap_or_default();
    let (at, may) = (hook.point.name(), hook.powers());
    format!("{shown}{padding}  {at:<point$}  {may:<powers$}  {origin}{tools}{said}{off}")
}

fn json_row(hook: &Hook) -> String {
    json!({
        "name": hook.name,
        "description": hook.description,
        "point": hook.point.name(),
        "powers": hook.powers,
        "origin": hook.owner.origin.to_string(),
        "owner": hook.owner.unit,
        "tools": hook.tools,
        "enabled": hook.enabled,
    })
    .to_string()
}
