//! The meaning of a hook's answer at each point.

use crate::{
    agent::cx::Cx,
    hooks::{
        external::{
            answer::{HookAnswer, HookChange, HookDecision},
            sample::SampleEvent,
        },
        points::{
            Admission, Point,
            compact::{CompactPost, CompactPre, CompactPreChange},
            context::Context,
            error::Error,
            model::{ModelPost, ModelPre},
            permission::{PermissionAnswer, PermissionAsk},
            session::{SessionClose, SessionEnd, SessionOpen, SessionStart},
            subagent::{SubagentEnd, SubagentStart},
            tool_post::{ToolPost, ToolPostChange},
            tool_pre::{ToolPre, ToolPreChange},
            tool_refused::ToolRefused,
            turn_end::{TurnEnd, TurnEndVerdict},
            user_prompt_submit::{UserPromptSubmit, UserPromptSubmitChange},
        },
    },
    model::tools::ToolOutput,
    permission::verdict::Verdict,
};

/// A point at which an external hook can be asked.
pub(crate) trait ExternalPoint: Point + SampleEvent {
    /// Returns the verdict of an answer, if the point takes gates.
    fn verdict(_: &HookAnswer) -> Option<Self::Verdict> {
        None
    }

    /// Returns the change of an answer, if the point takes transforms. A change without a meaning here is an
    /// error.
    fn change(_: &HookAnswer) -> Result<Self::Change, String> {
        Err(format!("nothing can be changed at `{}`", Self::ID))
    }

    /// Returns the answer to a question, if the point takes answers.
    fn answer(_: &HookAnswer) -> Option<Self::Answer> {
        None
    }

    /// True if an answer about one event is valid for the other.
    fn is_same(_: &Self::Event, _: &Self::Event) -> bool {
        false
    }

    /// True if `now` is the result of applying the change to `then`.
    fn is_result_of(_then: &Self::Event, _: &HookChange, _now: &Self::Event) -> bool {
        false
    }

    /// True if the change would leave the event unchanged.
    fn has_no_effect(_: &Self::Event, _: &HookChange) -> bool {
        false
    }

    /// Adds a warning note for a refusal at a point where nothing can be refused. The default ignores the
    /// refusal.
    fn warn(_: &HookAnswer, _: &Cx) {}
}

/// Returns the verdict at points whose gates only pass or block.
fn to_admission(answer: &HookAnswer) -> Admission {
    match answer.block.as_ref().or(answer.ask.as_ref()) {
        Some(reason) => Admission::block(reason),
        None => Admission::Pass,
    }
}

fn add_warning(answer: &HookAnswer, cx: &Cx) {
    if let Some(reason) = answer.block.as_ref().or(answer.ask.as_ref()) {
        let reason = if reason.trim().is_empty() { "it gave no reason" } else { reason };
        cx.note(format!("Warning: {reason}"));
    }
}

impl ExternalPoint for ToolPre {
    fn verdict(answer: &HookAnswer) -> Option<Verdict> {
        Some(match (&answer.block, &answer.ask) {
            (Some(reason), _) => Verdict::block(reason),
            (None, Some(reason)) => Verdict::ask(reason),
            (None, None) => Verdict::Pass,
        })
    }

    fn change(answer: &HookAnswer) -> Result<ToolPreChange, String> {
        Ok(match (&answer.block, &answer.change) {
            (Some(reason), _) => ToolPreChange::Block(reason.clone()),
            // A hook that asks for approval may not answer for the tool.
            (None, Some(HookChange::Result(text))) if answer.ask.is_none() => {
                ToolPreChange::Answer(ToolOutput::from(text.as_str()))
            }
            (None, Some(HookChange::Input(input))) => ToolPreChange::Input(input.clone()),
            _ => ToolPreChange::Keep,
        })
    }

    fn is_same(then: &Self::Event, now: &Self::Event) -> bool {
        then.call_id == now.call_id
            && then.tool_name == now.tool_name
            && then.tool_input == now.tool_input
    }

    fn is_result_of(then: &Self::Event, change: &HookChange, now: &Self::Event) -> bool {
        match change {
            HookChange::Input(input) => then.call_id == now.call_id && *input == *now.tool_input,
            // An answer for the tool leaves the call unchanged.
            HookChange::Result(_) => Self::is_same(then, now),
            _ => false,
        }
    }

    fn has_no_effect(now: &Self::Event, change: &HookChange) -> bool {
        matches!(change, HookChange::Input(input) if *input == *now.tool_input)
    }
}

impl ExternalPoint for UserPromptSubmit {
    fn verdict(answer: &HookAnswer) -> Option<Admission> {
        Some(to_admission(answer))
    }

    fn change(answer: &HookAnswer) -> Result<UserPromptSubmitChange, String> {
        Ok(match (to_admission(answer), &answer.change) {
            (Admission::Block(reason), _) => UserPromptSubmitChange::Block(reason),
            (Admission::Pass, Some(HookChange::Prompt(prompt))) => {
                UserPromptSubmitChange::Prompt(prompt.clone())
            }
            _ => UserPromptSubmitChange::Keep,
        })
    }

    fn is_same(then: &Self::Event, now: &Self::Event) -> bool {
        then.prompt == now.prompt
    }

    fn is_result_of(_: &Self::Event, change: &HookChange, now: &Self::Event) -> bool {
        Self::has_no_effect(now, change)
    }

    fn has_no_effect(now: &Self::Event, change: &HookChange) -> bool {
        matches!(change, HookChange::Prompt(prompt) if *prompt == now.prompt)
    }
}

impl ExternalPoint for CompactPre {
    fn verdict(answer: &HookAnswer) -> Option<Admission> {
        Some(to_admission(answer))
    }

    fn change(answer: &HookAnswer) -> Result<CompactPreChange, String> {
        Ok(match (to_admission(answer), &answer.change) {
            (Admission::Block(reason), _) => CompactPreChange::Block(reason),
            (Admission::Pass, Some(HookChange::Summary(text))) => {
                CompactPreChange::Summary(text.clone())
            }
            _ => CompactPreChange::Keep,
        })
    }

    fn is_same(then: &Self::Event, now: &Self::Event) -> bool {
        then.summary == now.summary && then.first_kept_id == now.first_kept_id
    }

    fn is_result_of(_: &Self::Event, change: &HookChange, now: &Self::Event) -> bool {
        Self::has_no_effect(now, change)
    }

    fn has_no_effect(now: &Self::Event, change: &HookChange) -> bool {
        matches!(change, HookChange::Summary(text) if now.summary.as_ref() == Some(text))
    }
}

impl ExternalPoint for ToolPost {
    fn change(answer: &HookAnswer) -> Result<ToolPostChange, String> {
        Ok(match &answer.change {
            Some(HookChange::Result(text)) => {
                ToolPostChange::Result(Ok(ToolOutput::from(text.as_str())))
            }
            _ => ToolPostChange::Keep,
        })
    }

    fn warn(answer: &HookAnswer, cx: &Cx) {
        add_warning(answer, cx);
    }
}

impl ExternalPoint for SessionStart {
    fn warn(answer: &HookAnswer, cx: &Cx) {
        add_warning(answer, cx);
    }
}

impl ExternalPoint for SubagentStart {
    fn verdict(answer: &HookAnswer) -> Option<Admission> {
        Some(to_admission(answer))
    }
}

impl ExternalPoint for PermissionAsk {
    fn verdict(answer: &HookAnswer) -> Option<Admission> {
        // A person is asked anyway, so an ask counts as a pass.
        Some(match (&answer.block, answer.decision) {
            (Some(reason), _) => Admission::block(reason),
            (None, Some(HookDecision::No)) => Admission::block("it answered no"),
            _ => Admission::Pass,
        })
    }

    fn answer(answer: &HookAnswer) -> Option<PermissionAnswer> {
        Some(match (&answer.block, answer.decision) {
            (Some(reason), _) => PermissionAnswer::No(reason.clone()),
            (None, Some(HookDecision::No)) => PermissionAnswer::No("it answered no".into()),
            (None, Some(HookDecision::Yes)) if answer.ask.is_none() => PermissionAnswer::Yes,
            _ => PermissionAnswer::Pass,
        })
    }
}

impl ExternalPoint for TurnEnd {
    fn verdict(answer: &HookAnswer) -> Option<TurnEndVerdict> {
        Some(match answer.go_on.as_ref().or(answer.block.as_ref()) {
            Some(reason) => TurnEndVerdict::GoOn(reason.clone()),
            None => TurnEndVerdict::Stop,
        })
    }
}

macro_rules! observed_only {
    ($($point:ident)*) => { $( impl ExternalPoint for $point {} )* };
}

observed_only! {
    SessionOpen SessionClose SessionEnd Context ModelPre ModelPost ToolRefused CompactPost SubagentEnd
    Error
}
