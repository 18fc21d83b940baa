//! `/pop`, session stacking, as an extension: a person goes back to an earlier turn, and a summary replaces
//! the later turns. Look at `pop`, the command, which stores an entry of its own type, and at the two
//! transforms that use this entry. `from_entries` rebuilds the context from all stored entries, and so
//! restores messages that a compaction had replaced. `from_messages` changes only the messages for the model,
//! by their entry ids, and keeps a compaction in force.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
};

use cotter::{
    Agent, Command, HookCx, Message, Registry,
    agent::controls::Completion,
    history::{
        entry::{Entries, Entry, EntryBody},
        message::UserMessageKind,
        message_list::MessageChange,
    },
    hooks::points::{Context, ContextChange, ContextEvent},
    invoke::command::{CommandCx, CommandResult},
    named,
};
use cotter_test::{PersonAnswer, RecordingModel, ScriptedModel, ScriptedUi, Step};
use serde_json::{Map, Value};

async fn pop(cx: CommandCx) -> Result<CommandResult, Box<dyn Error + Send + Sync>> {
    let entries = cx.controls.entries();
    let turns =
        entries.iter().enumerate().filter_map(|(index, entry)| Some((index, typed_text(entry)?)));
    let (indices, texts): (Vec<_>, Vec<_>) = turns.unzip();
    if texts.is_empty() {
        return Ok(CommandResult::status("No turns to pop"));
    }
    let Some(chosen) = cx.controls.cx().select("Pop to:", &texts).await else {
        return Ok(CommandResult::Nothing);
    };
    let back_to = indices[chosen];
    let since = entries.iter().skip(back_to).filter_map(|entry| entry.message());
    let since: Vec<_> = since.map(|message| message.text().into_owned()).collect();
    let ask = Completion::new(since.join("\n")).with_system("Sum up this part of a conversation.");
    let summary = cx.controls.complete(ask).await?.text;
    cx.controls.save_entry(Map::from_iter([
        ("type".into(), "stack_pop".into()),
        ("backToIndex".into(), back_to.into()),
        ("summary".into(), summary.into()),
    ]))?;
    cx.controls.rebuild_context().await?;
    Ok(CommandResult::status("Popped stack"))
}

/// Returns the beginning of a text that a person typed.
fn typed_text(entry: &Entry) -> Option<String> {
    match entry.message()? {
        Message::User(user) if user.kind == UserMessageKind::Typed => {
            Some(user.content.text().chars().take(50).collect())
        }
        _ => None,
    }
}

/// Returns the popped ranges by the index of their first entry: the end of each range, and its summary.
fn pops(entries: &Entries) -> HashMap<usize, (usize, Message)> {
    let mut pops = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let EntryBody::Custom(fields) = entry.body() else { continue };
        let (Some("stack_pop"), Some(back_to), Some(summary)) = (
            fields.get("type").and_then(Value::as_str),
            fields.get("backToIndex").and_then(Value::as_u64),
            fields.get("summary").and_then(Value::as_str),
        ) else {
            continue;
        };
        let back_to = usize::try_from(back_to).unwrap_or(index);
        // An earlier pop within this range is part of its summary.
        pops.retain(|first, _| *first < back_to);
        let summary = Message::user(format!("[Subtask completed]\n\n{summary}"));
        pops.insert(back_to, (index, summary));
    }
    pops
}

pub(crate) fn from_entries(build: &ContextEvent) -> ContextChange {
    let entries = build.entries();
    let pops = pops(&entries);
    if pops.is_empty() {
        return ContextChange::Keep;
    }
    let mut messages = vec![];
    let mut skip_to = 0;
    for (index, entry) in entries.iter().enumerate() {
        if let Some((last, summary)) = pops.get(&index) {
            messages.push(summary.clone());
            skip_to = skip_to.max(last + 1);
        }
        if index >= skip_to {
            messages.extend(entry.message().cloned());
        }
    }
    ContextChange::messages(messages)
}

pub(crate) fn from_messages(build: &ContextEvent) -> ContextChange {
    let entries = build.entries();
    let pops = pops(&entries);
    if pops.is_empty() {
        return ContextChange::Keep;
    }
    let mut popped = HashMap::new();
    for (first, (last, _)) in &pops {
        popped.extend((*first..=*last).map(|index| (entries[index].id(), first)));
    }
    let mut replaced = HashSet::new();
    ContextChange::Messages(build.messages.map_messages(|id, message| {
        // The summary of a compaction also covers entries before the range.
        let is_summary =
            matches!(message, Message::User(user) if user.kind == UserMessageKind::Compaction);
        match id.and_then(|id| popped.get(id)).filter(|_| !is_summary) {
            None => MessageChange::Keep,
            Some(first) if replaced.insert(first) => MessageChange::Replace(pops[first].1.clone()),
            Some(_) => MessageChange::Drop,
        }
    }))
}

type Transform = fn(&ContextEvent) -> ContextChange;

/// Registers the extension: one command and one transform.
fn stacking(unit: &mut Registry, transform: Transform) {
    let description = "Go back to an earlier turn; a summary replaces the later turns.";
    unit.define_command(Command::new("pop", pop).description(description));
    unit.transform(Context, named("stack", transform));
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    Ok(format!(
        "from entries:\n{}\nfrom messages:\n{}",
        side_track(from_entries).await?,
        side_track(from_messages).await?
    ))
}

/// Compacts, starts a side track and pops back to the turn before it.
async fn side_track(transform: Transform) -> Result<String, Box<dyn Error>> {
    let prompts = "What grows here?|/compact Which?|What is a spade?|How do I dig?|/pop|Next?";
    let replies = "Roses.|They talked of roses.|Red ones.|A tool.|With the feet.|They talked of \
                   spades.|Plant them.";
    talk(transform, prompts, replies, [PersonAnswer::Choice(2)]).await
}

/// Plays prompts and replies, each separated by `|`. Returns the statuses of `/pop`, and the messages that
/// the model got at the end.
pub(crate) async fn talk(
    transform: Transform,
    prompts: &str,
    replies: &str,
    choices: impl IntoIterator<Item = PersonAnswer>,
) -> Result<String, Box<dyn Error>> {
    let model = RecordingModel::new(ScriptedModel::new(replies.split('|').map(Step::text)));
    let agent = Agent::builder(model.clone())
        .extend(|unit| stacking(unit, transform))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .ui(ScriptedUi::new(choices))
        .build()?;
    let mut statuses = String::new();
    for prompt in prompts.split('|') {
        let reply = agent.process_request(prompt).await?;
        if prompt == "/pop" {
            statuses += &format!("/pop: {}\n", reply.status.as_deref().unwrap_or("(nothing)"));
        }
    }
    Ok(statuses + model.shown().split("--\n").last().unwrap_or_default())
}
