//! `project-roots`: no call reads outside the read roots or writes outside the write roots of the workspace.
//! The project is one of both; settings and flags can add others.
//!
//! Every kernel gate has two parts: a function that decides from a call's facts and the context, without side
//! effects, and the registration of this function.

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
    registry.gate(ToolPre, gate);
}

/// Blocks a call if one of its paths is outside the roots. The paths in a call's facts are absolute, with
/// links resolved, as [`Workspace`](crate::fs::workspace::Workspace) needs them.
fn project_roots(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let (workspace, facts) = (cx.workspace(), &call.facts);
    let read_outside = facts.reads.iter().find(|path| !workspace.is_readable(path));
    let find_write_outside = || facts.writes.iter().find(|path| !workspace.is_writable(path));
    match read_outside.or_else(find_write_outside) {
        Some(path) => Verdict::block(format!("{} is outside the project", path.display())),
        None => Verdict::Pass,
    }
}
