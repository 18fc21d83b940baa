//! Several units that take effect together: one generation or none, and nothing looser unless a person
//! agreed.

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

/// What one or several owners register instead of what they had. Applied by
/// [`Agent::apply`](crate::agent::Agent::apply) in one step: no run ever sees a part of it.
///
/// An owner that was there and loads nothing is dropped. What would make anything looser waits for a
/// person: until they agree, what the owner had stays, and of the new only what tightens is added.
#[derive(Default)]
pub struct RegistryChange {
    pub(crate) units: Vec<(Registry, bool)>,
    pub(crate) of_files: bool,
    pub(crate) agreed_to: Vec<String>,
}

impl RegistryChange {
    /// A change of nothing.
    pub fn new() -> Self {
        RegistryChange::default()
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

    /// A person agreed to what [`ChangeResult::Held`] listed in these words. Whatever else would loosen waits.
    pub fn agreed_to(mut self, looser: impl IntoIterator<Item = String>) -> Self {
        self.agreed_to.extend(looser);
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
pub enum ChangeResult {
    /// It is in force.
    Applied,
    /// Some of it would loosen, and waits until a person agrees. The rest is in force.
    Held {
        /// What would become looser, one line each.
        looser: Vec<String>,
    },
}

/// Puts the units of a change, each with whether a person agreed to it, in the place of what their owners
/// had. Gives what waits.
pub(crate) fn apply(
    changed: &[(OwnerUnit, bool)],
    agreed_to: &[String],
    units: &mut Vec<OwnerUnit>,
) -> Vec<String> {
    let (mut looser, mut held) = (vec![], vec![]);
    // As it would be with what was agreed to and nothing else.
    let mut agreed = units.clone();
    for (index, (new, is_agreed)) in changed.iter().enumerate() {
        let (at, old) = match take(units, &new.owner) {
            Some((at, old)) => (Some(at), old),
            None => (None, vec![]),
        };
        let others = changed.iter().filter(|(other, _)| !other.owner.is(&new.owner));
        let others = others.filter(|(other, _)| other.owner.origin == new.owner.origin);
        let elsewhere: Vec<_> = others.flat_map(|(other, _)| other.items.clone()).collect();
        let next = match is_agreed {
            true => new.clone(),
            false => {
                let (next, waits) = tightened(old, new.clone(), &elsewhere, agreed_to);
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
    wait_for_names(units, &held, &mut looser);
    hold_modes(units, &agreed, changed, agreed_to, &mut looser);
    looser
}

/// Takes out what an owner has: where it stood, and what it was.
fn take(units: &mut Vec<OwnerUnit>, owner: &Owner) -> Option<(usize, Vec<Registration>)> {
    let at = units.iter().position(|unit| unit.owner.is(owner))?;
    let theirs = units.extract_if(.., |unit| unit.owner.is(owner));
    let items = theirs.flat_map(|unit| unit.items).collect();
    Some((at, items))
}

/// Puts a unit where its owner stood. A new owner stands before those of the same origin that come later in
/// the change: of what several say, the nearest counts.
fn place(units: &mut Vec<OwnerUnit>, at: Option<usize>, unit: OwnerUnit, later: &[&Owner]) {
    if unit.items.is_empty() {
        return;
    }
    let is_later = |other: &OwnerUnit| {
        let same = other.owner.origin == unit.owner.origin;
        same && later.iter().any(|owner| owner.is(&other.owner))
    };
    let at = at.or_else(|| units.iter().position(is_later)).unwrap_or(units.len());
    units.insert(at.min(units.len()), unit);
}

/// Where mode or level come to less than they would without what nobody agreed to, those of the changed
/// units stay as they were.
fn hold_modes(
    units: &mut Vec<OwnerUnit>,
    agreed: &[OwnerUnit],
    changed: &[(OwnerUnit, bool)],
    agreed_to: &[String],
    looser: &mut Vec<String>,
) {
    let ((mode, level), (before, level_before)) = (settled(units), settled(agreed));
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
        let old = agreed.iter().find(|unit| unit.owner.is(&new.owner));
        let kept = old.iter().flat_map(|unit| &unit.items).filter(|item| is_it(item)).cloned();
        let kept: Vec<_> = kept.collect();
        match units.iter_mut().find(|unit| unit.owner.is(&new.owner)) {
            Some(unit) => {
                unit.items.retain(|item| !is_it(item));
                unit.items.extend(kept);
            }
            None if !kept.is_empty() => {
                let at = agreed.iter().position(|unit| unit.owner.is(&new.owner));
                place(units, at, OwnerUnit { owner: new.owner.clone(), items: kept }, &[]);
            }
            None => {}
        }
    }
    units.retain(|unit| !unit.items.is_empty());
}

/// What an owner has after a change that nobody agreed to, and what of it waits. What is strict elsewhere
/// is not lost. Modes and levels are judged by what they come to, all of them together.
pub(crate) fn tightened(
    old: Vec<Registration>,
    new: OwnerUnit,
    elsewhere: &[Registration],
    agreed_to: &[String],
) -> (OwnerUnit, Vec<String>) {
    let mut looser = loosened(&old, &new.items, elsewhere);
    looser.retain(|line| !agreed_to.contains(line));
    if looser.is_empty() {
        return (new, looser);
    }
    let OwnerUnit { owner, items: new } = new;
    let is_set =
        |item: &Registration| matches!(item, Registration::Mode(_) | Registration::Level(_));
    // What was switched off and is no longer is stricter.
    let stays = |item: &Registration| match item {
        Registration::Off(_) => has_same(&new, item),
        item => !is_set(item),
    };
    let mut items: Vec<_> = old.into_iter().filter(stays).collect();
    let added = new.into_iter().filter(|item| is_set(item) || tightens(item, &items));
    let added: Vec<_> = added.map(|item| beside(item, &items)).collect();
    items.extend(added);
    (OwnerUnit { owner, items }, looser)
}

/// What was there that is no longer (what can block, rules), and what would let pass that nobody let pass
/// before.
fn loosened(old: &[Registration], new: &[Registration], elsewhere: &[Registration]) -> Vec<String> {
    let is_gone = |item: &&Registration| !is_kept(item, new) && !is_kept(item, elsewhere);
    let gone = old.iter().filter(is_gone).map(|item| format!("gone: {}", describe(item)));
    let come = new.iter().filter(|item| loosens(item, old));
    let come = come.map(|item| format!("new: {}", describe(item)));
    let mut lines = vec![];
    for line in gone.chain(come) {
        // A hook that may change something is there twice.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Whether something as strict is there.
fn is_kept(item: &Registration, new: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. }
            if matches!(meta.power, Power::Observe | Power::Answer) =>
        {
            true
        }
        Registration::Rule(rule) if rule.loosens() => true,
        Registration::Handler { .. } | Registration::Rule(_) => has_same(new, item),
        Registration::Guard(guard) => {
            new.iter().any(|other| matches!(other, Registration::Guard(g) if guard.is_kept_by(g)))
        }
        Registration::Mode(_) | Registration::Level(_) => true,
        Registration::Tool { .. }
        | Registration::Called(_)
        | Registration::Section(_)
        | Registration::Off(_) => true,
        // What it registered is judged item by item.
        Registration::Hook(_) => true,
    }
}

/// Whether it would let something pass that did not pass before.
fn loosens(item: &Registration, old: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. } => meta.power == Power::Answer && !has_same(old, item),
        Registration::Rule(rule) => rule.loosens() && !has_same(old, item),
        Registration::Off(_) => !has_same(old, item),
        _ => false,
    }
}

/// Whether it only adds to what is refused or asked.
fn tightens(item: &Registration, beside: &[Registration]) -> bool {
    match item {
        Registration::Handler { meta, .. } => meta.power == Power::Gate && !has_same(beside, item),
        Registration::Rule(rule) => !rule.loosens() && !has_same(beside, item),
        Registration::Guard(guard) => !beside
            .iter()
            .any(|other| matches!(other, Registration::Guard(known) if guard.is_kept_by(known))),
        _ => false,
    }
}

/// The same where something of its name stays: a gate that became another is asked besides, and both must
/// let a call pass.
fn beside(item: Registration, others: &[Registration]) -> Registration {
    match item {
        Registration::Handler { meta, install }
            if others.iter().any(|other| other.is_hook(&meta.name)) =>
        {
            let meta = HandlerMeta { named: false, quiet: false, ..HandlerMeta::clone(&meta) };
            Registration::Handler { meta: Arc::new(meta), install }
        }
        other => other,
    }
}

/// Which hooks of a unit have the name of one that another unit of the origin keeps: they wait with it, but
/// for gates.
fn wait_for_names(units: &mut [OwnerUnit], held: &[Owner], waiting: &mut Vec<String>) {
    let is_held = |unit: &OwnerUnit| held.iter().any(|owner| owner.is(&unit.owner));
    let kept: Vec<_> = units.iter().filter(|unit| is_held(unit)).cloned().collect();
    for unit in units.iter_mut().filter(|unit| !is_held(unit)) {
        let others = kept.iter().filter(|kept| kept.owner.origin == unit.owner.origin);
        let others: Vec<_> = others.flat_map(|kept| kept.items.clone()).collect();
        let is_taken = |name: &SmolStr| {
            let of_name = |item: &Registration| matches!(item, Registration::Handler { meta, .. } if meta.named && meta.name == *name);
            others.iter().any(of_name)
        };
        unit.items = std::mem::take(&mut unit.items)
            .into_iter()
            .filter_map(|item| match &item {
                Registration::Handler { meta, .. } if is_taken(&meta.name) => {
                    if tightens(&item, &others) {
                        return Some(beside(item, &others));
                    }
                    waiting.extend(meta.named.then(|| format!("new: {}", describe(&item))));
                    None
                }
                _ => Some(item),
            })
            .collect();
    }
}

/// The mode and level that units come to.
pub(crate) fn settled(units: &[OwnerUnit]) -> (Mode, Level) {
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
            meta.guards_as(other)
        }
        (Registration::Rule(rule), Registration::Rule(other)) => rule == other,
        (Registration::Off(name), Registration::Off(other)) => name == other,
        _ => false,
    })
}

/// The most that is shown of what a hook does.
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
        Registration::Called(called) => format!("{} `{}`", called.kind().as_str(), called.name()),
        Registration::Hook(installed) => format!("hook `{}`", installed.name),
        Registration::Section(section) => format!("words of `{}`", section.0),
        Registration::Rule(rule) => format!("rule `{rule}`"),
        Registration::Guard(guard) => guard.to_string(),
        Registration::Mode(mode) => format!("mode `{}`", mode.as_str()),
        Registration::Level(level) => format!("level `{}`", level.as_str()),
        Registration::Off(name) => format!("hook `{name}` switched off"),
    }
}

/// The units of a change, checked one by one.
pub(crate) fn units(change: RegistryChange) -> Result<Vec<(OwnerUnit, bool)>, RegisterError> {
    let mut units: Vec<(OwnerUnit, bool)> = vec![];
    for (registry, agreed) in change.units {
        if let Some(error) = registry.error {
            return Err(error);
        }
        let unit = OwnerUnit { owner: registry.owner, items: registry.items };
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
