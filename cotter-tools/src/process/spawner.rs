//! The caller's side of the spawner. It is started at the first command, and again if it died.

use std::{
    ffi::OsString,
    io::IoSlice,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncWriteExt;

use crate::process::{
    Job, MAX_PROCESSES, SPAWNER_ARG, StartError, VIEW_ARG,
    environment::MARK,
    running::{MinderHandle, RunningProcess},
    wire::{self, Request},
};

#[derive(Debug)]
pub(crate) struct Spawner {
    program: PathBuf,
    process: Mutex<Option<SpawnerProcess>>,
}

#[derive(Debug)]
struct SpawnerProcess {
    socket: UnixStream,
    child: Child,
}

impl Spawner {
    pub(crate) fn new(program: PathBuf) -> Self {
        Spawner { program, process: Mutex::new(None) }
    }

    /// The reason why commands cannot have a view of the files of their own, if so. Runs the
    /// spawner's program once.
    pub(crate) fn why_no_view(&self) -> Option<String> {
        let mut check = Command::new(&self.program);
        check.arg(VIEW_ARG).env_clear().current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
        match check.output() {
            Ok(output) if output.status.success() => None,
            Ok(output) if output.stdout.is_empty() => Some("it could not be checked".into()),
            Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
            Err(cause) => Some(format!("cannot start {}: {cause}", self.program.display())),
        }
    }

    pub(crate) async fn start(
        self: &Arc<Self>,
        job: Job,
        mark: &str,
        private: &Path,
    ) -> Result<RunningProcess, StartError> {
        let mark = OsString::from(format!("{MARK}={mark}"));
        let (own_end, control) = UnixStream::pair()?;
        let (stdout, to_stdout) = std::io::pipe()?;
        let (stderr, to_stderr) = std::io::pipe()?;
        let stdin = job.stdin.as_ref().map(|stdin| stdin.try_clone()).transpose()?;
        let files = [control.into(), to_stdout.into(), to_stderr.into()];
        let files: Vec<OwnedFd> = files.into_iter().chain(stdin).collect();
        let wants_view = job.confinement.as_ref().is_some_and(|confinement| confinement.view);
        self.hand_over(&files, private, wants_view)?;
        own_end.set_nonblocking(true)?;
        let mut control = tokio::net::UnixStream::from_std(own_end)?;
        control.write_all(&wire::framed(&request(job, &mark).encode())).await?;
        RunningProcess::by_minder(
            stdout.into(),
            stderr.into(),
            MinderHandle::new(control, mark, self.clone()),
        )
    }

    /// Sends a call's files to the spawner; starts the spawner if needed.
    fn hand_over(
        &self,
        files: &[OwnedFd],
        private: &Path,
        wants_view: bool,
    ) -> Result<(), StartError> {
        let mut process = self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(spawner) = &*process
            && spawner.send(files).is_ok()
        {
            return Ok(());
        }
        *process = None;
        let spawner =
            SpawnerProcess::start(&self.program, private, wants_view).map_err(|cause| {
                StartError(format!("cannot start {}: {cause}", self.program.display()))
            })?;
        spawner.send(files).map_err(std::io::Error::from)?;
        *process = Some(spawner);
        Ok(())
    }
}

fn request(job: Job, mark: &OsString) -> Request {
    let mut environment = vec![mark.clone()];
    for (mut entry, value) in job.environment {
        entry.push("=");
        entry.push(value);
        environment.push(entry);
    }
    Request {
        program: job.program,
        args: job.args,
        cwd: job.cwd,
        environment,
        processes: MAX_PROCESSES,
        confinement: job.confinement,
    }
}

impl SpawnerProcess {
    /// The spawner removes the private folder if we end without doing so. If the first call wants a
    /// view of the files, it prepares one for every call.
    fn start(program: &Path, private: &Path, wants_view: bool) -> std::io::Result<Self> {
        let (socket, child_socket) = UnixStream::pair()?;
        let child = Command::new(program)
            .arg(SPAWNER_ARG)
            .arg(private)
            .args(wants_view.then_some(VIEW_ARG))
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(child_socket))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(SpawnerProcess { socket, child })
    }

    fn send(&self, files: &[OwnedFd]) -> rustix::io::Result<()> {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(b".")], &mut ancillary, flags).map(drop)
    }
}

impl Drop for SpawnerProcess {
    fn drop(&mut self) {
        // Its minders continue until their calls end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
