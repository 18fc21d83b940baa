//! Interpreters outside the system: what a confined program must read so that it starts at all. Python of
//! pyenv, conda, uv or a virtual environment, and Node of nvm or volta, are in the home folder, which is
//! closed as a whole.
//!
//! Only what an installation consists of is opened: never the home folder, never `~/.local` as a whole.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use cotter::text;

use crate::confine::{
    program_path::{find_program, is_program},
    system,
};

/// Interpreters that commands and hooks start by name.
const NAMES: [&str; 16] = [
    "python3", "python", "node", "npm", "npx", "deno", "bun", "uv", "uvx", "ruby", "perl", "php",
    "lua", "tsx", "mise", "asdf",
];

/// Folders of version managers: opened whole, since their programs look for each other there.
const MANAGERS: [&str; 12] = [
    ".pyenv",
    ".rbenv",
    ".nodenv",
    ".goenv",
    ".plenv",
    ".phpenv",
    ".asdf",
    ".volta",
    ".nvm",
    ".fnm",
    ".linuxbrew",
    "Cellar",
];

/// Managers below `.local/share`, opened whole.
const SHARED_MANAGERS: [&str; 4] = ["mise", "uv", "fnm", "rtx"];

/// Settings that managers read to choose a version, below the home folder.
const MANAGER_SETTINGS: [&str; 5] =
    [".tool-versions", ".asdfrc", ".config/mise", ".local/state/mise", ".local/share/mise"];

/// The parts of an installation beside its `bin`.
const PARTS: [&str; 6] = ["bin", "lib", "lib64", "libexec", "share", "pyvenv.cfg"];

/// The most links and interpreters that are followed from one program.
const MAX_STEPS: usize = 16;

/// The most words of a command that are looked up.
const MAX_WORDS: usize = 64;

/// What must be readable for the interpreters that are in `PATH`.
pub(crate) fn in_path(home: Option<&Path>, environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let mut search = Search::new(home, environment);
    for name in NAMES {
        search.find(name, Path::new("/")).into_iter().for_each(|path| search.add_program(path));
    }
    search.found
}

/// What must be readable for the programs that the words of a command may start, and for the interpreters of
/// the scripts that they name.
pub(crate) fn of_command(
    words: &[OsString],
    cwd: &Path,
    home: Option<&Path>,
    environment: &[(OsString, OsString)],
) -> Vec<PathBuf> {
    let mut search = Search::new(home, environment);
    for program in search.programs(words, cwd) {
        search.add_program(program);
    }
    search.found
}

/// The interpreters outside the system that the words of a command start, and those of the scripts that they
/// name, as they are found in `PATH` or named by an absolute path.
pub(crate) fn started_by(
    words: &[OsString],
    cwd: &Path,
    home: Option<&Path>,
    environment: &[(OsString, OsString)],
) -> Vec<PathBuf> {
    let search = Search::new(home, environment);
    let interpreter = |path: PathBuf| match is_interpreter(&path) {
        true => Some(path),
        false => search.read_interpreter(&path).filter(|path| is_interpreter(path)),
    };
    let found = search.programs(words, cwd).into_iter().filter_map(interpreter);
    found.filter(|path| path.is_absolute() && !is_system(path)).collect()
}

/// An interpreter that a command needs and that is not on this machine.
#[derive(Debug)]
pub(crate) struct MissingInterpreter {
    /// The name, or the path in the first line of a script.
    pub(crate) name: String,
    /// The script that names it.
    pub(crate) script: Option<PathBuf>,
}

/// The interpreters that the words of a command start, or the scripts that they name, and that are missing.
pub(crate) fn missing(
    words: &[OsString],
    cwd: &Path,
    home: Option<&Path>,
    environment: &[(OsString, OsString)],
) -> Vec<MissingInterpreter> {
    let search = Search::new(home, environment);
    let is_missing = |name: &str| {
        find_program(name, Path::new("/"), environment).map_or(true, |path| !is_program(&path))
    };
    let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let lines = texts.join(" ");
    let started = lines.split(['\n', ';', '|', '&', '(', ')']);
    let started = started.filter_map(|command| command.split_whitespace().next());
    let by_name = started
        .take(MAX_WORDS)
        .filter(|name| is_interpreter_name(name) && is_missing(name))
        .map(|name| MissingInterpreter { name: name.to_owned(), script: None });
    let by_script = search.programs(words, cwd).into_iter().filter_map(|script| {
        let name = read_interpreter_name(&script).filter(|name| is_missing(name))?;
        Some(MissingInterpreter { name, script: Some(script) })
    });
    by_name.chain(by_script).collect()
}

/// True for a well-known name, with or without a version: `python3.12`.
fn is_interpreter(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    is_program(path) && is_interpreter_name(name)
}

fn is_interpreter_name(name: &str) -> bool {
    let plain = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    NAMES.contains(&name) || NAMES.contains(&plain)
}

/// Describes why a program could not be executed. The system names the program where its interpreter is missing.
pub(crate) fn describe_exec_error(program: &Path, cause: &std::io::Error) -> String {
    let interpreter = read_first_line(program)
        .filter(|_| cause.kind() == std::io::ErrorKind::NotFound)
        .and_then(|line| line.split_ascii_whitespace().next().map(str::to_owned));
    let why = interpreter
        .map(|name| format!("; its interpreter `{}` is not there", text::show_line(&name)))
        .unwrap_or_default();
    format!("cannot run {}: {cause}{why}", program.display())
}

/// The interpreter in the first line of a script: a path, or a name that `env` looks up.
fn read_interpreter_name(path: &Path) -> Option<String> {
    let line = read_first_line(path)?;
    let mut words = line.split_ascii_whitespace();
    let program = words.next()?;
    if Path::new(program).file_name() != Some(OsStr::new("env")) {
        return Some(program.to_owned());
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

struct Search<'a> {
    home: Option<&'a Path>,
    environment: &'a [(OsString, OsString)],
    steps: usize,
    found: Vec<PathBuf>,
}

impl<'a> Search<'a> {
    fn new(home: Option<&'a Path>, environment: &'a [(OsString, OsString)]) -> Self {
        Search { home, environment, steps: 0, found: vec![] }
    }

    /// A word without quotes, with the values of variables and `~` that stand for folders.
    fn fill_in(&self, word: &str) -> String {
        let mut text: String = word.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
        if let (Some(home), Some(rest)) = (self.home, text.strip_prefix("~/")) {
            text = home.join(rest).to_string_lossy().into_owned();
        }
        if !text.contains('$') {
            return text;
        }
        let values = self.environment.iter().map(|(name, value)| (name.to_string_lossy(), value));
        values.fold(text, |text, (name, value)| {
            let value = value.to_string_lossy();
            text.replace(&format!("${{{name}}}"), &value).replace(&format!("${name}"), &value)
        })
    }

    /// The programs that the words of a command may start.
    fn programs(&self, words: &[OsString], cwd: &Path) -> Vec<PathBuf> {
        let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let parts =
            texts.iter().flat_map(|text| text.split([' ', '\t', '\n', ';', '|', '&', '(', ')']));
        let parts = parts.filter(|part| !part.is_empty()).take(MAX_WORDS);
        parts.filter_map(|part| self.find(&self.fill_in(part), cwd)).collect()
    }

    fn find(&self, name: &str, cwd: &Path) -> Option<PathBuf> {
        find_program(name, cwd, self.environment).ok().filter(|path| is_program(path))
    }

    fn add_program(&mut self, path: PathBuf) {
        self.steps = 0;
        self.add(path);
    }

    /// Opens what belongs to a program, to the targets of its links, and to its interpreter.
    fn add(&mut self, path: PathBuf) {
        self.steps += 1;
        if self.steps > MAX_STEPS || !path.is_absolute() {
            return;
        }
        self.open_installation(&path);
        if let Ok(target) = fs::read_link(&path) {
            let target = path.parent().unwrap_or(&path).join(target);
            return self.add(lexically_normal(&target));
        }
        // A folder on the way may be a link too.
        match path.canonicalize() {
            Ok(real) if real != path => self.add(real),
            _ => self.read_interpreter(&path).into_iter().for_each(|next| self.add(next)),
        }
    }

    fn open_installation(&mut self, path: &Path) {
        let Some(folder) = path.parent() else { return };
        if is_system(folder) {
            return;
        }
        if let Some(manager) = manager_of(path) {
            self.open(manager);
            let settings =
                self.home.into_iter().flat_map(|home| MANAGER_SETTINGS.map(|name| home.join(name)));
            settings.for_each(|path| self.open(path));
            return;
        }
        let is_bin = matches!(folder.file_name().and_then(OsStr::to_str), Some("bin" | "sbin"));
        let prefix = folder.parent().filter(|prefix| is_bin && Some(*prefix) != self.home);
        let Some(prefix) = prefix else { return self.open(path.into()) };
        let is_local = prefix.file_name() == Some(OsStr::new(".local"));
        let parts = PARTS.iter().filter(|part| !is_local || **part != "share");
        parts.for_each(|part| self.open(prefix.join(part)));
        if let Some(base) = base_of_virtual_environment(prefix) {
            self.add(base);
        }
    }

    fn open(&mut self, path: PathBuf) {
        let path = path.canonicalize().unwrap_or(path);
        let is_too_broad =
            path.parent().is_none() || self.home.is_some_and(|home| home.starts_with(&path));
        let is_open = is_system(&path) || self.found.contains(&path);
        if !is_too_broad && !is_open && path.exists() {
            self.found.push(path);
        }
    }

    /// The interpreter of a script.
    fn read_interpreter(&self, path: &Path) -> Option<PathBuf> {
        find_program(&read_interpreter_name(path)?, Path::new("/"), self.environment).ok()
    }
}

/// True if a program is no script, or the interpreter that its first line names exists.
pub(crate) fn has_interpreter(path: &Path) -> bool {
    // The kernel takes the line as it is: a line that ends in a carriage return names another file.
    let named = |line: String| line.trim_start().split([' ', '\t']).next().map(PathBuf::from);
    read_first_line(path).and_then(named).is_none_or(|interpreter| interpreter.exists())
}

/// The first line of a script behind `#!`.
fn read_first_line(path: &Path) -> Option<String> {
    let mut head = vec![];
    fs::File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

fn is_system(folder: &Path) -> bool {
    system().iter().any(|open| folder.starts_with(open))
}

/// The folder of the version manager that a path belongs to.
fn manager_of(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find_map(|folder| {
        let name = folder.file_name()?.to_str()?;
        let parent = folder.parent()?;
        let is_shared = || SHARED_MANAGERS.contains(&name) && parent.ends_with(".local/share");
        match name {
            "Cellar" => Some(parent.into()),
            "shims" => Some(parent.into()),
            name if MANAGERS.contains(&name) || is_shared() => Some(folder.into()),
            _ => None,
        }
    })
}

/// The Python that a virtual environment was made with.
fn base_of_virtual_environment(prefix: &Path) -> Option<PathBuf> {
    let settings = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let mut values = settings.lines().filter_map(|line| line.split_once('='));
    let home = values.find_map(|(key, value)| (key.trim() == "home").then(|| value.trim()))?;
    Some(Path::new(home).join("python3")).filter(|base| base.is_absolute())
}

/// A path without `.` and `..`, without looking at links.
fn lexically_normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use expect_test::{Expect, expect};

    use super::*;

    /// Creates files (`path`: contents, or `-> target` for a link), looks `command` up with `path` as `PATH`,
    /// and lists what would be opened below the home folder.
    fn check(files: &[(&str, &str)], path: &str, command: &str, expected: Expect) {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for (file, contents) in files {
            let file = home.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            match contents.strip_prefix("-> ") {
                Some(target) => symlink(target.replace('~', home.to_str().unwrap()), file).unwrap(),
                None => {
                    fs::write(&file, contents.replace('~', home.to_str().unwrap())).unwrap();
                    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
        }
        let shown_home = home.to_str().unwrap();
        let environment = [
            ("PATH".into(), path.replace('~', shown_home).into()),
            ("PROJECT".into(), home.join("project").into()),
        ];
        let words: Vec<OsString> = ["/bin/sh", "-c", command].map(OsString::from).into();
        let found = of_command(&words, &home.join("project"), Some(&home), &environment);
        let shown: Vec<_> = found
            .iter()
            .map(|path| path.to_str().unwrap().replace(shown_home, "~") + "\n")
            .collect();
        expected.assert_eq(&shown.concat());
    }

    #[test]
    fn b3_interpreter_in_the_home_folder_is_opened_with_its_installation() {
        let python = [("envs/x/bin/python3", ""), ("envs/x/lib/python3.12/os.py", "")];
        check(
            &python,
            "~/envs/x/bin",
            "python3 hook.py",
            expect![[r#"
            ~/envs/x/bin
            ~/envs/x/lib
        "#]],
        );
        let absolute = r#""$HOME"/x ~/envs/x/bin/python3 "$PROJECT"/hook.py"#;
        check(
            &python,
            "/usr/bin",
            absolute,
            expect![[r#"
            ~/envs/x/bin
            ~/envs/x/lib
        "#]],
        );
        let shim = [
            (".pyenv/shims/python3", "#!/usr/bin/env bash\nexec ~/.pyenv/libexec/pyenv"),
            (".pyenv/libexec/pyenv", ""),
        ];
        check(
            &shim,
            "~/.pyenv/shims:/usr/bin:/bin",
            "python3 x.py",
            expect![[r#"
            ~/.pyenv
        "#]],
        );
    }

    #[test]
    fn b3_links_and_first_lines_lead_to_the_interpreter() {
        let uv = [
            (".local/bin/python3", "-> ~/.local/share/uv/python/cpython-3.12/bin/python3.12"),
            (".local/share/uv/python/cpython-3.12/bin/python3.12", ""),
            (".local/share/keyrings/login", ""),
        ];
        check(
            &uv,
            "~/.local/bin",
            "python3 x.py",
            expect![[r#"
            ~/.local/bin
            ~/.local/share/uv
        "#]],
        );
        let script = [
            ("project/hook.py", "#!/usr/bin/env -S python3 -u\n"),
            ("miniconda3/bin/python3", ""),
            ("miniconda3/lib/python3.12/os.py", ""),
        ];
        check(
            &script,
            "~/miniconda3/bin",
            "$PROJECT/hook.py",
            expect![[r#"
            ~/project/hook.py
            ~/miniconda3/bin
            ~/miniconda3/lib
        "#]],
        );
        let venv = [
            ("project/.venv/bin/python", "-> python3"),
            ("project/.venv/bin/python3", ""),
            ("project/.venv/pyvenv.cfg", "home = ~/opt/py/bin\nversion = 3.12\n"),
            ("opt/py/bin/python3", ""),
            ("opt/py/lib/x", ""),
        ];
        check(
            &venv,
            "/usr/bin",
            ".venv/bin/python x.py",
            expect![[r#"
            ~/project/.venv/bin
            ~/project/.venv/pyvenv.cfg
            ~/opt/py/bin
            ~/opt/py/lib
        "#]],
        );
    }

    #[test]
    fn b3_home_folder_is_never_opened_for_an_interpreter() {
        check(
            &[("bin/python3", ""), ("lib/x", "")],
            "~/bin",
            "python3 x",
            expect![[r#"
            ~/bin/python3
        "#]],
        );
        check(
            &[("python3", "")],
            "~",
            "python3 x",
            expect![[r#"
            ~/python3
        "#]],
        );
        check(&[("bin/a", "-> b"), ("bin/b", "-> a")], "~/bin", "a", expect![""]);
        check(
            &[("bin/x", "#!~/bin/x\n")],
            "~/bin",
            "x; ls /",
            expect![[r#"
            ~/bin/x
        "#]],
        );
    }
}
