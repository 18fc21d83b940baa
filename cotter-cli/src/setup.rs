//! From settings files and flags to an agent: who may say what, and who said it nearest.
//!
//! Each file is a unit of its own in the registry, flags are another, registered last: the policy
//! folds their rules and modes. Only plain values are merged here.

use std::{
    env,
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use cotter::{
    Agent, AgentBuilder, Environment, Origin, Owner, Place, Registry, builtin,
    command_hook::{self, Base, CommandHook, OnFailure, Starts},
    ext::HooksOff,
    files::{Diagnostic, HookFiles, Severity, load_hooks, load_own_hooks, plugin::Plugin},
    permission::{Level, Mode, Rule, RuleKind},
    redact::Redactor,
    session::{MemoryStore, Store},
    settings::{
        Document, Permissions, RuleExample, Settings, SettingsError, Source, Values, Written,
        tighter,
    },
    text,
    trust::{Grants, Standing},
    ui::Ui,
};
use cotter_models::Providers;
use cotter_tools::{mcp::Servers, process::Runner};
use smol_str::SmolStr;

use crate::{
    agents::{Chosen, about_missing},
    claude::{self, Brings},
    cli::{RunArgs, Shape},
    commands::redactor,
    extensions::{Extensions, named_as_found},
    failure::Failure,
    home,
    models::{Answering, ModelNames},
    reload::{Flags, Reloader, Units},
    roots, screen,
    sessions::{FromFirstWord, Sessions},
    spaces::{self, Spaces},
    switches, tools,
    trust::{self, Found, Standings, Where},
};

/// The folder a run works in, and its project.
pub(crate) fn place(typed: Option<&Path>) -> Result<Place, Failure> {
    let typed = typed.unwrap_or(Path::new("."));
    let cannot = |cause: std::io::Error| {
        let failure = Failure::new(format!("cannot work in {}", typed.display()));
        failure.with_cause(cause).with_hint("`--cwd DIR` names a folder that exists")
    };
    let folder = typed.canonicalize().map_err(cannot)?;
    if !folder.is_dir() {
        return Err(cannot(std::io::ErrorKind::NotADirectory.into()));
    }
    Ok(Place::new(&folder).with_project(home::project_root(&folder)))
}

/// The settings in force, farthest first.
pub(crate) struct Files(Vec<File>);

/// One settings file, or one folder of hooks beside it.
struct File {
    path: PathBuf,
    owner: Owner,
    /// The folder that its hooks run in.
    base: PathBuf,
    settings: Settings,
    servers: Servers,
    /// Hooks that it declares and switches off.
    off: Vec<CommandHook>,
    /// Of a file that was written for another program: the folders it brings, and what is not honoured.
    others: Option<(Vec<Brings>, Vec<Diagnostic>)>,
    /// Why nothing may start without it.
    broken: Option<Failure>,
}

impl File {
    fn empty(path: &Path, owner: Owner, base: PathBuf) -> Self {
        File {
            path: path.into(),
            owner,
            base,
            settings: Settings::default(),
            servers: Servers::default(),
            off: vec![],
            others: None,
            broken: None,
        }
    }

    /// What was written for another program.
    fn of_others(part: claude::Part) -> Self {
        let owner = part.owner();
        let claude::Part { path, settings, servers, brings, told, broken, .. } = part;
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        let others = Some((brings, told));
        File { settings, servers, others, broken, ..File::empty(&path, owner, base) }
    }

    /// The same once more: of a file of ours, as it was read.
    fn again(&self) -> Self {
        let (settings, servers) = (self.settings.clone(), self.servers.clone());
        let File { path, owner, base, .. } = self;
        File { settings, servers, ..File::empty(path, owner.clone(), base.clone()) }
    }

    /// Something in it that has no effect.
    fn remark(&self, why: &SettingsError) -> Diagnostic {
        let line = why.place().map(|place| place.line() as usize);
        Diagnostic::new(&self.path, line, Severity::Warning, why.message())
    }

    /// A file as it is read; `None` where there is none.
    fn load(path: &Path, source: Source, origin: Origin) -> Result<Option<Self>, Failure> {
        let Some(document) = Document::load(path)? else { return Ok(None) };
        let owner = Owner::new(origin, path.display().to_string());
        Ok(Some(File::read(path, &document, source, owner, folder_of(path)?)?))
    }

    fn read(
        path: &Path,
        document: &Document,
        source: Source,
        owner: Owner,
        base: PathBuf,
    ) -> Result<Self, SettingsError> {
        let settings = Settings::from_document(document, source)?;
        let servers = document.root().object()?.get("mcpServers").map(Servers::read);
        let servers = servers.transpose()?.unwrap_or_default();
        Ok(File { settings, servers, ..File::empty(path, owner, base) })
    }

    /// What a project brings, read from the copy of it that somebody trusts; nothing where nobody does. Of
    /// what changed since, or is gone, the rules and hooks stay as they were trusted: by a file nothing
    /// becomes looser.
    fn of_project(found: &Found) -> Result<Option<Self>, Failure> {
        let Some((copy, grants)) = kept(found).filter(|_| found.is_ours()) else {
            return Ok(None);
        };
        let name = if found.is_folder() { "settings.json" } else { ".mcp.json" };
        let path = if found.is_folder() { found.source.join(name) } else { found.source.clone() };
        let bytes = match fs::read(copy.join(name)) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => {
                let failure = Failure::new(format!("{} cannot be read", path.display()));
                return Err(failure.with_cause(cause));
            }
        };
        let document = Document::parse_bytes(&path.display().to_string(), &bytes)?;
        let owner = of_project(&path, grants);
        if found.is_folder() {
            let mut read = File::read(&path, &document, Source::Project, owner, copy.clone())?;
            if !matches!(found.standing, Standing::Trusted { .. }) {
                read.servers = Servers::default();
            }
            return Ok(Some(read));
        }
        let servers = Servers::from_document(&document)?;
        Ok(Some(File { servers, ..File::empty(&path, owner, copy.clone()) }))
    }

    /// The person's own `hooks/*.yaml`; nothing where there are none.
    fn own_hooks(folder: &Path, project: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join("hooks");
        let read = load_own_hooks(folder);
        let is_empty = read.as_ref().is_ok_and(|read| read.files.is_empty());
        if !is_empty && home::is_brought_by(&path, project) {
            return Err(brought(&path, "hooks", project));
        }
        let owner = Owner::new(Origin::User, path.display().to_string());
        let base = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(File::of_hooks(path, owner, base, read?))
    }

    /// Those of a project, of the copy that its settings are read from.
    fn hooks_of_project(found: &Found) -> Result<Option<Self>, Failure> {
        let Some((copy, grants)) = kept(found).filter(|_| found.place() == Where::Cotter) else {
            return Ok(None);
        };
        let read = load_hooks(copy).map_err(|mut broken| {
            named_as_found(&mut broken.diagnostics, copy, &found.source);
            broken
        })?;
        let path = found.source.join("hooks");
        let owner = of_project(&path, grants);
        Ok(File::of_hooks(path, owner, copy.clone(), read))
    }

    fn of_hooks(path: PathBuf, owner: Owner, base: PathBuf, read: HookFiles) -> Option<Self> {
        if read.files.is_empty() {
            return None;
        }
        let mut file = File::empty(&path, owner, base);
        file.settings.hooks = read.enabled().cloned().collect();
        file.off = read.switched_off().cloned().collect();
        Some(file)
    }
}

/// The copy of a source that its rules and hooks are read from, and what they may. Of what changed since
/// it was trusted, or is gone, those of a folder stay.
fn kept(found: &Found) -> Option<(&PathBuf, Grants)> {
    match &found.standing {
        Standing::Trusted { copy, grants, .. } => Some((copy, *grants)),
        Standing::Changed { copy, .. } | Standing::Gone { copy, .. } if found.is_folder() => {
            Some((copy, Grants::default()))
        }
        _ => None,
    }
}

fn of_project(path: &Path, grants: Grants) -> Owner {
    let owner = Owner::new(Origin::Project, path.display().to_string());
    if grants.rewrite { owner.with_rewrite() } else { owner }
}

impl Files {
    /// The operator's, the person's own, those of the project that are trusted, and the one that was
    /// named.
    pub(crate) fn load(
        named: Option<&Path>,
        place: &Place,
        standings: &Standings,
    ) -> Result<Self, Failure> {
        Files::look(named, place, standings)?.whole()
    }

    /// The same for who only looks: plugins that are broken are among them, and bring nothing.
    pub(crate) fn look(
        named: Option<&Path>,
        place: &Place,
        standings: &Standings,
    ) -> Result<Self, Failure> {
        let named = named.map(|path| named_by_hand(path, place.project())).transpose()?;
        let files = Files::read(named, place, standings)?;
        match files.looser() {
            None => Ok(files),
            Some(message) => Err(Failure::new(message)
                .with_hint("a project may only tighten: this belongs in your own settings")),
        }
    }

    /// The same while a run goes on, with what is to be said about it. Of a file that was named and is gone
    /// stays what it said. Where a person has become stricter than their project, they hold.
    pub(crate) fn load_again(
        &self,
        named: Option<&Path>,
        place: &Place,
        standings: &Standings,
    ) -> Result<(Self, Vec<String>), Failure> {
        let mut told = vec![];
        let named = match named {
            None => None,
            Some(path) => personal(path, Source::File, place.project())?.or_else(|| {
                let shown = path.display();
                told.push(format!("the settings file {shown} is gone: what it said stays"));
                let was = |file: &&File| file.settings.source == Some(Source::File);
                self.0.iter().find(was).map(File::again)
            }),
        };
        let files = Files::read(named, place, standings)?.whole()?;
        told.extend(files.looser().map(|message| format!("{message}; yours holds")));
        Ok((files, told))
    }

    fn read(named: Option<File>, place: &Place, standings: &Standings) -> Result<Self, Failure> {
        let project = place.project();
        let mut files = vec![];
        files.extend(operator(Path::new(home::OPERATOR_SETTINGS))?);
        if let Some(path) = home::user_settings() {
            files.extend(personal(&path, Source::User, project)?);
        }
        if let Some(folder) = home::config() {
            files.extend(File::own_hooks(&folder, project)?);
        }
        let said = || files.iter().chain(&named).map(|file| &file.settings);
        let home = says_home(said());
        let plugins: Vec<_> = said().flat_map(|settings| settings.plugins.clone()).collect();
        let own = claude::of_person(&plugins, home, place)?;
        // What is said for us stands nearer.
        let at = files.iter().position(|file| file.owner.origin != Origin::Operator);
        let at = at.unwrap_or(files.len());
        files.splice(at..at, own.into_iter().map(File::of_others));
        for found in &standings.0 {
            files.extend(claude::of_project(found, home, place)?.into_iter().map(File::of_others));
            files.extend(File::of_project(found)?);
            files.extend(File::hooks_of_project(found)?);
        }
        files.extend(named);
        let blocks = |file: &File| file.settings.foreign.on_failure == Some(OnFailure::Block);
        let on_failure = files.iter().any(blocks).then_some(OnFailure::Block);
        let hooks =
            files.iter_mut().map(|file| (file.owner.origin.clone(), &mut file.settings.hooks));
        claude::settle(hooks, on_failure.unwrap_or(OnFailure::Pass));
        Ok(Files(files))
    }

    /// These, where no plugin of them is broken: a gate may have been in it. Where no hooks of projects are
    /// used, none of theirs is missed.
    fn whole(mut self) -> Result<Self, Failure> {
        for file in &mut self.0 {
            let Some(failure) = file.broken.clone() else { continue };
            if file.owner.origin.may_loosen() || switches::hooks_off()? != Some(HooksOff::All) {
                return Err(failure);
            }
            let why = "it is broken, and nothing of it is used";
            let told = Diagnostic::new(&file.path, None, Severity::Rejected, why);
            file.others.get_or_insert_default().1.push(told);
        }
        Ok(self)
    }

    /// The plugins that cannot be used, and why.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (&Path, &Owner, &Failure)> {
        let broken = self.0.iter().filter_map(|file| Some((file, file.broken.as_ref()?)));
        broken.map(|(file, failure)| (&*file.path, &file.owner, failure))
    }

    /// What a project says of mode or level that is looser than what is said without it.
    fn looser(&self) -> Option<String> {
        let mut files = self.0.iter().enumerate();
        files.find_map(|(at, file)| match file.owner.origin {
            Origin::Project => looser(file, &self.0[..at]),
            _ => None,
        })
    }

    /// The folders of skills, commands and agents that were written for other programs, each with its owner.
    pub(crate) fn brings(&self, origin: Origin) -> impl Iterator<Item = (&Owner, &Brings)> {
        let files = self.0.iter().filter(move |file| file.owner.origin == origin);
        files.flat_map(|file| {
            let brings = file.others.iter().flat_map(|(brings, _)| brings);
            brings.map(|brings| (&file.owner, brings))
        })
    }

    /// What is said about files for Claude Code in the home folder: used, not used, or nothing yet.
    pub(crate) fn home(&self) -> Option<bool> {
        let said = || self.0.iter().map(|file| &file.settings);
        let is_said = said().any(|settings| settings.foreign.home.is_some());
        is_said.then(|| says_home(said()))
    }

    /// Whether hooks written for Claude Code block where they fail.
    pub(crate) fn claude_failures_block(&self) -> bool {
        let said = self.0.iter().map(|file| file.settings.foreign.on_failure);
        said.into_iter().any(|said| said == Some(OnFailure::Block))
    }

    /// The plugins that are used.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = (&Owner, &Plugin)> {
        let brings = self.0.iter().flat_map(|file| {
            let brings = file.others.iter().flat_map(|(brings, _)| brings);
            brings.map(|brings| (&file.owner, brings))
        });
        brings.filter_map(|(owner, brings)| Some((owner, brings.plugin.as_ref()?)))
    }

    /// The hooks of all files, each with its owner.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = (&Owner, &CommandHook)> {
        self.0.iter().flat_map(|file| file.settings.hooks.iter().map(|hook| (&file.owner, hook)))
    }

    /// The names of servers, each with its owner.
    pub(crate) fn owned_servers(&self) -> impl Iterator<Item = (&Owner, String)> {
        self.0.iter().flat_map(|file| {
            file.servers.iter().map(|server| (&file.owner, server.name().to_string()))
        })
    }

    /// Every rule with its owner, the nearest file last.
    pub(crate) fn owned_rules(&self) -> Vec<(RuleKind, &Written, &Owner)> {
        let mut rows = vec![];
        for File { owner, settings, .. } in &self.0 {
            let Permissions { allow, ask, deny, .. } = &settings.permissions;
            for (kind, rules) in
                [(RuleKind::Deny, deny), (RuleKind::Ask, ask), (RuleKind::Allow, allow)]
            {
                rows.extend(rules.iter().map(|rule| (kind, rule, owner)));
            }
        }
        rows
    }

    /// Whether a rule that allows something is there.
    pub(crate) fn allows(&self, rule: &str) -> bool {
        let mut allowed = self.0.iter().flat_map(|file| &file.settings.permissions.allow);
        allowed.any(|known| known.text == rule)
    }

    /// The plain values, the nearest file's where several have one.
    pub(crate) fn values(&self) -> Values {
        Settings::merge(self.0.iter().rev().map(|file| &file.settings))
    }

    /// The models that files name, by whose they are.
    pub(crate) fn model_names(&self) -> ModelNames {
        let mut names = ModelNames::default();
        for File { owner, settings, .. } in &self.0 {
            let all = settings.model.iter().chain(settings.fallback_models.iter().flatten());
            match owner.origin == Origin::Project {
                true => names.brought.extend(all.cloned()),
                false => names.own.extend(all.map(|written| written.text.trim().to_owned())),
            }
        }
        names
    }

    /// The MCP servers of all files, the nearest entry of a name, and those of a file that was named.
    pub(crate) fn servers(&self, named: &[PathBuf], place: &Place) -> Result<Servers, Failure> {
        let mut servers = Servers::default();
        for path in named {
            if home::leads_through(path, place.project()) {
                let message = format!("{} lies in the project", path.display());
                return Err(Failure::new(message).with_hint(
                    "what a repository brings is not started; keep your own elsewhere",
                ));
            }
            servers = servers.or(Servers::load(path)?.ok_or_else(|| {
                Failure::new(format!("there is no file {}", path.display()))
                    .with_hint("`--mcp FILE` names a file with `mcpServers`")
            })?);
        }
        // A project's never takes the name of another: rules and approvals go by it.
        let (projects, others): (Vec<_>, Vec<_>) =
            self.0.iter().rev().partition(|file| file.owner.origin == Origin::Project);
        let files = others.into_iter().chain(projects).map(|file| file.servers.clone());
        Ok(files.fold(servers, Servers::or))
    }

    /// Every rule with its origin, the nearest file last.
    pub(crate) fn rules(&self) -> Vec<(RuleKind, &Written, String)> {
        let rules = self.owned_rules().into_iter();
        rules.map(|(kind, rule, owner)| (kind, rule, owner.origin.to_string())).collect()
    }

    /// Hooks that files declare and switch off, each with its owner.
    pub(crate) fn switched_off(&self) -> impl Iterator<Item = (&Owner, &CommandHook)> {
        self.0.iter().flat_map(|file| file.off.iter().map(|hook| (&file.owner, hook)))
    }

    /// The rules that forbid, of all files. One that is none is told when the files are registered.
    pub(crate) fn denied(&self) -> Vec<Rule> {
        let denied = self.0.iter().flat_map(|file| &file.settings.permissions.deny);
        denied.filter_map(|rule| Rule::parse(RuleKind::Deny, &rule.text).ok()).collect()
    }

    /// Adds every file's permissions and hooks to what is loaded.
    pub(crate) fn load_into(&self, units: &mut Units<'_>) -> Result<(), Failure> {
        for file @ File { owner, base, settings, .. } in &self.0 {
            let rules = rules(&settings.permissions)?;
            check_examples(&settings.permissions, units.agent)?;
            let unknown = about_unknown_tools(&settings.permissions, units.agent);
            match &file.others {
                Some((_, told)) => {
                    units.tell_of(told);
                    units.tell_of(&unknown.iter().map(|why| file.remark(why)).collect::<Vec<_>>());
                }
                None => {
                    units.told.extend(unknown.iter().map(ToString::to_string));
                    units.told.extend(about_blind_hooks(file, units.agent));
                }
            }
            let confined = command_hook::is_confined(owner);
            let base = Base { folder: base.clone(), confined, starts: units.starts.clone() };
            units.load(owner, false, |unit| {
                fill(unit, rules, &settings.permissions);
                command_hook::register_all(unit, &settings.hooks, &base);
                settings.disable.iter().for_each(|name| _ = unit.switch_off(name.text.as_str()));
            });
        }
        Ok(())
    }

    /// What is to be said of what files switch off: names that nothing has.
    pub(crate) fn about_disabled(&self, agent: &Agent) -> Vec<String> {
        let hooks = agent.hooks();
        let disabled = self.0.iter().flat_map(|file| &file.settings.disable);
        let unknown = disabled.filter(|name| !hooks.iter().any(|hook| hook.is_called(&name.text)));
        let words = unknown.map(|Written { text, place }| {
            place.error(format!("there is no hook `{text}` to switch off")).to_string()
        });
        words.collect()
    }
}

/// The file that was named on the command line.
fn named_by_hand(path: &Path, project: &Path) -> Result<File, Failure> {
    personal(path, Source::File, project)?.ok_or_else(|| {
        Failure::new(format!("there is no settings file {}", path.display()))
            .with_hint("`--settings FILE` names a file that exists")
    })
}

/// Whether files for Claude Code in the home folder are used: the nearest word, but for an operator's no.
fn says_home<'s>(said: impl Iterator<Item = &'s Settings> + Clone) -> bool {
    let is_closed = |settings: &Settings| {
        settings.source == Some(Source::Operator) && settings.foreign.home == Some(false)
    };
    let nearest = said.clone().filter_map(|settings| settings.foreign.home).last();
    nearest.unwrap_or(false) && !said.clone().any(is_closed)
}

/// What a project's file says of mode or level that is looser than what the others say.
fn looser(file: &File, others: &[File]) -> Option<String> {
    let nearest = |of: fn(&Permissions) -> Option<usize>| {
        others.iter().rev().find_map(|file| of(&file.settings.permissions))
    };
    let mode = |permissions: &Permissions| permissions.mode.map(|mode| mode as usize);
    let level = |permissions: &Permissions| permissions.level.map(|level| level as usize);
    let ours = &file.settings.permissions;
    let mode_in_force = nearest(mode).unwrap_or(Mode::default() as usize);
    let level_in_force = nearest(level).unwrap_or(Level::default() as usize);
    let looser = [
        ("mode", mode(ours).is_some_and(|mode| mode < mode_in_force)),
        ("level", level(ours).is_some_and(|level| level < level_in_force)),
    ];
    let (what, _) = looser.into_iter().find(|(_, looser)| *looser)?;
    Some(format!("{}: the {what} of the project is looser than yours", file.path.display()))
}

/// The folder that a settings file declares hooks from.
fn folder_of(path: &Path) -> Result<PathBuf, Failure> {
    let whole = path.canonicalize();
    let whole = whole.map_err(|cause| {
        Failure::new(format!("{} cannot be found", path.display())).with_cause(cause)
    })?;
    Ok(whole.parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// The operator's file. It binds everybody, so it must be root's.
fn operator(path: &Path) -> Result<Option<File>, Failure> {
    let Some(file) = File::load(path, Source::Operator, Origin::Operator)? else { return Ok(None) };
    if !is_roots(path) {
        return Err(Failure::new(format!("{} does not belong to root", path.display()))
            .with_hint("it binds everybody on this machine: only root may write it"));
    }
    Ok(Some(file))
}

#[cfg(unix)]
fn is_roots(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|about| about.uid() == 0 && about.mode() & 0o022 == 0)
}

#[cfg(not(unix))]
fn is_roots(_: &Path) -> bool {
    true
}

/// A file of the person's. What lies in the project is the project's, whoever names it; only what is in
/// their usual place is theirs when the project is their home folder.
fn personal(path: &Path, source: Source, project: &Path) -> Result<Option<File>, Failure> {
    let is_brought = match source {
        Source::User => home::is_brought_by(path, project),
        _ => home::leads_through(path, project),
    };
    if path.symlink_metadata().is_ok() && is_brought {
        return Err(brought(path, "settings", project));
    }
    File::load(path, source, Origin::User)
}

/// What would be the person's own, were it not for where it lies.
fn brought(path: &Path, what: &str, project: &Path) -> Failure {
    let shown = path.display();
    Failure::new(format!("{shown} lies in the project, and a project's {what} are not read"))
        .with_hint(format!("keep your own {what} outside {}", project.display()))
}

/// The rules of a file, or the place of the first that is none.
fn rules(permissions: &Permissions) -> Result<Vec<Rule>, SettingsError> {
    let Permissions { allow, ask, deny, .. } = permissions;
    let kinds = [(RuleKind::Allow, allow), (RuleKind::Ask, ask), (RuleKind::Deny, deny)];
    let texts =
        kinds.into_iter().flat_map(|(kind, texts)| texts.iter().map(move |text| (kind, text)));
    let parse = |(kind, Written { text, place }): (_, &Written)| {
        Rule::parse(kind, text).map_err(|error| place.error(error.to_string()))
    };
    texts.map(parse).collect()
}

/// What a person says on the command line must name something.
fn check_without(agent: &Agent, name: &str) -> Result<(), Failure> {
    let hooks = agent.hooks();
    if hooks.iter().any(|hook| hook.is_called(name) && !hook.enabled) {
        return Ok(());
    }
    let shown = text::show_line(name);
    if hooks.iter().any(|hook| hook.name == name) {
        let message = format!("hook `{shown}` is the kernel's, and nothing switches it off");
        return Err(Failure::new(message));
    }
    let failure = Failure::new(format!("there is no hook `{shown}` to leave out"));
    Err(match text::nearest(name, hooks.iter().map(|hook| hook.name.as_str())) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None => failure.with_hint("`cotter hooks list` shows those there are"),
    })
}

/// Tools that are there only with something else: with skills, with subagents, with a home folder.
pub(crate) const SOMETIMES: [&str; 5] =
    ["invoke_skill", "invoke_subagent", "remember", "recall", "forget"];

/// The rules that can never match: a deny with a typo is no protection.
pub(crate) fn about_unknown_tools(permissions: &Permissions, agent: &Agent) -> Vec<SettingsError> {
    let Permissions { allow, ask, deny, .. } = permissions;
    let kinds = [(RuleKind::Allow, allow), (RuleKind::Ask, ask), (RuleKind::Deny, deny)];
    let tools = agent.tools();
    let mut known: Vec<&str> = tools.specs().map(|spec| spec.name.as_str()).collect();
    known.extend(SOMETIMES);
    let mut told = vec![];
    for (kind, written) in kinds.into_iter().flat_map(|(k, all)| all.iter().map(move |w| (k, w))) {
        let Ok(rule) = Rule::parse(kind, &written.text) else { continue };
        let tool = rule.tool();
        let may_be = tool.contains(['*', '?', '[', '{']) || tool.starts_with("mcp__");
        if may_be || known.contains(&tool) {
            continue;
        }
        let others = text::nearest(tool, Rule::other_names());
        let near = text::nearest(tool, known.iter().copied()).or(others);
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let rule = format!("{} {}", kind.as_str(), written.text);
        let words = format!("there is no tool `{tool}`, so the rule `{rule}` never holds{near}");
        told.push(written.place.error(words));
    }
    told
}

/// The hooks for tools which are not there: a gate with a typo is no protection.
fn about_blind_hooks(file: &File, agent: &Agent) -> Vec<String> {
    let hooks = file.settings.hooks.iter();
    let told = hooks.flat_map(|hook| {
        let tools = hook.declared.tools.as_deref().unwrap_or_default();
        about_blind(&file.path, &hook.name, tools, agent)
    });
    told.collect()
}

/// The same of one hook, by its tools.
pub(crate) fn about_blind(path: &Path, name: &str, tools: &[String], agent: &Agent) -> Vec<String> {
    let all = agent.tools();
    let mut known: Vec<&str> = all.specs().map(|spec| spec.name.as_str()).collect();
    known.extend(SOMETIMES);
    let mut told = vec![];
    for tool in tools {
        let may_be = tool.contains(['*', '?', '[', '{']) || tool.starts_with("mcp__");
        if may_be || known.contains(&tool.as_str()) {
            continue;
        }
        let near = text::nearest(tool, known.iter().copied());
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let shown = path.display();
        told.push(format!(
            "{shown}: hook `{name}` is for the tool `{tool}`, which is not there{near}"
        ));
    }
    told
}

/// Warns of something in a settings file, before a run begins.
pub(crate) fn warn(words: impl Display) {
    screen::tell(&format!("warning: {}", text::show_line(&words.to_string())));
}

/// Whether rules match what they are said to match.
pub(crate) fn check_examples(
    permissions: &Permissions,
    agent: &Agent,
) -> Result<(), SettingsError> {
    permissions.examples.iter().try_for_each(|one| check(one, agent))
}

/// Whether a rule matches what it is said to match, and nothing that it is said not to.
fn check(one: &RuleExample, agent: &Agent) -> Result<(), SettingsError> {
    let RuleExample { kind, rule: text, example, matches } = one;
    // A rule that is none is told by itself.
    let Ok(rule) = Rule::parse(*kind, text) else { return Ok(()) };
    let tool = rule.tool();
    let key = match tool {
        "bash" => "command",
        "fetch" => "url",
        _ => "path",
    };
    let input = serde_json::json!({ key: example.text });
    let facts = agent.facts(tool, &input);
    let facts = facts.ok_or_else(|| {
        example
            .place
            .error(format!("the rule `{text}` can have no examples: there is no tool `{tool}`"))
    })?;
    if rule.matches(tool, &facts, agent.place()) == *matches {
        return Ok(());
    }
    let does = if *matches { "does not match" } else { "matches" };
    Err(example.place.error(format!("the rule `{text}` {does} `{}`", example.text)))
}

fn fill(unit: &mut Registry, rules: Vec<Rule>, permissions: &Permissions) {
    rules.into_iter().for_each(|rule| _ = unit.rule(rule));
    permissions.mode.into_iter().for_each(|mode| _ = unit.mode(mode));
    permissions.level.into_iter().for_each(|level| _ = unit.level(level));
    permissions.policies.iter().for_each(|guard| _ = unit.guard(guard.clone()));
}

/// An agent as everybody here gets it: tools, subagents, commands, and where it runs.
fn builder(
    answering: Answering,
    place: Place,
    runner: &Runner,
    spaces: &Spaces,
) -> Result<AgentBuilder, Failure> {
    let shell = env::var_os("SHELL").map(PathBuf::from);
    let shell = shell.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let shell = text::show_line(shell.unwrap_or("sh")).into_owned();
    let Answering { model, fallbacks, .. } = answering;
    let tools = place.clone();
    let builder = fallbacks
        .into_iter()
        .fold(Agent::builder(model), AgentBuilder::fallback)
        .place(place)
        .environment(Environment::new(env::consts::OS, shell, env::consts::ARCH))
        .extend(builtin::subagents)
        .extend(builtin::commands)
        .extend(builtin::skills)
        .extend(|unit| spaces.command(unit));
    tools::furnish(builder, runner, &tools)
}

/// The tools that every agent here may have, whatever settings bring.
pub(crate) fn own_tools() -> Result<Vec<String>, Failure> {
    let place = place(None)?;
    let runner = tools::runner(&Values::default())?;
    let spaces = Spaces::new(&place, &Shape::default(), &[]);
    let agent = builder(Answering::nobody().0, place, &runner, &spaces)?.build()?;
    let all = agent.tools();
    let names = all.specs().map(|spec| spec.name.to_string());
    Ok(names.chain(SOMETIMES.map(str::to_owned)).collect())
}

/// The agent of a folder, to see what it has. It has no model and keeps nothing.
pub(crate) fn shown(place: Place, shape: &Shape) -> Result<Agent, Failure> {
    shown_with_files(place, shape).map(|(agent, _)| agent)
}

/// The same, with the settings in force.
pub(crate) fn shown_with_files(place: Place, shape: &Shape) -> Result<(Agent, Files), Failure> {
    let Seen { agent, files, told, .. } = seen(place, shape)?;
    let files = files.whole()?;
    told.iter().for_each(warn);
    Ok((agent, files))
}

/// What would be in force in a folder, and what is to be said about it.
pub(crate) struct Seen {
    pub(crate) agent: Agent,
    pub(crate) files: Files,
    pub(crate) told: Vec<String>,
    /// Everything about files, grave or not.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// How what a project brings stands for such a run.
pub(crate) fn standings_for(place: &Place, shape: &Shape) -> Standings {
    if shape.safe_mode { Standings::nothing() } else { trust::seen(place) }
}

/// The agent that a run of this shape would be, and all that is said while it is put together. Nothing is
/// started.
pub(crate) fn seen(place: Place, shape: &Shape) -> Result<Seen, Failure> {
    let standings = standings_for(&place, shape);
    let spaces = Spaces::new(&place, shape, &[]);
    let files = Files::look(shape.settings.as_deref(), &place, &standings)?;
    let chosen = Chosen::named(shape, &place, &standings)?;
    let values = files.values();
    let place = roots::furnish(place, &values.reach, &[])?;
    let runner = tools::runner(&values)?;
    let brought = Brought::read(&files, &place, &standings, &spaces, shape)?;
    let place = brought.readable(place);
    let servers = tools::seen_servers(files.servers(&[], &place)?, &runner, &place)?;
    let builder = builder(Answering::nobody().0, place, &runner, &spaces)?;
    let builder = servers.into_iter().fold(builder, AgentBuilder::hook);
    let agent = as_chosen(builder, chosen.as_ref()).build()?;
    let starts: Arc<dyn Starts> = Arc::new(tools::hooks(&runner, redactor())?);
    let loaded = load(&agent, &starts, &files, brought, (chosen.as_ref(), redactor()), shape)?;
    let Loaded { mut told, diagnostics, .. } = loaded;
    told.extend(files.about_disabled(&agent));
    Ok(Seen { agent, files, told, diagnostics })
}

/// What extends an agent beyond settings: skills, commands and agents in files, and spaces.
struct Brought {
    extensions: Extensions,
    spaces: Vec<spaces::Chosen>,
}

impl Brought {
    fn read(
        files: &Files,
        place: &Place,
        standings: &Standings,
        spaces: &Spaces,
        shape: &Shape,
    ) -> Result<Self, Failure> {
        let extensions = Extensions::load(files, place, standings);
        let extensions = if shape.safe_mode { extensions.safe() } else { extensions };
        Ok(Brought { extensions, spaces: spaces.read_named(standings)? })
    }

    /// The place from which files of skills may be read too.
    fn readable(&self, place: Place) -> Place {
        let skills = self.spaces.iter().flat_map(|named| named.space.files.skill_folders());
        self.extensions.readable(place).with_read_roots(skills.collect::<Vec<_>>())
    }
}

fn as_chosen(builder: AgentBuilder, chosen: Option<&Chosen>) -> AgentBuilder {
    match chosen {
        Some(chosen) => builder.config(|config| chosen.configure(config)),
        None => builder,
    }
}

/// What came of loading.
struct Loaded {
    told: Vec<String>,
    diagnostics: Vec<Diagnostic>,
    /// Those who may be loaded again.
    owners: Vec<Owner>,
}

/// Loads on an agent that was just built what its run has: settings, extensions and spaces, then who runs,
/// last the flags. Whoever starts it agrees: nothing is held.
fn load(
    agent: &Agent,
    starts: &Arc<dyn Starts>,
    files: &Files,
    brought: Brought,
    (chosen, redactor): (Option<&Chosen>, Redactor),
    shape: &Shape,
) -> Result<Loaded, Failure> {
    let mut units = Units::at_the_start(agent, starts.clone())?;
    files.load_into(&mut units)?;
    brought.extensions.load_into(&mut units);
    spaces::load_into(brought.spaces, &mut units);
    let (mut told, diagnostics) = (units.told.clone(), units.diagnostics.clone());
    let owners = units.owners.clone();
    let _ = units.apply()?;
    // A run keeps what it began with: these are not loaded again.
    let mut units = Units::at_the_start(agent, starts.clone())?;
    if let Some(chosen) = chosen {
        chosen.load_into(&mut units, redactor)?;
        units.told.extend(about_missing(chosen, agent));
    }
    told.append(&mut units.told);
    Flags::of(shape).load_into(&mut units);
    let _ = units.apply()?;
    shape.without.iter().try_for_each(|name| check_without(agent, name))?;
    Ok(Loaded { told, diagnostics, owners })
}

/// Everything a run needs, put together.
pub(crate) struct Setup {
    pub(crate) place: Place,
    pub(crate) files: Files,
    /// How what the project brings stands.
    pub(crate) standings: Standings,
    /// Those that were named, and the command that loads others.
    pub(crate) spaces: Spaces,
    pub(crate) answering: Answering,
    /// Who is to run, where somebody was named.
    pub(crate) chosen: Option<Chosen>,
    /// Takes secrets out of what leaves a run.
    pub(crate) redactor: Redactor,
    /// The models that may be named while it runs.
    pub(crate) providers: Providers,
    /// `None` keeps nothing.
    pub(crate) sessions: Option<Sessions>,
    /// Whether a new session is kept before anything is said in it.
    pub(crate) keep: Keep,
}

/// From when on a new session is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    AtOnce,
    FromFirstWord,
}

impl Setup {
    /// The agent, and what takes up changes of files while it runs.
    pub(crate) async fn agent(
        self,
        args: &RunArgs,
        ui: impl Ui,
    ) -> Result<(Agent, Reloader), Failure> {
        let values = self.files.values();
        let limits = values.limits.clone();
        let place = roots::furnish(self.place, &values.reach, &args.add_dirs)?;
        let runner = tools::runner(&values)?;
        let shape = &args.shape;
        let brought = Brought::read(&self.files, &place, &self.standings, &self.spaces, shape)?;
        let place = brought.readable(place);
        let servers =
            tools::servers(self.files.servers(&args.mcp, &place)?, &runner, &place).await?;
        let builder = builder(self.answering, place, &runner, &self.spaces)?;
        let builder = servers.into_iter().fold(builder, AgentBuilder::hook);
        let builder = as_chosen(builder, self.chosen.as_ref());
        let most = self.chosen.as_ref().and_then(Chosen::max_turns);
        let mut builder = builder.models(self.providers).ui(ui).limits(|set| {
            set.max_steps = args.max_turns.or_else(|| tighter(limits.max_turns, most));
            set.max_budget_usd = args.max_budget_usd.or(limits.max_budget_usd);
        });
        builder = match self.sessions {
            Some(sessions) => {
                let builder = builder.spill(sessions.spill());
                match self.keep {
                    Keep::AtOnce => builder.store(sessions.store),
                    Keep::FromFirstWord => builder.store(FromFirstWord::new(sessions.store)),
                }
            }
            None => builder.store(MemoryStore::new()),
        };
        let agent = builder.build()?;
        let starts: Arc<dyn Starts> = Arc::new(tools::hooks(&runner, self.redactor.clone())?);
        self.spaces.set_starts(&starts);
        let who = (self.chosen.as_ref(), self.redactor);
        let Loaded { told, owners, .. } = load(&agent, &starts, &self.files, brought, who, shape)?;
        told.iter().chain(&self.files.about_disabled(&agent)).for_each(warn);
        let told = told.into_iter().chain(self.standings.skipped()).collect();
        let spaces = self.spaces;
        let reloader = Reloader::new(agent.clone(), starts, spaces, owners, told, self.files, args);
        Ok((agent, reloader))
    }
}

/// The last session that was started in this folder.
pub(crate) fn last_session(store: &dyn Store, place: &Place) -> Result<SmolStr, Failure> {
    let all = store.list()?;
    let here = all.into_iter().find(|session| session.cwd == place.cwd());
    here.map(|session| session.id).ok_or_else(|| {
        Failure::new(format!("no session was started in {}", place.cwd().display())).with_hint(
            "`cotter sessions list` shows those of other folders; `--resume ID` takes one up",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn an_operators_file_that_is_not_roots_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        assert!(operator(&path).unwrap().is_none());
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let Err(failure) = operator(&path) else { panic!("it must be refused") };
        let shown = failure.shown(crate::style::Style::on_stderr(crate::style::When::Never));
        assert!(shown.contains("does not belong to root"), "{shown}");
    }
}
