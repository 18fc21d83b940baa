//! `read`: shows a text file with line numbers, or a part of it.

use std::{
    fs::Metadata,
    io::{BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    fs::{
        file_views::{COMPARED_BYTES, FileStamp, FileViews},
        open, paths,
        workspace::Workspace,
    },
    history::{message::ContentPart, outcome::ToolErrorKind},
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::facts::Facts,
    tool::{Tool, ToolFuture, permit::Permit},
};

const DEFAULT_LINES: usize = 2000;
/// The length limit of a shown line, in characters.
const LINE_CHARS: usize = 2000;
/// The space reserved for the line that says how to continue, in bytes.
const CONTINUE_LINE_BYTES: usize = 80;
/// The size limit of a picture, in bytes.
const PICTURE_BYTES: u64 = 5 * 1024 * 1024;

/// The tool `read {path, offset?, limit?}`.
pub struct Read(ToolSpec);

impl Default for Read {
    fn default() -> Self {
        Read(ToolSpec::new(
            "read",
            "Read a file of the project. Text comes with line numbers; use `offset` (first line, \
             from 1) and `limit` (number of lines) for a part of a long file. Pictures are shown.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "offset": {"type": "integer", "minimum": 1},
                    "limit": {"type": "integer", "minimum": 1}
                },
                "required": ["path"],
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        Facts::of_paths(&[input["path"].as_str().unwrap_or_default()], &[], workspace)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let number = |key: &str| permit.input()[key].as_u64().and_then(|n| n.try_into().ok());
            let request = ReadRequest {
                // Opens the path that the decision is about, not the path as the model wrote it.
                path: permit.facts().reads.first().cloned().unwrap_or_default(),
                offset: number("offset").unwrap_or(1),
                limit: number("limit").unwrap_or(DEFAULT_LINES),
                bytes: permit.cx().run.session.agent.limits().result_bytes,
            };
            let shown = paths::format_path(&request.path, permit.cx().workspace());
            let read = move || request.read(&shown, permit.cx().file_views(), permit.cx().cancel());
            let result = tokio::task::spawn_blocking(read).await;
            result.unwrap_or_else(|cause| Err(ToolError::failed(cause.to_string())))
        })
    }
}

struct ReadRequest {
    path: PathBuf,
    offset: usize,
    limit: usize,
    /// The size limit of a page. A longer page would be cut in its middle.
    bytes: usize,
}

impl ReadRequest {
    fn read(
        &self,
        shown: &str,
        views: &FileViews,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let file = open::file(&self.path).map_err(|cause| read_error(shown, &cause))?;
        let metadata = file.metadata().map_err(|cause| read_error(shown, &cause))?;
        let refused = |why: String| Err(ToolError::new(ToolErrorKind::InvalidArgs, why));
        if metadata.is_dir() {
            return refused(format!("{shown} is a folder; `list` shows its contents"));
        }
        if !metadata.is_file() {
            return refused(format!("{shown} is {}, not a file", describe_special_file(&metadata)));
        }
        // The stamp describes the file as it was shown, even if the file changes meanwhile.
        let record_view =
            |content: Option<&[u8]>| views.record(&self.path, FileStamp::of(&metadata, content));
        if let Some(media_type) = picture_type(&self.path) {
            let output = show_picture(file, metadata.len(), media_type, shown)?;
            record_view(None);
            return Ok(output);
        }
        let mut bytes = vec![];
        let is_long = metadata.len() > COMPARED_BYTES;
        let head = if is_long { HEAD_BYTES } else { COMPARED_BYTES };
        (&file).take(head).read_to_end(&mut bytes).map_err(|cause| read_error(shown, &cause))?;
        record_view((!is_long).then_some(&*bytes));
        if let Some(kind) = detect_binary(&bytes) {
            return refused(format!("{shown} is not text: {kind}, {} bytes", metadata.len()));
        }
        if is_long {
            // The part that was already read comes first, then the rest.
            return self.lines((&*bytes).chain(BufReader::new(file)), shown, cancel);
        }
        self.lines(&*bytes, shown, cancel)
    }

    fn lines(
        &self,
        mut file: impl BufRead,
        shown: &str,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let mut text = String::new();
        let mut line = vec![];
        let mut number = 0;
        let mut is_inside_line = false;
        loop {
            line.clear();
            if cancel.is_cancelled() {
                return Err(ToolError::new(ToolErrorKind::Cancelled, "the run was aborted"));
            }
            // A very long line is not read further than it is shown.
            let byte_count = file.by_ref().take(LINE_CHARS as u64 * 8).read_until(b'\n', &mut line);
            if byte_count.map_err(|cause| read_error(shown, &cause))? == 0 {
                break;
            }
            if line.contains(&0) {
                let message = format!("{shown} is not text: line {} has a zero byte", number + 1);
                return Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
            }
            let is_line_rest = std::mem::replace(&mut is_inside_line, !line.ends_with(b"\n"));
            if is_line_rest {
                continue;
            }
            number += 1;
            if number < self.offset {
                continue;
            }
            let content = String::from_utf8_lossy(line.trim_ascii_end());
            let line = format!("{number:>6}\t{}\n", crate::text::cut_chars(&content, LINE_CHARS));
            // A page has at least one line; otherwise the model could not continue.
            let is_full =
                !text.is_empty() && text.len() + line.len() + CONTINUE_LINE_BYTES > self.bytes;
            if is_full || number >= self.offset.saturating_add(self.limit) {
                text.push_str(&format!("… more follows; continue with offset {number}\n"));
                return Ok(text.into());
            }
            text.push_str(&line);
        }
        match (number, text.is_empty()) {
            (0, _) => Ok(format!("{shown} is empty").into()),
            (lines, true) => {
                let message =
                    format!("{shown} has {lines} lines; offset {} is past its end", self.offset);
                Err(ToolError::new(ToolErrorKind::InvalidArgs, message))
            }
            _ => Ok(text.into()),
        }
    }
}

/// The number of bytes that are read to detect the type of a file.
const HEAD_BYTES: u64 = 8 * 1024;

/// The first bytes of known file types, with a description.
const FILE_SIGNATURES: [(&[u8], &str); 16] = [
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\0asm", "a WebAssembly module"),
    (b"PK\x03\x04", "a zip archive, or a document in one"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"BZh", "compressed with bzip2"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\xca\xfe\xba\xbe", "compiled Java classes"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
];

/// Returns the type of a file that begins with `start`; `None` if it is text.
fn detect_binary(start: &[u8]) -> Option<&'static str> {
    let head = &start[..start.len().min(HEAD_BYTES as usize)];
    if !head.contains(&0) && !head.starts_with(b"%PDF-") {
        return None;
    }
    let signature = FILE_SIGNATURES.iter().find(|(start, _)| head.starts_with(start));
    Some(signature.map_or("binary data", |(_, kind)| kind))
}

/// Returns the type of a path that is neither a file nor a folder.
fn describe_special_file(metadata: &Metadata) -> &'static str {
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = metadata.file_type();
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    let _ = metadata;
    "of an unknown type"
}

fn read_error(shown: &str, cause: &std::io::Error) -> ToolError {
    let kind = match cause.kind() {
        std::io::ErrorKind::NotFound => ToolErrorKind::NotFound,
        _ => ToolErrorKind::Failed,
    };
    ToolError::new(kind, format!("cannot read {shown}: {cause}"))
}

fn picture_type(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

fn show_picture(
    file: impl std::io::Read,
    size: u64,
    media_type: &str,
    shown: &str,
) -> Result<ToolOutput, ToolError> {
    if size > PICTURE_BYTES {
        let message =
            format!("{shown} has {size} bytes; pictures up to {PICTURE_BYTES} can be shown");
        return Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
    }
    let mut bytes = vec![];
    file.take(PICTURE_BYTES).read_to_end(&mut bytes).map_err(|cause| read_error(shown, &cause))?;
    let picture = ContentPart::picture(media_type, &bytes);
    Ok(vec![ContentPart::Text(format!("{shown}, {size} bytes")), picture].into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_does_not_follow_a_link_made_after_the_decision() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "words").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let read = |path: PathBuf| {
            ReadRequest { path, offset: 1, limit: 1, bytes: 1000 }.read(
                "it",
                &FileViews::default(),
                &CancellationToken::new(),
            )
        };
        assert!(read(file).is_ok());
        assert!(read(link).is_err());
    }
}
