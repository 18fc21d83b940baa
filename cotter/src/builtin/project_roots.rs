//! `project-roots`: no call reads outside the roots or writes outside the project. The pattern for
//! every kernel gate: a pure function over a call's facts, and its registration.

use std::path::Path;

use crate::{
    cx::Cx,
    ext::{Registry, named},
    points::{ToolCalled, ToolPre, Verdict},
};

/// Registers the gate.
pub(super) fn register(registry: &mut Registry) {
    let gate = named("project-roots", project_roots)
        .description("Blocks calls that read outside the roots or write outside the project.");
    registry.on(ToolPre, gate);
}

/// Paths are compared by component; tools give them absolute, with links resolved.
fn project_roots(call: &ToolCalled, cx: &Cx) -> Verdict {
    let place = cx.place();
    let readable = |path: &Path| place.read_roots().any(|root| path.starts_with(root));
    let facts = &call.facts;
    if let Some(path) = facts.reads.iter().find(|path| !readable(path)) {
        return Verdict::block(format!("{} is outside the project", path.display()));
    }
    if let Some(path) = facts.writes.iter().find(|path| !path.starts_with(place.project())) {
        return Verdict::block(format!("{} is outside the project", path.display()));
    }
    Verdict::Pass
}
