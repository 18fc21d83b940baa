//! File name patterns, matched as bash does.

use std::path::{Path, PathBuf};

/// The most entries that are checked for one pattern.
const MAX_ENTRIES: usize = 2000;

/// The paths that match a pattern in a folder, as bash writes them. `None`: too many.
pub(crate) fn matches(pattern: &str, folder: &Path) -> Option<Vec<String>> {
    let mut found = vec![String::new()];
    let mut left = MAX_ENTRIES;
    let (root, pattern) = match pattern.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", pattern),
    };
    found[0].push_str(root);
    let parts: Vec<_> = pattern.split('/').collect();
    for (index, part) in parts.iter().enumerate() {
        let mut next = vec![];
        for path in &found {
            if part.is_empty() || !part.contains(['*', '?', '[']) {
                let plain = part.replace('\\', "");
                next.push(format!("{path}{plain}"));
            } else {
                matching(part, path, folder, &mut left, &mut next)?;
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
    part: &str,
    path: &str,
    folder: &Path,
    left: &mut usize,
    next: &mut Vec<String>,
) -> Option<()> {
    let Ok(entries) = std::fs::read_dir(folder.join(path)) else { return Some(()) };
    let names = entries.flatten().map(|entry| entry.file_name());
    for name in names.chain([".".into(), "..".into()]) {
        *left = left.checked_sub(1)?;
        let Some(name) = name.to_str() else { continue };
        // Only a literal dot matches a leading dot.
        let hidden = name.starts_with('.') && !part.starts_with('.');
        if !hidden && fits(part, name) {
            next.push(format!("{path}{name}"));
        }
    }
    Some(())
}

/// True if a name matches a pattern of `*`, `?`, `[…]` and escapes. Backtracks to the last `*`
/// only.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name, mut star) = (0, 0, None);
    loop {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, in_name));
            at += 1;
            continue;
        }
        match (match_one(&pattern[at..], name.get(in_name)), name.get(in_name)) {
            (Some(width), Some(_)) => {
                at += width;
                in_name += 1;
            }
            (_, None) if at == pattern.len() => return true,
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

/// The width of the first part of a pattern, if it matches the character.
fn match_one(pattern: &[char], c: Option<&char>) -> Option<usize> {
    let c = c?;
    match pattern {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (escaped == c).then_some(2),
        ['[', rest @ ..] => {
            let negated = matches!(rest.first(), Some('!' | '^'));
            let rest = &rest[usize::from(negated)..];
            let Some(close) = rest.iter().skip(1).position(|c| *c == ']').map(|at| at + 1) else {
                return (*c == '[').then_some(1);
            };
            // A class such as `[:alpha:]` matches anything: matching more means checking more.
            let set = &rest[..close];
            let within = set.contains(&':')
                || set.iter().any(|member| member == c)
                || set.windows(3).any(|range| range[1] == '-' && (range[0]..=range[2]).contains(c));
            (within != negated || set.contains(&':')).then_some(close + 2 + usize::from(negated))
        }
        [plain, ..] => (plain == c).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_patterns_match_names() {
        let check = |pattern: &str, name: &str, fit: bool| {
            assert_eq!(fits(pattern, name), fit, "{pattern} {name}")
        };
        check("*.rs", "a.rs", true);
        check("*.rs", "a.rsx", false);
        check("a*b*c", "aXbYbZc", true);
        check("?x", "ax", true);
        check("[a-c]1", "b1", true);
        check("[!a-c]1", "b1", false);
        check("\\*", "*", true);
        check("\\*", "x", false);
        check("**", "anything", true);
        check("[", "[", true);
        check("*a*a*a*a*b", &"a".repeat(60), false);
        check("", "", true);
    }
}
