//! What is made up for a trial, point by point.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::step_cx::StepCx,
    history::{
        ledger::AskReason,
        message::StopReason,
        message_list::MessageList,
        outcome::{EndReason, ToolOutcome},
    },
    hooks::{
        points::{
            Point,
            compact::{CompactPost, CompactPostEvent, CompactPre, CompactPreEvent},
            context::{Context, ContextEvent},
            error::{Error, RunFailure},
            model::{ModelPost, ModelPostEvent, ModelPre, ModelPreEvent},
            permission::PermissionAsk,
            session::{
                SessionClose, SessionCloseEvent, SessionEnd, SessionEndEvent, SessionOpen,
                SessionOpenEvent, SessionStart, SessionStartEvent,
            },
            subagent::{SubagentEnd, SubagentEndEvent, SubagentStart, SubagentStartEvent},
            tool_post::{ToolPost, ToolPostEvent},
            tool_pre::{ToolPre, ToolPreEvent},
            tool_refused::{ToolRefused, ToolRefusedEvent},
            turn_end::{TurnEnd, TurnEndEvent},
            user_prompt_submit::{UserPromptSubmit, UserPromptSubmitEvent},
        },
        ui::{Question, QuestionCall, RuleCheck},
    },
    model::tools::ToolOutput,
    permission::facts::Facts,
    pipeline::dry_run::DryRun,
};

/// A point at which something can be made up, for hooks to be tried on.
pub(crate) trait SampleEvent: Point {
    /// What happens, as far as the trial says.
    fn happening(trial: &DryRun, scene: &StepCx) -> Self::Event;

    /// What transforms made, with what follows from it worked out anew.
    fn looked_at_again(event: &Arc<Self::Event>, _: &StepCx) -> Arc<Self::Event> {
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

fn model(scene: &StepCx) -> SmolStr {
    scene.agent().model().name().clone()
}

/// What a call touches, as its tool says; of a tool that does not exist nobody knows.
fn facts(scene: &StepCx, tool: &str, input: &Value) -> Arc<Facts> {
    let known = scene.agent().facts(tool, input).filter(|facts| facts.invalid.is_none());
    Arc::new(known.unwrap_or_else(Facts::unknown))
}

impl SampleEvent for ToolPre {
    fn happening(trial: &DryRun, scene: &StepCx) -> ToolPreEvent {
        ToolPreEvent {
            call_id: CALL,
            tool_name: trial.tool.clone(),
            tool_input: trial.input.clone(),
            facts: facts(scene, &trial.tool, &trial.input),
        }
    }

    fn looked_at_again(event: &Arc<ToolPreEvent>, scene: &StepCx) -> Arc<ToolPreEvent> {
        let facts = facts(scene, &event.tool_name, &event.tool_input);
        Arc::new(ToolPreEvent { facts, ..ToolPreEvent::clone(event) })
    }

    fn input(event: &ToolPreEvent) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }
}

impl SampleEvent for ToolPost {
    fn happening(trial: &DryRun, scene: &StepCx) -> ToolPostEvent {
        ToolPostEvent {
            call_id: CALL,
            tool_name: trial.tool.clone(),
            tool_input: trial.input.clone(),
            original_input: None,
            facts: facts(scene, &trial.tool, &trial.input),
            result: trial.result.as_str().into(),
            is_error: false,
            outcome: ToolOutcome::Ok,
            duration_ms: 0,
            output: Arc::new(Ok(ToolOutput::from(trial.result.as_str()))),
        }
    }

    fn input(event: &ToolPostEvent) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }

    fn text(event: &ToolPostEvent) -> Option<String> {
        Some(event.result.to_string())
    }
}

impl SampleEvent for ToolRefused {
    fn happening(trial: &DryRun, _: &StepCx) -> ToolRefusedEvent {
        ToolRefusedEvent {
            call_id: CALL,
            tool_name: trial.tool.clone(),
            tool_input: trial.input.clone(),
            by: "trial".into(),
            reason: "hooks are tried".into(),
        }
    }

    fn input(event: &ToolRefusedEvent) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }
}

impl SampleEvent for PermissionAsk {
    fn happening(trial: &DryRun, scene: &StepCx) -> Question {
        let ask = AskReason { by: "trial".into(), reason: "hooks are tried".into(), hook: None };
        let call = QuestionCall {
            call_id: CALL,
            name: trial.tool.clone(),
            preview: trial.input.to_string(),
            input: trial.input.clone(),
            asks: vec![ask],
            offer: vec![],
            own_rule: RuleCheck::default(),
            digest: SmolStr::default(),
        };
        let limit = scene.agent().limits().question;
        Question { id: CALL, agent: scene.agent().id().clone(), calls: vec![call], limit }
    }

    fn input(event: &Question) -> Option<Arc<Value>> {
        event.calls.first().map(|call| call.input.clone())
    }
}

impl SampleEvent for UserPromptSubmit {
    fn happening(trial: &DryRun, _: &StepCx) -> UserPromptSubmitEvent {
        UserPromptSubmitEvent { prompt: trial.prompt.clone(), raw_prompt: trial.prompt.clone() }
    }

    fn text(event: &UserPromptSubmitEvent) -> Option<String> {
        Some(event.prompt.clone())
    }
}

impl SampleEvent for CompactPre {
    fn happening(_: &DryRun, _: &StepCx) -> CompactPreEvent {
        CompactPreEvent {
            trigger: "forced",
            tokens_before: 0,
            messages: MessageList::default(),
            first_kept_id: SmolStr::default(),
            summary: None,
        }
    }

    fn text(event: &CompactPreEvent) -> Option<String> {
        event.summary.clone()
    }
}

impl SampleEvent for CompactPost {
    fn happening(trial: &DryRun, _: &StepCx) -> CompactPostEvent {
        CompactPostEvent {
            trigger: "forced",
            tokens_before: 0,
            first_kept_id: SmolStr::default(),
            summary: trial.result.clone(),
            by: None,
        }
    }
}

impl SampleEvent for Context {
    fn happening(_: &DryRun, scene: &StepCx) -> ContextEvent {
        ContextEvent::new(scene.session().messages(), scene.session().clone())
    }
}

impl SampleEvent for ModelPre {
    fn happening(_: &DryRun, scene: &StepCx) -> ModelPreEvent {
        ModelPreEvent { model: model(scene), message_count: 1, attempt: 1 }
    }
}

impl SampleEvent for ModelPost {
    fn happening(_: &DryRun, scene: &StepCx) -> ModelPostEvent {
        ModelPostEvent {
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

impl SampleEvent for SubagentStart {
    fn happening(trial: &DryRun, _: &StepCx) -> SubagentStartEvent {
        SubagentStartEvent { call_id: CALL, name: "trial".into(), prompt: trial.prompt.clone() }
    }
}

impl SampleEvent for SubagentEnd {
    fn happening(trial: &DryRun, _: &StepCx) -> SubagentEndEvent {
        let text = trial.result.clone();
        SubagentEndEvent { call_id: CALL, name: "trial".into(), status: "success", text }
    }
}

impl SampleEvent for TurnEnd {
    fn happening(trial: &DryRun, _: &StepCx) -> TurnEndEvent {
        TurnEndEvent { text: trial.result.clone(), gone_on: 0, sent_on: 0 }
    }
}

impl SampleEvent for Error {
    fn happening(_: &DryRun, _: &StepCx) -> RunFailure {
        RunFailure { code: "other".into(), message: "hooks are tried".into() }
    }
}

impl SampleEvent for SessionOpen {
    fn happening(_: &DryRun, _: &StepCx) -> SessionOpenEvent {
        SessionOpenEvent { how: "created" }
    }
}

impl SampleEvent for SessionStart {
    fn happening(_: &DryRun, scene: &StepCx) -> SessionStartEvent {
        SessionStartEvent { model: model(scene) }
    }
}

impl SampleEvent for SessionEnd {
    fn happening(_: &DryRun, _: &StepCx) -> SessionEndEvent {
        SessionEndEvent { reason: EndReason::EndTurn }
    }
}

impl SampleEvent for SessionClose {
    fn happening(_: &DryRun, _: &StepCx) -> SessionCloseEvent {
        SessionCloseEvent { runs: 1 }
    }
}
