//! Reloads files that change during a run: in one step, or not at all. A change that would make the run
//! looser waits until the person agrees. If no person can be asked, the change waits for the next run.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf, absolute},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use cotter::{
    Agent, Origin, Owner, Workspace,
    permission::mode::Mode,
    registry::change::{ChangeResult, RegistryChange},
    text,
};
use cotter_files::{
    claude::project,
    command_hook::HookHost,
    settings::MergedSettings,
    trust::{
        snapshot::Hash,
        store::{TrustRecord, TrustState},
        watch::{FileWatcher, TargetContents, WatchTargets},
    },
};

use crate::{
    args::{RunArgs, SetupArgs},
    error::CliError,
    paths,
    settings::{SettingsFiles, claude_home::home_folder, edit, pending_load::PendingLoad},
    setup::extensions::{self, Extensions},
    spaces::Spaces,
    trust::{self, TrustSource, TrustSources},
};

/// The flags of the command line, which take precedence over every file.
#[derive(Clone)]
pub(crate) struct CommandLineFlags {
    mode: Option<Mode>,
    /// The names of the hooks that `--without` disables.
    disabled_hooks: Vec<String>,
}

impl CommandLineFlags {
    pub(crate) fn of(setup_args: &SetupArgs) -> Self {
        CommandLineFlags { mode: setup_args.mode, disabled_hooks: setup_args.without.clone() }
    }

    /// Adds the flags. Call it after all other owners: if several owners of one origin set a value, the owner
    /// that was added last wins.
    pub(crate) fn load_into(&self, pending_load: &mut PendingLoad<'_>) {
        pending_load.load(&Owner::new(Origin::User, "command line"), true, |unit| {
            self.mode.into_iter().for_each(|mode| _ = unit.mode(mode));
            self.disabled_hooks.iter().for_each(|name| _ = unit.switch_off(name.as_str()));
        });
    }
}

/// The time that a run lasts before its files are watched. Most runs of scripts are shorter, and to end a watch
/// takes the kernel longer than such a run.
const UNWATCHED: Duration = Duration::from_millis(200);

/// The files that a run uses, with their contents before they were loaded: the person's extensions, the
/// project's, the trust records, and the settings file of `--settings`.
pub(crate) struct RunFiles {
    targets: WatchTargets,
    before_load: TargetContents,
}

impl RunFiles {
    /// Reads the contents. Call it before the files are loaded, so that no change is missed.
    pub(crate) fn read(workspace: &Workspace, settings_flag: Option<&Path>) -> Self {
        let targets = find_targets(workspace, settings_flag);
        RunFiles { before_load: targets.read_contents(), targets }
    }

    /// Starts to watch. A change since the contents were read is reported too.
    fn watch(self) -> io::Result<FileWatcher> {
        self.targets.watch_since(self.before_load)
    }
}

fn find_targets(workspace: &Workspace, settings_flag: Option<&Path>) -> WatchTargets {
    let own = paths::config().into_iter().flat_map(|folder| {
        ["settings.json", "skills", "commands", "agents", "hooks", "spaces"]
            .map(|name| folder.join(name))
    });
    let mut watched: Vec<_> = own.collect();
    watched.push(paths::OPERATOR_SETTINGS.into());
    watched.extend(paths::trust().map(|folder| folder.join("trust.json")));
    watched.extend(project::watched_paths(&home_folder(workspace)));
    // Adds the plugins that settings name. An error in settings is ignored here: the start of the run loads
    // the settings again, reports the error and stops.
    let files = SettingsFiles::load_for_preview(settings_flag, workspace, &TrustSources::empty());
    let plugins = files.iter().flat_map(|files| files.plugins());
    watched.extend(plugins.flat_map(|(_, plugin)| plugin.source_paths()));
    watched.extend(settings_flag.and_then(|path| absolute(path).ok()));
    let project_paths = trust::possible_sources(workspace);
    // Links are followed in the first list, and not in the second.
    WatchTargets::new(watched, project_paths)
}

/// Applies changes of files during a run.
pub(crate) struct Reloader {
    agent: Agent,
    hook_host: Arc<dyn HookHost>,
    spaces: Spaces,
    /// The settings file of `--settings`.
    settings_flag: Option<PathBuf>,
    /// The settings, as they were read last.
    files: SettingsFiles,
    /// The hashes of `--trust=HASH`. This run may use contents with these hashes, even if no trust record
    /// exists.
    hashes: Vec<Hash>,
    /// True if nothing of the project is used.
    safe_mode: bool,
    /// The owners that were loaded last.
    owners: Vec<Owner>,
    /// The last messages, so that none is repeated.
    last_messages: Vec<String>,
    /// The values that a run keeps from its beginning.
    values: MergedSettings,
    /// The trust records, as they were read last.
    trust_records: Vec<TrustRecord>,
    flags: CommandLineFlags,
    /// The changes that would make the run looser and were reported last.
    held_changes: Vec<String>,
}

/// A change that waits for the person's consent.
struct PendingConsent {
    answer: Pin<Box<dyn Future<Output = bool> + Send>>,
    /// The changes that the person was shown.
    looser: Vec<String>,
}

impl Reloader {
    pub(crate) fn new(
        agent: Agent,
        hook_host: Arc<dyn HookHost>,
        spaces: Spaces,
        mut owners: Vec<Owner>,
        last_messages: Vec<String>,
        files: SettingsFiles,
        args: &RunArgs,
    ) -> Self {
        owners.retain(|owner| owner.unit != extensions::MEMORY);
        let trust_records = read_trust_records(&agent).unwrap_or_default();
        Reloader {
            agent,
            hook_host,
            spaces,
            settings_flag: args.setup_args.settings.clone(),
            hashes: args.trust.hashes(),
            safe_mode: args.setup_args.safe_mode,
            owners,
            last_messages,
            values: files.values(),
            files,
            trust_records,
            flags: CommandLineFlags::of(&args.setup_args),
            held_changes: vec![],
        }
    }

    /// Reloads until the future is dropped. Starts to watch when the run has lasted a while.
    pub(crate) async fn run(mut self, files: RunFiles) {
        tokio::time::sleep(UNWATCHED).await;
        let mut watch = match files.watch() {
            Ok(watch) => watch,
            Err(cause) => {
                let message =
                    format!("cannot watch files, so changes apply to the next run only: {cause}");
                return self.print_new([message]);
            }
        };
        let mut pending_consent: Option<PendingConsent> = None;
        loop {
            let agreed_to = tokio::select! {
                () = watch.changed() => vec![],
                has_agreed = wait_for_answer(&mut pending_consent) => match pending_consent.take() {
                    Some(consent) if has_agreed => consent.looser,
                    _ => continue,
                },
            };
            // If files changed again, the person is asked again.
            pending_consent = match self.reload(agreed_to) {
                Ok(looser) => self.ask(looser),
                Err(failure) => {
                    let message = failure.one_line();
                    self.print_new([format!("{message}; the earlier settings still apply")]);
                    self.unload_untrusted();
                    None
                }
            };
        }
    }

    /// Loads everything again. Returns the changes that would make the run looser, except those in
    /// `agreed_to`.
    fn reload(&mut self, agreed_to: Vec<String>) -> Result<Vec<String>, CliError> {
        let workspace = self.agent.workspace();
        let trust_sources = match self.safe_mode {
            true => TrustSources::empty(),
            false => trust::current_trust(workspace, &self.hashes),
        };
        // If the trust records cannot be read, the earlier ones still apply.
        let records_before = self.trust_records.clone();
        let records_now = read_trust_records(&self.agent).unwrap_or_else(|| records_before.clone());
        let stored = edit::stored_rules();
        let (files, load_messages) =
            self.files.load_again(self.settings_flag.as_deref(), workspace, &trust_sources)?;
        edit::forget_rules(stored.iter().filter(|rule| !files.allows(rule)));
        let extensions = Extensions::load(&files, workspace, &trust_sources).without_memory();
        let extensions = if self.safe_mode { extensions.without_project() } else { extensions };
        let agent = self.agent.clone();
        let all_spaces = self.spaces.clone();
        // `spaces` holds a lock: no space is loaded or unloaded until `spaces` is dropped, after the change
        // was applied.
        let mut spaces = all_spaces.read_again(&trust_sources)?;
        let folders = spaces.folders();
        // With `--trust=HASH` the hashes decide what the run may use, so a removed trust record withdraws
        // nothing.
        let can_lose_trust = self.hashes.is_empty() && records_before != records_now;
        let has_person_agreed = |owner: &Owner| {
            has_trust_changed(owner, &folders, &records_before, &records_now)
                || (can_lose_trust && has_lost_trust(owner, &trust_sources))
        };
        let owners_before = self.owners_and_new_spaces(spaces.owners());
        let hook_host = self.hook_host.clone();
        let mut pending_load =
            PendingLoad::new(&agent, hook_host, &owners_before, has_person_agreed)?;
        files.load_into(&mut pending_load)?;
        extensions.load_into(&mut pending_load);
        spaces.load_into(&mut pending_load);
        self.flags.load_into(&mut pending_load);
        pending_load.unload_missing();
        pending_load.agree_to(agreed_to);
        let (owners_now, mut messages) = (pending_load.owners.clone(), load_messages);
        messages.extend(pending_load.start_messages());
        let done = pending_load.apply()?;
        drop(spaces);
        self.trust_records = records_now;
        messages.extend(trust_sources.skipped());
        messages.extend(files.disabled_warnings(&self.agent));
        if files.values() != self.values {
            messages
                .push("changes of model, limits, folders and servers apply to the next run".into());
        }
        // The removal of a gate is held until a person agrees. So an owner that is gone now may still be
        // loaded with its gates, and the next reload must know it.
        let still_loaded = self
            .owners
            .iter()
            .filter(|owner| !owners_now.iter().any(|known| known.is_same_unit(owner)));
        self.owners = owners_now.iter().chain(still_loaded).cloned().collect();
        self.files = files;
        self.print_new(messages);
        Ok(match done {
            ChangeResult::Held { looser } => looser,
            _ => vec![],
        })
    }

    /// Unloads owners of the project that are no longer trusted, after a reload failed.
    fn unload_untrusted(&mut self) {
        if self.safe_mode {
            return;
        }
        let Some(records_now) = read_trust_records(&self.agent) else { return };
        let trust_sources = trust::current_trust(self.agent.workspace(), &self.hashes);
        let is_gone = |owner: &Owner| {
            has_trust_changed(owner, &[], &self.trust_records, &records_now)
                && has_lost_trust(owner, &trust_sources)
        };
        let (gone, kept): (Vec<_>, Vec<_>) = self.owners.iter().cloned().partition(is_gone);
        let mut change = RegistryChange::new().caused_by_files();
        gone.iter().for_each(|owner| _ = change.load_agreed(owner.clone(), |_| {}));
        // A change that only unloads cannot fail for the contents of a file.
        if !gone.is_empty() && self.agent.apply(change).is_ok() {
            self.owners = kept;
        }
    }

    /// Returns the owners that were loaded last, and the spaces that the person loaded since. Spaces that
    /// they unloaded are already gone.
    fn owners_and_new_spaces(&self, spaces: Vec<Owner>) -> Vec<Owner> {
        let was_loaded =
            |owner: &Owner| self.owners.iter().any(|loaded| loaded.is_same_unit(owner));
        let new = spaces.into_iter().filter(|owner| !was_loaded(owner));
        self.owners.iter().cloned().chain(new.collect::<Vec<_>>()).collect()
    }

    /// Asks the person for consent. Without a person, each waiting change is reported once.
    fn ask(&mut self, looser: Vec<String>) -> Option<PendingConsent> {
        if looser.is_empty() {
            return None;
        }
        let list = |lines: &[String]| lines.iter().map(|line| format!("\n  {line}")).collect();
        let ui = self.agent.ui().clone();
        if !ui.present() {
            let is_new = |line: &&String| !self.held_changes.contains(line);
            let new: Vec<_> = looser.iter().filter(is_new).cloned().collect();
            let list: String = list(&new);
            let message =
                "settings changed; these changes would loosen this run and wait for the next run";
            if !new.is_empty() {
                ui.notify(&format!("warning: {}", text::show(&format!("{message}:{list}"))));
            }
            self.held_changes = looser;
            return None;
        }
        let list: String = list(&looser);
        let question =
            format!("Settings changed. These changes would loosen this run:{list}\nApply them?");
        Some(PendingConsent {
            answer: Box::pin(async move { ui.confirm(&question).await }),
            looser,
        })
    }

    /// Prints messages that the last reload did not print.
    fn print_new(&mut self, messages: impl IntoIterator<Item = String>) {
        let messages: Vec<_> = messages.into_iter().collect();
        for message in messages.iter().filter(|message| !self.last_messages.contains(message)) {
            self.agent.ui().notify(&format!("warning: {}", text::show(message)));
        }
        self.last_messages = messages;
    }
}

/// Waits for the person's answer; forever if no question is open.
async fn wait_for_answer(pending_consent: &mut Option<PendingConsent>) -> bool {
    match pending_consent {
        Some(consent) => consent.answer.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Reads the trust records. `None` if they cannot be read.
fn read_trust_records(agent: &Agent) -> Option<Vec<TrustRecord>> {
    // A person who withdraws trust removes a record, and the file stays. So a missing file does not mean that
    // there are no records: it counts as a file that cannot be read.
    paths::trust()?.join("trust.json").try_exists().ok().filter(|is_there| *is_there)?;
    trust::store(agent.workspace().project()).ok()?.list().ok()
}

/// True if the trust store was read and no person trusts the contents of a project's owner. False if the
/// store cannot tell.
fn has_lost_trust(owner: &Owner, trust_sources: &TrustSources) -> bool {
    let unit = Path::new(owner.unit.as_str());
    let found = trust_sources.0.iter().find(|found| unit.starts_with(&found.source));
    // With a reason, `Unknown` means that the store cannot tell.
    let is_untrusted =
        |found: &TrustSource| matches!(found.state, TrustState::Unknown { reason: None });
    owner.origin == Origin::Project && found.is_some_and(is_untrusted)
}

/// True if a person trusted the contents of an owner, or withdrew this trust, since the owner was loaded.
fn has_trust_changed(
    owner: &Owner,
    spaces: &[(Owner, PathBuf)],
    records_before: &[TrustRecord],
    records_now: &[TrustRecord],
) -> bool {
    let space = spaces.iter().find(|(known, _)| known.is_same_unit(owner));
    let unit = space.map_or(Path::new(owner.unit.as_str()), |(_, source)| source);
    let about_unit = |records: &[TrustRecord]| {
        let known = records.iter().filter(|record| unit.starts_with(&record.source));
        known.cloned().collect::<Vec<_>>()
    };
    let is_of_project_or_space = owner.origin == Origin::Project || space.is_some();
    is_of_project_or_space && about_unit(records_before) != about_unit(records_now)
}
