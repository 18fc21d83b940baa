//! Adds a skill's text to the conversation: a person names the skill, the model calls it, or a task
//! triggers it.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::{cx::Cx, step_cx::StepCx},
    fs::workspace::Workspace,
    history::message::{Content, ContentPart, UserMessage, UserMessageKind},
    hooks::{events::EventKind, handler::HandlerFailure, notes::NoteAuthor},
    invoke::{
        directives::format_skill_message,
        named_item::NameKind,
        skill::{InvokeSkill, Skill, SkillCaller, SkillCx},
    },
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::{Zone, facts::Facts},
    run::invoke_result::{format_failure, format_success, format_unavailable},
    text,
    tool::{Tool, ToolFuture, permit::Permit},
};

/// The greatest size of one skill before a person's message, in bytes.
const INJECTED_BYTES: usize = 1024 * 1024;

/// The greatest size of one triggered skill, and of all triggered skills in a session, in bytes. A
/// compaction keeps as much.
const TRIGGERED_SKILL_BYTES: usize = 32 * 1024;
const TRIGGERED_BYTES: usize = 64 * 1024;

/// Turns a skill that a person named into the message before the person's own.
pub(crate) async fn build_skill_message(
    step_cx: &StepCx,
    name: &str,
    parsed_text: &str,
) -> Option<Result<UserMessage, HandlerFailure>> {
    let skill = step_cx.view.skill(name)?.clone();
    let content =
        load_skill_text(&skill, step_cx, parsed_text.to_owned(), None, SkillCaller::User).await;
    Some(content.map(|content| injection(name, content)))
}

/// Builds the message of a skill, before the person's own. Its text is escaped, so that it cannot pass for
/// a note.
fn injection(name: &str, content: Content) -> UserMessage {
    build_injection(name, content, INJECTED_BYTES)
}

fn build_injection(name: &str, content: Content, max_bytes: usize) -> UserMessage {
    let format = |text: &str| {
        crate::text::tags::escape(&format_skill_message(name, &text::cut_bytes(text, max_bytes)))
    };
    let content = match content {
        Content::Text(text) => Content::Text(format(&text)),
        Content::Parts(parts) => {
            let text = format(&Content::Parts(parts.clone()).text());
            let others = parts.into_iter().filter(|part| part.as_text().is_none());
            Content::Parts(std::iter::once(ContentPart::Text(text)).chain(others).collect())
        }
    };
    UserMessage::with_kind(content, UserMessageKind::SkillInjection)
}

/// Collects the skills that a person's task triggers, besides the skills that the person named. Each is
/// added once per session, with its text. A skill that fails or does not fit is skipped, and the person
/// gets a message.
pub(crate) async fn collect_triggered_skills(
    step_cx: &StepCx,
    task: &str,
    named: &[SmolStr],
) -> Vec<TriggeredSkill> {
    let triggers = step_cx.generation().triggers.clone();
    let matching = triggers.matching(task);
    if matching.is_empty() {
        return vec![];
    }
    let active = step_cx.session().active_skills();
    let mut bytes_left = TRIGGERED_BYTES.saturating_sub(active.bytes);
    let mut triggered = vec![];
    for (skill, _) in matching {
        let name = &skill.name;
        let is_ours = step_cx.view.skill(name).is_some_and(|ours| Arc::ptr_eq(ours, skill));
        if !is_ours || !skill.is_for(step_cx.agent().id()) || active.names.contains(name) {
            continue;
        }
        if named.contains(name) {
            triggered.push(TriggeredSkill { name: name.clone(), content: None });
            continue;
        }
        match load_skill_text(skill, step_cx, task.to_owned(), None, SkillCaller::Trigger).await {
            Ok(content) => {
                let message = build_injection(name, content, TRIGGERED_SKILL_BYTES);
                let length = message.content.text().len();
                if length > bytes_left {
                    step_cx.cx.notify(&format!(
                        "skill \"{name}\" was skipped: the skills of this session are too long"
                    ));
                    continue;
                }
                bytes_left -= length;
                triggered.push(TriggeredSkill { name: name.clone(), content: Some(message) });
            }
            Err(HandlerFailure::Cancelled) => break,
            Err(failure) => step_cx.cx.notify(&format!("skill \"{name}\" was skipped: {failure}")),
        }
    }
    triggered
}

/// A skill that a task triggered.
pub(crate) struct TriggeredSkill {
    pub(crate) name: SmolStr,
    /// The message; `None` if the person named the skill and gets it anyway.
    pub(crate) content: Option<UserMessage>,
}

async fn load_skill_text(
    skill: &Arc<Skill>,
    step_cx: &StepCx,
    parsed_text: String,
    args: Option<String>,
    source: SkillCaller,
) -> Result<Content, HandlerFailure> {
    let owner = step_cx.view.owner_of(NameKind::Skill, &skill.name);
    let cx = step_cx.cx.with_author(NoteAuthor::named("skill", &skill.name, owner));
    let controls = cx.controls();
    let name = skill.name.clone();
    let skill_cx = SkillCx { name: name.clone(), parsed_text, args, source, controls };
    let content = skill.function.call(skill_cx, &step_cx.cx.run.cancel).await?;
    step_cx.emit(EventKind::Skill { name, source: source.as_str() });
    Ok(content)
}

impl Tool for InvokeSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let input = permit.input();
            let (name, args) = (input["name"].as_str().unwrap_or_default(), input["args"].as_str());
            invoke(permit.cx(), name, args).await
        })
    }
}

async fn invoke(cx: &Cx, name: &str, args: Option<&str>) -> Result<ToolOutput, ToolError> {
    let step_cx = StepCx::of(cx);
    let Some(skill) = step_cx.view.skill(name).filter(|skill| skill.exposed).cloned() else {
        let names = step_cx.view.exposed_skills().map(|skill| skill.name.as_str());
        return Err(format_unavailable("Skill", name, "is not available", names));
    };
    let args = args.map(str::to_owned);
    let parsed_text = args.clone().unwrap_or_default();
    match load_skill_text(&skill, &step_cx, parsed_text, args, SkillCaller::Agent).await {
        Ok(content) => Ok(format_success("skill", &skill.name, content)),
        Err(failure) => Err(format_failure(&failure)),
    }
}
