//! The live handles: [`Agent`], [`Session`], and the context and controls of a handler. They hold and read
//! state. Methods that ask a model or run a tool are in the rooms `pipeline` and `run`.

mod builder;
mod limits;
mod register;
pub mod session;
pub(crate) mod cx;
pub mod controls;
pub mod exec;
pub(crate) mod child;
pub(crate) mod view;
mod listing;
pub(crate) mod step_cx;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use globset::GlobSet;
use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub use crate::agent::{builder::AgentBuilder, limits::Limits};
use crate::{
    agent::{
        child::{ParentRun, ParentStore},
        cx::Cx,
        session::{Session, SessionShared, state::SessionState},
        view::{AgentView, Environment},
    },
    fs::workspace::Workspace,
    history::{
        entry::{Entries, SessionHeader},
        outcome::EndReason,
        store::{Store, StoreError},
    },
    hooks::{
        points::{
            Point,
            session::{SessionEnd, SessionEndEvent, SessionOpen, SessionOpenEvent},
        },
        ui::Ui,
    },
    invoke::{
        agent_config::AgentConfig,
        named_item::{NameInfo, NameKind, NamedItem},
        skill::{Skill, SkillInfo, SkillMatch},
        subagent::MentionMode,
        trigger::Trigger,
    },
    model::{Model, ModelDirectory, ModelError},
    permission::{Policy, facts::Facts, origin::Owner, tool_glob::tool_globs},
    registry::{
        RegisterError,
        generation::{Generation, HookInfo, LiveRegistry},
        tool_set::ToolSet,
    },
    tool::cap::Cap,
};

/// An agent. Cheap to clone; every clone is the same agent.
///
/// Its registrations may change at any time; a run uses the change from its next step on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cotter::{Agent, Verdict, builtin::{List, Read}, hooks::points::{ToolPreEvent, ToolPre}};
/// use cotter_test::{ScriptedModel, Step};
///
/// let agent = Agent::builder(ScriptedModel::new([Step::text("Hello.")]))
///     .system_prompt("Be brief.")
///     .tool(List::default())
///     .build()?;
/// agent.tool(Read::default())?;
/// let gate = agent.gate(ToolPre, |_: &ToolPreEvent| Verdict::block("not now"))?;
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
    invoke_tool_names: [SmolStr; 2],
    workspace: Workspace,
    limits: Limits,
    scope: Option<GlobSet>,
    spill: Option<PathBuf>,
    /// The main session, without its agent: the agent would hold itself.
    main: OnceCell<Arc<SessionShared>>,
    /// Set once the hooks know the agents that they were built with.
    hooks_notified: OnceCell<()>,
    /// The last view of this agent.
    view: RwLock<Option<Arc<AgentView>>>,
    /// The run that this agent works for, if it is a child.
    parent: Option<ParentRun>,
}

impl Agent {
    /// Builds an agent on a model. By default it has no tools, keeps sessions in memory and asks no person.
    pub fn builder(model: impl Model) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model))
    }

    /// The session that `process_request` uses. The first call creates it.
    pub async fn main_session(&self) -> Result<Session, StoreError> {
        let create = async || Ok(self.new_session().await?.shared);
        let shared = self.0.main.get_or_try_init(create).await?.clone();
        Ok(Session { agent: self.clone(), shared })
    }

    /// Creates a session.
    pub async fn new_session(&self) -> Result<Session, StoreError> {
        self.notify_hooks_once().await.map_err(|error| StoreError::new(error.to_string()))?;
        let header = SessionHeader::new(self.0.store.new_id(), self.workspace().cwd());
        let state = SessionState::create(&*self.0.store, header)?;
        Ok(self.open_session(state, "created").await)
    }

    /// Opens an existing session. Calls and runs that a killed process left open are closed.
    pub async fn session(&self, id: &str) -> Result<Session, StoreError> {
        self.notify_hooks_once().await.map_err(|error| StoreError::new(error.to_string()))?;
        let state = SessionState::open(&*self.0.store, id)?;
        Ok(self.open_session(state, "resumed").await)
    }

    pub(crate) async fn fork_session(
        &self,
        from: &SessionHeader,
        path: &Entries,
        next_entry: u64,
    ) -> Result<Session, StoreError> {
        let mut header = SessionHeader::new(self.0.store.new_id(), &from.cwd);
        header.parent = Some(from.id.clone());
        let state = SessionState::fork(&*self.0.store, header, path, next_entry)?;
        Ok(self.open_session(state, "forked").await)
    }

    async fn open_session(&self, mut state: SessionState, how: &'static str) -> Session {
        let crashed_run = state.crashed_run.take();
        let session = Session::new(self.clone(), state);
        // The parent's run reports a child to the listeners.
        if self.parent().is_none() {
            session.shared.hub.set_opening(how);
        }
        session.step_cx(SmolStr::default()).fire::<SessionOpen>(|| SessionOpenEvent { how }).await;
        if let Some(run) = crashed_run {
            let event = || SessionEndEvent { reason: EndReason::Crashed };
            session.step_cx(run).fire::<SessionEnd>(event).await;
        }
        session
    }

    /// The store that keeps the sessions.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The agent's id: `main` unless the builder was given another.
    pub fn id(&self) -> &SmolStr {
        &self.0.id
    }

    /// The interface to the person: questions and messages go there.
    pub fn ui(&self) -> &Arc<dyn Ui> {
        &self.0.ui
    }

    /// The folders that the agent works in.
    pub fn workspace(&self) -> &Workspace {
        &self.0.workspace
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
        // Dropped outside the lock, because the drop of a model may call the agent.
        drop(old);
    }
}

/// The current registrations.
impl Agent {
    /// Every hook, in the order in which they run.
    pub fn hooks(&self) -> Vec<HookInfo> {
        self.0.live.hooks()
    }

    /// The current permission floor.
    pub fn policy(&self) -> Policy {
        self.generation().policy.clone()
    }

    /// The facts of a call, as its tool returns them; `None` if the tool does not exist or panics.
    pub fn facts(&self, tool: &str, input: &Value) -> Option<Facts> {
        let tools = self.tools();
        let entry = tools.entry(tool)?;
        let effects = || entry.tool.effects(input, self.workspace());
        catch_unwind(AssertUnwindSafe(effects)).ok()
    }

    /// The tools that this agent may call now.
    pub fn tools(&self) -> Arc<ToolSet> {
        self.view().tools.clone()
    }

    /// Everything of a kind that can be called by name, in the order of registration.
    pub fn names(&self, kind: NameKind) -> Vec<NameInfo> {
        self.generation().names.list(kind)
    }

    /// The registered commands.
    pub fn commands(&self) -> Vec<NameInfo> {
        self.names(NameKind::Command)
    }

    /// Completions of a command's arguments, given the part typed so far.
    pub fn complete_command(&self, name: &str, typed: &str) -> Vec<String> {
        let view = self.view();
        view.command(name).map_or_else(Vec::new, |(_, command)| command.complete(typed))
    }

    /// Every skill, in the order of registration, including shadowed skills.
    pub fn skills(&self) -> Vec<SkillInfo> {
        let generation = self.generation();
        let all = generation.names.all().filter_map(|(owner, item)| match item {
            NamedItem::Skill(skill) => {
                let found = generation.names.find(NameKind::Skill, &skill.name);
                let shadowed_by =
                    found.map(|(found, _)| found).filter(|found| !found.is_same_unit(owner));
                Some(SkillInfo::new(skill, owner, shadowed_by))
            }
            _ => None,
        });
        all.collect()
    }

    /// The skill of that name.
    pub fn skill(&self, name: &str) -> Option<SkillInfo> {
        match self.generation().names.find(NameKind::Skill, name)? {
            (owner, NamedItem::Skill(skill)) => Some(SkillInfo::new(skill, owner, None)),
            _ => None,
        }
    }

    /// Matches a task with every skill that has triggers and is not shadowed. No skill is activated.
    pub fn match_skills(&self, task: &str) -> Vec<SkillMatch> {
        let view = self.view();
        let matching = view.generation.triggers.matching(task);
        let skills = view.generation.names.visible().filter_map(|(owner, item)| match item {
            NamedItem::Skill(skill) if !skill.triggers.is_empty() => Some((owner, skill)),
            _ => None,
        });
        let to_match = |(owner, skill): (&Owner, &Arc<Skill>)| {
            let found = matching.iter().find(|(other, _)| Arc::ptr_eq(other, skill));
            let matched = found.into_iter().flat_map(|(_, triggers)| triggers);
            let matched: Vec<_> = matched.map(|trigger| Trigger::clone(trigger)).collect();
            let fits = skill.is_for(self.id()) && view.skill(&skill.name).is_some();
            let skill = SkillInfo::new(skill, owner, None);
            SkillMatch { fires: fits && !matched.is_empty(), skill, matched, fits }
        };
        skills.map(to_match).collect()
    }
}

/// Parts of an agent that other rooms read.
impl Agent {
    /// Returns a function that checks a point without handlers. Only a benchmark calls it.
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

    /// True if this agent, or a parent, may only read, as in plan mode.
    pub(crate) fn is_read_only(&self) -> bool {
        let parent_may_only_look =
            || self.parent().is_some_and(|parent| parent.cx.session().agent.is_read_only());
        self.config().is_read_only || parent_may_only_look()
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

    pub(crate) fn invoke_tool_names(&self) -> &[SmolStr; 2] {
        &self.0.invoke_tool_names
    }

    pub(crate) fn view_slot(&self) -> &RwLock<Option<Arc<AgentView>>> {
        &self.0.view
    }

    pub(crate) fn hooks_notified(&self) -> &OnceCell<()> {
        &self.0.hooks_notified
    }

    pub(crate) fn config(&self) -> Arc<AgentConfig> {
        self.0.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_config(&self, config: AgentConfig) {
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        let old = self.0.view.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(old);
    }

    /// A new token that aborts a run of this agent. An abort of the parent's run cancels it too.
    pub(crate) fn new_cancel(&self) -> CancellationToken {
        self.parent().map_or_else(CancellationToken::new, |parent| parent.cx.run.new_child_cancel())
    }

    /// The model of that name: first among the agent's models, then in the directory.
    pub(crate) fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let own = self.models().iter().find(|model| model.name() == name).cloned();
        own.map_or_else(|| self.directory().find(name), Ok)
    }

    /// The directory of models that can be reached by name.
    pub(crate) fn directory(&self) -> &Arc<dyn ModelDirectory> {
        &self.0.directory
    }

    /// Builds a child: an agent that works for a run of another agent.
    pub(crate) fn child(
        parent: ParentRun,
        config: AgentConfig,
        model: Option<Arc<dyn Model>>,
        limits: Limits,
    ) -> Result<Self, RegisterError> {
        tool_globs(&config.tools).map_err(|cause| RegisterError::new(format!("tools: {cause}")))?;
        let session = parent.cx.session().clone();
        let parent_agent = &session.agent.0;
        let models = match model {
            Some(model) => Arc::from([model]),
            None => session.models(),
        };
        Ok(Agent(Arc::new(AgentInner {
            id: config.name.clone(),
            live: parent_agent.live.clone(),
            models: RwLock::new(models),
            directory: parent_agent.directory.clone(),
            store: Arc::new(ParentStore(session.clone())),
            ui: parent_agent.ui.clone(),
            config: RwLock::new(Arc::new(config)),
            environment: parent_agent.environment.clone(),
            mention_mode: MentionMode::Model,
            invoke_tool_names: parent_agent.invoke_tool_names.clone(),
            workspace: parent_agent.workspace.clone(),
            limits,
            scope: None,
            spill: parent_agent.spill.clone(),
            main: OnceCell::new(),
            hooks_notified: OnceCell::new(),
            view: RwLock::default(),
            parent: Some(parent),
        })))
    }

    /// The folders of a session. They include the spill folder, so that the model can read back results
    /// that were cut.
    pub(crate) fn session_workspace(&self, session: &str) -> Workspace {
        match &self.0.spill {
            None => self.0.workspace.clone(),
            Some(folder) => {
                // Paths are compared with their links resolved.
                let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
                self.0.workspace.clone().with_read_roots([real.join(session)])
            }
        }
    }

    pub(crate) fn cap(&self, cx: &Cx) -> Cap {
        let spill = self.0.spill.as_ref().map(|folder| folder.join(cx.session_id()));
        Cap { bytes: self.0.limits.result_bytes, spill }
    }
}
