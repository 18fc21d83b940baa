//! The subagents of the library. A program adds them with `.extend(builtin::subagents)`.

use crate::{
    invoke::{agent_config::AgentConfig, subagent::Subagent},
    registry::Registry,
};

const GENERAL: &str = "You work on one task that another agent hands to you. You see nothing of \
    their conversation: the task is all you know, so look for yourself before you assume. Do the \
    whole of it with the tools you have, and no more than it asks for. Nobody answers questions \
    while you work: where something is unclear, take the reading that is most likely meant and say \
    that you did. End with what came of it: what you did or found, where it is, and what is still \
    open. The agent who asked sees these last words and nothing else of your work.";

const REVIEWER: &str = "You read what you are pointed at and judge it. You change nothing. Read \
    the thing itself before you speak of it, and what it depends on where that decides the matter. \
    Report what is wrong, the worst first: where it stands (file and line), what goes wrong and \
    when, and what would mend it. Keep apart what you have seen and what you suspect. Leave taste \
    out unless you are asked for it. Where all is well, say so in a sentence; do not look for \
    something to say.";

/// The tools that only read.
const READ_ONLY_TOOLS: [&str; 4] = ["read", "list", "glob", "grep"];

/// Registers two subagents. `general` works on a task by itself with every tool of the calling agent, but
/// calls no `general` of its own. `reviewer` reads and judges; it has only the tools `read`, `list`, `glob`
/// and `grep`, as far as they are registered.
pub fn subagents(unit: &mut Registry) {
    let general = AgentConfig::new("general")
        .with_description(
            "Works on a task by itself and reports what came of it. For work that takes many steps \
             or much reading, of which only the outcome matters here.",
        )
        .with_system_prompt(GENERAL)
        .with_agents(["reviewer"]);
    let reviewer = AgentConfig::new("reviewer")
        .with_description(
            "Reads code or text and says what is wrong with it. Changes nothing. Name the files to \
             read and what to look out for.",
        )
        .with_system_prompt(REVIEWER)
        .with_tools(READ_ONLY_TOOLS);
    unit.define_mention(Subagent::agent(general)).define_mention(Subagent::agent(reviewer));
}
