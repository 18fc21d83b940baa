//! `tool.refused`: a call that never ran.

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
#[serde(rename_all = "camelCase")]
pub struct ToolRefusedEvent {
    /// The id the model gave the call.
    pub call_id: SmolStr,
    /// The tool's name, which may be no tool's.
    pub tool_name: SmolStr,
    /// The input as it stood when it was refused.
    pub tool_input: Arc<Value>,
    /// Who refused it: a stage, a rule or a hook.
    pub by: SmolStr,
    /// Why.
    pub reason: String,
}

observed!(ToolRefused, ToolRefusedEvent);
