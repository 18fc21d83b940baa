//! Starting a server that is a program: what it gets to see, and how it ends.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    os::unix::fs::DirBuilderExt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{Workspace, text};
use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    net::unix::pipe::Sender,
    sync::watch,
    task::AbortHandle,
};

use crate::process::{
    Job, Runner,
    environment::Environment,
    running::{RunningProcess, Stream},
};

/// How much of a server's words waits to be read.
const BUFFER: usize = 64 * 1024;
/// How much is kept of what a server says beside the protocol.
const TAIL_BYTES: usize = 64 * 1024;
/// How long it is waited for the rest of it.
const SETTLING: Duration = Duration::from_millis(250);
/// How much of it is quoted when something failed.
const QUOTED_CHARS: usize = 1500;

/// A server at work. Dropped, it is ended with everything it started.
pub(crate) struct McpProcess {
    pump: AbortHandle,
}

/// The ends of its pipes that are ours.
pub(crate) struct Pipes {
    pub(crate) input: Sender,
    pub(crate) output: DuplexStream,
}

/// Starts a server. The one place where a server's process is made.
pub(crate) async fn start(
    runner: &Runner,
    mut job: Job,
    tail: &StderrTail,
) -> Result<(McpProcess, Pipes), String> {
    let words = |cause: io::Error| cause.to_string();
    make_closed(&job);
    let (theirs, ours) = io::pipe().map_err(words)?;
    job.stdin = Some(Arc::new(theirs.into()));
    let running = runner.start(job).await.map_err(|cause| cause.to_string())?;
    let input = Sender::from_owned_fd(ours.into()).map_err(words)?;
    let (output, theirs) = tokio::io::duplex(BUFFER);
    tail.0.open.send_replace(true);
    let pump = tokio::spawn(pump(running, theirs, tail.clone())).abort_handle();
    Ok((McpProcess { pump }, Pipes { input, output }))
}

/// Makes what is closed to a server and not there yet: who finds nothing to close could make it, and write
/// there what we would read as a person's. One of the system is there for everybody; who may not make it
/// has no server that may.
fn make_closed(job: &Job) {
    let closed = job.confinement.iter().flat_map(|confinement| &confinement.closed);
    for folder in closed.filter(|folder| folder.symlink_metadata().is_err()) {
        let mode = if cotter::fs::workspace::is_system(folder) { 0o755 } else { 0o700 };
        let _ = fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
    }
}

/// Passes on what a server says, and keeps the end of what it says beside the protocol.
async fn pump(mut running: RunningProcess, mut output: DuplexStream, tail: StderrTail) {
    while let Some(chunk) = running.next().await {
        match chunk.stream {
            Stream::Stderr => tail.push(&chunk.bytes),
            Stream::Stdout => {
                if output.write_all(&chunk.bytes).await.is_err() {
                    break;
                }
            }
        }
    }
    tail.0.open.send_replace(false);
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// The end of what a server says beside the protocol.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<StderrBuffer>);

#[derive(Default)]
struct StderrBuffer {
    kept: Mutex<VecDeque<u8>>,
    /// Whether there may be more to come.
    open: watch::Sender<bool>,
}

impl StderrTail {
    /// The same once everything is read of a server that has just ended; without much patience for one
    /// that has not.
    pub(crate) async fn settled(&self) -> &Self {
        let mut open = self.0.open.subscribe();
        let _ = tokio::time::timeout(SETTLING, open.wait_for(|open| !open)).await;
        self
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let over = (kept.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        kept.drain(..over);
        kept.extend(bytes);
    }

    /// The last of it, to be quoted; nothing where it said nothing.
    pub(crate) fn quoted(&self) -> String {
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

/// The environment of a server: the few variables that all get, and what its entry names.
pub(crate) fn environment(
    variables: &[(OsString, OsString)],
    named: impl IntoIterator<Item = (OsString, OsString)>,
    place: &Workspace,
) -> Vec<(OsString, OsString)> {
    Environment::chosen(variables.iter().cloned(), &["TMPDIR"]).with(place, named)
}

/// A text with every `${NAME}` replaced by the variable, and `${NAME:-words}` by the words where there
/// is none. One that is not there is an error: a server that gets an empty key fails in a stranger way.
pub(crate) fn expand(text: &str, variables: &[(OsString, OsString)]) -> Result<String, String> {
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
        let place = Workspace::new(Path::new("/work"));
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
            HOME=/elsewhere"#]]
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
        // How a text says that it means itself.
        check("${:-$}{API_KEY}", expect!["${API_KEY}"]);
        check("${NOT_THERE}", expect!["error: there is no variable `NOT_THERE`"]);
        check("${API_KEY", expect!["error: a `${` is not closed"]);
    }

    #[test]
    fn only_the_end_of_what_was_said_is_kept() {
        let tail = StderrTail::default();
        assert_eq!(tail.quoted(), "");
        tail.push(&vec![b'x'; 2 * TAIL_BYTES]);
        tail.push("the end\u{1b}[31m\n".as_bytes());
        assert_eq!(tail.0.kept.lock().expect("nobody panics").len(), TAIL_BYTES);
        assert!(tail.quoted().ends_with("xthe end\\u{1b}[31m"), "{}", tail.quoted());
    }
}
