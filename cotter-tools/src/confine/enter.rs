//! The steps by which a forked process gives up rights before it becomes the command. They cannot
//! be undone.

use std::{
    fs,
    os::unix::fs::MetadataExt,
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

use crate::confine::{Confinement, Network, SyscallSet, filter, mounts::PreparedView, system};

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

/// What is made before a call arrives, because most calls need it: rules, and a view of the files.
pub(crate) struct PreparedSandbox {
    rules: Option<RulesetCreated>,
    view: Option<PreparedView>,
}

impl PreparedSandbox {
    /// Makes the rules, and a view if calls will want one.
    pub(crate) fn new(wants_view: bool) -> Self {
        let rules = with_system(Network::Off, |rules, path| open(rules, path, reading())).ok();
        let view = if wants_view { PreparedView::new().ok() } else { None };
        PreparedSandbox { rules, view }
    }

    /// Makes the view that a call needs, unless there is a current one.
    pub(crate) fn renew_view(&mut self) -> Result<(), String> {
        if self.view.as_ref().is_none_or(PreparedView::is_stale) {
            self.view = Some(PreparedView::new()?);
        }
        Ok(())
    }

    /// The prepared rules, if the call's rules begin with them.
    fn take_for(&mut self, confinement: &Confinement) -> Option<RulesetCreated> {
        let closed =
            |path: &PathBuf| confinement.closed.iter().any(|closed| closed.starts_with(path));
        let fits = confinement.network == Network::Off && !system().iter().any(closed);
        self.rules.take().filter(|_| fits)
    }
}

impl Confinement {
    /// Gives this process and all it starts its view of the files, if it has one.
    pub(crate) fn enter_prepared_view(&self, prepared: &PreparedSandbox) -> Result<(), String> {
        match (&prepared.view, self.view) {
            (_, false) => Ok(()),
            (Some(view), true) => self.enter_view(view),
            (None, true) => Err("it has no view of the files".into()),
        }
    }

    /// Confines this process and all it starts, after it has entered its view.
    pub(crate) fn enter(&self, prepared: &mut PreparedSandbox) -> Result<(), String> {
        self.drop_capabilities();
        rustix::thread::set_no_new_privs(true).map_err(|cause| cause.to_string())?;
        self.landlock(self.view, prepared).map_err(|cause| format!("Landlock: {cause}"))?;
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

impl Confinement {
    /// Drops the capabilities of root, so that exec gives none back either.
    fn drop_capabilities(&self) {
        let allowed = self.capabilities();
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

    /// The capabilities that root keeps. A program chosen by a person keeps those of an ordinary
    /// command of root. The agent's commands keep none: files of root can be written without. If a
    /// write root belongs to another user, as a folder of the host in a container does, those that
    /// files need are kept, but only in a view, which limits them to the write roots.
    fn capabilities(&self) -> CapabilitySet {
        let files = CapabilitySet::CHOWN
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::FOWNER
            | CapabilitySet::FSETID;
        if self.calls == SyscallSet::Most {
            return files
                | CapabilitySet::KILL
                | CapabilitySet::SETGID
                | CapabilitySet::SETUID
                | CapabilitySet::NET_BIND_SERVICE;
        }
        let user = rustix::process::geteuid().as_raw();
        let is_foreign =
            |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.uid() != user);
        let needs_files = user == 0 && self.view && self.writes.iter().any(is_foreign);
        if needs_files { files } else { CapabilitySet::empty() }
    }
}
