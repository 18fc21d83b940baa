//! A guard: patterns over what tools are given. It rejects, it never asks.

use globset::GlobSet;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use smol_str::SmolStr;

use crate::permission::{command_pattern::CommandPattern, facts::Facts, tool_glob::tool_globs};

/// A declared check of what tools are given.
///
/// Commands are compared as they were parsed: a `deny` pattern rejects a call with any command like it,
/// a list of `allow` patterns one with any command unlike all of them. Other fields of the input are
/// searched by regular expressions.
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

/// The most memory a pattern may take once it is compiled.
const PATTERN_BYTES: usize = 1 << 20;

impl Guard {
    /// A guard over tools by name or glob; so far it lets everything pass. At least one is needed, and
    /// none may be empty.
    pub fn new<S: Into<String>>(
        name: impl Into<SmolStr>,
        tools: impl IntoIterator<Item = S>,
    ) -> Result<Self, String> {
        let globs: Vec<String> = tools.into_iter().map(Into::into).collect();
        if globs.is_empty() || globs.iter().any(String::is_empty) {
            return Err("must be a non-empty pattern over tools' names".into());
        }
        let tools = tool_globs(&globs).map_err(|cause| cause.to_string())?;
        let name = name.into();
        Ok(Guard { name, globs, tools, allow: vec![], deny: vec![], fields: vec![] })
    }

    /// Only commands like this one, or like another that is allowed, pass.
    pub fn allow(mut self, pattern: &str) -> Result<Self, String> {
        self.allow.push((pattern.into(), CommandPattern::parse(pattern)?));
        Ok(self)
    }

    /// No command like this one passes.
    pub fn deny(mut self, pattern: &str) -> Result<Self, String> {
        self.deny.push((pattern.into(), CommandPattern::parse(pattern)?));
        Ok(self)
    }

    /// No call passes whose input has, in that field, text that the regular expression finds.
    pub fn deny_field(mut self, field: &str, pattern: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
        let regex = built.map_err(|cause| {
            // The last line says what is wrong; those before it repeat the pattern.
            let cause = cause.to_string();
            let what = cause.lines().last().unwrap_or_default();
            format!("invalid regex: {}", what.strip_prefix("error: ").unwrap_or(what))
        })?;
        self.fields.push((field.into(), regex));
        Ok(self)
    }

    /// Why a call does not pass; `None` where it does.
    pub(crate) fn rejects(&self, tool: &str, input: &Value, facts: &Facts) -> Option<String> {
        if !self.tools.is_match(tool) {
            return None;
        }
        if let Some((text, _)) = self.deny.iter().find(|(_, pattern)| pattern.hits(&facts.commands))
        {
            return Some(format!("`{text}` is denied"));
        }
        let listed = |index: usize| {
            self.allow.iter().any(|(_, pattern)| pattern.covers(&facts.commands, index))
        };
        let unlisted = (0..facts.commands.len()).find(|index| !listed(*index));
        if !self.allow.is_empty() {
            if let Some(index) = unlisted {
                return Some(format!("`{}` is not on its allowlist", facts.commands[index]));
            }
            if !facts.doubts.is_empty() {
                return Some("not all of it is understood, and only what is listed passes".into());
            }
        }
        self.fields
            .iter()
            .find(|(field, regex)| finds(regex, &input[field]))
            .map(|(field, regex)| format!("`{field}` has what `{}` finds", regex.as_str()))
    }

    /// Whether everything this guard rejects, `other` rejects too, as far as their words tell.
    pub(crate) fn is_kept_by(&self, other: &Guard) -> bool {
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

/// Whether a value has text that is found, at any depth.
fn finds(regex: &Regex, value: &Value) -> bool {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) if regex.is_match(text) => return true,
            Value::Number(number) if regex.is_match(&number.to_string()) => return true,
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.values()),
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
