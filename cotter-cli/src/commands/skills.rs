//! `cotter skills list|show|match`: all skills, the text of one, and the skills that a task triggers.

use std::process::ExitCode;

use cotter::{
    Agent,
    invoke::{
        skill::{SkillInfo, SkillMatch},
        trigger::{MatchScope, Trigger},
    },
    text,
};
use serde_json::{Value, json};

use crate::{
    args::SetupArgs,
    commands::names::named_row,
    error::CliError,
    paths, setup,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
        table::Page,
    },
};

fn agent() -> Result<Agent, CliError> {
    setup::build_preview(paths::find_workspace(None)?, &SetupArgs::default())
}

/// `cotter skills list`.
pub(crate) fn list(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let skills = agent()?.skills();
    if json {
        return Ok(print_stdout(
            &skills.iter().map(|skill| format!("{}\n", row(skill))).collect::<String>(),
        ));
    }
    let row = |skill: &SkillInfo| {
        let SkillInfo { name, description, owner, shadowed_by, .. } = skill;
        named_row(&format!("/{name}"), description, owner, shadowed_by.as_ref())
    };
    Ok(print_stdout(&Page::on_stdout(color).rows(&skills.iter().map(row).collect::<Vec<_>>())))
}

/// `cotter skills show NAME`.
pub(crate) fn show(name: &str, json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let agent = agent()?;
    let typed = name.strip_prefix('/').unwrap_or(name);
    let Some(skill) = agent.skill(typed) else {
        let skills = agent.skills();
        let names = skills.iter().map(|skill| skill.name.as_str());
        let failure = CliError::new(format!("there is no skill `{}`", text::show_line(typed)));
        return Err(failure.suggest(typed, names, "`cotter skills list` shows the skills"));
    };
    let text = skill.text().transpose().map_err(|cause| {
        CliError::new(format!("cannot show the skill `{}`", skill.name)).with_cause(cause)
    })?;
    let text = text.unwrap_or_default();
    if json {
        let mut row = row(&skill);
        row["text"] = text.into();
        return Ok(print_stdout(&format!("{row}\n")));
    }
    let style = Style::on_stdout(color);
    let mut shown = format!("{}\n", style.strong(&format!("/{}", skill.name)));
    let mut add_line = |key: &str, value: String| {
        if !value.is_empty() {
            shown += &format!("{}: {}\n", style.muted(key), text::show_line(&value));
        }
    };
    add_line("for", skill.description.clone());
    add_line("from", skill.owner.to_string());
    add_line(
        "file",
        skill.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
    );
    add_line(
        "called by",
        if skill.exposed { "its name, the model" } else { "its name" }.to_owned(),
    );
    let triggers: Vec<_> = skill.triggers.iter().map(describe_trigger).collect();
    add_line("triggers", triggers.join(", "));
    add_line("agents", skill.agents.join(", "));
    add_line("tags", skill.tags.join(", "));
    Ok(print_stdout(&format!("{shown}\n{}\n", text::show(&text))))
}

/// `cotter skills match TEXT`.
pub(crate) fn matching(task: &str, json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let agent = agent()?;
    let all = agent.match_skills(task);
    let style = Style::on_stdout(color);
    let line = |skill_match: &SkillMatch| {
        let name = &skill_match.skill.name;
        let why = why(skill_match, agent.id());
        if json {
            let matched: Vec<_> = skill_match.matched.iter().map(Trigger::pattern).collect();
            let row = json!({"name": name, "fires": skill_match.fires, "matched": matched, "reason": why});
            return format!("{row}\n");
        }
        let verdict =
            if skill_match.fires { style.good("triggered") } else { style.muted("not triggered") };
        format!("{}  {verdict}: {}\n", style.strong(&format!("/{name}")), text::show_line(&why))
    };
    if all.is_empty() && !json {
        return Ok(print_stdout("no skill has triggers\n"));
    }
    Ok(print_stdout(&all.iter().map(line).collect::<String>()))
}

fn why(skill_match: &SkillMatch, agent: &str) -> String {
    let matched: Vec<_> = skill_match.matched.iter().map(describe_trigger).collect();
    match (matched.is_empty(), skill_match.fits) {
        (true, _) => "none of its triggers matches".to_owned(),
        (false, true) => format!("{} matches", matched.join(", ")),
        (false, false) => {
            format!("{} matches, and it is not for the agent `{agent}`", matched.join(", "))
        }
    }
}

fn describe_trigger(trigger: &Trigger) -> String {
    let scope = if trigger.scope() == MatchScope::Words { ", whole words" } else { "" };
    format!("`{}` ({}{scope})", trigger.pattern(), trigger.kind().as_str())
}

fn row(skill: &SkillInfo) -> Value {
    let trigger = |one: &Trigger| json!({"pattern": one.pattern(), "type": one.kind().as_str(), "word": one.scope() == MatchScope::Words});
    let mut row = json!({
        "name": skill.name,
        "description": skill.description,
        "origin": skill.owner.origin.to_string(),
        "owner": skill.owner.unit,
        "exposed": skill.exposed,
        "triggers": skill.triggers.iter().map(trigger).collect::<Vec<_>>(),
        "agents": skill.agents,
        "tags": skill.tags,
        "path": skill.file,
    });
    if let Some(by) = &skill.shadowed_by {
        row["shadowedBy"] = json!({"origin": by.origin.to_string(), "owner": by.unit});
    }
    row
}
