//! The subagents of the library. A program adds them with `.extend(builtin::subagents)`.

use crate::{
    invoke::{agent_config::AgentConfig, subagent::Subagent},
    registry::Registry,
};

const GENERAL: &str = "You work on one task that another agent gives you. You see nothing of \
    its conversation: the task is all you know, so look for yourself before you assume anything. \
    Do the whole task with the tools you have, and no more than it asks for. You cannot ask \
    questions: if something is unclear, choose the most likely meaning and say that you did. End \
    with the result: what you did or found, where it is, and what is still open. The agent that \
    called you sees only this last message.";

const REVIEWER: &str = "You review what you are asked to review. You change nothing. Read the \
    thing itself before you comment on it, and the code it depends on if that decides the \
    matter. Report what is wrong, the worst first: where it is (file and line), what goes wrong \
    and when, and how to fix it. Separate what you have verified from what you suspect. Leave \
    out matters of taste unless you are asked for them. If nothing is wrong, say so in one \
    sentence; do not look for something to say.";

/// The tools that only read.
const READ_ONLY_TOOLS: [&str; 4] = ["read", "list", "glob", "grep"];

/// Registers two subagents. `general` works on a task by itself with every tool of the calling agent, but
/// cannot call another `general`. `reviewer` reads and reports; it has only the tools `read`, `list`, `glob`
/// and `grep`, as far as they are registered.
pub fn subagents(unit: &mut Registry) {
    let general = AgentConfig::new("general")
        .with_description(
            "Works on a task by itself and reports the result. For work with many steps or much \
             reading, if only the result matters here.",
        )
        .with_system_prompt(GENERAL)
        .with_agents(["reviewer"]);
    let reviewer = AgentConfig::new("reviewer")
        .with_description(
            "Reviews code or text and reports what is wrong. Changes nothing. Name the files to \
             read and what to look for.",
        )
        .with_system_prompt(REVIEWER)
        .with_tools(READ_ONLY_TOOLS);
    unit.define_mention(Subagent::agent(general)).define_mention(Subagent::agent(reviewer));
}
