//! `cotter hooks list`: all hooks, with their point, power and owner. The other commands about hooks have a
//! file each.

pub(crate) mod test;
pub(crate) mod log;
mod log_printer;
mod tail;

use std::process::ExitCode;

use cotter::{Origin, Owner, hooks::points::PointId, registry::generation::HookInfo};
use cotter_files::command_hook::entry::CommandHook;
use serde_json::json;
use smol_str::SmolStr;

use crate::{
    args::SetupArgs,
    error::CliError,
    paths, setup,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
        table::{Page, StyledSpan},
    },
};

/// `cotter hooks list`.
pub(crate) fn list(
    json: bool,
    setup_args: &SetupArgs,
    color: ColorChoice,
) -> Result<ExitCode, CliError> {
    let (agent, files) = setup::build_preview_with_files(paths::find_workspace(None)?, setup_args)?;
    let mut hooks = joined(agent.hooks());
    hooks.extend(files.switched_off().map(|(owner, hook)| HookRow::switched_off(owner, hook)));
    if json {
        return Ok(print_stdout(
            &hooks.iter().map(|hook| json_row(hook) + "\n").collect::<String>(),
        ));
    }
    // Hooks from files come first, because they are what a person looks for.
    hooks.sort_by_key(|hook| matches!(hook.owner.origin, Origin::Kernel | Origin::Embedder));
    let rows: Vec<_> = hooks.iter().map(text_row).collect();
    Ok(print_stdout(&Page::on_stdout(color).rows(&rows)))
}

/// A hook with all its powers. A hook that may transform a call is also a gate on the changes of others.
struct HookRow {
    name: SmolStr,
    description: SmolStr,
    point: PointId,
    owner: Owner,
    tools: Option<Vec<String>>,
    enabled: bool,
    powers: Vec<&'static str>,
}

impl HookRow {
    /// Creates the row of a hook that its own file switches off, and that has no power.
    fn switched_off(owner: &Owner, hook: &CommandHook) -> Self {
        HookRow {
            name: hook.name.clone(),
            description: hook.spec.description.clone(),
            point: hook.point,
            owner: owner.clone(),
            tools: hook.spec.tools.clone(),
            enabled: false,
            powers: vec![],
        }
    }

    fn powers(&self) -> String {
        self.powers.join(", ")
    }
}

fn joined(infos: Vec<HookInfo>) -> Vec<HookRow> {
    let mut hooks: Vec<HookRow> = vec![];
    for info in infos {
        let HookInfo { name, description, point, power, owner, tools, enabled, .. } = info;
        let same =
            |hook: &&mut HookRow| (&hook.name, hook.point, &hook.owner) == (&name, point, &owner);
        match hooks.iter_mut().find(same) {
            Some(hook) => hook.powers.push(power.as_str()),
            None => {
                let powers = vec![power.as_str()];
                hooks.push(HookRow { name, description, point, owner, tools, enabled, powers });
            }
        }
    }
    hooks
}

fn text_row(hook: &HookRow) -> (Vec<StyledSpan>, Vec<StyledSpan>) {
    let columns = vec![
        StyledSpan::new(Style::strong, &hook.name),
        StyledSpan::plain(hook.point.name()),
        StyledSpan::plain(&hook.powers()),
    ];
    let mut last = vec![StyledSpan::new(Style::muted, &format!("({})", hook.owner.origin))];
    let tools = hook.tools.iter().map(|globs| format!("for {}", globs.join(", ")));
    last.extend(tools.map(|tools| StyledSpan::plain(&tools)));
    last.extend((!hook.description.is_empty()).then(|| StyledSpan::plain(&hook.description)));
    last.extend((!hook.enabled).then(|| StyledSpan::new(Style::warning, "switched off")));
    (columns, last)
}

fn json_row(hook: &HookRow) -> String {
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
