//! Tools as a model sees them: their specs in a request, and the outputs and errors of calls.

use std::{any::Any, fmt, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use crate::history::{memo::Memo, message::Content, outcome::ToolErrorKind};

/// The description of a tool for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: SmolStr,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the input.
    pub schema: Value,
}

impl ToolSpec {
    /// Creates the spec of a tool whose input is an object of this schema.
    pub fn new(name: impl Into<SmolStr>, description: impl Into<String>, schema: Value) -> Self {
        ToolSpec { name: name.into(), description: description.into(), schema }
    }
}

/// The output of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The content for the model.
    pub content: Content,
    /// Data that renderers show in place of the content. It is never sent to a provider.
    pub render_data: Option<Value>,
}

impl<C: Into<Content>> From<C> for ToolOutput {
    fn from(content: C) -> Self {
        ToolOutput { content: content.into(), render_data: None }
    }
}

/// The error of a call. The model reads the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// The kind of error.
    pub kind: ToolErrorKind,
    /// The message.
    pub message: String,
}

impl ToolError {
    /// Creates an error of a kind.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        ToolError { kind, message: message.into() }
    }

    /// Creates an error of the kind `Failed`: the tool ran and failed.
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

/// The tools of a request, as the model sees them. The list holds only specs, so a request keeps no tool
/// alive.
#[derive(Default)]
pub struct ToolList {
    pub(crate) specs: Vec<Arc<ToolSpec>>,
    pub(crate) memo: Memo,
}

impl ToolList {
    /// The specs of the tools, in order.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        self.specs.iter().map(|spec| &**spec)
    }

    /// True if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Returns a value that an adapter derives from these tools. The value is computed on first use and
    /// cached. The key must name every other input of the value.
    pub fn memoize<T: Any + Send + Sync>(&self, key: &str, make: impl FnOnce(&Self) -> T) -> &T {
        self.memo.get_or_make(key, || make(self))
    }
}

impl FromIterator<ToolSpec> for ToolList {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        ToolList { specs: specs.into_iter().map(Arc::new).collect(), memo: Memo::default() }
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.specs().map(|spec| &spec.name)).finish()
    }
}
