//! The environment of commands: an allow list of variables.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use cotter::Workspace;

use crate::confine::interpreters;

/// The variable that every command of a call has. It identifies the call's processes, and shows our
/// own binary that an agent started it.
pub const MARK: &str = "COTTER_CALL";

/// Variables that every command gets.
const ALLOWED: [&str; 9] =
    ["HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TERM", "SHELL", "PATH"];

/// The `PATH` if the environment has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The environment of commands. The default is only a `PATH`.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// The absolute folders of `PATH`, looked up when they are first needed.
    folders: OnceLock<Vec<PathFolder>>,
    /// What the interpreters in `PATH` need, looked up when it is first needed.
    interpreters: OnceLock<Vec<PathBuf>>,
}

/// A folder of `PATH`.
#[derive(Clone, Debug)]
struct PathFolder {
    named: PathBuf,
    /// The folder with links resolved.
    real: PathBuf,
}

impl Environment {
    /// The variables on the list (`HOME USER LOGNAME LANG LANGUAGE LC_* TZ TERM SHELL PATH`) and
    /// those named in `besides`. All others are left out: `LD_*`, `GIT_*`, `BASH_ENV`, `PYTHON*`,
    /// `NODE_OPTIONS`, shell functions, and every key.
    pub fn chosen(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        besides: &[impl AsRef<OsStr>],
    ) -> Self {
        let is_allowed = |name: &OsStr| {
            ALLOWED.iter().any(|allowed| name == *allowed)
                || name.as_encoded_bytes().starts_with(b"LC_")
                || besides.iter().any(|named| named.as_ref() == name)
        };
        // Bash reads such a value as a function and runs the text behind it.
        let is_function = |value: &OsStr| value.as_encoded_bytes().starts_with(b"() {");
        let variables = variables.into_iter();
        let variables = variables.filter(|(name, value)| is_allowed(name) && !is_function(value));
        Environment { variables: variables.collect(), ..Environment::default() }
    }

    /// All of these variables. `PATH` is still given without relative folders and folders of the project.
    pub(crate) fn all(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let variables = variables.into_iter().filter(|(name, _)| name != MARK);
        Environment { variables: variables.collect(), ..Environment::default() }
    }

    /// True if there is a variable of that name.
    pub(crate) fn contains(&self, name: &OsStr) -> bool {
        self.variables.iter().any(|(other, _)| other == name)
    }

    /// The variables for a command in a workspace: `PATH` without relative folders and folders of
    /// the project, `TMPDIR` as the private temp folder.
    pub fn for_workspace(&self, workspace: &Workspace, temp: &Path) -> Vec<(OsString, OsString)> {
        self.with(workspace, [("TMPDIR".into(), temp.into())])
    }

    /// Like `for_workspace`, with other variables, which replace those of the same name.
    pub(crate) fn with(
        &self,
        workspace: &Workspace,
        others: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let path = std::env::join_paths(self.path(workspace).map(|folder| &folder.named));
        let path = path.unwrap_or_else(|_| DEFAULT_PATH.into());
        let mut all: Vec<_> =
            self.variables.iter().filter(|(name, _)| name != "PATH").cloned().collect();
        for (name, value) in [("PATH".into(), path)].into_iter().chain(others) {
            all.retain(|(other, _)| *other != name);
            all.push((name, value));
        }
        all
    }

    /// The resolved folders of `PATH` in a workspace; a folder that does not exist stays as it is
    /// named.
    pub fn programs(&self, workspace: &Workspace) -> impl Iterator<Item = &Path> {
        self.path(workspace).map(|folder| &*folder.real)
    }

    /// What must be readable for the interpreters in `PATH`.
    pub(crate) fn interpreters(&self, home: Option<&Path>) -> &[PathBuf] {
        self.interpreters.get_or_init(|| interpreters::in_path(home, &self.variables))
    }

    /// The folders of `PATH` in a workspace: absolute and outside the project.
    fn path(&self, workspace: &Workspace) -> impl Iterator<Item = &PathFolder> {
        let is_in_project = |folder: &PathFolder| {
            let mut roots = workspace.write_roots();
            roots.any(|root| folder.named.starts_with(root) || folder.real.starts_with(root))
        };
        self.folders().iter().filter(move |folder| !is_in_project(folder))
    }

    fn folders(&self) -> &[PathFolder] {
        self.folders.get_or_init(|| {
            let path = self.variables.iter().find(|(name, _)| name == "PATH");
            let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, path)| path);
            let absolute = std::env::split_paths(path).filter(|folder| folder.is_absolute());
            let resolve = |named: PathBuf| {
                let real = named.canonicalize().unwrap_or_else(|_| named.clone());
                PathFolder { named, real }
            };
            absolute.map(resolve).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_only_listed_and_named_variables_are_passed_on() {
        let variables = [
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
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let workspace = Workspace::new(Path::new("/work"));
        let passed = Environment::chosen(variables, &["CARGO_HOME"])
            .for_workspace(&workspace, Path::new("/tmp/mine"));
        let passed: Vec<_> = passed
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        expect_test::expect![[r#"
            HOME=/home/me
            LC_ALL=C
            CARGO_HOME=/c
            PATH=/usr/bin:/bin
            TMPDIR=/tmp/mine"#]]
        .assert_eq(&passed.join("\n"));
    }
}
