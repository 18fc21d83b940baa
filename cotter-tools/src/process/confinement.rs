//! The confinement of a command that a [`Runner`] starts: its call or hook, the workspace and the runner's
//! own folders decide.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsString,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use cotter::{
    Workspace,
    builtin::is_protected,
    fs::git,
    permission::{
        Zone, facts::Facts, file_rules::FileRules, rule::RuleKind, secret_files::is_secret,
    },
};
use cotter_files::{command_hook::ProcessSpec, trust::state};

use crate::{
    confine::{
        Confinement, Network, Sandbox,
        guard::links_above,
        index::{EndCheck, FoundFiles},
        interpreters, is_approved, made_repositories, protect, system,
    },
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
        Confinement::of_call_with(facts, workspace, runner, None)
            .map(|plan| plan.map(|(plan, _)| plan))
    }

    /// Like `of_call`, and enforces the rules about files. Also returns what the walk of the write roots
    /// found.
    pub(crate) fn of_call_with(
        facts: &Facts,
        workspace: &Workspace,
        runner: &Runner,
        rules: Option<&FileRules>,
    ) -> io::Result<Option<(Self, FoundFiles)>> {
        if !runner.confines_zone(facts.zone) {
            return Ok(None);
        }
        let mut plan = Confinement::by_zone(facts, workspace, runner)?;
        // Only paths inside an open one have to be closed; the rest was never open.
        let is_inside_open = |closed: &&Path| {
            let mut open = plan.reads.iter().chain(&plan.writes).chain(system());
            open.any(|root| closed.starts_with(root))
        };
        let closed: Vec<_> = workspace.closed().filter(is_inside_open).map(PathBuf::from).collect();
        // A missing path cannot be hidden. Creating it is prevented as for protected paths.
        plan.protected.extend(closed.iter().filter(|path| !path.exists()).cloned());
        plan.closed = closed;
        let mut found = FoundFiles::default();
        if facts.zone > Zone::Safe {
            found = runner.index().walk(workspace, rules);
            plan.keep_unwritable(&found, facts, workspace);
        }
        if plan.view && facts.zone >= Zone::Build {
            plan.cover(&found, facts, workspace, rules);
            plan.blank = Some(runner.blank()?.into());
        }
        Ok(Some((plan, found)))
    }

    /// What calls of a zone may touch.
    fn by_zone(facts: &Facts, workspace: &Workspace, runner: &Runner) -> io::Result<Self> {
        let mut plan = Confinement {
            network: match facts.zone {
                Zone::Safe | Zone::Workspace | Zone::Build => Network::Off,
                Zone::Network => Network::On,
                _ => Network::WithLocal,
            },
            reads: reads(workspace, runner),
            writes: vec![runner.temp()?.into()],
            aside: Some(runner.aside()?.into()),
            view: runner.why_no_view().is_none(),
            ..Confinement::nothing()
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
        Ok(plan)
    }

    /// Protects what was found deeper in the project, and what rules forbid to write.
    fn keep_unwritable(&mut self, found: &FoundFiles, facts: &Facts, workspace: &Workspace) {
        let is_known = |path: &PathBuf| self.protected.iter().any(|known| path.starts_with(known));
        let mut nested = found.unwritable();
        nested.retain(|path| !is_known(path) && !is_approved(path, facts, workspace));
        let is_named = |path: &PathBuf| facts.writes.iter().any(|written| written == path);
        let fixed =
            found.fixed.iter().filter(|(path, kind)| *kind == RuleKind::Deny || !is_named(path));
        let fixed: Vec<_> = fixed.map(|(path, _)| path.clone()).collect();
        nested.extend(fixed.iter().cloned());
        self.nested = nested;
        // A rule is about a place: what it forbids stays there.
        self.protected.extend(fixed);
    }

    /// Protects the files that hooks run, and the links on the way to them, unless the call was approved to
    /// write them.
    pub(crate) fn protect_declared(&mut self, files: Vec<PathBuf>, facts: &Facts) {
        let is_approved =
            |file: &PathBuf| facts.writes.iter().any(|written| file.starts_with(written));
        let is_file =
            |file: &PathBuf| file.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir());
        let is_writable = |file: &PathBuf| self.writes.iter().any(|root| file.starts_with(root));
        let files = files.into_iter().filter(is_file);
        let links = |file: PathBuf| links_above(&file).chain([file.clone()]).collect::<Vec<_>>();
        let files = files.flat_map(links).filter(|file| is_writable(file) && !is_approved(file));
        let files: Vec<_> = files.collect();
        self.protected.extend(files);
    }

    /// Covers what the call does not name: secrets and what rules forbid to read.
    fn cover(
        &mut self,
        found: &FoundFiles,
        facts: &Facts,
        workspace: &Workspace,
        rules: Option<&FileRules>,
    ) {
        let is_named = |path: &Path| {
            facts.reads.iter().chain(&facts.writes).any(|read| read.starts_with(path))
        };
        let is_allowed =
            |path: &Path| rules.is_some_and(|rules| rules.allows_reading(path, workspace));
        for hidden in &found.hidden {
            let is_open = match hidden.rule {
                Some(RuleKind::Deny) => false,
                Some(_) => is_named(&hidden.path),
                None => is_named(&hidden.path) || is_allowed(&hidden.path),
            };
            if !is_open {
                self.covered.push(hidden.path.clone());
                self.covered.extend(hidden.also.iter().cloned());
            }
        }
        self.covered.extend(found.unlistable.iter().cloned());
        self.covered
            .retain(|path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink()));
        self.covered.extend(closed_to_others().iter().cloned());
    }

    /// The confinement of a hook that came with a project: the rights of a build, and reading its
    /// own folder and what its words need to start.
    pub(crate) fn of_hook(
        job: &ProcessSpec,
        environment: &[(OsString, OsString)],
        runner: &Runner,
    ) -> io::Result<Option<Self>> {
        let ProcessSpec { words, cwd: folder, workspace, .. } = job;
        let plan = Confinement::of_call(&Facts::zone(Zone::Build), workspace, runner)?;
        Ok(plan.map(|mut plan| {
            let home = workspace.home();
            let needed = interpreters::of_command(words, folder, home, environment);
            plan.reads.push(folder.into());
            // A person trusted its code: it may read what the project has.
            plan.covered = closed_to_others().to_vec();
            if plan.view {
                // However a program of the hook starts Python, it reads no file that trust left out.
                plan.covered
                    .extend(job.state.iter().flat_map(|source| state::python_caches(source)));
            }
            let temp_of_commands = runner.temp().ok();
            plan.writes.retain(|path| temp_of_commands != Some(path));
            plan.writes.extend(runner.temp_of_hooks().ok().map(PathBuf::from));
            plan.open_state(job.state.as_deref());
            plan.writes.extend(runner.compiled(true).ok());
            plan.reads.extend(needed.into_iter().filter(|path| !workspace.is_closed(path)));
            plan
        }))
    }
}

impl Confinement {
    /// Opens the state folders of a hook's own folder, as far as they exist.
    fn open_state(&mut self, source: Option<&Path>) {
        let Some(source) = source else { return };
        let folders = state::FOLDERS.map(|name| source.join(name));
        let is_folder = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        self.writes.extend(folders.iter().filter(is_folder).cloned());
        if self.view || !self.protected.iter().any(|path| path == source) {
            return;
        }
        // Without a view the folder would be restored as a whole: its other entries are, one by one.
        self.protected.retain(|path| path != source);
        let entries = std::fs::read_dir(source).into_iter().flatten().flatten();
        let names = LOADED.map(|name| source.join(name)).into_iter();
        let all: BTreeSet<_> = names.chain(entries.map(|entry| entry.path())).collect();
        self.protected.extend(all.into_iter().filter(|path| !folders.contains(path)));
    }
}

/// The entries of a folder of extensions that are loaded: they must not appear either.
const LOADED: [&str; 8] = [
    "settings.json",
    "settings.local.json",
    "hooks",
    "skills",
    "commands",
    "agents",
    "spaces",
    "plugins",
];

impl EndCheck {
    /// The check at the end of a call, which begins now.
    pub(crate) fn of_call(
        facts: &Facts,
        workspace: &Workspace,
        runner: &Runner,
        before: FoundFiles,
    ) -> io::Result<Self> {
        let is_known = |path: &&PathBuf| is_protected(path, workspace);
        let mut approved: Vec<_> = facts.writes.iter().filter(is_known).cloned().collect();
        approved.extend(made_repositories(facts, workspace));
        let (index, has_view) = (runner.index(), runner.why_no_view().is_none());
        Ok(EndCheck::begin(index, workspace, before, approved, runner.aside()?, has_view))
    }
}

impl Runner {
    /// True if this runner confines a call of that zone.
    pub fn confines_zone(&self, zone: Zone) -> bool {
        self.confines() && (zone < Zone::Machine || self.sandbox() == Sandbox::Required)
    }

    /// True if a call of that zone counts as confined. Without a view of the files, code of the
    /// project does only if a person chose so (`"sandbox": "landlock"`). A view that does not know all
    /// files counts as none, because it may show what it should hide.
    pub fn counts_as_confined(&self, zone: Zone, workspace: &Workspace) -> bool {
        let is_enough = || {
            self.sandbox() == Sandbox::Landlock
                || self.why_no_view().is_none() && self.index().is_complete(workspace)
        };
        self.confines_zone(zone) && (zone != Zone::Build || is_enough())
    }

    /// True if a call would run in a view of the files that enforces rules about them: there is one,
    /// and all files of the write roots can be looked at.
    pub fn enforces_file_rules(&self, workspace: &Workspace) -> bool {
        self.confines()
            && self.why_no_view().is_none()
            && self.index().walk(workspace, None).is_complete
    }
}

/// The files and folders in `/etc` that only root or a group may read, found once: root reads there
/// what any user may. Empty for an ordinary user.
fn closed_to_others() -> &'static [PathBuf] {
    static FOUND: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let mut found = vec![];
        let mut pending: Vec<PathBuf> = vec!["/etc".into()];
        while let Some(folder) = pending.pop().filter(|_| rustix::process::geteuid().is_root()) {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_symlink() {
                    continue;
                }
                let wanted = if metadata.is_dir() { 0o5 } else { 0o4 };
                if metadata.mode() & wanted != wanted {
                    found.push(path);
                } else if metadata.is_dir() {
                    pending.push(path);
                }
            }
        }
        found
    });
    &FOUND
}

/// The files in the home folder that hold a person's git identity.
const IDENTITY: [&str; 2] = [".gitconfig", ".config/git"];

/// The most settings files of git that are read for the files they name.
const MAX_GIT_FILES: usize = 8;

/// The largest settings file of git that is read.
const MAX_GIT_SETTINGS: u64 = 1024 * 1024;

/// The files in the home folder that a person's git settings name: ignored names, attributes, more settings.
/// Git complains or fails if it cannot read one. A file that a confined command may write decides nothing, nor
/// does one behind a link, which such a command may have made.
fn named_by_git_settings(home: &Path, is_written: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut settings = vec![home.join(".gitconfig"), home.join(".config/git/config")];
    let (mut found, mut at) = (vec![], 0);
    while at < settings.len().min(MAX_GIT_FILES) {
        let folder = settings[at].parent().unwrap_or(home).to_owned();
        let is_small = |it: &std::fs::Metadata| it.is_file() && it.len() <= MAX_GIT_SETTINGS;
        let text = match std::fs::metadata(&settings[at]).is_ok_and(|it| is_small(&it)) {
            true => std::fs::read_to_string(&settings[at]).unwrap_or_default(),
            false => String::new(),
        };
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.trim().trim_matches('"');
            let path = match value.strip_prefix("~/") {
                Some(below) => home.join(below),
                None => folder.join(value),
            };
            let key = key.trim().to_ascii_lowercase();
            let is_named = ["excludesfile", "attributesfile", "path"].contains(&key.as_str());
            if !is_named || !path.starts_with(home) || is_written(&path) || is_secret(&path) {
                continue;
            }
            if path.is_file() && path.canonicalize().is_ok_and(|real| real == path) {
                if key == "path" {
                    settings.push(path.clone());
                }
                found.push(path);
            }
        }
        at += 1;
    }
    found
}

fn reads(workspace: &Workspace, runner: &Runner) -> Vec<PathBuf> {
    let is_system = |folder: &&Path| system().iter().any(|open| folder.starts_with(open));
    let programs = runner.environment().programs(workspace);
    let mut reads: Vec<PathBuf> =
        programs.filter(|folder| !is_system(folder)).map(PathBuf::from).collect();
    let interpreters = runner.environment().interpreters(workspace.home()).iter();
    reads.extend(interpreters.filter(|path| !workspace.is_closed(path)).cloned());
    reads.extend(workspace.read_roots().map(PathBuf::from));
    reads.extend(runner.caches().iter().cloned());
    if let Some(home) = workspace.home() {
        reads.extend(IDENTITY.map(|name| home.join(name)));
        let is_written = |path: &Path| {
            workspace.write_roots().any(|root| path.starts_with(root))
                || runner.caches().iter().any(|cache| path.starts_with(cache))
        };
        let named = named_by_git_settings(home, is_written).into_iter();
        reads.extend(named.filter(|path| !workspace.is_closed(path)));
    }
    for folder in protect::folders(workspace) {
        reads.extend(git::worktree(&folder).map(|git| git.common));
    }
    reads
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn git_settings_open_no_file_that_a_command_may_have_made() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("work/project")).unwrap();
        let names = ["ignored", "more", "private", "id_rsa", "work/project/ignored", "deep"];
        names.iter().for_each(|name| fs::write(home.join(name), "").unwrap());
        std::os::unix::fs::symlink(home.join("private"), home.join("link")).unwrap();
        fs::write(home.join("more"), "attributesFile = deep").unwrap();
        let named = ["ignored", "link", "id_rsa", "work/project/ignored", "work/../private", "no"];
        let named = named.map(|name| format!("excludesFile = ~/{name}\n")).concat();
        fs::write(home.join(".gitconfig"), named + "path = more\n").unwrap();
        let is_written = |path: &Path| path.starts_with(home.join("work/project"));
        let found = named_by_git_settings(&home, is_written);
        assert_eq!(found, ["ignored", "more", "deep"].map(|name| home.join(name)));
    }
}
