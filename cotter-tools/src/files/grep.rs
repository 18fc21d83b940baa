//! The tool `grep`: finds lines of files by a regular expression.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use cotter::{
    Permit, Tool, ToolError, ToolOutput, ToolSpec, Workspace,
    fs::{open, paths},
    permission::facts::Facts,
    text,
    tool::ToolFuture,
};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use rustix::fs::FileType;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::files::{
    change::refused,
    glob::cannot,
    walk::{FileWalk, Pattern},
};

const DEFAULT_LIMIT: u64 = 100;
/// The longest shown line, in characters.
const LINE_CHARS: usize = 500;
/// The longest searched line.
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// The tool `grep {pattern, path?, glob?, ignore_case?, context?, limit?}`.
pub struct Grep(ToolSpec);

impl Default for Grep {
    fn default() -> Self {
        Grep(ToolSpec::new(
            "grep",
            "Search files of the project for lines that match a regular expression (as ripgrep reads it). \
             `path` is a file or a folder, the working folder without it; `glob` picks files below it by \
             a pattern such as `*.rs`; `context` adds lines around each; `limit` is the most lines that \
             match, 100 unless given. Ignored files and binary files are left out, and so are hidden \
             files unless `glob` names them, and secrets unless `path` names one.",
            json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "minLength": 1},
                    "path": {"type": "string", "minLength": 1},
                    "glob": {"type": "string", "minLength": 1},
                    "ignore_case": {"type": "boolean"},
                    "context": {"type": "integer", "minimum": 0, "maximum": 50},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1000}
                },
                "required": ["pattern"],
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        Facts::of_paths(&[input["path"].as_str().unwrap_or(".")], &[], workspace)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || grep(&permit)).await;
            done.unwrap_or_else(|cause| Err(ToolError::failed(cause.to_string())))
        })
    }
}

fn grep(permit: &Permit) -> Result<ToolOutput, ToolError> {
    let (input, cx) = (permit.input(), permit.cx());
    let root = permit.facts().reads.first().cloned().unwrap_or_default();
    let shown = paths::format_path(&root, cx.workspace());
    let pattern = input["glob"].as_str().map(Pattern::parse).transpose()?;
    let mut search = Search::new(input, cx.cancel())?;
    let opened = open::file(&root).map_err(|cause| cannot("search", &shown, &cause))?;
    let about = opened.metadata().map_err(|cause| cannot("search", &shown, &cause))?;
    if about.is_file() {
        search.file(opened, &shown);
        return Ok(search.text(&shown));
    }
    if !about.is_dir() {
        return Err(refused(format!("{shown} is neither a file nor a folder")));
    }
    let walk = FileWalk::new(&root, cx.workspace(), pattern.as_ref(), cx.cancel());
    let mut walk = walk.map_err(|cause| cannot("search", &shown, &cause))?;
    while let Some(found) = walk.next() {
        let fits = pattern.as_ref().is_none_or(|pattern| pattern.matches(&found.below));
        if !fits || found.kind != FileType::RegularFile {
            continue;
        }
        if !permit.may_read_within(&found.path) {
            search.withheld += 1;
            continue;
        }
        // Skip a file that cannot be opened, or that is a link by now.
        if let Ok(file) = open_plain(&found.path) {
            search.file(file, &paths::format_path(&found.path, cx.workspace()));
        }
        if search.is_full() {
            break;
        }
    }
    Ok(search.text(&shown))
}

fn open_plain(path: &Path) -> io::Result<File> {
    let file = open::file(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// A running search.
struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    cancel: &'a CancellationToken,
    limit: u64,
    context: bool,
    text: String,
    /// The matching lines so far.
    lines: u64,
    full: bool,
    binary: usize,
    withheld: usize,
    unread: usize,
}

impl<'a> Search<'a> {
    fn new(input: &Value, cancel: &'a CancellationToken) -> Result<Self, ToolError> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(input["ignore_case"].as_bool().unwrap_or(false))
            .line_terminator(Some(b'\n'))
            .build(input["pattern"].as_str().unwrap_or_default())
            .map_err(|cause| refused(format!("invalid pattern: {cause}")))?;
        let context = input["context"].as_u64().unwrap_or(0);
        let context_lines = usize::try_from(context).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LINE_BYTES))
            .before_context(context_lines)
            .after_context(context_lines)
            .build();
        Ok(Search {
            matcher,
            searcher,
            cancel,
            limit: input["limit"].as_u64().unwrap_or(DEFAULT_LIMIT),
            context: context > 0,
            text: String::new(),
            lines: 0,
            full: false,
            binary: 0,
            withheld: 0,
            unread: 0,
        })
    }

    fn is_full(&self) -> bool {
        self.full
    }

    fn file(&mut self, file: File, shown: &str) {
        let reader = CancellableFile { file, cancel: self.cancel };
        let mut hits = GrepMatches {
            shown,
            text: String::new(),
            lines: 0,
            room: self.limit - self.lines,
            full: false,
            binary: false,
        };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut hits);
        if searched.is_err() {
            self.unread += 1;
        }
        if hits.binary {
            self.binary += 1;
            return;
        }
        if self.context && !self.text.is_empty() && !hits.text.is_empty() {
            self.text.push_str("--\n");
        }
        self.text.push_str(&hits.text);
        self.lines += hits.lines;
        self.full |= hits.full;
    }

    /// The result: the matches, and the skipped files.
    fn text(self, shown: &str) -> ToolOutput {
        let mut text = self.text;
        if text.is_empty() {
            text = format!("no line in {shown} matches\n");
        }
        if self.full {
            let hint = "there is more; narrow the search, or give a higher `limit`";
            text.push_str(&format!("… this is the limit ({}), and {hint}\n", self.limit));
        }
        let mut add_omitted = |count: usize, why: &str| {
            let files = if count == 1 { "file" } else { "files" };
            if count > 0 {
                text.push_str(&format!("({count} {files} left out: {why})\n"));
            }
        };
        add_omitted(self.binary, "binary");
        add_omitted(self.withheld, "a secret by name, or a rule keeps it back; `path` names one");
        add_omitted(self.unread, "cannot be read, or has a line that is too long");
        text.into()
    }
}

/// A file that fails to read once the run is aborted.
struct CancellableFile<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for CancellableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.cancel.is_cancelled() {
            true => Err(io::Error::other("the run was aborted")),
            false => self.file.read(buffer),
        }
    }
}

/// The matches in one file.
struct GrepMatches<'a> {
    shown: &'a str,
    text: String,
    lines: u64,
    room: u64,
    full: bool,
    binary: bool,
}

impl GrepMatches<'_> {
    fn line(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes.trim_ascii_end());
        let line = text::cut_chars(&line, LINE_CHARS);
        let number = number.unwrap_or(0);
        self.text.push_str(&format!("{}{mark}{number}{mark}{line}\n", self.shown));
    }
}

impl Sink for GrepMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.lines == self.room {
            self.full = true;
            return Ok(false);
        }
        self.lines += 1;
        self.line(':', found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context_lines: &SinkContext<'_>) -> io::Result<bool> {
        let belongs_to_next =
            self.lines == self.room && context_lines.kind() == &SinkContextKind::Before;
        if !belongs_to_next {
            self.line('-', context_lines.line_number(), context_lines.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.lines < self.room {
            self.text.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abort_ends_the_search_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "needle\n").unwrap();
        let cancel = CancellationToken::new();
        let found = || {
            let mut search = Search::new(&json!({"pattern": "needle"}), &cancel).unwrap();
            search.file(File::open(&path).unwrap(), "a");
            search.lines
        };
        assert_eq!(found(), 1);
        cancel.cancel();
        assert_eq!(found(), 0);
    }
}
