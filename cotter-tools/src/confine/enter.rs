//! What a forked process does to itself before it becomes the command: fewer rights, for good.

use std::{
    fs,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, configure_capability_in_ambient_set,
    set_capabilities_secure_bits,
};

use crate::confine::{Confinement, Network, filter, system};

/// Below this a file could be emptied that may not be written.
const AT_LEAST: ABI = ABI::V3;
/// What is asked for where the kernel has it.
const AT_BEST: ABI = ABI::V7;

/// Devices that are nothing but a place to write to.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Whether this kernel can do what is needed.
pub(crate) fn check() -> Result<(), String> {
    ruleset(Network::Off).map_err(|_| {
        "this kernel has no Landlock, or too old a one (Linux 6.2 is needed)".to_owned()
    })?;
    filter::check()
}

/// Looks up what is the same for every call, so that no call has to.
pub(crate) fn prepare() {
    filter::prepare();
    system();
}

/// What can be done for a call before it comes: the rules that most have in common.
pub(crate) struct PreparedSandbox(Option<RulesetCreated>);

impl PreparedSandbox {
    pub(crate) fn new() -> Self {
        PreparedSandbox(with_system(Network::Off, |rules, path| open(rules, path, reading())).ok())
    }

    /// The rules, where they are the beginning of what that call needs.
    fn of(&mut self, confinement: &Confinement) -> Option<RulesetCreated> {
        let closed = |path: &PathBuf| confinement.closed.iter().any(|one| one.starts_with(path));
        let fits = confinement.network == Network::Off && !system().iter().any(closed);
        self.0.take().filter(|_| fits)
    }
}

impl Confinement {
    /// Confines this process and all it starts. `mounted` says whether what is closed was already
    /// hidden by mounts.
    pub(crate) fn enter(
        &self,
        mounted: bool,
        prepared: &mut PreparedSandbox,
    ) -> Result<(), String> {
        lose_capabilities();
        rustix::thread::set_no_new_privs(true).map_err(|cause| cause.to_string())?;
        self.landlock(mounted, prepared).map_err(|cause| format!("Landlock: {cause}"))?;
        filter::apply(self.calls, self.network)
    }

    fn landlock(&self, mounted: bool, prepared: &mut PreparedSandbox) -> Result<(), RulesetError> {
        let mut rules = match prepared.of(self) {
            Some(rules) => rules,
            None => {
                let open = |rules, path: &Path| self.open(rules, path, reading(), mounted);
                with_system(self.network, open)?
            }
        };
        let read = reading();
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
        let write = AccessFs::from_all(AT_BEST) & !devices;
        let guarded = if mounted { write } else { read };
        for (paths, access) in
            [(&self.reads, read), (&self.writes, write), (&self.guarded_writes, guarded)]
        {
            for path in paths {
                rules = self.open(rules, path, access, mounted)?;
            }
        }
        rules.restrict_self().map(drop)
    }

    /// Opens a path, but for what is closed in it.
    fn open(
        &self,
        rules: RulesetCreated,
        path: &Path,
        access: BitFlags<AccessFs>,
        mounted: bool,
    ) -> Result<RulesetCreated, RulesetError> {
        // Mounts hide what is behind a link. The link itself could be replaced: it is a hole for both.
        let is_hole = |closed: &&PathBuf| {
            let is_link = || closed.symlink_metadata().is_ok_and(|about| about.is_symlink());
            closed.starts_with(path) && (!mounted || is_link())
        };
        if !self.closed.iter().any(|closed| is_hole(&closed)) {
            return open(rules, path, access);
        }
        // Names can be listed; nothing more is open here than what each entry gets.
        let mut rules = open(rules, path, AccessFs::ReadDir.into())?;
        for entry in entries(path) {
            // A link is not opened for where it leads.
            let link = entry.symlink_metadata().is_ok_and(|about| about.is_symlink());
            if !link && !self.closed.contains(&entry) {
                rules = self.open(rules, &entry, access, mounted)?;
            }
        }
        Ok(rules)
    }
}

/// Rules by which the system can be read, each path opened as it is said.
fn with_system(
    network: Network,
    open_one: impl Fn(RulesetCreated, &Path) -> Result<RulesetCreated, RulesetError>,
) -> Result<RulesetCreated, RulesetError> {
    let mut rules = ruleset(network)?;
    for path in system() {
        rules = open_one(rules, path)?;
    }
    for device in DEVICES {
        rules = open(rules, Path::new(device), AccessFs::WriteFile | AccessFs::ReadFile)?;
    }
    Ok(rules)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(AT_BEST)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn ruleset(network: Network) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(AT_LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(AT_BEST))?
        .scope(match network {
            Network::WithLocal => Scope::Signal.into(),
            _ => Scope::from_all(AT_BEST),
        })?;
    match network {
        Network::Off => rules.handle_access(AccessNet::from_all(AT_BEST))?.create(),
        _ => rules.create(),
    }
}

/// Opens a path; one that is not there opens nothing. Of a file only what can be done to one is opened.
fn open(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(opened) => rules.add_rule(PathBeneath::new(opened, access)),
        Err(_) => Ok(rules),
    }
}

/// Root, too, keeps only what an ordinary command needs: what follows gives it nothing for being root.
fn lose_capabilities() {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::NET_BIND_SERVICE;
    let Ok(mut had) = rustix::thread::capabilities(None) else { return };
    if had.permitted.is_empty() {
        return;
    }
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    let _ = set_capabilities_secure_bits(bits);
    had.permitted &= kept;
    had.effective &= kept;
    had.inheritable = had.permitted;
    let _ = rustix::thread::set_capabilities(None, had);
    for one in had.permitted.iter() {
        let _ = configure_capability_in_ambient_set(one, true);
    }
}
