//! `own-files`: what can answer, trust or loosen is closed to every call, and so is what it could be
//! learnt from.

use crate::{
    cx::Cx,
    ext::{Registry, named},
    points::{ToolCalled, ToolPre, Verdict},
};

/// Registers the gate.
pub(super) fn register(registry: &mut Registry) {
    let gate = named("own-files", own_files).description(
        "Blocks calls that touch settings, keys, sessions and whatever else is closed.",
    );
    registry.on(ToolPre, gate);
}

fn own_files(call: &ToolCalled, cx: &Cx) -> Verdict {
    let (place, facts) = (cx.place(), &call.facts);
    let closed = facts.reads.iter().find(|path| place.is_closed(path));
    let written = || facts.writes.iter().find(|path| place.is_closed_to_writes(path));
    match closed.or_else(written) {
        Some(path) => Verdict::block(format!("{} is closed to every call", path.display())),
        None => Verdict::Pass,
    }
}
