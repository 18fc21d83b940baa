//! The folders and files of a project that may declare something that runs: `.agents`, `.claude`, `.cotter`
//! and `.mcp.json`.

use std::path::{Path, PathBuf};

use crate::trust::store::TrustState;
use cotter::Workspace;

/// The folder names of sources in a project, with the nearest one last.
const FOLDERS: [(&str, SourceKind); 3] = [
    (".agents", SourceKind::Agents),
    (".claude", SourceKind::Claude),
    (".cotter", SourceKind::Cotter),
];

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A Cotter folder.
    Cotter,
    /// A Claude Code folder.
    Claude,
    /// A folder of skills and plugins for any agent.
    Agents,
    /// A file that declares MCP servers.
    Servers,
}

/// The paths of all possible sources of a project, whether they exist or not: the folders `.agents`,
/// `.claude` and `.cotter` from its root down to the working folder, then `.mcp.json`. `.agents` and
/// `.claude` in the home folder are not sources, because they belong to the user.
pub fn possible_sources(workspace: &Workspace, home: Option<&Path>) -> Vec<PathBuf> {
    let project = workspace.project();
    let folders = workspace.cwd().ancestors().take_while(|folder| folder.starts_with(project));
    let mut folders: Vec<_> = folders.collect();
    folders.reverse();
    let home = home.and_then(|home| home.canonicalize().ok());
    let is_of_user =
        |folder: &Path, kind| kind != SourceKind::Cotter && home.as_deref() == Some(folder);
    let mut sources = vec![];
    for folder in folders {
        let names = FOLDERS.iter().filter(|(_, kind)| !is_of_user(folder, *kind));
        sources.extend(names.map(|(name, _)| folder.join(name)));
    }
    sources.push(project.join(".mcp.json"));
    sources
}

/// A source and its trust.
pub struct TrustSource {
    /// The folder or file.
    pub source: PathBuf,
    /// The trust of the source.
    pub state: TrustState,
}

impl TrustSource {
    /// True if the source is a folder of extensions, not a single file.
    pub fn is_folder(&self) -> bool {
        self.kind() != SourceKind::Servers
    }

    /// True if the source has a format of Cotter, or the common format of `.mcp.json`.
    pub fn has_cotter_format(&self) -> bool {
        matches!(self.kind(), SourceKind::Cotter | SourceKind::Servers)
    }

    /// The kind of this source.
    pub fn kind(&self) -> SourceKind {
        let name = self.source.file_name().unwrap_or_default();
        FOLDERS
            .iter()
            .find(|(known, _)| name == *known)
            .map_or(SourceKind::Servers, |(_, kind)| *kind)
    }
}
