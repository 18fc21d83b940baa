//! Hooks that run in place: their folder is checked right before each start.

use std::path::PathBuf;
use std::{ffi::OsString, path::Path};

use crate::trust::{
    snapshot::{Hash, Snapshot},
    state,
};
use cotter::text;

/// A folder whose contents must be byte for byte those that a person trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedFolder {
    /// The folder.
    pub folder: PathBuf,
    /// The hash of the trusted contents.
    pub hash: Hash,
}

impl PinnedFolder {
    /// Reads the folder again. An error says that the contents changed, or why they cannot be compared.
    pub fn check(&self) -> Result<(), String> {
        let shown = text::show_line(&self.folder.to_string_lossy()).into_owned();
        match Snapshot::take(&self.folder) {
            Ok(now) if now.hash() == self.hash => Ok(()),
            Ok(_) => Err(format!(
                "{shown} changed since it was trusted: `cotter trust` shows the difference"
            )),
            Err(why) => Err(format!("{shown} cannot be compared with what was trusted: {why}")),
        }
    }

    /// Checks the paths of a command. An error says that it would run code that was not trusted: a relative
    /// path means another folder of that name in the working folder, or a path is a file that trust leaves out.
    pub(crate) fn check_paths(&self, words: &[OsString], cwd: &Path) -> Result<(), String> {
        let Some(name) = self.folder.file_name() else { return Ok(()) };
        let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        if let Some(at) = state::find_run_file(&self.folder, &line.join(" ")) {
            let shown = text::show_line(&at.to_string_lossy()).into_owned();
            return Err(format!("it would run {shown}, which trust leaves out as state"));
        }
        let nearer = cwd.join(name);
        let is_this = || nearer.canonicalize().ok() == self.folder.canonicalize().ok();
        let prefix = format!("{}/", name.to_string_lossy());
        let has_path = |word: &OsString| has_relative_path(&word.to_string_lossy(), &prefix);
        if nearer.symlink_metadata().is_err() || is_this() || !words.iter().any(has_path) {
            return Ok(());
        }
        let [shown, nearer] = [&self.folder, &nearer].map(|path| path.to_string_lossy());
        let [shown, nearer] = [&shown, &nearer].map(|path| text::show_line(path));
        Err(format!("it would run code in {nearer}, not in {shown}, which is trusted"))
    }
}

/// True if a word contains a path that begins with `prefix`, relative to the working folder.
fn has_relative_path(word: &str, prefix: &str) -> bool {
    word.contains("PWD")
        || word.match_indices(prefix).any(|(at, _)| match word[..at].strip_suffix("./") {
            Some(before) => !before.ends_with(['.', '/', '}']),
            None => !word[..at].ends_with('/'),
        })
}
