//! One rule: `tool` or `tool(spec)`, where the tool is a glob and the spec says what the call touches.

use std::{fmt, path::Path};

use globset::{GlobBuilder, GlobMatcher};

use crate::{cx::Place, tool::Facts};

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuleKind {
    /// Runs unasked.
    Allow,
    /// A person is asked.
    Ask,
    /// Does not run.
    Deny,
}

impl RuleKind {
    /// The kind's word in settings files.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleKind::Allow => "allow",
            RuleKind::Ask => "ask",
            RuleKind::Deny => "deny",
        }
    }
}

/// A rule of the permission floor.
///
/// The spec is a pattern over what the call touches: paths as in an ignore file (`./` is the
/// project, `//` the root of the file system, no slash any depth), otherwise commands and hosts.
/// An allow rule holds only if everything the call touches matches; the others if anything does.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it says.
    pub kind: RuleKind,
    text: String,
    tool: GlobMatcher,
    spec: Option<Spec>,
}

#[derive(Clone, Debug)]
struct Spec {
    base: Base,
    /// The pattern itself, and everything below it.
    globs: [GlobMatcher; 2],
    /// The pattern over commands and hosts, where a slash is a character like another.
    flat: GlobMatcher,
}

#[derive(Clone, Copy, Debug)]
enum Base {
    Project,
    Root,
    Anywhere,
}

impl Rule {
    /// Reads a rule.
    pub fn parse(kind: RuleKind, text: &str) -> Result<Rule, RuleError> {
        let error = |message: String| RuleError { rule: text.into(), message };
        let (tool, spec) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some("") => return Err(error("the parentheses are empty".into())),
                Some(spec) => (tool, Some(spec)),
                None => return Err(error("`(` without `)` at the end".into())),
            },
        };
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            return Err(error("expected a tool's name, or a glob over names".into()));
        }
        let glob = |pattern: &str, path: bool| {
            GlobBuilder::new(pattern)
                .literal_separator(path)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|cause| error(cause.to_string()))
        };
        let spec = match spec {
            None => None,
            Some(spec) => {
                let (base, pattern) = if let Some(rest) = spec.strip_prefix("./") {
                    (Base::Project, rest.to_owned())
                } else if let Some(rest) = spec.strip_prefix("//") {
                    (Base::Root, rest.to_owned())
                } else if spec.starts_with("~/") {
                    return Err(error(
                        "`~/` is not understood here; write the whole path after `//`".into(),
                    ));
                } else if spec.contains('/') {
                    (Base::Project, spec.to_owned())
                } else {
                    (Base::Anywhere, format!("**/{spec}"))
                };
                let pattern = pattern.trim_end_matches('/');
                let globs = [glob(pattern, true)?, glob(&format!("{pattern}/**"), true)?];
                Some(Spec { base, globs, flat: glob(spec, false)? })
            }
        };
        Ok(Rule { kind, text: text.into(), tool: glob(tool, false)?, spec })
    }

    /// Whether the rule makes anything looser.
    pub fn loosens(&self) -> bool {
        self.kind == RuleKind::Allow
    }

    /// Whether the rule speaks about this call.
    pub fn matches(&self, tool: &str, facts: &Facts, place: &Place) -> bool {
        if !self.tool.is_match(tool) {
            return false;
        }
        let Some(spec) = &self.spec else { return true };
        let paths = facts.reads.iter().chain(&facts.writes).map(|path| spec.path(path, place));
        let commands = facts.commands.iter().map(ToString::to_string);
        let words =
            commands.chain(facts.hosts.iter().cloned()).map(|word| spec.flat.is_match(&word));
        let mut touched = paths.chain(words).peekable();
        match self.kind {
            // What is not known to be covered is not allowed.
            RuleKind::Allow => touched.peek().is_some() && touched.all(|covered| covered),
            RuleKind::Ask | RuleKind::Deny => touched.any(|hit| hit),
        }
    }
}

impl Spec {
    fn path(&self, path: &Path, place: &Place) -> bool {
        let relative = match self.base {
            Base::Project => path.strip_prefix(place.project()).ok(),
            Base::Root => path.strip_prefix("/").ok(),
            Base::Anywhere => Some(path),
        };
        relative.is_some_and(|path| self.globs.iter().any(|glob| glob.is_match(path)))
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.kind == other.kind && self.text == other.text
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.text)
    }
}

/// A rule that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule `{}`: {}", self.rule, self.message)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::permission::Zone;

    fn check(rule: &str, paths: &[&str]) -> (bool, bool) {
        let place = Place::new(Path::new("/srv/project"));
        let facts = Facts::reads(paths.iter().map(PathBuf::from));
        let matches = |kind| Rule::parse(kind, rule).unwrap().matches("read", &facts, &place);
        (matches(RuleKind::Allow), matches(RuleKind::Deny))
    }

    #[test]
    fn a_path_rule_follows_the_ignore_file_rules() {
        assert_eq!(check("read(./.env)", &["/srv/project/.env"]), (true, true));
        assert_eq!(check("read(./.env)", &["/srv/project/sub/.env"]), (false, false));
        assert_eq!(check("read(.env)", &["/srv/project/sub/.env"]), (true, true));
        assert_eq!(check("read(.env*)", &["/elsewhere/.env.local"]), (true, true));
        assert_eq!(check("read(src)", &["/srv/project/src/a/b.rs"]), (true, true));
        assert_eq!(check("read(//etc/passwd)", &["/etc/passwd"]), (true, true));
        assert_eq!(check("read(./*.rs)", &["/srv/project/src/lib.rs"]), (false, false));
        assert_eq!(check("read(./**/*.rs)", &["/srv/project/src/lib.rs"]), (true, true));
    }

    #[test]
    fn allow_needs_all_of_it_and_deny_any_of_it() {
        let both = ["/srv/project/a", "/srv/project/.env"];
        assert_eq!(check("read(./.env)", &both), (false, true));
        assert_eq!(check("read(./*)", &both), (true, true));
        assert_eq!(check("read(./*)", &[]), (false, false), "nothing known is not covered");
    }

    #[test]
    fn a_rule_over_commands_sees_each_of_them() {
        let place = Place::new(Path::new("/p"));
        let commands = ["git diff HEAD", "rm -rf x"].map(String::from).to_vec();
        let facts = Facts { commands, ..Facts::zone(Zone::Build) };
        let matches = |kind, text| Rule::parse(kind, text).unwrap().matches("bash", &facts, &place);
        assert!(!matches(RuleKind::Allow, "bash(git diff *)"));
        assert!(matches(RuleKind::Deny, "bash(rm *)"));
    }

    #[test]
    fn a_broken_rule_says_what_is_wrong() {
        let error = |text| Rule::parse(RuleKind::Deny, text).unwrap_err().to_string();
        assert_eq!(error("read(x"), "rule `read(x`: `(` without `)` at the end");
        assert_eq!(error("read()"), "rule `read()`: the parentheses are empty");
        assert_eq!(error(""), "rule ``: expected a tool's name, or a glob over names");
        assert!(error("read([)").starts_with("rule `read([)`: "), "{}", error("read([)"));
    }
}
