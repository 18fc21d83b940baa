//! Items that can be called by name, without tools: hooks on directives, skills, subagents, commands. Within
//! one origin, a second item of the same name is refused. Across origins, the item of the nearer origin wins,
//! and the other item is listed as shadowed.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::{
    invoke::named_item::{NameInfo, NameKind, NamedItem, nearness},
    permission::origin::{Origin, Owner},
};

/// The names of one generation.
#[derive(Default)]
pub(crate) struct NameTable {
    found: BTreeMap<(NameKind, SmolStr), (Owner, NamedItem)>,
    /// All items, in the order of registration.
    all: Vec<(Owner, NamedItem)>,
}

impl NameTable {
    pub(crate) fn add(&mut self, owner: &Owner, item: &NamedItem) {
        self.all.push((owner.clone(), item.clone()));
        let key = (item.kind(), item.name().clone());
        let nearer =
            |(other, _): &(Owner, NamedItem)| nearness(&other.origin) > nearness(&owner.origin);
        if !self.found.get(&key).is_some_and(nearer) {
            self.found.insert(key, (owner.clone(), item.clone()));
        }
    }

    /// Returns the item with this kind and name, and its owner.
    pub(crate) fn find(&self, kind: NameKind, name: &str) -> Option<&(Owner, NamedItem)> {
        // The check saves a lookup if nothing is registered.
        if self.found.is_empty() { None } else { self.found.get(&(kind, name.into())) }
    }

    /// True if there is an item of this kind.
    pub(crate) fn has(&self, kind: NameKind) -> bool {
        self.all.iter().any(|(_, item)| item.kind() == kind)
    }

    /// Returns the items that are not shadowed, in the order of registration.
    pub(crate) fn visible(&self) -> impl Iterator<Item = &(Owner, NamedItem)> {
        self.all.iter().filter(|(owner, item)| {
            self.find(item.kind(), item.name()).is_some_and(|(found, _)| found.is_same_unit(owner))
        })
    }

    /// Returns every item, shadowed ones included, in the order of registration.
    pub(crate) fn all(&self) -> impl Iterator<Item = &(Owner, NamedItem)> {
        self.all.iter()
    }

    /// Lists every item of a kind, shadowed ones included.
    pub(crate) fn list(&self, kind: NameKind) -> Vec<NameInfo> {
        let info = |(owner, item): &(Owner, NamedItem)| {
            let found = self.find(kind, item.name()).map(|(found, _)| found);
            NameInfo {
                kind,
                name: item.name().clone(),
                description: item.description().to_owned(),
                owner: owner.clone(),
                exposed: match item {
                    NamedItem::Skill(skill) => skill.exposed,
                    NamedItem::Subagent(_) => true,
                    NamedItem::Hook(_) | NamedItem::Command(_) => false,
                },
                shadowed_by: found.filter(|found| !found.is_same_unit(owner)).cloned(),
            }
        };
        self.all.iter().filter(|(_, item)| item.kind() == kind).map(info).collect()
    }
}

/// True if a command of this origin is built in. A file cannot replace a built-in command.
pub(crate) fn is_built_in(origin: &Origin) -> bool {
    matches!(origin, Origin::Kernel | Origin::Embedder)
}
