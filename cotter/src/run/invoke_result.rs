//! The results of `invoke_skill` and `invoke_subagent`, as the model reads them.

use serde_json::json;

use crate::{
    history::{line_format, message::Content, outcome::ToolErrorKind},
    hooks::handler::HandlerFailure,
    model::tools::{ToolError, ToolOutput},
    text,
};

/// The size in bytes from which a text is also kept for renderers.
const RENDER_DATA_BYTES: usize = 16 * 1024;

/// The error of a skill or subagent that failed.
pub(crate) fn format_failure(failure: &HandlerFailure) -> ToolError {
    match failure {
        HandlerFailure::Cancelled => {
            ToolError::new(ToolErrorKind::Cancelled, "Cancelled while it ran.")
        }
        failure => format_error(&failure.to_string(), ToolErrorKind::Failed),
    }
}

/// `{status:"success", data:{skill, content}}`: the text for the model, the parts for renderers.
pub(crate) fn format_success(kind: &str, name: &str, content: Content) -> ToolOutput {
    let text = content.text();
    let text = match (&content, text.trim().is_empty()) {
        (_, false) => text.into_owned(),
        (Content::Parts(parts), true) if !parts.is_empty() => format!("[non-text {kind} content]"),
        _ => format!("[{kind} produced no text content]"),
    };
    let data = json!({"status": "success", "data": {kind: name, "content": text}});
    let render_data = match &content {
        // A long text may be cut for the model; renderers get the whole text.
        Content::Text(text) if text.len() > RENDER_DATA_BYTES => {
            Some(json!({kind: name, "parts": [{"type": "text", "text": text}]}))
        }
        Content::Text(_) => None,
        Content::Parts(_) => {
            Some(json!({kind: name, "parts": line_format::content_to_json(&content)}))
        }
    };
    ToolOutput { content: Content::Text(data.to_string()), render_data }
}

/// `{status:"error", message, data:null}`.
pub(crate) fn format_error(message: &str, kind: ToolErrorKind) -> ToolError {
    let data = json!({"status": "error", "message": message, "data": null});
    ToolError::new(kind, data.to_string())
}

/// The error for a name that the model may not call or that does not exist.
pub(crate) fn format_unavailable<'a>(
    kind: &str,
    name: &str,
    problem: &str,
    names: impl Iterator<Item = &'a str>,
) -> ToolError {
    let name = text::cut_chars(&text::show_line(name), 80).into_owned();
    let names = names.collect::<Vec<_>>().join(", ");
    format_error(
        &format!("{kind} \"{name}\" {problem}. Use one of: {names}."),
        ToolErrorKind::NotFound,
    )
}
