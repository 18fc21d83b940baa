//! `destructive-commands` and `not-understood`: ask if the tool itself has doubts about a call, regardless of
//! rules, modes and approvals.

use crate::{
    agent::cx::Cx,
    hooks::{
        handler::named,
        points::tool_pre::{ToolPre, ToolPreEvent},
    },
    permission::{facts::Doubt, verdict::Verdict},
    registry::Registry,
};

/// Registers the gates.
pub(crate) fn register(registry: &mut Registry) {
    let destructive = named("destructive-commands", destructive_commands)
        .description("Asks before a call destroys data that cannot be restored.");
    let unclear = named("not-understood", not_understood)
        .description("Asks if the effects of a call are not known beforehand.");
    registry.gate(ToolPre, destructive).gate(ToolPre, unclear);
}

fn destructive_commands(call: &ToolPreEvent, _: &Cx) -> Verdict {
    ask(call, |doubt| match doubt {
        Doubt::Destructive(what) => Some(what.clone()),
        Doubt::NotUnderstood(_) | Doubt::Unknown(_) => None,
    })
}

fn not_understood(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let is_enforced =
        call.facts.may_run_unknown_words() && cx.file_rules().are_enforceable(cx.workspace());
    ask(call, |doubt| match doubt {
        Doubt::Unknown(_) if is_enforced => None,
        Doubt::NotUnderstood(why) | Doubt::Unknown(why) => {
            Some(format!("its effects are not known beforehand: {why}"))
        }
        Doubt::Destructive(_) => None,
    })
}

/// Asks with the first doubt of a kind, and says how many more there are.
fn ask(call: &ToolPreEvent, describe: impl Fn(&Doubt) -> Option<String>) -> Verdict {
    let mut doubts = call.facts.doubts.iter().filter_map(describe);
    match (doubts.next(), doubts.count()) {
        (None, _) => Verdict::Pass,
        (Some(first), 0) => Verdict::ask(first),
        (Some(first), more) => Verdict::ask(format!("{first}; and {more} more")),
    }
}
