//! Registration on a live agent: hooks, tools and names come and go while it runs.

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

/// Registration, legal at any time: it takes effect at the next step of every run.
impl Agent {
    /// Loads an extension under an owner, whole or not at all. Gives the numbers of its hooks.
    pub fn extend(
        &self,
        owner: Owner,
        extension: impl FnOnce(&mut Registry),
    ) -> Result<Vec<HandlerId>, RegisterError> {
        let mut unit = Registry::new(not_the_kernel(owner)?);
        extension(&mut unit);
        self.0.live.commit(unit)
    }

    /// Puts units in the place of what their owners had, in one step or not at all. What would make
    /// anything looser waits until a person agrees; whatever tightens acts at once, also on calls that
    /// are being decided.
    pub fn apply(&self, change: RegistryChange) -> Result<ChangeResult, RegisterError> {
        self.letting_go().apply(change)
    }

    /// Loads an owner's extension again in place of the old one. What would make anything looser is
    /// held until `agreed` is true, which is a person's to say.
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

    /// Drops everything an owner registered, in one step; whether there was anything.
    pub fn unload(&self, owner: &Owner) -> bool {
        owner.origin != Origin::Kernel && self.letting_go().unload(|other| other.is(owner))
    }

    /// Drops everything of an origin, in one step; whether there was anything.
    pub fn unload_origin(&self, origin: &Origin) -> bool {
        *origin != Origin::Kernel && self.letting_go().unload(|owner| owner.origin == *origin)
    }

    /// Registers a gate.
    pub fn on<P: TakesGates, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, P::Verdict, M>,
    ) -> Result<HandlerId, RegisterError> {
        self.one(|unit| _ = unit.on(point, handler))
    }

    /// Registers an observer.
    pub fn observe<P: Point, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, (), M>,
    ) -> Result<HandlerId, RegisterError> {
        self.one(|unit| _ = unit.observe(point, handler))
    }

    /// Registers a transform.
    pub fn transform<P: TakesTransforms, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, P::Change, M>,
    ) -> Result<HandlerId, RegisterError> {
        self.one(|unit| _ = unit.transform(point, handler))
    }

    /// Registers a handler that may answer for the person.
    pub fn answer<P: TakesAnswers, M>(
        &self,
        point: P,
        handler: impl IntoHandler<P, P::Answer, M>,
    ) -> Result<HandlerId, RegisterError> {
        self.one(|unit| _ = unit.answer(point, handler))
    }

    /// Registers a hook round tool calls.
    pub fn tool_hook(&self, hook: ToolHook) -> Result<HandlerId, RegisterError> {
        self.one(|unit| _ = unit.tool_hook(hook))
    }

    /// Registers a tool.
    pub fn tool(&self, tool: impl Tool) -> Result<(), RegisterError> {
        self.extend(Owner::embedder(), |unit| _ = unit.tool(tool)).map(drop)
    }

    /// Drops a tool; whether it was there.
    pub fn undefine_tool(&self, name: &str) -> bool {
        self.letting_go().remove_tool(name)
    }

    /// Drops a hook; whether it was there. Kernel gates stay.
    pub fn remove(&self, id: HandlerId) -> bool {
        let kernel = |meta: &Arc<HandlerMeta>| meta.owner.origin == Origin::Kernel;
        !self.generation().meta(id).is_some_and(kernel) && self.letting_go().remove(id)
    }

    /// Switches a hook off or on; whether it is there and may be.
    pub fn set_enabled(&self, id: HandlerId, enabled: bool) -> bool {
        self.0.live.set_enabled(id, enabled)
    }

    /// Registers a hook on a directive.
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

    /// Registers a subagent. One that is an agent of its own: [`Agent::register_agent`].
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

    /// Drops the program's hook on a directive; whether it was there.
    pub fn undefine_hook(&self, name: &str) -> bool {
        self.letting_go().remove_called(NameKind::Hook, name)
    }

    /// Drops the program's skill; whether it was there.
    pub fn undefine_skill(&self, name: &str) -> bool {
        self.letting_go().remove_called(NameKind::Skill, name)
    }

    /// Drops the program's subagent; whether it was there.
    pub fn undefine_mention(&self, name: &str) -> bool {
        self.letting_go().remove_called(NameKind::Subagent, name)
    }

    /// Drops the program's command; whether it was there.
    pub fn undefine_command(&self, name: &str) -> bool {
        self.letting_go().remove_called(NameKind::Command, name)
    }

    /// The registry, to take something out: what this agent showed last goes with it, and keeps nothing
    /// alive that nobody has any more.
    fn letting_go(&self) -> RemovalGuard<'_> {
        RemovalGuard(&self.0)
    }

    fn one(&self, fill: impl FnOnce(&mut Registry)) -> Result<HandlerId, RegisterError> {
        let ids = self.extend(Owner::embedder(), fill)?;
        ids.first().copied().ok_or_else(|| RegisterError::new("nothing was registered"))
    }
}

/// The registry of an agent while something is taken out of it.
struct RemovalGuard<'a>(&'a AgentInner);

impl Deref for RemovalGuard<'_> {
    type Target = LiveRegistry;

    fn deref(&self) -> &LiveRegistry {
        &self.0.live
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        let shown = self.0.face.write().unwrap_or_else(PoisonError::into_inner).take();
        // Outside the lock: what only the old generation held may look at the agent as it goes.
        drop(shown);
    }
}

/// The kernel's gates are built in: nobody adds to them or takes their place.
fn not_the_kernel(owner: Owner) -> Result<Owner, RegisterError> {
    if owner.origin == Origin::Kernel {
        return Err(RegisterError::new(format!(
            "{owner} is built in, and nobody else's to register as"
        )));
    }
    Ok(owner)
}
