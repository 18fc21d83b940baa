//! Builds the agent of a run from settings files and flags, or a preview of it that starts nothing.

pub(crate) mod selected_agent;
pub(crate) mod extensions;
mod access;
pub(crate) mod tools;
pub(crate) mod sessions;
pub(crate) mod reload;

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use cotter::{
    Agent, AgentBuilder, Environment, Owner, Workspace, builtin,
    history::store::{MemoryStore, Store},
    hooks::ui::Ui,
    text::{self, redact::Redactor},
};
use cotter_files::{
    command_hook::HookHost,
    settings::{MergedSettings, tighter},
};
use cotter_models::Providers;
use cotter_tools::process::Runner;
use smol_str::SmolStr;

use crate::{
    args::{RunArgs, SetupArgs},
    error::CliError,
    models::{choice::ModelChain, credentials::redactor},
    paths as home,
    settings::{
        SettingsFiles, checks::OPTIONAL_TOOLS, file_report as about, file_report::FileReport,
        pending_load::PendingLoad, several_owners_warning, suggest_digest_names,
    },
    setup::{
        access as roots,
        extensions::Extensions,
        reload::{FlagUnit, Reloader},
        selected_agent::{SelectedAgent, missing_tool_warnings},
        sessions::{LazyStore, Sessions},
    },
    spaces::{self, Spaces},
    terminal::screen::warn,
    trust::{self, TrustSources},
};

/// Fails if a name in `--without` switches off no hook.
fn check_without(agent: &Agent, name: &str) -> Result<(), CliError> {
    let hooks = agent.hooks();
    if hooks.iter().any(|hook| hook.is_called(name) && !hook.enabled) {
        several_owners_warning(&hooks, name).iter().for_each(warn);
        return Ok(());
    }
    let shown = text::show_line(name);
    if hooks.iter().any(|hook| hook.name == name) {
        let message = format!("--without: cannot disable kernel gate `{shown}`");
        return Err(CliError::new(message));
    }
    let failure = CliError::new(format!("--without: no hook is named `{shown}`"));
    if let Some(hint) = suggest_digest_names(&hooks, name) {
        return Err(failure.with_hint(hint));
    }
    let names = hooks.iter().map(|hook| hook.name.as_str());
    Err(failure.suggest(name, names, "`cotter hooks list` shows the hooks"))
}

/// Starts the builder of every agent: tools, subagents, commands and workspace.
fn builder(
    answering: ModelChain,
    workspace: Workspace,
    runner: &Runner,
    spaces: &Spaces,
) -> Result<AgentBuilder, CliError> {
    let shell = env::var_os("SHELL").map(PathBuf::from);
    let shell = shell.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let shell = text::show_line(shell.unwrap_or("sh")).into_owned();
    let ModelChain { model, fallbacks, .. } = answering;
    let tools = workspace.clone();
    let builder = fallbacks
        .into_iter()
        .fold(Agent::builder(model), AgentBuilder::fallback)
        .workspace(workspace)
        .environment(Environment::new(env::consts::OS, shell, env::consts::ARCH))
        .extend(builtin::subagents)
        .extend(builtin::commands)
        .extend(builtin::skills)
        .extend(|unit| spaces.command(unit));
    tools::add_tools(builder, runner, &tools)
}

/// Returns the tools that every agent may have, without those from settings.
pub(crate) fn own_tools() -> Result<Vec<String>, CliError> {
    let workspace = home::find_workspace(None)?;
    let runner = tools::runner(&MergedSettings::default())?;
    let spaces = Spaces::new(&workspace, &SetupArgs::default(), &[]);
    let agent = builder(ModelChain::without_model().0, workspace, &runner, &spaces)?.build()?;
    let all = agent.tools();
    let names = all.specs().map(|spec| spec.name.to_string());
    Ok(names.chain(OPTIONAL_TOOLS.map(str::to_owned)).collect())
}

/// Builds the agent of a folder, to show its contents. It has no model and stores nothing.
pub(crate) fn build_preview(workspace: Workspace, shape: &SetupArgs) -> Result<Agent, CliError> {
    build_preview_with_files(workspace, shape).map(|(agent, _)| agent)
}

/// Builds the agent of a folder, and also returns the settings in force.
pub(crate) fn build_preview_with_files(
    workspace: Workspace,
    shape: &SetupArgs,
) -> Result<(Agent, SettingsFiles), CliError> {
    let AgentPreview { agent, files, messages: told, reports: about } =
        preview_agent(workspace, shape)?;
    let files = files.check_plugins()?;
    told.iter().for_each(warn);
    about::in_short(&about).iter().for_each(warn);
    Ok((agent, files))
}

/// The agent that would run in a folder, with the messages about it.
pub(crate) struct AgentPreview {
    pub(crate) agent: Agent,
    pub(crate) files: SettingsFiles,
    pub(crate) messages: Vec<String>,
    /// All diagnostics about files, of every severity.
    pub(crate) reports: Vec<FileReport>,
}

/// Returns the trust state of the project's sources for such a run. Empty in safe mode.
pub(crate) fn standings_for(workspace: &Workspace, shape: &SetupArgs) -> TrustSources {
    if shape.safe_mode { TrustSources::empty() } else { trust::scan_trust(workspace) }
}

/// Builds the agent of such a run and collects all messages. Starts nothing.
pub(crate) fn preview_agent(
    workspace: Workspace,
    shape: &SetupArgs,
) -> Result<AgentPreview, CliError> {
    let standings = standings_for(&workspace, shape);
    let spaces = Spaces::new(&workspace, shape, &[]);
    let files = SettingsFiles::load_for_preview(shape.settings.as_deref(), &workspace, &standings)?;
    let chosen = SelectedAgent::named(shape, &workspace, &standings)?;
    let values = files.values();
    let workspace = roots::add_access(workspace, &values.access, &[])?;
    let runner = tools::runner(&values)?;
    let brought = LoadedExtensions::read(&files, &workspace, &standings, &spaces, shape)?;
    let workspace = brought.readable(workspace);
    let servers = tools::seen_servers(files.servers(&[], &workspace)?, &runner, &workspace)?;
    let builder = builder(ModelChain::without_model().0, workspace, &runner, &spaces)?;
    let builder = servers.into_iter().fold(builder, AgentBuilder::hook);
    let agent = apply_selected_agent(builder, chosen.as_ref()).build()?;
    let starts: Arc<dyn HookHost> = Arc::new(tools::hooks(&runner, redactor())?);
    let loaded = load(&agent, &starts, &files, brought, (chosen.as_ref(), redactor()), shape)?;
    let LoadReport { messages: mut told, reports: about, .. } = loaded;
    told.extend(files.disabled_warnings(&agent));
    Ok(AgentPreview { agent, files, messages: told, reports: about })
}

/// The extensions of an agent besides settings: skills, commands and agents in files, and spaces.
struct LoadedExtensions {
    extensions: Extensions,
    spaces: Vec<spaces::LoadableSpace>,
}

impl LoadedExtensions {
    fn read(
        files: &SettingsFiles,
        workspace: &Workspace,
        standings: &TrustSources,
        spaces: &Spaces,
        shape: &SetupArgs,
    ) -> Result<Self, CliError> {
        let extensions = Extensions::load(files, workspace, standings);
        let extensions = if shape.safe_mode { extensions.without_project() } else { extensions };
        Ok(LoadedExtensions { extensions, spaces: spaces.read_named(standings)? })
    }

    /// Adds the folders of skills to the workspace as readable.
    fn readable(&self, workspace: Workspace) -> Workspace {
        let skills = self.spaces.iter().flat_map(|named| named.space.files.skill_folders());
        self.extensions.readable(workspace).with_read_roots(skills.collect::<Vec<_>>())
    }
}

fn apply_selected_agent(builder: AgentBuilder, chosen: Option<&SelectedAgent>) -> AgentBuilder {
    match chosen {
        Some(chosen) => builder.config(|config| chosen.configure(config)),
        None => builder,
    }
}

/// The result of a load.
struct LoadReport {
    messages: Vec<String>,
    reports: Vec<FileReport>,
    /// The owners that may be loaded again.
    owners: Vec<Owner>,
}

/// Loads everything on an agent that was just built: settings, extensions and spaces, then the selected
/// agent, last the flags. The person who starts the run agrees, so no change is held.
fn load(
    agent: &Agent,
    starts: &Arc<dyn HookHost>,
    files: &SettingsFiles,
    brought: LoadedExtensions,
    (chosen, redactor): (Option<&SelectedAgent>, Redactor),
    shape: &SetupArgs,
) -> Result<LoadReport, CliError> {
    let mut units = PendingLoad::first_load(agent, starts.clone())?;
    files.load_into(&mut units)?;
    brought.extensions.load_into(&mut units);
    spaces::load_into(brought.spaces, &mut units);
    let (mut told, about) = (units.messages.clone(), units.reports.clone());
    let owners = units.owners.clone();
    let _ = units.apply()?;
    // A run keeps the agent and flags that it began with: these owners are not loaded again.
    let mut units = PendingLoad::first_load(agent, starts.clone())?;
    if let Some(chosen) = chosen {
        chosen.load_into(&mut units, redactor)?;
        units.messages.extend(missing_tool_warnings(chosen, agent));
    }
    told.append(&mut units.messages);
    FlagUnit::of(shape).load_into(&mut units);
    let _ = units.apply()?;
    shape.without.iter().try_for_each(|name| check_without(agent, name))?;
    Ok(LoadReport { messages: told, reports: about, owners })
}

/// Everything that a run needs.
pub(crate) struct RunSetup {
    pub(crate) workspace: Workspace,
    pub(crate) files: SettingsFiles,
    /// The sources of the project, with their trust state.
    pub(crate) standings: TrustSources,
    /// The spaces that were named, and the command that loads others.
    pub(crate) spaces: Spaces,
    pub(crate) answering: ModelChain,
    /// The selected agent, if one was named.
    pub(crate) chosen: Option<SelectedAgent>,
    /// Removes secrets from the output of a run.
    pub(crate) redactor: Redactor,
    /// The providers whose models may be named during the run.
    pub(crate) providers: Providers,
    /// The stored sessions. `None` stores nothing.
    pub(crate) sessions: Option<Sessions>,
    /// The time from which a new session is stored.
    pub(crate) store_from: StoreFrom,
}

/// The time from which a new session is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFrom {
    AtOnce,
    FromFirstWord,
}

impl RunSetup {
    /// Builds the agent, and the reloader for files that change during the run.
    pub(crate) async fn agent(
        self,
        args: &RunArgs,
        ui: impl Ui,
    ) -> Result<(Agent, Reloader), CliError> {
        let values = self.files.values();
        let limits = values.limits.clone();
        let workspace = roots::add_access(self.workspace, &values.access, &args.add_dirs)?;
        let runner = tools::runner(&values)?;
        let shape = &args.shape;
        let brought =
            LoadedExtensions::read(&self.files, &workspace, &self.standings, &self.spaces, shape)?;
        let workspace = brought.readable(workspace);
        let servers =
            tools::servers(self.files.servers(&args.mcp, &workspace)?, &runner, &workspace).await?;
        let builder = builder(self.answering, workspace, &runner, &self.spaces)?;
        let builder = servers.into_iter().fold(builder, AgentBuilder::hook);
        let builder = apply_selected_agent(builder, self.chosen.as_ref());
        let most = self.chosen.as_ref().and_then(SelectedAgent::max_turns);
        let mut builder = builder.models(self.providers).ui(ui).limits(|set| {
            set.max_steps = args.max_turns.or_else(|| tighter(limits.max_turns, most));
            set.max_budget_usd = args.max_budget_usd.or(limits.max_budget_usd);
        });
        builder = match self.sessions {
            Some(sessions) => {
                let builder = builder.spill(sessions.spill());
                match self.store_from {
                    StoreFrom::AtOnce => builder.store(sessions.store),
                    StoreFrom::FromFirstWord => builder.store(LazyStore::new(sessions.store)),
                }
            }
            None => builder.store(MemoryStore::new()),
        };
        let agent = builder.build()?;
        let starts: Arc<dyn HookHost> = Arc::new(tools::hooks(&runner, self.redactor.clone())?);
        self.spaces.set_hook_host(&starts);
        let who = (self.chosen.as_ref(), self.redactor);
        let LoadReport { messages: mut told, reports: about, owners } =
            load(&agent, &starts, &self.files, brought, who, shape)?;
        told.extend(about::in_short(&about));
        told.iter().chain(&self.files.disabled_warnings(&agent)).for_each(warn);
        let told = told.into_iter().chain(self.standings.skipped()).collect();
        let spaces = self.spaces;
        let reloader = Reloader::new(agent.clone(), starts, spaces, owners, told, self.files, args);
        Ok((agent, reloader))
    }
}

/// Returns the last session that was started in this folder.
pub(crate) fn last_session(store: &dyn Store, workspace: &Workspace) -> Result<SmolStr, CliError> {
    let all = store.list()?;
    let here = all.into_iter().find(|session| session.cwd == workspace.cwd());
    here.map(|session| session.id).ok_or_else(|| {
        CliError::new(format!("no session was started in {}", workspace.cwd().display())).with_hint(
            "`cotter sessions list` shows the sessions of other folders; `--resume ID` continues \
             one",
        )
    })
}
