//! What commands get of the environment: what is on the list, and nothing else.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use cotter::Place;

/// What every command may know.
const LIST: [&str; 9] =
    ["HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TERM", "SHELL", "PATH"];

/// Where programs are when nobody says.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// What commands get of the environment. By default nothing but a usual `PATH`.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

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
        Environment(variables.filter(|(name, value)| listed(name) && !function(value)).collect())
    }

    /// The variables for a command in a place: `PATH` without what is relative or of the project,
    /// `TMPDIR` the private temp folder.
    pub fn in_place(&self, place: &Place, temp: &Path) -> Vec<(OsString, OsString)> {
        let path = std::env::join_paths(self.path(place)).unwrap_or_else(|_| USUAL_PATH.into());
        let others = self.0.iter().filter(|(name, _)| name != "PATH" && name != "TMPDIR").cloned();
        others.chain([("PATH".into(), path), ("TMPDIR".into(), temp.into())]).collect()
    }

    /// The folders of `PATH` in a place: absolute, and none of the project's.
    pub fn path(&self, place: &Place) -> Vec<PathBuf> {
        let path = self.0.iter().find(|(name, _)| name == "PATH").map(|(_, path)| &**path);
        let of_the_project = |folder: &Path| {
            let really = folder.canonicalize();
            let really = really.as_deref().unwrap_or(folder);
            place.write_roots().any(|root| folder.starts_with(root) || really.starts_with(root))
        };
        std::env::split_paths(path.unwrap_or(OsStr::new(USUAL_PATH)))
            .filter(|folder| folder.is_absolute() && !of_the_project(folder))
            .collect()
    }
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
        let place = Place::new(Path::new("/work"));
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
