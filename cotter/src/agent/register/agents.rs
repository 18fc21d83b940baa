//! Registered agents: registration and removal.
//!
//! Hooks are notified of both. A hook prepares its state before the agent can be called, and drops it
//! before the agent's name is removed.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;

use crate::{
    agent::Agent,
    hooks::dispatch::panic_message,
    invoke::{
        agent_config::AgentConfig,
        named_item::{NameKind, NamedItem},
        subagent::{RegisteredAgent, Subagent},
    },
    permission::origin::Owner,
    registry::{
        RegisterError, Registry,
        generation::Generation,
        subsystem::{Hook, InstalledHook},
    },
};

/// The agents of this agent's registry; its model calls them as subagents.
impl Agent {
    /// Registers an agent. Hooks may change its config and prepare for it; then the agent can be called.
    pub async fn register_agent(&self, config: AgentConfig) -> Result<(), RegisterError> {
        let agent = self.clone();
        run_to_completion(async move { agent.register(config).await }).await
    }

    async fn register(&self, config: AgentConfig) -> Result<(), RegisterError> {
        self.notify_hooks_once().await?;
        let name = config.name.clone();
        // Checked before hooks are notified: a refused duplicate would otherwise drop the hooks' state of
        // the first agent.
        let Some(_arrival) = self.live().pending_agents.begin(&name) else {
            return Err(RegisterError::new(format!(
                "subagent `{name}` is already being registered"
            )));
        };
        let generation = self.generation();
        let existing = generation.names.find(NameKind::Subagent, &name);
        if existing.is_some_and(|(owner, _)| owner.is_same_unit(&Owner::embedder())) {
            return Err(RegisterError::new(format!("subagent `{name}` is already registered")));
        }
        let config = build_config(&generation.hooks, config).await?;
        notify_registered(&generation.hooks, &config).await?;
        let defined = self.define_mention(Subagent::agent(config));
        if defined.is_err() {
            notify_unregistered(&generation.hooks, &name).await;
        }
        defined
    }

    /// Removes an agent once its current runs have ended. Returns true if it was registered. A run of that
    /// agent must not await this: it would wait for itself.
    pub async fn unregister_agent(&self, name: &str) -> bool {
        let (agent, name) = (self.clone(), name.to_owned());
        run_to_completion(async move { agent.unregister(&name).await }).await
    }

    async fn unregister(&self, name: &str) -> bool {
        let generation = self.generation();
        let Some((_, NamedItem::Subagent(subagent))) =
            generation.names.find(NameKind::Subagent, name)
        else {
            return false;
        };
        let Some(registered) = subagent.registered() else { return self.undefine_mention(name) };
        if !registered.wait_and_close().await {
            return false;
        }
        notify_unregistered(&self.generation().hooks, name).await;
        self.undefine_mention(name)
    }

    /// Installs a hook. The hook is notified of every existing agent before it takes effect. If a
    /// notification or the installation fails, the hook is notified of their removal, and nothing has
    /// changed.
    pub async fn hook(&self, hook: impl Hook) -> Result<(), RegisterError> {
        let agent = self.clone();
        run_to_completion(async move { agent.install(hook).await }).await
    }

    async fn install(&self, hook: impl Hook) -> Result<(), RegisterError> {
        self.notify_hooks_once().await?;
        let mut unit = Registry::new(Owner::embedder());
        unit.hook(hook);
        let new = unit.hooks();
        let changed = notify_of_agents(&new, AgentRef::of(self)).await?;
        let before: Vec<_> = changed.iter().map(|(agent, _)| agent.config()).collect();
        for (agent, config) in &changed {
            agent.set_config(config.clone());
        }
        let Err(error) = self.live().commit(unit) else { return Ok(()) };
        for ((agent, config), before) in changed.iter().zip(before).rev() {
            agent.set_config(AgentConfig::clone(&before));
            notify_unregistered(&new, &config.name).await;
        }
        Err(error)
    }

    /// Notifies the hooks, once, of every agent that they were built with.
    pub(crate) async fn notify_hooks_once(&self) -> Result<(), RegisterError> {
        if self.parent().is_some() {
            return Ok(());
        }
        self.hooks_notified().get_or_try_init(|| self.notify_hooks_of_agents()).await.copied()
    }

    async fn notify_hooks_of_agents(&self) -> Result<(), RegisterError> {
        let generation = self.generation();
        if generation.hooks.is_empty() {
            return Ok(());
        }
        for (agent, config) in notify_of_agents(&generation.hooks, AgentRef::of(self)).await? {
            agent.set_config(config);
        }
        Ok(())
    }
}

/// Completes the work even if its caller stops waiting, so that no agent is half registered.
async fn run_to_completion<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Builds the agents' configs and notifies the hooks of each agent. Returns the agents with their configs.
/// If one fails, the hooks are notified that the earlier agents are removed.
async fn notify_of_agents<'a>(
    hooks: &[Arc<InstalledHook>],
    agents: Vec<AgentRef<'a>>,
) -> Result<Vec<(AgentRef<'a>, AgentConfig)>, RegisterError> {
    let mut notified: Vec<(AgentRef<'a>, AgentConfig)> = vec![];
    for agent in agents {
        let registration = async {
            let config = build_config(hooks, AgentConfig::clone(&agent.config())).await?;
            notify_registered(hooks, &config).await.map(|()| config)
        };
        match registration.await {
            Ok(config) => notified.push((agent, config)),
            Err(error) => {
                for (_, config) in notified.iter().rev() {
                    notify_unregistered(hooks, &config.name).await;
                }
                return Err(error);
            }
        }
    }
    Ok(notified)
}

/// An agent of a registry: the main agent or a registered one.
enum AgentRef<'a> {
    Main(&'a Agent),
    Sub(Arc<Subagent>),
}

impl<'a> AgentRef<'a> {
    fn of(agent: &'a Agent) -> Vec<Self> {
        let generation: Arc<Generation> = agent.generation();
        let subagents = generation.names.visible().filter_map(|(_, item)| match item {
            NamedItem::Subagent(subagent) => {
                subagent.registered().map(|_| AgentRef::Sub(subagent.clone()))
            }
            _ => None,
        });
        std::iter::once(AgentRef::Main(agent)).chain(subagents).collect()
    }

    fn config(&self) -> Arc<AgentConfig> {
        match self {
            AgentRef::Main(agent) => agent.config(),
            AgentRef::Sub(subagent) => {
                subagent.registered().map(RegisteredAgent::config).unwrap_or_default()
            }
        }
    }

    fn set_config(&self, config: AgentConfig) {
        match self {
            AgentRef::Main(agent) => agent.set_config(config),
            AgentRef::Sub(subagent) => {
                if let Some(registered) = subagent.registered() {
                    registered.set_config(config);
                }
            }
        }
    }
}

/// Lets hooks change a config, one after the other. The name stays.
async fn build_config(
    hooks: &[Arc<InstalledHook>],
    mut config: AgentConfig,
) -> Result<AgentConfig, RegisterError> {
    let name = config.name.clone();
    for installed in hooks {
        let build = AssertUnwindSafe(async { installed.hook.on_build_agent(config).await });
        config = build.catch_unwind().await.map_err(|panic| panic_error(installed, &*panic))?;
        config.name = name.clone();
    }
    Ok(config)
}

/// Notifies hooks of a new agent before it is registered. If a hook fails, the hooks before it are notified
/// of the removal.
async fn notify_registered(
    hooks: &[Arc<InstalledHook>],
    config: &AgentConfig,
) -> Result<(), RegisterError> {
    for (index, installed) in hooks.iter().enumerate() {
        let notification = AssertUnwindSafe(async {
            installed.hook.on_register_agent(&config.name, config).await;
        });
        if let Err(panic) = notification.catch_unwind().await {
            notify_unregistered(&hooks[..index], &config.name).await;
            return Err(panic_error(installed, &*panic));
        }
    }
    Ok(())
}

/// Notifies hooks that an agent is about to be removed, in reverse order.
async fn notify_unregistered(hooks: &[Arc<InstalledHook>], name: &str) {
    for installed in hooks.iter().rev() {
        // A hook that panics here has dropped as much as it could.
        let notification =
            AssertUnwindSafe(async { installed.hook.on_unregister_agent(name).await });
        let _ = notification.catch_unwind().await;
    }
}

fn panic_error(installed: &InstalledHook, panic: &(dyn std::any::Any + Send)) -> RegisterError {
    RegisterError::new(format!("hook `{}` panicked: {}", installed.name, panic_message(panic)))
}
