//! What folders bring besides settings: skills, commands, agents, and memory files.

use std::path::{Path, PathBuf};

use cotter::{Origin, Owner, Workspace, permission::facts::Facts};
use cotter_files::{
    claude::project::ExtensionFolder,
    extensions::{
        self, LoadContext, LoadedFolder,
        memory::{self, MemoryFiles},
    },
    trust::store::TrustState,
};

use crate::{
    paths as home,
    settings::{SettingsFiles, pending_load::PendingLoad},
    trust::{TrustSources, replace_copy_paths},
};

/// The unit of memory files.
pub(crate) const MEMORY: &str = "memory";

/// What the units of skills, commands and agents that were written for other programs end in: their rules
/// and hooks are a unit of their own.
pub(crate) const OF_OTHERS: &str = " (extensions)";

/// What was found, before an agent has it.
pub(crate) struct Extensions {
    folders: Vec<ExtensionUnit>,
    memory: MemoryFiles,
}

/// The folders of one owner.
struct ExtensionUnit {
    owner: Owner,
    loaded: LoadedFolder,
    /// Where it was read from, and how its author knows it.
    from: (PathBuf, PathBuf),
}

impl Extensions {
    /// The person's own, the project's, and the memory files of the place. What lies in the project is the
    /// project's, whoever names it.
    pub(crate) fn load(
        files: &SettingsFiles,
        workspace: &Workspace,
        standings: &TrustSources,
    ) -> Self {
        let memory = |own: Option<&Path>| {
            let denied = files.denied();
            let allows = |path: &Path| {
                let facts = Facts::reads([path.to_owned()]);
                !denied.iter().any(|rule| rule.matches("read", &facts, workspace))
            };
            memory::load(workspace, own, &allows)
        };
        let own = home::config().filter(|folder| !home::is_brought_by(folder, workspace.project()));
        let mut folders = vec![];
        if let Some(folder) = &own {
            let owner = Owner::new(Origin::User, folder.display().to_string());
            let loaded = extensions::load(folder, &LoadContext::trusted(Origin::User));
            folders.push(ExtensionUnit { owner, loaded, from: (folder.clone(), folder.clone()) });
        }
        folders.extend(files.brings(Origin::User).map(of_others));
        // The nearest comes first: of one name the first stays.
        for (number, found) in
            standings.0.iter().rev().filter(|found| found.is_folder()).enumerate()
        {
            let (folder, loading) = match &found.standing {
                TrustState::Trusted { copy, .. } => (copy, LoadContext::trusted(Origin::Project)),
                _ => (&found.source, LoadContext::untrusted(Origin::Project)),
            };
            let unit = format!("{} ({})", found.source.display(), number + 1);
            let loaded = extensions::load(folder, &loading);
            let from = (folder.clone(), found.source.clone());
            folders.push(ExtensionUnit { owner: Owner::new(Origin::Project, unit), loaded, from });
        }
        folders.extend(files.brings(Origin::Project).map(of_others));
        Extensions { memory: memory(own.as_deref()), folders }
    }

    /// The same without anything of the project's.
    pub(crate) fn safe(mut self) -> Self {
        self.folders.retain(|folder| folder.owner.origin != Origin::Project);
        self.memory = MemoryFiles::default();
        self
    }

    /// The folders of skills, which calls may read though ours are closed.
    pub(crate) fn readable(&self, workspace: Workspace) -> Workspace {
        let folders = self.folders.iter().flat_map(|folder| folder.loaded.skill_folders());
        workspace.with_read_roots(folders.collect::<Vec<PathBuf>>())
    }

    /// Adds all of it to what is loaded.
    pub(crate) fn load_into(self, units: &mut PendingLoad<'_>) {
        let Extensions { folders, memory } = self;
        if !memory.files.is_empty() {
            let owner = Owner::new(Origin::Project, MEMORY);
            units.load(&owner, true, |unit| memory.register(unit));
        }
        for ExtensionUnit { owner, loaded, from: (copy, source) } in folders {
            let mut loaded = loaded.fit(&owner, &mut units.names);
            replace_copy_paths(&mut loaded.diagnostics, &copy, &source);
            units.load(&owner, true, |unit| loaded.register(unit));
            units.tell_of(&source, &loaded.diagnostics);
        }
        units.tell_of(Path::new("memory files"), &memory.diagnostics);
    }

    /// The same without memory files: they are in the system prompt of a run that has begun.
    pub(crate) fn of_a_run(mut self) -> Self {
        self.memory = MemoryFiles::default();
        self
    }
}

/// What was written for other programs, and is used.
fn of_others((owner, brings): (&Owner, &ExtensionFolder)) -> ExtensionUnit {
    let ExtensionFolder { folder, shown, loading, plugin } = brings;
    let loaded = match plugin {
        Some(plugin) => plugin.extensions(folder, loading),
        None => extensions::load(folder, loading),
    };
    let unit = format!("{}{OF_OTHERS}", shown.display());
    let from = (folder.clone(), shown.clone());
    ExtensionUnit { owner: Owner::new(owner.origin.clone(), unit), loaded, from }
}
