//! The leave to run: only the pipeline makes one, after the decision is on record.

use std::{fmt, path::Path, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    history::message::ToolCall,
    hooks::notes::{NoteAuthor, ToolCallRef},
    permission::{facts::Facts, origin::Owner},
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
    pub(crate) fn after_ledger_row(
        call: &ToolCall,
        input: Arc<Value>,
        facts: Arc<Facts>,
        owner: &Owner,
        cx: Cx,
    ) -> Self {
        let (tool, call_id) = (call.name.clone(), call.id.clone());
        Permit { call_id, tool, input, facts, cx: spoken_by_tool(call, owner, &cx) }
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
        self.cx.stream_output(&self.call_id, text);
    }

    /// Whether a search may look into a file it comes across. What a call names was decided on; this was
    /// not. So a file is left alone that is closed or outside, that a rule asks about or denies, or
    /// that is a secret by its name: whoever wants it names it.
    pub fn may_look_into(&self, path: &Path) -> bool {
        self.cx.may_look_into(&self.tool, path)
    }

    /// Where it runs.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }
}

/// The same place with the tool of a call speaking.
pub(crate) fn spoken_by_tool(call: &ToolCall, owner: &Owner, cx: &Cx) -> Cx {
    let (tool, call_id) = (call.name.clone(), call.id.clone());
    cx.spoken_by(NoteAuthor::Tool(Arc::new(ToolCallRef { tool, owner: owner.clone(), call_id })))
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permit for {} {}", self.tool, self.call_id)
    }
}
