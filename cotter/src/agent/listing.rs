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
    by_hand: u64,
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
        face: &AgentView,
        tools: Vec<Arc<dyn Tool>>,
        sections: Vec<PromptSection>,
    ) -> Self {
        let kinds = [NameKind::Skill, NameKind::Subagent].into_iter();
        let listed = kinds.flat_map(|kind| {
            let owned = move |(name, words): (&str, &str)| ListedName {
                kind,
                name: name.into(),
                description: words.into(),
                owner: face.owner_of(kind, name),
            };
            face.listed(kind).map(owned).collect::<Vec<_>>()
        });
        NameListing {
            by_hand: face.generation.last_manual_number,
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
        let specs = |index: &NameListing| -> Vec<_> {
            index.tools.iter().map(|tool| tool.spec().clone()).collect()
        };
        let texts =
            |index: &NameListing| index.sections.iter().map(|s| s.text.clone()).collect::<Vec<_>>();
        specs(self) == specs(other) && texts(self) == texts(other)
    }

    /// The text that tells the model the changes since another listing.
    fn describe_changes_since(&self, before: &NameListing) -> String {
        let mut news = String::from("What can be called for has changed.");
        for (kind, what) in [(NameKind::Skill, "skill"), (NameKind::Subagent, "subagent")] {
            let is_new = |listed: &&ListedName| {
                !before
                    .listed(kind)
                    .any(|old| old.name == listed.name && old.description == listed.description)
            };
            for ListedName { name, description: words, .. } in self.listed(kind).filter(is_new) {
                let _ = write!(news, "\nThere is the {what} `{name}`: {words}");
            }
            let is_gone =
                |listed: &&ListedName| !self.listed(kind).any(|new| new.name == listed.name);
            for ListedName { name, .. } in before.listed(kind).filter(is_gone) {
                let _ = write!(news, "\nThe {what} `{name}` is gone.");
            }
        }
        news
    }
}

impl Session {
    /// The listing that this session's model is shown, if it differs from the listing of a view.
    pub(crate) fn shown_listing(&self, face: &AgentView) -> Option<Arc<NameListing>> {
        let mut state = self.state();
        match &state.shown {
            Some(shown) if Arc::ptr_eq(shown, &face.listing) => None,
            Some(shown) if shown.by_hand == face.listing.by_hand => {
                (!shown.looks_equal_to(&face.listing)).then(|| shown.clone())
            }
            _ => {
                state.shown = Some(face.listing.clone());
                None
            }
        }
    }

    /// The text about changed lists for a model that is shown the old ones. Returns each text once.
    pub(crate) fn take_listing_changes(&self, face: &AgentView) -> Option<String> {
        let shown = face.shown.as_ref()?;
        let mut state = self.state();
        let told = state.overrides().told.clone();
        if told.as_ref().is_some_and(|told| Arc::ptr_eq(told, &face.listing)) {
            return None;
        }
        state.overrides_mut().told = Some(face.listing.clone());
        Some(face.listing.describe_changes_since(told.as_ref().unwrap_or(shown)))
    }
}
