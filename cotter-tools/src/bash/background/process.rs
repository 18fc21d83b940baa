//! One background process: what it says, what it makes, and its end.

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
    process::{Job, ProcessEnd, Runner, running::RunningProcess},
};

/// The most of a log: a quarter of a gigabyte, with all that run and all that are remembered.
const MOST_LOG: u64 = 16 * 1024 * 1024;
/// The most of a log that one call shows.
const SHOWN: u64 = 16 * 1024;

/// Why one is ended that was started when there was nothing to carry out.
const READ_SECRET: &str = "it could reach beyond this machine, and was ended when a secret was read in \
                           this session; starting it again asks";

/// One process. Dropped, it is ended, and its log is gone.
pub(crate) struct BackgroundProcess {
    pub(crate) command: String,
    pub(crate) log: PathBuf,
    pub(crate) ended: watch::Receiver<Option<BackgroundEnd>>,
    tell: mpsc::UnboundedSender<LogMessage>,
    listening: JoinHandle<()>,
    /// What ends it, where it may carry a secret out.
    secret: Option<CancellationToken>,
    /// Protected paths that were not there when it began, as far as nothing was told of them yet.
    absent: Vec<PathBuf>,
    /// Whether what there is to say of its end was told.
    pub(crate) end_told: bool,
    pub(crate) started: Instant,
}

/// What is said to whoever listens to a process.
enum LogMessage {
    Stop,
    Approved(Vec<PathBuf>),
}

/// How it ended.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundEnd {
    how: String,
    remarks: Vec<String>,
}

impl BackgroundEnd {
    /// All of it in a line.
    pub(crate) fn told(&self) -> String {
        let all: Vec<_> =
            [&self.how].into_iter().chain(&self.remarks).map(String::as_str).collect();
        all.join("; ")
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        self.listening.abort();
        let _ = fs::remove_file(&self.log);
    }
}

impl BackgroundProcess {
    pub(crate) async fn start(
        command: &str,
        (log, file): (PathBuf, File),
        job: Job,
        (runner, secret): (&Runner, Option<CancellationToken>),
    ) -> Result<Self, ToolError> {
        let protected = job.confinement.iter().flat_map(|confinement| &confinement.protected);
        let absent = protected.filter(|path| path.symlink_metadata().is_err()).cloned().collect();
        let running = match runner.start(job).await {
            Ok(running) => running,
            Err(cause) => {
                let _ = fs::remove_file(&log);
                return Err(bash::not_started(cause));
            }
        };
        let (tell, told) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        let watched = secret.clone();
        let listening = tokio::spawn(async move {
            let how = listen(running, file, told, watched).await;
            end.send_replace(Some(how));
        });
        let command = command.into();
        Ok(BackgroundProcess {
            command,
            log,
            ended,
            tell,
            listening,
            secret,
            absent,
            end_told: false,
            started: Instant::now(),
        })
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Whether it is being ended because a secret was read.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_running() && self.secret.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Ends it. What is given tells when it has ended.
    pub(crate) fn stop(&self) -> watch::Receiver<Option<BackgroundEnd>> {
        let _ = self.tell.send(LogMessage::Stop);
        self.ended.clone()
    }

    /// What is written to these paths is no doing of this process.
    pub(crate) fn approve(&mut self, paths: &[PathBuf]) {
        self.absent.retain(|path| {
            !paths.iter().any(|written| written.starts_with(path) || path.starts_with(written))
        });
        let _ = self.tell.send(LogMessage::Approved(paths.into()));
    }

    pub(crate) fn status(&self, name: &str) -> String {
        match &*self.ended.borrow() {
            None => format!("`{name}` is running"),
            Some(end) => format!("`{name}` has ended: {}", end.told()),
        }
    }

    /// What nobody was told of it yet: what came to be in protected places while it runs, and what is
    /// to be said of its end.
    pub(crate) fn news(&mut self, name: &str) -> Vec<String> {
        if let Some(end) = &*self.ended.borrow() {
            let first = !std::mem::replace(&mut self.end_told, true);
            let remarks = end.remarks.iter().filter(|_| first);
            return remarks.map(|remark| told(name, remark)).collect();
        }
        let is_there = |path: &mut PathBuf| path.symlink_metadata().is_ok();
        let made = self.absent.extract_if(.., is_there);
        let tell = |path: PathBuf| {
            let path = path.display();
            let what = format!(
                "{path}, which decides what runs later and was not approved, came to be while it \
                 runs: it is taken away when the process ends; look at it before you use it"
            );
            told(name, &what)
        };
        made.map(tell).collect()
    }
}

fn told(name: &str, what: &str) -> String {
    format!("background process `{name}`: {what}")
}

/// Writes what a process says to its log until it ends, and says how that was.
async fn listen(
    mut running: RunningProcess,
    mut log: File,
    mut told: mpsc::UnboundedReceiver<LogMessage>,
    mut secret: Option<CancellationToken>,
) -> BackgroundEnd {
    let mut room = MOST_LOG;
    let (mut full, mut knows) = (false, false);
    loop {
        let chunk = tokio::select! {
            biased;
            Some(word) = told.recv() => {
                match word {
                    LogMessage::Stop => running.end(),
                    LogMessage::Approved(paths) => running.approve(&paths),
                }
                continue;
            }
            () = fired(secret.as_ref()) => {
                (secret, knows) = (None, true);
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
            let _ = log.write_all(b"\n[the log is full; what follows is left out]\n");
        }
        room -= length as u64;
    }
    let mut end = match running.ended().await {
        Err(cause) => BackgroundEnd { how: cause.to_string(), remarks: vec![] },
        Ok(ProcessEnd { exit, remarks }) => {
            let how = bash::ending(exit).unwrap_or_else(|| "exit code 0".into());
            BackgroundEnd { how, remarks }
        }
    };
    if knows {
        end.remarks.insert(0, READ_SECRET.into());
    }
    end
}

/// Waits until a secret was read; for ever, where that does not matter.
async fn fired(secret: Option<&CancellationToken>) {
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
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
        let mut bytes = vec![];
        file.take(SHOWN).read_to_end(&mut bytes)?;
        let cut = if length > SHOWN {
            format!("… [{} bytes before]\n", length - SHOWN)
        } else {
            String::new()
        };
        Ok(cut + &bash::shown(&bytes))
    };
    read().unwrap_or_else(|cause| format!("(its log cannot be read: {cause})"))
}
