//! `compact.pre` and `compact.post`: around the summing-up of a conversation.

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

/// Fires before a conversation is summed up. Gates answer with [`Admission`], transforms with a
/// [`CompactPreChange`]: each sees the summary of the one before it, and the last one given stands.
#[derive(Clone, Copy, Debug)]
pub struct CompactPre;

/// A conversation about to be summed up.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactPreEvent {
    /// `forced`, `threshold` or `overflow`.
    pub trigger: &'static str,
    /// How many tokens the context has, as far as is known.
    pub tokens_before: u64,
    /// What the summary is to stand for, as context transforms left it.
    #[serde(skip)]
    pub messages: MessageList,
    /// The first entry that is kept beside it; empty where nothing is.
    pub first_kept_id: SmolStr,
    /// The summary a transform gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// What a transform makes of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompactPreChange {
    /// Leaves it as it is.
    Keep,
    /// Takes this summary; the model is not asked for one.
    Summary(String),
    /// Does not sum up, for this reason.
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

/// Fires after a conversation was summed up and the summary stored.
#[derive(Clone, Copy, Debug)]
pub struct CompactPost;

/// A conversation that was summed up.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactPostEvent {
    /// `forced`, `threshold` or `overflow`.
    pub trigger: &'static str,
    /// How many tokens the context had.
    pub tokens_before: u64,
    /// The first entry that is kept beside the summary; empty where nothing is.
    pub first_kept_id: SmolStr,
    /// The summary as it was stored.
    pub summary: String,
    /// The hook that gave the summary; absent where the model did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<SmolStr>,
}

observed!(CompactPost, CompactPostEvent);
