//! `glob`: the files whose paths fit a pattern.

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

/// The most paths that are told.
const MOST: usize = 1000;

/// The tool `glob {pattern, path?}`.
pub struct Glob(ToolSpec);

impl Default for Glob {
    fn default() -> Self {
        Glob(ToolSpec::new(
            "glob",
            "Find files of the project by a pattern over their paths below `path` (the working folder \
             without it): `src/**/*.rs`, `*.{toml,lock}`. A pattern without a slash holds at any depth. \
             What ignore files name is left out; so is what is hidden, unless the pattern names it.",
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

    fn effects(&self, input: &Value, place: &Workspace) -> Facts {
        Facts::of_paths(&[input["path"].as_str().unwrap_or(".")], &[], place)
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
    let place = permit.cx().place();
    let root = permit.facts().reads.first().cloned().unwrap_or_default();
    let pattern = Pattern::parse(permit.input()["pattern"].as_str().unwrap_or_default())?;
    let walk = FileWalk::new(&root, place, Some(&pattern), permit.cx().cancel());
    let mut walk =
        walk.map_err(|cause| cannot("look into", &paths::shown(&root, place), &cause))?;
    let (mut told, mut more) = (vec![], 0);
    while let Some(found) = walk.next() {
        let is_file = matches!(found.kind, FileType::RegularFile | FileType::Symlink);
        if !is_file || !pattern.matches(&found.below) {
            continue;
        }
        if told.len() < MOST {
            told.push(paths::shown(&found.path, place));
        } else {
            more += 1;
        }
    }
    Ok(match (told.is_empty(), more) {
        (true, _) => "no file fits; what ignore files name or what is hidden is left out".into(),
        (false, 0) => told.join("\n").into(),
        (false, more) => {
            format!("{}\n… and {more} more; narrow the pattern", told.join("\n")).into()
        }
    })
}

/// The words for a folder or a file that cannot be searched.
pub(crate) fn cannot(what: &str, shown: &str, cause: &std::io::Error) -> ToolError {
    match cause.kind() {
        std::io::ErrorKind::NotADirectory => refused(format!("{shown} is not a folder")),
        std::io::ErrorKind::NotFound => {
            ToolError::new(ToolErrorKind::NotFound, format!("there is no {shown}"))
        }
        _ => ToolError::failed(format!("cannot {what} {shown}: {cause}")),
    }
}
