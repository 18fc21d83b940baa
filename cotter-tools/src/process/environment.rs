//! What commands get of the environment: what is on the list, and nothing else.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use cotter::{Workspace, text};

/// The variable by which everything that a call started can be told, and by which our own binary knows
/// that an agent started it.
pub const MARK: &str = "COTTER_CALL";

/// What every command may know.
const LIST: [&str; 9] =
    ["HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TERM", "SHELL", "PATH"];

/// Where programs are when nobody says.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// What commands get of the environment. By default nothing but a usual `PATH`.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// The absolute folders of `PATH`, looked up when they are first needed.
    folders: OnceLock<Vec<PathFolder>>,
}

/// A folder of `PATH`.
#[derive(Clone, Debug)]
struct PathFolder {
    named: PathBuf,
    /// Where it really is.
    real: PathBuf,
}

impl Environment {
    /// Of these variables those on the list (`HOME USER LOGNAME LANG LANGUAGE LC_* TZ TERM SHELL PATH`)
    /// and those that are named besides. What is not named is left out, however useful: `LD_*`, `GIT_*`,
    /// `BASH_ENV`, `PYTHON*`, `NODE_OPTIONS`, functions of the shell, and everything with a key in it.
    pub fn chosen(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        besides: &[impl AsRef<OsStr>],
    ) -> Self {
        let listed = |name: &OsStr| {
            LIST.iter().any(|known| name == *known)
                || name.as_encoded_bytes().starts_with(b"LC_")
                || besides.iter().any(|named| named.as_ref() == name)
        };
        // Bash takes a variable of such a value for a function and runs what stands behind it.
        let function = |value: &OsStr| value.as_encoded_bytes().starts_with(b"() {");
        let variables = variables.into_iter();
        let variables = variables.filter(|(name, value)| listed(name) && !function(value));
        Environment { variables: variables.collect(), folders: OnceLock::new() }
    }

    /// The variables for a command in a place: `PATH` without what is relative or of the project,
    /// `TMPDIR` the private temp folder.
    pub fn in_place(&self, place: &Workspace, temp: &Path) -> Vec<(OsString, OsString)> {
        self.with(place, [("TMPDIR".into(), temp.into())])
    }

    /// The same with other variables, which come before those of the same name.
    pub(crate) fn with(
        &self,
        place: &Workspace,
        others: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let path = std::env::join_paths(self.path(place).map(|folder| &folder.named));
        let path = path.unwrap_or_else(|_| USUAL_PATH.into());
        let mut all: Vec<_> =
            self.variables.iter().filter(|(name, _)| name != "PATH").cloned().collect();
        for (name, value) in [("PATH".into(), path)].into_iter().chain(others) {
            all.retain(|(known, _)| *known != name);
            all.push((name, value));
        }
        all
    }

    /// Where the folders of `PATH` in a place really are, and those that are nowhere as they are named.
    pub fn programs(&self, place: &Workspace) -> impl Iterator<Item = &Path> {
        self.path(place).map(|folder| &*folder.real)
    }

    /// The folders of `PATH` in a place: absolute, and none of the project's.
    fn path(&self, place: &Workspace) -> impl Iterator<Item = &PathFolder> {
        let of_the_project = |folder: &PathFolder| {
            let mut roots = place.write_roots();
            roots.any(|root| folder.named.starts_with(root) || folder.real.starts_with(root))
        };
        self.folders().iter().filter(move |folder| !of_the_project(folder))
    }

    fn folders(&self) -> &[PathFolder] {
        self.folders.get_or_init(|| {
            let path = self.variables.iter().find(|(name, _)| name == "PATH");
            let path = path.map_or(OsStr::new(USUAL_PATH), |(_, path)| path);
            let absolute = std::env::split_paths(path).filter(|folder| folder.is_absolute());
            let looked_up = |named: PathBuf| {
                let real = named.canonicalize().unwrap_or_else(|_| named.clone());
                PathFolder { named, real }
            };
            absolute.map(looked_up).collect()
        })
    }
}

/// The program that a command names: a path, from the folder it starts in, or a name in `PATH`.
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

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_only_what_is_listed_or_named_is_passed_on() {
        let had = [
            ("HOME", "/home/me"),
            ("PATH", "/work/bin:bin:.::/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "secret"),
            ("LD_PRELOAD", "x.so"),
            ("GIT_DIR", "/x"),
            ("BASH_ENV", "x"),
            ("BASH_FUNC_ls%%", "() { :; }"),
            ("LANG", "() { :; }; rm x"),
            ("CARGO_HOME", "/c"),
            ("TMPDIR", "/tmp"),
            ("PYTHONPATH", "."),
            ("NODE_OPTIONS", "-r x"),
        ];
        let had = had.map(|(name, value)| (name.into(), value.into()));
        let place = Workspace::new(Path::new("/work"));
        let got =
            Environment::chosen(had, &["CARGO_HOME"]).in_place(&place, Path::new("/tmp/mine"));
        let got: Vec<_> = got
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        expect_test::expect![[r#"
            HOME=/home/me
            LC_ALL=C
            CARGO_HOME=/c
            PATH=/usr/bin:/bin
            TMPDIR=/tmp/mine"#]]
        .assert_eq(&got.join("\n"));
    }
}
