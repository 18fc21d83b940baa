//! File name patterns, matched as bash does.

use std::path::{Path, PathBuf};

/// The longest pattern that is matched: no path is longer.
const MAX_PATTERN: usize = 4096;

/// The work that is left for all patterns of a command line.
pub(crate) struct GlobBudget {
    /// Entries of folders that may be looked at.
    entries: usize,
    /// Characters that may be compared.
    comparisons: usize,
}

impl Default for GlobBudget {
    fn default() -> Self {
        GlobBudget { entries: 6000, comparisons: 2_000_000 }
    }
}

impl GlobBudget {
    /// Takes the work of comparing one name. `None`: there is none left.
    fn take(&mut self, pattern: &NamePattern, name: &str) -> Option<()> {
        self.entries = self.entries.checked_sub(1)?;
        self.comparisons = self.comparisons.checked_sub(pattern.0.len() * name.len())?;
        Some(())
    }
}

/// The paths that match a pattern in a folder, as bash writes them. `None`: there are too many to look at, or
/// one has a name that is not text.
pub(crate) fn matches(
    pattern: &str,
    folder: &Path,
    budget: &mut GlobBudget,
) -> Option<Vec<String>> {
    if pattern.len() > MAX_PATTERN {
        return None;
    }
    let (root, pattern) = match pattern.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", pattern),
    };
    let mut found = vec![root.to_owned()];
    let parts: Vec<_> = pattern.split('/').collect();
    for (index, part) in parts.iter().enumerate() {
        let mut next = vec![];
        let is_plain = part.is_empty() || !part.contains(['*', '?', '[']);
        let compiled = NamePattern::new(part);
        for path in &found {
            match is_plain {
                true => next.push(format!("{path}{}", part.replace('\\', ""))),
                false => matching(&compiled, path, folder, budget, &mut next)?,
            }
        }
        if index + 1 < parts.len() {
            next.iter_mut().for_each(|path| path.push('/'));
        }
        found = next;
    }
    // Some versions of bash include `..`.
    found.retain(|path| {
        path.contains("..") || PathBuf::from(folder).join(path).symlink_metadata().is_ok()
    });
    Some(found)
}

fn matching(
    pattern: &NamePattern,
    path: &str,
    folder: &Path,
    budget: &mut GlobBudget,
    next: &mut Vec<String>,
) -> Option<()> {
    let Ok(entries) = std::fs::read_dir(folder.join(path)) else { return Some(()) };
    let names = entries.flatten().map(|entry| entry.file_name());
    for name in names.chain([".".into(), "..".into()]) {
        let shown = name.to_string_lossy();
        budget.take(pattern, &shown)?;
        let hidden = shown.starts_with('.') && !pattern.may_match_hidden();
        if !hidden && pattern.fits(&shown) {
            next.push(format!("{path}{}", name.to_str()?));
        }
    }
    Some(())
}

/// A pattern for names, in parts.
pub(crate) struct NamePattern(Vec<PatternPart>);

enum PatternPart {
    /// `*`
    Any,
    /// `?`, and bracket expressions that depend on the locale: matching more means checking more.
    One,
    Literal(char),
    /// `[…]`
    Set {
        members: Vec<char>,
        negated: bool,
    },
}

impl NamePattern {
    /// Reads a pattern of `*`, `?`, `[…]` and escapes.
    pub(crate) fn new(pattern: &str) -> Self {
        let pattern: Vec<char> = pattern.chars().collect();
        let mut parts = vec![];
        let mut rest = pattern.as_slice();
        // Without a `]` behind it, no `[` opens a bracket expression.
        let last_close = pattern.iter().rposition(|c| *c == ']').map_or(0, |at| at + 1);
        while let Some((first, after)) = rest.split_first() {
            let at = pattern.len() - rest.len();
            let (part, next) = match (first, after) {
                ('*', _) => (PatternPart::Any, after),
                ('?', _) => (PatternPart::One, after),
                ('\\', [escaped, after @ ..]) => (PatternPart::Literal(*escaped), after),
                ('[', _) if at < last_close => match bracket(after) {
                    Some((part, width)) => (part, &after[width..]),
                    None => (PatternPart::Literal('['), after),
                },
                (plain, _) => (PatternPart::Literal(*plain), after),
            };
            parts.push(part);
            rest = next;
        }
        NamePattern(parts)
    }

    /// True if a name that begins with a dot may match: only a literal dot does.
    fn may_match_hidden(&self) -> bool {
        matches!(self.0.first(), Some(PatternPart::Literal('.')))
    }

    /// True if a name matches. Backtracks to the last `*` only.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut in_name, mut star) = (0, 0, None);
        loop {
            match (self.0.get(at), name.get(in_name)) {
                (Some(PatternPart::Any), _) => {
                    at += 1;
                    star = Some((at, in_name));
                }
                (Some(part), Some(c)) if part.fits(*c) => {
                    at += 1;
                    in_name += 1;
                }
                (None, None) => return true,
                _ => {
                    let Some((after, from)) = star.filter(|(_, from)| *from < name.len()) else {
                        return false;
                    };
                    star = Some((after, from + 1));
                    (at, in_name) = (after, from + 1);
                }
            }
        }
    }
}

impl PatternPart {
    fn fits(&self, c: char) -> bool {
        match self {
            PatternPart::Any | PatternPart::One => true,
            PatternPart::Literal(literal) => *literal == c,
            PatternPart::Set { members, negated } => members.contains(&c) != *negated,
        }
    }
}

/// Reads a bracket expression, by what stands behind its `[`. Returns its width there; `None`: it is not closed.
fn bracket(rest: &[char]) -> Option<(PatternPart, usize)> {
    let negated = matches!(rest.first(), Some('!' | '^'));
    let begin = usize::from(negated);
    let mut at = begin;
    // The first character is a member, whatever it is.
    while at == begin || rest.get(at) != Some(&']') {
        at += match rest.get(at..)? {
            [] => return None,
            ['\\', _, ..] => 2,
            ['[', kind @ (':' | '=' | '.'), class @ ..] => {
                let end = class.windows(2).take(64).position(|pair| pair == [*kind, ']']);
                end.map_or(1, |end| end + 4)
            }
            _ => 1,
        };
    }
    let members = rest[begin..at].to_vec();
    // Escapes and ranges. Behind a class, the expression may go on.
    let part = if members.contains(&'[') {
        PatternPart::Any
    } else if members.iter().any(|member| matches!(member, '\\' | '-')) {
        PatternPart::One
    } else {
        PatternPart::Set { members, negated }
    };
    Some((part, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_patterns_match_names() {
        let check = |pattern: &str, name: &str, fit: bool| {
            assert_eq!(NamePattern::new(pattern).fits(name), fit, "{pattern} {name}")
        };
        check("*.rs", "a.rs", true);
        check("*.rs", "a.rsx", false);
        check("a*b*c", "aXbYbZc", true);
        check("?x", "ax", true);
        check("[abc]1", "b1", true);
        check("[!abc]1", "b1", false);
        // A range may hold more in another locale.
        check("[!a-c]1", "b1", true);
        check("\\*", "*", true);
        check("\\*", "x", false);
        check("**", "anything", true);
        check("[", "[", true);
        check("[a", "[a", true);
        check(".[[:lower:]]nv", ".env", true);
        check(".[[=e=]]nv", ".env", true);
        check(".[[.e.]]nv", ".env", true);
        check(".[\\]e]nv", ".env", true);
        check(".[\\!e]nv", ".env", true);
        check(".[[=n=]][a-m-z]nv", ".env", true);
        check("[]a]x", "]x", true);
        check("[a]x", "bx", false);
        check("*a*a*a*a*b", &"a".repeat(60), false);
        check("", "", true);
    }

    #[test]
    fn patterns_have_a_budget() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100 {
            std::fs::write(folder.path().join(format!("{number:0>200}")), "").unwrap();
        }
        let look = |pattern: &str| {
            let mut budget = GlobBudget { entries: 120, comparisons: 100_000 };
            matches(pattern, folder.path(), &mut budget).map(|found| found.len())
        };
        assert_eq!(look("*1"), Some(10));
        assert_eq!(look(&format!("*[{}", "0".repeat(60_000))), None);
        assert_eq!(look(&format!("*{}", "[01]".repeat(100))), None);
    }
}
