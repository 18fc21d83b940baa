//! Hooks that are programs: an entry in a settings file or a file `hooks/*.yaml`, started for each event
//! or once for all of them. The room starts no process itself, and knows no dialect of another program.
//!
//! ```text
//! entry      what a file says: point, tools, command, limit           command_hook/entry.rs,
//!   │                                                                 command_hook/hook_files.rs
//!   │        what it is called where nobody says                      command_hook/names.rs
//! dialect    event ─► standard input; exit code and output ─► answer  command_hook/dialect.rs
//!   │        two pure functions each
//! HookHost   makes processes: the caller's to say
//!   │
//! ExternalHook  asked by the one dispatch, like every hook            cotter::hooks::external
//! ```
//!
//! The program is run without a login shell, in the folder that declares it or the trusted copy of it,
//! with few variables, and ends with its limit. A string with shell syntax runs by `sh -c`; plain words
//! and a list are executed as they are.

pub mod entry;
pub mod hook_files;
pub(crate) mod names;
pub(crate) mod other_points;
pub mod dialect;
mod resident;

use std::{
    ffi::OsString,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use smol_str::{SmolStr, format_smolstr};

pub(crate) use crate::command_hook::entry::command;
use crate::command_hook::resident::ResidentHook;
pub use crate::command_hook::{
    dialect::Dialect,
    entry::{CommandHook, CommandLine, OnFailure},
    names::name_apart_in_origin,
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

/// The most a hook may say on standard output: whoever says more has failed.
pub const MAX_OUTPUT: usize = 1024 * 1024;
/// The most that is kept of what a hook says on standard error.
pub const MAX_STDERR: usize = 64 * 1024;
/// How much longer than its limit a hook is waited for whose failure passes.
pub(crate) const SLACK: Duration = Duration::from_secs(1);

/// Makes the processes of hooks. The library starts none by itself.
pub trait HookHost: Send + Sync + 'static {
    /// Starts a program, gives it its input and waits for its end. Dropped, everything it started is
    /// ended. An error says why it could not be started.
    fn run(
        &self,
        job: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>>;

    /// Starts a program that stays, to be asked line by line. `stdin` of the job is not used.
    fn serve(&self, job: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String>;

    /// Sends a letter and gives the reply. Who connects to nothing leaves this as it is. An error says why
    /// there is none.
    fn post(
        &self,
        letter: WebhookRequest,
    ) -> Pin<Box<dyn Future<Output = Result<WebhookResponse, String>> + Send>> {
        let _ = letter;
        Box::pin(std::future::ready(Err("nobody here asks an address".into())))
    }
}

/// What a hook is told that is an address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebhookRequest {
    /// Where it goes.
    pub url: String,
    /// What is said besides, by name. `$NAME` and `${NAME}` stand for a variable's value.
    pub headers: Vec<(String, String)>,
    /// The variables that may be said so, of the person's own.
    pub named: Vec<String>,
    /// What happens, as JSON.
    pub body: Arc<[u8]>,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookResponse {
    /// How it went, as HTTP has it.
    pub status: u16,
    /// What was said, at most [`MAX_OUTPUT`] and a byte.
    pub body: Vec<u8>,
    /// Whether secrets were taken out of what was told.
    pub scrubbed: bool,
}

/// A program that stays. Dropped, it is ended with everything it started.
pub trait ResidentProcess: Send {
    /// Sends one line, without its end, and gives the next line of the answer, without its end. An error
    /// says what went wrong; the server is of no use after one.
    fn exchange<'a>(
        &'a mut self,
        line: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

    /// What it said on standard error since this was asked last, as far as it has come.
    fn remarked(&mut self) -> Vec<u8> {
        vec![]
    }
}

/// A program to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessSpec {
    /// The program, as it is written, and its arguments. A path with a slash is meant from `cwd`.
    pub words: Vec<OsString>,
    /// The folder it starts in.
    pub cwd: PathBuf,
    /// Variables it gets besides those that every command gets: names of the person's own.
    pub named: Vec<String>,
    /// Variables it gets besides, with their values.
    pub variables: Vec<(String, OsString)>,
    /// What it reads.
    pub stdin: Arc<[u8]>,
    /// Whether the operating system closes it off like a command of the agent's.
    pub confined: bool,
    /// The folders of the run it is about.
    pub workspace: Workspace,
    /// Where what it says on standard error is kept as it comes.
    pub remarks: StderrBuffer,
}

/// What a program says on standard error, as far as it has come: who is ended before its time leaves it here.
/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct StderrBuffer(Arc<Mutex<Vec<u8>>>);

impl StderrBuffer {
    /// Adds to it. The last [`MAX_STDERR`] bytes are kept.
    pub fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        if kept.len() > 2 * MAX_STDERR {
            let over = kept.len() - MAX_STDERR;
            kept.drain(..over);
        }
    }

    /// All that is kept of it.
    pub fn so_far(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept[kept.len().saturating_sub(MAX_STDERR)..]).into_owned()
    }
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutput {
    /// How it ended.
    pub exit: ProcessExit,
    /// What it said, at most [`MAX_OUTPUT`] and a byte.
    pub stdout: Vec<u8>,
    /// What it remarked, at most [`MAX_STDERR`].
    pub stderr: Vec<u8>,
    /// What a person should know about how it ran, a sentence each.
    pub remarks: Vec<String>,
    /// Where it did not end well: what was closed to it, as far as one can tell, and the way out.
    pub refused: Vec<String>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Where the hooks of a folder run, and who starts them.
#[derive(Clone)]
pub struct HookLocation {
    /// The folder their commands are meant from.
    pub folder: PathBuf,
    /// Whether they are closed off like commands of the agent's.
    pub confined: bool,
    /// Who starts them.
    pub starts: Arc<dyn HookHost>,
}

impl CommandHook {
    /// Registers the hook for an owner.
    pub fn register(&self, unit: &mut Registry, base: &HookLocation) {
        if let Dialect::Custom(entry) = &self.dialect {
            return Arc::clone(entry).register(self, unit, base);
        }
        let hook: Arc<dyn ExternalHook> = match self.serve {
            true => Arc::new(ResidentHook::new(self.clone(), base.clone())),
            false => Arc::new(OneShotHook { hook: self.clone(), base: base.clone() }),
        };
        let mut declared = self.declared.clone();
        declared.definition = self.definition(base);
        if self.on_failure == OnFailure::Pass {
            // It is ended here, and passes; whoever asks would take its silence for a block.
            declared.limit = Some(self.limit() + SLACK);
        }
        unit.outside(self.point, declared, hook);
    }

    /// What it runs, for people, and on a line below everything else that decides what it refuses, but for what
    /// its programs say: another definition is another gate.
    pub(crate) fn definition(&self, base: &HookLocation) -> SmolStr {
        let passes = match self.on_failure {
            OnFailure::Pass => ", its failure passes",
            OnFailure::Block => "",
        };
        let what = match &self.command {
            CommandLine::Shell(line) => format!("runs `{}` in a shell", text::show_line(line)),
            CommandLine::Words(words) => format!("runs {words:?}"),
        };
        let (limit, env) = (self.limit(), &self.env);
        let surely = match &self.dialect {
            Dialect::Custom(entry) => entry.definition(&self.command),
            _ => format!(" in {}{}", base.folder.display(), self.program(base)),
        };
        format_smolstr!("{what}{passes}\nis{surely}, within {limit:?}, given {env:?}")
    }

    /// The program that a path leads to now, where it is not the one it names: what a link leads to may
    /// become another.
    fn program(&self, base: &HookLocation) -> String {
        let first = match &self.command {
            CommandLine::Shell(line) => line.split_whitespace().next().map(OsString::from),
            CommandLine::Words(_) => self.command.words().into_iter().next(),
        };
        let named = first.filter(|word| word.as_encoded_bytes().contains(&b'/'));
        let named = named.map(|word| base.folder.join(word));
        let real = named.as_ref().and_then(|named| named.canonicalize().ok());
        match real.filter(|real| Some(real) != named.as_ref()) {
            Some(real) => format!(", which is {}", real.display()),
            None => String::new(),
        }
    }

    /// How long it may take.
    pub(crate) fn limit(&self) -> Duration {
        self.declared.limit.unwrap_or(self.point.row().limit)
    }

    pub(crate) fn job(
        &self,
        base: &HookLocation,
        asked: &HookRequest,
        stdin: Vec<u8>,
    ) -> ProcessSpec {
        let workspace = asked.cx.workspace().clone();
        let project = workspace.project().as_os_str().to_owned();
        let mut variables = vec![("COTTER_PROJECT_DIR".into(), project)];
        if base.confined {
            // What is trusted stays as it is.
            variables.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        }
        ProcessSpec {
            words: self.command.words(),
            cwd: base.folder.clone(),
            named: self.env.clone(),
            variables,
            stdin: stdin.into(),
            confined: base.confined,
            workspace,
            remarks: StderrBuffer::default(),
        }
    }

    /// What it says, or what its failure amounts to.
    async fn settled(
        &self,
        asked: &HookRequest,
        answer: impl Future<Output = Result<HookAnswer, String>>,
    ) -> Result<HookAnswer, String> {
        if self.on_failure == OnFailure::Block {
            return answer.await;
        }
        let limit = self.limit();
        let said = tokio::time::timeout(limit, answer).await;
        let late = |_| Err(late(limit, &host::take_remark(&asked.cx).unwrap_or_default()));
        self.passing(asked, said.unwrap_or_else(late))
    }

    /// What it said; nothing, where its failure passes, and the person is told: once of a call, also where
    /// it was asked again about what others made of it.
    pub(crate) fn passing<T: Default>(
        &self,
        asked: &HookRequest,
        said: Result<T, String>,
    ) -> Result<T, String> {
        match (said, self.on_failure) {
            (Err(why), OnFailure::Pass) => {
                let HookRequest { cx, point, payload, .. } = asked;
                let words = format!("hook `{}` failed and passes: {why}", self.name);
                host::notify_once(cx, format!("{point} {}", payload["callId"]), &words);
                host::put_aside(cx, CaveatKind::Failed, &why);
                Ok(T::default())
            }
            (said, _) => said,
        }
    }
}

/// Why a hook failed that took too long, with its last words.
pub(crate) fn late(limit: Duration, said: &str) -> String {
    match text::last_words(said) {
        said if said.is_empty() => format!("it took longer than {limit:?}"),
        said => format!("it took longer than {limit:?}; its last words: {said}"),
    }
}

/// Why a hook failed that ended with a code that says nothing, with its last words.
pub(crate) fn exited(code: i32, stderr: &[u8]) -> String {
    match text::last_words(&String::from_utf8_lossy(stderr)) {
        said if said.is_empty() => format!("it exited with code {code}"),
        said => format!("it exited with code {code}: {said}"),
    }
}

/// What a hook said, with what was closed to it: the reason of a failure has it, everything else leaves it
/// to be told beside.
pub(crate) fn with_refused<T>(
    said: Result<T, String>,
    ran: &ProcessOutput,
    tell: impl Fn(&str),
) -> Result<T, String> {
    match said {
        Err(why) if !ran.refused.is_empty() => Err(format!("{why}; {}", ran.refused.join("; "))),
        said => {
            ran.refused.iter().for_each(|words| tell(words));
            said
        }
    }
}

/// Remarks what a program said until it was ended, when it goes.
struct StderrGuard<'a, F: FnMut() -> String> {
    cx: &'a Cx,
    said: F,
}

impl<F: FnMut() -> String> Drop for StderrGuard<'_, F> {
    fn drop(&mut self) {
        host::remark_end(self.cx, &(self.said)());
    }
}

/// A hook that is started for each event.
struct OneShotHook {
    hook: CommandHook,
    base: HookLocation,
}

impl ExternalHook for OneShotHook {
    fn ask(&self, asked: HookRequest) -> HookFuture {
        let OneShotHook { hook, base } = self;
        let (hook, starts) = (hook.clone(), base.starts.clone());
        let job = hook.job(base, &asked, hook.dialect.stdin(&asked.payload));
        let remarks = job.remarks.clone();
        Box::pin(async move {
            let answer = async {
                let overheard = StderrGuard { cx: &asked.cx, said: || remarks.so_far() };
                let ran = starts.run(job).await?;
                drop(overheard);
                asked.cx.remark(&String::from_utf8_lossy(&ran.stderr));
                let tell = |words: &str| asked.cx.notify(&format!("hook `{}`: {words}", hook.name));
                ran.remarks.iter().for_each(|remark| tell(remark));
                with_refused(hook.dialect.answer(asked.point, &hook.name, &ran), &ran, tell)
            };
            hook.settled(&asked, answer).await
        })
    }
}

/// Which points a hook of that name belongs to, where a file spells it.
pub(crate) fn point_named(name: &str) -> Option<PointId> {
    PointId::parse(name).filter(|point| *point != PointId::Context)
}

/// Registers every hook of a unit.
pub fn register_all<'h>(
    unit: &mut Registry,
    hooks: impl IntoIterator<Item = &'h CommandHook>,
    base: &HookLocation,
) {
    hooks.into_iter().for_each(|hook| hook.register(unit, base));
}

/// Whether hooks of that owner are closed off like commands of the agent's.
pub fn is_confined(owner: &Owner) -> bool {
    !owner.origin.may_loosen()
}
