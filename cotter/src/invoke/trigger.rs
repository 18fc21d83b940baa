//! Triggers: patterns that activate a skill if they match a person's task. The triggers of all skills are
//! compiled into one set on first use.

use std::{fmt, sync::Arc};

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::invoke::skill::Skill;

/// The greatest size of a pattern, in bytes.
const PATTERN_BYTES: usize = 4 * 1024;
/// The greatest memory of one compiled pattern, and of all compiled patterns together.
const ONE_COMPILED: usize = 1024 * 1024;
const ALL_COMPILED: usize = 32 * 1024 * 1024;

/// One trigger of a skill. Any match activates the skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pattern: String,
    kind: TriggerKind,
    scope: MatchScope,
    /// The regular expression; `None` for a plain ASCII keyword, which is searched directly.
    regex: Option<String>,
}

/// The syntax of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TriggerKind {
    /// The pattern is searched as it is written.
    #[default]
    Keyword,
    /// The pattern is a regular expression, without look-around and back references.
    Regex,
}

impl TriggerKind {
    /// The kind's word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            TriggerKind::Keyword => "keyword",
            TriggerKind::Regex => "regex",
        }
    }
}

/// The parts of a text that a pattern may match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchScope {
    /// Any part of the text, even within a word.
    #[default]
    Anywhere,
    /// Whole words only.
    Words,
}

impl Trigger {
    /// Builds a keyword trigger. Case does not count, unless the keyword begins with `(?-i)`.
    pub fn keyword(pattern: &str) -> Result<Self, TriggerError> {
        Trigger::new(pattern, TriggerKind::Keyword, MatchScope::Anywhere)
    }

    /// Builds a regular expression trigger. Case does not count, unless the pattern says `(?-i)`.
    pub fn regex(pattern: &str) -> Result<Self, TriggerError> {
        Trigger::new(pattern, TriggerKind::Regex, MatchScope::Anywhere)
    }

    /// Builds a trigger of any kind and scope.
    pub fn new(pattern: &str, kind: TriggerKind, scope: MatchScope) -> Result<Self, TriggerError> {
        let error = |why: String| TriggerError { pattern: pattern.to_owned(), why };
        if pattern.trim().is_empty() {
            return Err(error("it is empty, and would match everything".into()));
        }
        if pattern.len() > PATTERN_BYTES {
            return Err(error(format!("it has more than {PATTERN_BYTES} bytes")));
        }
        let regex = match kind {
            TriggerKind::Keyword => match pattern.strip_prefix("(?-i)") {
                Some("") => return Err(error("it is empty, and would match everything".into())),
                Some(exact) => Some(format!("(?-i){}", regex::escape(exact))),
                None if pattern.is_ascii() && scope == MatchScope::Anywhere => None,
                None => Some(regex::escape(pattern)),
            },
            TriggerKind::Regex => {
                // Compiled alone first: below, a pattern such as `a)|(b` would close the group around it.
                compile(pattern).map_err(|why| error(error_message(&why)))?;
                Some(pattern.to_owned())
            }
        };
        let regex = regex.map(|regex| match scope {
            MatchScope::Anywhere => regex,
            MatchScope::Words => format!(r"\b{{start-half}}(?:{regex})\b{{end-half}}"),
        });
        if let Some(regex) = &regex {
            let compiled = compile(regex).map_err(|why| error(error_message(&why)))?;
            if compiled.is_match("") && kind == TriggerKind::Regex {
                return Err(error("it matches the empty text, and so everything".into()));
            }
        }
        Ok(Trigger { pattern: pattern.to_owned(), kind, scope, regex })
    }

    /// The pattern as it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The syntax of the pattern.
    pub fn kind(&self) -> TriggerKind {
        self.kind
    }

    /// The parts of a text that the pattern may match.
    pub fn scope(&self) -> MatchScope {
        self.scope
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(ONE_COMPILED)
        .dfa_size_limit(ONE_COMPILED)
        .nest_limit(64)
        .build()
}

/// The message of a regex error: its last line. The lines before it draw the position.
fn error_message(error: &regex::Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The error of an invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerError {
    pattern: String,
    why: String,
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = crate::text::show_line(&self.pattern);
        let pattern = crate::text::cut_chars(&pattern, 120);
        write!(f, "the pattern `{pattern}` cannot be a trigger: {}", self.why)
    }
}

impl std::error::Error for TriggerError {}

/// The triggers of several skills, as one set.
pub(crate) struct TriggerSet {
    skills: Vec<Arc<Skill>>,
    compiled: std::sync::OnceLock<CompiledTriggers>,
}

struct CompiledTriggers {
    /// The automaton of all plain keywords, and the trigger index of each.
    keywords: Option<(AhoCorasick, Vec<usize>)>,
    patterns: RegexPatterns,
    /// The trigger index of each pattern.
    pattern_of: Vec<usize>,
    /// The number of triggers.
    count: usize,
}

enum RegexPatterns {
    Set(RegexSet),
    /// One expression per pattern, if they are too large for one set.
    Each(Vec<Regex>),
}

impl TriggerSet {
    /// The set of the skills that have triggers.
    pub(crate) fn new<'a>(skills: impl Iterator<Item = &'a Arc<Skill>>) -> Self {
        let skills = skills.filter(|skill| !skill.triggers.is_empty()).cloned().collect();
        TriggerSet { skills, compiled: std::sync::OnceLock::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// True if both sets have the same skills.
    pub(crate) fn is_same(&self, other: &TriggerSet) -> bool {
        let pointers = |set: &TriggerSet| set.skills.iter().map(Arc::as_ptr).collect::<Vec<_>>();
        pointers(self) == pointers(other)
    }

    /// The skills that a task activates, each with its matching triggers, in order.
    pub(crate) fn matching(&self, task: &str) -> Vec<(&Arc<Skill>, Vec<&Trigger>)> {
        if self.is_empty() || task.trim().is_empty() {
            return vec![];
        }
        let compiled = self.compiled.get_or_init(|| CompiledTriggers::new(&self.skills));
        let hits = compiled.find_matches(task);
        let mut hits = hits.into_iter();
        let matching = self.skills.iter().filter_map(|skill| {
            let matched = skill.triggers.iter().zip(hits.by_ref().take(skill.triggers.len()));
            let matched: Vec<_> =
                matched.filter(|(_, hit)| *hit).map(|(trigger, _)| trigger).collect();
            (!matched.is_empty()).then_some((skill, matched))
        });
        matching.collect()
    }
}

impl CompiledTriggers {
    fn new(skills: &[Arc<Skill>]) -> Self {
        let (mut keywords, mut keyword_of) = (vec![], vec![]);
        let (mut patterns, mut pattern_of) = (vec![], vec![]);
        let all = skills.iter().flat_map(|skill| &skill.triggers);
        let count = all.clone().count();
        for (index, trigger) in all.enumerate() {
            match &trigger.regex {
                None => {
                    keywords.push(trigger.pattern.as_str());
                    keyword_of.push(index);
                }
                Some(regex) => {
                    patterns.push(regex.as_str());
                    pattern_of.push(index);
                }
            }
        }
        let build = |keywords: &[&str]| {
            AhoCorasick::builder().ascii_case_insensitive(true).build(keywords).ok()
        };
        let keywords = (!keywords.is_empty()).then(|| build(&keywords)).flatten();
        let set = RegexSetBuilder::new(&patterns)
            .case_insensitive(true)
            .size_limit(ALL_COMPILED)
            .dfa_size_limit(ALL_COMPILED)
            .build();
        let patterns = match set {
            Ok(set) => RegexPatterns::Set(set),
            // Each pattern was compiled when its trigger was built.
            Err(_) => RegexPatterns::Each(
                patterns.iter().filter_map(|regex| compile(regex).ok()).collect(),
            ),
        };
        CompiledTriggers {
            keywords: keywords.map(|automaton| (automaton, keyword_of)),
            patterns,
            pattern_of,
            count,
        }
    }

    /// For each trigger, true if it matches.
    fn find_matches(&self, task: &str) -> Vec<bool> {
        let mut hits = vec![false; self.count];
        if let Some((automaton, keyword_of)) = &self.keywords {
            for found in automaton.find_overlapping_iter(task) {
                hits[keyword_of[found.pattern().as_usize()]] = true;
            }
        }
        match &self.patterns {
            RegexPatterns::Set(set) => {
                set.matches(task).iter().for_each(|at| hits[self.pattern_of[at]] = true);
            }
            RegexPatterns::Each(each) => {
                let matching = each.iter().enumerate().filter(|(_, regex)| regex.is_match(task));
                matching.for_each(|(at, _)| hits[self.pattern_of[at]] = true);
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(written: &str) -> Result<Trigger, TriggerError> {
        let (kind, pattern) = written.split_once(' ').expect("a kind and a pattern");
        match kind {
            "keyword" => Trigger::keyword(pattern),
            "regex" => Trigger::regex(pattern),
            "keyword+word" => Trigger::new(pattern, TriggerKind::Keyword, MatchScope::Words),
            _ => Trigger::new(pattern, TriggerKind::Regex, MatchScope::Words),
        }
    }

    #[test]
    fn c9_triggers_match_words_of_a_task() {
        let check = |written: &str, task: &str, expected: bool| {
            let skill = Skill::text("x", "").triggers([trigger(written).unwrap()]);
            let set = TriggerSet::new([Arc::new(skill)].iter());
            assert_eq!(!set.matching(task).is_empty(), expected, "{written} on {task:?}");
        };
        check("regex deploy|container|docker", "Deploy it with Docker", true);
        check("regex kubernetes|k8s", "use K8S", true);
        check(r"regex fix\s+(bug|issue)", "fix the typo", false);
        check(r"regex \bgo\b", "let's go", true);
        check("regex (?-i)Go", "let's go", false);
        check("regex (?-i)Go", "learn Go", true);
        check("regex a(?-i)B", "AB", true);
        check("regex a(?-i)B", "Ab", false);
        check("keyword Docker", "ship it with DOCKER compose", true);
        check("keyword a.c", "abc", false);
        check("keyword C++", "learn c++", true);
        check("keyword go", "going", true);
        check("keyword+word go", "going", false);
        check("keyword+word go", "let's GO!", true);
        check("keyword+word c++", "learn C++ now", true);
        check("keyword+word c++", "c+++", true);
        check("regex+word test|spec", "the tests", false);
        check("regex+word test|spec", "a spec, then", true);
        check("keyword (?-i)Go", "go", false);
        check("keyword (?-i)Go", "Go", true);
        check("keyword größe", "GRÖSSE und Größe", true);
        check("keyword ÄRGER", "ärger", true);
        check("keyword x", "", false);
        check("keyword x", " \n ", false);
        check("regex ^fix", "please\nfix", false);
    }

    #[test]
    fn c9_invalid_trigger_pattern_is_an_error_with_the_pattern() {
        let check = |written: &str, expected: &str| {
            assert_eq!(trigger(written).unwrap_err().to_string(), expected);
        };
        check("regex (", "the pattern `(` cannot be a trigger: unclosed group");
        check("regex a)|(b", "the pattern `a)|(b` cannot be a trigger: unopened group");
        check(
            "regex+word (?x) a # b",
            "the pattern `(?x) a # b` cannot be a trigger: unclosed group",
        );
        check(
            "regex (a{1000}){1000}",
            "the pattern `(a{1000}){1000}` cannot be a trigger: Compiled regex exceeds size limit \
             of 1048576 bytes.",
        );
        check(
            "regex x*",
            "the pattern `x*` cannot be a trigger: it matches the empty text, and so everything",
        );
        check(
            "keyword  ",
            "the pattern ` ` cannot be a trigger: it is empty, and would match everything",
        );
        check(
            r"regex (?=x)",
            "the pattern `(?=x)` cannot be a trigger: look-around, including look-ahead and \
             look-behind, is not supported",
        );
        let nested = format!("regex {}x{}", "(".repeat(500), ")".repeat(500));
        let error = trigger(&nested).unwrap_err().to_string();
        assert!(
            error.ends_with("exceed the maximum number of nested parentheses/brackets (64)"),
            "{error}"
        );
        assert!(trigger(&format!("keyword {}", "x".repeat(5000))).is_err());
    }

    #[test]
    fn c9_trigger_set_returns_the_matching_skills() {
        let skill = |name: &str, triggers: &[&str]| {
            let triggers = triggers.iter().map(|text| trigger(text).unwrap());
            Arc::new(Skill::text(name, "").triggers(triggers))
        };
        let skills = [
            skill("a", &["keyword foo", "regex o{2}", "keyword bar"]),
            skill("b", &[]),
            skill("c", &["keyword oo", "regex z"]),
        ];
        let set = TriggerSet::new(skills.iter());
        let matching = set.matching("FOO");
        let shown: Vec<_> = matching
            .iter()
            .map(|(skill, triggers)| {
                let patterns = triggers.iter().map(|trigger| trigger.pattern());
                format!("{}: {}", skill.name, patterns.collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(shown, ["a: foo o{2}", "c: oo"]);
    }
}
