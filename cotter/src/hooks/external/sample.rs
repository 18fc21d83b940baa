//! What is made up for a trial, point by point.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::pipeline::dry_run::Trial;
use crate::{
    agent::step_cx::Scene,
    history::{
        ask::Ask, end_reason::Reason, message::StopReason, message_list::Messages, outcome::Outcome,
    },
    hooks::{
        points::{
            Point,
            compact::{CompactPost, CompactPre, Compacted, Compacting},
            context::{Context, ContextBuild},
            error::{Error, RunFailed},
            model::{ModelPost, ModelPre, Replied, Requesting},
            permission::PermissionAsk,
            session::{
                SessionClose, SessionClosed, SessionEnd, SessionEnded, SessionOpen, SessionOpened,
                SessionStart, SessionStarted,
            },
            subagent::{SubagentEnd, SubagentEnded, SubagentStart, SubagentStarted},
            tool_post::{ToolPost, ToolRan},
            tool_pre::{ToolCalled, ToolPre},
            tool_refused::{Refused, ToolRefused},
            turn_end::{TurnEnd, TurnEnding},
            user_prompt_submit::{Prompt, UserPromptSubmit},
        },
        ui::{AskedCall, OwnRule, Question},
    },
    model::tools::Output,
    permission::facts::Facts,
};

/// A point at which something can be made up, for hooks to be tried on.
pub(crate) trait Happens: Point {
    /// What happens, as far as the trial says.
    fn happening(trial: &Trial, scene: &Scene) -> Self::Event;

    /// What transforms made, with what follows from it worked out anew.
    fn looked_at_again(event: &Arc<Self::Event>, _: &Scene) -> Arc<Self::Event> {
        event.clone()
    }

    /// The input it is about, where it is about a call.
    fn input(_: &Self::Event) -> Option<Arc<Value>> {
        None
    }

    /// The text it is about, where that can be changed.
    fn text(_: &Self::Event) -> Option<String> {
        None
    }
}

/// The id of a call that is made up.
const CALL: SmolStr = SmolStr::new_static("trial");

fn model(scene: &Scene) -> SmolStr {
    scene.agent().model().name().clone()
}

/// What a call touches, as its tool says; of a tool that does not exist nobody knows.
fn facts(scene: &Scene, tool: &str, input: &Value) -> Arc<Facts> {
    let known = scene.agent().facts(tool, input).filter(|facts| facts.invalid.is_none());
    Arc::new(known.unwrap_or_else(Facts::unknown))
}

impl Happens for ToolPre {
    fn happening(trial: &Trial, scene: &Scene) -> ToolCalled {
        ToolCalled {
            call_id: CALL,
            tool_name: trial.tool.clone(),
            tool_input: trial.input.clone(),
            facts: facts(scene, &trial.tool, &trial.input),
        }
    }

    fn looked_at_again(event: &Arc<ToolCalled>, scene: &Scene) -> Arc<ToolCalled> {
        let facts = facts(scene, &event.tool_name, &event.tool_input);
        Arc::new(ToolCalled { facts, ..ToolCalled::clone(event) })
    }

    fn input(event: &ToolCalled) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }
}

impl Happens for ToolPost {
    fn happening(trial: &Trial, scene: &Scene) -> ToolRan {
        ToolRan {
            call_id: CALL,
            tool_name: trial.tool.clone(),
            tool_input: trial.input.clone(),
            original_input: None,
            facts: facts(scene, &trial.tool, &trial.input),
            result: trial.result.as_str().into(),
            is_error: false,
            outcome: Outcome::Ok,
            duration_ms: 0,
            output: Arc::new(Ok(Output::from(trial.result.as_str()))),
        }
    }

    fn input(event: &ToolRan) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }

    fn text(event: &ToolRan) -> Option<String> {
        Some(event.result.to_string())
    }
}

impl Happens for ToolRefused {
    fn happening(trial: &Trial, _: &Scene) -> Refused {
        Refused {
            call_id: CALL,
            tool_name: trial.tool.clone(),
            tool_input: trial.input.clone(),
            by: "trial".into(),
            reason: "hooks are tried".into(),
        }
    }

    fn input(event: &Refused) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }
}

impl Happens for PermissionAsk {
    fn happening(trial: &Trial, scene: &Scene) -> Question {
        let ask = Ask { by: "trial".into(), reason: "hooks are tried".into(), hook: None };
        let call = AskedCall {
            call_id: CALL,
            name: trial.tool.clone(),
            preview: trial.input.to_string(),
            input: trial.input.clone(),
            asks: vec![ask],
            offer: vec![],
            own_rule: OwnRule::default(),
            digest: SmolStr::default(),
        };
        let limit = scene.agent().limits().question;
        Question { id: CALL, agent: scene.agent().id().clone(), calls: vec![call], limit }
    }

    fn input(event: &Question) -> Option<Arc<Value>> {
        event.calls.first().map(|call| call.input.clone())
    }
}

impl Happens for UserPromptSubmit {
    fn happening(trial: &Trial, _: &Scene) -> Prompt {
        Prompt { prompt: trial.prompt.clone(), raw_prompt: trial.prompt.clone() }
    }

    fn text(event: &Prompt) -> Option<String> {
        Some(event.prompt.clone())
    }
}

impl Happens for CompactPre {
    fn happening(_: &Trial, _: &Scene) -> Compacting {
        Compacting {
            trigger: "forced",
            tokens_before: 0,
            messages: Messages::default(),
            first_kept_id: SmolStr::default(),
            summary: None,
        }
    }

    fn text(event: &Compacting) -> Option<String> {
        event.summary.clone()
    }
}

impl Happens for CompactPost {
    fn happening(trial: &Trial, _: &Scene) -> Compacted {
        Compacted {
            trigger: "forced",
            tokens_before: 0,
            first_kept_id: SmolStr::default(),
            summary: trial.result.clone(),
            by: None,
        }
    }
}

impl Happens for Context {
    fn happening(_: &Trial, scene: &Scene) -> ContextBuild {
        ContextBuild::new(scene.session().messages(), scene.session().clone())
    }
}

impl Happens for ModelPre {
    fn happening(_: &Trial, scene: &Scene) -> Requesting {
        Requesting { model: model(scene), message_count: 1, attempt: 1 }
    }
}

impl Happens for ModelPost {
    fn happening(_: &Trial, scene: &Scene) -> Replied {
        Replied {
            model: model(scene),
            stop_reason: StopReason::EndTurn,
            input_tokens: 0,
            output_tokens: 0,
            cache_read: 0,
            cache_write: 0,
            cost_usd: Some(0.0),
            tool_call_count: 0,
            cache_break: None,
        }
    }
}

impl Happens for SubagentStart {
    fn happening(trial: &Trial, _: &Scene) -> SubagentStarted {
        SubagentStarted { call_id: CALL, name: "trial".into(), prompt: trial.prompt.clone() }
    }
}

impl Happens for SubagentEnd {
    fn happening(trial: &Trial, _: &Scene) -> SubagentEnded {
        let text = trial.result.clone();
        SubagentEnded { call_id: CALL, name: "trial".into(), status: "success", text }
    }
}

impl Happens for TurnEnd {
    fn happening(trial: &Trial, _: &Scene) -> TurnEnding {
        TurnEnding { text: trial.result.clone(), gone_on: 0, sent_on: 0 }
    }
}

impl Happens for Error {
    fn happening(_: &Trial, _: &Scene) -> RunFailed {
        RunFailed { code: "other".into(), message: "hooks are tried".into() }
    }
}

impl Happens for SessionOpen {
    fn happening(_: &Trial, _: &Scene) -> SessionOpened {
        SessionOpened { how: "created" }
    }
}

impl Happens for SessionStart {
    fn happening(_: &Trial, scene: &Scene) -> SessionStarted {
        SessionStarted { model: model(scene) }
    }
}

impl Happens for SessionEnd {
    fn happening(_: &Trial, _: &Scene) -> SessionEnded {
        SessionEnded { reason: Reason::EndTurn }
    }
}

impl Happens for SessionClose {
    fn happening(_: &Trial, _: &Scene) -> SessionClosed {
        SessionClosed { runs: 1 }
    }
}
