//! Everything that files contribute, collected owner by owner and applied to an agent in one step.

use std::{path::Path, sync::Arc};

use cotter::{
    Agent, Owner, Registry,
    permission::verdict::Power,
    registry::{
        DisabledHooks, RegisterError,
        change::{ChangeResult, RegistryChange},
    },
};
use cotter_files::{
    command_hook::HookHost,
    extensions::{Diagnostic, TakenNames},
};

use crate::{
    error::CliError,
    paths::operator_switches,
    settings::{
        edit,
        file_report::{self, FileReport},
    },
};

/// The contents of several owners, collected to be applied to an agent in one step, and messages about them.
pub(crate) struct PendingLoad<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) hook_host: Arc<dyn HookHost>,
    /// The names that are taken already. A skill, command, subagent or hook of another owner may not use
    /// them.
    pub(crate) names: TakenNames,
    /// The owners whose contents are loaded after this step.
    pub(crate) owners: Vec<Owner>,
    pub(crate) messages: Vec<String>,
    /// All diagnostics about files, of every severity.
    pub(crate) reports: Vec<FileReport>,
    change: RegistryChange,
    /// The owners whose contents were loaded before this step.
    owners_before: Vec<Owner>,
    /// The class of hooks that is disabled.
    disabled_hooks: Option<DisabledHooks>,
    /// Returns true if a person already agreed to the new contents of this owner, also if they make the
    /// policy looser.
    has_person_agreed: Box<dyn Fn(&Owner) -> bool + 'a>,
}

impl<'a> PendingLoad<'a> {
    /// Creates the first load of an agent. The person who starts the agent agrees to all of it.
    pub(crate) fn first_load(
        agent: &'a Agent,
        hook_host: Arc<dyn HookHost>,
    ) -> Result<Self, CliError> {
        PendingLoad::new(agent, hook_host, &[], |_| true)
    }

    /// Creates a load that replaces the contents of `owners_before`.
    pub(crate) fn new(
        agent: &'a Agent,
        hook_host: Arc<dyn HookHost>,
        owners_before: &[Owner],
        has_person_agreed: impl Fn(&Owner) -> bool + 'a,
    ) -> Result<Self, CliError> {
        Ok(PendingLoad {
            agent,
            hook_host,
            names: TakenNames::of(agent, owners_before),
            owners: vec![],
            messages: vec![],
            reports: vec![],
            change: RegistryChange::new().caused_by_files(),
            owners_before: owners_before.to_vec(),
            disabled_hooks: operator_switches::read_disabled_hooks()?,
            has_person_agreed: Box::new(has_person_agreed),
        })
    }

    /// Adds the contents of an owner, in place of its earlier contents. `person_agreed` is true if a person
    /// agreed to these contents, also if they make the policy looser.
    pub(crate) fn load(
        &mut self,
        owner: &Owner,
        person_agreed: bool,
        extension: impl FnOnce(&mut Registry),
    ) {
        let person_agreed = person_agreed || (self.has_person_agreed)(owner);
        // An owner loses the right to rewrite when its contents change after a person trusted them. Then the
        // new contents are not loaded: the run keeps the earlier contents, which may rewrite.
        let may_rewrite = |owner: &Owner| owner.may(Power::Transform);
        let mut owners_before = self.owners_before.iter();
        let earlier =
            owners_before.find(|earlier| earlier.is_same_unit(owner) && may_rewrite(earlier));
        if let Some(earlier) = earlier.filter(|_| !person_agreed && !may_rewrite(owner)) {
            self.owners.push(earlier.clone());
            return;
        }
        self.owners.push(owner.clone());
        let (disabled_hooks, mut left_out) = (self.disabled_hooks, vec![]);
        let register_enabled = |unit: &mut Registry| {
            extension(unit);
            if let Some(disabled_hooks) = disabled_hooks {
                left_out = unit.leave_out_hooks(disabled_hooks);
            }
        };
        match person_agreed {
            true => self.change.load_agreed(owner.clone(), register_enabled),
            false => self.change.load(owner.clone(), register_enabled),
        };
        if !left_out.is_empty() {
            let names: Vec<_> = left_out.iter().map(|name| format!("`{name}`")).collect();
            self.messages.push(format!(
                "hooks are switched off by `COTTER_DISABLE_HOOKS`: {owner} runs without {}",
                names.join(", ")
            ));
        }
    }

    /// Adds the diagnostics about the files of a folder.
    pub(crate) fn add_diagnostics(&mut self, folder: &Path, diagnostics: &[Diagnostic]) {
        self.reports.push(FileReport::new(folder, diagnostics.to_vec()));
    }

    /// Returns the messages to print at a start.
    pub(crate) fn start_messages(&self) -> Vec<String> {
        self.messages.iter().cloned().chain(file_report::summary_lines(&self.reports)).collect()
    }

    /// Unloads the owners that were loaded before and are gone now. Call it after all owners were loaded.
    pub(crate) fn unload_missing(&mut self) {
        let is_gone = |owner: &&Owner| !self.owners.iter().any(|known| known.is_same_unit(owner));
        for owner in self.owners_before.iter().filter(is_gone) {
            // An owner that registers nothing is unloaded.
            match (self.has_person_agreed)(owner) {
                true => self.change.load_agreed(owner.clone(), |_| {}),
                false => self.change.load(owner.clone(), |_| {}),
            };
        }
    }

    /// Records that a person agreed to these changes, which make the policy looser. The allow rules that the
    /// person stored through this process are agreed to as well.
    pub(crate) fn agree_to(&mut self, looser: Vec<String>) {
        let stored = edit::stored_rules().into_iter();
        // `RegistryChange` compares texts. This text must equal its own line about a new allow rule, which
        // `ChangeResult::Held` contains.
        let stored = stored.map(|rule| format!("new: rule `allow {rule}`"));
        let change = std::mem::take(&mut self.change);
        self.change = change.agreed_to(looser.into_iter().chain(stored));
    }

    /// Applies the load to the agent.
    pub(crate) fn apply(self) -> Result<ChangeResult, RegisterError> {
        self.agent.apply(self.change)
    }
}
