//! The confinement of a command that a [`Runner`] starts: its call or hook, the workspace and the runner's
//! own folders decide.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use cotter::{
    Workspace,
    fs::git,
    permission::{Zone, facts::Facts},
};

use crate::{
    confine::{Confinement, Network, Sandbox, SyscallSet, protect, system},
    process::Runner,
};

impl Confinement {
    /// The confinement of a call, by the facts it was judged on; `None` where nothing confines it.
    ///
    /// - zone `safe`: it reads and writes nothing but the private temp folder;
    /// - `workspace`, `build`: it writes to the roots and the caches, without network;
    /// - `network`: the same with the internet;
    /// - `external`: besides, it reads the home folder and speaks to local sockets, for it works with
    ///   the person's keys;
    /// - `machine`, which a person has approved: nothing confines it, unless the setting is `required`.
    ///   Then it is as `external`, with the very paths it was judged to touch.
    pub fn of_call(facts: &Facts, place: &Workspace, runner: &Runner) -> io::Result<Option<Self>> {
        if !runner.confines_zone(facts.zone) {
            return Ok(None);
        }
        let temp = runner.temp()?;
        let mut plan = Confinement {
            calls: SyscallSet::Few,
            network: match facts.zone {
                Zone::Safe | Zone::Workspace | Zone::Build => Network::Off,
                Zone::Network => Network::On,
                _ => Network::WithLocal,
            },
            reads: reads(place, runner),
            writes: vec![temp.into()],
            guarded_writes: vec![],
            closed: vec![],
            protected: vec![],
            aside: Some(runner.aside()?.into()),
            outlives: false,
        };
        if facts.zone > Zone::Safe {
            plan.writes.extend(place.write_roots().map(PathBuf::from));
            plan.writes.extend(runner.caches().iter().cloned());
            plan.open_repositories(facts, place);
        }
        let written: HashSet<_> = plan.writes.iter().cloned().collect();
        plan.reads.retain(|path| !written.contains(path));
        if facts.zone >= Zone::External {
            plan.reads.extend(place.home().map(PathBuf::from));
        }
        if facts.zone >= Zone::Machine {
            plan.reads.extend(facts.reads.iter().cloned());
            plan.writes.extend(facts.writes.iter().cloned());
        }
        // Only what lies in something open has to be closed; the rest was never open.
        let inside_of_open = |closed: &&Path| {
            let mut open = plan.reads.iter().chain(&plan.writes).chain(system());
            open.any(|root| closed.starts_with(root))
        };
        let closed: Vec<_> = place.closed().filter(inside_of_open).map(PathBuf::from).collect();
        // What is not there cannot be hidden; that nobody makes it is seen to like for protected paths.
        plan.protected.extend(closed.iter().filter(|path| !path.exists()).cloned());
        plan.closed = closed;
        Ok(Some(plan))
    }

    /// The confinement of a hook that came with a project: that of a build, and its own folder to read.
    pub(crate) fn of_hook(
        folder: &Path,
        place: &Workspace,
        runner: &Runner,
    ) -> io::Result<Option<Self>> {
        let plan = Confinement::of_call(&Facts::zone(Zone::Build), place, runner)?;
        Ok(plan.map(|mut plan| {
            plan.reads.push(folder.into());
            plan
        }))
    }
}

impl Runner {
    /// Tells if this runner confines a call of a zone.
    pub fn confines_zone(&self, zone: Zone) -> bool {
        self.confines() && (zone < Zone::Machine || self.sandbox() == Sandbox::Required)
    }
}

/// The files of the home folder that tell git a person's name.
const IDENTITY: [&str; 2] = [".gitconfig", ".config/git"];

fn reads(place: &Workspace, runner: &Runner) -> Vec<PathBuf> {
    let of_the_system = |folder: &&Path| system().iter().any(|open| folder.starts_with(open));
    let programs = runner.environment().programs(place);
    let mut reads: Vec<PathBuf> =
        programs.filter(|folder| !of_the_system(folder)).map(PathBuf::from).collect();
    reads.extend(place.read_roots().map(PathBuf::from));
    reads.extend(runner.caches().iter().cloned());
    reads.extend(place.home().into_iter().flat_map(|home| IDENTITY.map(|name| home.join(name))));
    for folder in protect::folders(place) {
        reads.extend(git::worktree(&folder).map(|git| git.common));
    }
    reads
}
