//! The tool `glob`: finds files by a path pattern.

use cotter::{
    Permit, Tool, ToolError, ToolOutput, ToolSpec, Workspace, fs::paths,
    history::outcome::ToolErrorKind, permission::facts::Facts, tool::ToolFuture,
};
use rustix::fs::FileType;
use serde_json::{Value, json};

use crate::files::{
    change::refused,
    walk::{FileWalk, Pattern},
};

/// The most paths in a result.
const MAX_PATHS: usize = 1000;

/// The tool `glob {pattern, path?}`.
pub struct Glob(ToolSpec);

impl Default for Glob {
    fn default() -> Self {
        Glob(ToolSpec::new(
            "glob",
            "Find files of the project by a pattern over their paths below `path` (the working folder \
             without it): `src/**/*.rs`, `*.{toml,lock}`. A pattern without a slash matches at any depth. \
             Ignored files are left out; so are hidden files, unless the pattern names them.",
            json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "minLength": 1},
                    "path": {"type": "string", "minLength": 1}
                },
                "required": ["pattern"],
                "additionalProperties": false
            }),
        ))
    }
}

impl Tool for Glob {
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
            let done = tokio::task::spawn_blocking(move || glob(&permit)).await;
            done.unwrap_or_else(|cause| Err(ToolError::failed(cause.to_string())))
        })
    }
}

fn glob(permit: &Permit) -> Result<ToolOutput, ToolError> {
    let workspace = permit.cx().workspace();
    let root = permit.facts().reads.first().cloned().unwrap_or_default();
    let pattern = Pattern::parse(permit.input()["pattern"].as_str().unwrap_or_default())?;
    let walk = FileWalk::new(&root, workspace, Some(&pattern), permit.cx().cancel());
    let mut walk =
        walk.map_err(|cause| cannot("look into", &paths::format_path(&root, workspace), &cause))?;
    let (mut paths_found, mut more) = (vec![], 0);
    while let Some(found) = walk.next() {
        let is_file = matches!(found.kind, FileType::RegularFile | FileType::Symlink);
        if !is_file || !pattern.matches(&found.below) {
            continue;
        }
        if paths_found.len() < MAX_PATHS {
            paths_found.push(paths::format_path(&found.path, workspace));
        } else {
            more += 1;
        }
    }
    Ok(match (paths_found.is_empty(), more) {
        (true, _) => "no file matches; ignored and hidden files are left out".into(),
        (false, 0) => paths_found.join("\n").into(),
        (false, more) => {
            format!("{}\n… and {more} more; narrow the pattern", paths_found.join("\n")).into()
        }
    })
}

/// The error for a folder or file that cannot be searched.
pub(crate) fn cannot(what: &str, shown: &str, cause: &std::io::Error) -> ToolError {
    match cause.kind() {
        std::io::ErrorKind::NotADirectory => refused(format!("{shown} is not a folder")),
        std::io::ErrorKind::NotFound => {
            ToolError::new(ToolErrorKind::NotFound, format!("there is no {shown}"))
        }
        _ => ToolError::failed(format!("cannot {what} {shown}: {cause}")),
    }
}
