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
    /// The confinement of a call, by the facts it was decided on; `None` if it is not confined.
    ///
    /// - zone `safe`: reads; writes only the private temp folder;
    /// - `workspace`, `build`: writes the roots and the caches, without network;
    /// - `network`: as `build`, with the internet;
    /// - `external`: as `network`, and it reads the home folder and uses local sockets, since it
    ///   works with the person's keys;
    /// - `machine`, which a person has approved: not confined, unless the setting is `required`.
    ///   Then as `external`, with exactly the paths of its facts.
    pub fn of_call(
        facts: &Facts,
        workspace: &Workspace,
        runner: &Runner,
    ) -> io::Result<Option<Self>> {
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
            reads: reads(workspace, runner),
            writes: vec![temp.into()],
            guarded_writes: vec![],
            closed: vec![],
            protected: vec![],
            aside: Some(runner.aside()?.into()),
            outlives: false,
        };
        if facts.zone > Zone::Safe {
            plan.writes.extend(workspace.write_roots().map(PathBuf::from));
            plan.writes.extend(runner.caches().iter().cloned());
            plan.open_repositories(facts, workspace);
        }
        let written: HashSet<_> = plan.writes.iter().cloned().collect();
        plan.reads.retain(|path| !written.contains(path));
        if facts.zone >= Zone::External {
            plan.reads.extend(workspace.home().map(PathBuf::from));
        }
        if facts.zone >= Zone::Machine {
            plan.reads.extend(facts.reads.iter().cloned());
            plan.writes.extend(facts.writes.iter().cloned());
        }
        // Only paths inside an open one have to be closed; the rest was never open.
        let is_inside_open = |closed: &&Path| {
            let mut open = plan.reads.iter().chain(&plan.writes).chain(system());
            open.any(|root| closed.starts_with(root))
        };
        let closed: Vec<_> = workspace.closed().filter(is_inside_open).map(PathBuf::from).collect();
        // A missing path cannot be hidden. Creating it is prevented as for protected paths.
        plan.protected.extend(closed.iter().filter(|path| !path.exists()).cloned());
        plan.closed = closed;
        Ok(Some(plan))
    }

    /// The confinement of a hook that came with a project: the rights of a build, and reading its
    /// own folder.
    pub(crate) fn of_hook(
        folder: &Path,
        workspace: &Workspace,
        runner: &Runner,
    ) -> io::Result<Option<Self>> {
        let plan = Confinement::of_call(&Facts::zone(Zone::Build), workspace, runner)?;
        Ok(plan.map(|mut plan| {
            plan.reads.push(folder.into());
            plan
        }))
    }
}

impl Runner {
    /// True if this runner confines a call of that zone.
    pub fn confines_zone(&self, zone: Zone) -> bool {
        self.confines() && (zone < Zone::Machine || self.sandbox() == Sandbox::Required)
    }
}

/// The files in the home folder that hold a person's git identity.
const IDENTITY: [&str; 2] = [".gitconfig", ".config/git"];

fn reads(workspace: &Workspace, runner: &Runner) -> Vec<PathBuf> {
    let is_system = |folder: &&Path| system().iter().any(|open| folder.starts_with(open));
    let programs = runner.environment().programs(workspace);
    let mut reads: Vec<PathBuf> =
        programs.filter(|folder| !is_system(folder)).map(PathBuf::from).collect();
    reads.extend(workspace.read_roots().map(PathBuf::from));
    reads.extend(runner.caches().iter().cloned());
    reads
        .extend(workspace.home().into_iter().flat_map(|home| IDENTITY.map(|name| home.join(name))));
    for folder in protect::folders(workspace) {
        reads.extend(git::worktree(&folder).map(|git| git.common));
    }
    reads
}
