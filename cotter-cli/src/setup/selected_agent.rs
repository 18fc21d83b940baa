//! The agent that `--agent` names, a profile or an agent file, and the list of profiles.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use cotter::{
    Agent, AgentConfig, Origin, Workspace,
    text::{self, redact::Redactor},
};
use cotter_files::{
    command_hook::{HookLocation, is_confined},
    document::{Document, location::SettingsError},
    extensions::{self, Diagnostic, LoadContext, Severity, agents::AgentFile},
    profile::{ActionHost, Profile, ProfileGrants},
    settings::SourcedText,
    trust::store::TrustState,
};
use cotter_models::Rehearsal;

use crate::{
    args::SetupArgs,
    error::CliError,
    models::{AgentModel, ProviderSet},
    paths::{self, operator_switches::OperatorSwitches},
    settings::{SettingsFiles, checks, pending_load::PendingLoad},
    setup,
    trust::{SourceKind, TrustSource, TrustSources, show_path},
};

/// The file name of a profile.
const FILE: &str = "agent.json";

/// The agent to run.
pub(crate) enum SelectedAgent {
    Profile(Box<LoadedProfile>),
    /// An agent file that runs as the main agent, with its origin.
    File(Box<AgentFile>, Origin),
}

/// A profile, with its paths.
pub(crate) struct LoadedProfile {
    profile: Profile,
    /// The file, under the path that its author knows.
    path: PathBuf,
    /// The folder of the file.
    folder: PathBuf,
    /// The folder in which its commands run. For a project this is the trusted copy.
    code: PathBuf,
    switches: OperatorSwitches,
}

/// A folder in which agents are searched.
struct AgentFolder<'a> {
    /// The path to show.
    folder: &'a Path,
    /// The path to read. For a project this is the trusted copy.
    read: &'a Path,
    origin: Origin,
}

impl SelectedAgent {
    /// Returns the agent that was named, if any.
    pub(crate) fn named(
        setup_args: &SetupArgs,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Result<Option<Self>, CliError> {
        let typed = setup_args.agent.as_deref();
        typed.map(|typed| SelectedAgent::find(typed, workspace, trust_sources)).transpose()
    }

    /// Finds an agent: by a name in `agents/` of a trusted project or of the person, or by a path.
    fn find(
        typed: &str,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Result<Self, CliError> {
        let switches = OperatorSwitches::read()?;
        match typed.contains('/') || typed.ends_with(".json") {
            true => by_path(Path::new(typed), workspace, trust_sources, &switches),
            false => by_name(typed, workspace, trust_sources, &switches),
        }
    }

    /// Returns the model that the agent names.
    pub(crate) fn model(&self) -> Option<AgentModel<'_>> {
        match self {
            SelectedAgent::Profile(loaded) => {
                let SourcedText { text, location } = loaded.profile.model.as_ref()?;
                Some(AgentModel { text, location: Some(location), is_named_by_person: false })
            }
            SelectedAgent::File(file, origin) => {
                let text = file.config.model.as_deref()?;
                Some(AgentModel {
                    text,
                    location: None,
                    is_named_by_person: *origin == Origin::User,
                })
            }
        }
    }

    /// Returns the maximum number of steps of a run.
    pub(crate) fn max_turns(&self) -> Option<u32> {
        match self {
            SelectedAgent::Profile(loaded) => loaded.profile.max_turns,
            SelectedAgent::File(..) => None,
        }
    }

    /// Applies the agent to a configuration.
    pub(crate) fn configure(&self, config: &mut AgentConfig) {
        match self {
            SelectedAgent::Profile(loaded) => loaded.profile.configure(config),
            SelectedAgent::File(file, _) => {
                let file = &file.config;
                config.name = file.name.clone();
                config.description = file.description.clone();
                config.system_prompt = file.system_prompt.clone();
                config.tools = file.tools.clone();
                config.skills = file.skills.clone();
                config.mode = file.mode.clone();
            }
        }
    }

    /// Adds the permissions and actions of a profile to the load. A profile may only tighten the policy.
    pub(crate) fn load_into(
        &self,
        pending_load: &mut PendingLoad<'_>,
        redactor: Redactor,
    ) -> Result<(), CliError> {
        let SelectedAgent::Profile(loaded) = self else { return Ok(()) };
        let LoadedProfile { profile, path, folder, code, switches } = &**loaded;
        profile.check_tightens(&pending_load.agent.policy())?;
        checks::check_examples(&profile.permissions, pending_load.agent)?;
        let unknown = checks::unmatched_rule_warnings(&profile.permissions, pending_load.agent);
        pending_load.messages.extend(unknown.iter().map(ToString::to_string));
        // All tools that exist, not only the tools that this agent may call.
        let known = setup::own_tools()?;
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        let warnings = checks::check_actions(profile, &known)?;
        pending_load.messages.extend(warnings.iter().map(show_with_hint));
        let owner = profile.owner(path.display().to_string());
        let commands = HookLocation {
            state: None,
            folder: code.clone(),
            confined: is_confined(&owner),
            host: pending_load.hook_host.clone(),
        };
        let posts = switches.webhooks.clone();
        let folder = folder.clone();
        let host = ActionHost { folder, commands, posts, redactor: Arc::new(redactor) };
        pending_load.load(&owner, true, |unit| profile.register(unit, &host));
        Ok(())
    }
}

/// A profile in the list of profiles.
pub(crate) struct ProfileEntry {
    /// The name to type.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The path to read. For a project this is the trusted copy.
    pub(crate) read: PathBuf,
    /// The profile, or the error if it cannot be read.
    pub(crate) profile: Result<Profile, CliError>,
}

/// Returns the profiles of the person and of trusted folders, in the order in which a name is searched.
pub(crate) fn profiles(
    workspace: &Workspace,
    trust_sources: &TrustSources,
) -> Result<Vec<ProfileEntry>, CliError> {
    let own = own_folder(workspace);
    let mut listed: Vec<ProfileEntry> = vec![];
    for AgentFolder { folder, read, .. } in agent_folders(trust_sources, own.as_deref()) {
        let entries = fs::read_dir(read.join("agents")).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        for name in names {
            let path = folder.join("agents").join(&name).join(FILE);
            let read = read.join("agents").join(&name).join(FILE);
            if !read.is_file() || listed.iter().any(|known| known.name == name) {
                continue;
            }
            let profile = document(&path, &read).and_then(|document| {
                Ok(Profile::from_document(&document, &name, ProfileGrants::for_inspection())?)
            });
            listed.push(ProfileEntry { name, path, read, profile });
        }
    }
    Ok(listed)
}

/// Returns the person's own folder, unless it belongs to the project.
fn own_folder(workspace: &Workspace) -> Option<PathBuf> {
    paths::config().filter(|folder| !paths::belongs_to_project(folder, workspace.project()))
}

/// Returns the folders of agents: the person's own first, so that no project can take its names, then the
/// nearest.
fn agent_folders<'a>(
    trust_sources: &'a TrustSources,
    own: Option<&'a Path>,
) -> Vec<AgentFolder<'a>> {
    let folders = trust_sources.0.iter().rev().filter(|found| found.kind() == SourceKind::Cotter);
    let trusted = folders.filter_map(|found| {
        let read = copy_of(found)?;
        Some(AgentFolder { folder: &found.source, read, origin: Origin::Project })
    });
    let own = own.map(|folder| AgentFolder { folder, read: folder, origin: Origin::User });
    own.into_iter().chain(trusted).collect()
}

fn copy_of(found: &TrustSource) -> Option<&Path> {
    match &found.state {
        TrustState::Trusted { copy, .. } => Some(copy),
        _ => None,
    }
}

fn by_name(
    name: &str,
    workspace: &Workspace,
    trust_sources: &TrustSources,
    switches: &OperatorSwitches,
) -> Result<SelectedAgent, CliError> {
    let own = own_folder(workspace);
    let mut names = vec![];
    for AgentFolder { folder, read, origin } in agent_folders(trust_sources, own.as_deref()) {
        let path = folder.join("agents").join(name).join(FILE);
        let found = read.join("agents").join(name).join(FILE);
        let agents = extensions::load(read, &LoadContext::trusted(origin.clone())).agents;
        let file = agents.iter().find(|agent| agent.config.name == name);
        match (found.is_file(), file) {
            (true, Some(file)) => {
                let message = format!("`{name}` is both a profile and an agent file");
                return Err(CliError::new(message)
                    .with_cause(show_path(&path))
                    .with_cause(show_path(&file.path))
                    .with_hint("name the profile by its path, or rename one of them"));
            }
            (true, None) => return profile(path, &found, switches),
            (false, Some(file)) => return Ok(SelectedAgent::File(Box::new(file.clone()), origin)),
            (false, None) => {
                names.extend(agents.into_iter().map(|agent| agent.config.name.to_string()))
            }
        }
    }
    let is_of_project = trust_sources.0.iter().any(|found| {
        let folder = found.source.join("agents");
        let file = |ending: &str| folder.join(format!("{name}.{ending}")).is_file();
        folder.join(name).join(FILE).is_file() || ["md", "yaml", "yml"].into_iter().any(file)
    });
    let typed = text::show_line(name);
    if is_of_project {
        let message = format!("the agent `{typed}` belongs to the project, and is not trusted");
        return Err(CliError::refused(message)
            .with_hint("`cotter trust` shows the files of the project, and asks"));
    }
    if Path::new(name).join(FILE).is_file() {
        return Err(folder_error(Path::new(name)));
    }
    names.extend(profiles(workspace, trust_sources)?.into_iter().map(|listed| listed.name));
    let failure = CliError::usage(format!("there is no agent `{typed}`"));
    let names = names.iter().map(String::as_str);
    Err(failure.suggest(name, names, "`cotter agents list` shows the agents"))
}

/// Creates the error for a path that is a folder.
fn folder_error(folder: &Path) -> CliError {
    let failure = CliError::usage(format!("{} is a folder, not an agent", show_path(folder)));
    match folder.join(FILE) {
        file if file.is_file() => {
            // The path needs a slash, or it would be read as a name.
            failure.with_hint(format!("did you mean `--agent {}`?", show_path(&file)))
        }
        _ => failure.with_hint(format!(
            "name an agent that `cotter agents list` shows, or a profile by its `{FILE}`"
        )),
    }
}

/// Loads a profile by its file. A file in the project belongs to the project, even if the person names it.
fn by_path(
    path: &Path,
    workspace: &Workspace,
    trust_sources: &TrustSources,
    switches: &OperatorSwitches,
) -> Result<SelectedAgent, CliError> {
    let cannot =
        |cause| CliError::usage(format!("profile {} not found", show_path(path))).with_cause(cause);
    let full_path = path.canonicalize().map_err(cannot)?;
    if full_path.is_dir() {
        return Err(folder_error(path));
    }
    if !paths::leads_through(path, workspace.project()) {
        return profile(full_path.clone(), &full_path, switches);
    }
    let message = format!("{} is inside the project", show_path(path));
    let found = trust_sources
        .0
        .iter()
        .find(|found| found.is_folder() && full_path.starts_with(&found.source));
    let Some(found) = found else {
        let hint = format!(
            "a project's profiles are `.cotter/agents/NAME/{FILE}`; keep your own outside {}",
            workspace.project().display()
        );
        return Err(CliError::refused(format!(
            "{message}, but not in a folder that can be trusted"
        ))
        .with_hint(hint));
    };
    match (copy_of(found), full_path.strip_prefix(&found.source)) {
        (Some(copy), Ok(within)) => profile(full_path.clone(), &copy.join(within), switches),
        _ => Err(CliError::refused(format!("{message}, and is not trusted"))
            .with_hint("`cotter trust` shows the files of the project, and asks")),
    }
}

/// Loads a profile from `read`, and shows it as `path`.
fn profile(
    path: PathBuf,
    read: &Path,
    switches: &OperatorSwitches,
) -> Result<SelectedAgent, CliError> {
    let document = document(&path, read)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let profile = Profile::from_document(&document, &name, switches.profile_grants())?;
    let resolve = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let code = resolve(read.parent().unwrap_or(Path::new("/")));
    // The person's own path may contain links. In a project no link is followed, because it may be newer than
    // the trust.
    let folder = if path == read { resolve(folder) } else { folder.to_owned() };
    let switches = switches.clone();
    Ok(SelectedAgent::Profile(Box::new(LoadedProfile { profile, path, folder, code, switches })))
}

/// Parses the file `read`, with `path` as its name in messages.
fn document(path: &Path, read: &Path) -> Result<Document, CliError> {
    let missing = || CliError::new(format!("profile {} not found", show_path(path)));
    if path == read {
        return Document::load(path)?.ok_or_else(missing);
    }
    let bytes = fs::read(read).map_err(|cause| missing().with_cause(cause))?;
    Ok(Document::parse_bytes(&path.display().to_string(), &bytes)?)
}

/// Renders an error and its hint on one line.
fn show_with_hint(error: &SettingsError) -> String {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{error}{hint}")
}

/// Checks profiles as a start would, for read-only commands.
pub(crate) struct ProfileChecker {
    switches: OperatorSwitches,
    /// The available models. `None` if settings cannot be read, which is reported elsewhere.
    provider_set: Option<ProviderSet>,
}

impl ProfileChecker {
    /// Creates a checker with the operator's switches and the models of the settings.
    pub(crate) fn new(
        workspace: &Workspace,
        files: Option<&SettingsFiles>,
    ) -> Result<Self, CliError> {
        let provider_set = files.and_then(|files| {
            ProviderSet::new(&files.values(), files.model_names(), workspace.project()).ok()
        });
        Ok(ProfileChecker { switches: OperatorSwitches::read()?, provider_set })
    }

    /// Returns diagnostics about a profile: errors that would stop a start, and warnings.
    pub(crate) fn check(&mut self, path: &Path, read: &Path, known: &[&str]) -> Vec<Diagnostic> {
        let of = |error: &SettingsError, severity| {
            let line = error.location().map(|location| location.line() as usize);
            let at = error
                .location()
                .map(|location| format!("{}: ", location.path()))
                .unwrap_or_default();
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            Diagnostic::new(path, line, severity, format!("{at}{}{hint}", error.message()))
        };
        let full_path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name =
            full_path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        // A file that cannot be read at all is reported by its reader.
        let Ok(document) = document(path, read) else { return vec![] };
        let profile = match Profile::from_document(&document, &name, self.switches.profile_grants())
        {
            Ok(profile) => profile,
            Err(error) => return vec![of(&error, Severity::Rejected)],
        };
        let mut diagnostics = match checks::check_actions(&profile, known) {
            Ok(warnings) => warnings.iter().map(|error| of(error, Severity::Warning)).collect(),
            Err(error) => vec![of(&error, Severity::Rejected)],
        };
        diagnostics.extend(profile.model.as_ref().and_then(|model| {
            let (why, severity) = self.check_model(model)?;
            let line = Some(model.location.line() as usize);
            Some(Diagnostic::new(path, line, severity, format!("{}: {why}", model.location.path())))
        }));
        diagnostics
    }

    /// Returns the reason why the model of a profile is not available here. An unavailable model is a
    /// warning; a text that is no model name is an error.
    fn check_model(&mut self, model: &SourcedText) -> Option<(String, Severity)> {
        let provider_set = self.provider_set.as_mut()?;
        let named = AgentModel { text: &model.text, location: None, is_named_by_person: false };
        let chosen = provider_set.choose_for(None, Some(named));
        let failure = chosen.and_then(|choice| provider_set.find_chosen(&choice)).err()?;
        let is_name = model.text.contains('/') || model.text.trim() == Rehearsal::NAME;
        if is_name {
            let why = format!("it cannot start here: {}", failure.one_line());
            return Some((why, Severity::PartlyUsed));
        }
        let shown = text::cut_chars(&text::show_line(&model.text), 60).into_owned();
        let why = format!("`{shown}` is not the name of a model: expected `provider/model`");
        Some((why, Severity::Rejected))
    }
}

/// Returns warnings about tools and skills that an agent is limited to and that do not exist: a typo leaves
/// it without them.
pub(crate) fn missing_tool_warnings(chosen: &SelectedAgent, agent: &Agent) -> Vec<String> {
    let (path, tools, skills) = match chosen {
        SelectedAgent::Profile(loaded) => {
            (&loaded.path, &loaded.profile.tools, &loaded.profile.skills)
        }
        SelectedAgent::File(file, _) => (&file.path, &file.config.tools, &file.config.skills),
    };
    let path = show_path(path);
    let all = agent.tools();
    let is_there = |name: &str| all.specs().any(|spec| spec.name == name);
    let known = agent.skills();
    let is_skill = |name: &str| known.iter().any(|skill| skill.name == name);
    let plain = tools.iter().filter(|tool| !tool.contains(['*', '?', '[', '{']));
    let tools =
        plain.filter(|tool| !is_there(tool) && !checks::OPTIONAL_TOOLS.contains(&tool.as_str()));
    let tools = tools.map(|tool| {
        format!(
            "{path}: the agent may call the tool `{}`, which does not exist",
            text::show_line(tool)
        )
    });
    let skills = skills.iter().filter(|name| !is_skill(name));
    let skills = skills.map(|name| {
        let name = text::show_line(name);
        format!("{path}: the agent may use the skill `{name}`, which does not exist")
    });
    tools.chain(skills).collect()
}
