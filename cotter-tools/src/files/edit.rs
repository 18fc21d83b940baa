//! The tool `edit`: exact replacements in a file, all or none.

use cotter::{
    Cx, Permit, Tool, ToolError, ToolOutput, ToolSpec, Workspace,
    fs::file_views::COMPARED_BYTES,
    history::outcome::ToolErrorKind,
    hooks::points::ToolPostEvent,
    permission::facts::Facts,
    tool::{AfterHooksFuture, ToolFuture},
};
use serde_json::{Value, json};

use crate::files::{
    change::{Target, refused, report_hook_changes, unified_diff},
    disk::WriteTarget,
    find::{MAX_MATCHES, describe_missing, lines_with},
};

/// The tool `edit {path, edits: [{old, new}]}`.
pub struct Edit(ToolSpec);

impl Default for Edit {
    fn default() -> Self {
        Edit(ToolSpec::new(
            "edit",
            "Change parts of a file that was read before. Each edit replaces `old`, which must be in the \
             file exactly once, character by character, by `new`. Edits are made in order, each on the \
             result of those before it; if one fails, none is made. The difference is shown.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "edits": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "properties": {
                                "old": {"type": "string", "minLength": 1},
                                "new": {"type": "string"}
                            },
                            "required": ["old", "new"],
                            "additionalProperties": false
                        }
                    }
                },
                "required": ["path", "edits"],
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    /// The content is read and shown, so an edit is also a read.
    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        let path = input["path"].as_str().unwrap_or_default();
        Facts::of_paths(&[path], &[path], workspace)
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || edit(&permit)).await;
            done.unwrap_or_else(|cause| Err(ToolError::failed(cause.to_string())))
        })
    }

    fn after_hooks<'a>(&'a self, event: &'a ToolPostEvent, cx: &'a Cx) -> AfterHooksFuture<'a> {
        report_hook_changes(event, cx)
    }
}

fn edit(permit: &Permit) -> Result<ToolOutput, ToolError> {
    let target = Target::of(permit)?;
    let shown = &target.shown;
    let write_target =
        WriteTarget::find(&target.path).map_err(|cause| target.cannot("edit", &cause))?;
    let Some(file) = target.check_seen(&write_target)? else {
        let message = format!("there is no {shown}; `write` makes a new file");
        return Err(ToolError::new(ToolErrorKind::NotFound, message));
    };
    let Some(bytes) = &file.bytes else {
        let size = file.size();
        return Err(refused(format!(
            "{shown} has {size} bytes; up to {COMPARED_BYTES} are edited"
        )));
    };
    let before = str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        refused(format!("{shown} is not UTF-8 text: line {line} has other bytes"))
    })?;
    let edits = permit.input()["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let after = apply(before, edits, shown)?;
    let diff = unified_diff(before, &after, shown);
    target.replace(write_target, Some(&file), &after)?;
    let places = match edits.len() {
        1 => "1 place".to_owned(),
        places => format!("{places} places"),
    };
    Ok(format!("edited {shown}, {places}{}\n{diff}", Target::other_names(&file)).into())
}

/// The text after all edits.
fn apply(before: &str, edits: &[Value], shown: &str) -> Result<String, ToolError> {
    let line_ending = LineEnding::of(before);
    let mut text = before.to_owned();
    for (index, edit) in edits.iter().enumerate() {
        let text_of = |key: &str| line_ending.apply_to(edit[key].as_str().unwrap_or_default());
        let (old, new) = (text_of("old"), text_of("new"));
        let which = match edits.len() {
            1 => String::new(),
            _ => format!("edit {}: ", index + 1),
        };
        if old == new {
            return Err(refused(format!("{which}`old` and `new` are the same")));
        }
        let lines = lines_with(&text, &old);
        match lines.as_slice() {
            [] => return Err(refused(format!("{which}{}", describe_missing(&text, &old, shown)))),
            [_] => text = text.replacen(&old, &new, 1),
            _ => {
                return Err(refused(format!(
                    "{which}`old` is in {shown} {}; add the text around it, so that only one \
                     place matches",
                    occurrences(&lines)
                )));
            }
        }
    }
    Ok(text)
}

/// The number of occurrences, and the first lines.
fn occurrences(lines: &[usize]) -> String {
    let times = lines.len();
    let or_more = if times == MAX_MATCHES { " or more" } else { "" };
    let first: Vec<_> = lines.iter().take(10).map(ToString::to_string).collect();
    let others = if times > 10 { ", …" } else { "" };
    format!("{times} times{or_more} (lines {}{others})", first.join(", "))
}

/// The line ending of a text.
enum LineEnding {
    /// All lines end with `\r\n`, which a model seldom writes.
    Crlf,
    /// Unchanged.
    Plain,
}

impl LineEnding {
    fn of(text: &str) -> Self {
        let (all, both) = (text.matches('\n').count(), text.matches("\r\n").count());
        if all > 0 && all == both { LineEnding::Crlf } else { LineEnding::Plain }
    }

    /// A piece of text with the line ending of the file.
    fn apply_to(&self, piece: &str) -> String {
        match self {
            LineEnding::Plain => piece.to_owned(),
            LineEnding::Crlf => piece.replace("\r\n", "\n").replace('\n', "\r\n"),
        }
    }
}
