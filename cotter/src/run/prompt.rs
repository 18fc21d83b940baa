//! The path of a prompt into the session: directives, directive hooks, `user.prompt.submit`, skills. Then
//! the whole turn is stored at once. If anything fails, nothing of the turn is stored, except for a
//! compaction that a hook made.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{session::Session, step_cx::StepCx},
    history::{
        entry::{Entry, EntryBody},
        message::{
            AssistantMessage, AssistantPart, Content, ContentPart, Message, Rewrite, RewriteLog,
            StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
        },
        outcome::{EndReason, ToolErrorKind},
    },
    hooks::{
        dispatch::PointOutcome,
        events::EventKind,
        handler::HandlerFailure,
        notes::NoteAuthor,
        points::{
            Admission, ChainStop,
            error::RunFailure,
            user_prompt_submit::{UserPromptSubmit, UserPromptSubmitEvent},
        },
    },
    invoke::{
        command::CommandResult,
        directive_hook::{HookCx, HookResult, ShortCircuit},
        directives::{DirectiveToken, leading::leading_mention, parse_tokens},
        named_item::{NameKind, NamedItem},
        subagent::MentionMode,
    },
    permission::{origin::Owner, verdict::Power},
    pipeline,
    run::{
        Reply,
        agent_loop::RunExit,
        commands,
        request::assign_call_ids,
        skills::{self, TriggeredSkill},
    },
};

/// The prompt of a run.
pub(crate) enum PromptInput {
    /// Text that a person typed: `/name` binds in it.
    Typed(Content),
    /// Text of a program or a model: nothing binds in it.
    Plain(Content),
}

/// The result of staging a prompt.
pub(crate) enum StagedPrompt {
    /// The prompt is stored, and the model must be asked.
    AskModel,
    /// The prompt is stored with an answer that replaces the model's.
    Answered(Vec<Arc<Entry>>),
}

/// True if a prompt may begin with a command. Most prompts do not begin with a slash.
pub(crate) fn may_be_command(input: &PromptInput) -> bool {
    let starts_with_slash = |text: &str| text.trim_start().starts_with('/');
    match input {
        PromptInput::Typed(Content::Text(text)) => starts_with_slash(text),
        PromptInput::Typed(Content::Parts(parts)) => {
            matches!(parts.first(), Some(ContentPart::Text(text)) if starts_with_slash(text))
        }
        PromptInput::Plain(_) => false,
    }
}

/// Runs the command that a prompt begins with, if it does. Replaces the prompt by the one that the command
/// returns. The error is the reply of a command without a run.
pub(crate) async fn run_command(
    session: &Session,
    input: &mut PromptInput,
    cancel: &CancellationToken,
) -> Result<(), Reply> {
    let PromptInput::Typed(prompt) = &*input else { return Ok(()) };
    let Some((command, args)) = commands::find_leading_command(session, prompt) else {
        return Ok(());
    };
    let reply = Reply::without_a_run(session.id().clone(), EndReason::EndTurn);
    match commands::invoke(session, &command, args, cancel).await {
        Ok(CommandResult::Prompt(prompt)) => {
            *input = PromptInput::Plain(prompt);
            Ok(())
        }
        Ok(CommandResult::Status(status)) => Err(Reply { status: Some(status), ..reply }),
        Ok(CommandResult::Nothing) => Err(reply),
        Err(HandlerFailure::Cancelled) => Err(Reply { reason: EndReason::Aborted, ..reply }),
        Err(failure) => {
            let message = format!("command \"/{}\" failed: {failure}", command.name);
            let error = Some(RunFailure { code: "command".into(), message });
            Err(Reply { reason: EndReason::Error, error, ..reply })
        }
    }
}

/// Adds a prompt to the session, completely or not at all.
pub(crate) async fn stage(step_cx: &StepCx, input: PromptInput) -> Result<StagedPrompt, RunExit> {
    let staged = match input {
        PromptInput::Typed(content) if step_cx.has_directives() => {
            Box::pin(stage_typed(step_cx, content)).await
        }
        PromptInput::Plain(content) if step_cx.may_trigger_skills() => {
            Box::pin(stage_task(step_cx, content)).await.map(|()| StagedPrompt::AskModel)
        }
        PromptInput::Typed(content) | PromptInput::Plain(content) => {
            stage_plain(step_cx, content).await.map(|()| StagedPrompt::AskModel)
        }
    };
    if staged.is_err() {
        step_cx.state().drop_prompt();
    }
    staged
}

/// Adds a steering text within a run. A refused text is not added, and the person gets a message.
pub(crate) async fn steer(step_cx: &StepCx, content: Content) -> Result<(), RunExit> {
    match stage_plain(step_cx, content).await {
        Err(RunExit { reason: EndReason::Blocked, failure: Some(failure) }) => {
            step_cx.cx.notify(&failure.message);
            Ok(())
        }
        staged => staged,
    }
}

async fn stage_plain(step_cx: &StepCx, content: Content) -> Result<(), RunExit> {
    let mut message = UserMessage::new(content);
    admit(step_cx, &mut message).await?;
    store(step_cx, [EntryBody::Message(Message::User(message))]).map(drop)
}

/// Adds the task of a child: nothing binds in it, and it may trigger skills.
async fn stage_task(step_cx: &StepCx, content: Content) -> Result<(), RunExit> {
    let mut message = UserMessage::new(content);
    let task = typed_text(&message.content).into_owned();
    admit(step_cx, &mut message).await?;
    let mut bodies = build_triggered_entries(step_cx, &task, &[]).await;
    if step_cx.is_cancelled() {
        return Err(RunExit::aborted());
    }
    bodies.push(EntryBody::Message(Message::User(message)));
    store(step_cx, bodies).map(drop)
}

impl StepCx {
    /// True if a prompt is a task of a child that may trigger skills.
    fn may_trigger_skills(&self) -> bool {
        self.agent().parent().is_some() && !self.generation().triggers.is_empty()
    }

    /// True if anything could bind in a person's text.
    fn has_directives(&self) -> bool {
        let names = &self.generation().names;
        let dispatches = self.agent().mention_mode() == MentionMode::Dispatch;
        names.has(NameKind::Hook)
            || names.has(NameKind::Skill)
            || (dispatches && names.has(NameKind::Subagent))
    }
}

async fn stage_typed(step_cx: &StepCx, content: Content) -> Result<StagedPrompt, RunExit> {
    let raw = typed_text(&content).into_owned();
    let parsed = parse_tokens(&raw, |name| {
        step_cx.view.find(NameKind::Hook, name).is_some() || step_cx.view.skill(name).is_some()
    });
    let mention = find_dispatched_subagent(step_cx, &parsed.text);
    let mut message = UserMessage::new(content);
    if let Cow::Owned(text) = &parsed.text {
        replace_typed(&mut message, text.clone());
        message.rewritten = Some(Box::new(RewriteLog { raw: raw.clone(), rewrites: vec![] }));
    }
    let answer = run_hooks(step_cx, &raw, &parsed.tokens, &mut message).await?;
    // Data parts match no trigger, even if a transform merged them into one text.
    let may_trigger = !step_cx.generation().triggers.is_empty();
    let task = may_trigger.then(|| typed_text(&message.content).into_owned());
    admit(step_cx, &mut message).await?;
    if let Some(answer) = answer {
        return store_answer(step_cx, message, answer);
    }
    let text = typed_text(&message.content).into_owned();
    let mut bodies = vec![];
    if let Some(task) = task {
        bodies = build_triggered_entries(step_cx, &task, &parsed.tokens).await;
    }
    for DirectiveToken { name, .. } in &parsed.tokens {
        if step_cx.view.find(NameKind::Hook, name).is_some() {
            continue;
        }
        match skills::build_skill_message(step_cx, name, &text).await {
            Some(Ok(message)) => bodies.push(EntryBody::Message(Message::User(message))),
            Some(Err(failure)) => return Err(failure_exit(step_cx, "skill", name, &failure)),
            None => {}
        }
    }
    if step_cx.is_cancelled() {
        return Err(RunExit::aborted());
    }
    // Data parts are a part of the subagent's task.
    let dispatch = mention.map(|name| {
        let prompt = strip_mention(&name, &message.content.text()).to_owned();
        (name, prompt)
    });
    bodies.push(EntryBody::Message(Message::User(message)));
    match dispatch {
        None => store(step_cx, bodies).map(|_| StagedPrompt::AskModel),
        Some((name, prompt)) => dispatch_mention(step_cx, bodies, &name, &prompt).await,
    }
}

/// The entries of the skills that a task triggers. Before the first message, their text goes to the end of
/// the system prompt; later it is added as messages, so that the provider's cache stays valid.
async fn build_triggered_entries(
    step_cx: &StepCx,
    task: &str,
    tokens: &[DirectiveToken],
) -> Vec<EntryBody> {
    let named: Vec<_> = tokens.iter().map(|token| token.name.clone()).collect();
    let triggered = skills::collect_triggered_skills(step_cx, task, &named).await;
    let is_first = step_cx.state().tree.messages().is_empty();
    let mut bodies = vec![];
    for TriggeredSkill { name, content } in triggered {
        let is_plain_text = |message: &UserMessage| matches!(message.content, Content::Text(_));
        match content {
            Some(message) if is_first && is_plain_text(&message) => {
                let text = message.content.text().into_owned();
                bodies.push(EntryBody::SkillActive { name, text });
            }
            content => {
                bodies.push(EntryBody::SkillActive { name, text: String::new() });
                bodies.extend(content.map(|message| EntryBody::Message(Message::User(message))));
            }
        }
    }
    bodies
}

/// The text a person typed, without data and pictures.
fn typed_text(content: &Content) -> Cow<'_, str> {
    match content {
        Content::Text(text) => Cow::Borrowed(text),
        Content::Parts(parts) => {
            let typed = parts.iter().filter_map(|part| match part {
                ContentPart::Text(text) => Some(text.as_str()),
                _ => None,
            });
            Cow::Owned(typed.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Replaces the typed text; other parts follow in order.
fn replace_typed(message: &mut UserMessage, text: String) {
    let content = std::mem::replace(&mut message.content, Content::Text(String::new()));
    message.content = match content {
        Content::Text(_) => Content::Text(text),
        Content::Parts(parts) => {
            let others = parts.into_iter().filter(|part| !matches!(part, ContentPart::Text(_)));
            Content::Parts(std::iter::once(ContentPart::Text(text)).chain(others).collect())
        }
    };
}

/// Runs the directive hooks in text order, each on the text that the hook before it left. The first answer
/// that replaces the model's ends the loop.
async fn run_hooks(
    step_cx: &StepCx,
    raw: &str,
    tokens: &[DirectiveToken],
    message: &mut UserMessage,
) -> Result<Option<ShortCircuit>, RunExit> {
    for DirectiveToken { name, args } in tokens {
        let Some(NamedItem::Hook(hook)) = step_cx.view.find(NameKind::Hook, name) else { continue };
        let owner = step_cx.view.owner_of(NameKind::Hook, name);
        let origin = owner.origin.to_string();
        let cx = step_cx.cx.with_author(NoteAuthor::named("hook", name, owner.clone()));
        let hook_cx = HookCx {
            name: name.clone(),
            raw_text: raw.to_owned(),
            parsed_text: typed_text(&message.content).into_owned(),
            args: args.as_str().into(),
            controls: cx.controls(),
        };
        let started = Instant::now();
        let result = hook.function.call(hook_cx, &step_cx.cx.run.cancel).await;
        let result = result.and_then(|result| check_power(result, &owner));
        let (verdict, reason) = match &result {
            Ok(HookResult { short_circuit: Some(_), .. }) => ("short_circuit", None),
            Ok(HookResult { rewrite: Some(_), .. }) => ("rewrite", None),
            Ok(_) => ("pass", None),
            Err(failure) => (failure.word(), Some(failure.to_string())),
        };
        step_cx.emit(EventKind::Hook {
            point: "directive",
            name: name.clone(),
            origin,
            power: Power::Transform,
            verdict,
            reason,
            stderr: None,
            ms: started.elapsed().as_secs_f64() * 1e3,
        });
        let HookResult { rewrite, short_circuit } =
            result.map_err(|failure| failure_exit(step_cx, "hook", name, &failure))?;
        if let Some(text) = rewrite {
            record_rewrite(message, raw, name.clone(), &text);
            replace_typed(message, text);
        }
        if short_circuit.is_some() {
            return Ok(short_circuit);
        }
    }
    Ok(None)
}

/// Rejects a change or an answer from an owner that may not transform. Such an owner may do everything
/// else.
fn check_power(result: HookResult, owner: &Owner) -> Result<HookResult, HandlerFailure> {
    let changes = result.rewrite.is_some() || result.short_circuit.is_some();
    if changes && !owner.may(Power::Transform) {
        return Err(HandlerFailure::Error(format!("{owner} may not change or answer a prompt")));
    }
    Ok(result)
}

/// Keeps the raw text beside the rewritten one, with the name of the hook.
fn record_rewrite(message: &mut UserMessage, raw: &str, by: SmolStr, text: &str) {
    let log = message
        .rewritten
        .get_or_insert_with(|| Box::new(RewriteLog { raw: raw.to_owned(), rewrites: vec![] }));
    log.rewrites.push(Rewrite { by, text: text.to_owned() });
}

fn failure_exit(step_cx: &StepCx, kind: &str, name: &str, failure: &HandlerFailure) -> RunExit {
    if step_cx.is_cancelled() {
        return RunExit::aborted();
    }
    let message = format!("{kind} \"{name}\" failed: {failure}");
    RunExit::coded(EndReason::Error, kind, message)
}

/// Lets gates and transforms see the prompt. A gate that refuses it ends the turn.
async fn admit(step_cx: &StepCx, message: &mut UserMessage) -> Result<(), RunExit> {
    let content = &message.content;
    let raw = || match &message.rewritten {
        Some(rewritten) => rewritten.raw.clone(),
        None => content.text().into_owned(),
    };
    let event = || UserPromptSubmitEvent { prompt: content.text().into_owned(), raw_prompt: raw() };
    let Some(outcome) = step_cx.fire_stored::<UserPromptSubmit>(event).await? else {
        return Ok(());
    };
    if let Some((name, reason)) = find_refusal(&outcome) {
        if step_cx.is_cancelled() {
            return Err(RunExit::aborted());
        }
        let message = format!("hook \"{name}\" refused the prompt: {reason}");
        return Err(RunExit::coded(EndReason::Blocked, "blocked", message));
    }
    if outcome.replaced.is_empty() {
        return Ok(());
    }
    let after = outcome.replaced.iter().skip(1).map(|(_, event)| event).chain([&outcome.event]);
    for ((meta, _), event) in outcome.replaced.iter().zip(after) {
        record_rewrite(message, &event.raw_prompt, meta.name.clone(), &event.prompt);
    }
    let parts = match std::mem::replace(&mut message.content, Content::Text(String::new())) {
        Content::Text(_) => vec![],
        // The hooks saw the data parts as part of the text.
        Content::Parts(parts) => {
            parts.into_iter().filter(|part| part.as_text().is_none()).collect()
        }
    };
    let text = outcome.event.prompt.clone();
    message.content = if parts.is_empty() {
        Content::Text(text)
    } else {
        Content::Parts(std::iter::once(ContentPart::Text(text)).chain(parts).collect())
    };
    Ok(())
}

fn find_refusal(outcome: &PointOutcome<UserPromptSubmit>) -> Option<(&str, &str)> {
    if let Some((meta, ChainStop::Block(reason))) = &outcome.stop {
        return Some((&meta.name, reason));
    }
    match outcome.strictest()? {
        (meta, Admission::Block(reason)) => Some((&meta.name, reason)),
        (_, Admission::Pass) => None,
    }
}

/// Stores the turn in one append, after the entries that hooks added.
fn store(
    step_cx: &StepCx,
    bodies: impl IntoIterator<Item = EntryBody>,
) -> Result<Vec<Arc<Entry>>, RunExit> {
    let entries: Vec<_> = {
        let mut state = step_cx.state();
        let added = state.add_pending_entries();
        let stored: Vec<_> = bodies.into_iter().map(|body| state.append(body)).collect();
        added.into_iter().chain(stored).collect()
    };
    for entry in &entries {
        step_cx.commit_and_emit(|| EventKind::Message { entry: entry.clone() })?;
    }
    Ok(entries)
}

/// Stores the prompt with a hook's answer.
fn store_answer(
    step_cx: &StepCx,
    message: UserMessage,
    answer: ShortCircuit,
) -> Result<StagedPrompt, RunExit> {
    crate::agent::session::budget::book(&step_cx.cx, answer.usage, Some(0.0));
    let numbered = (0..).zip(answer.messages);
    let replies = numbered.flat_map(|(number, reply)| pair_with_results(step_cx, number, reply));
    let replies: Vec<_> = replies.collect();
    let count = replies.len();
    let bodies = std::iter::once(Message::User(message)).chain(replies).map(EntryBody::Message);
    let mut entries = store(step_cx, bodies)?;
    let mut entries = entries.split_off(entries.len() - count);
    entries.retain(|entry| matches!(entry.message(), Some(Message::Assistant(_))));
    Ok(StagedPrompt::Answered(entries))
}

/// A hook's reply, with a result for each call in it: these calls are not run.
fn pair_with_results(step_cx: &StepCx, number: u32, mut reply: AssistantMessage) -> Vec<Message> {
    reply.parts = assign_call_ids(reply.parts, step_cx, number);
    let message = "Not run: it was part of a hook's answer.";
    let results = reply.calls().map(|call| {
        Message::ToolResult(ToolResultMessage::new_error(call, ToolErrorKind::Cancelled, message))
    });
    let results: Vec<_> = results.collect();
    std::iter::once(Message::Assistant(reply)).chain(results).collect()
}

/// The subagent that a leading `@name` calls without the model, if the mention mode is dispatch.
fn find_dispatched_subagent(step_cx: &StepCx, text: &str) -> Option<SmolStr> {
    if step_cx.agent().mention_mode() != MentionMode::Dispatch {
        return None;
    }
    let (name, _) = leading_mention(text)?;
    step_cx.view.subagent(name)?;
    Some(name.into())
}

/// The prompt of a subagent that `@name` calls: the stored prompt, without the name.
fn strip_mention<'a>(name: &str, text: &'a str) -> &'a str {
    match leading_mention(text) {
        Some((leading, prompt)) if leading == name => prompt,
        _ => text,
    }
}

/// Calls a subagent as the model would, and uses its answer as the model's.
async fn dispatch_mention(
    step_cx: &StepCx,
    mut bodies: Vec<EntryBody>,
    name: &str,
    prompt: &str,
) -> Result<StagedPrompt, RunExit> {
    let call = ToolCall {
        id: format_smolstr!("mention_{}", step_cx.run_id()),
        name: step_cx.agent().invoke_tool_names()[1].clone(),
        input: Arc::new(json!({"name": name, "prompt": prompt})),
    };
    let reply = |part, stop_reason| {
        EntryBody::Message(Message::Assistant(AssistantMessage {
            parts: vec![part],
            model: "mention".into(),
            usage: Usage::default(),
            stop_reason,
        }))
    };
    bodies.push(reply(AssistantPart::ToolCall(call.clone()), StopReason::ToolUse));
    store(step_cx, bodies)?;
    pipeline::run_step(step_cx, vec![call.clone()], None).await?;
    let answer = reply(AssistantPart::Text(mention_answer(step_cx)), StopReason::EndTurn);
    let mut entries = store(step_cx, [answer])?;
    Ok(StagedPrompt::Answered(entries.split_off(entries.len() - 1)))
}

/// The answer of a subagent, or its error: the text of the last stored result.
fn mention_answer(step_cx: &StepCx) -> String {
    let messages = step_cx.session().messages();
    let Some(Message::ToolResult(result)) = messages.last() else { return String::new() };
    let parts = result.render_data.as_ref().and_then(|data| data["parts"].as_array());
    if let Some(parts) = parts {
        let texts: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        return texts.join("\n");
    }
    let text = result.content.text();
    let data: Value = serde_json::from_str(&text).unwrap_or_default();
    let answer = data["data"]["content"].as_str().or_else(|| data["message"].as_str());
    answer.map_or_else(|| text.to_string(), str::to_owned)
}
