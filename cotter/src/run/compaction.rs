//! Compaction: a summary replaces the older part of a conversation. A hook or a command asks for it, the
//! model's window is nearly full, or a request did not fit. All cases use the same code.
//!
//! The history is kept; only the messages for the model change.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::{
        controls::ControlError,
        session::estimate::{SizeAfterCompaction, message_tokens},
        step_cx::StepCx,
    },
    history::{
        entry::{Compaction, Entry, EntryBody},
        message::{Message, UserMessage, UserMessageKind},
        message_list::MessageList,
        outcome::EndReason,
    },
    hooks::{
        events::EventKind,
        points::{
            Admission, ChainStop,
            compact::{CompactPost, CompactPostEvent, CompactPre, CompactPreEvent},
        },
    },
    invoke::directives::{escape_skill_tags, format_skill_message},
    model::{Model, ModelErrorKind, Request, Thinking},
    run::agent_loop::RunExit,
};

const FORCED: &str = "forced";
const THRESHOLD: &str = "threshold";
const OVERFLOW: &str = "overflow";

/// The greatest number of tokens of recent messages that are kept beside a summary.
const KEEP_TOKENS: u64 = 20_000;
/// The greatest size of active skills that are attached to a summary again, in bytes.
const SKILL_BYTES: usize = 64 * 1024;
/// The greatest size of one tool result in the text to summarise, in bytes.
const RESULT_BYTES: usize = 4 * 1024;

const SUMMARY_PROMPT: &str = "You sum up conversations between a person and an agent so that the agent \
    can go on from your summary alone. Keep what was asked, what was decided and why, what was done \
    (files, commands, results that still matter), what is under way and what is left to do. Leave \
    out what no longer matters. Write plain text, no preamble.";

/// The lines around a summary; attached skills follow the end.
const SUMMARY_START: &str = "[Summary of the conversation so far]";
const SUMMARY_END: &str = "[End of the summary; the conversation goes on from here]";

/// The cause of a compaction, and instructions for the author of the summary.
pub(crate) struct CompactionCause {
    trigger: &'static str,
    instructions: String,
}

impl CompactionCause {
    /// A compaction that was asked for, with or without instructions.
    pub(crate) fn forced(instructions: &str) -> Self {
        CompactionCause { trigger: FORCED, instructions: instructions.trim().to_owned() }
    }

    /// A compaction after a request that did not fit.
    pub(crate) fn overflow() -> Self {
        CompactionCause { trigger: OVERFLOW, instructions: String::new() }
    }
}

/// The cause of a compaction before the next request, if one is due.
pub(crate) fn find_due_compaction(
    step_cx: &StepCx,
    model: &Arc<dyn Model>,
) -> Option<CompactionCause> {
    if let Some(instructions) = step_cx.state().take_compact_request() {
        return Some(CompactionCause::forced(&instructions));
    }
    is_window_nearly_full(step_cx, model)
        .then(|| CompactionCause { trigger: THRESHOLD, instructions: String::new() })
}

fn is_window_nearly_full(step_cx: &StepCx, model: &Arc<dyn Model>) -> bool {
    let agent = step_cx.agent();
    let Some(share) = agent.limits().compact_at else { return false };
    let Some(window) = model.context_window() else { return false };
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a window, in tokens"
    )]
    let limit = (window as f64 * share.clamp(0.0, 1.0)) as u64;
    let tokens = step_cx.session().context_tokens();
    let is_nearly_full = tokens > limit;
    let last = step_cx.state().overrides().size_after_compaction;
    match last {
        None => is_nearly_full,
        Some(SizeAfterCompaction::Unknown) => {
            step_cx.state().overrides_mut().size_after_compaction =
                is_nearly_full.then_some(SizeAfterCompaction::TooMuch(tokens));
            if is_nearly_full {
                step_cx.cx.notify("the context window is nearly full even after a compaction");
            }
            false
        }
        // The conversation must grow by a quarter before another attempt.
        Some(SizeAfterCompaction::TooMuch(size)) => {
            is_nearly_full && tokens.saturating_mul(4) > size.saturating_mul(5)
        }
    }
}

/// Compacts before a request. Returns true if it did. An abort or an exhausted budget ends the run. If the
/// compaction is refused or fails otherwise, the person gets a message and the run continues.
pub(crate) async fn compact_before_request(
    step_cx: &StepCx,
    cause: CompactionCause,
) -> Result<bool, RunExit> {
    match compact(step_cx, cause).await {
        Ok(()) => Ok(true),
        Err(exit)
            if exit.reason == EndReason::Aborted || exit.reason == EndReason::BudgetExceeded =>
        {
            Err(exit)
        }
        Err(exit) => {
            let message = exit.failure.map_or_else(String::new, |failure| failure.message);
            step_cx.cx.notify(&message);
            Ok(false)
        }
    }
}

/// Compacts the conversation. Nothing changes unless all of it succeeds.
pub(crate) async fn compact(step_cx: &StepCx, cause: CompactionCause) -> Result<(), RunExit> {
    step_cx.commit_and_emit(|| EventKind::CompactionStart { trigger: cause.trigger })?;
    let result = Box::pin(summarise(step_cx, cause)).await;
    let status = match &result {
        Ok(_) => "success",
        Err(exit) if exit.reason == EndReason::Blocked => "refused",
        Err(exit) if exit.reason == EndReason::Aborted => "cancelled",
        Err(_) => "failed",
    };
    step_cx.commit_and_emit(|| EventKind::CompactionEnd { status })?;
    let event = result?;
    step_cx.state().overrides_mut().size_after_compaction = Some(SizeAfterCompaction::Unknown);
    step_cx.fire_stored::<CompactPost>(|| event).await?;
    Ok(())
}

async fn summarise(step_cx: &StepCx, cause: CompactionCause) -> Result<CompactPostEvent, RunExit> {
    let CompactionCause { trigger, instructions } = cause;
    let context = step_cx.build_context().await?.messages;
    let tokens_before = step_cx.session().context_tokens();
    let keep =
        step_cx.session().models()[0].context_window().map_or(KEEP_TOKENS, |window| window / 4);
    let HistorySplit { messages, first_kept_id } =
        split_history(&context, keep.min(KEEP_TOKENS), trigger).ok_or_else(nothing_to_compact)?;
    let event =
        || CompactPreEvent { trigger, tokens_before, messages, first_kept_id, summary: None };
    let (event, by) = ask_hooks(step_cx, event()).await?;
    let summary = match event.summary.clone() {
        Some(summary) => summary,
        None => ask_model(step_cx, &event.messages, &instructions).await?,
    };
    if step_cx.is_cancelled() {
        return Err(RunExit::aborted());
    }
    let attached = active_skills(&event.messages, &step_cx.agent().invoke_tool_names()[0]);
    let summary = escape_summary(summary.trim());
    let attached = crate::text::tags::escape(&attached);
    let stored = format!("{SUMMARY_START}\n\n{summary}\n\n{SUMMARY_END}{attached}");
    let compaction =
        Compaction::new(stored.clone(), event.first_kept_id.clone(), event.tokens_before);
    let entry = {
        let mut state = step_cx.state();
        let entry = state.append(EntryBody::Compaction(Box::new(compaction)));
        state.commit()?;
        // The lists before the conversation may change now too.
        state.shown_listing = None;
        entry
    };
    step_cx.commit_and_emit(|| EventKind::Message { entry })?;
    let first_kept_id = event.first_kept_id.clone();
    Ok(CompactPostEvent {
        trigger,
        tokens_before: event.tokens_before,
        first_kept_id,
        summary: stored,
        by,
    })
}

fn nothing_to_compact() -> RunExit {
    let code = ControlError::NOTHING_TO_COMPACT;
    RunExit::coded(EndReason::Error, code, "there is nothing to compact")
}

/// Escapes a summary, so that it contains no end of the summary, no skill and no note. Its author has read
/// untrusted tool results.
fn escape_summary(summary: &str) -> String {
    let escaped = summary.replace(SUMMARY_END, "[End of a summary]");
    crate::text::tags::escape(&escape_skill_tags(&escaped))
}

/// Lets hooks refuse the compaction or write the summary. Returns the name of the hook that wrote it.
async fn ask_hooks(
    step_cx: &StepCx,
    event: CompactPreEvent,
) -> Result<(Arc<CompactPreEvent>, Option<SmolStr>), RunExit> {
    let original = Arc::new(event);
    let event = || CompactPreEvent::clone(&original);
    let Some(outcome) = step_cx.fire_stored::<CompactPre>(event).await? else {
        return Ok((original, None));
    };
    let refusal = match (&outcome.stop, outcome.strictest()) {
        (Some((meta, ChainStop::Block(reason))), _)
        | (None, Some((meta, Admission::Block(reason)))) => Some((meta, reason)),
        _ => None,
    };
    if let Some((meta, reason)) = refusal {
        if step_cx.is_cancelled() {
            return Err(RunExit::aborted());
        }
        let message = format!("hook \"{}\" refused the compaction: {reason}", meta.name);
        return Err(RunExit::coded(EndReason::Blocked, "compaction", message));
    }
    let by = outcome.replaced.last().map(|(meta, _)| meta.name.clone());
    Ok((outcome.event.clone(), by))
}

/// Asks the model for a summary.
async fn ask_model(
    step_cx: &StepCx,
    messages: &MessageList,
    instructions: &str,
) -> Result<String, RunExit> {
    let conversation = serialise(messages);
    let mut prompt = format!("<conversation>\n{conversation}\n</conversation>\n\nSum it up.");
    if !instructions.is_empty() {
        prompt += &format!(" Mind this above all: {instructions}");
    }
    let request = Request {
        system: SUMMARY_PROMPT.into(),
        messages: std::iter::once(Message::user(prompt)).collect(),
        notes: 0,
        tools: Arc::default(),
        thinking: Thinking::Off,
        max_tokens: None,
    };
    let models = step_cx.session().models();
    let reply = step_cx.send_side_request(models, request).await?;
    let text = reply.map(|reply| reply.text());
    match text {
        Ok(text) if !text.trim().is_empty() => Ok(text),
        Ok(_) => {
            Err(RunExit::coded(EndReason::Error, "compaction", "the model returned no summary"))
        }
        Err(error) if error.kind == ModelErrorKind::Cancelled => Err(RunExit::aborted()),
        Err(error) => {
            let message = format!("cannot summarise the conversation: {}", error.message);
            Err(RunExit::coded(EndReason::Error, error.kind.as_str(), message))
        }
    }
}

/// The two parts of a conversation: the messages to summarise, and the first message that is kept.
struct HistorySplit {
    messages: MessageList,
    first_kept_id: SmolStr,
}

/// Splits a conversation: all but about `keep` tokens of recent messages go into the summary. A call stays
/// with its results. If all messages are recent, a forced compaction takes everything; otherwise `keep` is
/// halved until something is left to summarise, and the newest message stays. The window may be full for
/// other reasons than the conversation.
fn split_history(context: &MessageList, keep: u64, trigger: &'static str) -> Option<HistorySplit> {
    let forced = trigger == FORCED;
    let entries: Vec<_> = context.entries().collect();
    let is_summary = |entry: &&Arc<Entry>| matches!(entry.body(), EntryBody::Compaction(_));
    let nothing_before = |first: usize| entries[..first].iter().all(is_summary);
    let mut keep = keep;
    let mut first = first_kept(&entries, keep, trigger);
    while !forced && nothing_before(first) && keep > 0 {
        keep /= 2;
        first = first_kept(&entries, keep, trigger);
    }
    if forced && nothing_before(first) {
        first = entries.len();
    }
    if nothing_before(first) {
        return None;
    }
    let older = &entries[..first];
    let mut messages = MessageList::default();
    older.iter().for_each(|entry| messages.push_entry(Arc::clone(entry)));
    let first_kept_id = entries.get(first).map(|entry| entry.id().clone()).unwrap_or_default();
    Some(HistorySplit { messages, first_kept_id })
}

/// The index of the first message to keep, so that the kept messages have at least `keep` tokens. After an
/// overflow they have at most `keep` tokens; the newest message is always kept.
fn first_kept(entries: &[&Arc<Entry>], keep: u64, trigger: &'static str) -> usize {
    let mut kept = 0;
    let mut first = entries.len();
    for (index, entry) in entries.iter().enumerate().rev() {
        let Some(message) = entry.context_message() else { continue };
        kept += message_tokens(message);
        if trigger == OVERFLOW && kept > keep && first < entries.len() {
            break;
        }
        if entry.stored_id().is_some() && !matches!(message, Message::ToolResult(_)) {
            first = index;
            if kept >= keep {
                break;
            }
        }
    }
    first
}

/// Writes a conversation as text, for the author of the summary.
fn serialise(messages: &MessageList) -> String {
    let mut lines = vec![];
    for message in messages.iter() {
        match message {
            Message::User(user) if user.kind == UserMessageKind::SkillInjection => {}
            Message::User(user) if user.kind == UserMessageKind::Compaction => {
                let text = user.content.text();
                let end = text.find(SUMMARY_END).unwrap_or(text.len());
                lines.push(text[..end].trim_end().to_owned());
            }
            Message::User(user) => lines.push(format!("[Person]: {}", user.content.text())),
            Message::Assistant(reply) => {
                let text = reply.text();
                if !text.is_empty() {
                    lines.push(format!("[Agent]: {text}"));
                }
                let calls =
                    reply.calls().map(|call| format!("[Call]: {} {}", call.name, call.input));
                lines.extend(calls);
            }
            Message::ToolResult(result) => {
                let text = result.content.text();
                let end = text.floor_char_boundary(RESULT_BYTES);
                let more = match text.len() - end {
                    0 => String::new(),
                    more => format!("\n[… {more} more bytes]"),
                };
                lines.push(format!("[Result]: {}{more}", &text[..end]));
            }
        }
    }
    lines.join("\n\n")
}

/// The skills in the messages to summarise, the newest of each name, within a budget. The caller of a skill
/// does not matter.
fn active_skills(messages: &MessageList, skill_tool: &str) -> String {
    let mut names = vec![];
    let mut attached = vec![];
    let mut bytes_left = SKILL_BYTES;
    for message in messages.iter().rev() {
        for text in skill_texts(message, skill_tool).into_iter().rev() {
            let name = text.lines().next().unwrap_or_default().to_owned();
            if text.len() < bytes_left && !names.contains(&name) {
                bytes_left -= text.len();
                names.push(name);
                attached.push(text);
            }
        }
    }
    attached.iter().rev().map(|text| format!("\n\n{text}")).collect()
}

/// The skills in a message, each as the text of its own message.
fn skill_texts(message: &Message, skill_tool: &str) -> Vec<String> {
    match message {
        Message::User(UserMessage { kind: UserMessageKind::SkillInjection, content, .. }) => {
            vec![content.text().into_owned()]
        }
        Message::User(UserMessage { kind: UserMessageKind::Compaction, content, .. }) => {
            parse_attached_skills(&content.text())
        }
        Message::ToolResult(result) if result.tool_name == skill_tool => {
            let data: Value = serde_json::from_str(&result.content.text()).unwrap_or_default();
            let (name, text) = (&data["data"]["skill"], &data["data"]["content"]);
            let skill = name.as_str().zip(text.as_str());
            skill.map(|(name, text)| format_skill_message(name, text)).into_iter().collect()
        }
        _ => vec![],
    }
}

/// The skills attached to a summary. The text of a skill cannot contain its own end tag.
fn parse_attached_skills(summary: &str) -> Vec<String> {
    let Some((_, attached)) = summary.split_once(&format!("{SUMMARY_END}\n\n")) else {
        return vec![];
    };
    let texts = attached.split_inclusive("\n</skill>").map(|text| text.trim_start_matches('\n'));
    texts.filter(|text| text.starts_with("<skill name=\"")).map(str::to_owned).collect()
}
