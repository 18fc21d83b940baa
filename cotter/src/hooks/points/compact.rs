//! `compact.pre` and `compact.post`: before and after a compaction.

use serde::Serialize;
use smol_str::SmolStr;

use crate::{
    history::message_list::MessageList,
    hooks::{
        handler::HandlerFailure,
        points::{
            Admission, ChainStop, NoAnswer, Point, PointId, TransformEffect, session::observed,
        },
    },
};

/// Fires before a compaction. Gates answer with [`Admission`], transforms with a [`CompactPreChange`]. Each
/// transform sees the summary of the one before it, and the last summary wins.
#[derive(Clone, Copy, Debug)]
pub struct CompactPre;

/// A conversation about to be compacted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactPreEvent {
    /// The reason for the compaction: `forced`, `threshold` or `overflow`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["forced", "threshold", "overflow"])))]
    pub trigger: &'static str,
    /// The number of tokens in the context, as far as is known.
    pub tokens_before: u64,
    /// The messages that the summary replaces, after the context transforms.
    #[serde(skip)]
    pub messages: MessageList,
    /// The first entry that is kept besides the summary; empty if no entry is kept.
    pub first_kept_id: SmolStr,
    /// The summary from an earlier hook, if one gave a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// The answer of a transform at `compact.pre`.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompactPreChange {
    /// Leaves the summary unchanged.
    Keep,
    /// Uses this summary; the model is not asked for one.
    Summary(String),
    /// Prevents the compaction, for this reason.
    Block(String),
}

impl Point for CompactPre {
    const ID: PointId = PointId::CompactPre;
    type Event = CompactPreEvent;
    type Verdict = Admission;
    type Change = CompactPreChange;
    type Answer = NoAnswer;

    fn apply(event: &CompactPreEvent, change: CompactPreChange) -> TransformEffect<Self> {
        match change {
            CompactPreChange::Keep => TransformEffect::Kept,
            CompactPreChange::Summary(summary) => TransformEffect::Replaced(CompactPreEvent {
                summary: Some(summary),
                ..event.clone()
            }),
            CompactPreChange::Block(reason) => TransformEffect::Stopped(ChainStop::Block(reason)),
        }
    }

    fn transform_failed(_: &CompactPreEvent, _: &HandlerFailure) -> TransformEffect<Self> {
        TransformEffect::Kept
    }
}

/// Fires after the summary of a compaction was stored.
#[derive(Clone, Copy, Debug)]
pub struct CompactPost;

/// A conversation that was compacted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactPostEvent {
    /// The reason for the compaction: `forced`, `threshold` or `overflow`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["forced", "threshold", "overflow"])))]
    pub trigger: &'static str,
    /// The number of tokens in the context before the compaction.
    pub tokens_before: u64,
    /// The first entry that is kept besides the summary; empty if no entry is kept.
    pub first_kept_id: SmolStr,
    /// The summary as it was stored.
    pub summary: String,
    /// The hook that gave the summary; absent if the model gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<SmolStr>,
}

observed!(CompactPost, CompactPostEvent);
