//! Builds the agent of a run from settings files and flags, or a preview of it that starts nothing.

pub(crate) mod selected_agent;
pub(crate) mod extensions;
pub(crate) mod interpreters;
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
use cotter_tools::{mcp::Mcp, process::Runner};
use smol_str::SmolStr;

use crate::{
    args::{RunArgs, SetupArgs},
    error::CliError,
    models::{choice::ModelChain, credentials::redactor},
    paths,
    settings::{
        SettingsFiles,
        checks::OPTIONAL_TOOLS,
        file_report::{self, FileReport},
        pending_load::PendingLoad,
        several_owners_warning, suggest_digest_names,
    },
    setup::{
        extensions::Extensions,
        reload::{CommandLineFlags, Reloader},
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
    models: ModelChain,
    workspace: Workspace,
    runner: &Runner,
    spaces: &Spaces,
) -> Result<AgentBuilder, CliError> {
    let shell = env::var_os("SHELL").map(PathBuf::from);
    let shell = shell.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let shell = text::show_line(shell.unwrap_or("sh")).into_owned();
    let ModelChain { model, fallbacks, .. } = models;
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
    let workspace = paths::find_workspace(None)?;
    let runner = tools::runner(&MergedSettings::default())?;
    let spaces = Spaces::new(&workspace, &SetupArgs::default(), &[]);
    let agent = builder(ModelChain::without_model().0, workspace, &runner, &spaces)?.build()?;
    let all = agent.tools();
    let names = all.specs().map(|spec| spec.name.to_string());
    Ok(names.chain(OPTIONAL_TOOLS.map(str::to_owned)).collect())
}

/// Builds the agent of a folder, to show its contents. It has no model and stores nothing.
pub(crate) fn build_preview(
    workspace: Workspace,
    setup_args: &SetupArgs,
) -> Result<Agent, CliError> {
    build_preview_with_files(workspace, setup_args).map(|(agent, _)| agent)
}

/// Builds the agent of a folder, and also returns the settings in force.
pub(crate) fn build_preview_with_files(
    workspace: Workspace,
    setup_args: &SetupArgs,
) -> Result<(Agent, SettingsFiles), CliError> {
    let trust_sources = trust_sources_for(&workspace, setup_args);
    build_preview_trusting(workspace, setup_args, &trust_sources)
}

/// Builds the agent of a folder with these sources, and also returns the settings in force.
pub(crate) fn build_preview_trusting(
    workspace: Workspace,
    setup_args: &SetupArgs,
    trust_sources: &TrustSources,
) -> Result<(Agent, SettingsFiles), CliError> {
    let AgentPreview { agent, files, messages, reports } =
        preview_agent_trusting(workspace, setup_args, trust_sources)?;
    let files = files.check_plugins()?;
    messages.iter().chain(&file_report::summary_lines(&reports)).for_each(warn);
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
pub(crate) fn trust_sources_for(workspace: &Workspace, setup_args: &SetupArgs) -> TrustSources {
    if setup_args.safe_mode { TrustSources::empty() } else { trust::scan_trust(workspace) }
}

/// Builds the agent of such a run and collects all messages. Starts nothing.
pub(crate) fn preview_agent(
    workspace: Workspace,
    setup_args: &SetupArgs,
) -> Result<AgentPreview, CliError> {
    let trust_sources = trust_sources_for(&workspace, setup_args);
    preview_agent_trusting(workspace, setup_args, &trust_sources)
}

fn preview_agent_trusting(
    workspace: Workspace,
    setup_args: &SetupArgs,
    trust_sources: &TrustSources,
) -> Result<AgentPreview, CliError> {
    let spaces = Spaces::new(&workspace, setup_args, &[]);
    let files =
        SettingsFiles::load_for_preview(setup_args.settings.as_deref(), &workspace, trust_sources)?;
    let selected = SelectedAgent::named(setup_args, &workspace, trust_sources)?;
    let setup = AgentSetup {
        setup_args,
        files: &files,
        trust_sources,
        spaces: &spaces,
        selected: selected.as_ref(),
        redactor: redactor(),
    };
    let base = setup.base(workspace, &[])?;
    let servers = files.servers(&[], &base.workspace)?;
    let servers = tools::open_stored_servers(servers, &base.runner, &base.workspace)?;
    let models = ModelChain::without_model().0;
    let LoadedAgent { agent, mut messages, reports, .. } =
        setup.build(base, models, servers, |builder| builder)?;
    messages.extend(files.disabled_warnings(&agent));
    Ok(AgentPreview { agent, files, messages, reports })
}

/// The sources of an agent. A run and a preview build it here, in the same order.
struct AgentSetup<'a> {
    setup_args: &'a SetupArgs,
    files: &'a SettingsFiles,
    trust_sources: &'a TrustSources,
    spaces: &'a Spaces,
    selected: Option<&'a SelectedAgent>,
    redactor: Redactor,
}

/// What the agent stands on: the folders it may use, the runner of its processes, and the extensions besides
/// settings.
struct AgentBase {
    workspace: Workspace,
    runner: Runner,
    extensions: Extensions,
    spaces: Vec<spaces::LoadableSpace>,
}

/// An agent with everything loaded.
struct LoadedAgent {
    agent: Agent,
    hook_host: Arc<dyn HookHost>,
    messages: Vec<String>,
    reports: Vec<FileReport>,
    /// The owners that may be loaded again.
    owners: Vec<Owner>,
}

impl AgentSetup<'_> {
    /// Reads the extensions and opens the workspace for their skills.
    fn base(&self, workspace: Workspace, add_dirs: &[PathBuf]) -> Result<AgentBase, CliError> {
        let values = self.files.values();
        let workspace = access::add_access(workspace, &values.access, add_dirs)?;
        let runner = tools::runner(&values)?;
        let extensions = Extensions::load(self.files, &workspace, self.trust_sources);
        let extensions =
            if self.setup_args.safe_mode { extensions.without_project() } else { extensions };
        let spaces = self.spaces.read_named(self.trust_sources)?;
        let skills = spaces.iter().flat_map(|named| named.space.files.skill_folders());
        let workspace = extensions.readable(workspace).with_read_roots(skills.collect::<Vec<_>>());
        Ok(AgentBase { workspace, runner, extensions, spaces })
    }

    /// Builds the agent and loads everything on it: settings, extensions and spaces, then the selected agent,
    /// last the flags. The person who starts the run agrees, so no change is held.
    fn build(
        &self,
        base: AgentBase,
        models: ModelChain,
        servers: Option<Mcp>,
        configure: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Result<LoadedAgent, CliError> {
        let builder = builder(models, base.workspace, &base.runner, self.spaces)?;
        let builder = servers.into_iter().fold(builder, AgentBuilder::hook);
        let builder = self
            .selected
            .into_iter()
            .fold(builder, |builder, selected| builder.config(|config| selected.configure(config)));
        let agent = configure(builder).build()?;
        let hook_host: Arc<dyn HookHost> = Arc::new(tools::hook_runner(
            &base.runner,
            &self.files.values(),
            self.redactor.clone(),
        )?);
        self.spaces.set_hook_host(&hook_host);

        let mut pending_load = PendingLoad::first_load(&agent, hook_host.clone())?;
        self.files.load_into(&mut pending_load)?;
        base.extensions.load_into(&mut pending_load);
        spaces::load_into(base.spaces, &mut pending_load);
        let (mut messages, reports) = (pending_load.messages.clone(), pending_load.reports.clone());
        let owners = pending_load.owners.clone();
        let _ = pending_load.apply()?;
        // A run keeps the agent and flags that it began with: these owners are not loaded again.
        let mut pending_load = PendingLoad::first_load(&agent, hook_host.clone())?;
        if let Some(selected) = self.selected {
            selected.load_into(&mut pending_load, self.redactor.clone())?;
            pending_load.messages.extend(missing_tool_warnings(selected, &agent));
        }
        messages.append(&mut pending_load.messages);
        CommandLineFlags::of(self.setup_args).load_into(&mut pending_load);
        let _ = pending_load.apply()?;
        self.setup_args.without.iter().try_for_each(|name| check_without(&agent, name))?;
        Ok(LoadedAgent { agent, hook_host, messages, reports, owners })
    }
}

/// Everything that a run needs.
pub(crate) struct RunSetup {
    pub(crate) workspace: Workspace,
    pub(crate) files: SettingsFiles,
    /// The sources of the project, with their trust state.
    pub(crate) trust_sources: TrustSources,
    /// The spaces that were named, and the command that loads others.
    pub(crate) spaces: Spaces,
    pub(crate) models: ModelChain,
    /// The selected agent, if one was named.
    pub(crate) selected: Option<SelectedAgent>,
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
    FromFirstLine,
}

impl RunSetup {
    /// Builds the agent, and the reloader for files that change during the run.
    pub(crate) async fn agent(
        self,
        args: &RunArgs,
        ui: impl Ui,
    ) -> Result<(Agent, Reloader), CliError> {
        let setup = AgentSetup {
            setup_args: &args.setup_args,
            files: &self.files,
            trust_sources: &self.trust_sources,
            spaces: &self.spaces,
            selected: self.selected.as_ref(),
            redactor: self.redactor,
        };
        let base = setup.base(self.workspace, &args.add_dirs)?;
        warn_about_missing_view(base.runner.clone());
        let servers = self.files.servers(&args.mcp, &base.workspace)?;
        let servers = tools::open_servers(servers, &base.runner, &base.workspace).await?;
        let limits = self.files.values().limits;
        let max_turns = self.selected.as_ref().and_then(SelectedAgent::max_turns);
        let (providers, sessions, store_from) = (self.providers, self.sessions, self.store_from);
        let loaded = setup.build(base, self.models, servers, |builder| {
            let builder = builder.models(providers).ui(ui).limits(|set| {
                set.max_steps = args.max_turns.or_else(|| tighter(limits.max_turns, max_turns));
                set.max_budget_usd = args.max_budget_usd.or(limits.max_budget_usd);
            });
            with_store(builder, sessions, store_from)
        })?;
        let LoadedAgent { agent, hook_host, mut messages, reports, owners } = loaded;
        messages.extend(file_report::summary_lines(&reports));
        messages.iter().chain(&self.files.disabled_warnings(&agent)).for_each(warn);
        messages.extend(self.trust_sources.skipped());
        let (spaces, files) = (self.spaces, self.files);
        let reloader =
            Reloader::new(agent.clone(), hook_host, spaces, owners, messages, files, args);
        Ok((agent, reloader))
    }
}

/// Says what stays open to confined commands, if so. The start does not wait for the check.
fn warn_about_missing_view(runner: Runner) {
    std::thread::spawn(move || {
        if runner.confines()
            && let Some(why) = runner.why_no_view()
        {
            let missing = tools::describe_missing_view(&runner);
            warn(format!("view of the files: {missing} ({why})"));
        }
    });
}

fn with_store(
    builder: AgentBuilder,
    sessions: Option<Sessions>,
    store_from: StoreFrom,
) -> AgentBuilder {
    let Some(sessions) = sessions else { return builder.store(MemoryStore::new()) };
    let builder = builder.spill(sessions.spill());
    match store_from {
        StoreFrom::AtOnce => builder.store(sessions.store),
        StoreFrom::FromFirstLine => builder.store(LazyStore::new(sessions.store)),
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
