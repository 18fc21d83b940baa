//! `tool.refused`: a call was refused and never ran.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::hooks::points::{NoAnswer, Point, PointId, TransformEffect, session::observed};

/// Fires for every call that was refused before its tool ran.
#[derive(Clone, Copy, Debug)]
pub struct ToolRefused;

/// A refused call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolRefusedEvent {
    /// The id that the model gave the call.
    pub call_id: SmolStr,
    /// The name of the tool in the call; no such tool may exist.
    pub tool_name: SmolStr,
    /// The input at the time of the refusal.
    pub tool_input: Arc<Value>,
    /// The stage, rule or hook that refused the call.
    pub by: SmolStr,
    /// The reason of the refusal.
    pub reason: String,
}

observed!(ToolRefused, ToolRefusedEvent);
