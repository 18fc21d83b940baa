//! `own-files`: blocks every call that touches a closed file. Closed files are settings, keys, sessions and
//! others with which a call could answer a question, give trust or loosen the policy.

use std::path::Path;

use crate::{
    agent::cx::Cx,
    fs::workspace::Workspace,
    hooks::{
        handler::named,
        points::tool_pre::{ToolPre, ToolPreEvent},
    },
    permission::verdict::Verdict,
    registry::Registry,
};

/// Registers the gate.
pub(crate) fn register(registry: &mut Registry) {
    let gate = named("own-files", own_files).description(
        "Blocks calls that touch closed files, such as settings, keys and sessions; asks if a \
         command could reach them through a folder that contains them.",
    );
    registry.gate(ToolPre, gate);
}

fn own_files(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let (workspace, facts) = (cx.workspace(), &call.facts);
    let closed_read = facts.reads.iter().find(|path| workspace.is_closed(path));
    let closed_write = || facts.writes.iter().find(|path| workspace.is_closed_to_writes(path));
    if let Some(path) = closed_read.or_else(closed_write) {
        return Verdict::block(format!("{} is closed to every call", path.display()));
    }
    let mut paths = facts.reads.iter().chain(&facts.writes);
    match paths.find(|path| is_hard_link_to_closed(path, workspace)) {
        Some(path) => {
            let shown = crate::fs::paths::format_path(path, workspace);
            Verdict::block(format!("{shown} is a hard link to a file that is closed to every call"))
        }
        None => check_parent_folders(call, workspace),
    }
}

/// The limit of files that are compared in the search for a hard link.
const MAX_COMPARED_FILES: usize = 20_000;

/// True if a file with several names (hard links) is one of the closed files.
fn is_hard_link_to_closed(path: &Path, workspace: &Workspace) -> bool {
    use std::{fs, os::unix::fs::MetadataExt};
    let Ok(metadata) = fs::metadata(path) else { return false };
    if !metadata.is_file() || metadata.nlink() < 2 {
        return false;
    }
    let mut pending: Vec<_> = workspace.closed().map(Path::to_owned).collect();
    for _ in 0..MAX_COMPARED_FILES {
        let Some(path) = pending.pop() else { return false };
        match fs::symlink_metadata(&path) {
            Ok(closed) if closed.is_dir() => {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                pending.extend(entries.map(|entry| entry.path()));
            }
            Ok(closed) if (closed.dev(), closed.ino()) == (metadata.dev(), metadata.ino()) => {
                return true;
            }
            _ => {}
        }
    }
    // Too many files to compare all of them: assume that it is one of them.
    true
}

/// Asks if a call could move a folder that contains a closed file. Also asks if an unconfined command could
/// read such a folder, its working folder included.
fn check_parent_folders(call: &ToolPreEvent, workspace: &Workspace) -> Verdict {
    let facts = &call.facts;
    let contains_closed = |path: &Path| workspace.closed().any(|closed| closed.starts_with(path));
    let is_root = |path: &Path| workspace.write_roots().any(|root| root == path);
    let moved = facts.writes.iter().map(|path| path.as_path());
    let moved = moved.filter(|path| !is_root(path)).find(|path| contains_closed(path));
    let is_unconfined = !facts.commands.is_empty() && !facts.confined;
    let read = || facts.reads.iter().map(|path| path.as_path()).chain([workspace.cwd()]);
    match moved.or_else(|| read().find(|path| is_unconfined && contains_closed(path))) {
        Some(path) => {
            let shown = crate::fs::paths::format_path(path, workspace);
            Verdict::ask(format!("{shown} contains files that are closed to every call"))
        }
        None => Verdict::Pass,
    }
}
