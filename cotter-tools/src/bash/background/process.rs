//! One background process: its output, the protected paths it creates, and its end.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use cotter::ToolError;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    bash,
    confine::index::EndCheck,
    process::{Job, ProcessEnd, Runner, running::RunningProcess},
};

/// The longest log. With all running and remembered processes this is a quarter of a gigabyte.
const MAX_LOG: u64 = 16 * 1024 * 1024;
/// The most bytes of a log that one call shows.
const TAIL_BYTES: u64 = 16 * 1024;

/// The reason for ending a process that was started before a secret was read.
const READ_SECRET: &str = "it could reach beyond this machine, and was ended when a secret was read in \
                           this session; starting it again needs approval";

/// One process. Dropping it ends it and removes its log.
pub(crate) struct BackgroundProcess {
    pub(crate) command: String,
    pub(crate) log: PathBuf,
    pub(crate) ended: watch::Receiver<Option<BackgroundEnd>>,
    sender: mpsc::UnboundedSender<LogMessage>,
    reader: JoinHandle<()>,
    /// Cancelled when a secret is read, if the process could carry it out.
    secret: Option<CancellationToken>,
    /// Protected paths that did not exist at the start and were not reported yet.
    absent: Vec<PathBuf>,
    /// True once the remarks about its end were reported.
    pub(crate) is_end_reported: bool,
    pub(crate) started: Instant,
}

/// A message to the task that reads a process's output.
enum LogMessage {
    Stop,
    Approved(Vec<PathBuf>),
}

/// The end of the process.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundEnd {
    status: String,
    remarks: Vec<String>,
}

impl BackgroundEnd {
    /// The status and all remarks on one line.
    pub(crate) fn one_line(&self) -> String {
        let all: Vec<_> =
            [&self.status].into_iter().chain(&self.remarks).map(String::as_str).collect();
        all.join("; ")
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        self.reader.abort();
        let _ = fs::remove_file(&self.log);
    }
}

impl BackgroundProcess {
    pub(crate) async fn start(
        command: &str,
        (log, file): (PathBuf, File),
        (job, end_check): (Job, Option<EndCheck>),
        (runner, secret): (&Runner, Option<CancellationToken>),
    ) -> Result<Self, ToolError> {
        let protected = job.confinement.iter().flat_map(|confinement| &confinement.protected);
        let absent = protected.filter(|path| path.symlink_metadata().is_err()).cloned().collect();
        let running = match runner.start(job).await {
            Ok(running) => running.with_end_check(end_check),
            Err(cause) => {
                let _ = fs::remove_file(&log);
                return Err(bash::start_error(cause));
            }
        };
        let (sender, messages) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        let watched = secret.clone();
        let reader = tokio::spawn(async move {
            let status = listen(running, file, messages, watched).await;
            end.send_replace(Some(status));
        });
        let command = command.into();
        Ok(BackgroundProcess {
            command,
            log,
            ended,
            sender,
            reader,
            secret,
            absent,
            is_end_reported: false,
            started: Instant::now(),
        })
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// True while it is being ended because a secret was read.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_running() && self.secret.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Ends it. The receiver reports the end.
    pub(crate) fn stop(&self) -> watch::Receiver<Option<BackgroundEnd>> {
        let _ = self.sender.send(LogMessage::Stop);
        self.ended.clone()
    }

    /// Records approved paths: their content does not come from this process.
    pub(crate) fn approve(&mut self, paths: &[PathBuf]) {
        self.absent.retain(|path| {
            !paths.iter().any(|written| written.starts_with(path) || path.starts_with(written))
        });
        let _ = self.sender.send(LogMessage::Approved(paths.into()));
    }

    pub(crate) fn status(&self, name: &str) -> String {
        match &*self.ended.borrow() {
            None => format!("`{name}` is running"),
            Some(end) => format!("`{name}` has ended: {}", end.one_line()),
        }
    }

    /// The unreported news: protected paths created while it runs, or the remarks about its end.
    pub(crate) fn news(&mut self, name: &str) -> Vec<String> {
        if let Some(end) = &*self.ended.borrow() {
            let is_first_report = !std::mem::replace(&mut self.is_end_reported, true);
            let remarks = end.remarks.iter().filter(|_| is_first_report);
            return remarks.map(|remark| with_name(name, remark)).collect();
        }
        let exists = |path: &mut PathBuf| path.symlink_metadata().is_ok();
        let created = self.absent.extract_if(.., exists);
        let describe = |path: PathBuf| {
            let path = path.display();
            let text = format!(
                "{path}, which decides what runs later and was not approved, was created while it \
                 runs: it is removed when the process ends; check it before you use it"
            );
            with_name(name, &text)
        };
        created.map(describe).collect()
    }
}

fn with_name(name: &str, text: &str) -> String {
    format!("background process `{name}`: {text}")
}

/// Writes the output of a process to its log until it ends, and returns its end.
async fn listen(
    mut running: RunningProcess,
    mut log: File,
    mut messages: mpsc::UnboundedReceiver<LogMessage>,
    mut secret: Option<CancellationToken>,
) -> BackgroundEnd {
    let mut room = MAX_LOG;
    let (mut full, mut read_secret) = (false, false);
    loop {
        let chunk = tokio::select! {
            biased;
            Some(message) = messages.recv() => {
                match message {
                    LogMessage::Stop => running.end(),
                    LogMessage::Approved(paths) => running.approve(&paths),
                }
                continue;
            }
            () = secret_read(secret.as_ref()) => {
                (secret, read_secret) = (None, true);
                running.end();
                continue;
            }
            chunk = running.next() => chunk,
        };
        let Some(chunk) = chunk else { break };
        let length = chunk.bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let _ = log.write_all(&chunk.bytes[..length]);
        if !full && length < chunk.bytes.len() {
            full = true;
            let _ = log.write_all(b"\n[the log is full; further output is left out]\n");
        }
        room -= length as u64;
    }
    let mut end = match running.wait_for_end().await {
        Err(cause) => BackgroundEnd { status: cause.to_string(), remarks: vec![] },
        Ok(ProcessEnd { exit, remarks }) => {
            let status = bash::describe_exit(exit).unwrap_or_else(|| "exit code 0".into());
            BackgroundEnd { status, remarks }
        }
    };
    if read_secret {
        end.remarks.insert(0, READ_SECRET.into());
    }
    end
}

/// Waits until a secret was read; forever without a token.
async fn secret_read(secret: Option<&CancellationToken>) {
    match secret {
        Some(secret) => secret.cancelled().await,
        None => std::future::pending().await,
    }
}

/// The end of a log.
pub(crate) fn tail(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = vec![];
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        let cut = if length > TAIL_BYTES {
            format!("… [{} bytes before]\n", length - TAIL_BYTES)
        } else {
            String::new()
        };
        Ok(cut + &bash::to_text(&bytes))
    };
    read().unwrap_or_else(|cause| format!("(cannot read its log: {cause})"))
}
