//! Checks for rules and hooks that can never match, and for rules that do not match their examples: a typo
//! protects nothing.

use std::path::Path;

use cotter::{
    Agent,
    permission::rule::{Rule, RuleKind},
    text,
};
use cotter_files::{
    document::location::SettingsError,
    profile::Profile,
    settings::permissions::{Permissions, RuleExample},
};

/// Tools that exist only with something else: skills, subagents, or a home folder.
pub(crate) const OPTIONAL_TOOLS: [&str; 5] =
    ["invoke_skill", "invoke_subagent", "remember", "recall", "forget"];

/// Tools of Claude Code whose names resemble names of other tools.
const CLAUDE_ONLY_TOOLS: [&str; 3] = ["WebSearch", "NotebookRead", "TodoWrite"];

/// True if the tool exists, or may exist later.
pub(crate) fn may_exist(tool: &str, known: &[&str]) -> bool {
    let may_be = tool.contains(['*', '?', '[', '{']) || tool.starts_with("mcp__");
    may_be || known.contains(&tool)
}

/// A tool name that matches no tool.
pub(crate) struct UnknownTool<'a> {
    /// The tool that was probably meant, in the spelling of the program that the name comes from.
    suggestion: Option<&'a str>,
    /// True if another program may have the tool, so that the name is no typo.
    pub(crate) may_be_foreign: bool,
}

impl<'a> UnknownTool<'a> {
    pub(crate) fn of(tool: &str, known: &[&'a str]) -> Self {
        let ours = text::nearest(tool, known.iter().copied());
        let theirs = text::nearest(tool, Rule::other_names());
        let is_upper = tool.starts_with(char::is_uppercase);
        let suggestion = match is_upper {
            _ if CLAUDE_ONLY_TOOLS.contains(&tool) => None,
            true => theirs.or(ours),
            false => ours.or(theirs),
        };
        UnknownTool { suggestion, may_be_foreign: is_upper && suggestion.is_none() }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        self.suggestion.map(|tool| format!("did you mean `{tool}`?"))
    }
}

/// Returns warnings about a profile's actions for tools that do not exist. For a gate this is an error,
/// because a gate with a typo guards nothing.
pub(crate) fn check_actions(
    profile: &Profile,
    known: &[&str],
) -> Result<Vec<SettingsError>, SettingsError> {
    let mut told = vec![];
    for action in &profile.actions {
        for tool in action.tools.iter().flatten().filter(|tool| !may_exist(tool, known)) {
            let unknown = UnknownTool::of(tool, known);
            let shown = text::cut_chars(&text::show_line(tool), 60).into_owned();
            let does = if action.is_gate() { "guards nothing" } else { "is never done" };
            let why = format!("there is no tool `{shown}`: for it `{}` {does}", action.name);
            let mut error = action.location.error(why);
            if let Some(hint) = unknown.hint() {
                error = error.with_hint(hint);
            }
            if action.is_gate() && !unknown.may_be_foreign {
                return Err(error);
            }
            told.push(error);
        }
    }
    Ok(told)
}

/// Returns warnings about rules that can never match: a deny rule with a typo protects nothing.
pub(crate) fn unmatched_rule_warnings(
    permissions: &Permissions,
    agent: &Agent,
) -> Vec<SettingsError> {
    let Permissions { allow, ask, deny, .. } = permissions;
    let kinds = [(RuleKind::Allow, allow), (RuleKind::Ask, ask), (RuleKind::Deny, deny)];
    let tools = agent.tools();
    let mut known: Vec<&str> = tools.specs().map(|spec| spec.name.as_str()).collect();
    known.extend(OPTIONAL_TOOLS);
    let mut told = vec![];
    for (kind, written) in kinds.into_iter().flat_map(|(k, all)| all.iter().map(move |w| (k, w))) {
        let Ok(rule) = Rule::parse(kind, &written.text) else { continue };
        let tool = rule.tool();
        if may_exist(tool, &known) {
            continue;
        }
        let others = || text::did_you_mean(tool, Rule::other_names());
        let hint = text::did_you_mean(tool, known.iter().copied()).or_else(others);
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let rule = format!("{} {}", kind.as_str(), written.text);
        let words = format!("there is no tool `{tool}`, so the rule `{rule}` never matches{hint}");
        told.push(written.location.error(words));
    }
    told
}

/// Returns warnings about a hook for tools that do not exist: a gate with a typo protects nothing.
pub(crate) fn unknown_tool_warnings(
    path: &Path,
    name: &str,
    tools: &[String],
    agent: &Agent,
) -> Vec<String> {
    let all = agent.tools();
    let mut known: Vec<&str> = all.specs().map(|spec| spec.name.as_str()).collect();
    known.extend(OPTIONAL_TOOLS);
    let mut told = vec![];
    for tool in tools {
        if may_exist(tool, &known) {
            continue;
        }
        let hint = text::did_you_mean(tool, known.iter().copied());
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let shown = path.display();
        told.push(format!(
            "{shown}: hook `{name}` is for the tool `{tool}`, which does not exist{hint}"
        ));
    }
    told
}

/// Checks all rules against their examples.
pub(crate) fn check_examples(
    permissions: &Permissions,
    agent: &Agent,
) -> Result<(), SettingsError> {
    permissions.examples.iter().try_for_each(|example| check(example, agent))
}

/// Checks one rule against one example, which it must match or must not match.
fn check(rule_example: &RuleExample, agent: &Agent) -> Result<(), SettingsError> {
    let RuleExample { kind, rule: text, example, matches } = rule_example;
    // An invalid rule is reported elsewhere.
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
            .location
            .error(format!("cannot check the examples of rule `{text}`: there is no tool `{tool}`"))
    })?;
    if rule.matches(tool, &facts, agent.workspace()) == *matches {
        return Ok(());
    }
    let does = if *matches { "does not match" } else { "matches" };
    Err(example.location.error(format!("the rule `{text}` {does} `{}`", example.text)))
}
