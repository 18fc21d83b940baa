//! The lists of skills and subagents that a session's model was first shown. The lists stay, so that prompt
//! caches stay valid. When files change, a note tells the model, and the new list is shown after the next
//! compaction. A program's registrations are shown at once.

use std::{fmt::Write as _, sync::Arc};

use smol_str::SmolStr;

use crate::{
    agent::{
        session::Session,
        view::{AgentView, PromptSection},
    },
    invoke::named_item::NameKind,
    permission::origin::Owner,
    tool::Tool,
};

/// The lists before a conversation: in the descriptions of two tools, and in the system prompt.
#[derive(Default)]
pub(crate) struct NameListing {
    /// The last generation that a program or a person made.
    manual_generation: u64,
    /// The tools for skills and subagents, if they are shown.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) sections: Vec<PromptSection>,
    listed: Vec<ListedName>,
}

/// A name in a list.
#[derive(PartialEq)]
pub(crate) struct ListedName {
    pub(crate) kind: NameKind,
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) owner: Owner,
}

impl NameListing {
    pub(crate) fn of(
        view: &AgentView,
        tools: Vec<Arc<dyn Tool>>,
        sections: Vec<PromptSection>,
    ) -> Self {
        let kinds = [NameKind::Skill, NameKind::Subagent].into_iter();
        let listed = kinds.flat_map(|kind| {
            let to_listed_name = move |(name, description): (&str, &str)| ListedName {
                kind,
                name: name.into(),
                description: description.into(),
                owner: view.owner_of(kind, name),
            };
            view.listed(kind).map(to_listed_name).collect::<Vec<_>>()
        });
        NameListing {
            manual_generation: view.generation.last_manual_number,
            tools,
            sections,
            listed: listed.collect(),
        }
    }

    /// The names of a kind.
    pub(crate) fn listed(&self, kind: NameKind) -> impl Iterator<Item = &ListedName> {
        self.listed.iter().filter(move |listed| listed.kind == kind)
    }

    /// True if a model would see no difference.
    fn looks_equal_to(&self, other: &NameListing) -> bool {
        let specs = |listing: &NameListing| -> Vec<_> {
            listing.tools.iter().map(|tool| tool.spec().clone()).collect()
        };
        let texts = |listing: &NameListing| {
            listing.sections.iter().map(|s| s.text.clone()).collect::<Vec<_>>()
        };
        specs(self) == specs(other) && texts(self) == texts(other)
    }

    /// The text that tells the model the changes since another listing.
    fn describe_changes_since(&self, before: &NameListing) -> String {
        let mut text = String::from("The available skills and subagents have changed.");
        for (kind, kind_word) in [(NameKind::Skill, "skill"), (NameKind::Subagent, "subagent")] {
            let is_new = |listed: &&ListedName| {
                !before
                    .listed(kind)
                    .any(|old| old.name == listed.name && old.description == listed.description)
            };
            for ListedName { name, description, .. } in self.listed(kind).filter(is_new) {
                let _ = write!(text, "\nAvailable now: {kind_word} `{name}`: {description}");
            }
            let is_gone =
                |listed: &&ListedName| !self.listed(kind).any(|new| new.name == listed.name);
            for ListedName { name, .. } in before.listed(kind).filter(is_gone) {
                let _ = write!(text, "\nRemoved: {kind_word} `{name}`.");
            }
        }
        text
    }
}

impl Session {
    /// The listing that this session's model is shown, if it differs from the listing of a view.
    pub(crate) fn shown_listing(&self, view: &AgentView) -> Option<Arc<NameListing>> {
        let mut state = self.state();
        match &state.shown_listing {
            Some(shown) if Arc::ptr_eq(shown, &view.listing) => None,
            Some(shown) if shown.manual_generation == view.listing.manual_generation => {
                (!shown.looks_equal_to(&view.listing)).then(|| shown.clone())
            }
            _ => {
                state.shown_listing = Some(view.listing.clone());
                None
            }
        }
    }

    /// The text about changed lists for a model that is shown the old ones. Returns each text once.
    pub(crate) fn take_listing_changes(&self, view: &AgentView) -> Option<String> {
        let shown = view.shown_listing.as_ref()?;
        let mut state = self.state();
        let told_listing = state.overrides().told_listing.clone();
        if told_listing.as_ref().is_some_and(|told| Arc::ptr_eq(told, &view.listing)) {
            return None;
        }
        state.overrides_mut().told_listing = Some(view.listing.clone());
        Some(view.listing.describe_changes_since(told_listing.as_ref().unwrap_or(shown)))
    }
}
