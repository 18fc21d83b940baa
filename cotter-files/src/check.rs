//! Checks files before they are used: lists every file of a kind, with its diagnostics. This room starts and
//! registers nothing; it uses the readers of the rooms below.

mod hooks;
mod profiles;
mod spaces;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    claude::plugin,
    extensions::{LoadContext, LoadedFolder, agents, agents::AgentFile, commands, skills},
    folder::{
        diagnostic::{Diagnostic, Severity},
        file_kind::FileKind,
        layout,
        walk::LinkPolicy,
    },
};
use cotter::{Origin, invoke::callable::BoxError};

/// A file that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedFile {
    /// The file.
    pub path: PathBuf,
    /// The kind of the file.
    pub kind: FileKind,
    /// The worst severity of its diagnostics; `Warning` if it has none.
    pub status: Severity,
    /// The diagnostics about the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The tools that an agent or a profile names, each with its line: by Cotter's names, or as they are
    /// written. The caller knows which tools exist.
    pub tools: Vec<(Option<usize>, String)>,
}

/// The checked files, and the diagnostics about them.
type CheckedFiles = (Vec<(PathBuf, FileKind)>, Vec<Diagnostic>);

/// Checks the files of a kind, including their texts. A single file is checked as this kind. In a `.cotter`,
/// a `.claude`, an `.agents`, a space or a plugin, the usual locations of the kind are checked. This also
/// applies to such folders inside `path`. Any other folder is checked completely.
pub fn check(path: &Path, kind: FileKind) -> Vec<CheckedFile> {
    match kind {
        FileKind::Skills | FileKind::Commands | FileKind::Agents => {}
        FileKind::Profiles => return group_by_file(profiles::check_profiles(path).0, kind),
        FileKind::Hooks => return group_by_file(hooks::check_hooks(path), kind),
        FileKind::Settings => return group_by_file(hooks::check_settings(path), kind),
        FileKind::Spaces => return spaces::check_spaces(path),
    }
    if path.is_file() {
        return check_file(path, kind);
    }
    let mut all: Vec<CheckedFile> = vec![];
    for search_path in layout::search_paths(path, kind, &plugin::LAYOUT) {
        let more = check_texts(&search_path.path, &LinkPolicy::within(&search_path.within), kind);
        let is_new = |file: &CheckedFile| all.iter().all(|other| other.path != file.path);
        let more: Vec<_> = more.into_iter().filter(is_new).collect();
        all.extend(more);
    }
    all
}

/// Checks one file, which must be of the kind.
fn check_file(path: &Path, kind: FileKind) -> Vec<CheckedFile> {
    let links = LinkPolicy::within(path.parent().unwrap_or(path));
    let found = check_texts(path, &links, kind);
    if !found.is_empty() {
        return found;
    }
    let endings = match kind {
        FileKind::Commands => "`.md`",
        FileKind::Agents => "`.md` or `.yaml`, or is `agent.json`",
        _ => "`.md` or `.yaml`",
    };
    let kinds = kind.folder().unwrap_or_default();
    let why = format!("{kinds} are files whose name ends in {endings}");
    group_by_file((vec![], vec![Diagnostic::new(path, None, Severity::Rejected, why)]), kind)
}

/// Checks the skills, commands or agents below a folder, or in one file.
fn check_texts(path: &Path, links: &LinkPolicy, kind: FileKind) -> Vec<CheckedFile> {
    let mut loaded = LoadedFolder::empty(&LoadContext::trusted(Origin::User));
    match kind {
        FileKind::Skills => (loaded.skills, loaded.diagnostics) = skills::load(path, links),
        FileKind::Commands => (loaded.commands, loaded.diagnostics) = commands::load(path, links),
        _ => (loaded.agents, loaded.diagnostics) = agents::load(path, links),
    }
    let mut paths: Vec<_> = loaded.paths().map(|path| (path.clone(), kind)).collect();
    let mut tools: Vec<_> = loaded.agents.iter().flat_map(AgentFile::named_tools).collect();
    loaded.report_repeats();
    if kind == FileKind::Agents {
        let ((profiles, more_diagnostics), more_tools) = profiles::check_profiles(path);
        paths.extend(profiles);
        loaded.diagnostics.extend(more_diagnostics);
        tools.extend(more_tools);
    }
    let texts = loaded.skills.iter().map(|file| (&file.path, file.text()));
    let texts = texts.chain(loaded.commands.iter().map(|file| (&file.path, file.text())));
    let of_texts: Vec<_> = texts.filter_map(|(path, text)| diagnose_text(path, text)).collect();
    loaded.diagnostics.extend(of_texts);
    let mut files = group_by_file((paths, loaded.diagnostics), kind);
    for file in &mut files {
        let own_tools = tools.iter().filter(|(path, ..)| *path == file.path);
        file.tools = own_tools.map(|(_, line, tool)| (*line, tool.clone())).collect();
    }
    files
}

/// Lists each file once, with its diagnostics. A file that appears only in a diagnostic gets `kind`.
fn group_by_file((mut paths, diagnostics): CheckedFiles, kind: FileKind) -> Vec<CheckedFile> {
    let others = diagnostics.iter().map(|diagnostic| &diagnostic.path);
    let others = others.filter(|other| paths.iter().all(|(path, _)| path != *other));
    let others: Vec<_> = others.map(|path| (path.clone(), kind)).collect();
    paths.extend(others);
    paths.sort_by(|a, b| a.0.cmp(&b.0));
    paths.dedup();
    let checked = paths.into_iter().map(|(path, kind)| {
        let own = diagnostics.iter().filter(|diagnostic| diagnostic.path == path);
        let diagnostics: Vec<_> = own.cloned().collect();
        let worst = diagnostics.iter().map(|diagnostic| diagnostic.severity).max();
        let status = worst.unwrap_or(Severity::Warning);
        CheckedFile { path, kind, status, diagnostics, tools: vec![] }
    });
    checked.collect()
}

/// The diagnostic about the text of a file, if there is a problem.
fn diagnose_text(path: &Path, text: Result<Arc<str>, BoxError>) -> Option<Diagnostic> {
    let (severity, message) = match text {
        Err(why) => (Severity::Rejected, why.to_string()),
        Ok(text) if text.contains('\u{fffd}') => (
            Severity::Repaired,
            "bytes of its text are not UTF-8 and are replaced by U+FFFD".into(),
        ),
        Ok(text) if text.is_empty() => {
            (Severity::Warning, "it has no text below its front matter".into())
        }
        Ok(_) => return None,
    };
    Some(Diagnostic::new(path, None, severity, message))
}
