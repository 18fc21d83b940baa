//! Ranked search over the entries: an index in memory, refreshed from the files before each use.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
};

use rusqlite::{Connection, params};

use crate::memory::{
    entry::Entry,
    folder::{MemoryFile, MemoryFolder, Stamp},
};

/// The most words of a query, and the most characters of each.
const QUERY_WORDS: usize = 32;
const WORD_CHARS: usize = 64;

/// The entries read so far, and their search index.
pub(crate) struct Index {
    database: Connection,
    /// By file name.
    files: BTreeMap<String, IndexedFile>,
    /// The file of each row of the index.
    rows: HashMap<i64, String>,
    /// The file of each id.
    ids: HashMap<String, String>,
    next_row: i64,
}

struct IndexedFile {
    stamp: Stamp,
    row: i64,
    /// The entry, or the error of its file.
    entry: Result<Entry, EntryError>,
}

/// An error of a file.
enum EntryError {
    /// Another file has its id. That file may go away.
    DuplicateId(String),
    /// It cannot be parsed.
    Invalid(String),
}

impl EntryError {
    fn message(&self) -> &str {
        match self {
            EntryError::DuplicateId(message) | EntryError::Invalid(message) => message,
        }
    }
}

impl Index {
    pub(crate) fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        // The database holds only the search index; the entries are in `files`.
        database.execute_batch(
            "CREATE VIRTUAL TABLE entries USING fts5(words, tags, content = '', \
             contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2')",
        )?;
        Ok(Index {
            database,
            files: BTreeMap::new(),
            rows: HashMap::new(),
            ids: HashMap::new(),
            next_row: 1,
        })
    }

    /// Reads new and changed files and drops removed ones.
    pub(crate) fn refresh(&mut self, folder: &MemoryFolder) -> Result<(), IndexError> {
        let found = folder.list()?;
        let present: HashSet<_> = found.iter().map(|found| found.name.as_str()).collect();
        let gone: Vec<_> =
            self.files.keys().filter(|name| !present.contains(name.as_str())).cloned().collect();
        let is_new = |found: &&MemoryFile| {
            self.files.get(&found.name).is_none_or(|indexed| indexed.stamp != found.stamp)
        };
        let changed: Vec<_> = found.iter().filter(is_new).collect();
        if gone.is_empty() && changed.is_empty() {
            return Ok(());
        }
        self.database.execute_batch("BEGIN")?;
        let done = gone.iter().try_for_each(|name| self.drop_file(name));
        let done = done.and_then(|()| changed.iter().try_for_each(|f| self.add_file(folder, f)));
        let done = done.and_then(|()| {
            let duplicates = found.iter().filter(|found| self.is_duplicate(&found.name));
            let duplicates: Vec<_> = duplicates.collect();
            duplicates.into_iter().try_for_each(|found| self.add_file(folder, found))
        });
        self.database.execute_batch("COMMIT")?;
        done
    }

    fn is_duplicate(&self, name: &str) -> bool {
        let indexed = self.files.get(name);
        indexed.is_some_and(|indexed| matches!(indexed.entry, Err(EntryError::DuplicateId(_))))
    }

    fn drop_file(&mut self, name: &str) -> Result<(), IndexError> {
        if let Some(indexed) = self.files.remove(name)
            && let Ok(entry) = &indexed.entry
        {
            self.rows.remove(&indexed.row);
            self.ids.remove(&entry.id);
            self.database.execute("DELETE FROM entries WHERE rowid = ?1", [indexed.row])?;
        }
        Ok(())
    }

    fn add_file(&mut self, folder: &MemoryFolder, found: &MemoryFile) -> Result<(), IndexError> {
        self.drop_file(&found.name)?;
        let entry = folder.read(found).and_then(|text| Entry::parse(&text));
        let entry =
            entry.map_err(EntryError::Invalid).and_then(|entry| match self.ids.get(&entry.id) {
                Some(name) => {
                    Err(EntryError::DuplicateId(format!("`{name}` has the same id, {}", entry.id)))
                }
                None => Ok(entry),
            });
        let row = self.next_row;
        self.next_row += 1;
        if let Ok(entry) = &entry {
            let insert = "INSERT INTO entries(rowid, words, tags) VALUES (?1, ?2, ?3)";
            self.database.execute(insert, params![row, entry.text, entry.tags.join(" ")])?;
            self.rows.insert(row, found.name.clone());
            self.ids.insert(entry.id.clone(), found.name.clone());
        }
        self.files
            .insert(found.name.clone(), IndexedFile { stamp: found.stamp.clone(), row, entry });
        Ok(())
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The entry with an id, and its file.
    pub(crate) fn with_id(&self, id: &str) -> Option<(&str, &Entry)> {
        let name = self.ids.get(id)?;
        Some((name, self.files.get(name)?.entry.as_ref().ok()?))
    }

    /// The entry with exactly this text.
    pub(crate) fn with_text(&self, text: &str) -> Option<&Entry> {
        self.entries().find(|entry| entry.text == text)
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.files.values().filter_map(|indexed| indexed.entry.as_ref().ok())
    }

    /// The unreadable files and their errors.
    pub(crate) fn damaged<'a>(&'a self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let error =
            |indexed: &'a IndexedFile| indexed.entry.as_ref().err().map(EntryError::message);
        self.files.iter().filter_map(move |(name, indexed)| Some((name.as_str(), error(indexed)?)))
    }

    /// The entries that match a query, the best first, and newer before older among equals. An
    /// empty query gives the newest entries.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Result<Vec<&Entry>, IndexError> {
        if query.trim().is_empty() {
            return Ok(self.newest(limit));
        }
        let found = match match_any_word(query) {
            Some(words) => self.ranked(&words, limit)?,
            None => vec![],
        };
        if !found.is_empty() {
            return Ok(found);
        }
        // In languages without spaces between words, the query may be a part of one.
        let part = query.trim().to_lowercase();
        let contains_part = |entry: &&Entry| entry.text.to_lowercase().contains(&part);
        Ok(self.entries().rev().filter(contains_part).take(limit).collect())
    }

    fn newest(&self, limit: usize) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries().collect();
        all.sort_by(|a, b| b.created.cmp(&a.created));
        all.truncate(limit);
        all
    }

    fn ranked(&self, match_query: &str, limit: usize) -> Result<Vec<&Entry>, IndexError> {
        let mut matching = self.database.prepare(
            "SELECT rowid FROM entries WHERE entries MATCH ?1 \
             ORDER BY bm25(entries, 1.0, 2.0), rowid DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = matching.query_map(params![match_query, limit], |row| row.get::<_, i64>(0))?;
        let mut found = vec![];
        for row in rows {
            let indexed = self.rows.get(&row?).and_then(|name| self.files.get(name));
            found.extend(indexed.and_then(|indexed| indexed.entry.as_ref().ok()));
        }
        Ok(found)
    }
}

/// An FTS query for entries with any of these words as a prefix. Only letters and digits are kept,
/// so the query contains no operators.
fn match_any_word(query: &str) -> Option<String> {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let word = |word: &str| -> String {
        let letters: String = word.chars().take(WORD_CHARS).collect();
        format!("\"{letters}\"*")
    };
    let words: Vec<_> = words.take(QUERY_WORDS).map(word).collect();
    (!words.is_empty()).then(|| words.join(" OR "))
}

/// Why the entries could not be read.
#[derive(Debug)]
pub(crate) enum IndexError {
    Files(io::Error),
    Search(rusqlite::Error),
}

impl std::fmt::Display for IndexError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IndexError::Files(cause) => cause.fmt(f),
            IndexError::Search(cause) => cause.fmt(f),
        }
    }
}

impl From<io::Error> for IndexError {
    fn from(cause: io::Error) -> Self {
        IndexError::Files(cause)
    }
}

impl From<rusqlite::Error> for IndexError {
    fn from(cause: rusqlite::Error) -> Self {
        IndexError::Search(cause)
    }
}
