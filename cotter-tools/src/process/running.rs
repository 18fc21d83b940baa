//! A running command: its output, and its end.

use std::{ffi::OsString, io, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use tokio::net::unix::pipe::Receiver;

use crate::confine::index::EndCheck;
use crate::process::{ProcessEnd, StartError, direct::DirectProcess};
#[cfg(target_os = "linux")]
use crate::process::{
    spawner::Spawner,
    wire::{self, Report},
};

/// The most bytes read from a pipe at once.
const CHUNK: usize = 64 * 1024;

/// A running command. Dropping it ends it with all its processes.
#[derive(Debug)]
pub struct RunningProcess {
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    wait: ProcessWait,
    /// How it ended, once it has.
    result: Option<Result<ProcessEnd, StartError>>,
    /// Done when it has ended.
    end_check: Option<EndCheck>,
}

#[derive(Debug)]
enum ProcessWait {
    #[cfg(target_os = "linux")]
    ByMinder(MinderHandle),
    Direct(DirectProcess),
}

/// A command run by a minder. The minder ends it when `control` is closed.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct MinderHandle {
    control: tokio::net::UnixStream,
    /// The bytes of the report read so far.
    buffer: Vec<u8>,
    mark: OsString,
    /// Kept as long as the command: the spawner ends the processes of a killed minder.
    _spawner: Arc<Spawner>,
}

/// An output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The stream it came from.
    pub stream: Stream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl RunningProcess {
    #[cfg(target_os = "linux")]
    pub(crate) fn by_minder(
        stdout: OwnedFd,
        stderr: OwnedFd,
        handle: MinderHandle,
    ) -> Result<Self, StartError> {
        RunningProcess::of(stdout, stderr, ProcessWait::ByMinder(handle))
    }

    pub(crate) fn direct(
        stdout: OwnedFd,
        stderr: OwnedFd,
        direct: DirectProcess,
    ) -> Result<Self, StartError> {
        RunningProcess::of(stdout, stderr, ProcessWait::Direct(direct))
    }

    fn of(stdout: OwnedFd, stderr: OwnedFd, wait: ProcessWait) -> Result<Self, StartError> {
        Ok(RunningProcess {
            stdout: Some(Receiver::from_owned_fd(stdout)?),
            stderr: Some(Receiver::from_owned_fd(stderr)?),
            wait,
            result: None,
            end_check: None,
        })
    }

    /// Adds a check that is done when it has ended, or soon after it was dropped.
    pub(crate) fn with_end_check(self, end_check: Option<EndCheck>) -> Self {
        RunningProcess { end_check, ..self }
    }

    /// The next piece of output, in order of arrival; `None` when the command has ended and
    /// everything was read. Cancel safe.
    pub async fn next(&mut self) -> Option<Chunk> {
        while self.result.is_none() {
            tokio::select! {
                biased;
                bytes = read_pipe(&mut self.stdout) => {
                    if let Some(bytes) = bytes {
                        return Some(Chunk { stream: Stream::Stdout, bytes });
                    }
                }
                bytes = read_pipe(&mut self.stderr) => {
                    if let Some(bytes) = bytes {
                        return Some(Chunk { stream: Stream::Stderr, bytes });
                    }
                }
                result = self.wait.wait() => {
                    let check = self.end_check.take().map_or(vec![], EndCheck::finish);
                    self.result = Some(result.map(|mut end| {
                        end.remarks.extend(check);
                        end
                    }));
                }
            }
        }
        // All its processes are gone: the pipes hold all that is left, even if another process
        // still holds an end.
        for (stream, pipe) in
            [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)]
        {
            if let Some(bytes) = read_remaining(pipe) {
                return Some(Chunk { stream, bytes });
            }
        }
        None
    }

    /// Ends it with all its processes. Its remaining output and its end can still be read.
    pub fn end(&mut self) {
        match &mut self.wait {
            #[cfg(target_os = "linux")]
            ProcessWait::ByMinder(handle) => {
                let _ = rustix::net::shutdown(&handle.control, rustix::net::Shutdown::Write);
            }
            ProcessWait::Direct(direct) => direct.end(),
        }
    }

    /// Marks these paths as approved by a person: their content stays when the command ends.
    pub(crate) fn approve(&mut self, paths: &[PathBuf]) {
        self.end_check.iter().for_each(|check| check.approve(paths));
        #[cfg(target_os = "linux")]
        if let ProcessWait::ByMinder(handle) = &self.wait {
            let message = wire::framed(&wire::encode_approved(paths));
            // The minder would wait for the rest of half a message. End the command instead: the
            // guard must not be lost.
            if handle.control.try_write(&message).is_ok_and(|length| length < message.len()) {
                self.end();
            }
        }
    }

    /// Waits until it has ended with all its processes. Its output is dropped.
    pub async fn wait_for_end(mut self) -> Result<ProcessEnd, StartError> {
        while self.next().await.is_some() {}
        self.take_end()
    }

    /// What is in the pipe of its standard error now, up to a limit. Does not wait.
    pub(crate) fn stderr_so_far(&mut self) -> Vec<u8> {
        let chunks = std::iter::from_fn(|| read_remaining(&mut self.stderr));
        chunks.take(MAX_CHUNKS).flatten().collect()
    }

    /// Its end, once `next` has returned nothing.
    pub(crate) fn take_end(&mut self) -> Result<ProcessEnd, StartError> {
        self.result.take().unwrap_or_else(|| Err(StartError("its end is unknown".into())))
    }
}

impl ProcessWait {
    async fn wait(&mut self) -> Result<ProcessEnd, StartError> {
        match self {
            #[cfg(target_os = "linux")]
            ProcessWait::ByMinder(handle) => handle.wait().await,
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
        MinderHandle { control, buffer: vec![], mark, _spawner: spawner }
    }

    async fn wait(&mut self) -> Result<ProcessEnd, StartError> {
        match self.report().await {
            Ok(Report::Ended(end)) => Ok(end),
            Ok(Report::NotStarted(why)) => Err(StartError(why)),
            Err(cause) => {
                crate::process::tree::end_marked(&[&self.mark]);
                Err(StartError(format!("its minder is gone: {cause}")))
            }
        }
    }

    /// Reads the report. Cancel safe.
    async fn report(&mut self) -> io::Result<Report> {
        loop {
            if let Some((head, body)) = self.buffer.split_first_chunk()
                && body.len() >= wire::length_of(*head)?
            {
                let report = Report::decode(body);
                return report.ok_or_else(|| io::Error::other("its report cannot be decoded"));
            }
            self.control.readable().await?;
            match self.control.try_read_buf(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(cause) if cause.kind() != io::ErrorKind::WouldBlock => return Err(cause),
                _ => {}
            }
        }
    }
}

/// Waits for bytes from a pipe; forever if the pipe is at its end.
async fn read_pipe(pipe: &mut Option<Receiver>) -> Option<Vec<u8>> {
    let Some(open) = pipe else { return std::future::pending().await };
    let _ = open.readable().await;
    read_with(pipe, |open, bytes| open.try_read(bytes))
}

/// The most chunks of standard error that are read at once: more than a pipe holds.
const MAX_CHUNKS: usize = 64;

/// Reads the bytes that are in a pipe, without waiting. It asks the kernel: `try_read` finds nothing
/// until the runtime has noticed that the pipe is readable, and the last output would be lost.
fn read_remaining(pipe: &mut Option<Receiver>) -> Option<Vec<u8>> {
    read_with(pipe, |open, bytes| {
        rustix::io::retry_on_intr(|| rustix::io::read(open, &mut *bytes)).map_err(io::Error::from)
    })
}

/// Reads the next bytes of a pipe. Closes a pipe that is at its end.
fn read_with(
    pipe: &mut Option<Receiver>,
    read: impl FnOnce(&Receiver, &mut [u8]) -> io::Result<usize>,
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; CHUNK];
    match read(pipe.as_ref()?, &mut bytes) {
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn b3_pending_pipe_output_is_read_without_a_runtime_event() {
        let (read_end, mut write_end) = io::pipe().unwrap();
        let mut pipe = Some(Receiver::from_owned_fd(read_end.into()).unwrap());
        write_end.write_all(b"blocked").unwrap();
        assert_eq!(read_remaining(&mut pipe).as_deref(), Some(&b"blocked"[..]));
        assert_eq!(read_remaining(&mut pipe), None);
        assert!(pipe.is_some(), "the other end is still open");
        drop(write_end);
        assert_eq!(read_remaining(&mut pipe), None);
        assert!(pipe.is_none(), "the pipe is at its end");
    }
}
