//! Ranked search over what is remembered: an index in memory, brought up to date with the files
//! whenever it is asked.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
};

use rusqlite::{Connection, params};

use crate::memory::{
    entry::Entry,
    folder::{MemoryFile, MemoryFolder, Stamp},
};

/// How many words of a query count, and how many letters of each.
const QUERY_WORDS: usize = 32;
const WORD_CHARS: usize = 64;

/// What is remembered, as far as it was read.
pub(crate) struct Index {
    words: Connection,
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
    /// The entry, or what is wrong with its file.
    entry: Result<Entry, EntryError>,
}

/// What is wrong with a file.
enum EntryError {
    /// Another one has its id. That one may go.
    Twice(String),
    /// It makes no sense as it is.
    Nonsense(String),
}

impl EntryError {
    fn words(&self) -> &str {
        match self {
            EntryError::Twice(words) | EntryError::Nonsense(words) => words,
        }
    }
}

impl Index {
    pub(crate) fn new() -> rusqlite::Result<Self> {
        let words = Connection::open_in_memory()?;
        // Of the words only the index is kept; the entries are here.
        words.execute_batch(
            "CREATE VIRTUAL TABLE entries USING fts5(words, tags, content = '', \
             contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2')",
        )?;
        Ok(Index {
            words,
            files: BTreeMap::new(),
            rows: HashMap::new(),
            ids: HashMap::new(),
            next_row: 1,
        })
    }

    /// Reads what has changed.
    pub(crate) fn refresh(&mut self, folder: &MemoryFolder) -> Result<(), IndexError> {
        let found = folder.list()?;
        let is_there: HashSet<_> = found.iter().map(|found| found.name.as_str()).collect();
        let gone: Vec<_> =
            self.files.keys().filter(|name| !is_there.contains(name.as_str())).cloned().collect();
        let is_new = |found: &&MemoryFile| {
            self.files.get(&found.name).is_none_or(|known| known.stamp != found.stamp)
        };
        let changed: Vec<_> = found.iter().filter(is_new).collect();
        if gone.is_empty() && changed.is_empty() {
            return Ok(());
        }
        self.words.execute_batch("BEGIN")?;
        let done = gone.iter().try_for_each(|name| self.drop_file(name));
        let done = done.and_then(|()| changed.iter().try_for_each(|f| self.take_file(folder, f)));
        let done = done.and_then(|()| {
            let twice = found.iter().filter(|found| self.is_twice(&found.name));
            let twice: Vec<_> = twice.collect();
            twice.into_iter().try_for_each(|found| self.take_file(folder, found))
        });
        self.words.execute_batch("COMMIT")?;
        done
    }

    fn is_twice(&self, name: &str) -> bool {
        let known = self.files.get(name);
        known.is_some_and(|known| matches!(known.entry, Err(EntryError::Twice(_))))
    }

    fn drop_file(&mut self, name: &str) -> Result<(), IndexError> {
        if let Some(known) = self.files.remove(name)
            && let Ok(entry) = &known.entry
        {
            self.rows.remove(&known.row);
            self.ids.remove(&entry.id);
            self.words.execute("DELETE FROM entries WHERE rowid = ?1", [known.row])?;
        }
        Ok(())
    }

    fn take_file(&mut self, folder: &MemoryFolder, found: &MemoryFile) -> Result<(), IndexError> {
        self.drop_file(&found.name)?;
        let entry = folder.read(found).and_then(|text| Entry::parse(&text));
        let entry =
            entry.map_err(EntryError::Nonsense).and_then(|entry| match self.ids.get(&entry.id) {
                Some(name) => {
                    Err(EntryError::Twice(format!("`{name}` has the same id, {}", entry.id)))
                }
                None => Ok(entry),
            });
        let row = self.next_row;
        self.next_row += 1;
        if let Ok(entry) = &entry {
            let insert = "INSERT INTO entries(rowid, words, tags) VALUES (?1, ?2, ?3)";
            self.words.execute(insert, params![row, entry.text, entry.tags.join(" ")])?;
            self.rows.insert(row, found.name.clone());
            self.ids.insert(entry.id.clone(), found.name.clone());
        }
        self.files
            .insert(found.name.clone(), IndexedFile { stamp: found.stamp.clone(), row, entry });
        Ok(())
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The entry of an id, and its file.
    pub(crate) fn with_id(&self, id: &str) -> Option<(&str, &Entry)> {
        let name = self.ids.get(id)?;
        Some((name, self.files.get(name)?.entry.as_ref().ok()?))
    }

    /// The entry that says just that.
    pub(crate) fn with_text(&self, text: &str) -> Option<&Entry> {
        self.entries().find(|entry| entry.text == text)
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.files.values().filter_map(|known| known.entry.as_ref().ok())
    }

    /// Files that could not be read, and why.
    pub(crate) fn damaged<'a>(&'a self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let wrong = |known: &'a IndexedFile| known.entry.as_ref().err().map(EntryError::words);
        self.files.iter().filter_map(move |(name, known)| Some((name.as_str(), wrong(known)?)))
    }

    /// What matches a query, the best first, and the newest of those that match alike. A query without a
    /// word gives the newest entries.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Result<Vec<&Entry>, IndexError> {
        if query.trim().is_empty() {
            return Ok(self.newest(limit));
        }
        let found = match any_of(query) {
            Some(words) => self.ranked(&words, limit)?,
            None => vec![],
        };
        if !found.is_empty() {
            return Ok(found);
        }
        // Where words are not told apart by spaces, a part of one may be meant.
        let part = query.trim().to_lowercase();
        let holds = |entry: &&Entry| entry.text.to_lowercase().contains(&part);
        Ok(self.entries().rev().filter(holds).take(limit).collect())
    }

    fn newest(&self, limit: usize) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries().collect();
        all.sort_by(|one, other| other.created.cmp(&one.created));
        all.truncate(limit);
        all
    }

    fn ranked(&self, words: &str, limit: usize) -> Result<Vec<&Entry>, IndexError> {
        let mut matching = self.words.prepare(
            "SELECT rowid FROM entries WHERE entries MATCH ?1 \
             ORDER BY bm25(entries, 1.0, 2.0), rowid DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = matching.query_map(params![words, limit], |row| row.get::<_, i64>(0))?;
        let mut found = vec![];
        for row in rows {
            let known = self.rows.get(&row?).and_then(|name| self.files.get(name));
            found.extend(known.and_then(|known| known.entry.as_ref().ok()));
        }
        Ok(found)
    }
}

/// A query for entries with any of these words, or words that begin so. Only letters and digits are
/// left of what was typed, so nothing in it is an operator.
fn any_of(query: &str) -> Option<String> {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let word = |word: &str| -> String {
        let letters: String = word.chars().take(WORD_CHARS).collect();
        format!("\"{letters}\"*")
    };
    let words: Vec<_> = words.take(QUERY_WORDS).map(word).collect();
    (!words.is_empty()).then(|| words.join(" OR "))
}

/// Why what is remembered could not be looked at.
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
