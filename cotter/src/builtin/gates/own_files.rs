//! `own-files`: blocks every call that touches a closed file. Closed files are settings, keys, sessions and
//! the like: with them a call could answer, trust or loosen, or learn how to do so.

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
        "Blocks calls that touch settings, keys, sessions and whatever else is closed; asks where a \
         command could reach them through a folder that holds them.",
    );
    registry.on(ToolPre, gate);
}

fn own_files(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let (workspace, facts) = (cx.workspace(), &call.facts);
    let closed = facts.reads.iter().find(|path| workspace.is_closed(path));
    let written = || facts.writes.iter().find(|path| workspace.is_closed_to_writes(path));
    if let Some(path) = closed.or_else(written) {
        return Verdict::block(format!("{} is closed to every call", path.display()));
    }
    let mut named = facts.reads.iter().chain(&facts.writes);
    match named.find(|path| is_hard_link_to_closed(path, workspace)) {
        Some(path) => {
            let shown = crate::fs::paths::format_path(path, workspace);
            Verdict::block(format!("{shown} is another name of what is closed to every call"))
        }
        None => check_parent_folders(call, workspace),
    }
}

/// The limit of files that are compared in the search for a hard link.
const MAX_COMPARED_FILES: usize = 20_000;

/// True if a file with several names (hard links) is one of the closed files.
#[cfg(unix)]
fn is_hard_link_to_closed(path: &Path, workspace: &Workspace) -> bool {
    use std::{fs, os::unix::fs::MetadataExt};
    let Ok(about) = fs::metadata(path) else { return false };
    if !about.is_file() || about.nlink() < 2 {
        return false;
    }
    let mut left: Vec<_> = workspace.closed().map(Path::to_owned).collect();
    for _ in 0..MAX_COMPARED_FILES {
        let Some(path) = left.pop() else { return false };
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry| entry.path()));
            }
            Ok(found) if (found.dev(), found.ino()) == (about.dev(), about.ino()) => return true,
            _ => {}
        }
    }
    // Too many files to compare all of them: assume that it is one of them.
    true
}

#[cfg(not(unix))]
fn is_another_name(_: &Path, _: &Workspace) -> bool {
    false
}

/// Asks if a call could move a folder that contains a closed file. Also asks if an unconfined command could
/// read such a folder, its working folder included.
fn check_parent_folders(call: &ToolPreEvent, workspace: &Workspace) -> Verdict {
    let facts = &call.facts;
    let holds = |path: &Path| workspace.closed().any(|closed| closed.starts_with(path));
    let is_root = |path: &Path| workspace.write_roots().any(|root| root == path);
    let moved = facts.writes.iter().map(|path| path.as_path());
    let moved = moved.filter(|path| !is_root(path)).find(|path| holds(path));
    let free = !facts.commands.is_empty() && !facts.confined;
    let read = || facts.reads.iter().map(|path| path.as_path()).chain([workspace.cwd()]);
    match moved.or_else(|| read().find(|path| free && holds(path))) {
        Some(path) => {
            let shown = crate::fs::paths::format_path(path, workspace);
            Verdict::ask(format!("{shown} holds what is closed to every call"))
        }
        None => Verdict::Pass,
    }
}
