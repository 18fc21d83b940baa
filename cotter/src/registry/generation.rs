//! Generations: immutable snapshots of all registrations, and the holder of the newest one. A reader holds
//! its generation and takes no lock; a writer builds a whole new generation.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use smol_str::SmolStr;

use crate::{
    fs::declared_file::DeclaredFile,
    history::ledger::HandlerId,
    hooks::{
        chain::{Chain, HandlerMeta},
        points::{
            ChainSlot, Chains, Point, PointId, tool_post::ToolPost, tool_pre::ToolPre,
            tool_refused::ToolRefused,
        },
    },
    invoke::{
        named_item::{NameKind, NamedItem},
        trigger::TriggerSet,
    },
    model::tools::ToolSpec,
    permission::{
        Policy,
        guard::Guard,
        origin::{Origin, Owner},
        rule::Rule,
        verdict::Power,
    },
    registry::{
        RegisterError, Registration, Registry,
        change::{self, ChangeResult, RegistryChange, is_name_of},
        names::{NameTable, is_built_in},
        pending_agents::PendingAgents,
        subsystem::{Hook, InstalledHook},
        tool_set::ToolSet,
    },
    tool::{Tool, schema::ToolSchema},
};

/// One snapshot of the registry.
pub(crate) struct Generation {
    /// Grows by one with every change of this registry.
    pub(crate) number: u64,
    /// The number of the last generation that a program or a person made, not changed files.
    pub(crate) last_manual_number: u64,
    mask: u32,
    chains: Chains,
    /// The tools, in the order in which they are shown to the model.
    pub(crate) tools: Arc<ToolSet>,
    /// The rules of the floor, compiled.
    pub(crate) policy: Policy,
    /// The items that can be called by name, without tools.
    pub(crate) names: NameTable,
    /// The triggers that add skills to the context.
    pub(crate) triggers: Arc<TriggerSet>,
    /// The subsystems, in the order of registration.
    pub(crate) hooks: Vec<Arc<InstalledHook>>,
    /// The sections of the system prompt: author and text.
    pub(crate) sections: Vec<Arc<(SmolStr, String)>>,
    /// The files that hooks run.
    pub(crate) protected: Vec<Arc<DeclaredFile>>,
    /// The disabled handlers.
    disabled: Vec<HandlerId>,
    units: Vec<OwnerUnit>,
}

/// The registrations of one owner.
#[derive(Clone)]
pub(crate) struct OwnerUnit {
    pub(crate) owner: Owner,
    pub(crate) items: Vec<Registration>,
}

/// A tool and the handlers that apply to it, matched once per generation.
pub(crate) struct ToolEntry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) schema: Arc<ToolSchema>,
    pub(crate) owner: Owner,
    /// The subsystem that owns the tool.
    pub(crate) hook: Option<Arc<dyn Hook>>,
    /// The transforms at `tool.pre`. Their result is checked before the gates see it.
    pub(crate) pre_transforms: Chain<ToolPre>,
    /// The gates and observers at `tool.pre`.
    pub(crate) pre_gates: Chain<ToolPre>,
    /// True if a handler other than the kernel's runs at `tool.pre` for this tool.
    pub(crate) has_pre_hooks: bool,
    pub(crate) post: Chain<ToolPost>,
    pub(crate) refused: Chain<ToolRefused>,
}

/// A registered hook, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookInfo {
    /// The number of the hook.
    pub id: HandlerId,
    /// The name of the hook.
    pub name: SmolStr,
    /// The purpose of the hook.
    pub description: SmolStr,
    /// The point of the hook.
    pub point: PointId,
    /// The power of the hook.
    pub power: Power,
    /// The owner that registered the hook.
    pub owner: Owner,
    /// The globs of the tools that the hook is limited to; `None` for all tools.
    pub tools: Option<Vec<String>>,
    /// True if the hook is enabled.
    pub enabled: bool,
}

impl HookInfo {
    /// True if `typed` is the name of this hook, or its origin and name: `lint`, `project/lint`.
    pub fn is_called(&self, typed: &str) -> bool {
        is_name_of(&self.name, &self.owner.origin, typed)
    }
}

impl Generation {
    /// True if the point has a handler. The check is one load and a bit test.
    pub(crate) fn has(&self, point: PointId) -> bool {
        self.mask & point.bit() != 0
    }

    /// Returns the handlers of a point.
    pub(crate) fn chain<P: Point + ChainSlot>(&self) -> &Chain<P> {
        P::chain(&self.chains)
    }

    /// Returns the handler with the number `id`, if it is still registered.
    pub(crate) fn meta(&self, id: HandlerId) -> Option<&Arc<HandlerMeta>> {
        self.metas().find(|meta| meta.id == id)
    }

    /// Returns every handler, in the order of origins and registration.
    pub(crate) fn metas(&self) -> impl Iterator<Item = &Arc<HandlerMeta>> {
        self.units.iter().flat_map(|unit| &unit.items).filter_map(|item| match item {
            Registration::Handler { meta, .. } => Some(meta),
            _ => None,
        })
    }

    /// True if the handler is enabled.
    pub(crate) fn is_enabled(&self, id: HandlerId) -> bool {
        !self.disabled.contains(&id)
    }

    /// Makes the entry of a tool of the runtime, with the handlers that apply to it.
    pub(crate) fn make_entry(&self, tool: Arc<dyn Tool>) -> Arc<ToolEntry> {
        let spec = Arc::new(tool.spec().clone());
        let schema = Arc::new(ToolSchema::from_object(&spec.schema));
        let item = Registration::Tool { tool, spec, schema, hook: None };
        Arc::new(
            ToolEntry::new(&self.chains, &item, Owner::kernel())
                .expect("the registration is a tool"),
        )
    }

    fn build(
        number: u64,
        mut units: Vec<OwnerUnit>,
        disabled_ids: &[HandlerId],
        previous: Option<&Generation>,
    ) -> Self {
        units.sort_by(|a, b| a.owner.origin.cmp(&b.owner.origin));
        let disabled = find_disabled(&units, disabled_ids);
        let mut chains = Chains::default();
        let mut tools = vec![];
        let mut policy = Policy::default();
        let (mut names, mut hooks, mut sections) = (NameTable::default(), vec![], vec![]);
        let mut protected = vec![];
        for unit in &units {
            for item in &unit.items {
                match item {
                    Registration::Handler { meta, .. } if disabled.contains(&meta.id) => {}
                    Registration::Handler { meta, install } => install(&mut chains, meta.clone()),
                    Registration::Tool { .. } => tools.push((item, &unit.owner)),
                    Registration::Named(item) => names.add(&unit.owner, item),
                    Registration::Hook(installed) => hooks.push(installed.clone()),
                    Registration::Section(section) => sections.push(section.clone()),
                    Registration::Rule(rule) => policy.add(Rule::clone(rule), &unit.owner.origin),
                    Registration::Guard(guard) => {
                        policy.add_guard(Guard::clone(guard), &unit.owner.origin)
                    }
                    Registration::Protected(file) => protected.push(file.clone()),
                    Registration::Mode(mode) => policy.set_mode(*mode, &unit.owner.origin),
                    Registration::Level(level) => policy.set_level(*level, &unit.owner.origin),
                    Registration::Disabled(_) => {}
                }
            }
        }
        let entry = |(item, owner): (_, &Owner)| ToolEntry::new(&chains, item, owner.clone());
        let entries = tools.into_iter().filter_map(entry).map(Arc::new);
        let tools = Arc::new(ToolSet::new(entries.collect()));
        let triggers = build_triggers(&names, previous);
        let mask = chains.mask();
        Generation {
            number,
            last_manual_number: number,
            mask,
            chains,
            tools,
            policy,
            names,
            triggers,
            hooks,
            sections,
            protected,
            disabled,
            units,
        }
    }
}

/// Returns the disabled handlers: those in `ids` and those disabled by name. Kernel gates stay enabled.
fn find_disabled(units: &[OwnerUnit], ids: &[HandlerId]) -> Vec<HandlerId> {
    let items = || units.iter().flat_map(|unit| &unit.items);
    let names = items().filter_map(|item| match item {
        Registration::Disabled(name) => Some(name),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    let is_disabled = |meta: &HandlerMeta| {
        ids.contains(&meta.id)
            || names.iter().any(|name| is_name_of(&meta.name, &meta.owner.origin, name))
    };
    let disabled = items().filter_map(|item| match item {
        Registration::Handler { meta, .. } if meta.owner.origin != Origin::Kernel => {
            is_disabled(meta).then_some(meta.id)
        }
        _ => None,
    });
    disabled.collect()
}

/// Returns the triggers of the skills that are not shadowed. The compiled set is reused while no trigger
/// changed.
fn build_triggers(names: &NameTable, previous: Option<&Generation>) -> Arc<TriggerSet> {
    let skills = names.visible().filter_map(|(_, item)| match item {
        NamedItem::Skill(skill) => Some(skill),
        _ => None,
    });
    let triggers = TriggerSet::new(skills);
    let previous = previous.map(|previous| &previous.triggers);
    match previous.filter(|previous| previous.is_same(&triggers)) {
        Some(previous) => previous.clone(),
        None => Arc::new(triggers),
    }
}

impl ToolEntry {
    /// Makes the entry of a registration; `None` if it is not a tool.
    fn new(chains: &Chains, item: &Registration, owner: Owner) -> Option<Self> {
        let Registration::Tool { tool, spec, schema, hook } = item else { return None };
        let name = &spec.name;
        let pre = ToolPre::chain(chains).filtered(|meta| meta.matches(name));
        Some(ToolEntry {
            tool: tool.clone(),
            spec: spec.clone(),
            schema: schema.clone(),
            owner,
            hook: hook.clone(),
            has_pre_hooks: !pre.filtered(|meta| meta.owner.origin != Origin::Kernel).is_empty(),
            pre_transforms: pre.filtered(|meta| meta.power == Power::Transform),
            pre_gates: pre.filtered(|meta| meta.power != Power::Transform),
            post: ToolPost::chain(chains).filtered(|meta| meta.matches(name)),
            refused: ToolRefused::chain(chains).filtered(|meta| meta.matches(name)),
        })
    }

    /// True if both entries are the same tool, so that a decision about a call stays valid. For tools of the
    /// runtime only the schema is compared, because their description lists what is currently registered.
    pub(crate) fn is_same_tool(&self, other: &ToolEntry) -> bool {
        let (ours, theirs) = (&self.spec, &other.spec);
        let is_kernel = |entry: &ToolEntry| entry.owner.origin == Origin::Kernel;
        ours == theirs || (is_kernel(self) && is_kernel(other) && ours.schema == theirs.schema)
    }

    /// Returns the entry without the hooks of one owner, for a call that this owner makes. Kernel gates stay.
    pub(crate) fn without(&self, owner: &Owner) -> Self {
        let keep = |meta: &HandlerMeta| {
            meta.owner.origin == Origin::Kernel || !meta.owner.is_same_unit(owner)
        };
        ToolEntry {
            tool: self.tool.clone(),
            spec: self.spec.clone(),
            schema: self.schema.clone(),
            owner: self.owner.clone(),
            hook: self.hook.clone(),
            has_pre_hooks: self.has_pre_hooks,
            pre_transforms: self.pre_transforms.filtered(keep),
            pre_gates: self.pre_gates.filtered(keep),
            post: self.post.filtered(keep),
            refused: self.refused.filtered(keep),
        }
    }
}

/// The newest generation, and the operations that make a new one.
pub(crate) struct LiveRegistry {
    /// The reserved tool names: those of the runtime's own tools.
    reserved: Vec<SmolStr>,
    number: AtomicU64,
    current: RwLock<Arc<Generation>>,
    writer: Mutex<WriterState>,
    pub(crate) pending_agents: PendingAgents,
}

/// The state that only the writer of a new generation uses.
#[derive(Default)]
struct WriterState {
    /// The number of the newest handler.
    last_handler: u32,
    /// The handlers that were disabled by number.
    disabled_ids: Vec<HandlerId>,
}

impl LiveRegistry {
    pub(crate) fn new(reserved: Vec<SmolStr>) -> Self {
        LiveRegistry {
            reserved,
            number: AtomicU64::new(0),
            current: RwLock::new(Arc::new(Generation::build(0, vec![], &[], None))),
            writer: Mutex::new(WriterState::default()),
            pending_agents: PendingAgents::default(),
        }
    }

    /// Returns the newest generation.
    pub(crate) fn current(&self) -> Arc<Generation> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of the newest generation. A step compares it instead of taking a lock.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Adds a unit, whole or not at all.
    pub(crate) fn commit(&self, unit: Registry) -> Result<Vec<HandlerId>, RegisterError> {
        if let Some(error) = unit.error {
            return Err(error);
        }
        // A refused unit is dropped after the lock, because its items may use the registry when they are
        // dropped.
        let mut unit = OwnerUnit { owner: unit.owner, items: unit.items };
        self.publish(|writer, units| {
            let ids = writer.number_handlers(&mut unit.items);
            units.push(unit.clone());
            self.check_names(units)?;
            Ok(ids)
        })
    }

    /// Replaces the registrations of owners, all of them or none. A registration that would loosen without a
    /// person's agreement is held.
    pub(crate) fn apply(&self, change: RegistryChange) -> Result<ChangeResult, RegisterError> {
        let (is_manual, agreed_to) = (!change.of_files, change.agreed_to.clone());
        let mut changed = change::check_units(change)?;
        let looser = self.publish_as(is_manual, |writer, units| {
            for (new, _) in &mut changed {
                writer.number_handlers(&mut new.items);
            }
            let looser = change::apply(&changed, &agreed_to, units);
            self.check_names(units)?;
            Ok(looser)
        })?;
        Ok(if looser.is_empty() { ChangeResult::Applied } else { ChangeResult::Held { looser } })
    }

    /// Removes the registrations of owners for which `is_removed` is true. Returns true if there were any.
    pub(crate) fn unload(&self, is_removed: impl Fn(&Owner) -> bool) -> bool {
        self.retain(|owner, _| !is_removed(owner))
    }

    /// Removes one handler. Returns true if it was registered.
    pub(crate) fn remove(&self, id: HandlerId) -> bool {
        self.retain(|_, item| !matches!(item, Registration::Handler { meta, .. } if meta.id == id))
    }

    /// Removes a named item that the program registered. Returns true if there was one.
    pub(crate) fn remove_named(&self, kind: NameKind, name: &str) -> bool {
        self.retain(|owner, item| match item {
            Registration::Named(item) => {
                owner.origin != Origin::Embedder || item.kind() != kind || item.name() != name
            }
            _ => true,
        })
    }

    /// Removes one tool. Returns true if it was registered.
    pub(crate) fn remove_tool(&self, name: &str) -> bool {
        self.retain(|_, item| !matches!(item, Registration::Tool { spec, .. } if spec.name == name))
    }

    /// Enables or disables a handler. Returns true if it exists. Kernel gates stay enabled.
    pub(crate) fn set_enabled(&self, id: HandlerId, enabled: bool) -> bool {
        let origin = self.current().meta(id).map(|meta| meta.owner.origin.clone());
        if origin.is_none_or(|origin| origin == Origin::Kernel) {
            return false;
        }
        self.publish(|writer, _| {
            writer.disabled_ids.retain(|disabled| *disabled != id);
            if !enabled {
                writer.disabled_ids.push(id);
            }
            Ok(true)
        })
        .unwrap_or(false)
    }

    /// Returns every hook, as lists show it.
    pub(crate) fn hooks(&self) -> Vec<HookInfo> {
        let current = self.current();
        let info = |meta: &Arc<HandlerMeta>| HookInfo {
            id: meta.id,
            name: meta.name.clone(),
            description: meta.description.clone(),
            point: meta.point,
            power: meta.power,
            owner: meta.owner.clone(),
            tools: meta.tools.as_ref().map(|filter| filter.globs.clone()),
            enabled: !current.disabled.contains(&meta.id),
        };
        current.metas().map(info).collect()
    }

    fn retain(&self, keep: impl Fn(&Owner, &Registration) -> bool) -> bool {
        self.publish(|_, units| {
            let count =
                |units: &[OwnerUnit]| units.iter().map(|unit| unit.items.len()).sum::<usize>();
            let before = count(units);
            for unit in units.iter_mut() {
                let owner = unit.owner.clone();
                unit.items.retain(|item| keep(&owner, item));
            }
            units.retain(|unit| !unit.items.is_empty());
            if count(units) == before {
                Err(RegisterError::new("nothing to remove"))
            } else {
                Ok(true)
            }
        })
        .unwrap_or(false)
    }

    fn check_names(&self, units: &[OwnerUnit]) -> Result<(), RegisterError> {
        let reserved = units.iter().flat_map(|unit| &unit.items).find_map(|item| match item {
            Registration::Tool { spec, .. } => {
                self.reserved.iter().find(|name| **name == spec.name)
            }
            _ => None,
        });
        match reserved {
            Some(name) => Err(RegisterError::new(format!(
                "cannot register tool `{name}`: the name is reserved"
            ))),
            None => check_names(units),
        }
    }

    /// Makes the next generation from the current one; one writer at a time. An `Err` publishes nothing.
    fn publish<T>(
        &self,
        change: impl FnOnce(&mut WriterState, &mut Vec<OwnerUnit>) -> Result<T, RegisterError>,
    ) -> Result<T, RegisterError> {
        self.publish_as(true, change)
    }

    /// Makes the next generation. `is_manual` is false if changed files are the cause.
    fn publish_as<T>(
        &self,
        is_manual: bool,
        change: impl FnOnce(&mut WriterState, &mut Vec<OwnerUnit>) -> Result<T, RegisterError>,
    ) -> Result<T, RegisterError> {
        // The old generation is dropped after the lock, because its items may use the registry when they are
        // dropped.
        let current;
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        current = self.current();
        let mut units = current.units.clone();
        let result = change(&mut writer, &mut units)?;
        let mut next =
            Generation::build(current.number + 1, units, &writer.disabled_ids, Some(&current));
        next.last_manual_number = if is_manual { next.number } else { current.last_manual_number };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.number.store(current.number + 1, Ordering::Release);
        Ok(result)
    }
}

impl WriterState {
    fn number_handlers(&mut self, items: &mut [Registration]) -> Vec<HandlerId> {
        let mut ids = vec![];
        for item in items {
            if let Registration::Handler { meta, .. } = item {
                self.last_handler += 1;
                let id = HandlerId(self.last_handler);
                let fresh = Arc::get_mut(meta).expect("a new unit is not shared");
                fresh.id = id;
                ids.push(id);
            }
        }
        ids
    }
}

/// Checks that no name is used twice within one origin and that no tool is shadowed.
fn check_names(units: &[OwnerUnit]) -> Result<(), RegisterError> {
    let mut tools = BTreeMap::new();
    let mut hooks = BTreeMap::new();
    let mut names = BTreeMap::new();
    for unit in units {
        for item in &unit.items {
            let clash = match item {
                Registration::Tool { spec, .. } => tools
                    .insert(spec.name.clone(), &unit.owner)
                    .map(|owner| ("tool", spec.name.clone(), owner)),
                Registration::Named(item) => {
                    let key = (item.kind(), item.name().clone());
                    let by_origin = names.entry(key).or_insert_with(BTreeMap::new);
                    let clash = by_origin.insert(unit.owner.origin.clone(), &unit.owner);
                    let built_in = by_origin
                        .iter()
                        .find(|(origin, _)| is_built_in(origin) && **origin != unit.owner.origin)
                        .map(|(_, owner)| *owner)
                        .filter(|_| item.kind() == NameKind::Command);
                    clash
                        .or(built_in)
                        .map(|owner| (item.kind().as_str(), item.name().clone(), owner))
                }
                Registration::Handler { meta, .. } if meta.has_given_name => hooks
                    .insert((unit.owner.origin.clone(), meta.name.clone()), &unit.owner)
                    .map(|owner| ("hook", meta.name.clone(), owner)),
                _ => None,
            };
            if let Some((kind, name, owner)) = clash {
                let message = format!("{kind} `{name}` is already registered by {owner}");
                let error = RegisterError::new(message);
                return Err(error.with_hint("give one of them another name"));
            }
        }
    }
    Ok(())
}
