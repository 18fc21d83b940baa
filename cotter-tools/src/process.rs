//! Runs commands and ends all their processes with the call that started them.
//!
//! A [`Runner`] starts commands through a *spawner*: our own binary, started a second time at the
//! first command, as a small process with one thread. For every command the spawner forks a
//! *minder*. The minder starts the command in its own session, without a terminal, confines it
//! ([`crate::confine`]) and waits. It ends all processes below it when the command is done, when
//! its [`RunningProcess`] is ended or dropped, or when our process is gone, even if killed. This
//! includes processes that moved to another group or session, or lost their parent. If a minder
//! itself is killed, the spawner ends its processes.
//!
//! A program that uses its own binary as the spawner calls [`run_spawner_if_requested`] first in `main`:
//!
//! ```no_run
//! cotter_tools::process::run_spawner_if_requested();
//! let runner = cotter_tools::process::Runner::new("/proc/self/exe");
//! ```

pub(crate) mod confinement;
pub(crate) mod direct;
pub mod environment;
pub(crate) mod launch;
pub(crate) mod minder;
pub(crate) mod places;
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
    fmt,
    fs::DirBuilder,
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::confine::{self, Confinement, Sandbox, index::FileIndex};
pub use crate::process::environment::{Environment, MARK};
pub use crate::process::running::{Chunk, RunningProcess, Stream};
use crate::process::{
    places::{Place, Places},
    temp::PrivateFolder,
};

/// The argument that makes our binary the spawner.
#[cfg(target_os = "linux")]
const SPAWNER_ARG: &str = "__cotter-spawner";

/// The argument that makes our binary check if commands can have a view of the files of their own.
/// For a spawner: prepare one for every call.
#[cfg(target_os = "linux")]
const VIEW_ARG: &str = "__cotter-view";

/// The most processes a command may have at a time.
const MAX_PROCESSES: u32 = 1024;

/// Starts commands. Cheap to clone. The spawner and the private folder end with the last clone.
#[derive(Clone)]
pub struct Runner(Arc<RunnerInner>);

#[derive(Clone)]
struct RunnerInner {
    method: SpawnMethod,
    sandbox: Sandbox,
    environment: Environment,
    /// Folders outside the project that commands may write, such as a package cache.
    caches: Vec<PathBuf>,
    private: Arc<PrivateFolder>,
    /// Why commands have no view of the files of their own, once it is known.
    why_no_view: Arc<OnceLock<Option<String>>>,
    /// What the walks of the write roots found.
    index: Arc<FileIndex>,
    /// For calls that a run waits for.
    places: Places,
}

#[derive(Clone)]
enum SpawnMethod {
    #[cfg(target_os = "linux")]
    Spawner(Arc<crate::process::spawner::Spawner>),
    Direct(KillScope),
}

/// The processes that are killed with a directly started command, besides its process group.
#[derive(Clone, Debug)]
pub(crate) enum KillScope {
    /// Every process with the call's mark.
    #[cfg(target_os = "linux")]
    Marked,
    /// Every process with the call's mark, half a second later.
    #[cfg(target_os = "linux")]
    MarkedSoon(Arc<crate::process::stragglers::StragglerReaper>),
    /// None: they cannot be found on this system.
    #[cfg(not(target_os = "linux"))]
    Group,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct Job {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it starts in.
    pub cwd: PathBuf,
    /// Its whole environment, except the mark, which every command gets.
    pub environment: Vec<(OsString, OsString)>,
    /// Its input; `None` is an empty input.
    pub stdin: Option<Arc<OwnedFd>>,
    /// Its confinement; `None` allows everything its user may do.
    pub confinement: Option<Confinement>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Its exit code or signal.
    pub exit: Exit,
    /// Remarks for the model, one sentence each.
    pub remarks: Vec<String>,
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

impl Runner {
    /// A runner that starts commands through a spawner. `program` becomes the spawner when it calls
    /// [`run_spawner_if_requested`]. `/proc/self/exe` is the running program, even if its file was replaced.
    /// On other systems than Linux this is [`Runner::direct`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        #[cfg(target_os = "linux")]
        let method = SpawnMethod::Spawner(Arc::new(crate::process::spawner::Spawner::new(program)));
        #[cfg(not(target_os = "linux"))]
        let method = {
            drop(program);
            SpawnMethod::Direct(KillScope::Group)
        };
        Runner::of(method)
    }

    /// A runner that starts commands from this process, for a program that cannot be its own
    /// spawner.
    ///
    /// Nothing is confined. A command is ended with its process group and, on Linux, with every
    /// process that has the call's mark in its environment. A process that left the group and
    /// changed its environment stays. All processes stay if our own process is killed.
    pub fn direct() -> Self {
        #[cfg(target_os = "linux")]
        let scope = KillScope::Marked;
        #[cfg(not(target_os = "linux"))]
        let scope = KillScope::Group;
        Runner::of(SpawnMethod::Direct(scope))
    }

    /// Like [`Runner::direct`], for many short programs chosen by a person: it does not wait for a
    /// search of all processes. Processes that left a command's group are ended half a second after
    /// it, and when the last clone is dropped.
    pub fn direct_by_group() -> Self {
        #[cfg(target_os = "linux")]
        let scope = KillScope::MarkedSoon(Arc::default());
        #[cfg(not(target_os = "linux"))]
        let scope = KillScope::Group;
        Runner::of(SpawnMethod::Direct(scope))
    }

    fn of(method: SpawnMethod) -> Self {
        Runner(Arc::new(RunnerInner {
            method,
            sandbox: Sandbox::default(),
            environment: Environment::default(),
            caches: vec![],
            private: Arc::new(PrivateFolder::new(Path::new("/tmp"))),
            why_no_view: Arc::default(),
            index: Arc::default(),
            places: Places::within_limits(),
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut RunnerInner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Sets the confinement mode (setting `sandbox`).
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        self.with(|inner| inner.sandbox = sandbox)
    }

    /// Sets the environment of commands.
    pub fn with_environment(self, environment: Environment) -> Self {
        self.with(|inner| inner.environment = environment)
    }

    /// Adds folders outside the project that confined commands may write.
    pub fn with_caches(self, caches: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(|inner| inner.caches.extend(caches))
    }

    /// Puts the private folder below another folder than `/tmp`. It is created when first needed
    /// and removed at the end, except for the files that were set aside in it.
    pub fn with_temp_below(self, folder: &Path) -> Self {
        self.with(|inner| inner.private = Arc::new(PrivateFolder::new(folder)))
    }

    /// True if the operating system confines commands.
    pub fn confines(&self) -> bool {
        self.0.sandbox != Sandbox::Off && self.cannot_confine().is_none()
    }

    /// The reason why this runner cannot confine commands, if it cannot. With `required`, commands
    /// must also have a view of the files of their own.
    pub fn cannot_confine(&self) -> Option<String> {
        match self.0.method {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(_) => confine::unsupported()
                .or_else(|| self.why_no_view().filter(|_| self.0.sandbox == Sandbox::Required)),
            SpawnMethod::Direct(_) => Some("there is no spawner to confine commands".into()),
        }
    }

    /// The reason why confined commands have no view of the files of their own, if they have none.
    /// Without one, files that a rule denies, secrets and the modes of files are open to them. The
    /// first call runs the spawner's program once.
    pub fn why_no_view(&self) -> Option<String> {
        match &self.0.method {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(spawner) => {
                self.0.why_no_view.get_or_init(|| spawner.why_no_view()).clone()
            }
            SpawnMethod::Direct(_) => Some("there is no spawner to confine commands".into()),
        }
    }

    /// The confinement mode.
    pub fn sandbox(&self) -> Sandbox {
        self.0.sandbox
    }

    /// The environment of commands.
    pub fn environment(&self) -> &Environment {
        &self.0.environment
    }

    /// The folders outside the project that confined commands may write.
    pub fn caches(&self) -> &[PathBuf] {
        &self.0.caches
    }

    /// The private temp folder of commands; created if missing.
    pub fn temp(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.temp)
    }

    /// The private temp folder of confined hooks. Commands cannot write there.
    pub(crate) fn temp_of_hooks(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.temp_of_hooks)
    }

    /// The folder of logs: private, and closed to confined commands.
    pub fn logs(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.logs)
    }

    /// What the walks of the write roots found.
    pub(crate) fn index(&self) -> &Arc<FileIndex> {
        &self.0.index
    }

    /// The folder with an unreadable file and an empty folder.
    pub(crate) fn blank(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.blank)
    }

    /// The folder for Python that is compiled for hooks. What confined hooks compile is only for them.
    pub(crate) fn compiled(&self, confined: bool) -> io::Result<PathBuf> {
        let folder =
            self.0.private.folders()?.compiled.join(if confined { "confined" } else { "own" });
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
            _ => Ok(folder),
        }
    }

    /// Removes what was compiled, such as a file that was cut off on a full disk.
    pub(crate) fn clear_compiled(&self, confined: bool) -> io::Result<()> {
        std::fs::remove_dir_all(self.compiled(confined)?)
    }

    /// The folder for content that a command wrote to a protected path without approval.
    pub(crate) fn aside(&self) -> io::Result<&Path> {
        Ok(&self.0.private.folders()?.aside)
    }

    /// Waits for a place among the commands that run at once. What runs in the background takes none.
    pub(crate) async fn take_place(&self) -> Place {
        self.0.places.take().await
    }

    /// Starts a command. Fails if `sandbox` is `required` and the job is not confined.
    pub async fn start(&self, job: Job) -> Result<RunningProcess, StartError> {
        if job.confinement.is_none() && self.0.sandbox == Sandbox::Required {
            let why = self.cannot_confine().unwrap_or_else(|| "the command is not confined".into());
            return Err(StartError(format!("the setting `sandbox` is `required`, and {why}")));
        }
        let mark =
            crate::process::temp::random_name().map_err(|cause| StartError(cause.to_string()))?;
        match &self.0.method {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(spawner) => {
                let private = &self.0.private.folders()?.all;
                spawner.start(job, &mark, private).await
            }
            SpawnMethod::Direct(scope) => crate::process::direct::start(job, &mark, scope),
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.0.method {
            #[cfg(target_os = "linux")]
            SpawnMethod::Spawner(_) => "through a spawner",
            SpawnMethod::Direct(_) => "directly",
        };
        write!(f, "runner that starts commands {method}, sandbox {}", self.0.sandbox.as_str())
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

/// Serves as the spawner and never returns, if this process was started as one; else does nothing.
///
/// Call this first in `main`, before any thread is started and before arguments are read, if the
/// program uses its own binary as the spawner. On other systems than Linux there is no spawner.
pub fn run_spawner_if_requested() {
    #[cfg(target_os = "linux")]
    crate::process::spawner_main::run_spawner_if_requested();
}
