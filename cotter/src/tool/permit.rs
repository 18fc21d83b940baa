//! The permit to run a call. Only the pipeline makes one, after the decision is on record.

use std::{fmt, path::Path, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    history::message::ToolCall,
    hooks::notes::{NoteAuthor, ToolCallRef},
    permission::{facts::Facts, origin::Owner},
};

/// The permission to run one call once. Only the pipeline can make one.
pub struct Permit {
    call_id: SmolStr,
    tool: SmolStr,
    input: Arc<Value>,
    facts: Arc<Facts>,
    cx: Cx,
}

impl Permit {
    /// Makes a permit. Must be called only right after the ledger row of the call was stored.
    pub(crate) fn after_ledger_row(
        call: &ToolCall,
        input: Arc<Value>,
        facts: Arc<Facts>,
        owner: &Owner,
        cx: Cx,
    ) -> Self {
        let (tool, call_id) = (call.name.clone(), call.id.clone());
        Permit { call_id, tool, input, facts, cx: make_tool_cx(call, owner, &cx) }
    }

    /// Returns the id that the model gave the call.
    pub fn call_id(&self) -> &SmolStr {
        &self.call_id
    }

    /// Returns the name of the tool.
    pub fn tool(&self) -> &SmolStr {
        &self.tool
    }

    /// Returns the input that the decision is about.
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// Returns the facts that the decision was based on.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sends a piece of output to listeners while the tool runs. The model gets only the tool's result.
    pub fn stream(&self, text: &str) {
        self.cx.stream_output(&self.call_id, text);
    }

    /// True if a search may read a file that it finds. The decision covers the paths that a call names, but
    /// not this file. So the search must skip files that are closed, outside the workspace, secret by name,
    /// or subject to an ask or deny rule. To read such a file, a call must name it.
    pub fn may_read_within(&self, path: &Path) -> bool {
        self.cx.may_read_within(&self.tool, path)
    }

    /// Returns the context of the call.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }
}

/// Returns a context whose notes come from the tool of a call.
pub(crate) fn make_tool_cx(call: &ToolCall, owner: &Owner, cx: &Cx) -> Cx {
    let (tool, call_id) = (call.name.clone(), call.id.clone());
    cx.with_author(NoteAuthor::Tool(Arc::new(ToolCallRef { tool, owner: owner.clone(), call_id })))
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permit for {} {}", self.tool, self.call_id)
    }
}
