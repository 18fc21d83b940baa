//! The paths of programs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use cotter::text;

/// The program of a command: a path relative to its working folder, or a name in `PATH`.
pub(crate) fn find_program(
    command: &str,
    cwd: &Path,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, String> {
    if command.contains('/') {
        return Ok(cwd.join(command));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    let mut folders =
        std::env::split_paths(&path.unwrap_or_default()).collect::<Vec<_>>().into_iter();
    let found =
        folders.find_map(|folder| Some(folder.join(command)).filter(|path| is_program(path)));
    found.ok_or_else(|| format!("there is no program `{}` in PATH", text::show_line(command)))
}

/// True if a path is a file that may be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
