//! What an answer means at each point.

use crate::hooks::external::answer::{Answer, Change, Decision};
use crate::{
    agent::cx::Cx,
    hooks::{
        external::sample::Happens,
        points::{
            Admit, Point,
            compact::{CompactChange, CompactPost, CompactPre},
            context::Context,
            error::Error,
            model::{ModelPost, ModelPre},
            permission::{Answer as Given, PermissionAsk},
            session::{SessionClose, SessionEnd, SessionOpen, SessionStart},
            subagent::{SubagentEnd, SubagentStart},
            tool_post::{ResultChange, ToolPost},
            tool_pre::{CallChange, ToolPre},
            tool_refused::ToolRefused,
            turn_end::{TurnEnd, TurnVerdict},
            user_prompt_submit::{PromptChange, UserPromptSubmit},
        },
    },
    model::tools::Output,
    permission::verdict::Verdict,
};

/// A point at which a hook outside the program can be asked.
pub(crate) trait Foreign: Point + Happens {
    /// The verdict of an answer, where there are gates.
    fn verdict(_: &Answer) -> Option<Self::Verdict> {
        None
    }

    /// What an answer changes, where there are transforms. An error is what makes no sense.
    fn change(_: &Answer) -> Result<Self::Change, String> {
        Err(format!("nothing can be changed at `{}`", Self::ID))
    }

    /// The decision of an answer, where there are such.
    fn answer(_: &Answer) -> Option<Self::Answer> {
        None
    }

    /// Whether what was said of one holds for the other.
    fn is_same(_: &Self::Event, _: &Self::Event) -> bool {
        false
    }

    /// Whether `now` is what a change made of `then`.
    fn is_made_of(_then: &Self::Event, _: &Change, _now: &Self::Event) -> bool {
        false
    }

    /// Whether a change would leave things as they are.
    fn leaves(_: &Self::Event, _: &Change) -> bool {
        false
    }

    /// What a refusal amounts to where nothing can be refused: nothing, unless there is somebody to tell.
    fn warn(_: &Answer, _: &Cx) {}
}

/// At points whose gates say nothing but yes or no.
fn admitted(answer: &Answer) -> Admit {
    match answer.block.as_ref().or(answer.ask.as_ref()) {
        Some(reason) => Admit::block(reason),
        None => Admit::Pass,
    }
}

fn warned(answer: &Answer, cx: &Cx) {
    if let Some(reason) = answer.block.as_ref().or(answer.ask.as_ref()) {
        let reason = if reason.trim().is_empty() { "it gave no reason" } else { reason };
        cx.note(format!("Warning: {reason}"));
    }
}

impl Foreign for ToolPre {
    fn verdict(answer: &Answer) -> Option<Verdict> {
        Some(match (&answer.block, &answer.ask) {
            (Some(reason), _) => Verdict::block(reason),
            (None, Some(reason)) => Verdict::ask(reason),
            (None, None) => Verdict::Pass,
        })
    }

    fn change(answer: &Answer) -> Result<CallChange, String> {
        Ok(match (&answer.block, &answer.change) {
            (Some(reason), _) => CallChange::Block(reason.clone()),
            // Whoever wants a person asked does not answer in the tool's stead.
            (None, Some(Change::Result(text))) if answer.ask.is_none() => {
                CallChange::Answer(Output::from(text.as_str()))
            }
            (None, Some(Change::Input(input))) => CallChange::Input(input.clone()),
            _ => CallChange::Keep,
        })
    }

    fn is_same(then: &Self::Event, now: &Self::Event) -> bool {
        then.call_id == now.call_id
            && then.tool_name == now.tool_name
            && then.tool_input == now.tool_input
    }

    fn is_made_of(then: &Self::Event, change: &Change, now: &Self::Event) -> bool {
        match change {
            Change::Input(input) => then.call_id == now.call_id && *input == *now.tool_input,
            // Whoever answers in the tool's stead leaves the call as it is.
            Change::Result(_) => Self::is_same(then, now),
            _ => false,
        }
    }

    fn leaves(now: &Self::Event, change: &Change) -> bool {
        matches!(change, Change::Input(input) if *input == *now.tool_input)
    }
}

impl Foreign for UserPromptSubmit {
    fn verdict(answer: &Answer) -> Option<Admit> {
        Some(admitted(answer))
    }

    fn change(answer: &Answer) -> Result<PromptChange, String> {
        Ok(match (admitted(answer), &answer.change) {
            (Admit::Block(reason), _) => PromptChange::Block(reason),
            (Admit::Pass, Some(Change::Prompt(prompt))) => PromptChange::Prompt(prompt.clone()),
            _ => PromptChange::Keep,
        })
    }

    fn is_same(then: &Self::Event, now: &Self::Event) -> bool {
        then.prompt == now.prompt
    }

    fn is_made_of(_: &Self::Event, change: &Change, now: &Self::Event) -> bool {
        Self::leaves(now, change)
    }

    fn leaves(now: &Self::Event, change: &Change) -> bool {
        matches!(change, Change::Prompt(prompt) if *prompt == now.prompt)
    }
}

impl Foreign for CompactPre {
    fn verdict(answer: &Answer) -> Option<Admit> {
        Some(admitted(answer))
    }

    fn change(answer: &Answer) -> Result<CompactChange, String> {
        Ok(match (admitted(answer), &answer.change) {
            (Admit::Block(reason), _) => CompactChange::Block(reason),
            (Admit::Pass, Some(Change::Summary(text))) => CompactChange::Summary(text.clone()),
            _ => CompactChange::Keep,
        })
    }

    fn is_same(then: &Self::Event, now: &Self::Event) -> bool {
        then.summary == now.summary && then.first_kept_id == now.first_kept_id
    }

    fn is_made_of(_: &Self::Event, change: &Change, now: &Self::Event) -> bool {
        Self::leaves(now, change)
    }

    fn leaves(now: &Self::Event, change: &Change) -> bool {
        matches!(change, Change::Summary(text) if now.summary.as_ref() == Some(text))
    }
}

impl Foreign for ToolPost {
    fn change(answer: &Answer) -> Result<ResultChange, String> {
        Ok(match &answer.change {
            Some(Change::Result(text)) => ResultChange::Result(Ok(Output::from(text.as_str()))),
            _ => ResultChange::Keep,
        })
    }

    fn warn(answer: &Answer, cx: &Cx) {
        warned(answer, cx);
    }
}

impl Foreign for SessionStart {
    fn warn(answer: &Answer, cx: &Cx) {
        warned(answer, cx);
    }
}

impl Foreign for SubagentStart {
    fn verdict(answer: &Answer) -> Option<Admit> {
        Some(admitted(answer))
    }
}

impl Foreign for PermissionAsk {
    fn verdict(answer: &Answer) -> Option<Admit> {
        // Whoever wants a person asked has what they want.
        Some(match (&answer.block, answer.decision) {
            (Some(reason), _) => Admit::block(reason),
            (None, Some(Decision::No)) => Admit::block("it answered no"),
            _ => Admit::Pass,
        })
    }

    fn answer(answer: &Answer) -> Option<Given> {
        Some(match (&answer.block, answer.decision) {
            (Some(reason), _) => Given::No(reason.clone()),
            (None, Some(Decision::No)) => Given::No("it answered no".into()),
            (None, Some(Decision::Yes)) if answer.ask.is_none() => Given::Yes,
            _ => Given::Pass,
        })
    }
}

impl Foreign for TurnEnd {
    fn verdict(answer: &Answer) -> Option<TurnVerdict> {
        Some(match answer.go_on.as_ref().or(answer.block.as_ref()) {
            Some(reason) => TurnVerdict::GoOn(reason.clone()),
            None => TurnVerdict::Stop,
        })
    }
}

macro_rules! observed_only {
    ($($point:ident)*) => { $( impl Foreign for $point {} )* };
}

observed_only! {
    SessionOpen SessionClose SessionEnd Context ModelPre ModelPost ToolRefused CompactPost SubagentEnd
    Error
}
