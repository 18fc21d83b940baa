//! A command under way: what it says, and its end.

use std::{ffi::OsString, io, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use tokio::net::unix::pipe::Receiver;

use crate::process::{ProcessEnd, StartError, direct::DirectProcess};
#[cfg(target_os = "linux")]
use crate::process::{
    spawner::Spawner,
    wire::{self, Report},
};

/// The most that is taken from a pipe at once.
const CHUNK: usize = 64 * 1024;

/// A command under way. Dropped, it is ended with everything it started.
#[derive(Debug)]
pub struct RunningProcess {
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    end: ProcessWait,
    ended: Option<Result<ProcessEnd, StartError>>,
}

#[derive(Debug)]
enum ProcessWait {
    #[cfg(target_os = "linux")]
    Minded(MinderHandle),
    Direct(DirectProcess),
}

/// A command that a minder minds. When its control is closed, the minder ends it.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct MinderHandle {
    control: tokio::net::UnixStream,
    /// What was read of the report.
    got: Vec<u8>,
    mark: OsString,
    /// Stays as long as the command: it ends what a killed minder leaves behind.
    _spawner: Arc<Spawner>,
}

/// One of the two streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What it answers.
    Stdout,
    /// What it remarks.
    Stderr,
}

/// Something a command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where.
    pub stream: Stream,
    /// What.
    pub bytes: Vec<u8>,
}

impl RunningProcess {
    #[cfg(target_os = "linux")]
    pub(crate) fn minded(
        stdout: OwnedFd,
        stderr: OwnedFd,
        minded: MinderHandle,
    ) -> Result<Self, StartError> {
        RunningProcess::of(stdout, stderr, ProcessWait::Minded(minded))
    }

    pub(crate) fn direct(
        stdout: OwnedFd,
        stderr: OwnedFd,
        direct: DirectProcess,
    ) -> Result<Self, StartError> {
        RunningProcess::of(stdout, stderr, ProcessWait::Direct(direct))
    }

    fn of(stdout: OwnedFd, stderr: OwnedFd, end: ProcessWait) -> Result<Self, StartError> {
        Ok(RunningProcess {
            stdout: Some(Receiver::from_owned_fd(stdout)?),
            stderr: Some(Receiver::from_owned_fd(stderr)?),
            end,
            ended: None,
        })
    }

    /// What it says next, in the order in which it arrives; `None` when it has ended and all was taken.
    /// Nothing is lost when this is dropped half-way.
    pub async fn next(&mut self) -> Option<Chunk> {
        while self.ended.is_none() {
            tokio::select! {
                biased;
                bytes = more(&mut self.stdout) => {
                    if let Some(bytes) = bytes {
                        return Some(Chunk { stream: Stream::Stdout, bytes });
                    }
                }
                bytes = more(&mut self.stderr) => {
                    if let Some(bytes) = bytes {
                        return Some(Chunk { stream: Stream::Stderr, bytes });
                    }
                }
                ended = self.end.wait() => self.ended = Some(ended),
            }
        }
        // All its processes are gone: what is in the pipes is all there will be, even if somebody
        // outside was handed an end of one.
        for (stream, pipe) in
            [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)]
        {
            if let Some(bytes) = take(pipe) {
                return Some(Chunk { stream, bytes });
            }
        }
        None
    }

    /// Ends it with everything it started. What it said and how it ended can still be asked for.
    pub fn end(&mut self) {
        match &mut self.end {
            #[cfg(target_os = "linux")]
            ProcessWait::Minded(minded) => {
                let _ = rustix::net::shutdown(&minded.control, rustix::net::Shutdown::Write);
            }
            ProcessWait::Direct(direct) => direct.end(),
        }
    }

    /// Says that a person has approved what is written to these paths: it stays when the command ends.
    pub(crate) fn approve(&mut self, paths: &[PathBuf]) {
        #[cfg(target_os = "linux")]
        if let ProcessWait::Minded(minded) = &self.end {
            let message = wire::framed(&wire::approved(paths));
            // Half a message would be waited for: rather no command than no guard.
            if minded.control.try_write(&message).is_ok_and(|length| length < message.len()) {
                self.end();
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = paths;
    }

    /// Waits until it has ended and nothing of it is left. What it says meanwhile is dropped.
    pub async fn ended(mut self) -> Result<ProcessEnd, StartError> {
        while self.next().await.is_some() {}
        self.ended.take().unwrap_or_else(|| Err(StartError("it has no end".into())))
    }
}

impl ProcessWait {
    async fn wait(&mut self) -> Result<ProcessEnd, StartError> {
        match self {
            #[cfg(target_os = "linux")]
            ProcessWait::Minded(minded) => minded.wait().await,
            ProcessWait::Direct(direct) => direct.wait().await,
        }
    }
}

#[cfg(target_os = "linux")]
impl MinderHandle {
    pub(crate) fn new(
        control: tokio::net::UnixStream,
        mark: OsString,
        spawner: Arc<Spawner>,
    ) -> Self {
        MinderHandle { control, got: vec![], mark, _spawner: spawner }
    }

    async fn wait(&mut self) -> Result<ProcessEnd, StartError> {
        match self.report().await {
            Ok(Report::Ended(ended)) => Ok(ended),
            Ok(Report::NotStarted(why)) => Err(StartError(why)),
            Err(cause) => {
                crate::process::tree::end_marked(&[&self.mark]);
                Err(StartError(format!("who minded it is gone: {cause}")))
            }
        }
    }

    /// Reads the report. Nothing is lost when this is dropped half-way.
    async fn report(&mut self) -> io::Result<Report> {
        loop {
            if let Some((head, body)) = self.got.split_first_chunk()
                && body.len() >= wire::length_of(*head)?
            {
                let report = Report::decode(body);
                return report.ok_or_else(|| io::Error::other("its report is not understood"));
            }
            self.control.readable().await?;
            match self.control.try_read_buf(&mut self.got) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(cause) if cause.kind() != io::ErrorKind::WouldBlock => return Err(cause),
                _ => {}
            }
        }
    }
}

/// Waits for more from a pipe; for ever, once it is at its end.
async fn more(pipe: &mut Option<Receiver>) -> Option<Vec<u8>> {
    match pipe {
        None => std::future::pending().await,
        Some(open) => {
            let _ = open.readable().await;
            take(pipe)
        }
    }
}

/// Takes what is in a pipe. One that is at its end is closed.
fn take(pipe: &mut Option<Receiver>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; CHUNK];
    match pipe.as_ref()?.try_read(&mut bytes) {
        Ok(0) => *pipe = None,
        Ok(length) => {
            bytes.truncate(length);
            return Some(bytes);
        }
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => *pipe = None,
    }
    None
}
