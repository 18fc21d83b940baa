//! `list`: shows the contents of a folder.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    fs::{paths, workspace::Workspace},
    history::outcome::ToolErrorKind,
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::facts::Facts,
    tool::{Tool, ToolFuture, permit::Permit},
};

/// The greatest number of names in a result.
const MAX_NAMES: usize = 1000;

/// The tool `list {path?}`.
pub struct List(ToolSpec);

impl Default for List {
    fn default() -> Self {
        List(ToolSpec::new(
            "list",
            "List the contents of a folder of the project; without `path`, of the project itself. \
             Folders end in `/`, links in `@`.",
            json!({
                "type": "object",
                "properties": {"path": {"type": "string", "minLength": 1}},
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for List {
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
            let folder = permit.facts().reads.first().cloned().unwrap_or_default();
            let shown = paths::format_path(&folder, permit.cx().workspace());
            let result = tokio::task::spawn_blocking(move || list(&folder, &shown)).await;
            result.unwrap_or_else(|cause| Err(ToolError::failed(cause.to_string())))
        })
    }
}

fn list(folder: &Path, shown: &str) -> Result<ToolOutput, ToolError> {
    let to_error = |cause: std::io::Error| {
        let kind = match cause.kind() {
            std::io::ErrorKind::NotFound => ToolErrorKind::NotFound,
            _ => ToolErrorKind::Failed,
        };
        ToolError::new(kind, format!("cannot list {shown}: {cause}"))
    };
    let mut names = entries(folder).map_err(to_error)?;
    names.sort_unstable();
    let left_out = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    if left_out > 0 {
        names.push(format!("… and {left_out} more"));
    }
    Ok(if names.is_empty() { format!("{shown} is empty").into() } else { names.join("\n").into() })
}

/// Returns the names in a folder, each with a mark for its type.
fn entries(folder: &Path) -> std::io::Result<Vec<String>> {
    use rustix::fs::FileType;
    let entries = crate::fs::open::Folder::open(folder)?.entries()?.into_iter();
    let shown = entries.map(|(name, kind)| {
        let mark = match kind {
            FileType::Directory => "/",
            FileType::Symlink => "@",
            _ => "",
        };
        format!("{}{mark}", Path::new(&name).display())
    });
    Ok(shown.collect())
}
