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

/// A load of several owners at once, with its messages.
pub(crate) struct PendingLoad<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) hook_host: Arc<dyn HookHost>,
    pub(crate) names: TakenNames,
    pub(crate) owners: Vec<Owner>,
    pub(crate) messages: Vec<String>,
    /// All diagnostics about files, of every severity.
    pub(crate) reports: Vec<FileReport>,
    change: RegistryChange,
    /// The owners that were loaded before.
    before: Vec<Owner>,
    /// The class of hooks that is disabled.
    disabled_hooks: Option<DisabledHooks>,
    /// Returns true if a person already agreed to what this owner registers.
    is_agreed: Box<dyn Fn(&Owner) -> bool + 'a>,
}

impl<'a> PendingLoad<'a> {
    /// Creates the first load of an agent. The person who starts the agent agrees to all of it.
    pub(crate) fn first_load(
        agent: &'a Agent,
        hook_host: Arc<dyn HookHost>,
    ) -> Result<Self, CliError> {
        PendingLoad::new(agent, hook_host, &[], |_| true)
    }

    pub(crate) fn new(
        agent: &'a Agent,
        hook_host: Arc<dyn HookHost>,
        before: &[Owner],
        is_agreed: impl Fn(&Owner) -> bool + 'a,
    ) -> Result<Self, CliError> {
        Ok(PendingLoad {
            agent,
            hook_host,
            names: TakenNames::of(agent, before),
            owners: vec![],
            messages: vec![],
            reports: vec![],
            change: RegistryChange::new().caused_by_files(),
            before: before.to_vec(),
            disabled_hooks: operator_switches::read_disabled_hooks()?,
            is_agreed: Box::new(is_agreed),
        })
    }

    /// Loads the contents of an owner, in place of its earlier contents.
    pub(crate) fn load(
        &mut self,
        owner: &Owner,
        agreed: bool,
        extension: impl FnOnce(&mut Registry),
    ) {
        let agreed = agreed || (self.is_agreed)(owner);
        // An owner whose contents changed since they were trusted may not rewrite. A run keeps the contents
        // that it began with.
        let rewrites = |owner: &Owner| owner.may(Power::Transform);
        let earlier =
            self.before.iter().find(|earlier| earlier.is_same_unit(owner) && rewrites(earlier));
        if let Some(earlier) = earlier.filter(|_| !agreed && !rewrites(owner)) {
            self.owners.push(earlier.clone());
            return;
        }
        self.owners.push(owner.clone());
        let (off, mut left_out) = (self.disabled_hooks, vec![]);
        let extension = |unit: &mut Registry| {
            extension(unit);
            left_out = off.map(|off| unit.leave_out_hooks(off)).unwrap_or_default();
        };
        match agreed {
            true => self.change.load_agreed(owner.clone(), extension),
            false => self.change.load(owner.clone(), extension),
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

    /// Unloads the owners that were loaded before and are gone now.
    pub(crate) fn unload_missing(&mut self, before: &[Owner]) {
        let loaded = self.owners.clone();
        let is_gone = |owner: &&Owner| !loaded.iter().any(|known| known.is_same_unit(owner));
        for owner in before.iter().filter(is_gone) {
            match (self.is_agreed)(owner) {
                true => self.change.load_agreed(owner.clone(), |_| {}),
                false => self.change.load(owner.clone(), |_| {}),
            };
        }
    }

    /// Records that a person agreed to these changes, which make the policy looser, and to the rules that
    /// they had stored.
    pub(crate) fn agree_to(&mut self, looser: Vec<String>) {
        let stored = edit::stored_rules().into_iter();
        let stored = stored.map(|rule| format!("new: rule `allow {rule}`"));
        let change = std::mem::take(&mut self.change);
        self.change = change.agreed_to(looser.into_iter().chain(stored));
    }

    /// Applies the load to the agent.
    pub(crate) fn apply(self) -> Result<ChangeResult, RegisterError> {
        self.agent.apply(self.change)
    }
}
