//! The API for hosts: crates that read hooks, agents and skills from elsewhere and run them as if they were
//! linked in. A program that embeds an agent does not need it.
//!
//! Each item names the crate that uses it. The list is short on purpose: before you add an item, look for a
//! way through the public types.

use std::sync::Arc;

use crate::{
    agent::{
        Agent,
        cx::{Cx, REMARK_CHARS},
    },
    hooks::{
        external::{ExternalHook, ExternalHookSpec, HookRequest},
        handler::CaveatKind,
        points::{Point, PointId},
    },
    invoke::{agent_config::AgentConfig, named_item::NameKind},
    registry::Registry,
    text,
};

pub use crate::{
    hooks::external::{
        answer::{is_no, is_yes, no_known_key},
        refusal::{find_refusal, is_refusal_word, text_has_refusal},
    },
    permission::tool_names::{OTHER_NAMES, check_tool_names, corrected_name, our_name, our_tools},
};

/// Returns the event of a hook request as in-process handlers see it; `None` at a point other than `P`.
///
/// Used by `cotter-files` for data that a payload omits: facts, questions, the end of a turn.
pub fn event<P: Point>(request: &HookRequest) -> Option<&P::Event> {
    request.event::<P>()
}

/// Records a caveat about a hook's answer, for a failure that the answer does not show. The last call wins.
///
/// Used by `cotter-files` for hooks that failed and pass, were not started, or whose answer was used in part.
pub fn set_caveat(cx: &Cx, kind: CaveatKind, message: &str) {
    cx.set_caveat(kind, message);
}

/// Takes the last remark of this handler ([`Cx::remark`]).
///
/// Used by `cotter-files` to quote the standard error of a hook that took too long.
pub fn take_remark(cx: &Cx) -> Option<Box<str>> {
    cx.take_remark()
}

/// Stops the clock of this handler until the returned value is dropped. Pauses may overlap.
///
/// Used by `cotter-files` for hooks that wait until their program may start.
#[must_use]
pub fn pause_clock(cx: &Cx) -> impl Send + use<> {
    cx.pause()
}

/// Keeps the end of a long text as the remark of this handler. [`Cx::remark`] would keep its beginning.
///
/// Used by `cotter-files` for the standard error of a program that was killed.
pub fn remark_end(cx: &Cx, remark: &str) {
    cx.remark(&text::cut_start(remark.trim(), REMARK_CHARS));
}

/// Shows a message to the person, at most once per step for one subject and text.
///
/// Used by `cotter-files` for hooks that are asked again about the same call.
pub fn notify_once(cx: &Cx, subject: String, message: &str) {
    cx.notify_once(subject, message);
}

/// Returns the id of the session at the root of a tree of subagents: the person's own session.
///
/// Used by `cotter-files` for payloads of dialects that know one session only.
pub fn root_session_id(cx: &Cx) -> &str {
    cx.root_session().id()
}

/// True if this is the run of a subagent. The session id does not show it: a subagent may share its parent's.
///
/// Used by `cotter-files` for events that differ for subagents.
pub fn is_subagent(cx: &Cx) -> bool {
    cx.session().agent.parent().is_some()
}

/// Returns the agent of this run.
///
/// Used by `cotter-files` for the permission mode in a payload.
pub fn agent(cx: &Cx) -> &Agent {
    &cx.session().agent
}

/// Ends the run of the root session with a reason, which its end reports. The first reason wins, and a reason
/// after an abort does not count. Returns false if no run is in progress.
///
/// Used by `cotter-files` for hooks that may stop the whole run.
pub fn end_run(cx: &Cx, reason: String) -> bool {
    cx.root_session().end_run(reason)
}

/// Registers another point of an external hook under a name that the same hook already has.
///
/// Used by `cotter-files` for hooks of a dialect whose one event covers several points.
pub fn register_another_point(
    unit: &mut Registry,
    point: PointId,
    spec: ExternalHookSpec,
    hook: Arc<dyn ExternalHook>,
) {
    unit.register_another_point(point, spec, hook);
}

/// Returns the current configuration of an agent.
///
/// Used by `cotter-files` for `{{mode}}` in templates.
pub fn agent_config(agent: &Agent) -> Arc<AgentConfig> {
    agent.config()
}

/// Checks the name of a hook, skill, subagent or command; the error says what is wrong.
///
/// Used by `cotter-files` when it reads a name from a file.
pub fn check_name(kind: NameKind, name: &str) -> Result<(), String> {
    crate::invoke::named_item::check_name(kind, name)
}

/// Checks globs over tool names; the error says which glob is invalid and why.
///
/// Used by `cotter-files` when it reads the tools of a hook or an agent from a file.
pub fn check_globs(globs: &[String]) -> Result<(), String> {
    crate::permission::tool_glob::tool_globs(globs).map(drop).map_err(|cause| cause.to_string())
}
