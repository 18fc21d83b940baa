//! What can be called by name besides tools: hooks on directives, skills, subagents, commands. One
//! rule for all of them: within one origin the second of a name is refused; across origins the nearer
//! one is found and the other is shown as shadowed.

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
    /// In the order of registration.
    all: Vec<(Owner, NamedItem)>,
}

impl NameTable {
    pub(crate) fn add(&mut self, owner: &Owner, called: &NamedItem) {
        self.all.push((owner.clone(), called.clone()));
        let key = (called.kind(), called.name().clone());
        let nearer =
            |(other, _): &(Owner, NamedItem)| nearness(&other.origin) > nearness(&owner.origin);
        if !self.found.get(&key).is_some_and(nearer) {
            self.found.insert(key, (owner.clone(), called.clone()));
        }
    }

    /// What a name of a kind stands for, and whose it is.
    pub(crate) fn find(&self, kind: NameKind, name: &str) -> Option<&(Owner, NamedItem)> {
        // Nothing registered costs nothing.
        if self.found.is_empty() { None } else { self.found.get(&(kind, name.into())) }
    }

    /// Whether there is anything of a kind.
    pub(crate) fn has(&self, kind: NameKind) -> bool {
        self.all.iter().any(|(_, called)| called.kind() == kind)
    }

    /// Whatever can be found, in the order of registration.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = &(Owner, NamedItem)> {
        self.all.iter().filter(|(owner, called)| {
            self.find(called.kind(), called.name()).is_some_and(|(found, _)| found.is(owner))
        })
    }

    /// Everything that has a name, also the shadowed, in the order of registration.
    pub(crate) fn every(&self) -> impl Iterator<Item = &(Owner, NamedItem)> {
        self.all.iter()
    }

    /// Every name of a kind, also the shadowed.
    pub(crate) fn list(&self, kind: NameKind) -> Vec<NameInfo> {
        let info = |(owner, called): &(Owner, NamedItem)| {
            let found = self.find(kind, called.name()).map(|(found, _)| found);
            NameInfo {
                kind,
                name: called.name().clone(),
                description: called.description().to_owned(),
                owner: owner.clone(),
                exposed: match called {
                    NamedItem::Skill(skill) => skill.exposed,
                    NamedItem::Subagent(_) => true,
                    NamedItem::Hook(_) | NamedItem::Command(_) => false,
                },
                shadowed_by: found.filter(|found| !found.is(owner)).cloned(),
            }
        };
        self.all.iter().filter(|(_, called)| called.kind() == kind).map(info).collect()
    }
}

/// Whether a command of this origin is built in: nobody's file takes its place.
pub(crate) fn is_built_in(origin: &Origin) -> bool {
    matches!(origin, Origin::Kernel | Origin::Embedder)
}
