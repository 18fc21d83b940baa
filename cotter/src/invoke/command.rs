//! Commands: a leading `/name args` that a person types, run with [`Controls`] and without the model.
//!
//! What a command returns is a word for the person ([`CommandResult::Status`]), a prompt for the agent
//! (a text, or [`CommandResult::Prompt`]) or nothing; a failure is the run's, with the code `command`.
//! [`Session::invoke_command`](crate::Session::invoke_command) runs one by name, [`Agent::commands`](crate::agent::Agent::commands) lists
//! them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Command};
//! use cotter::invoke::command::{CommandCx, CommandResult};
//! use cotter_test::Scripted;
//!
//! let count = |cx: CommandCx| async move {
//!     CommandResult::Status(format!("{} entries", cx.controls.entries().len()))
//! };
//! let agent = Agent::builder(Scripted::new([]))
//!     .define_command(Command::new("count", count).description("Counts what is stored."))
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
/// It runs at once, also while a run is under way: what it changes then waits for the run's next safe
/// moment. It has no limit of time but its cancel.
pub struct Command {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) function: Callable<CommandCx, CommandResult>,
    complete: Option<Box<Completer>>,
}

type Completer = dyn Fn(&str) -> Vec<String> + Send + Sync;

impl Command {
    /// A command of that name.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(CommandCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCommandResult> + Send + 'static,
    {
        let function = Callable::new(function, IntoCommandResult::into_result);
        Command { name: name.into(), description: String::new(), function, complete: None }
    }

    /// What it does, in one sentence.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// What its arguments may go on with: given what was typed of them so far.
    pub fn completions(
        mut self,
        complete: impl Fn(&str) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.complete = Some(Box::new(complete));
        self
    }

    /// A completer that panics has nothing to offer.
    pub(crate) fn complete(&self, typed: &str) -> Vec<String> {
        let Some(complete) = &self.complete else { return vec![] };
        catch_unwind(AssertUnwindSafe(|| complete(typed))).unwrap_or_default()
    }
}

/// What a command is told.
#[derive(Clone)]
#[non_exhaustive]
pub struct CommandCx {
    /// The name it was called by.
    pub name: SmolStr,
    /// Its arguments, with quotes as in a shell.
    pub args: Vec<String>,
    /// Its arguments as they were typed.
    pub args_raw: String,
    /// What came with the text: data and pictures.
    pub attachments: Vec<ContentPart>,
    /// What it can do.
    pub controls: Controls,
}

/// What a command comes to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CommandResult {
    /// Nothing to say.
    Nothing,
    /// A word for the person.
    Status(String),
    /// A prompt for the agent, not parsed for directives.
    Prompt(Content),
}

impl CommandResult {
    /// A word for the person.
    pub fn status(text: impl Into<String>) -> Self {
        CommandResult::Status(text.into())
    }

    /// A prompt with further parts.
    pub fn prompt_with(
        text: impl Into<String>,
        attachments: impl IntoIterator<Item = ContentPart>,
    ) -> Self {
        let parts = std::iter::once(ContentPart::Text(text.into())).chain(attachments).collect();
        CommandResult::Prompt(Content::Parts(parts))
    }
}

/// What a command may return: nothing, a text to send to the agent, a [`CommandResult`], or a
/// `Result` of any.
pub trait IntoCommandResult {
    /// The result, or the failure it amounts to.
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
