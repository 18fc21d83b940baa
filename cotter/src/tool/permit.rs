//! The leave to run: only the pipeline makes one, after the decision is on record.

use std::{fmt, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use super::Facts;
use crate::{
    cx::Cx,
    events::EventKind,
    ext::Owner,
    message::ToolCall,
    notes::{Calling, Speaker},
    scene::Scene,
};

/// The leave to run one call once. There is no way to make one but through the pipeline.
pub struct Permit {
    call_id: SmolStr,
    tool: SmolStr,
    input: Arc<Value>,
    facts: Arc<Facts>,
    cx: Cx,
}

impl Permit {
    /// To be called right after the ledger row of the call was stored, and nowhere else.
    pub(super) fn after_ledger_row(
        call: &ToolCall,
        input: Arc<Value>,
        facts: Arc<Facts>,
        owner: &Owner,
        mut cx: Cx,
    ) -> Self {
        let (tool, call_id) = (call.name.clone(), call.id.clone());
        let calling =
            Calling { tool: tool.clone(), owner: owner.clone(), call_id: call_id.clone() };
        cx.speaker = Speaker::Tool(Arc::new(calling));
        Permit { call_id, tool, input, facts, cx }
    }

    /// The id the model gave the call.
    pub fn call_id(&self) -> &SmolStr {
        &self.call_id
    }

    /// The tool's name.
    pub fn tool(&self) -> &SmolStr {
        &self.tool
    }

    /// The input that was decided on.
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// What was worked out about it before it was decided on.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Shows a piece of what the tool makes while it is at work. Only whoever listens gets it; the
    /// model gets what the tool answers.
    pub fn stream(&self, text: &str) {
        let scene = Scene::of(&self.cx.spoken_by(Speaker::Runtime));
        if scene.is_heard() && !text.is_empty() {
            scene.emit(EventKind::ToolOutput { call_id: self.call_id.clone(), text: text.into() });
        }
    }

    /// Where it runs.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permit for {} {}", self.tool, self.call_id)
    }
}
