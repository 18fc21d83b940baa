//! A home and a project for each test, and outputs without the parts that differ from run to run.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use cotter_files::trust::{
    snapshot::Snapshot,
    store::{Grants, TrustStore},
};
use expect_test::Expect;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// An empty home beside a small project.
pub(crate) struct World {
    folder: TempDir,
    env: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "tmp", "project/src", "project/.git"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("project/a.txt"), "one\ntwo\n").unwrap();
        fs::write(folder.path().join("project/src/b.txt"), "three\n").unwrap();
        World { folder, env: vec![] }
    }

    pub(crate) fn with_env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.env.push((name.into(), value.as_ref().to_str().unwrap().into()));
        self
    }

    /// Returns a path below the world's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes an executable file. Returns its path.
    pub(crate) fn write_executable(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Writes the person's own settings.
    pub(crate) fn settings(&self, text: &str) -> PathBuf {
        self.write("home/.config/cotter/settings.json", text)
    }

    /// Writes a script for `--script` with these steps. Returns its path.
    pub(crate) fn script(&self, steps: &str) -> String {
        let path = self.write("script.json", format!("{{\"steps\": [{steps}]}}"));
        path.to_str().unwrap().into()
    }

    /// Returns the environment of every command: a home, and the variables of the test.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        // The temp folder may be read, so it is not the folder of this world.
        let folder = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let own = [("HOME".to_owned(), folder("home")), ("TMPDIR".to_owned(), folder("tmp"))];
        own.into_iter().chain(self.env.clone()).collect()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cotter"));
        command.args(args).env_clear().envs(self.env()).current_dir(self.path("project"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Creates a command in a session of its own, which has no controlling terminal.
    pub(crate) fn without_terminal(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_cotter")).args(args);
        command.env_clear().envs(self.env()).env("PATH", std::env::var_os("PATH").unwrap());
        command.current_dir(self.path("project"));
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs a command and compares its exit code, stdout and stderr.
    pub(crate) fn check(&self, args: &[&str], expected: Expect) {
        expected.assert_eq(&self.shown(&self.output(args)));
    }

    /// Runs a command without a terminal, and compares its output.
    pub(crate) fn check_without_terminal(&self, args: &[&str], expected: Expect) {
        let output = self.without_terminal(args).stdin(Stdio::null()).output().unwrap();
        expected.assert_eq(&self.shown(&output));
    }

    /// Runs a command with piped input, and compares its output.
    pub(crate) fn check_piped(&self, args: &[&str], input: &[u8], expected: Expect) {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        expected.assert_eq(&self.shown(&child.wait_with_output().unwrap()));
    }

    pub(crate) fn shown(&self, output: &Output) -> String {
        let code = output.status.code().map_or("signal".into(), |code| code.to_string());
        let mut shown = format!("exit {code}\n");
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                shown += &format!("--- {name}\n{}", String::from_utf8_lossy(bytes));
            }
        }
        self.plain(&shown)
    }

    /// Masks the parts of a text that differ from run to run: paths, ids, times, hashes, durations.
    pub(crate) fn plain(&self, text: &str) -> String {
        let root = self.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        let mut text = text.replace(&root, "[T]");
        for (number, id) in self.ids().iter().enumerate() {
            text = text.replace(id, &format!("[ID{}]", number + 1));
        }
        text = mask(&text, "####-##-##T##:##:##.###Z", "[TIME]");
        text = mask(&text, "####-##-## ##:##", "[TIME]");
        text = mask(&text, "##:##:##.###", "[TIME]");
        text = mask(&text, &"x".repeat(32), "[HASH]");
        for (before, after) in
            [("\"ms\":", ""), ("\"bytes\":", ""), (" in ", " ms"), (" in ", " µs")]
        {
            text = number_between(&text, before, after);
        }
        text
    }

    /// Trusts sources as they are, without a question.
    pub(crate) fn trust_now(&self, sources: &[&str]) {
        let store = TrustStore::open(self.path("home/.local/share/cotter/trust"));
        for source in sources {
            let snapshot = Snapshot::take(&self.path(source)).unwrap();
            store.trust(&snapshot, Grants::default()).unwrap();
        }
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.path("home/.local/share/cotter/sessions")
    }

    /// Returns the ids of the stored sessions, the oldest first.
    pub(crate) fn ids(&self) -> Vec<String> {
        let files = fs::read_dir(self.sessions()).into_iter().flatten().flatten();
        let mut files: Vec<_> = files
            .filter_map(|file| {
                let id = file.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned();
                let text = fs::read_to_string(file.path()).unwrap_or_default();
                let created = text.split("\"createdAt\":\"").nth(1).unwrap_or_default();
                Some((created.get(..24).unwrap_or_default().to_owned(), id))
            })
            .collect();
        files.sort();
        files.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the id of the only session.
    pub(crate) fn id(&self) -> String {
        match &*self.ids() {
            [only] => only.clone(),
            ids => panic!("expected one session, found {ids:?}"),
        }
    }

    pub(crate) fn session_file(&self) -> PathBuf {
        self.sessions().join(format!("{}.jsonl", self.id()))
    }

    /// Waits until a stored session contains these words.
    pub(crate) fn wait_for_session(&self, words: &str) {
        let has = || {
            let files = fs::read_dir(self.sessions()).into_iter().flatten().flatten();
            files
                .filter_map(|file| fs::read_to_string(file.path()).ok())
                .any(|text| text.contains(words))
        };
        wait_until(has, words);
    }
}

/// The arguments of a run with the built-in model that needs no provider.
pub(crate) const REHEARSAL: [&str; 3] = ["-p", "--model", "rehearsal"];

/// Returns the arguments of a rehearsal: these ones, then the prompt.
pub(crate) fn rehearsal<'a>(more: &[&'a str], prompt: &'a str) -> Vec<&'a str> {
    [&REHEARSAL, more, &[prompt]].concat()
}

/// Sends a signal to a child process.
pub(crate) fn send_signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `done`, for a minute at most.
pub(crate) fn wait_until(done: impl Fn() -> bool, what: &str) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_mins(1), "this did not happen: {what}");
        thread::sleep(PAUSE);
    }
}

/// Checks for `time` that a condition holds, for events that must not happen and that no signal reports.
pub(crate) fn holds_for(time: Duration, is_so: impl Fn() -> bool, what: &str) {
    let since = Instant::now();
    while since.elapsed() < time {
        assert!(is_so(), "this did not stay so: {what}");
        thread::sleep(PAUSE);
    }
}

/// Replaces every text of a shape: `#` is a digit, `x` a hex digit, anything else itself.
pub(crate) fn mask(text: &str, shape: &str, with: &str) -> String {
    let fits = |bytes: &[u8]| {
        bytes.len() >= shape.len()
            && shape.bytes().zip(bytes).all(|(shape, byte)| match shape {
                b'#' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                other => other == *byte,
            })
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if fits(rest.as_bytes()) {
            out += with;
            rest = &rest[shape.len()..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Replaces the number between two texts.
fn number_between(text: &str, before: &str, after: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.');
        let masked = rest.len() < part.len() && rest.starts_with(after);
        out += before;
        out += &if masked { format!("N{rest}") } else { part.to_owned() };
    }
    out
}
