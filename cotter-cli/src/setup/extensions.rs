//! The extensions in folders besides settings: skills, commands, agents, and memory files.

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
    paths,
    settings::{SettingsFiles, pending_load::PendingLoad},
    trust::{TrustSources, replace_copy_paths},
};

/// The owner's unit for memory files.
pub(crate) const MEMORY: &str = "memory";

/// The suffix of units with skills, commands and agents of other programs. The rules and hooks of these
/// programs have a unit of their own.
pub(crate) const CLAUDE_UNIT_SUFFIX: &str = " (extensions)";

/// The extensions that were found, before they are loaded into an agent.
pub(crate) struct Extensions {
    folders: Vec<ExtensionUnit>,
    memory: MemoryFiles,
}

/// The folders of one owner.
struct ExtensionUnit {
    owner: Owner,
    loaded: LoadedFolder,
    /// The folder that was read, and the path that its author knows.
    from: (PathBuf, PathBuf),
}

impl Extensions {
    /// Loads the person's extensions, the project's, and the memory files of the workspace. A folder in the
    /// project belongs to the project, even if the person names it.
    pub(crate) fn load(
        files: &SettingsFiles,
        workspace: &Workspace,
        trust_sources: &TrustSources,
    ) -> Self {
        let memory = |own: Option<&Path>| {
            let denied = files.deny_rules();
            let allows = |path: &Path| {
                let facts = Facts::reads([path.to_owned()]);
                match denied.iter().any(|rule| rule.matches("read", &facts, workspace)) {
                    true => Err("is denied by a rule".to_owned()),
                    false => trust_sources.check_text(path, workspace),
                }
            };
            memory::load(workspace, own, &allows)
        };
        let own = paths::config()
            .filter(|folder| !paths::belongs_to_project(folder, workspace.project()));
        let mut folders = vec![];
        if let Some(folder) = &own {
            let owner = Owner::new(Origin::User, folder.display().to_string());
            let loaded = extensions::load(folder, &LoadContext::trusted(Origin::User));
            folders.push(ExtensionUnit { owner, loaded, from: (folder.clone(), folder.clone()) });
        }
        folders.extend(files.extension_folders(Origin::User).map(load_claude_folder));
        // The nearest folder comes first: if two items have one name, the first is used.
        for (number, found) in
            trust_sources.0.iter().rev().filter(|found| found.is_folder()).enumerate()
        {
            // Nothing of another folder is read: its text would reach the model.
            let TrustState::Trusted { copy, .. } = &found.state else { continue };
            let unit = format!("{} ({})", found.source.display(), number + 1);
            let loaded = extensions::load(copy, &LoadContext::trusted(Origin::Project));
            let from = (copy.clone(), found.source.clone());
            folders.push(ExtensionUnit { owner: Owner::new(Origin::Project, unit), loaded, from });
        }
        folders.extend(files.extension_folders(Origin::Project).map(load_claude_folder));
        Extensions { memory: memory(own.as_deref()), folders }
    }

    /// Removes everything of the project.
    pub(crate) fn without_project(mut self) -> Self {
        self.folders.retain(|folder| folder.owner.origin != Origin::Project);
        self.memory = MemoryFiles::default();
        self
    }

    /// Makes the folders of skills readable, although Cotter's own folders are closed.
    pub(crate) fn readable(&self, workspace: Workspace) -> Workspace {
        let folders = self.folders.iter().flat_map(|folder| folder.loaded.skill_folders());
        workspace.with_read_roots(folders.collect::<Vec<PathBuf>>())
    }

    /// Adds all extensions to the load.
    pub(crate) fn load_into(self, pending_load: &mut PendingLoad<'_>) {
        let Extensions { folders, memory } = self;
        if !memory.files.is_empty() {
            let owner = Owner::new(Origin::Project, MEMORY);
            pending_load.load(&owner, true, |unit| memory.register(unit));
        }
        for ExtensionUnit { owner, loaded, from: (copy, source) } in folders {
            let mut loaded = loaded.drop_taken_names(&owner, &mut pending_load.names);
            replace_copy_paths(&mut loaded.diagnostics, &copy, &source);
            pending_load.load(&owner, true, |unit| loaded.register(unit));
            pending_load.add_diagnostics(&source, &loaded.diagnostics);
        }
        pending_load.add_diagnostics(Path::new("memory files"), &memory.diagnostics);
    }

    /// Removes memory files, which are in the system prompt of a run that has begun.
    pub(crate) fn without_memory(mut self) -> Self {
        self.memory = MemoryFiles::default();
        self
    }
}

/// Loads a folder that was written for another program.
fn load_claude_folder((owner, extension): (&Owner, &ExtensionFolder)) -> ExtensionUnit {
    let ExtensionFolder { folder, shown, loading, plugin } = extension;
    let loaded = match plugin {
        Some(plugin) => plugin.extensions(folder, loading),
        None => extensions::load(folder, loading),
    };
    let unit = format!("{}{CLAUDE_UNIT_SUFFIX}", shown.display());
    let from = (folder.clone(), shown.clone());
    ExtensionUnit { owner: Owner::new(owner.origin.clone(), unit), loaded, from }
}
