//! The agent: a model in a loop with tools, and everything registered round it.

pub(crate) mod child;
pub mod controls;
pub(crate) mod cx;
pub mod exec;
pub(crate) mod listing;
pub mod session;
pub(crate) mod step_cx;
pub(crate) mod view;

use std::{
    future::Future,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use globset::GlobSet;
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        child::{ParentRun, ParentStore},
        cx::Cx,
        session::{Session, SessionShared, SessionState},
        view::{AgentView, Environment},
    },
    builtin,
    fs::workspace::Workspace,
    history::{
        end_reason::EndReason,
        entry::Entries,
        header::SessionHeader,
        message::Content,
        store::{MemoryStore, Store, StoreError},
    },
    hooks::{
        handler::{HandlerId, IntoHandler},
        points::{
            Point, TakesAnswers, TakesGates, TakesTransforms,
            session::{SessionEnd, SessionEndEvent, SessionOpen, SessionOpenEvent},
        },
        ui::{Headless, Ui},
    },
    invoke::{
        agent_config::AgentConfig,
        command::Command,
        directive_hook::{HookCx, IntoHookResult},
        named_item::{NameInfo, NameKind},
        skill::Skill,
        subagent::{MentionMode, Subagent},
    },
    model::{Model, ModelDirectory, ModelError},
    permission::{
        Policy,
        facts::Facts,
        mode::{Level, Mode},
        origin::{Origin, Owner},
        rule::Rule,
        tool_glob::tool_globs,
    },
    registry::{
        RegisterError, Registry,
        change::{ChangeResult, RegistryChange},
        generation::{Generation, HookInfo, LiveRegistry},
        subsystem::Hook,
        tool_hook::ToolHook,
    },
    run::{Reply, RunError},
    tool::{Tool, ToolSet, cap::Cap},
};

/// An agent. Cheap to clone; every clone is the same agent.
///
/// What it has may change at any time; a run takes it up at its next step.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, Verdict, builtin::{List, Read}, hooks::points::{ToolPreEvent, ToolPre}};
/// use cotter_test::{Scripted, Step};
///
/// let agent = Agent::builder(Scripted::new([Step::text("Hello.")]))
///     .system_prompt("Be brief.")
///     .tool(List::default())
///     .build()?;
/// agent.tool(Read::default())?;
/// let gate = agent.on(ToolPre, |_: &ToolPreEvent| Verdict::block("not now"))?;
/// assert!(agent.set_enabled(gate, false));
/// assert_eq!(agent.process_request("Hello?").await?.text(), "Hello.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Agent(Arc<AgentInner>);

struct AgentInner {
    id: SmolStr,
    live: Arc<LiveRegistry>,
    models: RwLock<Arc<[Arc<dyn Model>]>>,
    directory: Arc<dyn ModelDirectory>,
    store: Arc<dyn Store>,
    ui: Arc<dyn Ui>,
    config: RwLock<Arc<AgentConfig>>,
    environment: Option<Environment>,
    mention_mode: MentionMode,
    /// The names of the tools for skills and for subagents.
    invoking: [SmolStr; 2],
    place: Workspace,
    limits: Limits,
    scope: Option<GlobSet>,
    spill: Option<PathBuf>,
    /// Without the agent, which would hold itself.
    main: OnceCell<Arc<SessionShared>>,
    /// Whether the hooks were told of the agents they were built with.
    told: OnceCell<()>,
    /// What it showed its model last.
    face: RwLock<Option<Arc<AgentView>>>,
    /// Whom it works for.
    parent: Option<ParentRun>,
}

/// When a run ends by itself, and how patient it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, EndReason, builtin::List};
/// use cotter_test::{Scripted, Step};
/// use serde_json::json;
///
/// let for_ever = (0..10).map(|_| Step::call("list", json!({})));
/// let agent = Agent::builder(Scripted::new(for_ever))
///     .tool(List::default())
///     .limits(|limits| limits.max_steps = Some(3))
///     .build()?;
/// let reply = agent.process_request("Go on and on.").await?;
/// assert_eq!((reply.reason, reply.steps), (EndReason::MaxTurns, 3));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The most requests of one run. An agent that works for it has as many of its own: what all of them
    /// do together is bounded by money and tokens.
    pub max_steps: Option<u32>,
    /// The most one run may cost, in dollars. A price that is not known ends the run.
    pub max_budget_usd: Option<f64>,
    /// The most tokens one run may use.
    pub max_tokens: Option<u64>,
    /// How often a request is tried again after a passing failure, per model.
    pub retries: u32,
    /// How long to wait before the first retry; doubled for each that follows.
    pub backoff: Duration,
    /// How long a person has to answer.
    pub question: Duration,
    /// The most bytes of one tool result the model gets.
    pub result_bytes: usize,
    /// The share of the model's window at which the conversation is summed up; `None` for never.
    pub compact_at: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_steps: None,
            max_budget_usd: None,
            max_tokens: None,
            retries: 3,
            backoff: Duration::from_millis(500),
            question: Duration::from_secs(30 * 60),
            result_bytes: 48 * 1024,
            compact_at: Some(0.8),
        }
    }
}

impl Agent {
    /// An agent on a model. Without more it has no tools, keeps sessions in memory and asks nobody.
    pub fn builder(model: impl Model) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model))
    }

    /// Sends a prompt to the agent's main session and waits for the reply.
    pub async fn process_request(&self, prompt: impl Into<Content>) -> Result<Reply, RunError> {
        match self.main_session().await {
            Ok(session) => session.prompt(prompt).await,
            Err(error) => Err(RunError::before_the_run(&error)),
        }
    }

    /// The session `process_request` talks to, made with its first use.
    pub async fn main_session(&self) -> Result<Session, StoreError> {
        let made = async || Ok(self.new_session().await?.shared);
        let shared = self.0.main.get_or_try_init(made).await?.clone();
        Ok(Session { agent: self.clone(), shared })
    }

    /// A new session.
    pub async fn new_session(&self) -> Result<Session, StoreError> {
        self.told().await.map_err(|error| StoreError::new(error.to_string()))?;
        let header = SessionHeader::new(self.0.store.new_id(), self.place().cwd());
        let state = SessionState::create(&*self.0.store, header)?;
        Ok(self.opened(state, "created").await)
    }

    /// An existing session. What a killed process left open in it is closed.
    pub async fn session(&self, id: &str) -> Result<Session, StoreError> {
        self.told().await.map_err(|error| StoreError::new(error.to_string()))?;
        let state = SessionState::open(&*self.0.store, id)?;
        Ok(self.opened(state, "resumed").await)
    }

    pub(crate) async fn forked(
        &self,
        from: &SessionHeader,
        path: &Entries,
        next_entry: u64,
    ) -> Result<Session, StoreError> {
        let mut header = SessionHeader::new(self.0.store.new_id(), &from.cwd);
        header.parent = Some(from.id.clone());
        let state = SessionState::fork(&*self.0.store, header, path, next_entry)?;
        Ok(self.opened(state, "forked").await)
    }

    async fn opened(&self, mut state: SessionState, how: &'static str) -> Session {
        let crashed = state.crashed.take();
        let session = Session::new(self.clone(), state);
        // Of one who works for another, that one's listeners are told by its run.
        if self.parent().is_none() {
            session.shared.hub.opened(how);
        }
        session.scene(SmolStr::default()).fire::<SessionOpen>(|| SessionOpenEvent { how }).await;
        if let Some(run) = crashed {
            let ended = || SessionEndEvent { reason: EndReason::Crashed };
            session.scene(run).fire::<SessionEnd>(ended).await;
        }
        session
    }

    /// Where sessions are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Its id: `main` unless it was given another.
    pub fn id(&self) -> &SmolStr {
        &self.0.id
    }

    /// The person it asks and tells.
    pub fn ui(&self) -> &Arc<dyn Ui> {
        &self.0.ui
    }

    /// The folders it works in.
    pub fn place(&self) -> &Workspace {
        &self.0.place
    }

    /// The model in use.
    pub fn model(&self) -> Arc<dyn Model> {
        self.models()[0].clone()
    }

    /// Uses another model from the next request on. The fallback models stay.
    pub fn set_model(&self, model: impl Model) {
        let model: Arc<dyn Model> = Arc::new(model);
        let mut models = self.0.models.write().unwrap_or_else(PoisonError::into_inner);
        let new = std::iter::once(model).chain(models.iter().skip(1).cloned()).collect();
        let old = std::mem::replace(&mut *models, new);
        drop(models);
        // Outside the lock: a model may look at the agent as it goes.
        drop(old);
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
        let kernel =
            |meta: &Arc<crate::hooks::chain::HandlerMeta>| meta.owner.origin == Origin::Kernel;
        !self.generation().meta(id).is_some_and(kernel) && self.letting_go().remove(id)
    }

    /// Switches a hook off or on; whether it is there and may be.
    pub fn set_enabled(&self, id: HandlerId, enabled: bool) -> bool {
        self.0.live.set_enabled(id, enabled)
    }

    /// Every hook, in the order in which they run.
    pub fn hooks(&self) -> Vec<HookInfo> {
        self.0.live.hooks()
    }

    /// The permission floor in force.
    pub fn policy(&self) -> Policy {
        self.generation().policy.clone()
    }

    /// What a call would touch, as its tool says; `None` where there is no such tool, or it panics.
    pub fn facts(&self, tool: &str, input: &Value) -> Option<Facts> {
        let tools = self.tools();
        let row = tools.row(tool)?;
        let effects = || row.tool.effects(input, self.place());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(effects)).ok()
    }

    /// The tools in force for this agent.
    pub fn tools(&self) -> Arc<ToolSet> {
        self.face().tools.clone()
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

    /// Everything of a kind that can be called by name, in the order of registration.
    pub fn names(&self, kind: NameKind) -> Vec<NameInfo> {
        self.generation().names.list(kind)
    }

    /// The commands there are.
    pub fn commands(&self) -> Vec<NameInfo> {
        self.names(NameKind::Command)
    }

    /// What the arguments of a command may go on with, given what was typed of them so far.
    pub fn complete_command(&self, name: &str, typed: &str) -> Vec<String> {
        let face = self.face();
        face.command(name).map_or_else(Vec::new, |(_, command)| command.complete(typed))
    }

    fn one(&self, fill: impl FnOnce(&mut Registry)) -> Result<HandlerId, RegisterError> {
        let ids = self.extend(Owner::embedder(), fill)?;
        ids.first().copied().ok_or_else(|| RegisterError::new("nothing was registered"))
    }
}

/// What the loop needs.
impl Agent {
    /// Whether a point nobody listens to has a handler: what a bench of that test calls.
    #[doc(hidden)]
    pub fn silent_point_probe(&self) -> impl Fn() -> bool + use<> {
        let generation = self.generation();
        move || std::hint::black_box(&generation).has(SessionEnd::ID)
    }

    pub(crate) fn live(&self) -> &LiveRegistry {
        &self.0.live
    }

    pub(crate) fn generation(&self) -> Arc<Generation> {
        self.0.live.current()
    }

    pub(crate) fn models(&self) -> Arc<[Arc<dyn Model>]> {
        self.0.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn scope(&self) -> Option<&GlobSet> {
        self.0.scope.as_ref()
    }

    /// Whether this agent, or one that it works for, only looks.
    pub(crate) fn only_looks(&self) -> bool {
        let above = || self.parent().is_some_and(|parent| parent.cx.session().agent.only_looks());
        self.config().looks_only || above()
    }

    pub(crate) fn parent(&self) -> Option<&ParentRun> {
        self.0.parent.as_ref()
    }

    pub(crate) fn environment(&self) -> Option<&Environment> {
        self.0.environment.as_ref()
    }

    pub(crate) fn mention_mode(&self) -> MentionMode {
        self.0.mention_mode
    }

    pub(crate) fn invoking_tools(&self) -> &[SmolStr; 2] {
        &self.0.invoking
    }

    /// The registry, to take something out: what this agent showed last goes with it, and keeps nothing
    /// alive that nobody has any more.
    fn letting_go(&self) -> RemovalGuard<'_> {
        RemovalGuard(&self.0)
    }

    pub(crate) fn face_slot(&self) -> &RwLock<Option<Arc<AgentView>>> {
        &self.0.face
    }

    pub(crate) fn tell_once(&self) -> &OnceCell<()> {
        &self.0.told
    }

    pub(crate) fn config(&self) -> Arc<AgentConfig> {
        self.0.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_config(&self, config: AgentConfig) {
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        let old = self.0.face.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(old);
    }

    /// What aborts a run of it: also an abort of the run it works for.
    pub(crate) fn new_cancel(&self) -> CancellationToken {
        self.parent().map_or_else(CancellationToken::new, |parent| parent.cx.run.cancel_below())
    }

    /// The model of that name: among those it has, then among those that can be reached.
    pub(crate) fn model_named(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let own = self.models().iter().find(|model| model.name() == name).cloned();
        own.map_or_else(|| self.directory().find(name), Ok)
    }

    /// The models that can be reached by name.
    pub(crate) fn directory(&self) -> &Arc<dyn ModelDirectory> {
        &self.0.directory
    }

    /// An agent that works for another.
    pub(crate) fn child(
        parent: ParentRun,
        config: AgentConfig,
        model: Option<Arc<dyn Model>>,
        limits: Limits,
    ) -> Result<Self, RegisterError> {
        tool_globs(&config.tools).map_err(|cause| RegisterError::new(format!("tools: {cause}")))?;
        let session = parent.cx.session().clone();
        let above = &session.agent.0;
        let models = match model {
            Some(model) => Arc::from([model]),
            None => session.models(),
        };
        Ok(Agent(Arc::new(AgentInner {
            id: config.name.clone(),
            live: above.live.clone(),
            models: RwLock::new(models),
            directory: above.directory.clone(),
            store: Arc::new(ParentStore(session.clone())),
            ui: above.ui.clone(),
            config: RwLock::new(Arc::new(config)),
            environment: above.environment.clone(),
            mention_mode: MentionMode::Model,
            invoking: above.invoking.clone(),
            place: above.place.clone(),
            limits,
            scope: None,
            spill: above.spill.clone(),
            main: OnceCell::new(),
            told: OnceCell::new(),
            face: RwLock::default(),
            parent: Some(parent),
        })))
    }

    /// The folders of a session: what was too long for the model may be read back.
    pub(crate) fn place_of(&self, session: &str) -> Workspace {
        match &self.0.spill {
            None => self.0.place.clone(),
            Some(folder) => {
                // Paths are compared with their links resolved.
                let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
                self.0.place.clone().with_read_roots([real.join(session)])
            }
        }
    }

    pub(crate) fn cap(&self, cx: &Cx) -> Cap {
        let spill = self.0.spill.as_ref().map(|folder| folder.join(cx.session_id()));
        Cap { bytes: self.0.limits.result_bytes, spill }
    }
}

/// An agent in the making. Registration errors are reported by `build`.
pub struct AgentBuilder {
    models: Vec<Arc<dyn Model>>,
    directory: Arc<dyn ModelDirectory>,
    store: Arc<dyn Store>,
    ui: Arc<dyn Ui>,
    config: AgentConfig,
    environment: Option<Environment>,
    mention_mode: MentionMode,
    prefix: SmolStr,
    place: Workspace,
    limits: Limits,
    scope: Option<Vec<String>>,
    spill: Option<PathBuf>,
    unit: Registry,
}

impl AgentBuilder {
    fn new(model: Arc<dyn Model>) -> Self {
        AgentBuilder {
            models: vec![model],
            directory: Arc::new(()),
            store: Arc::new(MemoryStore::new()),
            ui: Arc::new(Headless),
            config: AgentConfig::new("main"),
            environment: None,
            mention_mode: MentionMode::default(),
            prefix: SmolStr::default(),
            place: Workspace::nowhere(),
            limits: Limits::default(),
            scope: None,
            spill: None,
            unit: Registry::new(Owner::embedder()),
        }
    }

    /// Another id than `main`.
    pub fn id(mut self, id: impl Into<SmolStr>) -> Self {
        self.config.name = id.into();
        self
    }

    /// A model to turn to when the ones before it fail.
    pub fn fallback(mut self, model: impl Model) -> Self {
        self.models.push(Arc::new(model));
        self
    }

    /// The models that hooks, commands and subagents may name.
    pub fn models(mut self, models: impl ModelDirectory) -> Self {
        self.directory = Arc::new(models);
        self
    }

    /// Where sessions are kept.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// The person who may be asked.
    pub fn ui(mut self, ui: impl Ui) -> Self {
        self.ui = Arc::new(ui);
        self
    }

    /// What the model is told first.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.config.system_prompt = text.into();
        self
    }

    /// Changes what the agent is made of: its description, the tools, skills and subagents it may use.
    pub fn config(mut self, change: impl FnOnce(&mut AgentConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Where it runs, for its system prompt.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// What a leading `@name` in a person's text does.
    pub fn mention_mode(mut self, mode: MentionMode) -> Self {
        self.mention_mode = mode;
        self
    }

    /// Puts a prefix before the names `invoke_skill` and `invoke_subagent`.
    pub fn tool_prefix(mut self, prefix: impl Into<SmolStr>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The folders it works in. Without them there is no project: no file can be read or written.
    pub fn place(mut self, place: Workspace) -> Self {
        self.place = place;
        self
    }

    /// When a run ends by itself.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Limits the tools the agent is shown and may call to names that match.
    pub fn scope<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.scope = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// The folder for results that are too long for the model, one below it per session.
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
    pub fn on<P: TakesGates, M>(
        mut self,
        point: P,
        handler: impl IntoHandler<P, P::Verdict, M>,
    ) -> Self {
        self.unit.on(point, handler);
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

    /// Registers a handler that may answer for the person.
    pub fn answer<P: TakesAnswers, M>(
        mut self,
        point: P,
        handler: impl IntoHandler<P, P::Answer, M>,
    ) -> Self {
        self.unit.answer(point, handler);
        self
    }

    /// Registers a hook round tool calls.
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

    /// Registers a hook on a directive.
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

    /// Registers a command.
    pub fn define_command(mut self, command: Command) -> Self {
        self.unit.define_command(command);
        self
    }

    /// Installs a [`Hook`]. It is told of the agent before its first session.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.unit.hook(hook);
        self
    }

    /// Registers whatever an extension registers, as the program's own.
    pub fn extend(mut self, extension: impl FnOnce(&mut Registry)) -> Self {
        extension(&mut self.unit);
        self
    }

    /// The agent, or the first thing that could not be registered.
    pub fn build(self) -> Result<Agent, RegisterError> {
        let invoking = ["invoke_skill", "invoke_subagent"]
            .map(|name| format_smolstr!("{}{name}", self.prefix));
        let live = LiveRegistry::new(invoking.to_vec());
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
            invoking,
            place: self.place,
            limits: self.limits,
            scope: scope.map_err(|cause| RegisterError::new(format!("scope: {cause}")))?,
            spill: self.spill,
            main: OnceCell::new(),
            told: OnceCell::new(),
            face: RwLock::default(),
            parent: None,
        })))
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
