//! The spaces on this machine: the folder of each, the trust in it, and the spaces that a run loads.
//!
//! No space is loaded by default: a person names it, by `--space ID` or `/spaces load ID`. The person's own
//! spaces are in `spaces/ID` beside their settings. A project's spaces are in `.cotter/spaces/ID` and are
//! trusted with that folder. If both have an id, the person's own is used.

pub(crate) mod store;
pub(crate) mod git;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cotter::{
    Agent, Command, Owner, Registry, Workspace,
    invoke::command::{CommandCx, CommandResult},
    registry::change::{ChangeResult, RegistryChange},
    text,
};
use cotter_files::{
    command_hook::HookHost,
    extensions::{Diagnostic, TakenNames},
    space::{self, MANIFEST, Space},
    trust::{
        snapshot::Hash,
        store::{Grants, TrustState, TrustStore},
    },
};
use smol_str::SmolStr;

use crate::{
    args::SetupArgs,
    error::CliError,
    paths::{self, operator_switches},
    settings::{
        file_report::{self, FileReport},
        pending_load::PendingLoad,
    },
    terminal::style,
    trust::{self, SourceKind, TrustSources, show_path},
};

/// The spaces of a run. Clones share their state.
#[derive(Clone)]
pub(crate) struct Spaces(Arc<SpacesInner>);

struct SpacesInner {
    workspace: Workspace,
    /// The folder of the person's own spaces, if they have one.
    own: Option<PathBuf>,
    store: Result<TrustStore, CliError>,
    /// Hashes of contents that this run may use.
    hashes: Vec<Hash>,
    /// True if no space may be loaded.
    safe_mode: bool,
    hook_host: OnceLock<Arc<dyn HookHost>>,
    /// The spaces that the person named, in order. The lock is held while a space is loaded or unloaded.
    named: Mutex<Vec<NamedSpace>>,
}

/// A space to load.
#[derive(Clone)]
struct NamedSpace {
    id: SmolStr,
    /// The folder of the space, once it was found.
    source: Option<PathBuf>,
}

/// A space that may be loaded, with its messages.
pub(crate) struct LoadableSpace {
    pub(crate) space: Space,
    pub(crate) messages: Vec<String>,
}

/// The folder of a space, and its trust state.
pub(crate) struct SpaceLocation {
    pub(crate) id: SmolStr,
    /// The folder under the path that the person knows.
    pub(crate) source: PathBuf,
    /// True if the space belongs to a project.
    pub(crate) of_project: bool,
    pub(crate) state: SpaceTrust,
}

/// The part of a space that may be used.
pub(crate) enum SpaceTrust {
    /// All of it, from this copy.
    Trusted(PathBuf, Grants),
    /// Only its hooks, as they were trusted: the space changed or is gone.
    Hooks(PathBuf, &'static str),
    /// Nothing, because it is not trusted.
    Nothing(Option<String>),
}

impl Spaces {
    pub(crate) fn new(workspace: &Workspace, setup_args: &SetupArgs, hashes: &[Hash]) -> Self {
        let own =
            paths::spaces().filter(|own| !paths::belongs_to_project(own, workspace.project()));
        let store = trust::store(workspace.project());
        Spaces::of(workspace, own, store, &setup_args.spaces, hashes, setup_args.safe_mode)
    }

    fn of(
        workspace: &Workspace,
        own: Option<PathBuf>,
        store: Result<TrustStore, CliError>,
        named: &[String],
        hashes: &[Hash],
        safe_mode: bool,
    ) -> Self {
        let mut spaces: Vec<NamedSpace> = vec![];
        for id in named.iter().filter(|_| !safe_mode) {
            if spaces.iter().all(|space| space.id != *id) {
                spaces.push(NamedSpace { id: id.into(), source: None });
            }
        }
        Spaces(Arc::new(SpacesInner {
            workspace: workspace.clone(),
            own,
            store,
            hashes: hashes.to_vec(),
            safe_mode,
            hook_host: OnceLock::new(),
            named: Mutex::new(spaces),
        }))
    }

    /// Sets the host that starts the programs of hooks.
    pub(crate) fn set_hook_host(&self, hook_host: &Arc<dyn HookHost>) {
        let _ = self.0.hook_host.set(hook_host.clone());
    }

    fn named(&self) -> MutexGuard<'_, Vec<NamedSpace>> {
        self.0.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the folders of the person's own spaces that were named, for the question about trust. They
    /// need not exist.
    pub(crate) fn sources(&self) -> Vec<PathBuf> {
        let Some(own) = &self.0.own else { return vec![] };
        self.named().iter().map(|named| own.join(named.id.as_str())).collect()
    }

    /// Returns every space, the person's own first.
    pub(crate) fn all(&self, project: &TrustSources) -> Vec<SpaceLocation> {
        let mut all: Vec<SpaceLocation> = vec![];
        let own = self.0.own.iter().flat_map(|own| ids_in(own)).filter_map(|id| self.own(&id));
        all.extend(own);
        for found in project.0.iter().rev().filter(|found| found.is_folder()) {
            let folder = match &found.state {
                TrustState::Trusted { copy, .. }
                | TrustState::Changed { copy, .. }
                | TrustState::Gone { copy, .. } => copy,
                _ => &found.source,
            };
            let ids = ids_in(&folder.join("spaces"));
            let new = ids.into_iter().filter_map(|id| of_project(&id, project));
            let new: Vec<_> = new
                .filter(|space| all.iter().all(|listed| listed.source != space.source))
                .collect();
            all.extend(new);
        }
        all
    }

    /// Returns one of the person's own spaces, if it exists or was trusted before.
    fn own(&self, id: &str) -> Option<SpaceLocation> {
        let source = self.0.own.as_ref()?.join(id);
        let trust_state = trust::trust_state_of(&source, &self.0.store, &self.0.hashes)?;
        let state = match trust_state {
            TrustState::Trusted { copy, grants, .. } => SpaceTrust::Trusted(copy, grants),
            TrustState::Changed { copy, .. } => {
                SpaceTrust::Hooks(copy, "changed since it was trusted")
            }
            TrustState::Gone { copy, .. } => SpaceTrust::Hooks(copy, "was trusted, and is gone"),
            TrustState::Unknown { reason } => SpaceTrust::Nothing(reason),
            _ => SpaceTrust::Nothing(None),
        };
        Some(SpaceLocation { id: id.into(), source, of_project: false, state })
    }

    fn find(&self, id: &str, project: &TrustSources) -> Result<SpaceLocation, CliError> {
        if let Some(location) = self.own(id).or_else(|| of_project(id, project)) {
            return Ok(location);
        }
        let failure = CliError::new(format!("there is no space `{}`", text::show_line(id)));
        let all = self.all(project);
        let ids = all.iter().map(|at| at.id.as_str());
        Err(failure.suggest(id, ids, "`cotter spaces list` shows the spaces"))
    }

    /// Reads the part of a space that may be used. Fails if no part may be used.
    fn read(&self, id: &str, project: &TrustSources) -> Result<LoadableSpace, CliError> {
        let location = self.find(id, project)?;
        let mut messages = vec![];
        if !location.of_project && of_project(id, project).is_some() {
            messages.push(format!("the project has a space `{id}` too; yours is used"));
        }
        let space = match &location.state {
            SpaceTrust::Trusted(copy, grants) => read(&location, copy)?.with_grants(*grants),
            SpaceTrust::Hooks(copy, what) => {
                messages.push(format!(
                    "space `{id}` {what}: its trusted hooks still apply, nothing else of it is \
                     used (`cotter trust {}` shows the changes)",
                    show_path(trust_folder(&location))
                ));
                read(&location, copy)?.only_hooks()
            }
            SpaceTrust::Nothing(word) => return Err(untrusted(&location, word.as_deref())),
        };
        // Diagnostics about texts are shortened; the others are listed, because they may be about a gate.
        let (of_texts, others): (Vec<_>, Vec<_>) = space
            .diagnostics()
            .cloned()
            .partition(|diagnostic| space.files.diagnostics.contains(diagnostic));
        messages.extend(others.iter().map(ToString::to_string));
        messages.extend(file_report::summary_lines(&[FileReport::of_space(
            &location.source,
            of_texts,
        )]));
        Ok(LoadableSpace { space, messages })
    }

    /// Reads every named space. Fails if one may not be used, because a gate may be in it.
    pub(crate) fn read_named(
        &self,
        project: &TrustSources,
    ) -> Result<Vec<LoadableSpace>, CliError> {
        let mut named = self.named();
        let mut all = vec![];
        for named in named.iter_mut() {
            let loadable = self.read(&named.id, project)?;
            named.source = Some(loadable.space.source().to_owned());
            all.push(loadable);
        }
        Ok(all)
    }

    /// Reads every named space again during a run, while it holds the lock for loading. A space that is no
    /// longer trusted is reported and skipped.
    pub(crate) fn read_again(&self, project: &TrustSources) -> Result<SpacesGuard<'_>, CliError> {
        let named = self.named();
        let (mut all, mut messages) = (vec![], vec![]);
        for NamedSpace { id, .. } in named.iter() {
            match self.find(id, project) {
                Ok(location) if matches!(location.state, SpaceTrust::Nothing(_)) => {
                    messages.push(format!("space `{id}` is not trusted any more"));
                }
                Ok(_) => all.push(self.read(id, project)?),
                Err(_) => messages.push(format!("space `{id}` is gone, and is not trusted")),
            }
        }
        Ok(SpacesGuard { all, messages, named })
    }

    /// Registers the person's command `/spaces`.
    pub(crate) fn command(&self, unit: &mut Registry) {
        let (spaces, completing) = (self.clone(), self.clone());
        let command = Command::new("spaces", move |cx: CommandCx| {
            let done = spaces.run(&cx);
            async move { done.map(CommandResult::Status) }
        });
        unit.define_command(
            command
                .description(
                    "Lists spaces, loads and unloads them: /spaces [load|unload|switch ID]",
                )
                .completions(move |typed| completing.complete(typed)),
        );
    }

    fn complete(&self, typed: &str) -> Vec<String> {
        let all = match typed.contains(' ') {
            false => ["load", "unload", "switch"].map(str::to_owned).to_vec(),
            true => {
                let verb = typed.split(' ').next().unwrap_or_default();
                let all = self.all(&self.project());
                all.iter().map(|at| format!("{verb} {}", at.id)).collect()
            }
        };
        all.into_iter().filter(|completion| completion.starts_with(typed)).collect()
    }

    fn project(&self) -> TrustSources {
        trust::current_trust(&self.0.workspace, &self.0.hashes)
    }

    fn run(&self, cx: &CommandCx) -> Result<String, String> {
        let agent = cx.controls.agent();
        let words: Vec<_> = cx.args.iter().map(String::as_str).collect();
        let done = match words.as_slice() {
            [] => Ok(self.list()),
            ["load", id] => self.load(agent, id),
            ["unload", id] => self.unload(agent, id),
            ["switch", id] => self.switch(agent, id),
            _ => Err(CliError::usage(
                "expected `/spaces`, or `/spaces` with `load ID`, `unload ID` or `switch ID`",
            )),
        };
        done.map_err(|failure| failure.one_line())
    }

    fn list(&self) -> String {
        let named = self.named();
        let line = |at: &SpaceLocation| {
            let is_named = named.iter().any(|named| named.id == at.id);
            let mark = if is_named { ", loaded" } else { "" };
            format!("{} ({}{mark})", at.id, at.trust_word())
        };
        let lines: Vec<_> = self.all(&self.project()).iter().map(line).collect();
        match lines.is_empty() {
            true => "there are no spaces".into(),
            false => lines.join("\n"),
        }
    }

    /// Returns the host for the hooks of a space that a command loads. Fails if no space may be loaded.
    fn hook_host(&self) -> Result<&Arc<dyn HookHost>, CliError> {
        if self.0.safe_mode {
            return Err(CliError::refused("no space can be loaded in safe mode"));
        }
        check_switches()?;
        self.0.hook_host.get().ok_or_else(|| CliError::new("no space can be loaded here"))
    }

    fn load(&self, agent: &Agent, id: &str) -> Result<String, CliError> {
        let hook_host = self.hook_host()?;
        let mut named = self.named();
        let LoadableSpace { space, messages } = self.read(id, &self.project())?;
        let summary =
            format!("space `{id}` is loaded until this run ends: {}", describe_contents(&space));
        let source = Some(space.source().to_owned());
        let done = space.load(agent, hook_host.clone())?;
        named.retain(|named| named.id != id);
        named.push(NamedSpace { id: id.into(), source });
        Ok(join_messages(summary, messages, &done))
    }

    fn unload(&self, agent: &Agent, id: &str) -> Result<String, CliError> {
        let mut named = self.named();
        let was_named = named.iter().any(|named| named.id == id);
        if !space::unload(agent, id) && !was_named {
            let shown = text::show_line(id);
            return Err(CliError::new(format!("no space `{shown}` is loaded")));
        }
        named.retain(|named| named.id != id);
        Ok(format!("space `{id}` is unloaded"))
    }

    /// Replaces all loaded spaces with one, in one step.
    fn switch(&self, agent: &Agent, id: &str) -> Result<String, CliError> {
        let hook_host = self.hook_host()?;
        let mut named = self.named();
        let LoadableSpace { space, messages } = self.read(id, &self.project())?;
        let others: Vec<_> = named.iter().filter(|named| named.id != id).cloned().collect();
        let owners: Vec<_> = named.iter().map(|named| space::owner(&named.id)).collect();
        let mut names = TakenNames::of(agent, &[owners, vec![space.owner()]].concat());
        let space = space.remove_conflicts(&mut names);
        let mut change = RegistryChange::new();
        for NamedSpace { id, .. } in &others {
            // The person who switches agrees to unload the others.
            change.load_agreed(space::owner(id), |_| {});
        }
        space.load_into(&mut change, hook_host);
        let done = agent.apply(change)?;
        *named = vec![NamedSpace { id: id.into(), source: Some(space.source().to_owned()) }];
        let unloaded: String =
            others.iter().map(|named| format!("space `{}` is unloaded\n", named.id)).collect();
        let summary = format!(
            "{unloaded}space `{id}` is loaded until this run ends: {}",
            describe_contents(&space)
        );
        Ok(join_messages(summary, messages, &done))
    }
}

/// The named spaces, read again. While this guard exists, no other space is loaded or unloaded.
pub(crate) struct SpacesGuard<'a> {
    all: Vec<LoadableSpace>,
    messages: Vec<String>,
    named: MutexGuard<'a, Vec<NamedSpace>>,
}

impl SpacesGuard<'_> {
    /// Returns the owners of the loaded spaces.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        self.named.iter().map(|named| space::owner(&named.id)).collect()
    }

    /// Returns the folder of each loaded space, with its owner.
    pub(crate) fn folders(&self) -> Vec<(Owner, PathBuf)> {
        let folder = |named: &NamedSpace| Some((space::owner(&named.id), named.source.clone()?));
        self.named.iter().filter_map(folder).collect()
    }

    /// Adds the spaces to the load.
    pub(crate) fn load_into(&mut self, pending_load: &mut PendingLoad<'_>) {
        pending_load.messages.append(&mut self.messages);
        load_into(std::mem::take(&mut self.all), pending_load);
    }
}

/// Adds spaces to the load.
pub(crate) fn load_into(all: Vec<LoadableSpace>, pending_load: &mut PendingLoad<'_>) {
    for LoadableSpace { space, messages } in all {
        pending_load.messages.extend(messages);
        let before = space.files.diagnostics.len();
        let space = space.remove_conflicts(&mut pending_load.names);
        let left_out: Vec<Diagnostic> = space.files.diagnostics[before..].to_vec();
        pending_load.reports.push(FileReport::of_space(space.source(), left_out));
        let hook_host = pending_load.hook_host.clone();
        pending_load.load(&space.owner(), false, |unit| space.register(unit, &hook_host));
    }
}

impl SpaceLocation {
    /// Returns the trust state in one word.
    pub(crate) fn trust_word(&self) -> &'static str {
        match &self.state {
            SpaceTrust::Trusted(..) => "trusted",
            SpaceTrust::Hooks(_, what) if what.contains("gone") => "gone",
            SpaceTrust::Hooks(..) => "changed",
            SpaceTrust::Nothing(_) => "not trusted",
        }
    }
}

/// Refuses to load a space while the operator has disabled hooks, because a space may have hooks.
fn check_switches() -> Result<(), CliError> {
    match operator_switches::read_disabled_hooks()? {
        None => Ok(()),
        Some(_) => Err(CliError::refused(
            "cannot load a space while `COTTER_DISABLE_HOOKS` is set: it may have hooks",
        )),
    }
}

fn read(location: &SpaceLocation, copy: &Path) -> Result<Space, CliError> {
    let space = Space::read(copy).map_err(|mut broken| {
        trust::replace_copy_paths(&mut broken.diagnostics, copy, &location.source);
        CliError::of_space(format!("cannot load space `{}`", location.id), &broken)
    })?;
    if *space.id() != location.id {
        let message =
            format!("the manifest of {} has the id `{}`", show_path(&location.source), space.id());
        return Err(
            CliError::new(message).with_hint("the folder of a space must have its id as name")
        );
    }
    Ok(space.found_at(&location.source))
}

/// Finds a space of the project, in the nearest folder that has it.
fn of_project(id: &str, project: &TrustSources) -> Option<SpaceLocation> {
    let folders = project.0.iter().rev().filter(|found| found.kind() == SourceKind::Cotter);
    for found in folders {
        let within = Path::new("spaces").join(id);
        let source = found.source.join(&within);
        let is_there =
            |folder: &Path| folder.join(&within).join(MANIFEST).symlink_metadata().is_ok();
        let state = match &found.state {
            TrustState::Trusted { copy, grants, .. } if is_there(copy) => {
                SpaceTrust::Trusted(copy.join(&within), *grants)
            }
            TrustState::Changed { copy, .. } if is_there(copy) => {
                SpaceTrust::Hooks(copy.join(&within), "changed since it was trusted")
            }
            TrustState::Gone { copy, .. } if is_there(copy) => {
                SpaceTrust::Hooks(copy.join(&within), "was trusted, and is gone")
            }
            TrustState::Unknown { reason } if is_there(&found.source) => {
                SpaceTrust::Nothing(reason.clone())
            }
            TrustState::Changed { .. } if is_there(&found.source) => SpaceTrust::Nothing(None),
            _ => continue,
        };
        return Some(SpaceLocation { id: id.into(), source, of_project: true, state });
    }
    None
}

/// Returns the names of the folders that can be spaces.
fn ids_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<_> = names.filter(|name| space::is_id(name)).collect();
    ids.sort();
    ids
}

/// Returns the folder whose trust decides about a space.
fn trust_folder(location: &SpaceLocation) -> &Path {
    match location.of_project {
        // The folder `.cotter` of `.cotter/spaces/ID`.
        true => location.source.ancestors().nth(2).unwrap_or(&location.source),
        false => &location.source,
    }
}

fn untrusted(location: &SpaceLocation, word: Option<&str>) -> CliError {
    let failure =
        CliError::refused(format!("cannot load space `{}`: it is not trusted", location.id));
    let failure = word.into_iter().fold(failure, CliError::with_cause);
    let path = show_path(trust_folder(location));
    failure.with_hint(format!(
        "`cotter trust {path}` shows it and asks; `--trust=HASH` trusts it for one run"
    ))
}

/// Describes in words the number of hooks, skills, agents and commands of a space.
pub(crate) fn describe_contents(space: &Space) -> String {
    let numbers = [
        (space.hooks.enabled().count(), "hook"),
        (space.files.skills.len(), "skill"),
        (space.files.agents.len(), "agent"),
        (space.files.commands.len(), "command"),
    ];
    let present = numbers.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<_> = present.map(|(number, word)| style::count(*number, word)).collect();
    if counts.is_empty() { "empty".into() } else { counts.join(", ") }
}

fn join_messages(mut text: String, messages: Vec<String>, done: &ChangeResult) -> String {
    for message in messages {
        text += &format!("\nwarning: {}", text::show_line(&message));
    }
    if let ChangeResult::Held { looser } = done {
        let list: String = looser.iter().map(|line| format!("\n  {line}")).collect();
        text += &format!("\nthese changes would loosen this session and do not apply:{list}");
    }
    text
}
