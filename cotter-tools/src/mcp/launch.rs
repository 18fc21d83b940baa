//! Starts a server that is a program: its environment, its pipes and its end.

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

/// The buffer size for a server's output.
const BUFFER: usize = 64 * 1024;
/// The most bytes of a server's standard error that are kept.
const TAIL_BYTES: usize = 64 * 1024;
/// How long to wait for the rest of it.
const TAIL_WAIT: Duration = Duration::from_millis(250);
/// The most characters of it that an error quotes.
const QUOTED_CHARS: usize = 1500;

/// A running server. Dropping it ends it with all its processes.
pub(crate) struct McpProcess {
    pump: AbortHandle,
}

/// Our ends of its pipes.
pub(crate) struct Pipes {
    pub(crate) input: Sender,
    pub(crate) output: DuplexStream,
}

/// Starts a server. All server processes are started here.
pub(crate) async fn start(
    runner: &Runner,
    mut job: Job,
    tail: &StderrTail,
) -> Result<(McpProcess, Pipes), String> {
    let to_message = |cause: io::Error| cause.to_string();
    create_closed_folders(&job);
    let (child_end, our_end) = io::pipe().map_err(to_message)?;
    job.stdin = Some(Arc::new(child_end.into()));
    let running = runner.start(job).await.map_err(|cause| cause.to_string())?;
    let input = Sender::from_owned_fd(our_end.into()).map_err(to_message)?;
    let (output, child_end) = tokio::io::duplex(BUFFER);
    tail.0.open.send_replace(true);
    let pump = tokio::spawn(pump(running, child_end, tail.clone())).abort_handle();
    Ok((McpProcess { pump }, Pipes { input, output }))
}

/// Creates the closed folders that do not exist yet: a server could create a missing one and write
/// files there that we would read as a person's. System folders are created readable for all; if we
/// may not create one, the server may not either.
fn create_closed_folders(job: &Job) {
    let closed = job.confinement.iter().flat_map(|confinement| &confinement.closed);
    for folder in closed.filter(|folder| folder.symlink_metadata().is_err()) {
        let mode = if cotter::fs::workspace::is_system(folder) { 0o755 } else { 0o700 };
        let _ = fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
    }
}

/// Forwards a server's output and keeps the end of its standard error.
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

/// The end of a server's standard error.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<StderrBuffer>);

#[derive(Default)]
struct StderrBuffer {
    buffer: Mutex<VecDeque<u8>>,
    /// True while more may come.
    open: watch::Sender<bool>,
}

impl StderrTail {
    /// Waits until the standard error of a server that has just ended is read, or for a short time.
    pub(crate) async fn wait_for_end(&self) -> &Self {
        let mut open = self.0.open.subscribe();
        let _ = tokio::time::timeout(TAIL_WAIT, open.wait_for(|open| !open)).await;
        self
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut buffer = self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let over = (buffer.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        buffer.drain(..over);
        buffer.extend(bytes);
    }

    /// The end of it as a quotation; empty if there is none.
    pub(crate) fn quote(&self) -> String {
        let buffer = self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = buffer.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        let skipped = text.chars().count().saturating_sub(QUOTED_CHARS);
        let last: String = text.chars().skip(skipped).collect();
        match last.is_empty() {
            true => String::new(),
            false => format!("; its last output:\n{}", text::show(&last)),
        }
    }
}

/// The environment of a server: the few variables that all get, and those of its entry.
pub(crate) fn environment(
    variables: &[(OsString, OsString)],
    named: impl IntoIterator<Item = (OsString, OsString)>,
    workspace: &Workspace,
) -> Vec<(OsString, OsString)> {
    Environment::chosen(variables.iter().cloned(), &["TMPDIR"]).with(workspace, named)
}

/// Replaces every `${NAME}` by the variable, and `${NAME:-default}` by the default if there is none.
/// A missing variable is an error: a server with an empty key would fail in a less clear way.
pub(crate) fn expand(text: &str, variables: &[(OsString, OsString)]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            return Err("a `${` is not closed".into());
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let found =
            variables.iter().find(|(other, _)| other == name).and_then(|(_, value)| value.to_str());
        match found.or(default) {
            Some(value) => out.push_str(value),
            None => {
                return Err(format!("there is no variable `{}`", cotter::text::show_line(name)));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    use expect_test::{Expect, expect};

    fn variables() -> Vec<(OsString, OsString)> {
        let variables = [
            ("HOME", "/home/me"),
            ("PATH", "/work/bin:bin:.::/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("LANG", "() { :; }; rm x"),
            ("API_KEY", "secret"),
            ("LD_PRELOAD", "x.so"),
            ("NODE_OPTIONS", "-r x"),
            ("COTTER_CALL", "other"),
        ];
        variables.map(|(name, value)| (name.into(), value.into())).into()
    }

    #[test]
    fn s7_server_gets_listed_and_named_variables() {
        let workspace = Workspace::new(Path::new("/work"));
        let named = [("TOKEN".into(), "t".into()), ("HOME".into(), "/elsewhere".into())];
        let environment = environment(&variables(), named, &workspace);
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        expect![[r#"
            LC_ALL=C
            PATH=/usr/bin:/bin
            TOKEN=t
            HOME=/elsewhere"#]]
        .assert_eq(&environment.join("\n"));
    }

    #[test]
    fn variables_are_expanded() {
        let check = |text: &str, expected: Expect| {
            expected.assert_eq(
                &expand(text, &variables()).unwrap_or_else(|cause| format!("error: {cause}")),
            );
        };
        check("plain $HOME {x}", expect!["plain $HOME {x}"]);
        check("Bearer ${API_KEY}!", expect!["Bearer secret!"]);
        check("${NOT_THERE:-else}/${HOME:-x}", expect!["else//home/me"]);
        // The spelling for a literal `${`.
        check("${:-$}{API_KEY}", expect!["${API_KEY}"]);
        check("${NOT_THERE}", expect!["error: there is no variable `NOT_THERE`"]);
        check("${API_KEY", expect!["error: a `${` is not closed"]);
    }

    #[test]
    fn only_the_end_of_stderr_is_kept() {
        let tail = StderrTail::default();
        assert_eq!(tail.quote(), "");
        tail.push(&vec![b'x'; 2 * TAIL_BYTES]);
        tail.push("the end\u{1b}[31m\n".as_bytes());
        assert_eq!(tail.0.buffer.lock().expect("the lock is not poisoned").len(), TAIL_BYTES);
        assert!(tail.quote().ends_with("xthe end\\u{1b}[31m"), "{}", tail.quote());
    }
}
