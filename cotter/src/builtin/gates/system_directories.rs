//! `system-directories`: blocks writes to system directories, whatever the roots are.

use crate::{
    agent::cx::Cx,
    fs::workspace::is_system,
    hooks::{
        handler::named,
        points::tool_pre::{ToolPre, ToolPreEvent},
    },
    permission::verdict::Verdict,
    registry::Registry,
};

/// Registers the gate.
pub(crate) fn register(registry: &mut Registry) {
    let gate = named("system-directories", system_directories)
        .description("Blocks calls that write to system directories, such as /etc, /usr and /dev.");
    registry.gate(ToolPre, gate);
}

fn system_directories(call: &ToolPreEvent, _: &Cx) -> Verdict {
    match call.facts.writes.iter().find(|path| is_system(path)) {
        Some(path) => Verdict::block(format!("{} is in a system directory", path.display())),
        None => Verdict::Pass,
    }
}
