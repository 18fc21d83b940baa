//! Tools as a model knows them: their specs in a request, and the outputs and errors of calls.

use std::{any::Any, fmt, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use crate::history::{memo::Memo, message::Content, outcome::ToolErrorKind};

/// How a tool presents itself to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name the model calls it by.
    pub name: SmolStr,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its input.
    pub schema: Value,
}

impl ToolSpec {
    /// A tool that takes an object of this schema.
    pub fn new(name: impl Into<SmolStr>, description: impl Into<String>, schema: Value) -> Self {
        ToolSpec { name: name.into(), description: description.into(), schema }
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// What the model gets.
    pub content: Content,
    /// What renderers show instead; never sent to a provider.
    pub render_data: Option<Value>,
}

impl<C: Into<Content>> From<C> for ToolOutput {
    fn from(content: C) -> Self {
        ToolOutput { content: content.into(), render_data: None }
    }
}

/// Why a call has no answer. The model reads the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// What kind of failure.
    pub kind: ToolErrorKind,
    /// The failure in words.
    pub message: String,
}

impl ToolError {
    /// A failure of some kind.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        ToolError { kind, message: message.into() }
    }

    /// The tool tried and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        ToolError::new(ToolErrorKind::Failed, message)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

/// The tools as a request shows them to the model: how they present themselves, and nothing of the
/// tools themselves, so that a request keeps none of them alive.
#[derive(Default)]
pub struct ToolList {
    pub(crate) specs: Vec<Arc<ToolSpec>>,
    pub(crate) kept: Memo,
}

impl ToolList {
    /// How the tools present themselves, in order.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        self.specs.iter().map(|spec| &**spec)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// What an adapter made of these tools, made on first use and kept. The key names everything it
    /// depends on besides the tools.
    pub fn keep<T: Any + Send + Sync>(&self, key: &str, make: impl FnOnce(&Self) -> T) -> &T {
        self.kept.get_or_make(key, || make(self))
    }
}

impl FromIterator<ToolSpec> for ToolList {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        ToolList { specs: specs.into_iter().map(Arc::new).collect(), kept: Memo::default() }
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.specs().map(|spec| &spec.name)).finish()
    }
}
