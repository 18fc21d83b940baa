//! Helpers of the tests in this folder: a scratch project, and an agent that works in it by a
//! script.

use std::path::{Path, PathBuf};

use cotter::{Agent, AgentBuilder, Workspace};
use cotter_test::{ScriptedModel, Step, transcript};
use tempfile::TempDir;

/// A folder `project` in a folder of its own, which is gone with it.
pub(crate) struct Project {
    _folder: TempDir,
    /// The folder around the project: its other files are outside.
    pub(crate) outside: PathBuf,
    pub(crate) root: PathBuf,
}

impl Project {
    /// A project with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let outside = folder.path().canonicalize().expect("it is there");
        let root = outside.join("project");
        std::fs::create_dir(&root).expect("it is new");
        let project = Project { _folder: folder, outside, root };
        for (path, text) in files {
            project.put(path, text);
        }
        project
    }

    /// Puts a file there, with the folders round it.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        std::fs::write(path, bytes).expect("it can be written");
    }

    /// The content of a file, with unusual line ends made visible.
    pub(crate) fn get(&self, path: &str) -> String {
        let bytes = std::fs::read(self.root.join(path)).expect("it is there");
        String::from_utf8_lossy(&bytes).replace('\r', "\\r")
    }

    /// Everything in the project, a path each, in order.
    pub(crate) fn tree(&self) -> String {
        fn add(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).expect("it is a folder").flatten() {
                let path = entry.path();
                found.push(path.strip_prefix(root).expect("it is below").display().to_string());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    add(&path, root, found);
                }
            }
        }
        let mut found = vec![];
        add(&self.root, &self.root, &mut found);
        found.sort();
        found.join(" ")
    }

    /// An agent that works in the project with a scripted model.
    pub(crate) fn agent(&self, steps: impl IntoIterator<Item = Step>) -> AgentBuilder {
        let steps = steps.into_iter().chain([Step::text("done")]);
        Agent::builder(ScriptedModel::new(steps)).workspace(Workspace::new(&self.root))
    }

    /// Runs an agent and tells the whole conversation but for its first and last line. Paths of this
    /// machine are left out.
    pub(crate) async fn run(&self, agent: AgentBuilder) -> String {
        let agent = agent.build().expect("it is well made");
        agent.process_request("go").await.expect("it runs to its end");
        let session = agent.main_session().await.expect("it is open");
        let told = transcript(&session).replace(&*self.outside.to_string_lossy(), "OUTSIDE");
        let told = told.replace('\r', "\\r");
        let told = told.strip_prefix("user: go\n").unwrap_or(&told);
        told.strip_suffix("assistant: done\n").unwrap_or(told).to_owned()
    }
}
