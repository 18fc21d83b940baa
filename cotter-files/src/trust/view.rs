//! The text that a person reads before trusting a source: all commands, all files and all changes. Text from
//! the source is escaped and comes last on its line.

use std::fmt::Write;

use crate::{
    folder::diagnostic::Diagnostic,
    trust::{
        declared::{Declared, DeclaredCommand, Invocation, Pinning},
        diff::{ChangeKind, DiffLine, Difference, FileChange},
        outside, show_path,
        snapshot::{Snapshot, SnapshotItem},
        store::{Grants, TrustState},
    },
};
use cotter::text;

/// Formats a snapshot as text: source, hash, trust, each command and whether its code is pinned, what would
/// not be used, each file, and the changes since it was trusted.
pub fn view(snapshot: &Snapshot, declared: &Declared, state: &TrustState) -> String {
    let mut out = String::new();
    push(&mut out, format_args!("source  {}\n", show_path(snapshot.source())));
    push(&mut out, format_args!("hash    {}\n", snapshot.hash()));
    push(&mut out, format_args!("trust   {}\n", describe_state(state)));
    push_commands(&mut out, snapshot, &declared.commands);
    push_refused(&mut out, snapshot, &declared.refused);
    push_files(&mut out, snapshot);
    push_left_out(&mut out, snapshot);
    if let TrustState::Changed { difference, .. } = state {
        push_difference(&mut out, difference);
    }
    out
}

/// A file that everybody knows: its contents are described instead of shown.
pub struct KnownFile {
    /// The contents.
    pub bytes: &'static [u8],
    /// The description: `the schema of the settings`.
    pub description: &'static str,
}

/// The maximum number of bytes shown of a file that is not text.
const MAX_BINARY_BYTES: usize = 16 * 1024;

/// The number of bytes that decide whether a file is text. A text file is shown to its end, because a shell
/// would run it to its end.
const TEXT_PROBE_BYTES: usize = 4096;

/// Formats every file of a snapshot under its name. A file that is not text is cut, and a line below says how
/// many bytes are left out. Lines of a file have a prefix, so they cannot imitate lines of this text. A
/// file with exactly the contents of a known file is described in one line.
pub fn texts(snapshot: &Snapshot, known: &[KnownFile]) -> String {
    let mut out = String::new();
    for (path, item) in snapshot.items() {
        let name = quote_name(&show_path(path));
        match item {
            SnapshotItem::File { executable, bytes } => {
                let mark = if *executable { ", executable" } else { "" };
                push(&mut out, format_args!("file {name} ({} bytes{mark})\n", bytes.len()));
                match known.iter().find(|known| known.bytes == bytes) {
                    Some(known) => push(&mut out, format_args!("  ({})\n", known.description)),
                    None => push_text(&mut out, bytes),
                }
            }
            SnapshotItem::Link(target) => {
                let target = text::show_bytes(target.as_encoded_bytes());
                push(&mut out, format_args!("link {name} -> {}\n", text::show_line(&target)));
            }
        }
    }
    out
}

fn push_text(out: &mut String, bytes: &[u8]) {
    let beginning = &bytes[..bytes.len().min(TEXT_PROBE_BYTES)];
    // A character that is cut in two at the end of `beginning` still counts as UTF-8.
    let is_utf8 = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        Err(cut) => cut.error_len().is_none() && bytes.len() > TEXT_PROBE_BYTES,
    };
    let is_text = bytes.starts_with(b"#!") || is_utf8 && !beginning.contains(&0);
    let part = if is_text { bytes } else { &bytes[..bytes.len().min(MAX_BINARY_BYTES)] };
    for line in text::show_bytes(part).lines() {
        push(out, format_args!("  | {line}\n"));
    }
    if part.len() < bytes.len() {
        let left = bytes.len() - part.len();
        push(out, format_args!("  ({left} more bytes: not text)\n"));
    }
}

fn describe_state(state: &TrustState) -> String {
    match state {
        TrustState::Unknown { reason: None } => "none yet".into(),
        TrustState::Unknown { reason: Some(reason) } => {
            format!("none: {}", text::show_line(reason))
        }
        TrustState::Changed { .. } => "none: it changed since it was trusted".into(),
        TrustState::Gone { why: None, .. } => "none: it was trusted and is missing now".into(),
        TrustState::Gone { why: Some(why), .. } => format!("none: {}", text::show_line(why)),
        TrustState::Trusted { grants: Grants { rewrite: false }, .. } => "yes".into(),
        TrustState::Trusted { .. } => "yes, and its hooks may rewrite".into(),
    }
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("writing to a string does not fail");
}

fn push_commands(out: &mut String, snapshot: &Snapshot, declared: &[DeclaredCommand]) {
    if declared.is_empty() {
        return out.push_str("\nno commands are declared\n");
    }
    out.push_str(
        "\ncommands, pinned (all their code is in the files below) or open (they run other code too)\n",
    );
    for declared in declared {
        let pinning = declared.pinning(snapshot);
        let mark = if pinning == Pinning::Pinned { "pinned" } else { "open  " };
        push(out, format_args!("  {mark}  {}\n", text::show_line(&declared.description)));
        let line = match &declared.command {
            Invocation::Shell(line) => format!("runs {}", text::show_line(line)),
            Invocation::Words(words) => format!("runs {}", quote_words(words)),
            Invocation::Remote(address) => format!("runs at {}", text::show_line(address)),
            Invocation::Notified(address) => {
                format!("sends events to {}", text::show_line(address))
            }
        };
        push(out, format_args!("          {line}\n"));
        if let Pinning::Open(why) = pinning {
            push(out, format_args!("          open: {}\n", text::show_line(&why)));
        }
    }
}

/// Joins words; a word with special characters is quoted, so that its ends are visible.
fn quote_words(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./:,@%+=".contains(&b))
    };
    let quoted = words.iter().map(|word| match plain(word) {
        true => word.clone(),
        false => text::show_line(&format!("{word:?}")).into_owned(),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn push_refused(out: &mut String, snapshot: &Snapshot, refused: &[Diagnostic]) {
    if !refused.is_empty() {
        out.push_str("\nnot used\n");
    }
    for diagnostic in refused {
        let inside = diagnostic.path.strip_prefix(snapshot.source()).unwrap_or(&diagnostic.path);
        let line = diagnostic.line.map(|line| format!(":{line}")).unwrap_or_default();
        let why = text::show_line(&diagnostic.message);
        push(out, format_args!("  {}{line}: {why}\n", quote_name(&show_path(inside))));
    }
}

fn push_left_out(out: &mut String, snapshot: &Snapshot) {
    let left_out = snapshot.left_out();
    if left_out.is_empty() {
        return;
    }
    out.push_str("\nleft out, because it changes while hooks run; nothing of it is loaded\n");
    for path in left_out.iter().take(MAX_LEFT_OUT) {
        push(out, format_args!("  {}\n", quote_name(&show_path(path))));
    }
    if left_out.len() > MAX_LEFT_OUT {
        push(out, format_args!("  and {} more\n", left_out.len() - MAX_LEFT_OUT));
    }
}

/// The maximum number of files that are listed as left out.
const MAX_LEFT_OUT: usize = 20;

fn push_files(out: &mut String, snapshot: &Snapshot) {
    push(out, format_args!("\nfiles ({})\n", snapshot.items().len()));
    for (path, item) in snapshot.items() {
        let name = quote_name(&show_path(path));
        match item {
            SnapshotItem::File { executable, bytes } => {
                let mark = if *executable { "exec" } else { "" };
                push(out, format_args!("  {mark:<4}  {:>9} bytes  {name}\n", bytes.len()));
            }
            SnapshotItem::Link(target) => {
                let target = text::show_bytes(target.as_encoded_bytes());
                push(out, format_args!("  link  {name} -> {}\n", text::show_line(&target)));
            }
        }
    }
    if snapshot.items().any(|(path, _)| path.starts_with(outside::FOLDER)) {
        push(
            out,
            format_args!(
                "  `{}` holds the files elsewhere that these commands run\n",
                outside::FOLDER
            ),
        );
    }
}

/// A file name, in quotes if it contains white space.
fn quote_name(shown: &str) -> String {
    if shown.contains(char::is_whitespace) { format!("`{shown}`") } else { shown.into() }
}

fn push_difference(out: &mut String, difference: &Difference) {
    out.push_str("\nchanged since it was trusted\n");
    for change in &difference.changes {
        push_change(out, change);
    }
}

fn push_change(out: &mut String, change: &FileChange) {
    let kind = match change.kind {
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Changed | ChangeKind::Mode => "changed",
    };
    let mode = match change.executable {
        Some(true) => ", executable now",
        Some(false) => ", no longer executable",
        None => "",
    };
    push(out, format_args!("  {kind}{mode}: {}\n", quote_name(&show_path(&change.path))));
    for line in &change.lines {
        match line {
            DiffLine::Gone(line) => push(out, format_args!("    - {line}\n")),
            DiffLine::New(line) => push(out, format_args!("    + {line}\n")),
            DiffLine::Same(line) => push(out, format_args!("      {line}\n")),
            DiffLine::Gap => out.push_str("    …\n"),
        }
    }
    if let Some(why) = &change.omission {
        push(out, format_args!("    ({why})\n"));
    }
}
