//! Sample events for dry runs, one per point.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::session::Session,
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
};

/// The data from which sample events are made.
pub(crate) struct SampleSource<'a> {
    /// The tool of the call that the event is about.
    pub(crate) tool: &'a SmolStr,
    /// The input of that call.
    pub(crate) input: &'a Arc<Value>,
    /// The text that a person typed or that a subagent is given.
    pub(crate) prompt: &'a str,
    /// The result of a tool or the last text of a turn.
    pub(crate) result: &'a str,
    pub(crate) session: &'a Session,
    pub(crate) agent_id: &'a SmolStr,
    pub(crate) model: &'a SmolStr,
    /// The time limit for a person's answer to a question.
    pub(crate) question_limit: Duration,
    /// Computes the facts of a call.
    pub(crate) facts: &'a (dyn Fn(&str, &Value) -> Arc<Facts> + Send + Sync),
}

/// A point for which a sample event can be made, for a dry run of its hooks.
pub(crate) trait SampleEvent: Point {
    /// Makes a sample event.
    fn make(source: &SampleSource<'_>) -> Self::Event;

    /// Computes the facts of an event again, after transforms changed it.
    fn with_new_facts(event: &Arc<Self::Event>, _: &SampleSource<'_>) -> Arc<Self::Event> {
        event.clone()
    }

    /// Returns the input of the call that the event is about.
    fn input(_: &Self::Event) -> Option<Arc<Value>> {
        None
    }

    /// Returns the text of the event that transforms may change.
    fn text(_: &Self::Event) -> Option<String> {
        None
    }
}

/// The id of the sample call.
const SAMPLE_CALL_ID: SmolStr = SmolStr::new_static("trial");

impl SampleEvent for ToolPre {
    fn make(source: &SampleSource<'_>) -> ToolPreEvent {
        ToolPreEvent {
            call_id: SAMPLE_CALL_ID,
            tool_name: source.tool.clone(),
            tool_input: source.input.clone(),
            facts: (source.facts)(source.tool, source.input),
        }
    }

    fn with_new_facts(event: &Arc<ToolPreEvent>, source: &SampleSource<'_>) -> Arc<ToolPreEvent> {
        let facts = (source.facts)(&event.tool_name, &event.tool_input);
        Arc::new(ToolPreEvent { facts, ..ToolPreEvent::clone(event) })
    }

    fn input(event: &ToolPreEvent) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }
}

impl SampleEvent for ToolPost {
    fn make(source: &SampleSource<'_>) -> ToolPostEvent {
        ToolPostEvent {
            call_id: SAMPLE_CALL_ID,
            tool_name: source.tool.clone(),
            tool_input: source.input.clone(),
            original_input: None,
            facts: (source.facts)(source.tool, source.input),
            result: source.result.into(),
            is_error: false,
            outcome: ToolOutcome::Ok,
            duration_ms: 0,
            output: Arc::new(Ok(ToolOutput::from(source.result))),
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
    fn make(source: &SampleSource<'_>) -> ToolRefusedEvent {
        ToolRefusedEvent {
            call_id: SAMPLE_CALL_ID,
            tool_name: source.tool.clone(),
            tool_input: source.input.clone(),
            by: "trial".into(),
            reason: "this is a dry run of hooks".into(),
        }
    }

    fn input(event: &ToolRefusedEvent) -> Option<Arc<Value>> {
        Some(event.tool_input.clone())
    }
}

impl SampleEvent for PermissionAsk {
    fn make(source: &SampleSource<'_>) -> Question {
        let ask = AskReason {
            by: "trial".into(),
            reason: "this is a dry run of hooks".into(),
            hook: None,
        };
        let call = QuestionCall {
            call_id: SAMPLE_CALL_ID,
            name: source.tool.clone(),
            preview: source.input.to_string(),
            input: source.input.clone(),
            asks: vec![ask],
            offer: vec![],
            own_rule: RuleCheck::default(),
            digest: SmolStr::default(),
        };
        let (agent, limit) = (source.agent_id.clone(), source.question_limit);
        Question { id: SAMPLE_CALL_ID, agent, calls: vec![call], limit }
    }

    fn input(event: &Question) -> Option<Arc<Value>> {
        event.calls.first().map(|call| call.input.clone())
    }
}

impl SampleEvent for UserPromptSubmit {
    fn make(source: &SampleSource<'_>) -> UserPromptSubmitEvent {
        UserPromptSubmitEvent {
            prompt: source.prompt.to_owned(),
            raw_prompt: source.prompt.to_owned(),
        }
    }

    fn text(event: &UserPromptSubmitEvent) -> Option<String> {
        Some(event.prompt.clone())
    }
}

impl SampleEvent for CompactPre {
    fn make(_: &SampleSource<'_>) -> CompactPreEvent {
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
    fn make(source: &SampleSource<'_>) -> CompactPostEvent {
        CompactPostEvent {
            trigger: "forced",
            tokens_before: 0,
            first_kept_id: SmolStr::default(),
            summary: source.result.to_owned(),
            by: None,
        }
    }
}

impl SampleEvent for Context {
    fn make(source: &SampleSource<'_>) -> ContextEvent {
        ContextEvent::new(source.session.messages(), source.session.clone())
    }
}

impl SampleEvent for ModelPre {
    fn make(source: &SampleSource<'_>) -> ModelPreEvent {
        ModelPreEvent { model: source.model.clone(), message_count: 1, attempt: 1 }
    }
}

impl SampleEvent for ModelPost {
    fn make(source: &SampleSource<'_>) -> ModelPostEvent {
        ModelPostEvent {
            model: source.model.clone(),
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
    fn make(source: &SampleSource<'_>) -> SubagentStartEvent {
        SubagentStartEvent {
            call_id: SAMPLE_CALL_ID,
            name: "trial".into(),
            prompt: source.prompt.to_owned(),
        }
    }
}

impl SampleEvent for SubagentEnd {
    fn make(source: &SampleSource<'_>) -> SubagentEndEvent {
        let text = source.result.to_owned();
        SubagentEndEvent { call_id: SAMPLE_CALL_ID, name: "trial".into(), status: "success", text }
    }
}

impl SampleEvent for TurnEnd {
    fn make(source: &SampleSource<'_>) -> TurnEndEvent {
        TurnEndEvent { text: source.result.to_owned(), continued_in_row: 0, continued_in_run: 0 }
    }
}

impl SampleEvent for Error {
    fn make(_: &SampleSource<'_>) -> RunFailure {
        RunFailure { code: "other".into(), message: "this is a dry run of hooks".into() }
    }
}

impl SampleEvent for SessionOpen {
    fn make(_: &SampleSource<'_>) -> SessionOpenEvent {
        SessionOpenEvent { how: "created" }
    }
}

impl SampleEvent for SessionStart {
    fn make(source: &SampleSource<'_>) -> SessionStartEvent {
        SessionStartEvent { model: source.model.clone() }
    }
}

impl SampleEvent for SessionEnd {
    fn make(_: &SampleSource<'_>) -> SessionEndEvent {
        SessionEndEvent { reason: EndReason::EndTurn }
    }
}

impl SampleEvent for SessionClose {
    fn make(_: &SampleSource<'_>) -> SessionCloseEvent {
        SessionCloseEvent { runs: 1 }
    }
}
