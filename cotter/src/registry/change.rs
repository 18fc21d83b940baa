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
    /// list of skills and subagents, for its prompt cache, and is told of the difference.
    pub fn of_files(mut self) -> Self {
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

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ChangeResult {
    /// The whole change is in force.
    Applied,
    /// A part of the change would loosen and is held until a person agrees. The rest is in force.
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
    let (mut looser, mut held) = (vec![], vec![]);
    // The units as they would be with the agreed units alone.
    let mut agreed = units.clone();
    for (index, (new, is_agreed)) in changed.iter().enumerate() {
        let (at, old) = match take(units, &new.owner) {
            Some((at, old)) => (Some(at), old),
            None => (None, vec![]),
        };
        let others = changed.iter().filter(|(other, _)| !other.owner.is_same_unit(&new.owner));
        let others = others.filter(|(other, _)| other.owner.origin == new.owner.origin);
        let elsewhere: Vec<_> = others.flat_map(|(other, _)| other.items.clone()).collect();
        let next = match is_agreed {
            true => new.clone(),
            false => {
                let (next, waits) = hold_back_loosening(old, new.clone(), &elsewhere, agreed_to);
                held.extend((!waits.is_empty()).then(|| new.owner.clone()));
                looser.extend(waits);
                next
            }
        };
        let later: Vec<_> = changed[index + 1..].iter().map(|(later, _)| &later.owner).collect();
        if *is_agreed {
            let before = take(&mut agreed, &new.owner);
            place(&mut agreed, before.map(|(at, _)| at), new.clone(), &later);
        }
        place(units, at, next, &later);
    }
    hold_taken_names(units, &held, &mut looser);
    hold_modes(units, &agreed, changed, agreed_to, &mut looser);
    looser
}

/// Removes the units of an owner. Returns their index and their registrations.
fn take(units: &mut Vec<OwnerUnit>, owner: &Owner) -> Option<(usize, Vec<Registration>)> {
    let at = units.iter().position(|unit| unit.owner.is_same_unit(owner))?;
    let theirs = units.extract_if(.., |unit| unit.owner.is_same_unit(owner));
    let items = theirs.flat_map(|unit| unit.items).collect();
    Some((at, items))
}

/// Inserts a unit at its owner's old index. A new owner is inserted before owners of the same origin that
/// come later in the change, because the nearest owner wins.
fn place(units: &mut Vec<OwnerUnit>, at: Option<usize>, unit: OwnerUnit, later: &[&Owner]) {
    if unit.items.is_empty() {
        return;
    }
    let is_later = |other: &OwnerUnit| {
        let same = other.owner.origin == unit.owner.origin;
        same && later.iter().any(|owner| owner.is_same_unit(&other.owner))
    };
    let at = at.or_else(|| units.iter().position(is_later)).unwrap_or(units.len());
    units.insert(at.min(units.len()), unit);
}

/// Restores the modes and levels of changed units that nobody agreed to, if the result would be looser than
/// with the agreed units alone.
fn hold_modes(
    units: &mut Vec<OwnerUnit>,
    agreed: &[OwnerUnit],
    changed: &[(OwnerUnit, bool)],
    agreed_to: &[String],
    looser: &mut Vec<String>,
) {
    let ((mode, level), (before, level_before)) =
        (resulting_mode_and_level(units), resulting_mode_and_level(agreed));
    let words = [
        (mode < before, format!("new: mode `{}`", mode.as_str())),
        (level < level_before, format!("new: level `{}`", level.as_str())),
    ];
    let waits = words.map(|(is_looser, words)| {
        let waits = is_looser && !agreed_to.contains(&words);
        looser.extend(waits.then_some(words));
        waits
    });
    let is_it = |item: &Registration| match item {
        Registration::Mode(_) => waits[0],
        Registration::Level(_) => waits[1],
        _ => false,
    };
    if !waits.contains(&true) {
        return;
    }
    for (new, _) in changed.iter().filter(|(_, is_agreed)| !is_agreed) {
        let old = agreed.iter().find(|unit| unit.owner.is_same_unit(&new.owner));
        let kept = old.iter().flat_map(|unit| &unit.items).filter(|item| is_it(item)).cloned();
        let kept: Vec<_> = kept.collect();
        match units.iter_mut().find(|unit| unit.owner.is_same_unit(&new.owner)) {
            Some(unit) => {
                unit.items.retain(|item| !is_it(item));
                unit.items.extend(kept);
            }
            None if !kept.is_empty() => {
                let at = agreed.iter().position(|unit| unit.owner.is_same_unit(&new.owner));
                place(units, at, OwnerUnit { owner: new.owner.clone(), items: kept }, &[]);
            }
            None => {}
        }
    }
    units.retain(|unit| !unit.items.is_empty());
}

/// Returns the registrations of an owner after a change that nobody agreed to, and the held ones. A strict
/// registration that moved to `elsewhere` is not lost. Modes and levels are not judged here, but all together
/// later.
pub(crate) fn hold_back_loosening(
    old: Vec<Registration>,
    new: OwnerUnit,
    elsewhere: &[Registration],
    agreed_to: &[String],
) -> (OwnerUnit, Vec<String>) {
    let mut looser = list_loosened(&old, &new.items, elsewhere);
    looser.retain(|line| !agreed_to.contains(line));
    if looser.is_empty() {
        return (new, looser);
    }
    let OwnerUnit { owner, items: new } = new;
    let is_set =
        |item: &Registration| matches!(item, Registration::Mode(_) | Registration::Level(_));
    // A hook that is enabled again makes the result stricter.
    let stays = |item: &Registration| match item {
        Registration::Disabled(_) => has_same(&new, item),
        item => !is_set(item),
    };
    let mut items: Vec<_> = old.into_iter().filter(stays).collect();
    let added = new.into_iter().filter(|item| is_set(item) || tightens(item, &items));
    let added: Vec<_> = added.map(|item| release_name(item, &items)).collect();
    items.extend(added);
    (OwnerUnit { owner, items }, looser)
}

/// Lists the registrations that a change would loosen: removed gates, transforms, rules and guards, and new
/// registrations that let more pass.
fn list_loosened(
    old: &[Registration],
    new: &[Registration],
    elsewhere: &[Registration],
) -> Vec<String> {
    let is_gone = |item: &&Registration| !is_kept(item, new) && !is_kept(item, elsewhere);
    let gone = old.iter().filter(is_gone).map(|item| format!("gone: {}", describe(item)));
    let come = new.iter().filter(|item| loosens(item, old));
    let come = come.map(|item| format!("new: {}", describe(item)));
    let mut lines = vec![];
    for line in gone.chain(come) {
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
        Registration::Tool { .. }
        | Registration::Named(_)
        | Registration::Section(_)
        | Registration::Disabled(_) => true,
        // The registrations of the hook are judged one by one.
        Registration::Hook(_) => true,
    }
}

/// True if the registration would let pass what did not pass before.
fn loosens(item: &Registration, old: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. } => meta.power == Power::Answer && !has_same(old, item),
        Registration::Rule(rule) => rule.loosens() && !has_same(old, item),
        Registration::Disabled(_) => !has_same(old, item),
        _ => false,
    }
}

/// True if the registration only adds refusals or questions.
fn tightens(item: &Registration, beside: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. } => meta.power == Power::Gate && !has_same(beside, item),
        Registration::Rule(rule) => !rule.loosens() && !has_same(beside, item),
        Registration::Guard(guard) => !beside
            .iter()
            .any(|other| matches!(other, Registration::Guard(known) if guard.is_implied_by(known))),
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
fn hold_taken_names(units: &mut [OwnerUnit], held: &[Owner], waiting: &mut Vec<String>) {
    let is_held = |unit: &OwnerUnit| held.iter().any(|owner| owner.is_same_unit(&unit.owner));
    let kept: Vec<_> = units.iter().filter(|unit| is_held(unit)).cloned().collect();
    for unit in units.iter_mut().filter(|unit| !is_held(unit)) {
        let others = kept.iter().filter(|kept| kept.owner.origin == unit.owner.origin);
        let others: Vec<_> = others.flat_map(|kept| kept.items.clone()).collect();
        let is_taken = |name: &SmolStr| {
            let of_name = |item: &Registration| matches!(item, Registration::Handler { meta, .. } if meta.has_given_name && meta.name == *name);
            others.iter().any(of_name)
        };
        unit.items = std::mem::take(&mut unit.items)
            .into_iter()
            .filter_map(|item| match &item {
                Registration::Handler { meta, .. } if is_taken(&meta.name) => {
                    if tightens(&item, &others) {
                        return Some(release_name(item, &others));
                    }
                    waiting
                        .extend(meta.has_given_name.then(|| format!("new: {}", describe(&item))));
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
        _ => false,
    })
}

/// The length limit of a hook's definition when it is shown, in characters.
const DEFINITION_CHARS: usize = 120;

fn describe(item: &Registration) -> String {
    match item {
        Registration::Handler { meta, .. } => {
            let mut words = format!("{} `{}` at `{}`", meta.power.as_str(), meta.name, meta.point);
            if !meta.definition.is_empty() {
                let definition = meta.definition.lines().next().unwrap_or_default();
                let definition = text::show_line(definition);
                let _ = write!(words, " ({})", text::clip(&definition, DEFINITION_CHARS));
            }
            words
        }
        Registration::Tool { spec, .. } => format!("tool `{}`", spec.name),
        Registration::Named(called) => format!("{} `{}`", called.kind().as_str(), called.name()),
        Registration::Hook(installed) => format!("hook `{}`", installed.name),
        Registration::Section(section) => format!("words of `{}`", section.0),
        Registration::Rule(rule) => format!("rule `{rule}`"),
        Registration::Guard(guard) => guard.to_string(),
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
        if units.iter().any(|(known, _)| known.owner.is_same_unit(&unit.owner)) {
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
