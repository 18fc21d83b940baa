//! The folders and files of a project that may bring something that runs: `.agents`, `.claude`, `.cotter` and `.mcp.json`.

use std::path::{Path, PathBuf};

use crate::trust::store::TrustState;
use cotter::Workspace;

/// What a project's own settings, hooks and servers stand in, the nearest last.
const FOLDERS: [(&str, SourceKind); 3] = [
    (".agents", SourceKind::Agents),
    (".claude", SourceKind::Claude),
    (".cotter", SourceKind::Cotter),
];

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A folder of ours.
    Cotter,
    /// A folder of Claude Code's.
    Claude,
    /// A folder of skills and plugins for any agent.
    Agents,
    /// A file of servers.
    Servers,
}

/// Where a project's own settings, hooks and servers may stand, there or not: the folders `.agents`,
/// `.claude` and `.cotter` from its root down to the working folder, then `.mcp.json`. Those of the person's
/// home folder, which the caller names, are their own.
pub fn possible_sources(workspace: &Workspace, home: Option<&Path>) -> Vec<PathBuf> {
    let project = workspace.project();
    let way = workspace.cwd().ancestors().take_while(|folder| folder.starts_with(project));
    let mut way: Vec<_> = way.collect();
    way.reverse();
    let home = home.and_then(|home| home.canonicalize().ok());
    let is_own =
        |folder: &Path, what| what != SourceKind::Cotter && home.as_deref() == Some(folder);
    let mut sources = vec![];
    for folder in way {
        let ours = FOLDERS.iter().filter(|(_, what)| !is_own(folder, *what));
        sources.extend(ours.map(|(name, _)| folder.join(name)));
    }
    sources.push(project.join(".mcp.json"));
    sources
}

/// One source, and whether somebody trusts it.
pub struct TrustSource {
    /// The folder or file.
    pub source: PathBuf,
    /// Its trust.
    pub standing: TrustState,
}

impl TrustSource {
    /// Whether it is a folder of extensions, not a file by itself.
    pub fn is_folder(&self) -> bool {
        self.kind() != SourceKind::Servers
    }

    /// Whether it is in a format of ours, or of everybody's.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind(), SourceKind::Cotter | SourceKind::Servers)
    }

    /// What it is.
    pub fn kind(&self) -> SourceKind {
        let name = self.source.file_name().unwrap_or_default();
        FOLDERS
            .iter()
            .find(|(known, _)| name == *known)
            .map_or(SourceKind::Servers, |(_, what)| *what)
    }
}
