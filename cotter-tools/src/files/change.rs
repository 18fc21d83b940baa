//! Shared code of `write` and `edit`: the check if a file may be changed, the write, and the
//! report of changes by hooks after it.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use cotter::{
    Cx, Permit, ToolError,
    fs::{file_views::ViewState, paths},
    history::outcome::ToolErrorKind,
    hooks::points::ToolPostEvent,
    tool::AfterHooksFuture,
};
use similar::TextDiff;

use crate::files::disk::{FileHandle, FileState, WriteTarget};

/// The longest text for which a diff is reported after a hook changed it.
const MAX_DIFF_BYTES: usize = 256 * 1024;

/// How long the shortest diff is searched for; then any diff is used.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// The file of a call: the path that was decided on, and the path shown to people.
pub(crate) struct Target<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) path: PathBuf,
    pub(crate) shown: String,
}

impl<'a> Target<'a> {
    pub(crate) fn of(permit: &'a Permit) -> Result<Self, ToolError> {
        let path = permit.facts().writes.first().cloned().unwrap_or_default();
        let shown = paths::format_path(&path, permit.cx().workspace());
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(refused(format!("{shown:?}: a path cannot hold a zero byte")));
        }
        Ok(Target { permit, path, shown })
    }

    /// The error for a failed file operation.
    pub(crate) fn cannot(&self, what: &str, cause: &io::Error) -> ToolError {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => ToolErrorKind::NotFound,
            io::ErrorKind::Interrupted => ToolErrorKind::Cancelled,
            _ => ToolErrorKind::Failed,
        };
        ToolError::new(kind, format!("cannot {what} {}: {cause}", self.shown))
    }

    /// The existing file, if the model has seen its current content; `None` if there is no file.
    pub(crate) fn check_seen(
        &self,
        write_target: &WriteTarget,
    ) -> Result<Option<Box<FileHandle>>, ToolError> {
        let shown = &self.shown;
        let file = match write_target.state().map_err(|cause| self.cannot("change", &cause))? {
            FileState::Nothing => return Ok(None),
            FileState::Other(kind) => {
                return Err(refused(format!("{shown} is {kind}, not a file")));
            }
            FileState::File(file) => file,
        };
        if let Some(why) = &file.why_read_only {
            return Err(ToolError::failed(format!("cannot change {shown}: {why}")));
        }
        match self.permit.cx().file_views().view_state(&self.path, &file.stamp()) {
            ViewState::Current => Ok(Some(file)),
            ViewState::Never => Err(ToolError::failed(format!(
                "{shown} exists and was not read yet; read it first, so that nothing in it is lost"
            ))),
            ViewState::Stale => Err(ToolError::failed(format!(
                "{shown} has changed since it was read; read it again before you change it"
            ))),
        }
    }

    /// Writes a text, and records that the model has seen it.
    pub(crate) fn replace(
        &self,
        write_target: WriteTarget,
        before: Option<&FileHandle>,
        text: &str,
    ) -> Result<(), ToolError> {
        let cx = self.permit.cx();
        let may_continue = || !cx.cancel().is_cancelled();
        let stamp = write_target
            .replace(before, text.as_bytes(), may_continue)
            .map_err(|cause| self.cannot("write", &cause))?;
        cx.file_views().record(&self.path, stamp);
        if text.len() <= MAX_DIFF_BYTES {
            cx.file_views().record_written(&self.path, text.into());
        }
        Ok(())
    }

    /// A remark if the file has other names: they keep the old content.
    pub(crate) fn other_names(before: &FileHandle) -> &'static str {
        match before.other_names() {
            0 => "",
            _ => "; it has other names (hard links), which keep the old text",
        }
    }
}

/// The error for an input that is refused.
pub(crate) fn refused(why: String) -> ToolError {
    ToolError::new(ToolErrorKind::InvalidArgs, why)
}

/// The diff of two texts, in the form of `diff -u`.
pub(crate) fn unified_diff(before: &str, after: &str, shown: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before, after);
    let (from, to) = (format!("a/{shown}"), format!("b/{shown}"));
    diff.unified_diff().context_radius(3).header(&from, &to).to_string()
}

/// Reads a file again after the hooks at `tool.post`. Their changes count as seen, and the model
/// gets a note with the difference.
pub(crate) fn report_hook_changes<'a>(
    event: &'a ToolPostEvent,
    cx: &'a Cx,
) -> AfterHooksFuture<'a> {
    let Some(path) = event.facts.writes.first().filter(|_| !event.is_error) else {
        return Box::pin(std::future::ready(()));
    };
    let (path, cx) = (path.clone(), cx.clone());
    Box::pin(async move {
        let _ = tokio::task::spawn_blocking(move || recheck_file(&path, &cx)).await;
    })
}

fn recheck_file(path: &Path, cx: &Cx) {
    let written = cx.file_views().take_written(path);
    let state = WriteTarget::find(path).and_then(|write_target| write_target.state());
    let Ok(FileState::File(file)) = state else { return };
    if cx.file_views().view_state(path, &file.stamp()) != ViewState::Stale {
        return;
    }
    cx.file_views().record(path, file.stamp());
    let shown = paths::format_path(path, cx.workspace());
    let now = file.bytes.as_deref().and_then(|bytes| str::from_utf8(bytes).ok());
    let message = match (written, now) {
        (Some(written), Some(now)) if now.len() <= MAX_DIFF_BYTES => {
            unified_diff(&written, now, &shown)
        }
        _ => format!("read {shown} again before you change it"),
    };
    cx.note(format!("a hook changed {shown} after it was written:\n{}", message.trim_end()));
}
