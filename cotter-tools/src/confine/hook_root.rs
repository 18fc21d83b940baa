//! The folders and log files that a person opened for writing to the hooks of projects: the setting `hookRoots`.

use std::{
    fs::{DirBuilder, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use cotter::{builtin::PROTECTED, fs::workspace::is_system};
use cotter_files::trust::state;

/// The endings of log files.
const LOG_ENDINGS: [&str; 3] = ["log", "jsonl", "ndjson"];

/// True if a person may open a path to hooks. In a folder that decides what runs, such as `~/.claude`, only a
/// folder of state or a log file directly in it may be opened.
pub fn may_be_opened(path: &Path, home: Option<&Path>) -> bool {
    let holds_home = home.is_some_and(|home| home.starts_with(path));
    let below_protected = path.ancestors().position(is_protected_name);
    let is_allowed_there = is_state_folder(path) || is_log(path);
    let is_plain = path.iter().all(|name| name != "..");
    !holds_home
        && !is_system(path)
        && is_plain
        && path.parent().is_some()
        && (below_protected.is_none() || below_protected == Some(1) && is_allowed_there)
}

/// The path to open so that a hook may write a file. `None` if no path should be opened for it.
pub(crate) fn suggestion(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let is_of_logs = |folder: &&Path| {
        is_state_folder(folder)
            && (folder.ends_with("logs") || folder.parent().is_some_and(is_protected_name))
    };
    let folders = path.ancestors().skip(1).filter(is_of_logs);
    let mut candidates = folders.chain([path].into_iter().filter(|path| is_log(path)));
    candidates.find(|path| may_be_opened(path, home)).map(Path::to_owned)
}

/// Creates what is missing: a log file, or a folder. A hook that cannot write it will say so.
pub(crate) fn create_missing(roots: &[PathBuf]) {
    for root in roots.iter().filter(|root| root.symlink_metadata().is_err()) {
        // What cannot be created stays closed.
        let _ = match is_log(root) {
            true => {
                let mut options = OpenOptions::new();
                options.create_new(true).write(true).mode(0o600).open(root).map(drop)
            }
            false => DirBuilder::new().mode(0o700).create(root),
        };
    }
}

fn is_protected_name(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| PROTECTED.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

fn is_state_folder(path: &Path) -> bool {
    path.file_name().is_some_and(|name| state::FOLDERS.iter().any(|known| name == *known))
}

fn is_log(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| LOG_ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s8_folders_that_decide_what_runs_are_not_opened() {
        let home = Some(Path::new("/home/me"));
        for (path, expected) in [
            ("/home/me/.claude/logs", true),
            ("/home/me/.claude/hooks.log", true),
            ("/home/me/.claude/state", true),
            ("/var/tmp/audit", true),
            ("/home/me/audit.jsonl", true),
            ("/home/me/.claude", false),
            ("/home/me/.claude/settings.json", false),
            ("/home/me/.claude/hooks", false),
            ("/home/me/.claude/plugins/x/logs", false),
            ("/home/me/.claude/logs/../settings.json", false),
            ("/home/me/x/.git/logs", true),
            ("/home/me", false),
            ("/home", false),
            ("/", false),
            ("/etc/x.log", false),
        ] {
            assert_eq!(may_be_opened(Path::new(path), home), expected, "{path}");
        }
        let suggested = |path| suggestion(Path::new(path), home);
        assert_eq!(suggested("/home/me/.claude/logs/a/x"), Some("/home/me/.claude/logs".into()));
        assert_eq!(suggested("/home/me/.claude/x.log"), Some("/home/me/.claude/x.log".into()));
        assert_eq!(suggested("/home/me/.claude/settings.json"), None);
        assert_eq!(suggested("/home/me/.bashrc"), None);
        assert_eq!(suggested("/tmp/x/rules.txt"), None);
    }
}
