//! A change of several units that takes effect in one generation or not at all. A change that loosens needs
//! the agreement of a person.

use std::{fmt::Write as _, sync::Arc};

use smol_str::SmolStr;

use crate::{
    hooks::chain::HandlerMeta,
    permission::{
        Policy,
        mode::{Level, Mode},
        origin::{Origin, Owner},
        verdict::Power,
    },
    registry::{RegisterError, Registration, Registry, generation::OwnerUnit},
    text,
};

/// New registrations of one or several owners, which replace their old ones.
/// [`Agent::apply`](crate::agent::Agent::apply) applies the change in one step: no run sees a part of it.
///
/// An owner that registers nothing is removed. A registration that would loosen anything is held until a
/// person agrees. Until then the owner keeps its old registrations, and only new registrations that tighten
/// are added.
#[derive(Default)]
pub struct RegistryChange {
    pub(crate) units: Vec<(Registry, bool)>,
    pub(crate) of_files: bool,
    pub(crate) agreed_to: Vec<String>,
}

impl RegistryChange {
    /// Makes an empty change.
    pub fn new() -> Self {
        RegistryChange::default()
    }

    /// Sets the registrations of an owner.
    pub fn load(&mut self, owner: Owner, extension: impl FnOnce(&mut Registry)) -> &mut Self {
        self.add(owner, extension, false)
    }

    /// Sets the registrations of an owner. A person agreed to them, so they may loosen.
    pub fn load_agreed(
        &mut self,
        owner: Owner,
        extension: impl FnOnce(&mut Registry),
    ) -> &mut Self {
        self.add(owner, extension, true)
    }

    /// Declares that the change comes from changed files, not from a program. A running session keeps its
    /// list of skills and subagents, for its prompt cache, and gets a note about the difference.
    pub fn caused_by_files(mut self) -> Self {
        self.of_files = true;
        self
    }

    /// Declares that a person agreed to these lines of [`ChangeResult::Held`]. Everything else that would
    /// loosen is held.
    pub fn agreed_to(mut self, looser: impl IntoIterator<Item = String>) -> Self {
        self.agreed_to.extend(looser);
        self
    }

    /// Declares that a person agreed to the whole change.
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
        let message = format!("cannot register as {owner}: this owner is built in");
        let mut unit = Registry::new(owner);
        if is_built_in {
            unit.fail(message, None);
        }
        extension(&mut unit);
        self.units.push((unit, agreed));
        self
    }
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ChangeResult {
    /// The whole change was applied.
    Applied,
    /// A part of the change would loosen and is held until a person agrees. The rest was applied.
    Held {
        /// One line for each held part of the change: a lost restriction or a new permission.
        looser: Vec<String>,
    },
}

/// Replaces the registrations of the owners in a change. Each unit has a flag: true if a person agreed to it.
/// Returns one line for each held part of the change.
pub(crate) fn apply(
    changed: &[(OwnerUnit, bool)],
    agreed_to: &[String],
    units: &mut Vec<OwnerUnit>,
) -> Vec<String> {
    let (mut looser, mut held_owners) = (vec![], vec![]);
    // The units as they would be with the agreed units alone.
    let mut agreed = units.clone();
    for (index, (new, is_agreed)) in changed.iter().enumerate() {
        let (index_before, old) = match remove_units(units, &new.owner) {
            Some((index, old)) => (Some(index), old),
            None => (None, vec![]),
        };
        let others = changed.iter().filter(|(other, _)| !other.owner.is_same_unit(&new.owner));
        let others = others.filter(|(other, _)| other.owner.origin == new.owner.origin);
        let other_items: Vec<_> = others.flat_map(|(other, _)| other.items.clone()).collect();
        let next = match is_agreed {
            true => new.clone(),
            false => {
                let (next, lines) = hold_back_loosening(old, new.clone(), &other_items, agreed_to);
                held_owners.extend((!lines.is_empty()).then(|| new.owner.clone()));
                looser.extend(lines);
                next
            }
        };
        let later: Vec<_> = changed[index + 1..].iter().map(|(later, _)| &later.owner).collect();
        if *is_agreed {
            let removed = remove_units(&mut agreed, &new.owner);
            insert_unit(&mut agreed, removed.map(|(index, _)| index), new.clone(), &later);
        }
        insert_unit(units, index_before, next, &later);
    }
    hold_taken_names(units, &held_owners, &mut looser);
    hold_modes(units, &agreed, changed, agreed_to, &mut looser);
    looser
}

/// Removes the units of an owner. Returns their index and their registrations.
fn remove_units(units: &mut Vec<OwnerUnit>, owner: &Owner) -> Option<(usize, Vec<Registration>)> {
    let index = units.iter().position(|unit| unit.owner.is_same_unit(owner))?;
    let removed = units.extract_if(.., |unit| unit.owner.is_same_unit(owner));
    let items = removed.flat_map(|unit| unit.items).collect();
    Some((index, items))
}

/// Inserts a unit at its owner's old index. A new owner is inserted before owners of the same origin that
/// come later in the change, because the nearest owner wins.
fn insert_unit(
    units: &mut Vec<OwnerUnit>,
    index_before: Option<usize>,
    unit: OwnerUnit,
    later: &[&Owner],
) {
    if unit.items.is_empty() {
        return;
    }
    let is_later = |other: &OwnerUnit| {
        let is_same_origin = other.owner.origin == unit.owner.origin;
        is_same_origin && later.iter().any(|owner| owner.is_same_unit(&other.owner))
    };
    let index = index_before.or_else(|| units.iter().position(is_later)).unwrap_or(units.len());
    units.insert(index.min(units.len()), unit);
}

/// Restores the modes and levels of changed units without a person's agreement, if the result would be looser
/// than with the agreed units alone.
fn hold_modes(
    units: &mut Vec<OwnerUnit>,
    agreed: &[OwnerUnit],
    changed: &[(OwnerUnit, bool)],
    agreed_to: &[String],
    looser: &mut Vec<String>,
) {
    let (mode, level) = resulting_mode_and_level(units);
    let (agreed_mode, agreed_level) = resulting_mode_and_level(agreed);
    let lines = [
        (mode < agreed_mode, format!("new: mode `{}`", mode.as_str())),
        (level < agreed_level, format!("new: level `{}`", level.as_str())),
    ];
    let [holds_mode, holds_level] = lines.map(|(is_looser, line)| {
        let is_held = is_looser && !agreed_to.contains(&line);
        looser.extend(is_held.then_some(line));
        is_held
    });
    let is_held = |item: &Registration| match item {
        Registration::Mode(_) => holds_mode,
        Registration::Level(_) => holds_level,
        _ => false,
    };
    if !holds_mode && !holds_level {
        return;
    }
    for (new, _) in changed.iter().filter(|(_, is_agreed)| !is_agreed) {
        let old = agreed.iter().find(|unit| unit.owner.is_same_unit(&new.owner));
        let kept = old.iter().flat_map(|unit| &unit.items).filter(|item| is_held(item)).cloned();
        let kept: Vec<_> = kept.collect();
        match units.iter_mut().find(|unit| unit.owner.is_same_unit(&new.owner)) {
            Some(unit) => {
                unit.items.retain(|item| !is_held(item));
                unit.items.extend(kept);
            }
            None if !kept.is_empty() => {
                let index = agreed.iter().position(|unit| unit.owner.is_same_unit(&new.owner));
                insert_unit(units, index, OwnerUnit { owner: new.owner.clone(), items: kept }, &[]);
            }
            None => {}
        }
    }
    units.retain(|unit| !unit.items.is_empty());
}

/// Returns the registrations of an owner after a change without a person's agreement, and one line for each
/// held part. A strict registration that moved to `other_items` is not lost. `hold_modes` checks modes and
/// levels later, for all units together.
pub(crate) fn hold_back_loosening(
    old: Vec<Registration>,
    new: OwnerUnit,
    other_items: &[Registration],
    agreed_to: &[String],
) -> (OwnerUnit, Vec<String>) {
    let mut looser = list_loosened(&old, &new.items, other_items);
    looser.retain(|line| !agreed_to.contains(line));
    if looser.is_empty() {
        return (new, looser);
    }
    let OwnerUnit { owner, items: new } = new;
    let is_mode_or_level =
        |item: &Registration| matches!(item, Registration::Mode(_) | Registration::Level(_));
    // A hook that is enabled again makes the result stricter.
    let stays = |item: &Registration| match item {
        Registration::Disabled(_) => has_same(&new, item),
        item => !is_mode_or_level(item),
    };
    let mut items: Vec<_> = old.into_iter().filter(stays).collect();
    let added = new.into_iter().filter(|item| is_mode_or_level(item) || tightens(item, &items));
    let added: Vec<_> = added.map(|item| release_name(item, &items)).collect();
    items.extend(added);
    (OwnerUnit { owner, items }, looser)
}

/// Lists the registrations that a change would loosen: removed gates, transforms, rules and guards, and new
/// registrations that let more pass.
fn list_loosened(
    old: &[Registration],
    new: &[Registration],
    other_items: &[Registration],
) -> Vec<String> {
    let is_removed = |item: &&Registration| !is_kept(item, new) && !is_kept(item, other_items);
    let removed = old.iter().filter(is_removed).map(|item| format!("gone: {}", describe(item)));
    let added = new.iter().filter(|item| loosens(item, old));
    let added = added.map(|item| format!("new: {}", describe(item)));
    let mut lines = vec![];
    for line in removed.chain(added) {
        // A hook with a transform and a gate is registered twice.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// True if `new` has a registration that is as strict as `item`, or `item` is not a restriction.
fn is_kept(item: &Registration, new: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. }
            if matches!(meta.power, Power::Observe | Power::Answer) =>
        {
            true
        }
        Registration::Rule(rule) if rule.loosens() => true,
        Registration::Handler { .. } | Registration::Rule(_) => has_same(new, item),
        Registration::Guard(guard) => new
            .iter()
            .any(|other| matches!(other, Registration::Guard(g) if guard.is_implied_by(g))),
        Registration::Mode(_) | Registration::Level(_) => true,
        // It stays protected while the hook that runs it stays.
        Registration::Protected(_) => true,
        Registration::Tool { .. }
        | Registration::Named(_)
        | Registration::Section(_)
        | Registration::Disabled(_) => true,
        // The registrations of the hook are checked one by one.
        Registration::Hook(_) => true,
    }
}

/// True if the registration would allow calls that were not allowed before.
fn loosens(item: &Registration, old: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. } => meta.power == Power::Answer && !has_same(old, item),
        Registration::Rule(rule) => rule.loosens() && !has_same(old, item),
        Registration::Disabled(_) => !has_same(old, item),
        _ => false,
    }
}

/// True if the registration only adds refusals or questions.
fn tightens(item: &Registration, others: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. } => meta.power == Power::Gate && !has_same(others, item),
        Registration::Rule(rule) => !rule.loosens() && !has_same(others, item),
        Registration::Protected(_) => !has_same(others, item),
        Registration::Guard(guard) => !others
            .iter()
            .any(|other| matches!(other, Registration::Guard(other) if guard.is_implied_by(other))),
        _ => false,
    }
}

/// Returns the registration without a reserved name if the name is still in use. The old and the new gate are
/// both asked then, and both must pass a call.
fn release_name(item: Registration, others: &[Registration]) -> Registration {
    match item {
        Registration::Handler { meta, install }
            if others.iter().any(|other| other.is_hook(&meta.name)) =>
        {
            let meta =
                HandlerMeta { has_given_name: false, quiet: false, ..HandlerMeta::clone(&meta) };
            Registration::Handler { meta: Arc::new(meta), install }
        }
        other => other,
    }
}

/// Holds new hooks whose name a held unit of the same origin still uses. A gate is not held but added.
fn hold_taken_names(units: &mut [OwnerUnit], held_owners: &[Owner], looser: &mut Vec<String>) {
    let is_held =
        |unit: &OwnerUnit| held_owners.iter().any(|owner| owner.is_same_unit(&unit.owner));
    let held_units: Vec<_> = units.iter().filter(|unit| is_held(unit)).cloned().collect();
    for unit in units.iter_mut().filter(|unit| !is_held(unit)) {
        let others = held_units.iter().filter(|held| held.owner.origin == unit.owner.origin);
        let others: Vec<_> = others.flat_map(|held| held.items.clone()).collect();
        let is_taken = |name: &SmolStr| {
            let has_name = |item: &Registration| matches!(item, Registration::Handler { meta, .. } if meta.has_given_name && meta.name == *name);
            others.iter().any(has_name)
        };
        unit.items = std::mem::take(&mut unit.items)
            .into_iter()
            .filter_map(|item| match &item {
                Registration::Handler { meta, .. } if is_taken(&meta.name) => {
                    if tightens(&item, &others) {
                        return Some(release_name(item, &others));
                    }
                    looser.extend(meta.has_given_name.then(|| format!("new: {}", describe(&item))));
                    None
                }
                _ => Some(item),
            })
            .collect();
    }
}

/// Returns the mode and the level that result from all units.
pub(crate) fn resulting_mode_and_level(units: &[OwnerUnit]) -> (Mode, Level) {
    let mut policy = Policy::default();
    let mut units: Vec<_> = units.iter().collect();
    units.sort_by(|a, b| a.owner.origin.cmp(&b.owner.origin));
    for unit in units {
        for item in &unit.items {
            match item {
                Registration::Mode(mode) => policy.set_mode(*mode, &unit.owner.origin),
                Registration::Level(level) => policy.set_level(*level, &unit.owner.origin),
                _ => {}
            }
        }
    }
    (policy.mode(), policy.level())
}

fn has_same(items: &[Registration], item: &Registration) -> bool {
    items.iter().any(|other| match (item, other) {
        (Registration::Handler { meta, .. }, Registration::Handler { meta: other, .. }) => {
            meta.is_covered_by(other)
        }
        (Registration::Rule(rule), Registration::Rule(other)) => rule == other,
        (Registration::Disabled(name), Registration::Disabled(other)) => name == other,
        (Registration::Protected(file), Registration::Protected(other)) => file == other,
        _ => false,
    })
}

/// The length limit of a hook's definition when it is shown, in characters.
const DEFINITION_CHARS: usize = 120;

/// Returns one line that describes a registration to a person.
fn describe(item: &Registration) -> String {
    match item {
        Registration::Handler { meta, .. } => {
            let mut line = format!("{} `{}` at `{}`", meta.power.as_str(), meta.name, meta.point);
            if !meta.definition.is_empty() {
                let definition = meta.definition.lines().next().unwrap_or_default();
                let definition = text::show_line(definition);
                let _ = write!(line, " ({})", text::cut_chars(&definition, DEFINITION_CHARS));
            }
            line
        }
        Registration::Tool { spec, .. } => format!("tool `{}`", spec.name),
        Registration::Named(item) => format!("{} `{}`", item.kind().as_str(), item.name()),
        Registration::Hook(installed) => format!("hook `{}`", installed.name),
        Registration::Section(section) => format!("prompt text of `{}`", section.0),
        Registration::Rule(rule) => format!("rule `{rule}`"),
        Registration::Guard(guard) => guard.to_string(),
        Registration::Protected(file) => format!("protected file {file:?}"),
        Registration::Mode(mode) => format!("mode `{}`", mode.as_str()),
        Registration::Level(level) => format!("level `{}`", level.as_str()),
        Registration::Disabled(name) => format!("hook `{name}` switched off"),
    }
}

/// Checks the units of a change one by one and returns them.
pub(crate) fn check_units(change: RegistryChange) -> Result<Vec<(OwnerUnit, bool)>, RegisterError> {
    let mut units: Vec<(OwnerUnit, bool)> = vec![];
    for (registry, agreed) in change.units {
        if let Some(error) = registry.error {
            return Err(error);
        }
        let unit = OwnerUnit { owner: registry.owner, items: registry.items };
        if units.iter().any(|(other, _)| other.owner.is_same_unit(&unit.owner)) {
            return Err(RegisterError::new(format!("{} is loaded twice", unit.owner)));
        }
        units.push((unit, agreed));
    }
    Ok(units)
}

/// True if `typed` in a file means the hook `name` of this origin: `lint`, `project/lint`.
pub(crate) fn is_name_of(name: &str, origin: &Origin, typed: &str) -> bool {
    // Hooks with one name at several points are numbered.
    let stem = name.split('#').next().unwrap_or_default();
    [name, stem].iter().any(|own| *own == typed || format!("{origin}/{own}") == typed)
}
