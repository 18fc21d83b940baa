//! What `write` and `edit` share: whether a file may be changed, how its change is told, and what hooks
//! made of it afterwards.

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
    tool::SettleFuture,
};
use similar::TextDiff;

use crate::files::disk::{FileHandle, FileState, WriteTarget};

/// The longest text of which a difference is told after hooks changed it.
const TOLD_BYTES: usize = 256 * 1024;

/// How long the shortest difference is looked for; after that any will do.
const LIMIT: Duration = Duration::from_secs(1);

/// The file a call changes: the path that was decided on, and how people know it.
pub(crate) struct Target<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) path: PathBuf,
    pub(crate) shown: String,
}

impl<'a> Target<'a> {
    pub(crate) fn of(permit: &'a Permit) -> Result<Self, ToolError> {
        let path = permit.facts().writes.first().cloned().unwrap_or_default();
        let shown = paths::shown(&path, permit.cx().place());
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(refused(format!("{shown:?}: a path cannot hold a zero byte")));
        }
        Ok(Target { permit, path, shown })
    }

    /// The words for something that went wrong with the file.
    pub(crate) fn cannot(&self, what: &str, cause: &io::Error) -> ToolError {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => ToolErrorKind::NotFound,
            io::ErrorKind::Interrupted => ToolErrorKind::Cancelled,
            _ => ToolErrorKind::Failed,
        };
        ToolError::new(kind, format!("cannot {what} {}: {cause}", self.shown))
    }

    /// The file that stands there, where the model knows it as it is.
    pub(crate) fn known(&self, spot: &WriteTarget) -> Result<Option<Box<FileHandle>>, ToolError> {
        let shown = &self.shown;
        let held = match spot.stands().map_err(|cause| self.cannot("change", &cause))? {
            FileState::Nothing => return Ok(None),
            FileState::Other(kind) => {
                return Err(refused(format!("{shown} is {kind}, not a file")));
            }
            FileState::File(held) => held,
        };
        if let Some(why) = &held.closed {
            return Err(ToolError::failed(format!("cannot change {shown}: {why}")));
        }
        match self.permit.cx().seen().sight(&self.path, &held.mark()) {
            ViewState::Current => Ok(Some(held)),
            ViewState::Never => Err(ToolError::failed(format!(
                "{shown} exists and was not read yet; read it first, so that nothing in it is lost"
            ))),
            ViewState::Stale => Err(ToolError::failed(format!(
                "{shown} has changed since it was read; read it again before you change it"
            ))),
        }
    }

    /// Puts a text there, and notes that the model knows it.
    pub(crate) fn put(
        &self,
        spot: WriteTarget,
        before: Option<&FileHandle>,
        text: &str,
    ) -> Result<(), ToolError> {
        let cx = self.permit.cx();
        let go_on = || !cx.cancel().is_cancelled();
        let mark = spot
            .replace(before, text.as_bytes(), go_on)
            .map_err(|cause| self.cannot("write", &cause))?;
        cx.seen().note(&self.path, mark);
        if text.len() <= TOLD_BYTES {
            cx.seen().note_written(&self.path, text.into());
        }
        Ok(())
    }

    /// A word where the file had other names: they keep what it was.
    pub(crate) fn other_names(before: &FileHandle) -> &'static str {
        match before.other_names() {
            0 => "",
            _ => "; it has other names (hard links), which keep the old text",
        }
    }
}

/// The input asks for something that is not done.
pub(crate) fn refused(why: String) -> ToolError {
    ToolError::new(ToolErrorKind::InvalidArgs, why)
}

/// The difference between two texts, as `diff -u` shows it.
pub(crate) fn difference(before: &str, after: &str, shown: &str) -> String {
    let diff = TextDiff::configure().timeout(LIMIT).diff_lines(before, after);
    let (from, to) = (format!("a/{shown}"), format!("b/{shown}"));
    diff.unified_diff().context_radius(3).header(&from, &to).to_string()
}

/// Looks again at a file after the hooks at `tool.post`. What they made of it counts as seen, and the
/// model is told what is different.
pub(crate) fn settle<'a>(ran: &'a ToolPostEvent, cx: &'a Cx) -> SettleFuture<'a> {
    let Some(path) = ran.facts.writes.first().filter(|_| !ran.is_error) else {
        return Box::pin(std::future::ready(()));
    };
    let (path, cx) = (path.clone(), cx.clone());
    Box::pin(async move {
        let _ = tokio::task::spawn_blocking(move || look_again(&path, &cx)).await;
    })
}

fn look_again(path: &Path, cx: &Cx) {
    let written = cx.seen().take_written(path);
    let stands = WriteTarget::find(path).and_then(|spot| spot.stands());
    let Ok(FileState::File(held)) = stands else { return };
    if cx.seen().sight(path, &held.mark()) != ViewState::Stale {
        return;
    }
    cx.seen().note(path, held.mark());
    let shown = paths::shown(path, cx.place());
    let now = held.bytes.as_deref().and_then(|bytes| str::from_utf8(bytes).ok());
    let told = match (written, now) {
        (Some(written), Some(now)) if now.len() <= TOLD_BYTES => difference(&written, now, &shown),
        _ => format!("read {shown} again before you change it"),
    };
    cx.note(format!("a hook changed {shown} after it was written:\n{}", told.trim_end()));
}
