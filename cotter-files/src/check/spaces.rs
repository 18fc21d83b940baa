//! Checks of spaces: the manifest, the hooks and every other file.

use std::path::Path;

use crate::{
    check::{CheckedFile, check, group_by_file, hooks::check_hook_folder},
    folder::{
        diagnostic::{Diagnostic, Severity},
        file_kind::FileKind,
    },
    space::{MANIFEST, manifest_of, warn_of_unused},
    trust::snapshot::Snapshot,
};

/// Checks every file of a space, or of all spaces directly in a folder.
pub(super) fn check_spaces(path: &Path) -> Vec<CheckedFile> {
    let folder = match path.file_name().is_some_and(|name| name == MANIFEST) {
        true => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
        false => Some(path),
    };
    let folder = folder.unwrap_or(Path::new("."));
    let has_manifest = |folder: &Path| folder.join(MANIFEST).symlink_metadata().is_ok();
    let mut inner: Vec<_> = match has_manifest(folder) {
        true => vec![],
        false => std::fs::read_dir(folder).into_iter().flatten().flatten().collect(),
    }
    .into_iter()
    .map(|entry| entry.path())
    .filter(|folder| has_manifest(folder))
    .collect();
    inner.sort();
    match inner.is_empty() {
        true => check_space(folder),
        false => inner.iter().flat_map(|folder| check_space(folder)).collect(),
    }
}

fn check_space(folder: &Path) -> Vec<CheckedFile> {
    let manifest = folder.join(MANIFEST);
    let snapshot = match Snapshot::take(folder) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let diagnostic =
                Diagnostic::new(folder, None, Severity::Rejected, error.line_with_hint());
            return group_by_file((vec![], vec![diagnostic]), FileKind::Spaces);
        }
    };
    let mut diagnostics = warn_of_unused(&snapshot);
    diagnostics.extend(manifest_of(&snapshot).err());
    // Paths are shown as the caller typed them, like those of the other files.
    for diagnostic in &mut diagnostics {
        if let Ok(within) = diagnostic.path.strip_prefix(snapshot.source()) {
            diagnostic.path = folder.join(within);
        }
    }
    let of_space = (vec![(manifest, FileKind::Spaces)], diagnostics);
    let mut all = group_by_file(of_space, FileKind::Spaces);
    all.extend(group_by_file(check_hook_folder(folder), FileKind::Hooks));
    let kinds = [
        ("skills", FileKind::Skills),
        ("commands", FileKind::Commands),
        ("agents", FileKind::Agents),
    ];
    for (name, kind) in kinds {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            all.extend(check(&path, kind));
        }
    }
    all
}
