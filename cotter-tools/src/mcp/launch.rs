//! Starting a server that is a program: what it gets to see, and how it ends.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{Place, text};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    process::{Child, Command},
    sync::watch,
};

use crate::environment::{Environment, MARK};
#[cfg(unix)]
use crate::process::apart;

/// How much is kept of what a server says beside the protocol.
const TAIL_BYTES: usize = 64 * 1024;
/// How long it is waited for the rest of it.
const SETTLING: Duration = Duration::from_millis(250);
/// How much of it is quoted when something failed.
const QUOTED_CHARS: usize = 1500;

/// A program to start.
pub(super) struct Job {
    /// Absolute.
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    /// All that it gets.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: PathBuf,
    /// Who starts it in a session of its own.
    pub(super) launcher: Option<PathBuf>,
    /// Folders the kernel closes to it; `None` where nothing confines it.
    pub(super) hidden: Option<Vec<PathBuf>>,
}

/// A program at work. Dropped, it is ended with its process group.
pub(super) struct Process {
    child: Child,
}

/// The ends of its pipes that are ours.
pub(super) struct Pipes {
    pub(super) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
}

impl Job {
    /// Starts it. The one place where a server's process is made.
    pub(super) fn start(self, tail: &Tail) -> io::Result<(Process, Pipes)> {
        let mut command = self.command()?;
        command.args(self.args).current_dir(self.cwd).env_clear().envs(self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let input = Box::new(child.stdin.take().ok_or_else(missing)?);
        let output = Box::new(child.stdout.take().ok_or_else(missing)?);
        let errors = child.stderr.take().ok_or_else(missing)?;
        tail.0.open.send_replace(true);
        tokio::spawn(tail.clone().read(errors));
        Ok((Process { child }, Pipes { input, output }))
    }

    /// Leads a group of its own either way: with a launcher that of its session.
    #[cfg(unix)]
    fn command(&self) -> io::Result<Command> {
        if let Some(launcher) = &self.launcher {
            return Ok(apart::command(launcher, &self.program, self.hidden.as_deref())?.into());
        }
        let mut command = Command::new(&self.program);
        command.process_group(0);
        Ok(command)
    }

    #[cfg(not(unix))]
    fn command(&self) -> io::Result<Command> {
        Ok(Command::new(&self.program))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody has waited for the child, so its number is still its own. The child itself is ended and
        // waited for when it is dropped.
        #[cfg(unix)]
        if let Some(leader) = self.child.id().and_then(|id| i32::try_from(id).ok())
            && let Some(group) = rustix::process::Pid::from_raw(leader)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        #[cfg(not(unix))]
        let _ = self.child.start_kill();
    }
}

/// The end of what a server says beside the protocol.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Said>);

#[derive(Default)]
struct Said {
    kept: Mutex<VecDeque<u8>>,
    /// Whether there may be more to come.
    open: watch::Sender<bool>,
}

impl Tail {
    async fn read(self, mut from: impl AsyncRead + Unpin) {
        let mut bytes = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            self.push(&bytes[..count]);
        }
        self.0.open.send_replace(false);
    }

    /// The same once everything is read of a server that has just ended; without much patience for one
    /// that has not.
    pub(super) async fn settled(&self) -> &Self {
        let mut open = self.0.open.subscribe();
        let _ = tokio::time::timeout(SETTLING, open.wait_for(|open| !open)).await;
        self
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let over = (kept.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        kept.drain(..over);
        kept.extend(bytes);
    }

    /// The last of it, to be quoted; nothing where it said nothing.
    pub(super) fn quoted(&self) -> String {
        let kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let said = String::from_utf8_lossy(&bytes);
        let said = said.trim();
        let skipped = said.chars().count().saturating_sub(QUOTED_CHARS);
        let last: String = said.chars().skip(skipped).collect();
        match last.is_empty() {
            true => String::new(),
            false => format!("; it last said:\n{}", text::show(&last)),
        }
    }
}

/// The environment of a server: the few variables that all get, what its entry names, and the mark.
pub(super) fn environment(
    variables: &[(OsString, OsString)],
    named: impl IntoIterator<Item = (OsString, OsString)>,
    place: &Place,
) -> Vec<(OsString, OsString)> {
    let mark = (MARK.into(), "mcp".into());
    Environment::chosen(variables.iter().cloned(), &["TMPDIR"])
        .with(place, named.into_iter().chain([mark]))
}

/// A text with every `${NAME}` replaced by the variable, and `${NAME:-words}` by the words where there
/// is none. One that is not there is an error: a server that gets an empty key fails in a stranger way.
pub(super) fn expand(text: &str, variables: &[(OsString, OsString)]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            return Err("a `${` is not closed".into());
        };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let found =
            variables.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str());
        match found.or(otherwise) {
            Some(value) => out.push_str(value),
            None => {
                return Err(format!("there is no variable `{}`", cotter::text::show_line(name)));
            }
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    use expect_test::{Expect, expect};

    fn had() -> Vec<(OsString, OsString)> {
        let had = [
            ("HOME", "/home/me"),
            ("PATH", "/work/bin:bin:.::/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("LANG", "() { :; }; rm x"),
            ("API_KEY", "secret"),
            ("LD_PRELOAD", "x.so"),
            ("NODE_OPTIONS", "-r x"),
            ("COTTER_CALL", "other"),
        ];
        had.map(|(name, value)| (name.into(), value.into())).into()
    }

    #[test]
    fn s7_a_server_gets_what_is_listed_and_what_its_entry_names() {
        let place = Place::new(Path::new("/work"));
        let named = [("TOKEN".into(), "t".into()), ("HOME".into(), "/elsewhere".into())];
        let got = environment(&had(), named, &place);
        let got: Vec<_> = got
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        expect![[r#"
            LC_ALL=C
            PATH=/usr/bin:/bin
            TOKEN=t
            HOME=/elsewhere
            COTTER_CALL=mcp"#]]
        .assert_eq(&got.join("\n"));
    }

    #[test]
    fn variables_are_put_in_where_they_are_named() {
        let check = |text: &str, expected: Expect| {
            expected
                .assert_eq(&expand(text, &had()).unwrap_or_else(|cause| format!("error: {cause}")));
        };
        check("plain $HOME {x}", expect!["plain $HOME {x}"]);
        check("Bearer ${API_KEY}!", expect!["Bearer secret!"]);
        check("${NOT_THERE:-else}/${HOME:-x}", expect!["else//home/me"]);
        check("${NOT_THERE}", expect!["error: there is no variable `NOT_THERE`"]);
        check("${API_KEY", expect!["error: a `${` is not closed"]);
    }

    #[test]
    fn only_the_end_of_what_was_said_is_kept() {
        let tail = Tail::default();
        assert_eq!(tail.quoted(), "");
        tail.push(&vec![b'x'; 2 * TAIL_BYTES]);
        tail.push("the end\u{1b}[31m\n".as_bytes());
        assert_eq!(tail.0.kept.lock().expect("nobody panics").len(), TAIL_BYTES);
        assert!(tail.quoted().ends_with("xthe end\\u{1b}[31m"), "{}", tail.quoted());
    }
}
