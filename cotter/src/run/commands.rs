//! Runs a command: the leading command of a prompt, or a command by name.

use std::sync::Arc;

use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{session::Session, step_cx::StepCx},
    history::message::{Content, ContentPart},
    hooks::{events::EventKind, handler::HandlerFailure, notes::NoteAuthor},
    invoke::{
        command::{Command, CommandCx, CommandResult},
        directives::leading::{leading_command, split_args},
    },
    permission::origin::Owner,
};

impl Session {
    /// Runs a command by name; `None` if it does not exist. If no run is in progress, the command has the
    /// session to itself.
    pub async fn invoke_command(
        &self,
        name: &str,
        args_raw: &str,
    ) -> Option<Result<CommandResult, HandlerFailure>> {
        let view = self.agent.view();
        let (owner, command) = view.command(name)?;
        let cancel = self.agent.new_cancel();
        let args = CommandArgs { owner, args_raw: args_raw.into(), attachments: vec![] };
        Some(invoke(self, command, args, &cancel).await)
    }
}

/// The arguments of a command, and its owner at the time it was found.
pub(crate) struct CommandArgs {
    owner: Owner,
    args_raw: String,
    attachments: Vec<ContentPart>,
}

/// Finds the registered command at the start of a prompt, with its arguments.
pub(crate) fn find_leading_command(
    session: &Session,
    prompt: &Content,
) -> Option<(Arc<Command>, CommandArgs)> {
    let (text, attachments) = match prompt {
        Content::Text(text) => (text, &[][..]),
        Content::Parts(parts) => match parts.split_first()? {
            (ContentPart::Text(text), others) => (text, others),
            _ => return None,
        },
    };
    let leading = leading_command(text)?;
    let view = session.agent.view();
    let (owner, command) = view.command(leading.name)?;
    let args_raw = leading.args_raw.to_owned();
    Some((command.clone(), CommandArgs { owner, args_raw, attachments: attachments.to_vec() }))
}

/// Runs a command on a session. If no run is in progress, the command has the session to itself.
pub(crate) async fn invoke(
    session: &Session,
    command: &Command,
    CommandArgs { owner, args_raw, attachments }: CommandArgs,
    cancel: &CancellationToken,
) -> Result<CommandResult, HandlerFailure> {
    let _lock = session.shared.run_lock.try_lock();
    let step_cx = StepCx::of(&session.cx(SmolStr::default(), cancel.clone()));
    let author = NoteAuthor::named("command", &command.name, owner);
    let controls = step_cx.cx.with_author(author).controls();
    let name = command.name.clone();
    let args = split_args(&args_raw);
    let command_cx = CommandCx { name: name.clone(), args, args_raw, attachments, controls };
    let result = command.function.call(command_cx, cancel).await;
    step_cx.cx.run.end();
    let result = result?;
    let status = match &result {
        CommandResult::Status(status) => Some(status.clone()),
        _ => None,
    };
    step_cx.emit(EventKind::CommandResult { name, status });
    Ok(result)
}
