//! `error`: the run fails or reaches a limit.

use serde::Serialize;
use smol_str::SmolStr;

use crate::hooks::points::{NoAnswer, Point, PointId, TransformEffect, session::observed};

/// Fires just before `session.end` when a run fails or reaches a limit.
#[derive(Clone, Copy, Debug)]
pub struct Error;

/// The failure of a run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunFailure {
    /// The kind of failure, in one word.
    pub code: SmolStr,
    /// The failure as a sentence.
    pub message: String,
}

observed!(Error, RunFailure);
