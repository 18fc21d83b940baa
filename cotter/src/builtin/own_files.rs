//! `own-files`: what can answer, trust or loosen is closed to every call, and so is what it could be
//! learnt from.

use std::path::Path;

use crate::{
    cx::{Cx, Place},
    ext::{Registry, named},
    points::{ToolCalled, ToolPre, Verdict},
};

/// Registers the gate.
pub(super) fn register(registry: &mut Registry) {
    let gate = named("own-files", own_files).description(
        "Blocks calls that touch settings, keys, sessions and whatever else is closed; asks where a \
         command could reach them through a folder that holds them.",
    );
    registry.on(ToolPre, gate);
}

fn own_files(call: &ToolCalled, cx: &Cx) -> Verdict {
    let (place, facts) = (cx.place(), &call.facts);
    let closed = facts.reads.iter().find(|path| place.is_closed(path));
    let written = || facts.writes.iter().find(|path| place.is_closed_to_writes(path));
    match closed.or_else(written) {
        Some(path) => Verdict::block(format!("{} is closed to every call", path.display())),
        None => above(call, place),
    }
}

/// A folder that holds something closed cannot be moved away with it; and where nothing confines a
/// command, it could read all that such a folder holds, the one it runs in included.
fn above(call: &ToolCalled, place: &Place) -> Verdict {
    let facts = &call.facts;
    let holds = |path: &Path| place.closed().any(|closed| closed.starts_with(path));
    let is_root = |path: &Path| place.write_roots().any(|root| root == path);
    let moved = facts.writes.iter().map(|path| path.as_path());
    let moved = moved.filter(|path| !is_root(path)).find(|path| holds(path));
    let free = !facts.commands.is_empty() && !facts.confined;
    let read = || facts.reads.iter().map(|path| path.as_path()).chain([place.cwd()]);
    match moved.or_else(|| read().find(|path| free && holds(path))) {
        Some(path) => {
            let shown = crate::paths::shown(path, place);
            Verdict::ask(format!("{shown} holds what is closed to every call"))
        }
        None => Verdict::Pass,
    }
}
