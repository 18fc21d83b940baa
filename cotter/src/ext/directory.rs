//! What can be called by name besides tools: hooks on directives, skills, subagents, commands. One
//! rule for all of them: within one origin the second of a name is refused; across origins the nearer
//! one is found and the other is shown as shadowed.

use std::{collections::BTreeMap, sync::Arc};

use smol_str::SmolStr;

use super::{
    directive_hook::DirectiveHook,
    origin::{Origin, Owner},
};
use crate::{command::Command, mention::Mention, skill::Skill};

/// What kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A hook on a directive.
    Hook,
    /// A skill.
    Skill,
    /// A subagent.
    Subagent,
    /// A command.
    Command,
}

impl Kind {
    /// The kind's word in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Hook => "hook",
            Kind::Skill => "skill",
            Kind::Subagent => "subagent",
            Kind::Command => "command",
        }
    }
}

/// Something with a name.
#[derive(Clone)]
pub(crate) enum Called {
    Hook(Arc<DirectiveHook>),
    Skill(Arc<Skill>),
    Subagent(Arc<Mention>),
    Command(Arc<Command>),
}

impl Called {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Called::Hook(_) => Kind::Hook,
            Called::Skill(_) => Kind::Skill,
            Called::Subagent(_) => Kind::Subagent,
            Called::Command(_) => Kind::Command,
        }
    }

    pub(crate) fn name(&self) -> &SmolStr {
        match self {
            Called::Hook(hook) => &hook.name,
            Called::Skill(skill) => &skill.name,
            Called::Subagent(mention) => &mention.name,
            Called::Command(command) => &command.name,
        }
    }

    fn description(&self) -> &str {
        match self {
            Called::Hook(_) => "",
            Called::Skill(skill) => &skill.description,
            Called::Subagent(mention) => &mention.description,
            Called::Command(command) => &command.description,
        }
    }
}

/// A name, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameInfo {
    /// What it stands for.
    pub kind: Kind,
    /// The name.
    pub name: SmolStr,
    /// What it is for.
    pub description: String,
    /// Who registered it.
    pub owner: Owner,
    /// Whether the model may call for it: an exposed skill, a subagent.
    pub exposed: bool,
    /// Who has the same name and is found instead.
    pub shadowed_by: Option<Owner>,
}

/// The names of one generation.
#[derive(Default)]
pub(crate) struct Directory {
    found: BTreeMap<(Kind, SmolStr), (Owner, Called)>,
    /// In the order of registration.
    all: Vec<(Owner, Called)>,
}

impl Directory {
    pub(crate) fn add(&mut self, owner: &Owner, called: &Called) {
        self.all.push((owner.clone(), called.clone()));
        let key = (called.kind(), called.name().clone());
        let nearer =
            |(other, _): &(Owner, Called)| nearness(&other.origin) > nearness(&owner.origin);
        if !self.found.get(&key).is_some_and(nearer) {
            self.found.insert(key, (owner.clone(), called.clone()));
        }
    }

    /// What a name of a kind stands for, and whose it is.
    pub(crate) fn find(&self, kind: Kind, name: &str) -> Option<&(Owner, Called)> {
        // Nothing registered costs nothing.
        if self.found.is_empty() { None } else { self.found.get(&(kind, name.into())) }
    }

    /// Whether there is anything of a kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.all.iter().any(|(_, called)| called.kind() == kind)
    }

    /// Whatever can be found, in the order of registration.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = &(Owner, Called)> {
        self.all.iter().filter(|(owner, called)| {
            self.find(called.kind(), called.name()).is_some_and(|(found, _)| found.is(owner))
        })
    }

    /// Everything that has a name, also the shadowed, in the order of registration.
    pub(crate) fn every(&self) -> impl Iterator<Item = &(Owner, Called)> {
        self.all.iter()
    }

    /// Every name of a kind, also the shadowed.
    pub(crate) fn list(&self, kind: Kind) -> Vec<NameInfo> {
        let info = |(owner, called): &(Owner, Called)| {
            let found = self.find(kind, called.name()).map(|(found, _)| found);
            NameInfo {
                kind,
                name: called.name().clone(),
                description: called.description().to_owned(),
                owner: owner.clone(),
                exposed: match called {
                    Called::Skill(skill) => skill.exposed,
                    Called::Subagent(_) => true,
                    Called::Hook(_) | Called::Command(_) => false,
                },
                shadowed_by: found.filter(|found| !found.is(owner)).cloned(),
            }
        };
        self.all.iter().filter(|(_, called)| called.kind() == kind).map(info).collect()
    }
}

/// Who is found when several have one name: the larger.
pub(crate) fn nearness(origin: &Origin) -> u8 {
    match origin {
        Origin::Kernel => 0,
        Origin::Embedder => 1,
        Origin::Operator => 2,
        Origin::Space(_) => 3,
        Origin::Profile(_) => 4,
        Origin::User => 5,
        Origin::Project => 6,
    }
}

/// Whether a command of this origin is built in: nobody's file takes its place.
pub(crate) fn is_built_in(origin: &Origin) -> bool {
    matches!(origin, Origin::Kernel | Origin::Embedder)
}

/// Why a name cannot be one.
pub(crate) fn check_name(kind: Kind, name: &str) -> Result<(), String> {
    let colon = kind == Kind::Command;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || (colon && b == b':');
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    if starts && name.len() <= 64 && name.bytes().all(fits) {
        return Ok(());
    }
    let shown = crate::text::show_line(name).into_owned();
    Err(format!("`{shown}` cannot be the name of a {}", kind.as_str()))
}
