//! The folders and files of a project that may declare something that runs: `.agents`, `.claude` and its local
//! settings, `.cotter` and `.mcp.json`.

use std::path::{Path, PathBuf};

use crate::trust::{state::LOCAL_SETTINGS, store::TrustState};
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
    /// The local settings of a Claude Code folder, which belong to one person.
    LocalSettings,
    /// A folder of skills and plugins for any agent.
    Agents,
    /// A file that declares MCP servers.
    Servers,
}

/// The paths of all possible sources of a project, whether they exist or not: the folders `.agents`,
/// `.claude` with its local settings, and `.cotter` from its root down to the working folder, then
/// `.mcp.json`. `.agents` and `.claude` in the home folder are not sources, because they belong to the user.
pub fn possible_sources(workspace: &Workspace, home: Option<&Path>) -> Vec<PathBuf> {
    let project = workspace.project();
    let folders = workspace.cwd().ancestors().take_while(|folder| folder.starts_with(project));
    let mut folders: Vec<_> = folders.collect();
    folders.reverse();
    let home = home.and_then(|home| home.canonicalize().ok());
    let mut sources = vec![];
    for folder in folders {
        let names = FOLDERS.iter().map(|(name, _)| folder.join(name));
        for source in names.filter(|source| !is_of_user(source, home.as_deref())) {
            let local = source.ends_with(".claude").then(|| source.join(LOCAL_SETTINGS));
            sources.push(source);
            sources.extend(local);
        }
    }
    sources.push(project.join(".mcp.json"));
    sources
}

/// The outermost folder of a project on the way to a path that needs trust, at any depth and whether it is a
/// source of this run or not.
pub fn folder_that_needs_trust(
    path: &Path,
    workspace: &Workspace,
    home: Option<&Path>,
) -> Option<PathBuf> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let inside = path.ancestors().take_while(|above| above.starts_with(workspace.project()));
    let needs_trust = |above: &&Path| {
        let name = above.file_name().unwrap_or_default();
        FOLDERS.iter().any(|(known, _)| name == *known) && !is_of_user(above, home.as_deref())
    };
    inside.filter(needs_trust).last().map(Path::to_owned)
}

/// The folder whose source this is: the one that the source is in. `None` if the name is not that of a source.
pub(crate) fn project_of(source: &Path) -> Option<&Path> {
    let (name, parent) = (source.file_name()?, source.parent()?);
    if name == LOCAL_SETTINGS && parent.ends_with(".claude") {
        return parent.parent();
    }
    let is_source = name == ".mcp.json" || FOLDERS.iter().any(|(known, _)| name == *known);
    is_source.then_some(parent)
}

/// True for the user's own `.agents` and `.claude`, which are in the home folder.
fn is_of_user(source: &Path, home: Option<&Path>) -> bool {
    home.is_some() && source.parent() == home && !source.ends_with(".cotter")
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
        !matches!(self.kind(), SourceKind::Servers | SourceKind::LocalSettings)
    }

    /// True if the source has a format of Cotter, or the common format of `.mcp.json`.
    pub fn has_cotter_format(&self) -> bool {
        matches!(self.kind(), SourceKind::Cotter | SourceKind::Servers)
    }

    /// True if the source is trusted, and the file at this path is part of what was trusted.
    pub fn has_text(&self, path: &Path) -> bool {
        let TrustState::Trusted { copy, .. } = &self.state else { return false };
        path.strip_prefix(&self.source).is_ok_and(|inside| copy.join(inside).is_file())
    }

    /// The kind of this source.
    pub fn kind(&self) -> SourceKind {
        let name = self.source.file_name().unwrap_or_default();
        if name == LOCAL_SETTINGS {
            return SourceKind::LocalSettings;
        }
        FOLDERS
            .iter()
            .find(|(known, _)| name == *known)
            .map_or(SourceKind::Servers, |(_, kind)| *kind)
    }
}
