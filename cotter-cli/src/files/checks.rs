//! Rules and hooks that can never hold, and rules that do not hold what they are said to: a typo is no
//! protection.

use std::path::Path;

use cotter::{
    Agent,
    permission::{Rule, RuleKind},
    settings::{Permissions, RuleExample, SettingsError},
    text,
};

/// Tools that are there only with something else: with skills, with subagents, with a home folder.
pub(crate) const SOMETIMES: [&str; 5] =
    ["invoke_skill", "invoke_subagent", "remember", "recall", "forget"];

/// The rules that can never match: a deny with a typo is no protection.
pub(crate) fn about_unknown_tools(permissions: &Permissions, agent: &Agent) -> Vec<SettingsError> {
    let Permissions { allow, ask, deny, .. } = permissions;
    let kinds = [(RuleKind::Allow, allow), (RuleKind::Ask, ask), (RuleKind::Deny, deny)];
    let tools = agent.tools();
    let mut known: Vec<&str> = tools.specs().map(|spec| spec.name.as_str()).collect();
    known.extend(SOMETIMES);
    let mut told = vec![];
    for (kind, written) in kinds.into_iter().flat_map(|(k, all)| all.iter().map(move |w| (k, w))) {
        let Ok(rule) = Rule::parse(kind, &written.text) else { continue };
        let tool = rule.tool();
        let may_be = tool.contains(['*', '?', '[', '{']) || tool.starts_with("mcp__");
        if may_be || known.contains(&tool) {
            continue;
        }
        let others = text::nearest(tool, Rule::other_names());
        let near = text::nearest(tool, known.iter().copied()).or(others);
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let rule = format!("{} {}", kind.as_str(), written.text);
        let words = format!("there is no tool `{tool}`, so the rule `{rule}` never holds{near}");
        told.push(written.place.error(words));
    }
    told
}

/// What is to be said of a hook for tools which are not there: a gate with a typo is no protection.
pub(crate) fn about_blind(path: &Path, name: &str, tools: &[String], agent: &Agent) -> Vec<String> {
    let all = agent.tools();
    let mut known: Vec<&str> = all.specs().map(|spec| spec.name.as_str()).collect();
    known.extend(SOMETIMES);
    let mut told = vec![];
    for tool in tools {
        let may_be = tool.contains(['*', '?', '[', '{']) || tool.starts_with("mcp__");
        if may_be || known.contains(&tool.as_str()) {
            continue;
        }
        let near = text::nearest(tool, known.iter().copied());
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let shown = path.display();
        told.push(format!(
            "{shown}: hook `{name}` is for the tool `{tool}`, which is not there{near}"
        ));
    }
    told
}

/// Whether rules match what they are said to match.
pub(crate) fn check_examples(
    permissions: &Permissions,
    agent: &Agent,
) -> Result<(), SettingsError> {
    permissions.examples.iter().try_for_each(|one| check(one, agent))
}

/// Whether a rule matches what it is said to match, and nothing that it is said not to.
fn check(one: &RuleExample, agent: &Agent) -> Result<(), SettingsError> {
    let RuleExample { kind, rule: text, example, matches } = one;
    // A rule that is none is told by itself.
    let Ok(rule) = Rule::parse(*kind, text) else { return Ok(()) };
    let tool = rule.tool();
    let key = match tool {
        "bash" => "command",
        "fetch" => "url",
        _ => "path",
    };
    let input = serde_json::json!({ key: example.text });
    let facts = agent.facts(tool, &input);
    let facts = facts.ok_or_else(|| {
        example
            .place
            .error(format!("the rule `{text}` can have no examples: there is no tool `{tool}`"))
    })?;
    if rule.matches(tool, &facts, agent.place()) == *matches {
        return Ok(());
    }
    let does = if *matches { "does not match" } else { "matches" };
    Err(example.place.error(format!("the rule `{text}` {does} `{}`", example.text)))
}
