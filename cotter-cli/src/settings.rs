//! The settings that apply: the files, the owner of each, and their order of precedence.
//!
//! Each file is an owner of its own in the registry, and the policy folds their rules and modes. Only plain
//! values are merged here.

pub(crate) mod pending_load;
pub(crate) mod checks;
pub(crate) mod file_report;
pub(crate) mod edit;
pub(crate) mod claude_home;
pub(crate) mod claude_summary;

use std::{
    fs,
    path::{Path, PathBuf},
};

use cotter::{
    Agent, Origin, Owner, Registry, Workspace,
    permission::{
        mode::{Level, Mode},
        rule::{Rule, RuleKind},
    },
    registry::{DisabledHooks, generation::HookInfo},
    text,
};
use cotter_files::{
    claude::{
        ClaudeEntry,
        plugin::Plugin,
        project::{self, ClaudeUnit, ExtensionFolder},
    },
    command_hook::{
        self, HookLocation,
        entry::{CommandHook, OnFailure},
        hook_files::{HookFiles, load_hooks, load_own_hooks},
    },
    document::{Document, location::SettingsError},
    extensions::{Diagnostic, Severity},
    settings::{
        MergedSettings, Settings, SettingsOwner, SourcedText, mcp_servers::Servers,
        permissions::Permissions,
    },
    trust::{
        state,
        store::{Grants, TrustState},
    },
};

use crate::settings::{
    checks::{check_examples, unknown_tool_warnings, unmatched_rule_warnings},
    claude_home::home_folder,
};
use crate::{
    error::CliError,
    paths::{
        self,
        operator_switches::{self, OperatorSwitches, WEBHOOKS},
    },
    settings::pending_load::PendingLoad,
    trust::{
        SourceKind, SourceSettings, TrustSource, TrustSources, read_own_format, replace_copy_paths,
    },
};

/// The settings that apply, farthest first.
pub(crate) struct SettingsFiles(Vec<SettingsFile>);

/// One settings file, or one folder of hooks beside it.
struct SettingsFile {
    path: PathBuf,
    owner: Owner,
    /// The folder that the file's hooks run in.
    base: PathBuf,
    settings: Settings,
    servers: Servers,
    /// Hooks that the file declares and switches off.
    disabled_hooks: Vec<CommandHook>,
    /// For a file of another program: the extension folders that it adds, and diagnostics about parts that
    /// are not supported.
    claude_parts: Option<(Vec<ExtensionFolder>, Vec<Diagnostic>)>,
    /// The error that stops every start while this file is broken.
    load_error: Option<CliError>,
}

/// One rule of a settings file.
#[derive(Clone, Copy)]
pub(crate) struct OwnedRule<'a> {
    pub(crate) kind: RuleKind,
    /// The text of the rule, and its location in the file.
    pub(crate) rule: &'a SourcedText,
    /// The owner of the file.
    pub(crate) owner: &'a Owner,
}

/// The models that settings name, by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelNames {
    /// Models from the person's and the operator's settings.
    pub(crate) own: Vec<String>,
    /// Models from a project's settings. They may name one that the person has set up.
    pub(crate) of_project: Vec<SourcedText>,
}

impl SettingsFile {
    fn empty(path: &Path, owner: Owner, base: PathBuf) -> Self {
        SettingsFile {
            path: path.into(),
            owner,
            base,
            settings: Settings::default(),
            servers: Servers::default(),
            disabled_hooks: vec![],
            claude_parts: None,
            load_error: None,
        }
    }

    /// Converts a unit that was written for Claude Code.
    fn from_claude_unit(part: ClaudeUnit) -> Self {
        let owner = part.owner();
        let ClaudeUnit { path, settings, servers, extension_folders, diagnostics, broken, .. } =
            part;
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        let claude_parts = Some((extension_folders, diagnostics));
        SettingsFile {
            settings,
            servers,
            claude_parts,
            load_error: broken.map(CliError::from),
            ..SettingsFile::empty(&path, owner, base)
        }
    }

    /// Returns a copy of one of Cotter's own files, as it was read.
    fn copy_own(&self) -> Self {
        let (settings, servers) = (self.settings.clone(), self.servers.clone());
        let SettingsFile { path, owner, base, .. } = self;
        SettingsFile { settings, servers, ..SettingsFile::empty(path, owner.clone(), base.clone()) }
    }

    /// Creates a warning about an entry that has no effect.
    fn warning_about(&self, why: &SettingsError) -> Diagnostic {
        let line = why.location().map(|location| location.line() as usize);
        Diagnostic::new(&self.path, line, Severity::Warning, why.message())
    }

    /// Loads a file. `None` if it does not exist.
    fn load(path: &Path, source: SettingsOwner, origin: Origin) -> Result<Option<Self>, CliError> {
        let Some(document) = Document::load(path)? else { return Ok(None) };
        let owner = Owner::new(origin, path.display().to_string());
        Ok(Some(SettingsFile::read(path, &document, source, owner, folder_of(path)?)?))
    }

    fn read(
        path: &Path,
        document: &Document,
        source: SettingsOwner,
        owner: Owner,
        base: PathBuf,
    ) -> Result<Self, SettingsError> {
        let (settings, servers) = read_own_format(document, source)?;
        Ok(SettingsFile { settings, servers, ..SettingsFile::empty(path, owner, base) })
    }

    /// Reads a project's source from its trusted copy. `None` if the source is not trusted. If the source
    /// changed or is gone, its trusted rules and hooks still apply, so that no file change makes the policy
    /// looser.
    fn load_project(found: &TrustSource) -> Result<Option<Self>, CliError> {
        let Some((copy, grants)) = trusted_copy(found).filter(|_| found.has_cotter_format()) else {
            return Ok(None);
        };
        let Some(SourceSettings { path, settings, servers }) = SourceSettings::read(found, copy)?
        else {
            return Ok(None);
        };
        let owner = project_owner(&path, grants);
        let is_current = matches!(found.state, TrustState::Trusted { .. });
        let servers = if is_current { servers } else { Servers::default() };
        Ok(Some(SettingsFile {
            settings,
            servers,
            ..SettingsFile::empty(&path, owner, copy.clone())
        }))
    }

    /// Loads the person's own `hooks/*.yaml`. `None` if there are none.
    fn own_hooks(folder: &Path, project: &Path) -> Result<Option<Self>, CliError> {
        let path = folder.join("hooks");
        let read = load_own_hooks(folder);
        let is_empty = read.as_ref().is_ok_and(|read| read.files.is_empty());
        if !is_empty && paths::belongs_to_project(&path, project) {
            return Err(in_project_error(&path, "hooks", project));
        }
        let owner = Owner::new(Origin::User, path.display().to_string());
        let base = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(SettingsFile::of_hooks(path, owner, base, read?))
    }

    /// Loads the hooks of a project from the trusted copy that its settings are read from.
    fn hooks_of_project(found: &TrustSource) -> Result<Option<Self>, CliError> {
        let Some((copy, grants)) =
            trusted_copy(found).filter(|_| found.kind() == SourceKind::Cotter)
        else {
            return Ok(None);
        };
        let read = load_hooks(copy).map_err(|mut broken| {
            replace_copy_paths(&mut broken.diagnostics, copy, &found.source);
            broken
        })?;
        let path = found.source.join("hooks");
        let owner = project_owner(&path, grants);
        Ok(SettingsFile::of_hooks(path, owner, copy.clone(), read))
    }

    fn of_hooks(path: PathBuf, owner: Owner, base: PathBuf, read: HookFiles) -> Option<Self> {
        if read.files.is_empty() {
            return None;
        }
        let mut file = SettingsFile::empty(&path, owner, base);
        file.settings.hooks = read.enabled().cloned().collect();
        file.disabled_hooks = read.disabled().cloned().collect();
        Some(file)
    }
}

/// Returns the copy from which the rules and hooks of a source are read, with its grants. For a folder that
/// changed or is gone, this is the trusted copy, without grants.
fn trusted_copy(found: &TrustSource) -> Option<(&PathBuf, Grants)> {
    match &found.state {
        TrustState::Trusted { copy, grants, .. } => Some((copy, *grants)),
        TrustState::Changed { copy, .. } | TrustState::Gone { copy, .. } if found.is_folder() => {
            Some((copy, Grants::default()))
        }
        _ => None,
    }
}

/// Adds a file of a project. If two folders enable the same plugin, the plugin is used once and the
/// diagnostics of both are kept.
fn add_file(files: &mut Vec<SettingsFile>, file: SettingsFile) {
    let is_same = |other: &&mut SettingsFile| {
        other.path == file.path && other.owner.origin == file.owner.origin
    };
    let Some(existing) = files.iter_mut().find(is_same) else { return files.push(file) };
    let (folders, diagnostics) = existing.claude_parts.get_or_insert_default();
    let (new_folders, new_diagnostics) = file.claude_parts.unwrap_or_default();
    if folders.is_empty() {
        folders.extend(new_folders);
        existing.servers = std::mem::take(&mut existing.servers).or(file.servers);
    }
    for diagnostic in new_diagnostics {
        if !diagnostics.contains(&diagnostic) {
            diagnostics.push(diagnostic);
        }
    }
    existing.load_error = existing.load_error.take().or(file.load_error);
}

fn project_owner(path: &Path, grants: Grants) -> Owner {
    let owner = Owner::new(Origin::Project, path.display().to_string());
    if grants.rewrite { owner.with_rewrite() } else { owner }
}

impl SettingsFiles {
    /// Loads the operator's file, the person's files, the trusted files of the project, and the file that was
    /// named. Fails if a plugin is broken.
    pub(crate) fn load(
        named: Option<&Path>,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Result<Self, CliError> {
        SettingsFiles::load_for_preview(named, workspace, trust_sources)?.check_plugins()
    }

    /// Loads the files like [`SettingsFiles::load`], for read-only commands. A broken plugin is listed
    /// and contributes nothing.
    pub(crate) fn load_for_preview(
        named: Option<&Path>,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Result<Self, CliError> {
        let named = named.map(|path| load_named(path, workspace.project())).transpose()?;
        let files = SettingsFiles::read(named, workspace, trust_sources)?;
        match files.find_looser() {
            None => Ok(files),
            Some(message) => Err(CliError::new(message)
                .with_hint("a project may only tighten the policy; put this in your own settings")),
        }
    }

    /// Loads the files again during a run, with messages about them. If the named file is gone, its old
    /// contents still apply. If the person's settings became stricter than the project's, the person's win.
    pub(crate) fn load_again(
        &self,
        named: Option<&Path>,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Result<(Self, Vec<String>), CliError> {
        let mut messages = vec![];
        let named = match named {
            None => None,
            Some(path) => {
                load_personal(path, SettingsOwner::File, workspace.project())?.or_else(|| {
                    let shown = path.display();
                    messages.push(format!(
                        "the settings file {shown} is gone: its last contents still apply"
                    ));
                    let is_named =
                        |file: &&SettingsFile| file.settings.source == Some(SettingsOwner::File);
                    self.0.iter().find(is_named).map(SettingsFile::copy_own)
                })
            }
        };
        let files = SettingsFiles::read(named, workspace, trust_sources)?.check_plugins()?;
        messages.extend(files.find_looser().map(|message| format!("{message}; yours applies")));
        Ok((files, messages))
    }

    fn read(
        named: Option<SettingsFile>,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Result<Self, CliError> {
        let project = workspace.project();
        let mut files = vec![];
        files.extend(load_operator(Path::new(paths::OPERATOR_SETTINGS))?);
        if let Some(path) = paths::user_settings() {
            files.extend(load_personal(&path, SettingsOwner::User, project)?);
        }
        if let Some(folder) = paths::config() {
            files.extend(SettingsFile::own_hooks(&folder, project)?);
        }
        let settings = || files.iter().chain(&named).map(|file| &file.settings);
        let home = uses_claude_home(settings());
        let plugins: Vec<_> = settings().flat_map(|settings| settings.plugins.clone()).collect();
        let own = project::load_person(&plugins, home, &home_folder(workspace))?;
        // Cotter's own files come after this position, so they take precedence over files for Claude Code.
        let at = files.iter().position(|file| file.owner.origin != Origin::Operator);
        let at = at.unwrap_or(files.len());
        files.splice(at..at, own.into_iter().map(SettingsFile::from_claude_unit));
        for found in &trust_sources.0 {
            let of_project =
                project::load_project(found, &trust_sources.0, home, &home_folder(workspace))?;
            for part in of_project {
                add_file(&mut files, SettingsFile::from_claude_unit(part));
            }
            files.extend(SettingsFile::load_project(found)?);
            files.extend(SettingsFile::hooks_of_project(found)?);
        }
        files.extend(named);
        let blocks =
            |file: &SettingsFile| file.settings.claude.on_failure == Some(OnFailure::Block);
        let on_failure = files.iter().any(blocks).then_some(OnFailure::Block);
        let hooks =
            files.iter_mut().map(|file| (file.owner.origin.clone(), &mut file.settings.hooks));
        project::merge_hooks(hooks, on_failure.unwrap_or(OnFailure::Pass));
        Ok(SettingsFiles(files))
    }

    /// Fails if a plugin is broken: a gate may have been in it. A project's broken plugin is skipped if all
    /// hooks of projects are disabled.
    pub(crate) fn check_plugins(mut self) -> Result<Self, CliError> {
        for file in &mut self.0 {
            let Some(failure) = file.load_error.clone() else { continue };
            if file.owner.origin.may_loosen()
                || operator_switches::read_disabled_hooks()? != Some(DisabledHooks::All)
            {
                return Err(failure);
            }
            let why = "it has errors, so nothing of it is used";
            let diagnostic = Diagnostic::new(&file.path, None, Severity::Rejected, why);
            file.claude_parts.get_or_insert_default().1.push(diagnostic);
        }
        Ok(self)
    }

    /// Returns the plugins that cannot be used, each with its error.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (&Path, &Owner, &CliError)> {
        let broken = self.0.iter().filter_map(|file| Some((file, file.load_error.as_ref()?)));
        broken.map(|(file, failure)| (&*file.path, &file.owner, failure))
    }

    /// Returns a message if a project's file sets a looser mode or level than the files before it.
    fn find_looser(&self) -> Option<String> {
        let mut files = self.0.iter().enumerate();
        files.find_map(|(at, file)| match file.owner.origin {
            Origin::Project => looser_message(file, &self.0[..at]),
            _ => None,
        })
    }

    /// Returns the folders of skills, commands and agents that were written for other programs, each with its
    /// owner.
    pub(crate) fn extension_folders(
        &self,
        origin: Origin,
    ) -> impl Iterator<Item = (&Owner, &ExtensionFolder)> {
        let files = self.0.iter().filter(move |file| file.owner.origin == origin);
        files.flat_map(|file| {
            let folders = file.claude_parts.iter().flat_map(|(folders, _)| folders);
            folders.map(|folder| (&file.owner, folder))
        })
    }

    /// Returns the setting for files for Claude Code in the home folder: used or not. `None` if no file sets
    /// it.
    pub(crate) fn claude_home_choice(&self) -> Option<bool> {
        let settings = || self.0.iter().map(|file| &file.settings);
        let is_set = settings().any(|settings| settings.claude.home.is_some());
        is_set.then(|| uses_claude_home(settings()))
    }

    /// Returns the nearest file whose permissions match.
    pub(crate) fn find_nearest(&self, matches: impl Fn(&Permissions) -> bool) -> Option<&Path> {
        let file = self.0.iter().rev().find(|file| matches(&file.settings.permissions))?;
        Some(&file.path)
    }

    /// True if hooks written for Claude Code block when they fail.
    pub(crate) fn claude_failures_block(&self) -> bool {
        self.0.iter().any(|file| file.settings.claude.on_failure == Some(OnFailure::Block))
    }

    /// Returns the plugins in use, each with its owner.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = (&Owner, &Plugin)> {
        let folders = self.0.iter().flat_map(|file| {
            let folders = file.claude_parts.iter().flat_map(|(folders, _)| folders);
            folders.map(|folder| (&file.owner, folder))
        });
        folders.filter_map(|(owner, folder)| Some((owner, folder.plugin.as_ref()?)))
    }

    /// Returns the hooks of all files, each with its owner.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = (&Owner, &CommandHook)> {
        self.0.iter().flat_map(|file| file.settings.hooks.iter().map(|hook| (&file.owner, hook)))
    }

    /// Returns the names of all servers, each with its owner.
    pub(crate) fn owned_servers(&self) -> impl Iterator<Item = (&Owner, String)> {
        self.0.iter().flat_map(|file| {
            file.servers.iter().map(|server| (&file.owner, server.name().to_string()))
        })
    }

    /// Returns every rule with its owner, the nearest file last.
    pub(crate) fn owned_rules(&self) -> Vec<OwnedRule<'_>> {
        let mut rows = vec![];
        for SettingsFile { owner, settings, .. } in &self.0 {
            let Permissions { allow, ask, deny, .. } = &settings.permissions;
            for (kind, rules) in
                [(RuleKind::Deny, deny), (RuleKind::Ask, ask), (RuleKind::Allow, allow)]
            {
                rows.extend(rules.iter().map(|rule| OwnedRule { kind, rule, owner }));
            }
        }
        rows
    }

    /// True if a file contains this allow rule.
    pub(crate) fn allows(&self, rule: &str) -> bool {
        let mut allowed = self.0.iter().flat_map(|file| &file.settings.permissions.allow);
        allowed.any(|known| known.text == rule)
    }

    /// Returns the plain values. If several files set a value, the nearest file wins.
    pub(crate) fn values(&self) -> MergedSettings {
        Settings::merge(self.0.iter().rev().map(|file| &file.settings))
    }

    /// Returns the models that the files name, by owner.
    pub(crate) fn model_names(&self) -> ModelNames {
        let mut names = ModelNames::default();
        for SettingsFile { owner, settings, .. } in &self.0 {
            let all = settings.model.iter().chain(settings.fallback_models.iter().flatten());
            match owner.origin == Origin::Project {
                true => names.of_project.extend(all.cloned()),
                false => names.own.extend(all.map(|written| written.text.trim().to_owned())),
            }
        }
        names
    }

    /// Returns the MCP servers of all files and of the named files. If several entries have one name, the
    /// nearest wins.
    pub(crate) fn servers(
        &self,
        named: &[PathBuf],
        workspace: &Workspace,
    ) -> Result<Servers, CliError> {
        let mut servers = Servers::default();
        for path in named {
            if paths::leads_through(path, workspace.project()) {
                let message = format!("{} is inside the project", path.display());
                return Err(CliError::new(message).with_hint(
                    "servers of a repository are not started; keep your own file outside the \
                     project",
                ));
            }
            servers = servers.or(Servers::load(path)?.ok_or_else(|| {
                CliError::new(format!("file {} not found", path.display()))
                    .with_hint("`--mcp FILE` needs a file with `mcpServers`")
            })?);
        }
        // A project's server never takes the name of another server, because rules and approvals refer to the
        // name.
        let (projects, others): (Vec<_>, Vec<_>) =
            self.0.iter().rev().partition(|file| file.owner.origin == Origin::Project);
        let files = others.into_iter().chain(projects).map(|file| file.servers.clone());
        Ok(files.fold(servers, Servers::or))
    }

    /// Returns the hooks that files declare and switch off, each with its owner.
    pub(crate) fn switched_off(&self) -> impl Iterator<Item = (&Owner, &CommandHook)> {
        self.0.iter().flat_map(|file| file.disabled_hooks.iter().map(|hook| (&file.owner, hook)))
    }

    /// Returns the deny rules of all files. Invalid rules are skipped here and reported when the files are
    /// registered.
    pub(crate) fn deny_rules(&self) -> Vec<Rule> {
        let denied = self.0.iter().flat_map(|file| &file.settings.permissions.deny);
        denied.filter_map(|rule| Rule::parse(RuleKind::Deny, &rule.text).ok()).collect()
    }

    /// Adds the permissions and hooks of every file to the load.
    pub(crate) fn load_into(&self, pending_load: &mut PendingLoad<'_>) -> Result<(), CliError> {
        for file @ SettingsFile { owner, base, settings, .. } in &self.0 {
            let rules = rules(&settings.permissions)?;
            check_examples(&settings.permissions, pending_load.agent)?;
            let unknown = unmatched_rule_warnings(&settings.permissions, pending_load.agent);
            match &file.claude_parts {
                Some((_, diagnostics)) => {
                    let unknown = unknown.iter().map(|why| file.warning_about(why));
                    let own = diagnostics.iter().cloned();
                    let all = own.chain(unknown).chain(forbidden_host_hooks(file)?);
                    pending_load.add_diagnostics(&file.path, &all.collect::<Vec<_>>());
                }
                None => {
                    pending_load.messages.extend(unknown.iter().map(ToString::to_string));
                    pending_load.messages.extend(unknown_tool_hooks(file, pending_load.agent));
                }
            }
            let confined = command_hook::is_confined(owner);
            let location = HookLocation {
                folder: base.clone(),
                confined,
                host: pending_load.hook_host.clone(),
                state: file.path.parent().filter(|folder| state::has_state(folder)).map(Into::into),
            };
            pending_load.load(owner, false, |unit| {
                register_permissions(unit, rules, &settings.permissions);
                command_hook::register_all(unit, &settings.hooks, &location);
                settings.disable.iter().for_each(|name| _ = unit.switch_off(name.text.as_str()));
            });
        }
        Ok(())
    }

    /// Returns messages about names that files switch off: no hook has the name, or several owners have one.
    pub(crate) fn disabled_warnings(&self, agent: &Agent) -> Vec<String> {
        let hooks = agent.hooks();
        let disabled = self.0.iter().flat_map(|file| &file.settings.disable);
        let warnings = disabled.filter_map(|SourcedText { text, location }| {
            let message = match hooks.iter().any(|hook| hook.is_called(text)) {
                true => several_owners_warning(&hooks, text)?,
                false => {
                    let hint = suggest_digest_names(&hooks, text).map(|hint| format!("; {hint}"));
                    format!(
                        "cannot switch off hook `{text}`: no hook has this name{}",
                        hint.unwrap_or_default()
                    )
                }
            };
            Some(location.error(message).to_string())
        });
        warnings.collect()
    }
}

/// Suggests hooks whose name is `typed` plus a digest, for a person who typed the word alone.
pub(crate) fn suggest_digest_names(hooks: &[HookInfo], typed: &str) -> Option<String> {
    let typed = typed.rsplit('/').next().unwrap_or(typed);
    let is_digest_name = |name: &str| {
        let digest = name.strip_prefix(typed).and_then(|rest| rest.strip_prefix('-'));
        digest.is_some_and(|hex| hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let mut names: Vec<_> = hooks.iter().map(|hook| hook.name.as_str()).collect();
    names.retain(|name| is_digest_name(name));
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| format!("there is `{}`", names.join("`, `")))
}

/// Returns a message if a name switches off hooks of several owners. `None` if there is only one owner.
pub(crate) fn several_owners_warning(hooks: &[HookInfo], name: &str) -> Option<String> {
    let mut owners: Vec<&Owner> = vec![];
    let mut named: Vec<String> = vec![];
    for hook in hooks.iter().filter(|hook| hook.is_called(name) && !hook.enabled) {
        if !owners.contains(&&hook.owner) {
            owners.push(&hook.owner);
            named.push(format!("`{}/{}` of {}", hook.owner.origin, hook.name, hook.owner.unit));
        }
    }
    let all = named.join(", ");
    (owners.len() > 1).then(|| format!("`{name}` switches off several hooks: {all}"))
}

/// Loads the file that was named on the command line.
fn load_named(path: &Path, project: &Path) -> Result<SettingsFile, CliError> {
    load_personal(path, SettingsOwner::File, project)?.ok_or_else(|| {
        CliError::new(format!("settings file {} not found", path.display()))
            .with_hint("`--settings FILE` needs an existing file")
    })
}

/// True if files for Claude Code in the home folder are used: the nearest setting wins, except over an
/// operator's no.
fn uses_claude_home<'s>(settings: impl Iterator<Item = &'s Settings> + Clone) -> bool {
    let is_forbidden = |settings: &Settings| {
        settings.source == Some(SettingsOwner::Operator) && settings.claude.home == Some(false)
    };
    let nearest = settings.clone().filter_map(|settings| settings.claude.home).last();
    nearest.unwrap_or(false) && !settings.clone().any(is_forbidden)
}

/// Returns a message if a project's file sets a looser mode or level than the other files.
fn looser_message(file: &SettingsFile, others: &[SettingsFile]) -> Option<String> {
    let nearest = |of: fn(&Permissions) -> Option<usize>| {
        others.iter().rev().find_map(|file| of(&file.settings.permissions))
    };
    let mode = |permissions: &Permissions| permissions.mode.map(|mode| mode as usize);
    let level = |permissions: &Permissions| permissions.level.map(|level| level as usize);
    let own = &file.settings.permissions;
    let current_mode = nearest(mode).unwrap_or(Mode::default() as usize);
    let current_level = nearest(level).unwrap_or(Level::default() as usize);
    let looser = [
        ("mode", mode(own).is_some_and(|mode| mode < current_mode)),
        ("level", level(own).is_some_and(|level| level < current_level)),
    ];
    let (what, _) = looser.into_iter().find(|(_, looser)| *looser)?;
    Some(format!("{}: the {what} of the project is looser than yours", file.path.display()))
}

/// Returns the folder that the hooks of a settings file run in.
fn folder_of(path: &Path) -> Result<PathBuf, CliError> {
    let full_path = path.canonicalize();
    let full_path = full_path.map_err(|cause| {
        CliError::new(format!("cannot find {}", path.display())).with_cause(cause)
    })?;
    Ok(full_path.parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// Loads the operator's file. It applies to every user, so it must belong to root.
fn load_operator(path: &Path) -> Result<Option<SettingsFile>, CliError> {
    let Some(file) = SettingsFile::load(path, SettingsOwner::Operator, Origin::Operator)? else {
        return Ok(None);
    };
    if !belongs_to_root(path) {
        return Err(CliError::new(format!("{} does not belong to root", path.display()))
            .with_hint("it applies to every user of this machine, so only root may write it"));
    }
    Ok(Some(file))
}

fn belongs_to_root(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
}

/// Loads a file of the person. A file in the project belongs to the project, even if the person names it. If
/// the project is their home folder, only a file in the default config folder is theirs.
fn load_personal(
    path: &Path,
    source: SettingsOwner,
    project: &Path,
) -> Result<Option<SettingsFile>, CliError> {
    let is_of_project = match source {
        SettingsOwner::User => paths::belongs_to_project(path, project),
        _ => paths::leads_through(path, project),
    };
    if path.symlink_metadata().is_ok() && is_of_project {
        return Err(in_project_error(path, "settings", project));
    }
    SettingsFile::load(path, source, Origin::User)
}

/// Creates the error for a personal file inside the project.
fn in_project_error(path: &Path, what: &str, project: &Path) -> CliError {
    let shown = path.display();
    CliError::new(format!("{shown} is inside the project, so its {what} are not used"))
        .with_hint(format!("keep your own {what} outside {}", project.display()))
}

/// Parses the rules of a file. Fails with the location of the first invalid rule.
fn rules(permissions: &Permissions) -> Result<Vec<Rule>, SettingsError> {
    let Permissions { allow, ask, deny, .. } = permissions;
    let kinds = [(RuleKind::Allow, allow), (RuleKind::Ask, ask), (RuleKind::Deny, deny)];
    let texts =
        kinds.into_iter().flat_map(|(kind, texts)| texts.iter().map(move |text| (kind, text)));
    let parse = |(kind, SourcedText { text, location }): (_, &SourcedText)| {
        Rule::parse(kind, text).map_err(|error| location.error(error.to_string()))
    };
    texts.map(parse).collect()
}

/// Returns warnings about hooks for tools that do not exist: a gate with a typo protects nothing.
fn unknown_tool_hooks(file: &SettingsFile, agent: &Agent) -> Vec<String> {
    let hooks = file.settings.hooks.iter();
    let warnings = hooks.flat_map(|hook| {
        let tools = hook.spec.tools.as_deref().unwrap_or_default();
        unknown_tool_warnings(&file.path, &hook.name, tools, agent)
    });
    warnings.collect()
}

/// Returns warnings about hooks that post to a host which the operator does not allow: they always fail.
fn forbidden_host_hooks(file: &SettingsFile) -> Result<Vec<Diagnostic>, CliError> {
    let mut warnings = vec![];
    for hook in &file.settings.hooks {
        let address = ClaudeEntry::of(hook).and_then(ClaudeEntry::address);
        let Some((url, _)) = address else { continue };
        let Err(why) = OperatorSwitches::read()?.webhooks.may_ask(url) else { continue };
        let message = format!(
            "hook `{}` posts to {}, which always fails: {why}; the operator allows hosts with \
             `{WEBHOOKS}`",
            text::show_line(&hook.name),
            text::show_line(url)
        );
        warnings.push(Diagnostic::new(&file.path, None, Severity::Rejected, message));
    }
    Ok(warnings)
}

fn register_permissions(unit: &mut Registry, rules: Vec<Rule>, permissions: &Permissions) {
    rules.into_iter().for_each(|rule| _ = unit.rule(rule));
    permissions.mode.into_iter().for_each(|mode| _ = unit.mode(mode));
    permissions.level.into_iter().for_each(|level| _ = unit.level(level));
    permissions.policies.iter().for_each(|guard| _ = unit.guard(guard.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_file_not_owned_by_root_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        assert!(load_operator(&path).unwrap().is_none());
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let Err(failure) = load_operator(&path) else { panic!("it must be refused") };
        let shown = failure.render(crate::terminal::style::Style::on_stderr(
            crate::terminal::style::ColorChoice::Never,
        ));
        assert!(shown.contains("does not belong to root"), "{shown}");
    }
}
