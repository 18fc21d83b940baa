//! `project-roots`: no call reads outside the roots or writes outside the project. Every kernel gate has
//! these parts: a pure function over a call's facts, and its registration.

use crate::{
    agent::cx::Cx,
    hooks::{
        handler::named,
        points::tool_pre::{ToolPre, ToolPreEvent},
    },
    permission::verdict::Verdict,
    registry::Registry,
};

/// Registers the gate.
pub(crate) fn register(registry: &mut Registry) {
    let gate = named("project-roots", project_roots)
        .description("Blocks calls that read outside the roots or write outside the project.");
    registry.on(ToolPre, gate);
}

/// Compares paths by component. Tools give absolute paths with links resolved.
fn project_roots(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let (workspace, facts) = (cx.workspace(), &call.facts);
    let outside = facts.reads.iter().find(|path| !workspace.is_readable(path));
    match outside.or_else(|| facts.writes.iter().find(|path| !workspace.is_writable(path))) {
        Some(path) => Verdict::block(format!("{} is outside the project", path.display())),
        None => Verdict::Pass,
    }
}
