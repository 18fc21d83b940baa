//! A guard: patterns over the input of tools. A guard rejects and never asks.

use globset::GlobSet;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use smol_str::SmolStr;

use crate::permission::{command_pattern::CommandPattern, facts::Facts, tool_glob::tool_globs};

/// A declared check of the input of tools.
///
/// Commands are compared after parsing. A `deny` pattern rejects a call if any command matches it. A list
/// of `allow` patterns rejects a call if any command matches none of them. Other fields of the input are
/// searched with regular expressions.
///
/// ```
/// use cotter::permission::guard::Guard;
///
/// let guard = Guard::new("looking", ["bash"]).unwrap().allow("ls *").unwrap().allow("git log *").unwrap();
/// assert_eq!(guard.to_string(), "policy looking");
/// assert!(Guard::new("none", [""]).is_err());
/// assert!(Guard::new("x", ["fetch"]).unwrap().deny_field("url", "[unterminated").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    name: SmolStr,
    globs: Vec<String>,
    tools: GlobSet,
    allow: Vec<(String, CommandPattern)>,
    deny: Vec<(String, CommandPattern)>,
    fields: Vec<(String, Regex)>,
}

/// The memory limit of a compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;

impl Guard {
    /// Creates a guard over tools by name or glob, without any check. At least one name is required, and
    /// none may be empty.
    pub fn new<S: Into<String>>(
        name: impl Into<SmolStr>,
        tools: impl IntoIterator<Item = S>,
    ) -> Result<Self, String> {
        let globs: Vec<String> = tools.into_iter().map(Into::into).collect();
        if globs.is_empty() || globs.iter().any(String::is_empty) {
            return Err("expected at least one tool name or glob, none of them empty".into());
        }
        let tools = tool_globs(&globs).map_err(|cause| cause.to_string())?;
        let name = name.into();
        Ok(Guard { name, globs, tools, allow: vec![], deny: vec![], fields: vec![] })
    }

    /// Adds an allow pattern: only commands that match an allow pattern pass.
    pub fn allow(mut self, pattern: &str) -> Result<Self, String> {
        self.allow.push((pattern.into(), CommandPattern::parse(pattern)?));
        Ok(self)
    }

    /// Adds a deny pattern: no command that matches it passes.
    pub fn deny(mut self, pattern: &str) -> Result<Self, String> {
        self.deny.push((pattern.into(), CommandPattern::parse(pattern)?));
        Ok(self)
    }

    /// Rejects calls whose input has, in that field, text that matches the regular expression.
    pub fn deny_field(mut self, field: &str, pattern: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
        let regex = built.map_err(|cause| {
            // The last line is the error; the lines before it repeat the pattern.
            let cause = cause.to_string();
            let error = cause.lines().last().unwrap_or_default();
            format!("invalid regex: {}", error.strip_prefix("error: ").unwrap_or(error))
        })?;
        self.fields.push((field.into(), regex));
        Ok(self)
    }

    /// Returns the reason to reject a call; `None` if the call passes.
    pub(crate) fn rejects(&self, tool: &str, input: &Value, facts: &Facts) -> Option<String> {
        if !self.tools.is_match(tool) {
            return None;
        }
        if let Some((text, _)) = self.deny.iter().find(|(_, pattern)| pattern.hits(&facts.commands))
        {
            return Some(format!("`{text}` is denied"));
        }
        let is_listed = |index: usize| {
            self.allow.iter().any(|(_, pattern)| pattern.covers(&facts.commands, index))
        };
        let unlisted = (0..facts.commands.len()).find(|index| !is_listed(*index));
        if !self.allow.is_empty() {
            if let Some(index) = unlisted {
                return Some(format!("`{}` is not on its allowlist", facts.commands[index]));
            }
            if !facts.doubts.is_empty() {
                return Some(
                    "part of the call is not understood, and only listed commands pass".into(),
                );
            }
        }
        self.fields
            .iter()
            .find(|(field, regex)| matches_anywhere(regex, &input[field]))
            .map(|(field, regex)| format!("`{field}` matches `{}`", regex.as_str()))
    }

    /// True if `other` rejects everything that this guard rejects. Only the texts of the patterns are
    /// compared.
    pub(crate) fn is_implied_by(&self, other: &Guard) -> bool {
        let deny = |guard: &Guard| -> Vec<String> {
            let fields = guard.fields.iter().map(|(field, regex)| format!("{field}={regex}"));
            guard.deny.iter().map(|(text, _)| text.clone()).chain(fields).collect()
        };
        let allow =
            |guard: &Guard| -> Vec<String> { guard.allow.iter().map(|(t, _)| t.clone()).collect() };
        let theirs = deny(other);
        self.globs.iter().all(|glob| other.globs.contains(glob))
            && deny(self).iter().all(|text| theirs.contains(text))
            && (self.allow.is_empty()
                || !other.allow.is_empty() && allow(other).iter().all(|t| allow(self).contains(t)))
    }
}

/// True if any text or number in a value matches, at any depth.
fn matches_anywhere(regex: &Regex, value: &Value) -> bool {
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        match value {
            Value::String(text) if regex.is_match(text) => return true,
            Value::Number(number) if regex.is_match(&number.to_string()) => return true,
            Value::Array(items) => stack.extend(items),
            Value::Object(fields) => stack.extend(fields.values()),
            _ => {}
        }
    }
    false
}

impl std::fmt::Display for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "policy {}", self.name)
    }
}
