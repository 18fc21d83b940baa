//! The steps by which a forked process gives up rights before it becomes the command. They cannot
//! be undone.

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

/// The oldest usable ABI. Older ones cannot stop a command from truncating a file it may not write.
const MIN_ABI: ABI = ABI::V3;
/// The newest ABI that is used if the kernel has it.
const BEST_ABI: ABI = ABI::V7;

/// Devices that are safe to write.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Checks that this kernel has the needed features.
pub(crate) fn check() -> Result<(), String> {
    ruleset(Network::Off).map_err(|_| {
        "this kernel has no Landlock, or its Landlock is too old (Linux 6.2 is needed)".to_owned()
    })?;
    filter::check()
}

/// Computes the data that is equal for every call, so that no call has to.
pub(crate) fn prepare() {
    filter::prepare();
    system();
}

/// Rules made before a call arrives: those that most calls share.
pub(crate) struct PreparedSandbox(Option<RulesetCreated>);

impl PreparedSandbox {
    pub(crate) fn new() -> Self {
        PreparedSandbox(with_system(Network::Off, |rules, path| open(rules, path, reading())).ok())
    }

    /// The prepared rules, if the call's rules begin with them.
    fn take_for(&mut self, confinement: &Confinement) -> Option<RulesetCreated> {
        let closed =
            |path: &PathBuf| confinement.closed.iter().any(|closed| closed.starts_with(path));
        let fits = confinement.network == Network::Off && !system().iter().any(closed);
        self.0.take().filter(|_| fits)
    }
}

impl Confinement {
    /// Confines this process and all it starts. `is_mounted`: closed paths are already hidden by
    /// mounts.
    pub(crate) fn enter(
        &self,
        is_mounted: bool,
        prepared: &mut PreparedSandbox,
    ) -> Result<(), String> {
        drop_capabilities();
        rustix::thread::set_no_new_privs(true).map_err(|cause| cause.to_string())?;
        self.landlock(is_mounted, prepared).map_err(|cause| format!("Landlock: {cause}"))?;
        filter::apply(self.calls, self.network)
    }

    fn landlock(
        &self,
        is_mounted: bool,
        prepared: &mut PreparedSandbox,
    ) -> Result<(), RulesetError> {
        let mut rules = match prepared.take_for(self) {
            Some(rules) => rules,
            None => {
                let open = |rules, path: &Path| self.open(rules, path, reading(), is_mounted);
                with_system(self.network, open)?
            }
        };
        let read = reading();
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
        let write = AccessFs::from_all(BEST_ABI) & !devices;
        let guarded = if is_mounted { write } else { read };
        for (paths, access) in
            [(&self.reads, read), (&self.writes, write), (&self.guarded_writes, guarded)]
        {
            for path in paths {
                rules = self.open(rules, path, access, is_mounted)?;
            }
        }
        rules.restrict_self().map(drop)
    }

    /// Opens a path, except for the closed paths in it.
    fn open(
        &self,
        rules: RulesetCreated,
        path: &Path,
        access: BitFlags<AccessFs>,
        is_mounted: bool,
    ) -> Result<RulesetCreated, RulesetError> {
        // Mounts hide the target of a link. The link itself could be replaced, so it counts as
        // closed in both cases.
        let is_inside = |closed: &&PathBuf| {
            let is_link = || closed.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
            closed.starts_with(path) && (!is_mounted || is_link())
        };
        if !self.closed.iter().any(|closed| is_inside(&closed)) {
            return open(rules, path, access);
        }
        // Names can be listed; everything else is opened entry by entry.
        let mut rules = open(rules, path, AccessFs::ReadDir.into())?;
        for entry in entries(path) {
            // A link is not opened for its target.
            let link = entry.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
            if !link && !self.closed.contains(&entry) {
                rules = self.open(rules, &entry, access, is_mounted)?;
            }
        }
        Ok(rules)
    }
}

/// Rules that open the system for reading, each path by `open_path`.
fn with_system(
    network: Network,
    open_path: impl Fn(RulesetCreated, &Path) -> Result<RulesetCreated, RulesetError>,
) -> Result<RulesetCreated, RulesetError> {
    let mut rules = ruleset(network)?;
    for path in system() {
        rules = open_path(rules, path)?;
    }
    for device in DEVICES {
        rules = open(rules, Path::new(device), AccessFs::WriteFile | AccessFs::ReadFile)?;
    }
    Ok(rules)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(BEST_ABI)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn ruleset(network: Network) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(MIN_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(BEST_ABI))?
        .scope(match network {
            Network::WithLocal => Scope::Signal.into(),
            _ => Scope::from_all(BEST_ABI),
        })?;
    match network {
        Network::Off => rules.handle_access(AccessNet::from_all(BEST_ABI))?.create(),
        _ => rules.create(),
    }
}

/// Opens a path; a missing path opens nothing. For a file, only file rights are opened.
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

/// Drops capabilities of root except those of an ordinary command, so that exec gives root no more.
fn drop_capabilities() {
    let allowed = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::NET_BIND_SERVICE;
    let Ok(mut current) = rustix::thread::capabilities(None) else { return };
    if current.permitted.is_empty() {
        return;
    }
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    let _ = set_capabilities_secure_bits(bits);
    current.permitted &= allowed;
    current.effective &= allowed;
    current.inheritable = current.permitted;
    let _ = rustix::thread::set_capabilities(None, current);
    for capability in current.permitted.iter() {
        let _ = configure_capability_in_ambient_set(capability, true);
    }
}
