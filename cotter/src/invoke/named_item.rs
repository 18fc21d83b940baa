//! named_item

use crate::{
    invoke::{command::Command, directive_hook::DirectiveHook, skill::Skill, subagent::Mention},
    permission::origin::{Origin, Owner},
};
use smol_str::SmolStr;
use std::sync::Arc;

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

    pub(crate) fn description(&self) -> &str {
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
