//! Everything that files bring, collected owner by owner and applied to an agent in one step.

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
    paths::operator_switches as switches,
    settings::{edit as own_settings, file_report as about, file_report::FileReport},
};

/// Everything that is loaded together, whose it is, and what is to be said about it.
pub(crate) struct PendingLoad<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) starts: Arc<dyn HookHost>,
    pub(crate) names: TakenNames,
    pub(crate) owners: Vec<Owner>,
    pub(crate) told: Vec<String>,
    /// Everything that is said about files, grave or not.
    pub(crate) about: Vec<FileReport>,
    change: RegistryChange,
    /// Who was loaded before.
    before: Vec<Owner>,
    /// Which hooks are left out.
    off: Option<DisabledHooks>,
    /// Whether a person said already that this owner's is to be so.
    is_said: Box<dyn Fn(&Owner) -> bool + 'a>,
}

impl<'a> PendingLoad<'a> {
    /// What an agent begins with: whoever started it agrees to it.
    pub(crate) fn at_the_start(
        agent: &'a Agent,
        starts: Arc<dyn HookHost>,
    ) -> Result<Self, CliError> {
        PendingLoad::new(agent, starts, &[], |_| true)
    }

    pub(crate) fn new(
        agent: &'a Agent,
        starts: Arc<dyn HookHost>,
        before: &[Owner],
        is_said: impl Fn(&Owner) -> bool + 'a,
    ) -> Result<Self, CliError> {
        Ok(PendingLoad {
            agent,
            starts,
            names: TakenNames::of(agent, before),
            owners: vec![],
            told: vec![],
            about: vec![],
            change: RegistryChange::new().of_files(),
            before: before.to_vec(),
            off: switches::hooks_off()?,
            is_said: Box::new(is_said),
        })
    }

    /// Loads what an owner has, in place of what they had.
    pub(crate) fn load(
        &mut self,
        owner: &Owner,
        agreed: bool,
        extension: impl FnOnce(&mut Registry),
    ) {
        let agreed = agreed || (self.is_said)(owner);
        // What changed since it was trusted may not rewrite; what a run began with stays as it was.
        let rewrites = |owner: &Owner| owner.may(Power::Transform);
        let known = self.before.iter().find(|known| known.is(owner) && rewrites(known));
        if let Some(known) = known.filter(|_| !agreed && !rewrites(owner)) {
            self.owners.push(known.clone());
            return;
        }
        self.owners.push(owner.clone());
        let (off, mut left_out) = (self.off, vec![]);
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
            self.told.push(format!(
                "hooks are switched off by `COTTER_DISABLE_HOOKS`: {owner} is without {}",
                names.join(", ")
            ));
        }
    }

    /// Keeps what authors should hear of the files of a folder.
    pub(crate) fn tell_of(&mut self, folder: &Path, diagnostics: &[Diagnostic]) {
        self.about.push(FileReport::new(folder, diagnostics.to_vec()));
    }

    /// What is said at a start.
    pub(crate) fn in_short(&self) -> Vec<String> {
        self.told.iter().cloned().chain(about::in_short(&self.about)).collect()
    }

    /// Those who were there and are no longer.
    pub(crate) fn drop_others(&mut self, before: &[Owner]) {
        let loaded = self.owners.clone();
        let is_gone = |owner: &&Owner| !loaded.iter().any(|known| known.is(owner));
        for owner in before.iter().filter(is_gone) {
            match (self.is_said)(owner) {
                true => self.change.load_agreed(owner.clone(), |_| {}),
                false => self.change.load(owner.clone(), |_| {}),
            };
        }
    }

    /// A person agreed to this already, in these words, and to the rules that they had written down.
    pub(crate) fn agree_to(&mut self, looser: Vec<String>) {
        let said = own_settings::said().into_iter();
        let said = said.map(|rule| format!("new: rule `allow {rule}`"));
        let change = std::mem::take(&mut self.change);
        self.change = change.agreed_to(looser.into_iter().chain(said));
    }

    /// Makes it so.
    pub(crate) fn apply(self) -> Result<ChangeResult, RegisterError> {
        self.agent.apply(self.change)
    }
}
