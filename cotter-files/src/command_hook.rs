//! Command hooks: hooks that are programs. An entry in a settings file or a file `hooks/*.yaml` declares the
//! program. It is started for each event, or once for all events. This room starts no process itself, and
//! knows no dialect of another program.
//!
//! ```text
//! entry      a file's declaration: point, tools, command, limit       command_hook/entry.rs,
//!   │                                                                 command_hook/hook_files.rs
//!   │        the name of a hook without a given name                  command_hook/names.rs
//! dialect    event ─► standard input; exit code and output ─► answer  command_hook/dialect.rs
//!   │        two pure functions each                                  command_hook/stdout.rs
//! failure    the hook's own, or the host's, which never passes        command_hook/failure.rs
//!   │
//! HookHost   starts processes; the caller implements it
//!   │
//! ExternalHook  asked by the common dispatch, like every hook         cotter::hooks::external
//! ```
//!
//! The program runs without a login shell, in the folder that declares it or in the trusted copy of that
//! folder. It gets few variables, and is ended at its time limit. A string with shell syntax runs by `sh -c`;
//! plain words and a list are executed as they are.

pub mod entry;
pub mod hook_files;
pub(crate) mod names;
pub(crate) mod other_points;
pub mod dialect;
pub(crate) mod stdout;
pub mod failure;
mod resident;

use std::{
    any::Any,
    ffi::OsString,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use smol_str::{SmolStr, format_smolstr};

pub(crate) use crate::command_hook::entry::command;
pub use crate::command_hook::{
    dialect::Dialect,
    entry::{CommandHook, CommandLine, OnFailure},
    failure::HookFailure,
    names::assign_names_in_origin,
};
use crate::{
    command_hook::{failure::time_limit_error, resident::ResidentHook},
    trust::{named_files, outside::TrustedFiles},
};
use cotter::{
    Cx, Owner, Registry, Workspace,
    hooks::{
        external::{ExternalHook, HookAnswer, HookFuture, HookRequest},
        handler::CaveatKind,
        points::PointId,
    },
    host, text,
};

/// The maximum size of a hook's standard output in bytes. The rest is read and dropped; a longer output is a
/// failure, unless the exit code refuses.
pub const MAX_OUTPUT: usize = 1024 * 1024;
/// The number of bytes kept of the beginning and of the end of a hook's standard error.
pub const MAX_STDERR: usize = 64 * 1024;
/// The extra time beyond its limit for a hook whose failure passes.
pub(crate) const EXTRA_TIME: Duration = Duration::from_secs(1);

/// Starts the processes of hooks. The library itself starts none.
pub trait HookHost: Send + Sync + 'static {
    /// Starts a program, writes its input and waits for its end. Dropping the future ends the program and
    /// everything it started. An error says why the program could not be started; it is never an answer.
    fn run(
        &self,
        job: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>>;

    /// Waits for a place among the programs of hooks that run at once. A hook waits before its time limit
    /// begins, and keeps the place until its program has ended. Hooks that a run waits for must never wait for
    /// detached ones. A host without a bound keeps the default.
    fn take_place(&self, kind: PlaceKind) -> Pin<Box<dyn Future<Output = HookPlace> + Send>> {
        let _ = kind;
        Box::pin(std::future::ready(HookPlace::default()))
    }

    /// Starts a resident program that answers line by line. `stdin` of the job is not used.
    fn serve(&self, job: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String>;

    /// Sends a request to a webhook and returns the response. A host without network keeps the default, which
    /// fails. A server that cannot be reached is the hook's own failure; an address that the host refuses, or
    /// a lack of open files, is one of the host.
    fn post(
        &self,
        request: WebhookRequest,
    ) -> Pin<Box<dyn Future<Output = Result<WebhookResponse, HookFailure>> + Send>> {
        let _ = request;
        let why = "this host sends no webhook requests".into();
        Box::pin(std::future::ready(Err(HookFailure::Host(why))))
    }
}

/// The kind of hook that needs a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A program or a webhook. The run waits for its answer.
    Awaited,
    /// A program or a webhook. The run goes on meanwhile.
    Detached,
    /// A question to a model. Its request may run hooks that need a place of another kind.
    Prompt,
}

/// A place among the programs of hooks that run at once. Dropping it gives it back.
#[derive(Default)]
pub struct HookPlace {
    _place: Option<Box<dyn Any + Send>>,
}

impl HookPlace {
    /// A place that the host gets back when this is dropped.
    pub fn new(place: impl Any + Send) -> Self {
        HookPlace { _place: Some(Box::new(place)) }
    }
}

/// A request to a webhook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebhookRequest {
    /// The address.
    pub url: String,
    /// The headers. `$NAME` and `${NAME}` in a value are replaced by a variable's value.
    pub headers: Vec<(String, String)>,
    /// The names of the user's variables that headers may contain.
    pub variable_names: Vec<String>,
    /// The event, as JSON.
    pub body: Arc<[u8]>,
}

/// The response of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body, at most [`MAX_OUTPUT`] + 1 bytes.
    pub body: Vec<u8>,
    /// True if secrets were removed from the request.
    pub is_redacted: bool,
}

/// The future of a resident program's answer.
pub type ExchangeFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<u8>, HookFailure>> + Send + 'a>>;

/// A resident program. Dropping it ends the program and everything it started.
pub trait ResidentProcess: Send {
    /// Sends one line and returns the next line of output, both without the line end. After an error the
    /// program must not be used again.
    fn exchange<'a>(&'a mut self, line: &'a [u8]) -> ExchangeFuture<'a>;

    /// Returns the standard error since the last call, as far as it has arrived.
    fn take_stderr(&mut self) -> Vec<u8> {
        vec![]
    }
}

/// A program to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessSpec {
    /// The program as it is written, and its arguments. A path with a slash is relative to `cwd`.
    pub words: Vec<OsString>,
    /// The folder that the program starts in.
    pub cwd: PathBuf,
    /// The names of the user's variables that the program gets, besides the usual variables of every command.
    pub variable_names: Vec<String>,
    /// More variables that the program gets, with their values.
    pub variables: Vec<(String, OsString)>,
    /// The standard input.
    pub stdin: Arc<[u8]>,
    /// True if the program runs in the sandbox of the agent's commands.
    pub confined: bool,
    /// The folder whose state folders the program may write, if it is confined.
    pub state: Option<PathBuf>,
    /// The workspace of the run that the event belongs to.
    pub workspace: Workspace,
    /// The buffer for standard error, filled while the program runs.
    pub stderr: StderrBuffer,
}

impl ProcessSpec {
    /// A confined program without input and without variables of its own.
    pub fn confined(words: Vec<OsString>, cwd: impl Into<PathBuf>, workspace: Workspace) -> Self {
        ProcessSpec {
            words,
            cwd: cwd.into(),
            variable_names: vec![],
            variables: vec![],
            stdin: Arc::default(),
            confined: true,
            state: None,
            workspace,
            stderr: StderrBuffer::default(),
        }
    }
}

/// The standard error of a program so far. It is available even if the program is ended early. Clones share
/// one buffer.
#[derive(Clone, Debug, Default)]
pub struct StderrBuffer(Arc<Mutex<Vec<u8>>>);

impl StderrBuffer {
    /// Appends bytes. The last [`MAX_STDERR`] bytes are kept.
    pub fn add(&self, bytes: &[u8]) {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.extend_from_slice(bytes);
        if buffer.len() > 2 * MAX_STDERR {
            let over = buffer.len() - MAX_STDERR;
            buffer.drain(..over);
        }
    }

    /// The kept bytes as text.
    pub fn text(&self) -> String {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&buffer[buffer.len().saturating_sub(MAX_STDERR)..]).into_owned()
    }
}

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutput {
    /// The end of the program: exit code or signal.
    pub exit: ProcessExit,
    /// The standard output, at most [`MAX_OUTPUT`] + 1 bytes.
    pub stdout: Vec<u8>,
    /// The standard error, at most [`MAX_STDERR`] bytes of its beginning and as many of its end.
    pub stderr: Vec<u8>,
    /// Remarks for a person about the execution, one sentence each.
    pub remarks: Vec<String>,
    /// The accesses that the sandbox probably blocked and that the answer may depend on, with a way to allow
    /// them. With one, whatever the program answers is a failure of the host.
    pub blocked_accesses: Vec<String>,
}

/// The way a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// The program exited with this code.
    Code(i32),
    /// The program was ended by this signal.
    Signal(i32),
}

/// The folder that hooks run in, and the host that starts them.
#[derive(Clone)]
pub struct HookLocation {
    /// The folder that paths in commands are relative to.
    pub folder: PathBuf,
    /// True if the hooks run in the sandbox of the agent's commands.
    pub confined: bool,
    /// The host that starts the hooks.
    pub host: Arc<dyn HookHost>,
    /// The folder whose state folders ([`state::FOLDERS`](crate::trust::state::FOLDERS)) the hooks may write;
    /// the hooks of a space or of a profile have none.
    pub state: Option<PathBuf>,
}

impl CommandHook {
    /// Registers the hook for an owner.
    pub fn register(&self, unit: &mut Registry, base: &HookLocation) {
        for text in self.command.texts() {
            for file in named_files::of(text, &base.folder) {
                unit.protect_file(file);
            }
        }
        if let Dialect::Custom(entry) = &self.dialect {
            return Arc::clone(entry).register(self, unit, base);
        }
        let hook: Arc<dyn ExternalHook> = match self.is_resident {
            true => Arc::new(ResidentHook::new(self.clone(), base.clone())),
            false => {
                let files = self.trusted_files(base);
                Arc::new(OneShotHook { hook: self.clone(), base: base.clone(), files })
            }
        };
        let mut spec = self.spec.clone();
        spec.definition = self.definition(base);
        if self.on_failure == OnFailure::Pass {
            // The hook is ended at its limit here and passes. The dispatch would turn its own time-out into a
            // block.
            spec.limit = Some(self.limit() + EXTRA_TIME);
        }
        unit.register_external(self.point, spec, hook);
    }

    /// The files outside the trusted folder that this hook runs.
    fn trusted_files(&self, base: &HookLocation) -> Arc<TrustedFiles> {
        let source = base.state.as_ref();
        let words: Vec<_> = self.command.texts().collect();
        let files = source.map(|source| TrustedFiles::of_command(&words, source, &base.folder));
        Arc::new(files.unwrap_or_default())
    }

    /// Describes the command for people, then on a second line everything else that decides what the hook
    /// blocks, except the contents of its programs. Another definition is another gate.
    pub(crate) fn definition(&self, base: &HookLocation) -> SmolStr {
        let passes = match self.on_failure {
            OnFailure::Pass => ", its failure passes",
            OnFailure::Block => "",
        };
        let command = match &self.command {
            CommandLine::Shell(line) => format!("runs `{}` in a shell", text::show_line(line)),
            CommandLine::Words(words) => format!("runs {words:?}"),
        };
        let (limit, env) = (self.limit(), &self.env);
        let rest = match &self.dialect {
            Dialect::Custom(entry) => entry.definition(&self.command),
            _ => format!(" in {}{}", base.folder.display(), self.describe_real_program(base)),
        };
        format_smolstr!("{command}{passes}\nis{rest}, within {limit:?}, given {env:?}")
    }

    /// The real path of the program, if the command names it by another path, such as a link. A link may lead
    /// to another program later.
    fn describe_real_program(&self, base: &HookLocation) -> String {
        let first = match &self.command {
            CommandLine::Shell(line) => line.split_whitespace().next().map(OsString::from),
            CommandLine::Words(_) => self.command.words().into_iter().next(),
        };
        let path = first.filter(|word| word.as_encoded_bytes().contains(&b'/'));
        let path = path.map(|word| base.folder.join(word));
        let real = path.as_ref().and_then(|path| path.canonicalize().ok());
        match real.filter(|real| Some(real) != path.as_ref()) {
            Some(real) => format!(", which is {}", real.display()),
            None => String::new(),
        }
    }

    /// The kind of place that the hook's program needs.
    pub(crate) fn place_kind(&self) -> PlaceKind {
        if self.spec.detached { PlaceKind::Detached } else { PlaceKind::Awaited }
    }

    /// The time limit of the hook.
    pub(crate) fn limit(&self) -> Duration {
        self.spec.limit.unwrap_or(self.point.row().limit)
    }

    pub(crate) fn process_spec(
        &self,
        base: &HookLocation,
        request: &HookRequest,
        stdin: Vec<u8>,
    ) -> ProcessSpec {
        let workspace = request.cx.workspace().clone();
        let project = workspace.project().as_os_str().to_owned();
        let mut variables = vec![("COTTER_PROJECT_DIR".into(), project)];
        if base.confined {
            variables.extend(without_python_caches());
        }
        ProcessSpec {
            words: self.command.words(),
            cwd: base.folder.clone(),
            variable_names: self.env.clone(),
            variables,
            stdin: stdin.into(),
            confined: base.confined,
            state: base.state.clone(),
            workspace,
            stderr: StderrBuffer::default(),
        }
    }

    /// Waits for the hook's answer. If its failure passes, the time limit is applied here and a failure
    /// becomes a pass.
    async fn wait_for_answer(
        &self,
        request: &HookRequest,
        answer: impl Future<Output = Result<HookAnswer, HookFailure>>,
    ) -> Result<HookAnswer, String> {
        if self.on_failure == OnFailure::Block {
            return answer.await.map_err(|failure| failure.to_string());
        }
        let limit = self.limit();
        let result = tokio::time::timeout(limit, answer).await;
        let late =
            |_| Err(time_limit_error(limit, &host::take_remark(&request.cx).unwrap_or_default()));
        self.apply_failure_policy(request, result.unwrap_or_else(late))
    }

    /// Turns the hook's own failure into the default answer if it passes, and notifies the person. The person
    /// is notified once per call, even if the hook is asked again about a changed event. A failure of the host
    /// stays an error.
    pub(crate) fn apply_failure_policy<T: Default>(
        &self,
        request: &HookRequest,
        result: Result<T, HookFailure>,
    ) -> Result<T, String> {
        match (result, self.on_failure) {
            (Err(HookFailure::Hook(why)), OnFailure::Pass) => {
                let HookRequest { cx, point, payload, .. } = request;
                let message = format!("hook `{}` failed and passes: {why}", self.name);
                host::notify_once(cx, format!("{point} {}", payload["callId"]), &message);
                host::set_caveat(cx, CaveatKind::Failed, &why);
                Ok(T::default())
            }
            (result, _) => result.map_err(|failure| failure.to_string()),
        }
    }
}

/// Records a program's standard error when dropped, even if the program was ended early.
struct StderrGuard<'a, F: FnMut() -> String> {
    cx: &'a Cx,
    read_stderr: F,
}

impl<F: FnMut() -> String> Drop for StderrGuard<'_, F> {
    fn drop(&mut self) {
        host::remark_end(self.cx, &(self.read_stderr)());
    }
}

/// The variables with which Python neither writes compiled files beside its sources nor reads those that are
/// there: trust does not cover them. Nothing can be created below a device.
pub(crate) fn without_python_caches() -> [(String, OsString); 2] {
    [
        ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
        ("PYTHONPYCACHEPREFIX".into(), "/dev/null".into()),
    ]
}

/// Waits for a place among the programs that run at once. The hook's clock stands still meanwhile.
pub(crate) async fn take_place(hook_host: &dyn HookHost, kind: PlaceKind, cx: &Cx) -> HookPlace {
    let _paused = host::pause_clock(cx);
    hook_host.take_place(kind).await
}

/// Checks right before a start that the files which a hook runs are those that a person trusted.
async fn check_files(files: Arc<TrustedFiles>) -> Result<(), HookFailure> {
    let checked = tokio::task::spawn_blocking(move || files.check()).await;
    checked.unwrap_or_else(|cause| Err(cause.to_string())).map_err(HookFailure::Host)
}

/// A hook whose program is started for each event.
struct OneShotHook {
    hook: CommandHook,
    base: HookLocation,
    files: Arc<TrustedFiles>,
}

impl ExternalHook for OneShotHook {
    fn ask(&self, request: HookRequest) -> HookFuture {
        let OneShotHook { hook, base, files } = self;
        let (hook, host, files) = (hook.clone(), base.host.clone(), files.clone());
        let job = hook.process_spec(base, &request, hook.dialect.stdin(&request.payload));
        let stderr = job.stderr.clone();
        Box::pin(async move {
            let _place = take_place(&*host, hook.place_kind(), &request.cx).await;
            let answer = async {
                check_files(files).await?;
                let stderr_guard = StderrGuard { cx: &request.cx, read_stderr: || stderr.text() };
                let output = host.run(job).await.map_err(HookFailure::Host)?;
                drop(stderr_guard);
                request.cx.remark(&String::from_utf8_lossy(&output.stderr));
                let notify =
                    |message: &str| request.cx.notify(&format!("hook `{}`: {message}", hook.name));
                output.remarks.iter().for_each(|remark| notify(remark));
                hook.dialect.answer(request.point, &hook.name, &output)
            };
            hook.wait_for_answer(&request, answer).await
        })
    }
}

/// The point with this name in a file. `context` is not open to command hooks.
pub(crate) fn parse_point(name: &str) -> Option<PointId> {
    PointId::parse(name).filter(|point| *point != PointId::Context)
}

/// Registers every hook of a list.
pub fn register_all<'h>(
    unit: &mut Registry,
    hooks: impl IntoIterator<Item = &'h CommandHook>,
    base: &HookLocation,
) {
    hooks.into_iter().for_each(|hook| hook.register(unit, base));
}

/// True if hooks of this owner run in the sandbox of the agent's commands.
pub fn is_confined(owner: &Owner) -> bool {
    !owner.origin.may_loosen()
}
