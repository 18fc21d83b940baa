//! The tool `write`: writes a whole file atomically.

use cotter::{
    Cx, Permit, Tool, ToolError, ToolOutput, ToolSpec, Workspace,
    hooks::points::ToolPostEvent,
    permission::facts::Facts,
    tool::{AfterHooksFuture, ToolFuture},
};
use serde_json::{Value, json};

use crate::files::{
    change::{Target, report_hook_changes},
    disk::WriteTarget,
};

/// The tool `write {path, content}`.
pub struct Write(ToolSpec);

impl Default for Write {
    fn default() -> Self {
        Write(ToolSpec::new(
            "write",
            "Write a file of the project: `content` is all it will hold. Folders that are missing are \
             made. A file that exists must have been read before; to change a part of it use `edit`.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "content": {"type": "string"}
                },
                "required": ["path", "content"],
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        Facts::of_paths(&[], &[input["path"].as_str().unwrap_or_default()], workspace)
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || write(&permit)).await;
            done.unwrap_or_else(|cause| Err(ToolError::failed(cause.to_string())))
        })
    }

    fn after_hooks<'a>(&'a self, event: &'a ToolPostEvent, cx: &'a Cx) -> AfterHooksFuture<'a> {
        report_hook_changes(event, cx)
    }
}

fn write(permit: &Permit) -> Result<ToolOutput, ToolError> {
    let target = Target::of(permit)?;
    let content = permit.input()["content"].as_str().unwrap_or_default();
    let write_target =
        WriteTarget::make(&target.path).map_err(|cause| target.cannot("write", &cause))?;
    let before = target.check_seen(&write_target)?;
    let lines = match content.lines().count() {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    };
    target.replace(write_target, before.as_deref(), content)?;
    let shown = &target.shown;
    Ok(match &before {
        None => format!("created {shown}, {lines}").into(),
        Some(before) if before.bytes.as_deref() == Some(content.as_bytes()) => {
            format!("{shown} held that already, {lines}").into()
        }
        Some(before) => format!("replaced {shown}, {lines}{}", Target::other_names(before)).into(),
    })
}
