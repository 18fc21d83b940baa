//! The code ranges of a text: fenced blocks and code spans, as in CommonMark.
//!
//! Of CommonMark's blocks, only fences and blank lines are recognised; both end a code span. Quotes, lists
//! and indented code are plain text.

use std::ops::Range;

use crate::invoke::directives::{is_blank, is_line_break};

/// The code ranges of a text in order, including their fences and backticks.
///
/// A fence that is not closed extends to the end of the text.
pub(crate) fn ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = vec![];
    if !text.contains('`') && !text.contains("~~~") {
        return ranges;
    }
    let mut runs = BacktickRuns::default();
    let mut open: Option<(Fence, usize)> = None;
    let mut end = 0;
    for part in text.split_inclusive(is_line_break) {
        let start = end;
        end += part.len();
        if part == "\n" && text[..start].ends_with('\r') {
            continue;
        }
        let line = part.trim_end_matches(is_line_break);
        match open {
            Some((fence, from)) => {
                if fence.is_closed_by(line) {
                    ranges.push(from..end);
                    open = None;
                }
            }
            None => {
                open = Fence::opened_by(line).map(|fence| (fence, start));
                if open.is_some() || line.trim_matches(is_blank).is_empty() {
                    runs.pair_into(&mut ranges);
                } else {
                    runs.add(line, start);
                }
            }
        }
    }
    runs.pair_into(&mut ranges);
    ranges.extend(open.map(|(_, from)| from..text.len()));
    ranges
}

/// The start of a fenced block.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Fence> {
        let (fence, info) = Fence::split(line)?;
        (fence.mark == '~' || !info.contains('`')).then_some(fence)
    }

    fn is_closed_by(self, line: &str) -> bool {
        Fence::split(line).is_some_and(|(fence, rest)| {
            fence.mark == self.mark
                && fence.length >= self.length
                && rest.trim_matches(is_blank).is_empty()
        })
    }

    /// The fence at the start of a line, and the rest of the line.
    fn split(line: &str) -> Option<(Fence, &str)> {
        let marks = line.trim_start_matches(' ');
        let mark = marks.chars().next().filter(|char| matches!(char, '`' | '~'))?;
        let rest = marks.trim_start_matches(mark);
        let length = marks.len() - rest.len();
        let indent = line.len() - marks.len();
        (indent <= 3 && length >= 3).then_some((Fence { mark, length }, rest))
    }
}

/// The runs of backticks of a paragraph.
#[derive(Default)]
struct BacktickRuns {
    runs: Vec<BacktickRun>,
    /// For each length, one more than the index in `runs` of the nearest later run.
    nearest: Vec<usize>,
}

struct BacktickRun {
    start: usize,
    length: usize,
    /// The number of backticks that open a span: a backslash escapes the first one.
    opens: usize,
    /// The run that closes the span, counted from one; 0 for none.
    partner: usize,
}

impl BacktickRuns {
    /// Adds the runs of a line that starts at `at`.
    fn add(&mut self, line: &str, at: usize) {
        let mut position = 0;
        while let Some(found) = line[position..].find('`') {
            let start = position + found;
            let length = line[start..].bytes().take_while(|byte| *byte == b'`').count();
            let backslashes = line.as_bytes()[position..start].iter().rev();
            let backslashes = backslashes.take_while(|byte| **byte == b'\\').count();
            let opens = length - backslashes % 2;
            self.runs.push(BacktickRun { start: at + start, length, opens, partner: 0 });
            position = start + length;
        }
    }

    /// Ends the paragraph: a span extends from a run to the next run of the same length, if there is one.
    fn pair_into(&mut self, ranges: &mut Vec<Range<usize>>) {
        let longest = self.runs.iter().map(|run| run.length).max().unwrap_or(0);
        self.nearest.clear();
        self.nearest.resize(longest + 1, 0);
        for (index, run) in self.runs.iter_mut().enumerate().rev() {
            // No run has length 0, so a fully escaped run finds no partner.
            run.partner = self.nearest[run.opens];
            self.nearest[run.length] = index + 1;
        }
        let mut next = 0;
        while let Some(run) = self.runs.get(next) {
            next += 1;
            if let Some(last) = run.partner.checked_sub(1).and_then(|at| self.runs.get(at)) {
                ranges.push(run.start..last.start + last.length);
                next = run.partner;
            }
        }
        self.runs.clear();
    }
}
