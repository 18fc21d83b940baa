//! An item with a name: a directive hook, a skill, a subagent or a command.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::{
    invoke::{command::Command, directive_hook::DirectiveHook, skill::Skill, subagent::Subagent},
    permission::origin::{Origin, Owner},
};

/// The kind of a named item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NameKind {
    /// A directive hook.
    Hook,
    /// A skill.
    Skill,
    /// A subagent.
    Subagent,
    /// A command.
    Command,
}

impl NameKind {
    /// The kind's word in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            NameKind::Hook => "hook",
            NameKind::Skill => "skill",
            NameKind::Subagent => "subagent",
            NameKind::Command => "command",
        }
    }
}

/// An item with a name.
#[derive(Clone)]
pub(crate) enum NamedItem {
    Hook(Arc<DirectiveHook>),
    Skill(Arc<Skill>),
    Subagent(Arc<Subagent>),
    Command(Arc<Command>),
}

impl NamedItem {
    pub(crate) fn kind(&self) -> NameKind {
        match self {
            NamedItem::Hook(_) => NameKind::Hook,
            NamedItem::Skill(_) => NameKind::Skill,
            NamedItem::Subagent(_) => NameKind::Subagent,
            NamedItem::Command(_) => NameKind::Command,
        }
    }

    pub(crate) fn name(&self) -> &SmolStr {
        match self {
            NamedItem::Hook(hook) => &hook.name,
            NamedItem::Skill(skill) => &skill.name,
            NamedItem::Subagent(subagent) => &subagent.name,
            NamedItem::Command(command) => &command.name,
        }
    }

    pub(crate) fn description(&self) -> &str {
        match self {
            NamedItem::Hook(_) => "",
            NamedItem::Skill(skill) => &skill.description,
            NamedItem::Subagent(subagent) => &subagent.description,
            NamedItem::Command(command) => &command.description,
        }
    }
}

/// A name, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameInfo {
    /// The kind of the item.
    pub kind: NameKind,
    /// The name.
    pub name: SmolStr,
    /// The description of the item.
    pub description: String,
    /// The owner of the item.
    pub owner: Owner,
    /// True if the model may call the item: an exposed skill, a subagent.
    pub exposed: bool,
    /// The owner of an item that has the same name and is found instead.
    pub shadowed_by: Option<Owner>,
}

/// The rank of an origin if several items have one name: the larger rank wins.
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

/// Fails if a name is invalid for an item of this kind.
pub(crate) fn check_name(kind: NameKind, name: &str) -> Result<(), String> {
    let may_have_colon = kind == NameKind::Command;
    let is_allowed = |b: u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-') || (may_have_colon && b == b':')
    };
    let starts_with_letter = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    if starts_with_letter && name.len() <= 64 && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let shown = crate::text::show_line(name).into_owned();
    Err(format!("`{shown}` cannot be the name of a {}", kind.as_str()))
}
