//! `model.pre` and `model.post`: around each request to the model.

use serde::Serialize;
use smol_str::SmolStr;

use crate::{
    history::message::StopReason,
    hooks::points::{NoAnswer, Point, PointId, TransformEffect, session::observed},
};

/// Fires before each provider attempt, retries included. Its notes ride on this very request.
#[derive(Clone, Copy, Debug)]
pub struct ModelPre;

/// A request is about to be sent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreEvent {
    /// The model asked.
    pub model: SmolStr,
    /// How many messages the request has, its notes aside.
    pub message_count: usize,
    /// 1 for the first try of a step.
    pub attempt: u32,
}

/// Fires after each successful reply is recorded: the moment for metering.
#[derive(Clone, Copy, Debug)]
pub struct ModelPost;

/// A reply was recorded.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPostEvent {
    /// The model that answered.
    pub model: SmolStr,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
    /// What it cost, where the price is known.
    pub cost_usd: Option<f64>,
    /// How many tools it called.
    pub tool_call_count: usize,
    /// Who made the request begin otherwise than the last one to the same model, where somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_break: Option<CacheBreak>,
}

/// A request that does not begin as the last one to the same model did: the provider's cache is of no
/// use from there on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheBreak {
    /// Whose doing it is: an owner, a hook with words for the system prompt, a context transform,
    /// `compaction`, or `session` where history itself was changed.
    pub by: SmolStr,
    /// What changed: `tools`, `system` or `messages`.
    pub part: &'static str,
    /// The byte of the request's body at which it changed, its cache marks not counted, where the
    /// model knows.
    pub byte: Option<u64>,
}

observed!(ModelPre, ModelPreEvent);
observed!(ModelPost, ModelPostEvent);
