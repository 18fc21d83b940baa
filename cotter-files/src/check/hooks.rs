//! Checks of files that declare hooks: `hooks/*.yaml`, settings files, and files in the dialect of Claude
//! Code, and of the scripts that they name.

mod scripts;

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use self::scripts::ScriptFolder;
use crate::{
    check::CheckedFiles,
    claude,
    claude::plugin::{self, Plugin},
    command_hook::hook_files::{
        FOLDER, HookFile, HookFolder, HookFolderEntry, ProgramState, entries, find_program_error,
        is_yaml,
    },
    document::Document,
    folder::{
        diagnostic::{Diagnostic, Severity},
        file_kind::FileKind,
        layout::{self, ExtensionRoot, RootKind},
    },
    settings::{Settings, SettingsOwner},
};

/// Checks the hooks of a file, of a folder of hooks, or of the extension folders that a folder is or
/// contains. Each is read in its own dialect.
pub(super) fn check_hooks(path: &Path) -> CheckedFiles {
    if path.is_file() {
        return match is_yaml(path) {
            true => check_one(path),
            false if is_claude(path) => check_claude(path),
            false => check_settings(path),
        };
    }
    let roots = layout::extension_roots(path, &plugin::LAYOUT);
    let is_hooks = layout::has_real_name(path, FOLDER);
    if is_hooks && path.join(CLAUDE_HOOKS).is_file() {
        return check_claude(&path.join(CLAUDE_HOOKS));
    }
    if is_hooks || roots.is_empty() && is_collection(path) {
        return check_folder(path);
    }
    // Beside folders of a known kind, a file that looks like settings belongs to another program.
    let has_known_root = roots.iter().any(|root| root.kind != RootKind::Unknown);
    let mut checked = CheckedFiles::default();
    for ExtensionRoot { folder, kind } in roots {
        let settings: &[&str] = match kind {
            RootKind::Plugin => {
                add(&mut checked, check_plugin(&folder));
                continue;
            }
            RootKind::Unknown if has_known_root => continue,
            RootKind::Agents => continue,
            RootKind::Claude => &[SETTINGS, "settings.local.json"],
            RootKind::Space => &[],
            RootKind::Cotter | RootKind::Unknown => &[SETTINGS],
        };
        for file in settings.iter().map(|name| folder.join(name)) {
            if file.symlink_metadata().is_ok() {
                let is_claude = kind == RootKind::Claude;
                let more = if is_claude { check_claude(&file) } else { check_settings(&file) };
                add(&mut checked, more);
            }
        }
        if kind != RootKind::Claude {
            add(&mut checked, check_hook_files(HookFolder::of_folder(&folder)));
        }
    }
    checked
}

/// The name of the file of a plugin's hooks, in its folder `hooks`.
const CLAUDE_HOOKS: &str = "hooks.json";

/// True if a file is in the dialect of Claude Code: by its folder and name, or, if these do not tell, by the
/// events it names.
fn is_claude(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_below = |folder: &str| real.iter().any(|part| part == folder);
    match name {
        CLAUDE_HOOKS => true,
        _ if is_below(".cotter") => false,
        _ if is_below(".claude") => true,
        // A Cotter settings file in any folder, because Cotter reads it as such.
        SETTINGS => false,
        _ => has_events(path),
    }
}

/// True if a file has hooks at events of Claude Code.
fn has_events(path: &Path) -> bool {
    let Ok(Some(document)) = Document::load(path) else { return false };
    let hooks = document.root().object().ok().and_then(|root| root.get("hooks")?.object().ok());
    hooks.is_some_and(|hooks| hooks.members().any(|(name, _)| claude::is_event(name)))
}

/// True if a folder of unknown kind contains files that look like hooks, or cannot be read.
fn is_collection(folder: &Path) -> bool {
    let has_phase = |(_, entry): &(OsString, HookFolderEntry)| match entry {
        HookFolderEntry::Hook(Ok(bytes)) => {
            bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"phase:"))
        }
        _ => false,
    };
    entries(folder).map_or(true, |entries| entries.iter().any(has_phase))
}

/// Checks a file of hooks in the dialect of Claude Code.
fn check_claude(path: &Path) -> CheckedFiles {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let kind = match real.file_name() == Some(OsStr::new(CLAUDE_HOOKS)) {
        true => FileKind::Hooks,
        false => FileKind::Settings,
    };
    let root = real.ancestors().nth(2).unwrap_or(&real).to_owned();
    let mut source = claude::ClaudeFile::new(path);
    let scripts = ScriptFolder::of_project(&root);
    if kind == FileKind::Hooks {
        source = source.with_plugin(claude::PluginPaths { root, data: None });
    }
    let read = Document::load(path).map(|read| read.map(|read| claude::read(&read, &source)));
    let diagnostics = match read {
        Ok(read) => {
            let (hooks, mut diagnostics) = read.unwrap_or_default();
            diagnostics.extend(scripts.check(path, &hooks));
            diagnostics
        }
        Err(error) => vec![Diagnostic::of_error(path, &error)],
    };
    (vec![(path.to_owned(), kind)], diagnostics)
}

/// Checks the hooks of a plugin, at the paths that its manifest names.
fn check_plugin(folder: &Path) -> CheckedFiles {
    let (mut files, mut diagnostics) = match Plugin::load(folder) {
        Ok(None) => CheckedFiles::default(),
        Err(diagnostic) => (vec![], vec![diagnostic]),
        Ok(Some(plugin)) => {
            let (hooks, mut diagnostics) =
                plugin.command_hooks(|path| claude::ClaudeFile::new(path));
            diagnostics.extend(plugin.broken.iter().cloned());
            let path = plugin.hooks.first().map_or(folder, |file| &file.path);
            diagnostics.extend(ScriptFolder::of_project(folder).check(path, &hooks));
            let files = plugin.hooks.iter().map(|file| (file.path.clone(), FileKind::Hooks));
            (files.collect(), diagnostics)
        }
    };
    // Paths are shown as the caller typed them.
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let show_as_typed = |path: &mut PathBuf| {
        if let Ok(within) = path.strip_prefix(&real) {
            *path = folder.join(within);
        }
    };
    files.iter_mut().for_each(|(path, _)| show_as_typed(path));
    diagnostics.iter_mut().for_each(|diagnostic| show_as_typed(&mut diagnostic.path));
    (files, diagnostics)
}

const SETTINGS: &str = "settings.json";

fn add((files, diagnostics): &mut CheckedFiles, more: CheckedFiles) {
    files.extend(more.0);
    diagnostics.extend(more.1);
}

/// Checks a single folder of hooks, whatever its name is.
fn check_folder(folder: &Path) -> CheckedFiles {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let below = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let root = real.parent().unwrap_or(&real);
    check_hook_files(HookFolder::on_disk(folder, root, &below))
}

/// Checks one file, together with the other files of its folder.
fn check_one(path: &Path) -> CheckedFiles {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (mut files, mut diagnostics) = check_folder(folder.unwrap_or(Path::new(".")));
    let is_same_file = |other: &Path| other.file_name() == path.file_name();
    files.retain(|(other, _)| is_same_file(other));
    diagnostics.retain(|diagnostic| is_same_file(&diagnostic.path));
    (files, diagnostics)
}

/// Checks only the hooks of an extension folder.
pub(super) fn check_hook_folder(folder: &Path) -> CheckedFiles {
    check_hook_files(HookFolder::of_folder(folder))
}

fn check_hook_files(folder: Result<HookFolder<'_>, Diagnostic>) -> CheckedFiles {
    let folder = match folder {
        Ok(folder) => folder,
        Err(diagnostic) => return (vec![], vec![diagnostic]),
    };
    let names = folder.entries.iter().map(|(name, _)| name).filter(|name| is_yaml(name));
    let paths = names.map(|name| (folder.shown.join(name), FileKind::Hooks));
    let (read, mut diagnostics) = folder.read();
    let root = folder.shown.canonicalize().unwrap_or_else(|_| folder.shown.clone());
    let scripts = ScriptFolder::of_cotter(root.parent().unwrap_or(&root));
    for HookFile { hook, path, .. } in &read {
        diagnostics.extend(scripts.check(path, std::slice::from_ref(hook)));
    }
    (paths.collect(), diagnostics)
}

/// Checks a whole settings file: a file with an error declares no hooks. Its folder decides who owns the
/// file.
pub(super) fn check_settings(path: &Path) -> CheckedFiles {
    let files = vec![(path.to_owned(), FileKind::Settings)];
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().unwrap_or(&real);
    let source = match folder.ends_with(".cotter") {
        true => SettingsOwner::Project,
        false => SettingsOwner::User,
    };
    let read = || match Document::load(path)? {
        Some(document) => Settings::from_document(&document, source),
        None => Ok(Settings::default()),
    };
    let diagnostics = match read() {
        Err(error) => vec![Diagnostic::of_error(path, &error)],
        Ok(settings) => {
            let find = |path: &str| ProgramState::of(fs::metadata(folder.join(path)));
            let errors = settings.hooks.iter().filter_map(|hook| {
                let why = find_program_error(&hook.command, &find, FOLDER)?;
                let why = format!("hook `{}`: {why}", hook.name);
                Some(Diagnostic::new(path, None, Severity::Rejected, why))
            });
            let mut diagnostics: Vec<_> = errors.collect();
            if diagnostics.is_empty() {
                diagnostics = ScriptFolder::of_cotter(folder).check(path, &settings.hooks);
            }
            diagnostics
        }
    };
    (files, diagnostics)
}
