//! The locations of files of one kind in a given folder. The first rule that matches applies:
//!
//! - The usual locations in a `.cotter`, a `.claude`, an `.agents`, a space or a plugin: the folder itself,
//!   and such folders in it.
//! - Folders below it with the name of the kind.
//! - The folder itself, as a collection of such files.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use crate::folder::{
    file_kind::FileKind,
    walk::{MAX_NAMES, list_names},
};

/// The folder names for the kinds of files.
const KINDS: [&str; 4] = ["skills", "agents", "commands", "hooks"];

/// The folders of a project that contain extensions.
const PROJECT_FOLDERS: [&str; 3] = [".cotter", ".claude", ".agents"];

/// The maximum depth of the search for folders by name.
const MAX_SEARCH_DEPTH: usize = 6;

/// Functions that find plugins. The caller passes them in, because another room reads plugin manifests.
pub(crate) struct PluginLayout {
    /// True if a folder declares that it is a plugin.
    pub(crate) is_plugin: fn(&Path) -> bool,
    /// The paths of a plugin's files of one kind, relative to the plugin; `None` if the plugin cannot be
    /// read.
    pub(crate) paths: fn(&Path, FileKind) -> Option<Vec<PathBuf>>,
}

/// A folder that contains extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtensionRoot {
    pub(crate) folder: PathBuf,
    pub(crate) kind: RootKind,
}

/// The kind of an extension folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootKind {
    Cotter,
    Claude,
    Agents,
    Space,
    Plugin,
    /// A folder that contains extensions but has no name or manifest that says its kind.
    Unknown,
}

/// A folder or file to search, and the folder that links in it must not leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath {
    pub(crate) path: PathBuf,
    pub(crate) within: PathBuf,
}

impl SearchPath {
    fn new(path: &Path, within: &Path) -> Self {
        SearchPath { path: path.into(), within: within.into() }
    }
}

/// The locations of files of one kind in a folder.
pub(crate) fn search_paths(
    folder: &Path,
    kind: FileKind,
    plugins: &PluginLayout,
) -> Vec<SearchPath> {
    let Some(name) = kind.folder() else { return vec![] };
    if has_real_name(folder, name) || is_single_extension(folder, kind) {
        return vec![SearchPath::new(folder, folder)];
    }
    let roots = extension_roots(folder, plugins);
    let found: Vec<_> =
        roots.iter().flat_map(|root| root.search_paths(kind, name, plugins)).collect();
    let is_known = roots.iter().any(|root| root.folder == folder && root.kind != RootKind::Unknown);
    if is_known || !found.is_empty() {
        return found;
    }
    let mut search = FolderSearch { kind, name, plugins, folders_left: MAX_NAMES, found };
    search.search_folder(folder, 0);
    if search.found.is_empty() && roots.is_empty() {
        return vec![SearchPath::new(folder, folder)];
    }
    search.found
}

/// The extension folders: the folder itself, if it is one, and those in it.
pub(crate) fn extension_roots(folder: &Path, plugins: &PluginLayout) -> Vec<ExtensionRoot> {
    let root_at =
        |folder: PathBuf| root_kind(&folder, plugins).map(|kind| ExtensionRoot { folder, kind });
    let inner = PROJECT_FOLDERS.map(|name| folder.join(name)).into_iter();
    let mut all: Vec<_> = root_at(folder.to_owned()).into_iter().collect();
    all.extend(inner.filter(|inner| inner.is_dir()).filter_map(root_at));
    let parents: Vec<_> = all.iter().filter(|root| root.kind != RootKind::Claude).collect();
    let mut parents: Vec<_> = parents.into_iter().map(|root| root.folder.clone()).collect();
    if all.iter().all(|root| root.folder != folder) {
        parents.push(folder.to_owned());
    }
    for parent in parents {
        let spaces = subfolders(&parent.join("spaces")).into_iter().filter_map(root_at);
        all.extend(spaces.filter(|root| root.kind == RootKind::Space));
        let found = subfolders(&parent.join("plugins")).into_iter().filter_map(root_at);
        let found = found.filter(|root| matches!(root.kind, RootKind::Plugin | RootKind::Unknown));
        all.extend(found.map(|root| ExtensionRoot { kind: RootKind::Plugin, ..root }));
    }
    all
}

impl ExtensionRoot {
    /// The existing locations of files of one kind in this folder.
    fn search_paths(&self, kind: FileKind, name: &str, plugins: &PluginLayout) -> Vec<SearchPath> {
        let is_plugin = self.kind == RootKind::Plugin;
        let of_plugin = is_plugin.then(|| (plugins.paths)(&self.folder, kind)).flatten();
        let paths = of_plugin.unwrap_or_else(|| vec![name.into()]);
        let paths = paths.iter().map(|path| self.folder.join(path));
        let existing = paths.filter(|path| path.symlink_metadata().is_ok());
        existing.map(|path| SearchPath::new(&path, &self.folder)).collect()
    }
}

fn root_kind(folder: &Path, plugins: &PluginLayout) -> Option<RootKind> {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let has_kind_folder = KINDS.into_iter().any(|name| folder.join(name).is_dir());
    let real_path = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    match real_path.file_name().and_then(OsStr::to_str) {
        Some(".cotter") => Some(RootKind::Cotter),
        Some(".claude") => Some(RootKind::Claude),
        Some(".agents") => Some(RootKind::Agents),
        _ if (plugins.is_plugin)(folder) => Some(RootKind::Plugin),
        _ if has("manifest.json") && has_kind_folder => Some(RootKind::Space),
        _ if has("settings.json") || has_kind_folder => Some(RootKind::Unknown),
        _ => None,
    }
}

/// True if the real name of a folder is `name`, even if a link leads to the folder.
pub(crate) fn has_real_name(folder: &Path, name: &str) -> bool {
    fs::canonicalize(folder).is_ok_and(|real| real.file_name() == Some(OsStr::new(name)))
}

/// True if a folder is itself a skill or a profile.
fn is_single_extension(folder: &Path, kind: FileKind) -> bool {
    let file = match kind {
        FileKind::Skills => "SKILL.md",
        FileKind::Agents => "agent.json",
        _ => return false,
    };
    folder.join(file).is_file()
}

/// The folders in a folder, without hidden folders and links.
fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let names = list_names(folder).unwrap_or_default().into_iter();
    names.filter(|(_, kind)| kind.is_dir()).map(|(name, _)| folder.join(name)).collect()
}

/// A search below a folder for plugins and for folders with the name of a kind. The search does not enter a
/// skill's folder.
struct FolderSearch<'a> {
    kind: FileKind,
    name: &'a str,
    plugins: &'a PluginLayout,
    /// The number of folders that may still be searched.
    folders_left: usize,
    found: Vec<SearchPath>,
}

impl FolderSearch<'_> {
    fn search_folder(&mut self, folder: &Path, depth: usize) {
        if depth > MAX_SEARCH_DEPTH || folder.join("SKILL.md").is_file() {
            return;
        }
        for inner in subfolders(folder) {
            self.folders_left = self.folders_left.saturating_sub(1);
            match inner.file_name() == Some(OsStr::new(self.name)) {
                _ if self.folders_left == 0 => return,
                true => self.found.push(SearchPath::new(&inner, folder)),
                false if (self.plugins.is_plugin)(&inner) => {
                    let plugin = ExtensionRoot { folder: inner, kind: RootKind::Plugin };
                    self.found.extend(plugin.search_paths(self.kind, self.name, self.plugins));
                }
                false => self.search_folder(&inner, depth + 1),
            }
        }
    }
}
