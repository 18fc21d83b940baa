//! Opens a long session from its end. After a compaction the model needs nothing from before it, so only
//! the tail is read. The rest is read on demand.

use std::{fs::File, io, sync::Arc};

use crate::history::{
    entry::{Entry, EntryBody, EntryKind},
    jsonl::load::{LoadedSession, load, load_part},
    line_format,
    store::EarlierEntries,
};

/// Files up to this size are read whole.
const MAX_WHOLE_READ: u64 = 1 << 20;
/// The number of bytes searched at a time.
const CHUNK: u64 = 1 << 18;
const MAX_HEADER: usize = 1 << 16;
/// The beginning of a compaction's line.
const COMPACTION_LINE_START: &[u8] = b"\n{\"type\":\"compaction\"";

/// Loads a session file from the last compaction's first kept entry on, and returns a function that loads
/// the rest. `None` if the tail is not enough: then the file must be read whole.
pub(crate) fn load_tail(file: &Arc<File>) -> io::Result<Option<(LoadedSession, EarlierEntries)>> {
    let size = file.metadata()?.len();
    if size <= MAX_WHOLE_READ {
        return Ok(None);
    }
    let Some(mut tail_length) = last_compaction(file, size)? else { return Ok(None) };
    while tail_length < size / 2 {
        let start = size - tail_length;
        let mut bytes = read_at(file, start, tail_length)?;
        // The first line is probably incomplete.
        let Some(first_newline) = memchr::memchr(b'\n', &bytes) else { return Ok(None) };
        bytes.drain(..=first_newline);
        let part = load_part(bytes);
        if let Some(first_kept) = find_first_kept(&part) {
            return build_tail(file, part, first_kept, start + first_newline as u64 + 1);
        }
        tail_length *= 2;
    }
    Ok(None)
}

/// Searches the last quarter of the file for a compaction. Returns the distance of its chunk from the end.
fn last_compaction(file: &File, size: u64) -> io::Result<Option<u64>> {
    let finder = memchr::memmem::Finder::new(COMPACTION_LINE_START);
    let mut from_end = 0;
    while from_end < size / 4 {
        from_end += CHUNK;
        // A line that starts at the border of two chunks is found in the earlier chunk.
        let bytes = read_at(
            file,
            size - from_end,
            CHUNK.min(from_end) + COMPACTION_LINE_START.len() as u64,
        )
        .or_else(|_| read_at(file, size - from_end, CHUNK))?;
        if finder.find(&bytes).is_some() {
            return Ok(Some(from_end));
        }
    }
    Ok(None)
}

/// Returns the index of the first kept entry if the part is enough to continue the session. The part must
/// have the last run, a compaction and all entries that it kept, without branches.
fn find_first_kept(part: &LoadedSession) -> Option<usize> {
    let has_run_start = part.records.iter().any(|record| record.kind() == "run.start");
    let has_our_ids =
        part.entries.last().is_some_and(|entry| u64::from_str_radix(entry.id(), 16).is_ok());
    if !has_run_start || !has_our_ids || !part.diagnostics.is_empty() {
        return None;
    }
    let last = part.entries.iter().rfind(|entry| entry.kind() == EntryKind::Compaction)?;
    let EntryBody::Compaction(compaction) = last.body() else { return None };
    let first = part.entries.iter().position(|entry| *entry.id() == compaction.first_kept)?;
    let is_parent_and_child = |pair: &[Arc<Entry>]| pair[1].parent_id() == Some(pair[0].id());
    let moves_leaf = |entry: &Arc<Entry>| entry.kind() == EntryKind::Leaf;
    let kept = &part.entries[first..];
    (kept.windows(2).all(is_parent_and_child) && !kept.iter().any(moves_leaf)).then_some(first)
}

fn build_tail(
    file: &Arc<File>,
    mut part: LoadedSession,
    first_kept: usize,
    start: u64,
) -> io::Result<Option<(LoadedSession, EarlierEntries)>> {
    let mut head = vec![0; MAX_HEADER];
    let length = read_start(file, &mut head)?;
    let line = head[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
    part.header = line_format::read_header(line);
    if part.header.is_none() {
        return Ok(None);
    }
    let before: Vec<_> = part.entries.drain(..first_kept).collect();
    let file = file.clone();
    let earlier: EarlierEntries = Box::new(move || {
        let mut loaded = match read_at(&file, 0, start) {
            Ok(bytes) => load(bytes),
            Err(cause) => {
                let diagnostics = vec![format!("cannot read the beginning of the file: {cause}")];
                LoadedSession { diagnostics, ..LoadedSession::default() }
            }
        };
        loaded.entries.extend(before);
        (loaded.entries, loaded.diagnostics)
    });
    Ok(Some((part, earlier)))
}

fn read_at(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn read_start(file: &File, into: &mut [u8]) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    file.read_at(into, 0)
}
