//! The commands of the library. A program adds them with `.extend(builtin::commands)`. They need no terminal.

use crate::{
    agent::controls::ControlError,
    history::{
        entry::EntryBody,
        message::{Message, UserMessageKind},
        store::StoreError,
    },
    invoke::{
        command::{Command, CommandCx, CommandResult},
        named_item::{NameInfo, NameKind},
    },
    registry::Registry,
};

/// Registers the commands `/compact`, `/name`, `/retry`, `/tools`, `/skills`, `/agents` and `/commands`.
/// `/retry` sends the last prompt again; all others answer with a status.
pub fn commands(unit: &mut Registry) {
    unit.define_command(
        Command::new("compact", compact)
            .description("Summarise the conversation now; TEXT says what matters: /compact [TEXT]"),
    )
    .define_command(
        Command::new("name", name).description("Name this session, or show its name: /name [TEXT]"),
    )
    .define_command(Command::new("retry", retry).description("Send your last prompt again"))
    .define_command(
        Command::new("tools", tools).description("List the tools that the model may call"),
    )
    .define_command(Command::new("skills", skills).description("List the skills"))
    .define_command(
        Command::new("agents", agents).description("List the subagents that the model may call"),
    )
    .define_command(Command::new("commands", list_commands).description("List the commands"));
}

async fn compact(cx: CommandCx) -> Result<CommandResult, ControlError> {
    let (entries, before) = (cx.controls.entries().len(), cx.controls.counts().context_tokens);
    match cx.controls.force_compaction_with_instructions(&cx.args_raw).await {
        Err(error) if error.code == ControlError::NOTHING_TO_COMPACT => {
            return Ok(CommandResult::status(error.message));
        }
        result => result?,
    }
    if cx.controls.entries().len() == entries {
        // A run is in progress and compacts before its next request.
        return Ok(CommandResult::status(
            "the conversation will be compacted before the next request",
        ));
    }
    let after = cx.controls.counts().context_tokens;
    Ok(CommandResult::Status(format!("compacted: {before} tokens before, {after} after")))
}

async fn name(cx: CommandCx) -> Result<CommandResult, StoreError> {
    let session = cx.controls.session();
    if !cx.args_raw.is_empty() {
        session.set_name(&cx.args_raw)?;
        let name = cx.args_raw.split_whitespace().collect::<Vec<_>>().join(" ");
        return Ok(CommandResult::Status(format!("this session is now called \"{name}\"")));
    }
    Ok(CommandResult::Status(match session.name() {
        Some(name) => format!("this session is called \"{name}\""),
        None => "this session has no name".into(),
    }))
}

async fn retry(cx: CommandCx) -> CommandResult {
    let entries = cx.controls.entries();
    let last_prompt = entries.iter().rev().find_map(|entry| match entry.body() {
        EntryBody::Message(Message::User(user)) if user.kind == UserMessageKind::Typed => {
            Some(user.content.clone())
        }
        _ => None,
    });
    last_prompt.map_or_else(
        || CommandResult::status("there is no prompt to send again"),
        CommandResult::Prompt,
    )
}

async fn tools(cx: CommandCx) -> CommandResult {
    let tools = cx.controls.tools();
    let lines = tools.specs().map(|spec| line("", &spec.name, &spec.description));
    list_status(lines.collect(), "there are no tools")
}

async fn skills(cx: CommandCx) -> CommandResult {
    list_status(list_named(&cx, NameKind::Skill, "/"), "there are no skills")
}

async fn agents(cx: CommandCx) -> CommandResult {
    list_status(list_named(&cx, NameKind::Subagent, "@"), "there are no subagents")
}

async fn list_commands(cx: CommandCx) -> CommandResult {
    list_status(list_named(&cx, NameKind::Command, "/"), "there are no commands")
}

/// Lists the items of a kind that can be called by name, without shadowed ones.
fn list_named(cx: &CommandCx, kind: NameKind, mark: &str) -> Vec<String> {
    let names = cx.controls.agent().names(kind);
    let found = names.iter().filter(|info: &&NameInfo| info.shadowed_by.is_none());
    found.map(|info| line(mark, &info.name, &info.description)).collect()
}

fn list_status(lines: Vec<String>, none: &str) -> CommandResult {
    CommandResult::Status(if lines.is_empty() { none.into() } else { lines.join("\n") })
}

/// Returns a line with a name and the first sentence of its description.
fn line(mark: &str, name: &str, description: &str) -> String {
    let first = description.trim().lines().next().unwrap_or_default();
    match first.split(". ").next().unwrap_or_default().trim_end_matches('.') {
        "" => format!("{mark}{name}"),
        sentence => format!("{mark}{name}: {sentence}"),
    }
}
