//! Processes that end with the call that started them, whatever they did to get away.
//!
//! A [`Runner`] starts commands. It does so through a *spawner*: our own binary started once more, when
//! the first command comes, as a small process with one thread. For every command the spawner forks a
//! *minder*, which starts it in a session of its own, without a terminal, confines it
//! ([`crate::confine`]), and waits. When the command is done, or its [`RunningProcess`] is ended or
//! dropped, or our process is gone, even killed, the minder ends everything below it: also what went to
//! another group or session, or lost its parent. A minder that is killed itself leaves its processes to
//! the spawner, which ends them.
//!
//! The program that makes a runner of its own binary calls [`serve_if_asked`] first in `main`:
//!
//! ```no_run
//! cotter_tools::process::serve_if_asked();
//! let runner = cotter_tools::process::Runner::new("/proc/self/exe");
//! ```

pub(crate) mod confinement;
pub(crate) mod direct;
pub mod environment;
pub(crate) mod launch;
pub(crate) mod minder;
pub mod running;
pub(crate) mod spawner;
pub(crate) mod spawner_main;
#[cfg(target_os = "linux")]
pub(crate) mod stragglers;
pub(crate) mod temp;
pub(crate) mod tree;
pub(crate) mod wire;

use std::{
    ffi::OsString,
    fmt, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::confine::{self, Confinement, Sandbox};
pub use crate::process::environment::{Environment, MARK};
pub use crate::process::running::{Chunk, RunningProcess, Stream};
use crate::process::temp::PrivateFolder;

/// The word by which our binary knows that it is to be the spawner.
#[cfg(target_os = "linux")]
const WORD: &str = "__cotter-spawner";

/// The most processes a command may have at a time.
const PROCESSES: u32 = 1024;

/// Starts commands. Cheap to clone; the spawner and the private folder end with the last clone.
#[derive(Clone)]
pub struct Runner(Arc<RunnerInner>);

#[derive(Clone)]
struct RunnerInner {
    starts: SpawnMethod,
    sandbox: Sandbox,
    environment: Environment,
    /// Folders outside the project that commands may write, such as a package cache.
    caches: Vec<PathBuf>,
    private: Arc<PrivateFolder>,
}

#[derive(Clone)]
enum SpawnMethod {
    #[cfg(target_os = "linux")]
    Spawner(Arc<crate::process::spawner::Spawner>),
    Direct(KillScope),
}

/// Who is ended with a command of this very process besides its process group.
#[derive(Clone, Debug)]
pub(crate) enum KillScope {
    /// Every process with the call's mark.
    #[cfg(target_os = "linux")]
    Marked,
    /// The same, a moment later.
    #[cfg(target_os = "linux")]
    MarkedSoon(Arc<crate::process::stragglers::StragglerReaper>),
    /// Nobody: there is no way to find them.
    #[cfg(not(target_os = "linux"))]
    Group,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program, absolute.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it starts in.
    pub cwd: PathBuf,
    /// Its whole environment, but for the mark, which every command gets.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads; without one, nothing.
    pub stdin: Option<Arc<OwnedFd>>,
    /// What it may touch; `None` is everything its user may.
    pub confinement: Option<Confinement>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Its code or signal.
    pub exit: Exit,
    /// What else there is to say, a sentence each.
    pub remarks: Vec<String>,
}

/// What a command ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ended by itself, with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Runner {
    /// Starts commands through a spawner, which `program` becomes when it calls [`serve_if_asked`].
    /// `/proc/self/exe` is the program that is running, also after its file was replaced. Elsewhere
    /// than on Linux the same as [`Runner::direct`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        #[cfg(target_os = "linux")]
        let starts = SpawnMethod::Spawner(Arc::new(crate::process::spawner::Spawner::new(program)));
        #[cfg(not(target_os = "linux"))]
        let starts = {
            drop(program);
            SpawnMethod::Direct(KillScope::Group)
        };
        Runner::of(starts)
    }

    /// Starts commands from this very process, for a program that cannot be its own spawner.
    ///
    /// Nothing is confined. A command is ended with its process group, and on Linux with every process
    /// that has the call's mark in its environment; one that left the group and changed its environment
    /// stays, and so does everything when our own process is killed.
    pub fn direct() -> Self {
        #[cfg(target_os = "linux")]
        let reach = KillScope::Marked;
        #[cfg(not(target_os = "linux"))]
        let reach = KillScope::Group;
        Runner::of(SpawnMethod::Direct(reach))
    }

    /// The same for many short programs that a person chose: nobody waits until all the processes of the
    /// machine were looked at. What left the group of a command is ended half a second after it, and when the
    /// last clone goes.
    pub fn direct_by_group() -> Self {
        #[cfg(target_os = "linux")]
        let reach = KillScope::MarkedSoon(Arc::default());
        #[cfg(not(target_os = "linux"))]
        let reach = KillScope::Group;
        Runner::of(SpawnMethod::Direct(reach))
    }

    fn of(starts: SpawnMethod) -> Self {
        Runner(Arc::new(RunnerInner {
            starts,
            sandbox: Sandbox::default(),
            environment: Environment::default(),
            caches: vec![],
            private: Arc::new(PrivateFolder::new(Path::new("/tmp"))),
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut RunnerInner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The same, confining as the setting `sandbox` says.
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        self.with(|inner| inner.sandbox = sandbox)
    }

    /// The same, with what commands get of the environment.
    pub fn with_environment(self, environment: Environment) -> Self {
        self.with(|inner| inner.environment = environment)
    }

    /// The same, with folders outside the project that confined commands may write.
    pub fn with_caches(self, caches: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(|inner| inner.caches.extend(caches))
    }

    /// The same, with the private folder below another folder than `/tmp`. It is made when it is first
    /// needed, and removed at the end, but for what was set aside there.
    pub fn with_temp_below(self, folder: &Path) -> Self {
        self.with(|inner| inner.private = Arc::new(PrivateFolder::new(folder)))
    }

    /// Whether commands are confined by the operating system.
    pub fn confines(&self) -> bool {
        self.0.sandbox != Sandbox::Off && self.cannot_confine().is_none()
    }

    /// Why this runner cannot confine, where it cannot.
    pub fn cannot_confine(&self) -> Option<String> {
        match self.0.starts {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(_) => confine::unsupported(),
            SpawnMethod::Direct(_) => Some("there is no spawner to confine commands".into()),
        }
    }

    /// The setting.
    pub fn sandbox(&self) -> Sandbox {
        self.0.sandbox
    }

    /// What commands get of the environment.
    pub fn environment(&self) -> &Environment {
        &self.0.environment
    }

    /// The folders outside the project that confined commands may write.
    pub fn caches(&self) -> &[PathBuf] {
        &self.0.caches
    }

    /// The private temp folder of commands, made now if it is not there yet.
    pub fn temp(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.temp)
    }

    /// Where logs go: private too, and closed to confined commands.
    pub fn logs(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.logs)
    }

    /// Where goes what a command wrote to a protected path it was not approved for.
    pub(crate) fn aside(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.aside)
    }

    /// Starts a command.
    pub async fn start(&self, job: Job) -> Result<RunningProcess, StartError> {
        if job.confinement.is_none() && self.0.sandbox == Sandbox::Required {
            let why = self.cannot_confine().unwrap_or_else(|| "it was not to be confined".into());
            return Err(StartError(format!("the setting `sandbox` is `required`, and {why}")));
        }
        let mark =
            crate::process::temp::random_name().map_err(|cause| StartError(cause.to_string()))?;
        match &self.0.starts {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(spawner) => {
                let private = &self.0.private.folders()?.all;
                spawner.start(job, &mark, private).await
            }
            SpawnMethod::Direct(reach) => crate::process::direct::start(job, &mark, reach),
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.0.starts {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(_) => "through a spawner",
            SpawnMethod::Direct(_) => "directly",
        };
        write!(f, "runner that starts commands {how}, sandbox {}", self.0.sandbox.as_str())
    }
}

/// Why a command was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(pub(crate) String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(cause: io::Error) -> Self {
        StartError(cause.to_string())
    }
}

/// Serves and never comes back, if this process was started to be the spawner; else does nothing.
///
/// A program that makes a [`Runner`] of its own binary calls this first in `main`, before any thread is
/// started and before it looks at its arguments. Elsewhere than on Linux there is no spawner.
pub fn serve_if_asked() {
    #[cfg(target_os = "linux")]
    crate::process::spawner_main::serve_if_asked();
}
