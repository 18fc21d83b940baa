//! What is another in a folder that was trusted, as a person wants to see it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use similar::{ChangeTag, TextDiff};

use crate::trust::snapshot::{Snapshot, SnapshotItem};
use cotter::text;

/// The most lines that are shown of one file, and of all.
const MOST_LINES: [usize; 2] = [200, 2000];

/// The most characters that are shown of one line.
const MOST_CHARS: usize = 400;

/// The longest file whose lines are compared.
const COMPARED_BYTES: usize = 256 * 1024;

/// How long the shortest differences are looked for; after that any will do.
const LIMIT: Duration = Duration::from_secs(2);

/// Everything that differs between two snapshots, in the order of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Each file or link that is another.
    pub changes: Vec<FileChange>,
}

/// One file or link that is another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileChange {
    /// Its path below the source.
    pub path: PathBuf,
    /// What became of it.
    pub kind: ChangeKind,
    /// Whether it was made executable, or is not any more; `None` where that stayed.
    pub executable: Option<bool>,
    /// The lines that are another, with a few around them.
    pub lines: Vec<DiffLine>,
    /// Why lines are missing, where they are.
    pub left_out: Option<String>,
}

/// What became of a file or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It holds something else, or is something else.
    Changed,
    /// It holds the same, and only who may execute it is another.
    Mode,
}

/// A line of a file, fit to be seen: every hidden character in it is visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffLine {
    /// It is gone.
    Gone(String),
    /// It is new.
    New(String),
    /// It stands there as before.
    Same(String),
    /// Lines that stand there as before are left out.
    Gap,
}

impl Difference {
    /// What became of one snapshot in another.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let names: BTreeSet<&Path> =
            before.items().chain(after.items()).map(|(path, _)| path).collect();
        let [_, mut room] = MOST_LINES;
        let deadline = Instant::now() + LIMIT;
        let mut changes = vec![];
        for path in names {
            let (old, new) = (before.item(path), after.item(path));
            if old == new {
                continue;
            }
            let mut change = FileChange::between(path, old, new);
            change.compare(old, new, room.min(MOST_LINES[0]), deadline);
            room -= change.lines.len();
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
            (Some(old), Some(new)) if held(old) == held(new) => ChangeKind::Mode,
            _ => ChangeKind::Changed,
        };
        let (was, is) = (is_executable(old), is_executable(new));
        let executable = (was != is && kind != ChangeKind::Removed).then_some(is);
        FileChange { path: path.into(), kind, executable, lines: vec![], left_out: None }
    }

    /// Adds the lines that are another, as many as there is room for.
    fn compare(
        &mut self,
        old: Option<&SnapshotItem>,
        new: Option<&SnapshotItem>,
        room: usize,
        deadline: Instant,
    ) {
        if self.kind == ChangeKind::Mode {
            return;
        }
        let (old, new) = match (text_of(old), text_of(new)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => return self.left_out = Some(why.into()),
        };
        if room == 0 {
            return self.left_out = Some("too much else is another".into());
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
                let line = shown(change.value(), change.missing_newline());
                lines.push(match change.tag() {
                    ChangeTag::Delete => DiffLine::Gone(line),
                    ChangeTag::Insert => DiffLine::New(line),
                    ChangeTag::Equal => DiffLine::Same(line),
                });
            }
        }
        let more = lines.len().saturating_sub(room);
        lines.truncate(room);
        self.lines = lines;
        self.left_out = (more > 0).then(|| format!("{more} more lines"));
    }
}

/// What a file or link is apart from its mode.
fn held(item: &SnapshotItem) -> (bool, &[u8]) {
    match item {
        SnapshotItem::File { bytes, .. } => (true, bytes),
        SnapshotItem::Link(target) => (false, target.as_encoded_bytes()),
    }
}

fn is_executable(item: Option<&SnapshotItem>) -> bool {
    matches!(item, Some(SnapshotItem::File { executable: true, .. }))
}

/// The lines to compare, or why there are none. A link is one line.
fn text_of(item: Option<&SnapshotItem>) -> Result<String, &'static str> {
    match item {
        None => Ok(String::new()),
        Some(SnapshotItem::Link(target)) => {
            let target = text::show_bytes(target.as_encoded_bytes());
            Ok(format!("link to {}\n", text::show_line(&target)))
        }
        Some(SnapshotItem::File { bytes, .. }) if bytes.len() > COMPARED_BYTES => {
            Err("too long to compare line by line")
        }
        Some(SnapshotItem::File { bytes, .. }) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(text.into()),
            _ => Err("not text"),
        },
    }
}

fn shown(line: &str, unfinished: bool) -> String {
    let line = text::show(line.strip_suffix('\n').unwrap_or(line)).into_owned();
    let shown = text::clip(&line, MOST_CHARS);
    let cut = if shown.len() < line.len() { " (the line goes on)" } else { "" };
    let end = if unfinished { " (no newline at the end)" } else { "" };
    format!("{shown}{cut}{end}")
}
