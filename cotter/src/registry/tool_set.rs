//! The tools of a request, with the handlers that apply to each.

use std::{collections::HashMap, fmt, sync::Arc};

use smol_str::SmolStr;

use crate::{
    history::memo::Memo,
    model::tools::{ToolList, ToolSpec},
    registry::generation::ToolEntry,
};

/// The tools of a request. The model may call exactly the tools it is shown.
pub struct ToolSet {
    entries: Vec<Arc<ToolEntry>>,
    by_name: HashMap<SmolStr, usize>,
    shown: Arc<ToolList>,
}

impl ToolSet {
    pub(crate) fn new(entries: Vec<Arc<ToolEntry>>) -> Self {
        let names = entries.iter().enumerate();
        let by_name = names.map(|(index, entry)| (entry.spec.name.clone(), index)).collect();
        let specs = entries.iter().map(|entry| entry.spec.clone()).collect();
        ToolSet { by_name, shown: Arc::new(ToolList { specs, memo: Memo::default() }), entries }
    }

    /// Returns the tools with the handlers that apply to them, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.entries.iter()
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.by_name.get(name).map(|index| &self.entries[*index])
    }

    /// Returns the specs of the tools, in order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.shown.specs()
    }

    /// Returns the tools as a request shows them.
    pub fn shown(&self) -> &Arc<ToolList> {
        &self.shown
    }

    /// True if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}
