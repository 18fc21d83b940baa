//! Matchers: the values that an entry is limited to.

use regex::{Regex, RegexBuilder};

/// The maximum length of a pattern.
const MAX_CHARS: usize = 2000;

/// The values that a matcher lets through.
#[derive(Clone, Debug)]
pub(crate) enum Matcher {
    /// Every value.
    All,
    /// One of these names, exactly.
    Names(Vec<String>),
    /// Any value in which the pattern matches somewhere.
    Pattern(Box<Regex>),
}

impl Matcher {
    /// Parses a matcher. An empty text and `*` match everything. Plain names, separated by `|` or `,`, match
    /// exactly. Any other text is a pattern, which may match only a part of a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() || text == "*" {
            return Ok(Matcher::All);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_- ,|".contains(c);
        if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            let names: Vec<_> = names.map(str::to_owned).collect();
            return match names.is_empty() {
                true => Err("it contains no name".into()),
                false => Ok(Matcher::Names(names)),
            };
        }
        if text.chars().count() > MAX_CHARS {
            return Err(format!("it has more than {MAX_CHARS} characters"));
        }
        let pattern = RegexBuilder::new(text).size_limit(1 << 18).build();
        let last_line = |cause: regex::Error| {
            let message = cause.to_string();
            let last = message.lines().last().unwrap_or_default();
            last.trim().trim_start_matches("error: ").to_owned()
        };
        Ok(Matcher::Pattern(Box::new(pattern.map_err(last_line)?)))
    }

    /// The text of the matcher, as a file may have it.
    pub(crate) fn text(&self) -> String {
        match self {
            Matcher::All => "*".into(),
            Matcher::Names(names) => names.join("|"),
            Matcher::Pattern(pattern) => pattern.as_str().into(),
        }
    }

    pub(crate) fn matches(&self, value: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|name| name == value),
            Matcher::Pattern(pattern) => pattern.is_match(value),
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Matcher::All, Matcher::All) => true,
            (Matcher::Names(a), Matcher::Names(b)) => a == b,
            (Matcher::Pattern(a), Matcher::Pattern(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

impl Eq for Matcher {}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let names = ["Bash", "BashOutput", "Edit", "NotebookEdit", "Write", "mcp__memory__add"];
        let said = match Matcher::parse(text) {
            Err(why) => format!("error: {why}"),
            Ok(matcher) => {
                let hit = names.into_iter().filter(|name| matcher.matches(name));
                hit.collect::<Vec<_>>().join(" ")
            }
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn b3_matchers_are_names_or_patterns() {
        check("", expect!["Bash BashOutput Edit NotebookEdit Write mcp__memory__add"]);
        check("*", expect!["Bash BashOutput Edit NotebookEdit Write mcp__memory__add"]);
        check("Bash", expect!["Bash"]);
        check("bash", expect![""]);
        check("Edit|Write", expect!["Edit Write"]);
        check("Edit, Write", expect!["Edit Write"]);
        check(" Bash ", expect!["Bash"]);
        check("Edit.*", expect!["Edit NotebookEdit"]);
        check("^Edit$", expect!["Edit"]);
        check("mcp__memory", expect![""]);
        check("mcp__memory__.*", expect!["mcp__memory__add"]);
        check("mcp__.*__add", expect!["mcp__memory__add"]);
        check("Bash(git *)", expect![""]);
        check("|", expect!["error: it contains no name"]);
        check(
            "(?!Bash).*",
            expect!["error: look-around, including look-ahead and look-behind, is not supported"],
        );
        check("[", expect!["error: unclosed character class"]);
        check(&"(a*)".repeat(600), expect!["error: it has more than 2000 characters"]);
    }
}
