//! `error`: the run cannot go on, or a limit was reached.

use serde::Serialize;
use smol_str::SmolStr;

use crate::hooks::points::{NoAnswer, Point, PointId, TransformEffect, session::observed};

/// Fires just before `session.end` when a run fails or reaches a limit.
#[derive(Clone, Copy, Debug)]
pub struct Error;

/// Why a run could not go on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFailure {
    /// What kind of failure, one word.
    pub code: SmolStr,
    /// The failure in words.
    pub message: String,
}

observed!(Error, RunFailure);
