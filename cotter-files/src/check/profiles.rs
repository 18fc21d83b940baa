//! Checks of profiles: every `agent.json` below a folder.

use std::path::Path;

use crate::{
    check::CheckedFiles,
    document::Document,
    extensions::agents::{NamedTool, PROFILE},
    folder::{
        diagnostic::Diagnostic,
        file_kind::FileKind,
        walk::{LinkPolicy, walk},
    },
    profile::{Profile, ProfileGrants},
};

/// Checks the profiles below a folder, or one file. Returns files, diagnostics and the tools that profiles
/// name.
pub(super) fn check_profiles(root: &Path) -> (CheckedFiles, Vec<NamedTool>) {
    let links =
        LinkPolicy::within(if root.is_file() { root.parent().unwrap_or(root) } else { root });
    let files = walk(root, Some(PROFILE), &links).files;
    let profiles = files.iter().filter(|found| {
        // A single file may have any name that ends in `.json`.
        found.relative.ends_with(PROFILE) || found.shown == root && found.ending() == "json"
    });
    let (mut paths, mut diagnostics, mut tools) = (vec![], vec![], vec![]);
    for found in profiles {
        paths.push((found.shown.clone(), FileKind::Profiles));
        let folder = found.real.parent().and_then(Path::file_name).unwrap_or_default();
        let read = Document::load(&found.real).and_then(|document| match document {
            Some(document) => {
                let name = folder.to_string_lossy();
                let profile =
                    Profile::from_document(&document, &name, ProfileGrants::for_inspection())?;
                let keys = document.root().object()?;
                let line = keys.get("tools").map(|node| node.location().line() as usize);
                Ok((profile.tools, line))
            }
            None => Ok((vec![], None)),
        });
        match read {
            Ok((profile_tools, line)) => {
                tools.extend(
                    profile_tools.into_iter().map(|tool| (found.shown.clone(), line, tool)),
                );
            }
            Err(error) => diagnostics.push(Diagnostic::of_error(&found.shown, &error)),
        }
    }
    ((paths, diagnostics), tools)
}
