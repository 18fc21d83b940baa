//! Directive hooks: `/name` in a text that a person typed runs a function before the model sees the text.

use std::{fmt, future::Future};

use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::controls::Controls,
    history::message::{AssistantMessage, AssistantPart, StopReason, Usage},
    hooks::handler::HandlerFailure,
    invoke::callable::{Callable, failed},
};

/// The context of a directive hook.
#[derive(Clone)]
#[non_exhaustive]
pub struct HookCx {
    /// The name that the hook was called by.
    pub name: SmolStr,
    /// The text as the person typed it.
    pub raw_text: String,
    /// The text without bound tokens, after the hooks before this one.
    pub parsed_text: String,
    /// The rest of the token's line.
    pub args: String,
    /// The controls: actions beyond the answer.
    pub controls: Controls,
}

impl HookCx {
    /// Returns the token that fires when the run is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        self.controls.cx().cancel()
    }
}

/// The result of a directive hook: a change of the turn.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HookResult {
    pub(crate) rewrite: Option<String>,
    pub(crate) short_circuit: Option<ShortCircuit>,
}

impl HookResult {
    /// The turn continues unchanged.
    pub fn nothing() -> Self {
        HookResult::default()
    }

    /// The turn continues with this text: for later hooks, for skills and for the message.
    pub fn rewrite(text: impl Into<String>) -> Self {
        HookResult { rewrite: Some(text.into()), short_circuit: None }
    }

    /// The turn ends here with this answer; the model is not called.
    pub fn short_circuit(answer: impl Into<ShortCircuit>) -> Self {
        HookResult { rewrite: None, short_circuit: Some(answer.into()) }
    }

    /// Returns this result with an answer: the turn also ends here.
    pub fn and_short_circuit(self, answer: impl Into<ShortCircuit>) -> Self {
        HookResult { short_circuit: Some(answer.into()), ..self }
    }
}

/// An answer in place of the model: a text, a message, or a whole result.
#[derive(Clone, Debug, Default)]
pub struct ShortCircuit {
    /// The messages that are stored and returned as the model's.
    pub messages: Vec<AssistantMessage>,
    /// The tokens that the answer used.
    pub usage: Usage,
}

impl From<AssistantMessage> for ShortCircuit {
    fn from(message: AssistantMessage) -> Self {
        ShortCircuit { messages: vec![message], usage: Usage::default() }
    }
}

impl<T: Into<String>> From<T> for ShortCircuit {
    fn from(text: T) -> Self {
        ShortCircuit::from(AssistantMessage {
            parts: vec![AssistantPart::Text(text.into())],
            model: "hook".into(),
            usage: Usage::default(),
            stop_reason: StopReason::EndTurn,
        })
    }
}

/// A return value of a directive hook: nothing, a [`HookResult`], or a `Result` of either.
pub trait IntoHookResult {
    /// Converts the value to a result or a failure.
    fn into_result(self) -> Result<HookResult, HandlerFailure>;
}

impl IntoHookResult for () {
    fn into_result(self) -> Result<HookResult, HandlerFailure> {
        Ok(HookResult::nothing())
    }
}

impl IntoHookResult for HookResult {
    fn into_result(self) -> Result<HookResult, HandlerFailure> {
        Ok(self)
    }
}

impl<T: IntoHookResult, E: fmt::Display> IntoHookResult for Result<T, E> {
    fn into_result(self) -> Result<HookResult, HandlerFailure> {
        self.map_err(failed)?.into_result()
    }
}

/// A directive hook.
pub(crate) struct DirectiveHook {
    pub(crate) name: SmolStr,
    pub(crate) function: Callable<HookCx, HookResult>,
}

impl DirectiveHook {
    pub(crate) fn new<F, Fut>(name: SmolStr, function: F) -> Self
    where
        F: Fn(HookCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoHookResult> + Send + 'static,
    {
        DirectiveHook { name, function: Callable::new(function, IntoHookResult::into_result) }
    }
}
