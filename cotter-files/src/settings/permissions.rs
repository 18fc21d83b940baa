//! The section `permissions`: mode, level, rules with their examples, and guards (`policies`).

use crate::{
    document::{Node, location::SettingsError},
    settings::{SourcedText, one_text, texts},
};
use cotter::permission::{
    guard::Guard,
    mode::{Level, Mode},
    rule::RuleKind,
};

pub(crate) const KEYS: &[&str] = &["mode", "level", "allow", "ask", "deny", "policies"];
const RULE_KEYS: &[&str] = &["rule", "match", "not_match"];
const POLICY_KEYS: &[&str] = &["name", "tools", "allow", "deny", "fields"];

/// The section `permissions`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Permissions {
    /// The mode: what happens to calls that rules and level do not decide.
    pub mode: Option<Mode>,
    /// The level: how much runs without a question.
    pub level: Option<Level>,
    /// Rules for calls that run without a question.
    pub allow: Vec<SourcedText>,
    /// Rules for calls that ask.
    pub ask: Vec<SourcedText>,
    /// Rules for calls that never run.
    pub deny: Vec<SourcedText>,
    /// Examples that rules must match or must not match.
    pub examples: Vec<RuleExample>,
    /// Guards, which reject inputs of tools.
    pub policies: Vec<Guard>,
}

/// An example that a rule must match or must not match. It is checked when the rule is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleExample {
    /// The kind of the rule.
    pub kind: RuleKind,
    /// The rule.
    pub rule: String,
    /// A command, a path or an address.
    pub example: SourcedText,
    /// True if the rule must match the example.
    pub matches: bool,
}

pub(crate) fn permissions(node: Node<'_>) -> Result<Permissions, SettingsError> {
    let object = node.object()?.keys(KEYS)?;
    let mut examples = vec![];
    let mut rules = |key, kind| match object.get(key) {
        None => Ok(vec![]),
        Some(list) => list.list()?.map(|node| rule(node, kind, &mut examples)).collect(),
    };
    let (allow, ask, deny) = (
        rules("allow", RuleKind::Allow)?,
        rules("ask", RuleKind::Ask)?,
        rules("deny", RuleKind::Deny)?,
    );
    let policies = match object.get("policies") {
        None => vec![],
        Some(list) => list.list()?.enumerate().map(policy).collect::<Result<_, _>>()?,
    };
    Ok(Permissions {
        mode: object.get("mode").map(|node| node.one_of(Mode::WORDS)).transpose()?,
        level: object.get("level").map(|node| node.one_of(Level::WORDS)).transpose()?,
        allow,
        ask,
        deny,
        examples,
        policies,
    })
}

/// Reads a rule: its text, or an object with the text and examples.
pub(crate) fn rule(
    node: Node<'_>,
    kind: RuleKind,
    examples: &mut Vec<RuleExample>,
) -> Result<SourcedText, SettingsError> {
    let Ok(object) = node.object() else { return one_text(node) };
    let object = object.keys(RULE_KEYS)?;
    let rule = one_text(object.require("rule")?)?;
    for (key, matches) in [("match", true), ("not_match", false)] {
        let listed = object.get(key).map(texts).transpose()?.unwrap_or_default();
        examples.extend(listed.into_iter().map(|example| RuleExample {
            kind,
            rule: rule.text.clone(),
            example,
            matches,
        }));
    }
    Ok(rule)
}

pub(crate) fn policy((index, node): (usize, Node<'_>)) -> Result<Guard, SettingsError> {
    let object = node.object()?.keys(POLICY_KEYS)?;
    let name = object.get("name").map(|node| node.non_empty_string().map(str::to_owned));
    let name = name.transpose()?.unwrap_or_else(|| (index + 1).to_string());
    let tools_node = object.require("tools")?;
    let tools = tools_node.list()?.map(|node| node.string().map(str::to_owned));
    let tools = tools.collect::<Result<Vec<_>, _>>()?;
    let mut guard = Guard::new(name, tools).map_err(|why| tools_node.error(why))?;
    for (key, add) in [("allow", Guard::allow as fn(Guard, &str) -> _), ("deny", Guard::deny)] {
        for SourcedText { text, location } in
            object.get(key).map(texts).transpose()?.unwrap_or_default()
        {
            guard = add(guard, &text).map_err(|why: String| location.error(why))?;
        }
    }
    let Some(fields) = object.get("fields") else { return Ok(guard) };
    for (field, patterns) in fields.object()?.members() {
        for SourcedText { text, location } in texts(patterns)? {
            guard = guard.deny_field(field, &text).map_err(|why| location.error(why))?;
        }
    }
    Ok(guard)
}
