//! The growing end of a session's file, line by line.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use serde_json::Value;

/// The number of bytes that are read at a time.
const CHUNK: u64 = 1024 * 1024;
/// The length limit of a line in bytes. No record is that long.
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// A reader of a growing file, with its position.
pub(crate) struct Tail {
    path: PathBuf,
    /// The number of bytes that were read.
    read: u64,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
    /// True while the rest of a line that is too long is skipped.
    skipping: bool,
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Tail { path, read: 0, rest: vec![], skipping: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes that were read.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Passes complete lines to `line`, one chunk of the file at a time. Returns true if there may be more. A
    /// missing file has no lines. If a failed write was truncated, the position moves back and the partial
    /// line is dropped.
    pub(crate) fn read_lines(&mut self, line: impl FnMut(&[u8])) -> io::Result<bool> {
        self.read_lines_until(u64::MAX, line)
    }

    /// Works like [`Tail::read_lines`], for the first `most` bytes of the file.
    pub(crate) fn read_lines_until(
        &mut self,
        most: u64,
        mut line: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(cause) => return Err(cause),
        };
        let length = file.metadata()?.len().min(most);
        if length < self.read {
            (self.read, self.rest, self.skipping) = (length, vec![], false);
        }
        if length == self.read {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut chunk = vec![];
        let most = CHUNK.min(length - self.read);
        self.read += file.take(most).read_to_end(&mut chunk)? as u64;
        let mut parts = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let is_whole = parts.peek().is_some();
            if !self.skipping {
                self.rest.extend_from_slice(part);
            }
            self.skipping |= self.rest.len() > LINE_BYTES;
            if self.skipping {
                self.rest.clear();
            } else if is_whole {
                line(&self.rest);
            }
            if is_whole {
                self.rest.clear();
                self.skipping = false;
            }
        }
        Ok(self.read < length)
    }
}

/// Returns the folder that a session was started in. `None` if the first line is incomplete.
pub(crate) fn folder_of(path: &Path) -> Option<String> {
    let mut line = vec![];
    let mut file = BufReader::new(File::open(path).ok()?).take(CHUNK);
    file.read_until(b'\n', &mut line).ok()?;
    let header: Value = serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
    Some(header["cwd"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write};

    use super::*;

    fn lines(tail: &mut Tail) -> Vec<String> {
        let mut lines = vec![];
        while tail
            .read_lines(|line| lines.push(String::from_utf8_lossy(line).into_owned()))
            .unwrap()
        {}
        lines
    }

    #[test]
    fn tail_returns_complete_lines_and_survives_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let mut tail = Tail::new(path.clone());
        assert_eq!(lines(&mut tail), [""; 0], "there is no file yet");
        let open = || OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let write = |text: &str| open().write_all(text.as_bytes()).unwrap();
        write("one\ntw");
        assert_eq!(lines(&mut tail), ["one"]);
        assert_eq!(lines(&mut tail), [""; 0]);
        write("o\n\nthree\nfo");
        assert_eq!(lines(&mut tail), ["two", "", "three"]);
        open().set_len(15).unwrap();
        assert_eq!(lines(&mut tail), [""; 0]);
        write("five\n");
        assert_eq!(lines(&mut tail), ["five"]);
        let long = "x".repeat(LINE_BYTES + 1);
        write(&format!("{long}\nsix\n"));
        assert_eq!(lines(&mut tail), ["six"]);
    }

    #[test]
    fn session_folder_is_read_once_the_first_line_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        assert_eq!(folder_of(&path), None);
        std::fs::write(&path, r#"{"type":"session","cwd":"/p"}"#).unwrap();
        assert_eq!(folder_of(&path), None);
        std::fs::write(&path, "{\"type\":\"session\",\"cwd\":\"/p\"}\n{").unwrap();
        assert_eq!(folder_of(&path), Some("/p".into()));
    }
}
