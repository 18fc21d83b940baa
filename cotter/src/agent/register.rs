//! Registration on a live agent: hooks, tools and names are added and removed while it runs.

mod agents;

use std::{
    future::Future,
    ops::Deref,
    sync::{Arc, PoisonError},
};

use smol_str::SmolStr;

use crate::{
    agent::{Agent, AgentInner},
    history::ledger::HandlerId,
    hooks::{
        chain::HandlerMeta,
        handler::IntoHandler,
        points::{Point, TakesAnswers, TakesGates, TakesTransforms},
    },
    invoke::{
        command::Command,
        directive_hook::{HookCx, IntoHookResult},
        named_item::NameKind,
        skill::Skill,
        subagent::Subagent,
    },
    permission::origin::{Origin, Owner},
    registry::{
        RegisterError, Registry,
        change::{ChangeResult, RegistryChange},
        generation::LiveRegistry,
        tool_hook::ToolHook,
    },
    tool::Tool,
};

/// Registration. It is allowed at any time and takes effect at the next step of every run.
impl Agent {
    /// Loads an extension under an owner, completely or not at all. Returns the ids of its hooks.
    pub fn extend(
        &self,
        owner: Owner,
        extension: impl FnOnce(&mut Registry),
    ) -> Result<Vec<HandlerId>, RegisterError> {
        let mut unit = Registry::new(reject_kernel(owner)?);
        extension(&mut unit);
        self.0.live.commit(unit)
    }

    /// Replaces the registrations of the change's owners, all together or not at all. A change that loosens
    /// anything waits until a person agrees. A change that tightens acts at once, even on calls that are
    /// being decided.
    pub fn apply(&self, change: RegistryChange) -> Result<ChangeResult, RegisterError> {
        self.registry_for_removal().apply(change)
    }

    /// Replaces an owner's extension. A change that loosens anything waits until `agreed` is true; only a
    /// person may say so.
    pub fn reload(
        &self,
        owner: Owner,
        agreed: bool,
        extension: impl FnOnce(&mut Registry),
    ) -> Result<ChangeResult, RegisterError> {
        let mut change = RegistryChange::new();
        change.load(owner, extension);
        self.apply(if agreed { change.agreed() } else { change })
    }

    /// Removes every registration of an owner at once. Returns true if there was any.
    pub fn unload(&self, owner: &Owner) -> bool {
        owner.origin != Origin::Kernel
            && self.registry_for_removal().unload(|other| other.is_same_unit(owner))
    }

    /// Removes every registration of an origin at once. Returns true if there was any.
    pub fn unload_origin(&self, origin: &Origin) -> bool {
        *origin != Origin::Kernel
            && self.registry_for_removal().unload(|owner| owner.origin == *origin)
    }

    /// Registers a gate.
    pub fn gate<P: TakesGates, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, P::Verdict, M>,
    ) -> Result<HandlerId, RegisterError> {
        self.register_one(|unit| _ = unit.gate(point, handler))
    }

    /// Registers an observer.
    pub fn observe<P: Point, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, (), M>,
    ) -> Result<HandlerId, RegisterError> {
        self.register_one(|unit| _ = unit.observe(point, handler))
    }

    /// Registers a transform.
    pub fn transform<P: TakesTransforms, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, P::Change, M>,
    ) -> Result<HandlerId, RegisterError> {
        self.register_one(|unit| _ = unit.transform(point, handler))
    }

    /// Registers a handler that may answer in place of the person.
    pub fn answer<P: TakesAnswers, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, P::Answer, M>,
    ) -> Result<HandlerId, RegisterError> {
        self.register_one(|unit| _ = unit.answer(point, handler))
    }

    /// Registers a hook around tool calls.
    pub fn tool_hook(&self, hook: ToolHook) -> Result<HandlerId, RegisterError> {
        self.register_one(|unit| _ = unit.tool_hook(hook))
    }

    /// Registers a tool.
    pub fn tool(&self, tool: impl Tool) -> Result<(), RegisterError> {
        self.extend(Owner::embedder(), |unit| _ = unit.tool(tool)).map(drop)
    }

    /// Removes a tool. Returns true if it was registered.
    pub fn undefine_tool(&self, name: &str) -> bool {
        self.registry_for_removal().remove_tool(name)
    }

    /// Removes a hook. Returns true if it was registered. Kernel gates stay.
    pub fn remove(&self, id: HandlerId) -> bool {
        let kernel = |meta: &Arc<HandlerMeta>| meta.owner.origin == Origin::Kernel;
        !self.generation().meta(id).is_some_and(kernel) && self.registry_for_removal().remove(id)
    }

    /// Enables or disables a hook. Returns true if the hook exists and may be switched.
    pub fn set_enabled(&self, id: HandlerId, enabled: bool) -> bool {
        self.0.live.set_enabled(id, enabled)
    }

    /// Registers a directive hook.
    pub fn define_hook<F, Fut>(
        &self,
        name: impl Into<SmolStr>,
        function: F,
    ) -> Result<(), RegisterError>
    where
        F: Fn(HookCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoHookResult> + Send + 'static,
    {
        self.define(|unit| _ = unit.define_hook(name, function))
    }

    /// Registers a skill.
    pub fn define_skill(&self, skill: Skill) -> Result<(), RegisterError> {
        self.define(|unit| _ = unit.define_skill(skill))
    }

    /// Registers a subagent. For a subagent that is an agent with its own config, use
    /// [`Agent::register_agent`].
    pub fn define_mention(&self, mention: Subagent) -> Result<(), RegisterError> {
        self.define(|unit| _ = unit.define_mention(mention))
    }

    /// Registers a subagent: another name for [`define_mention`](Self::define_mention).
    pub fn define_subagent(&self, subagent: Subagent) -> Result<(), RegisterError> {
        self.define_mention(subagent)
    }

    /// Registers a command.
    pub fn define_command(&self, command: Command) -> Result<(), RegisterError> {
        self.define(|unit| _ = unit.define_command(command))
    }

    fn define(&self, fill: impl FnOnce(&mut Registry)) -> Result<(), RegisterError> {
        self.extend(Owner::embedder(), fill).map(drop)
    }

    /// Removes the program's directive hook. Returns true if it was registered.
    pub fn undefine_hook(&self, name: &str) -> bool {
        self.registry_for_removal().remove_named(NameKind::Hook, name)
    }

    /// Removes the program's skill. Returns true if it was registered.
    pub fn undefine_skill(&self, name: &str) -> bool {
        self.registry_for_removal().remove_named(NameKind::Skill, name)
    }

    /// Removes the program's subagent. Returns true if it was registered.
    pub fn undefine_mention(&self, name: &str) -> bool {
        self.registry_for_removal().remove_named(NameKind::Subagent, name)
    }

    /// Removes the program's command. Returns true if it was registered.
    pub fn undefine_command(&self, name: &str) -> bool {
        self.registry_for_removal().remove_named(NameKind::Command, name)
    }

    /// The registry, for a removal. It also drops the agent's last view, which would keep the removed items
    /// alive.
    fn registry_for_removal(&self) -> RemovalGuard<'_> {
        RemovalGuard(&self.0)
    }

    fn register_one(&self, fill: impl FnOnce(&mut Registry)) -> Result<HandlerId, RegisterError> {
        let ids = self.extend(Owner::embedder(), fill)?;
        ids.first().copied().ok_or_else(|| RegisterError::new("nothing was registered"))
    }
}

/// The registry of an agent during a removal.
struct RemovalGuard<'a>(&'a AgentInner);

impl Deref for RemovalGuard<'_> {
    type Target = LiveRegistry;

    fn deref(&self) -> &LiveRegistry {
        &self.0.live
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        let old_view = self.0.view.write().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped outside the lock: items that only the old generation held may call the agent on drop.
        drop(old_view);
    }
}

/// Rejects the kernel as an owner: kernel gates are built in, and none can be added or replaced.
fn reject_kernel(owner: Owner) -> Result<Owner, RegisterError> {
    if owner.origin == Origin::Kernel {
        return Err(RegisterError::new(format!("cannot register as {owner}: it is built in")));
    }
    Ok(owner)
}
