//! Commands: a leading `/name args` that a person types, run with [`Controls`] and without the model.
//!
//! A command returns a message for the person ([`CommandResult::Status`]), a prompt for the agent (a text,
//! or [`CommandResult::Prompt`]) or nothing. A failure is the run's error, with the code `command`.
//! [`Session::invoke_command`](crate::Session::invoke_command) runs a command by name,
//! [`Agent::commands`](crate::agent::Agent::commands) lists the commands.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Command};
//! use cotter::invoke::command::{CommandCx, CommandResult};
//! use cotter_test::ScriptedModel;
//!
//! let count = |cx: CommandCx| async move {
//!     CommandResult::Status(format!("{} entries", cx.controls.entries().len()))
//! };
//! let agent = Agent::builder(ScriptedModel::new([]))
//!     .define_command(Command::new("count", count).description("Counts the entries."))
//!     .build()?;
//! assert_eq!(agent.process_request("/count").await?.text(), "0 entries");
//! # Ok(())
//! # }
//! ```

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use smol_str::SmolStr;

use crate::{
    agent::controls::Controls,
    history::message::{Content, ContentPart},
    hooks::handler::HandlerFailure,
    invoke::callable::{Callable, failed},
};

/// A command.
///
/// A command runs at once, even during a run; its changes then wait for the run's next safe moment. It has
/// no time limit, but it can be cancelled.
pub struct Command {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) function: Callable<CommandCx, CommandResult>,
    complete: Option<Box<Completer>>,
}

type Completer = dyn Fn(&str) -> Vec<String> + Send + Sync;

impl Command {
    /// Makes a command named `name`.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(CommandCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCommandResult> + Send + 'static,
    {
        let function = Callable::new(function, IntoCommandResult::into_result);
        Command { name: name.into(), description: String::new(), function, complete: None }
    }

    /// Sets the description: the effect of the command, in one sentence.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the completions of the arguments, given the part typed so far.
    pub fn completions(
        mut self,
        complete: impl Fn(&str) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.complete = Some(Box::new(complete));
        self
    }

    /// Completes the arguments. A completer that panics offers nothing.
    pub(crate) fn complete(&self, typed: &str) -> Vec<String> {
        let Some(complete) = &self.complete else { return vec![] };
        catch_unwind(AssertUnwindSafe(|| complete(typed))).unwrap_or_default()
    }
}

/// The context of a command.
#[derive(Clone)]
#[non_exhaustive]
pub struct CommandCx {
    /// The name that the command was called by.
    pub name: SmolStr,
    /// The arguments, split with quotes as in a shell.
    pub args: Vec<String>,
    /// The arguments as they were typed.
    pub args_raw: String,
    /// The parts that came with the text: data and pictures.
    pub attachments: Vec<ContentPart>,
    /// The controls: the actions of the command.
    pub controls: Controls,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CommandResult {
    /// No message.
    Nothing,
    /// A message for the person.
    Status(String),
    /// A prompt for the agent, not parsed for directives.
    Prompt(Content),
}

impl CommandResult {
    /// Builds a message for the person.
    pub fn status(text: impl Into<String>) -> Self {
        CommandResult::Status(text.into())
    }

    /// Builds a prompt with further parts.
    pub fn prompt_with(
        text: impl Into<String>,
        attachments: impl IntoIterator<Item = ContentPart>,
    ) -> Self {
        let parts = std::iter::once(ContentPart::Text(text.into())).chain(attachments).collect();
        CommandResult::Prompt(Content::Parts(parts))
    }
}

/// A return value of a command: nothing, a text to send to the agent, a [`CommandResult`], or a `Result` of
/// any.
pub trait IntoCommandResult {
    /// Converts the value to a result or a failure.
    fn into_result(self) -> Result<CommandResult, HandlerFailure>;
}

impl IntoCommandResult for () {
    fn into_result(self) -> Result<CommandResult, HandlerFailure> {
        Ok(CommandResult::Nothing)
    }
}

impl IntoCommandResult for String {
    fn into_result(self) -> Result<CommandResult, HandlerFailure> {
        Ok(CommandResult::Prompt(Content::Text(self)))
    }
}

impl IntoCommandResult for &'static str {
    fn into_result(self) -> Result<CommandResult, HandlerFailure> {
        self.to_owned().into_result()
    }
}

impl IntoCommandResult for CommandResult {
    fn into_result(self) -> Result<CommandResult, HandlerFailure> {
        Ok(self)
    }
}

impl<T: IntoCommandResult, E: fmt::Display> IntoCommandResult for Result<T, E> {
    fn into_result(self) -> Result<CommandResult, HandlerFailure> {
        self.map_err(failed)?.into_result()
    }
}
