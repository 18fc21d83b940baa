//! Commands started from this process, without a spawner.

use std::{
    os::fd::OwnedFd,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::Stdio,
};

use crate::{
    confine::interpreters::describe_exec_error,
    process::{
        Exit, Job, KillScope, ProcessEnd, StartError, environment::MARK, running::RunningProcess,
    },
};

/// A command started from this process. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct DirectProcess {
    child: tokio::process::Child,
    group: Option<rustix::process::Pid>,
    mark: String,
    scope: KillScope,
    /// True if all its processes were ended.
    is_over: bool,
}

pub(crate) fn start(job: Job, mark: &str, scope: &KillScope) -> Result<RunningProcess, StartError> {
    let mut command = std::process::Command::new(&job.program);
    command.args(&job.args).current_dir(&job.cwd).env_clear().envs(job.environment).env(MARK, mark);
    let stdin = match &job.stdin {
        Some(stdin) => Stdio::from(stdin.try_clone()?),
        None => Stdio::null(),
    };
    command.stdin(stdin).process_group(0);
    let (stdout, to_stdout) = std::io::pipe()?;
    let (stderr, to_stderr) = std::io::pipe()?;
    command.stdout(OwnedFd::from(to_stdout)).stderr(OwnedFd::from(to_stderr));
    let mut command = tokio::process::Command::from(command);
    let child = command
        .kill_on_drop(true)
        .spawn()
        .map_err(|cause| StartError(describe_exec_error(&job.program, &cause)))?;
    let id = child.id().and_then(|id| id.try_into().ok());
    let group = id.and_then(rustix::process::Pid::from_raw);
    let (mark, scope) = (format!("{MARK}={mark}"), scope.clone());
    let direct = DirectProcess { child, group, mark, scope, is_over: false };
    RunningProcess::direct(stdout.into(), stderr.into(), direct)
}

impl DirectProcess {
    /// Ends the group, and the processes with the mark, at once or soon.
    pub(crate) fn end(&mut self) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        match &self.scope {
            #[cfg(target_os = "linux")]
            KillScope::Marked => crate::process::tree::end_marked(&[&self.mark]),
            #[cfg(target_os = "linux")]
            KillScope::MarkedSoon(reaper) => reaper.add(&self.mark),
            #[cfg(not(target_os = "linux"))]
            KillScope::Group => {}
        }
    }

    pub(crate) async fn wait(&mut self) -> Result<ProcessEnd, StartError> {
        let status = self.child.wait().await?;
        self.end();
        self.is_over = true;
        let signal = status.signal().map(Exit::Signal);
        let exit = status.code().map(Exit::Code).or(signal).unwrap_or(Exit::Signal(9));
        Ok(ProcessEnd { exit, remarks: vec![] })
    }
}

impl Drop for DirectProcess {
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}
