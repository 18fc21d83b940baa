//! The builder of an agent: its parts, and the program's registrations.

use std::{
    future::Future,
    path::PathBuf,
    sync::{Arc, RwLock},
};

use smol_str::{SmolStr, format_smolstr};
use tokio::sync::OnceCell;

use crate::{
    agent::{Agent, AgentInner, limits::Limits, view::Environment},
    builtin,
    fs::workspace::Workspace,
    history::store::{MemoryStore, Store},
    hooks::{
        handler::IntoHandler,
        points::{Point, TakesAnswers, TakesGates, TakesTransforms},
        ui::{Headless, Ui},
    },
    invoke::{
        agent_config::AgentConfig,
        command::Command,
        directive_hook::{HookCx, IntoHookResult},
        skill::Skill,
        subagent::{MentionMode, Subagent},
    },
    model::{Model, ModelDirectory},
    permission::{
        mode::{Level, Mode},
        origin::Owner,
        rule::Rule,
        tool_glob::tool_globs,
    },
    registry::{
        RegisterError, Registry, generation::LiveRegistry, subsystem::Hook, tool_hook::ToolHook,
    },
    tool::Tool,
};

/// A builder of an agent. `build` reports registration errors.
pub struct AgentBuilder {
    models: Vec<Arc<dyn Model>>,
    directory: Arc<dyn ModelDirectory>,
    store: Arc<dyn Store>,
    ui: Arc<dyn Ui>,
    config: AgentConfig,
    environment: Option<Environment>,
    mention_mode: MentionMode,
    prefix: SmolStr,
    workspace: Workspace,
    limits: Limits,
    scope: Option<Vec<String>>,
    spill: Option<PathBuf>,
    unit: Registry,
}

impl AgentBuilder {
    pub(super) fn new(model: Arc<dyn Model>) -> Self {
        AgentBuilder {
            models: vec![model],
            directory: Arc::new(()),
            store: Arc::new(MemoryStore::new()),
            ui: Arc::new(Headless),
            config: AgentConfig::new("main"),
            environment: None,
            mention_mode: MentionMode::default(),
            prefix: SmolStr::default(),
            workspace: Workspace::empty(),
            limits: Limits::default(),
            scope: None,
            spill: None,
            unit: Registry::new(Owner::embedder()),
        }
    }

    /// Sets another id than `main`.
    pub fn id(mut self, id: impl Into<SmolStr>) -> Self {
        self.config.name = id.into();
        self
    }

    /// Adds a model to use if the models before it fail.
    pub fn fallback(mut self, model: impl Model) -> Self {
        self.models.push(Arc::new(model));
        self
    }

    /// Sets the directory of models that hooks, commands and subagents may name.
    pub fn models(mut self, models: impl ModelDirectory) -> Self {
        self.directory = Arc::new(models);
        self
    }

    /// Sets the store that keeps the sessions.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Sets the interface to the person who may be asked.
    pub fn ui(mut self, ui: impl Ui) -> Self {
        self.ui = Arc::new(ui);
        self
    }

    /// Sets the system prompt.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.config.system_prompt = text.into();
        self
    }

    /// Changes the config of the agent: its description, and the tools, skills and subagents that it may
    /// use.
    pub fn config(mut self, change: impl FnOnce(&mut AgentConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the environment for the system prompt.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the effect of a leading `@name` in a person's text.
    pub fn mention_mode(mut self, mode: MentionMode) -> Self {
        self.mention_mode = mode;
        self
    }

    /// Puts a prefix before the names `invoke_skill` and `invoke_subagent`.
    pub fn tool_prefix(mut self, prefix: impl Into<SmolStr>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the folders that the agent works in. Without them, no file can be read or written.
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = workspace;
        self
    }

    /// Changes the limits at which a run ends by itself.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Limits the tools that the agent is shown and may call to names that match.
    pub fn scope<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.scope = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the folder for results that are too long for the model. It has one folder per session.
    pub fn spill(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill = Some(folder.into());
        self
    }

    /// Registers a tool.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.unit.tool(tool);
        self
    }

    /// Registers a gate.
    pub fn gate<P: TakesGates, M>(
        mut self,
        point: P,
        handler: impl IntoHandler<P, P::Verdict, M>,
    ) -> Self {
        self.unit.gate(point, handler);
        self
    }

    /// Registers an observer.
    pub fn observe<P: Point, M>(mut self, point: P, handler: impl IntoHandler<P, (), M>) -> Self {
        self.unit.observe(point, handler);
        self
    }

    /// Registers a transform.
    pub fn transform<P: TakesTransforms, M>(
        mut self,
        point: P,
        handler: impl IntoHandler<P, P::Change, M>,
    ) -> Self {
        self.unit.transform(point, handler);
        self
    }

    /// Registers a handler that may answer in place of the person.
    pub fn answer<P: TakesAnswers, M>(
        mut self,
        point: P,
        handler: impl IntoHandler<P, P::Answer, M>,
    ) -> Self {
        self.unit.answer(point, handler);
        self
    }

    /// Registers a hook around tool calls.
    pub fn tool_hook(mut self, hook: ToolHook) -> Self {
        self.unit.tool_hook(hook);
        self
    }

    /// Registers a rule of the permission floor.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.unit.rule(rule);
        self
    }

    /// Sets the permission mode.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.unit.mode(mode);
        self
    }

    /// Sets the permission level.
    pub fn level(mut self, level: Level) -> Self {
        self.unit.level(level);
        self
    }

    /// Registers a directive hook.
    pub fn define_hook<F, Fut>(mut self, name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(HookCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoHookResult> + Send + 'static,
    {
        self.unit.define_hook(name, function);
        self
    }

    /// Registers a skill.
    pub fn define_skill(mut self, skill: Skill) -> Self {
        self.unit.define_skill(skill);
        self
    }

    /// Registers a subagent.
    pub fn define_mention(mut self, mention: Subagent) -> Self {
        self.unit.define_mention(mention);
        self
    }

    /// Registers a subagent: another name for [`define_mention`](Self::define_mention).
    pub fn define_subagent(self, subagent: Subagent) -> Self {
        self.define_mention(subagent)
    }

    /// Registers a command.
    pub fn define_command(mut self, command: Command) -> Self {
        self.unit.define_command(command);
        self
    }

    /// Installs a [`Hook`]. The hook is notified of the agent before its first session.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.unit.hook(hook);
        self
    }

    /// Registers everything that an extension registers, owned by the program.
    pub fn extend(mut self, extension: impl FnOnce(&mut Registry)) -> Self {
        extension(&mut self.unit);
        self
    }

    /// Builds the agent, or returns the first registration error.
    pub fn build(self) -> Result<Agent, RegisterError> {
        let invoke_tool_names = ["invoke_skill", "invoke_subagent"]
            .map(|name| format_smolstr!("{}{name}", self.prefix));
        let live = LiveRegistry::new(invoke_tool_names.to_vec());
        let mut kernel = Registry::new(Owner::kernel());
        builtin::register(&mut kernel);
        live.commit(kernel)?;
        if !self.unit.items.is_empty() || self.unit.error.is_some() {
            live.commit(self.unit)?;
        }
        let scope = self.scope.map(|globs| tool_globs(&globs)).transpose();
        tool_globs(&self.config.tools)
            .map_err(|cause| RegisterError::new(format!("tools: {cause}")))?;
        Ok(Agent(Arc::new(AgentInner {
            id: self.config.name.clone(),
            live: Arc::new(live),
            models: RwLock::new(self.models.into()),
            directory: self.directory,
            store: self.store,
            ui: self.ui,
            config: RwLock::new(Arc::new(self.config)),
            environment: self.environment,
            mention_mode: self.mention_mode,
            invoke_tool_names,
            workspace: self.workspace,
            limits: self.limits,
            scope: scope.map_err(|cause| RegisterError::new(format!("scope: {cause}")))?,
            spill: self.spill,
            main: OnceCell::new(),
            hooks_notified: OnceCell::new(),
            view: RwLock::default(),
            parent: None,
        })))
    }
}
