//! Finds a piece of text in a file, and explains a piece that is missing.

use std::fmt::Write;

use similar::TextDiff;

/// The most matches that are counted.
pub(crate) const MAX_MATCHES: usize = 100;

/// The lines where a piece begins, from 1; overlapping matches count. At most [`MAX_MATCHES`].
pub(crate) fn lines_with(text: &str, piece: &str) -> Vec<usize> {
    let mut lines = vec![];
    let (mut line, mut from, mut counted) = (1, 0, 0);
    while let Some(at) = text[from..].find(piece).map(|at| at + from)
        && lines.len() < MAX_MATCHES
    {
        line += text[counted..at].matches('\n').count();
        counted = at;
        lines.push(line);
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
    }
    lines
}

/// The most lines of a file that are shown instead.
const SHOWN_LINES: usize = 12;
/// The most lines of a file that are compared, and the most characters of each.
const COMPARE_LIMITS: (usize, usize) = (2_000, 200);
/// The lowest similarity of two lines that is reported.
const MIN_SIMILARITY: f32 = 0.6;

/// The message for a piece that is not in a file: shows the nearest text of the file.
pub(crate) fn describe_missing(text: &str, piece: &str, shown: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let sought: Vec<&str> = piece.lines().collect();
    if let Some(at) = find_ignoring_spaces(&lines, &sought) {
        let quote = quote_lines(&lines, at, sought.len());
        let (first, last) = (at + 1, at + sought.len());
        let lines = match first == last {
            true => format!("line {first}"),
            false => format!("lines {first}-{last}"),
        };
        return format!(
            "`old` is not in {shown} as given: its spaces, tabs or line ends are not those of \
             {lines}:\n{quote}"
        );
    }
    match nearest(&lines, &sought) {
        Some((at, which)) => {
            let from = at.saturating_sub(which);
            let quote = quote_lines(&lines, from, sought.len());
            format!("`old` is not in {shown}; nearest is line {}:\n{quote}", at + 1)
        }
        None => format!("`old` is not in {shown}, nor anything like it"),
    }
}

/// The first line of a part of the file that differs from the piece only in spaces.
fn find_ignoring_spaces(lines: &[&str], sought: &[&str]) -> Option<usize> {
    let same = |ours: &str, theirs: &str| ours.split_whitespace().eq(theirs.split_whitespace());
    let blank = sought.iter().all(|line| line.trim().is_empty());
    let mut windows = lines.windows(sought.len().max(1));
    let found =
        windows.position(|window| window.iter().zip(sought).all(|(ours, line)| same(ours, line)));
    found.filter(|_| !blank)
}

/// The line most similar to the first non-blank line of the piece, and the number of lines before
/// that one.
fn nearest(lines: &[&str], sought: &[&str]) -> Option<(usize, usize)> {
    let (max_lines, max_chars) = COMPARE_LIMITS;
    let clip = |line: &'_ str| line.trim().chars().take(max_chars).collect::<String>();
    let which = sought.iter().position(|line| !line.trim().is_empty())?;
    let wanted = clip(sought[which]);
    let words: Vec<_> =
        wanted.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 1).collect();
    let similarity = |line: &str| TextDiff::from_chars(&*wanted, &*clip(line)).ratio();
    // Comparing is slow: compare only lines that share a word.
    let lines = lines.iter().enumerate().filter(|(_, line)| words.iter().any(|w| line.contains(w)));
    let rated = lines.take(max_lines).map(|(at, line)| (at, similarity(line)));
    let best = rated.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    best.filter(|(_, similarity)| *similarity >= MIN_SIMILARITY).map(|(at, _)| (at, which))
}

fn quote_lines(lines: &[&str], from: usize, count: usize) -> String {
    let mut text = String::new();
    let shown = lines.iter().enumerate().skip(from).take(count.clamp(1, SHOWN_LINES));
    for (at, line) in shown {
        let _ =
            writeln!(text, "{:>6}\t{}", at + 1, cotter::text::cut_chars(line, COMPARE_LIMITS.1));
    }
    if count > SHOWN_LINES {
        let _ = writeln!(text, "…");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_listed_by_line_with_overlaps() {
        assert_eq!(lines_with("a\nb\na", "a"), [1, 3]);
        assert_eq!(lines_with("aaa", "aa"), [1, 1]);
        assert_eq!(lines_with("é\né", "é"), [1, 2]);
        assert_eq!(lines_with("a\nb\n", "a\nb"), [1]);
        assert!(lines_with("", "x").is_empty());
    }
}
