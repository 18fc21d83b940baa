//! Several units that take effect together: one generation or none, and nothing looser unless a person
//! agreed.

use std::fmt::Write as _;

use super::{
    generation::Unit,
    origin::{Origin, Owner},
    registry::{Item, RegisterError, Registry},
};
use crate::{permission::Policy, points::Power, text};

/// What one or several owners register instead of what they had. Applied by
/// [`Agent::apply`](crate::Agent::apply) in one step: no run ever sees a part of it.
///
/// An owner that was there and loads nothing is dropped. What would make anything looser waits for a
/// person: until they agree, what the owner had stays, and of the new only what tightens is added.
#[derive(Default)]
pub struct Change {
    pub(super) units: Vec<(Registry, bool)>,
    pub(super) of_files: bool,
}

impl Change {
    /// A change of nothing.
    pub fn new() -> Self {
        Change::default()
    }

    /// What an owner has from now on.
    pub fn load(&mut self, owner: Owner, extension: impl FnOnce(&mut Registry)) -> &mut Self {
        self.add(owner, extension, false)
    }

    /// What an owner has from now on, and a person said so: it may loosen.
    pub fn load_agreed(
        &mut self,
        owner: Owner,
        extension: impl FnOnce(&mut Registry),
    ) -> &mut Self {
        self.add(owner, extension, true)
    }

    /// It comes of files that changed, not of a program: a session that is under way is shown skills and
    /// subagents as before, for its prompt cache, and is told of the difference.
    pub fn of_files(mut self) -> Self {
        self.of_files = true;
        self
    }

    /// A person agreed to all of it.
    pub fn agreed(mut self) -> Self {
        self.units.iter_mut().for_each(|(_, agreed)| *agreed = true);
        self
    }

    fn add(
        &mut self,
        owner: Owner,
        extension: impl FnOnce(&mut Registry),
        agreed: bool,
    ) -> &mut Self {
        let is_built_in = owner.origin == Origin::Kernel;
        let words = format!("{owner} is built in, and nobody else's to register as");
        let mut unit = Registry::new(owner);
        if is_built_in {
            unit.fail(words, None);
        }
        extension(&mut unit);
        self.units.push((unit, agreed));
        self
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Reload {
    /// It is in force.
    Applied,
    /// Some of it would loosen, and waits until a person agrees. The rest is in force.
    Held {
        /// What would become looser, one line each.
        looser: Vec<String>,
    },
}

/// What an owner has after a change that nobody agreed to, and what of it waits.
pub(super) fn tightened(old: Vec<Item>, new: Unit, in_force: &Policy) -> (Unit, Vec<String>) {
    let looser = loosened(&old, &new.items, in_force);
    if looser.is_empty() {
        return (new, looser);
    }
    let Unit { owner, items: new } = new;
    // What was switched off and is no longer is stricter.
    let stays = |item: &Item| !matches!(item, Item::Off(_)) || has_same(&new, item);
    let mut items: Vec<_> = old.into_iter().filter(stays).collect();
    let added: Vec<_> = new.into_iter().filter(|item| tightens(item, &items)).collect();
    items.extend(added);
    (Unit { owner, items }, looser)
}

/// What was there that is no longer (what can block, rules, a mode or level as strict), and what would
/// let pass that nobody let pass before.
fn loosened(old: &[Item], new: &[Item], in_force: &Policy) -> Vec<String> {
    let gone = old.iter().filter(|item| !is_kept(item, new));
    let gone = gone.map(|item| format!("gone: {}", describe(item)));
    let come = new.iter().filter(|item| loosens(item, old, in_force));
    gone.chain(come.map(|item| format!("new: {}", describe(item)))).collect()
}

/// Whether something as strict is there.
fn is_kept(item: &Item, new: &[Item]) -> bool {
    match item {
        Item::Handler { meta, .. } if matches!(meta.power, Power::Observe | Power::Answer) => true,
        Item::Rule(rule) if rule.loosens() => true,
        Item::Handler { .. } | Item::Rule(_) => has_same(new, item),
        Item::Guard(guard) => {
            new.iter().any(|other| matches!(other, Item::Guard(g) if guard.is_kept_by(g)))
        }
        Item::Mode(mode) => new.iter().any(|other| matches!(other, Item::Mode(m) if m >= mode)),
        Item::Level(level) => new.iter().any(|other| matches!(other, Item::Level(l) if l >= level)),
        Item::Tool { .. } | Item::Called(_) | Item::Section(_) | Item::Off(_) => true,
        // What it registered is judged item by item.
        Item::Hook(_) => true,
    }
}

/// Whether it would let something pass that did not pass before.
fn loosens(item: &Item, old: &[Item], in_force: &Policy) -> bool {
    match item {
        Item::Handler { meta, .. } => meta.power == Power::Answer && !has_same(old, item),
        Item::Rule(rule) => rule.loosens() && !has_same(old, item),
        Item::Off(_) => !has_same(old, item),
        Item::Mode(mode) => {
            let before = |old: &Item| matches!(old, Item::Mode(old) if old <= mode);
            *mode < in_force.mode() && !old.iter().any(before)
        }
        Item::Level(level) => {
            let before = |old: &Item| matches!(old, Item::Level(old) if old <= level);
            *level < in_force.level() && !old.iter().any(before)
        }
        _ => false,
    }
}

/// Whether it only adds to what is refused or asked, and can stand beside what is there.
fn tightens(item: &Item, beside: &[Item]) -> bool {
    match item {
        Item::Handler { meta, .. } => {
            meta.power == Power::Gate && !beside.iter().any(|other| other.is_hook(&meta.name))
        }
        Item::Rule(rule) => !rule.loosens() && !has_same(beside, item),
        Item::Guard(guard) => !beside
            .iter()
            .any(|other| matches!(other, Item::Guard(known) if guard.is_kept_by(known))),
        Item::Mode(mode) => beside.iter().all(|other| !matches!(other, Item::Mode(m) if m >= mode)),
        Item::Level(level) => {
            beside.iter().all(|other| !matches!(other, Item::Level(l) if l >= level))
        }
        Item::Tool { .. } | Item::Called(_) | Item::Section(_) | Item::Off(_) | Item::Hook(_) => {
            false
        }
    }
}

fn has_same(items: &[Item], item: &Item) -> bool {
    items.iter().any(|other| match (item, other) {
        (Item::Handler { meta, .. }, Item::Handler { meta: other, .. }) => meta.guards_as(other),
        (Item::Rule(rule), Item::Rule(other)) => rule == other,
        (Item::Off(name), Item::Off(other)) => name == other,
        _ => false,
    })
}

/// The most that is shown of what a hook does.
const DEFINITION_CHARS: usize = 120;

fn describe(item: &Item) -> String {
    match item {
        Item::Handler { meta, .. } => {
            let mut words = format!("{} `{}` at `{}`", meta.power.as_str(), meta.name, meta.point);
            if !meta.definition.is_empty() {
                let definition = text::show_line(&meta.definition);
                let _ = write!(words, " ({})", text::clip(&definition, DEFINITION_CHARS));
            }
            words
        }
        Item::Tool { spec, .. } => format!("tool `{}`", spec.name),
        Item::Called(called) => format!("{} `{}`", called.kind().as_str(), called.name()),
        Item::Hook(installed) => format!("hook `{}`", installed.name),
        Item::Section(section) => format!("words of `{}`", section.0),
        Item::Rule(rule) => format!("rule `{rule}`"),
        Item::Guard(guard) => guard.to_string(),
        Item::Mode(mode) => format!("mode `{}`", mode.as_str()),
        Item::Level(level) => format!("level `{}`", level.as_str()),
        Item::Off(name) => format!("hook `{name}` switched off"),
    }
}

/// The units of a change, checked one by one.
pub(super) fn units(change: Change) -> Result<Vec<(Unit, bool)>, RegisterError> {
    let mut units: Vec<(Unit, bool)> = vec![];
    for (registry, agreed) in change.units {
        if let Some(error) = registry.error {
            return Err(error);
        }
        let unit = Unit { owner: registry.owner, items: registry.items };
        if units.iter().any(|(known, _)| known.owner.is(&unit.owner)) {
            return Err(RegisterError::new(format!("{} is loaded twice", unit.owner)));
        }
        units.push((unit, agreed));
    }
    Ok(units)
}

/// Whether a hook of that name and owner is what a file calls by `typed`: `lint`, `project/lint`.
pub(crate) fn is_called(name: &str, origin: &Origin, typed: &str) -> bool {
    // Those of one name at several points are numbered.
    let stem = name.split('#').next().unwrap_or_default();
    [name, stem].iter().any(|own| *own == typed || format!("{origin}/{own}") == typed)
}
