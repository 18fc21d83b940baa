//! The changes in a trusted folder, prepared for a person.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use similar::{ChangeTag, TextDiff};

use crate::trust::snapshot::{Snapshot, SnapshotItem};
use cotter::text;

/// The maximum number of lines shown of one file, and of all files.
const MAX_LINES: [usize; 2] = [200, 2000];

/// The maximum number of characters shown of one line.
const MAX_LINE_CHARS: usize = 400;

/// The maximum size of a file whose lines are compared.
const MAX_COMPARED_BYTES: usize = 256 * 1024;

/// The time limit for finding the smallest difference; after that any correct difference is used.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// All differences between two snapshots, in the order of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Each changed file or link.
    pub changes: Vec<FileChange>,
}

/// A changed file or link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileChange {
    /// The path below the source.
    pub path: PathBuf,
    /// The kind of change.
    pub kind: ChangeKind,
    /// True if the file became executable, false if it stopped being so; `None` if this did not change.
    pub executable: Option<bool>,
    /// The changed lines, with a few unchanged lines around them.
    pub lines: Vec<DiffLine>,
    /// The reason why lines are missing, if any are.
    pub omission: Option<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file or link is new.
    Added,
    /// The file or link is gone.
    Removed,
    /// The contents or the type changed.
    Changed,
    /// Only the executable bit changed.
    Mode,
}

/// A line of a file, escaped for display: hidden characters are visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffLine {
    /// The line is gone.
    Gone(String),
    /// The line is new.
    New(String),
    /// The line is unchanged.
    Same(String),
    /// Unchanged lines are left out here.
    Gap,
}

impl Difference {
    /// Compares two snapshots.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let names: BTreeSet<&Path> =
            before.items().chain(after.items()).map(|(path, _)| path).collect();
        let [_, mut lines_left] = MAX_LINES;
        let deadline = Instant::now() + TIME_LIMIT;
        let mut changes = vec![];
        for path in names {
            let (old, new) = (before.item(path), after.item(path));
            if old == new {
                continue;
            }
            let mut change = FileChange::between(path, old, new);
            change.compare(old, new, lines_left.min(MAX_LINES[0]), deadline);
            lines_left -= change.lines.len();
            changes.push(change);
        }
        Difference { changes }
    }
}

impl FileChange {
    fn between(path: &Path, old: Option<&SnapshotItem>, new: Option<&SnapshotItem>) -> Self {
        let kind = match (old, new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            (Some(old), Some(new)) if contents(old) == contents(new) => ChangeKind::Mode,
            _ => ChangeKind::Changed,
        };
        let (was, is) = (is_executable(old), is_executable(new));
        let executable = (was != is && kind != ChangeKind::Removed).then_some(is);
        FileChange { path: path.into(), kind, executable, lines: vec![], omission: None }
    }

    /// Adds the changed lines, at most `max_lines`.
    fn compare(
        &mut self,
        old: Option<&SnapshotItem>,
        new: Option<&SnapshotItem>,
        max_lines: usize,
        deadline: Instant,
    ) {
        if self.kind == ChangeKind::Mode {
            return;
        }
        let (old, new) = match (text_of(old), text_of(new)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(reason), _) | (_, Err(reason)) => return self.omission = Some(reason.into()),
        };
        if max_lines == 0 {
            return self.omission = Some("too many other changes".into());
        }
        let mut config = TextDiff::configure();
        let diff = config.deadline(deadline).diff_lines(&old, &new);
        let mut lines = vec![];
        for group in diff.grouped_ops(2) {
            let starts = group.first().is_some_and(|op| op.old_range().start > 0);
            if !lines.is_empty() || starts {
                lines.push(DiffLine::Gap);
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let line = show_diff_line(change.value(), change.missing_newline());
                lines.push(match change.tag() {
                    ChangeTag::Delete => DiffLine::Gone(line),
                    ChangeTag::Insert => DiffLine::New(line),
                    ChangeTag::Equal => DiffLine::Same(line),
                });
            }
        }
        let more = lines.len().saturating_sub(max_lines);
        lines.truncate(max_lines);
        self.lines = lines;
        self.omission = (more > 0).then(|| format!("{more} more lines"));
    }
}

/// The type and contents of an item, without its mode.
fn contents(item: &SnapshotItem) -> (bool, &[u8]) {
    match item {
        SnapshotItem::File { bytes, .. } => (true, bytes),
        SnapshotItem::Link(target) => (false, target.as_encoded_bytes()),
    }
}

fn is_executable(item: Option<&SnapshotItem>) -> bool {
    matches!(item, Some(SnapshotItem::File { executable: true, .. }))
}

/// The lines to compare, or the reason why there are none. A link is one line.
fn text_of(item: Option<&SnapshotItem>) -> Result<String, &'static str> {
    match item {
        None => Ok(String::new()),
        Some(SnapshotItem::Link(target)) => {
            let target = text::show_bytes(target.as_encoded_bytes());
            Ok(format!("link to {}\n", text::show_line(&target)))
        }
        Some(SnapshotItem::File { bytes, .. }) if bytes.len() > MAX_COMPARED_BYTES => {
            Err("too long to compare line by line")
        }
        Some(SnapshotItem::File { bytes, .. }) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(text.into()),
            _ => Err("not text"),
        },
    }
}

fn show_diff_line(line: &str, unfinished: bool) -> String {
    let line = text::show(line.strip_suffix('\n').unwrap_or(line)).into_owned();
    let shown = text::cut_chars(&line, MAX_LINE_CHARS);
    let cut = if shown.len() < line.len() { " (the line is cut)" } else { "" };
    let end = if unfinished { " (no newline at the end)" } else { "" };
    format!("{shown}{cut}{end}")
}
