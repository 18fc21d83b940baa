//! `model.pre` and `model.post`: before and after each request to the model.

use serde::Serialize;
use smol_str::SmolStr;

use crate::{
    history::message::StopReason,
    hooks::points::{NoAnswer, Point, PointId, TransformEffect, session::observed},
};

/// Fires before each attempt, retries included. Its notes are sent with this same request.
#[derive(Clone, Copy, Debug)]
pub struct ModelPre;

/// A request is about to be sent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelPreEvent {
    /// The model of the request.
    pub model: SmolStr,
    /// The number of messages in the request, without notes.
    pub message_count: usize,
    /// The number of the attempt: 1 for the first attempt of a step.
    pub attempt: u32,
}

/// Fires after each successful reply is recorded. Metering hooks use this point.
#[derive(Clone, Copy, Debug)]
pub struct ModelPost;

/// A reply was recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelPostEvent {
    /// The model that answered.
    pub model: SmolStr,
    /// The reason why the model stopped.
    pub stop_reason: StopReason,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
    /// The cost in dollars; `null` if the price is not known.
    pub cost_usd: Option<f64>,
    /// The number of tool calls in the reply.
    pub tool_call_count: usize,
    /// The first difference to the last request to the same model; absent if this request only adds to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_break: Option<CacheBreak>,
}

/// A request that begins differently from the last request to the same model. The provider's cache is useless
/// from the changed byte on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CacheBreak {
    /// The cause: an owner, a hook with text for the system prompt, a context transform, `compaction`, or
    /// `session` if the history itself was changed.
    pub by: SmolStr,
    /// The changed part: `tools`, `system` or `messages`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["tools", "system", "messages"])))]
    pub part: &'static str,
    /// The position of the change in the request's body, in bytes without cache marks; `null` if
    /// it is not known.
    pub byte: Option<u64>,
}

observed!(ModelPre, ModelPreEvent);
observed!(ModelPost, ModelPostEvent);
