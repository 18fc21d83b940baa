//! Starts the processes of command hooks ([`cotter_files::command_hook`]).
//!
//! A hook of the person or the operator runs with the person's rights. Its process group ends with
//! it; processes that left the group end a moment later. A hook that came with a project or a space
//! is confined like a command of the agent, by the same setting. It ends with all its processes.

pub mod probe;
pub mod webhook;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    future::Future,
    io::Write,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use cotter::{
    Workspace,
    fs::workspace::is_system,
    text::{self, redact::Redactor},
};
use cotter_files::command_hook::{
    self, ExchangeFuture, HookHost, HookPlace, MAX_OUTPUT, MAX_STDERR, PlaceKind, ProcessOutput,
    ResidentProcess, StderrBuffer, WebhookRequest, WebhookResponse, failure::HookFailure,
};
use cotter_files::trust::state;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::{io::AsyncWriteExt, net::unix::pipe::Sender};

use crate::{
    confine::{
        Confinement, hook_root, interpreters,
        program_path::{find_program, is_program},
        refusals::describe_not_executable,
    },
    hooks::webhook::Webhooks,
    process::{
        Exit, Job, Runner, StartError,
        environment::Environment,
        places::Places,
        running::{RunningProcess, Stream},
    },
};

/// Starts the processes of hooks.
#[derive(Clone, Debug)]
pub struct HookRunner {
    /// For confined hooks.
    runner: Runner,
    own: Runner,
    /// The person's variables. Confined hooks get few of them, the person's own hooks all but the hidden ones.
    variables: Arc<[(OsString, OsString)]>,
    /// The names of variables that a hook gets only if its entry names them: the keys of models.
    hidden: Arc<[OsString]>,
    /// The number of hooks that run now.
    running: Arc<AtomicUsize>,
    places: Places,
    detached_places: Places,
    prompt_places: Places,
    state_folders: Arc<StateFolders>,
    /// Folders and log files that confined hooks may write besides.
    roots: Arc<[PathBuf]>,
    /// The webhook client, and the redactor for the sent data.
    webhooks: Option<(Webhooks, Arc<Redactor>)>,
}

/// Names and values of variables.
type Variables = Vec<(OsString, OsString)>;

/// The variable that names the folder of compiled Python.
const COMPILED_PYTHON: &str = "PYTHONPYCACHEPREFIX";

/// The words of Python about a compiled file that was cut off.
const BROKEN_PYTHON: &str = "marshal data";

fn no_temp(cause: &std::io::Error) -> String {
    let hint = "`TMPDIR` must name a folder that can be written";
    format!("cannot create a folder for temporary files: {cause}; {hint}")
}

/// The lifetime of a hook's process.
#[derive(Clone, Copy)]
enum HookLifetime {
    /// One event.
    Event,
    /// Many events. Changes meanwhile may come from a person and are never restored.
    Stays,
}

impl HookRunner {
    /// Uses `runner` for confined hooks. A confined hook gets those of these variables that commands of
    /// `runner` get, and those its entry names. The person's own hooks get all.
    pub fn new(runner: Runner, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let own = Runner::direct_by_group();
        let variables = variables.into_iter().collect();
        let (running, places) = (Arc::default(), Places::within_limits());
        HookRunner {
            runner,
            own,
            variables,
            hidden: Arc::default(),
            running,
            places,
            detached_places: Places::within_limits(),
            prompt_places: Places::within_limits(),
            state_folders: Arc::default(),
            roots: Arc::default(),
            webhooks: None,
        }
    }

    /// Hides variables from hooks whose entries do not name them.
    pub fn with_hidden(self, names: impl IntoIterator<Item = OsString>) -> Self {
        HookRunner { hidden: names.into_iter().collect(), ..self }
    }

    /// Also lets confined hooks write these folders and log files. Missing ones are created when a hook starts.
    pub fn with_roots(self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        HookRunner { roots: roots.into_iter().collect(), ..self }
    }

    /// Also posts to webhooks. Secrets are removed from the sent data.
    pub fn with_webhooks(mut self, webhooks: Webhooks, redactor: Redactor) -> Self {
        self.webhooks = Some((webhooks, Arc::new(redactor)));
        self
    }

    /// The headers of a request, with the allowed variables filled in.
    fn headers(&self, request: &WebhookRequest) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            let header_error = |_| format!("its header `{}` cannot be sent", text::show_line(name));
            let value = fill_variables(value, |variable| {
                let is_allowed = request.variable_names.iter().any(|name| name == variable);
                let mut set =
                    self.variables.iter().filter(|(name, _)| is_allowed && name == variable);
                set.next().and_then(|(_, value)| value.to_str()).unwrap_or_default()
            });
            let name = HeaderName::try_from(name.as_str())
                .map_err(|cause| header_error(cause.to_string()))?;
            let mut value =
                HeaderValue::try_from(value).map_err(|cause| header_error(cause.to_string()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// The variables of a hook.
    fn environment(&self, job: &command_hook::ProcessSpec) -> Variables {
        let variables = self.variables.iter().cloned();
        let others = job.variables.iter().map(|(name, value)| (name.into(), value.clone()));
        let is_named =
            |name: &OsString| job.variable_names.iter().any(|named| name == named.as_str());
        if !job.confined {
            let is_given = |name: &OsString| is_named(name) || !self.hidden.contains(name);
            let all = Environment::all(variables.filter(|(name, _)| is_given(name)));
            return all.with(&job.workspace, others);
        }
        let of_commands = self.runner.environment();
        let is_given =
            |name: &OsString| is_named(name) || name == "TMPDIR" || of_commands.contains(name);
        let given: Vec<_> =
            self.variables.iter().map(|(name, _)| name.clone()).filter(is_given).collect();
        let environment = Environment::chosen(variables, &given).with(&job.workspace, others);
        with_english_messages(environment)
    }

    /// Gives a hook that must not read compiled Python beside its sources a private folder for it. Without
    /// one it would compile what it imports at each start.
    fn place_compiled_python(
        &self,
        job: &command_hook::ProcessSpec,
        environment: &mut Variables,
    ) -> Result<(), String> {
        if !environment.iter().any(|(name, _)| name == COMPILED_PYTHON) {
            return Ok(());
        }
        let folder = self.runner.compiled(job.confined).map_err(|cause| no_temp(&cause))?;
        let others = [COMPILED_PYTHON, "PYTHONDONTWRITEBYTECODE"];
        environment.retain(|(name, _)| others.iter().all(|other| name != other));
        environment.push((COMPILED_PYTHON.into(), folder.into()));
        Ok(())
    }

    /// The confinement of a hook. Its temporary folder is one that commands of the agent cannot write.
    fn confinement(
        &self,
        job: &command_hook::ProcessSpec,
        lifetime: HookLifetime,
        environment: &mut Variables,
    ) -> Result<Option<Confinement>, String> {
        let temp = self.runner.temp_of_hooks().map_err(|cause| no_temp(&cause))?;
        environment.retain(|(name, _)| name != "TMPDIR");
        environment.push(("TMPDIR".into(), temp.into()));
        self.state_folders.make(job.state.as_deref());
        let plan = Confinement::of_hook(job, environment, &self.runner);
        let mut plan = plan.map_err(|cause| cause.to_string())?;
        if let Some(plan) = &mut plan {
            hook_root::create_missing(&self.roots);
            plan.writes.extend(self.roots.iter().filter(|root| root.exists()).cloned());
        }
        if let (HookLifetime::Stays, Some(plan)) = (lifetime, &mut plan) {
            plan.aside = None;
        }
        Ok(plan)
    }

    /// The job of a hook, and the runner that starts it.
    fn job(
        &self,
        job: &command_hook::ProcessSpec,
        stdin: OwnedFd,
        lifetime: HookLifetime,
    ) -> Result<(&Runner, Job), String> {
        let mut environment = self.environment(job);
        self.place_compiled_python(job, &mut environment)?;
        let (runner, confinement) = match job.confined {
            false => (&self.own, None),
            true => (&self.runner, self.confinement(job, lifetime, &mut environment)?),
        };
        let (program, args) = job.words.split_first().ok_or("the command is empty")?;
        let program = program.to_str().ok_or("its program's name is not UTF-8")?;
        Ok((
            runner,
            Job {
                program: find_program(program, &job.cwd, &environment)?,
                args: args.to_vec(),
                cwd: job.cwd.clone(),
                environment,
                stdin: Some(Arc::new(stdin)),
                confinement,
            },
        ))
    }
}

impl HookHost for HookRunner {
    fn run(
        &self,
        job: command_hook::ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        let hooks = self.clone();
        Box::pin(async move {
            let stdin = input_file(&job.stdin, &hooks.own)
                .map_err(|cause| format!("cannot write its input: {cause}"))?;
            let remarks = job.stderr.clone();
            let workspace = job.workspace.clone().with_cwd(&job.cwd);
            let is_confined = job.confined;
            let (runner, job) = hooks.job(&job, stdin, HookLifetime::Event)?;
            let sandbox = HookSandbox::of(&job, workspace);
            let count = RunningCount::new(&hooks.running);
            // A confined hook does not block us: the spawner starts it.
            let running = match count.others == 0 || job.confinement.is_some() {
                true => runner.start(job).await,
                false => start_on_thread(runner.clone(), job).await,
            };
            let mut output = collect(running.map_err(|cause| cause.to_string())?, &remarks).await?;
            sandbox.add_causes(&mut output);
            let is_failure = output.exit != command_hook::ProcessExit::Code(0);
            if is_failure && String::from_utf8_lossy(&output.stderr).contains(BROKEN_PYTHON) {
                // Without it, each later start would fail too.
                let _ = hooks.runner.clear_compiled(is_confined);
            }
            Ok(output)
        })
    }

    fn take_place(&self, kind: PlaceKind) -> Pin<Box<dyn Future<Output = HookPlace> + Send>> {
        let places = match kind {
            PlaceKind::Awaited => self.places.clone(),
            PlaceKind::Detached => self.detached_places.clone(),
            PlaceKind::Prompt => self.prompt_places.clone(),
        };
        Box::pin(async move { HookPlace::new(places.take().await) })
    }

    fn post(
        &self,
        request: WebhookRequest,
    ) -> Pin<Box<dyn Future<Output = Result<WebhookResponse, HookFailure>> + Send>> {
        let hooks = self.clone();
        let host_failure = |why: String| HookFailure::Host(why);
        Box::pin(async move {
            let headers = hooks.headers(&request)?;
            let webhooks = hooks.webhooks.ok_or("webhooks are not available here".to_owned());
            let (client, redactor) = webhooks.map_err(host_failure)?;
            let original = String::from_utf8_lossy(&request.body).into_owned();
            let body = serde_json::from_str(&original).map_err(|cause| cause.to_string());
            let mut body = body.map_err(host_failure)?;
            redactor.redact_json(&mut body);
            let body = body.to_string();
            let is_redacted = body != original;
            let response = client.ask(request.url, headers, body.into_bytes().into(), MAX_OUTPUT);
            let (status, body) = response.await?;
            Ok(WebhookResponse { status, body, is_redacted })
        })
    }

    fn serve(&self, job: command_hook::ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        Ok(Box::new(ResidentHook { hooks: self.clone(), job, running: None }))
    }
}

/// Fills in the variables `$NAME` and `${NAME}` of a text.
fn fill_variables<'v>(text: &str, value: impl Fn(&str) -> &'v str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, left) = match braced {
            Some(found) => found,
            None => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
        };
        match !name.is_empty() && name.chars().all(is_name) {
            true => {
                out.push_str(value(name));
                rest = left;
            }
            false => {
                out.push('$');
                rest = after;
            }
        }
    }
    out + rest
}

/// Variables with which programs speak English, and otherwise as before: what the sandbox refused them is
/// found by their words.
fn with_english_messages(mut environment: Variables) -> Variables {
    let all = environment.iter().position(|(name, value)| name == "LC_ALL" && !value.is_empty());
    if let Some((_, locale)) = all.map(|at| environment.swap_remove(at)) {
        environment
            .retain(|(name, _)| name != "LANG" && !name.as_encoded_bytes().starts_with(b"LC_"));
        environment.push(("LANG".into(), locale));
    }
    environment.retain(|(name, _)| name != "LANGUAGE" && name != "LC_MESSAGES");
    environment.push(("LC_MESSAGES".into(), "C".into()));
    environment
}

/// What a hook's program was started with: it explains a failure.
struct HookSandbox {
    confinement: Option<Confinement>,
    workspace: Workspace,
    environment: Variables,
}

impl HookSandbox {
    fn of(job: &Job, workspace: Workspace) -> Self {
        let (confinement, environment) = (job.confinement.clone(), job.environment.clone());
        HookSandbox { confinement, workspace, environment }
    }

    /// Adds the probable causes of a failure: a program that is not executable, and what the sandbox refused.
    /// A program that succeeds may have been refused something too, and have taken it for missing.
    fn add_causes(&self, output: &mut ProcessOutput) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        output.remarks.extend(describe_not_executable(output.exit, &stderr, &self.workspace));
        let Some(confinement) = &self.confinement else { return };
        let refusals = confinement.refusals_of_hook(output.exit, &stderr, &self.workspace);
        let hidden = find_hidden_program(output.exit, &stderr, &self.environment);
        output.remarks.extend(refusals.told);
        output.blocked_accesses = refusals.decisive;
        if output.blocked_accesses.is_empty() {
            output.blocked_accesses.extend(hidden);
        }
    }

    /// An error if a resident program was refused something that its answer may depend on.
    fn check_answer(&self, stderr: &[u8]) -> Result<(), HookFailure> {
        let answered = command_hook::ProcessExit::Code(0);
        let refused = self.output_at_end(answered, stderr.to_vec()).blocked_accesses;
        if refused.is_empty() { Ok(()) } else { Err(HookFailure::Host(refused.join("; "))) }
    }

    /// The output of a resident program that ended.
    fn output_at_end(&self, exit: command_hook::ProcessExit, stderr: Vec<u8>) -> ProcessOutput {
        let (stdout, remarks, blocked_accesses) = (vec![], vec![], vec![]);
        let mut output = ProcessOutput { exit, stdout, stderr, remarks, blocked_accesses };
        self.add_causes(&mut output);
        output
    }
}

/// The way a hook's program ended.
fn hook_exit(exit: Exit) -> command_hook::ProcessExit {
    match exit {
        Exit::Code(code) => command_hook::ProcessExit::Code(code),
        Exit::Signal(signal) => command_hook::ProcessExit::Signal(signal),
    }
}

/// The remark about a program that exists and that a confined hook could not start. A shell says so by exit
/// code 126 or 127, and names the program before the last colon.
fn find_hidden_program(
    exit: command_hook::ProcessExit,
    stderr: &str,
    environment: &[(OsString, OsString)],
) -> Option<String> {
    if !matches!(exit, command_hook::ProcessExit::Code(126 | 127)) {
        return None;
    }
    let subjects = stderr.lines().filter_map(|line| {
        let (before, _) = line.rsplit_once(": ")?;
        Some(before.rsplit(": ").next()?.trim_matches(['\'', '`', '‘', '’', '"', ' ']))
    });
    let mut programs = subjects.filter_map(|name| {
        let path = find_program(name, Path::new("/"), environment).ok()?;
        let is_hidden = !is_system(&path) && interpreters::has_interpreter(&path);
        (is_program(&path) && is_hidden).then_some(path)
    });
    if stderr.contains("\\r") || stderr.contains('\r') || stderr.contains("^M") {
        return None;
    }
    let path = programs.next()?;
    Some(format!(
        "{} could not start inside the sandbox: `readRoots` in your settings opens the folders that it needs",
        text::show_line(&path.to_string_lossy())
    ))
}

/// Starts a program on another thread. Starting blocks until the process exists, so hooks of one
/// point would wait for each other.
async fn start_on_thread(runner: Runner, job: Job) -> Result<RunningProcess, StartError> {
    let runtime = tokio::runtime::Handle::current();
    let started = tokio::task::spawn_blocking(move || runtime.block_on(runner.start(job)));
    started.await.unwrap_or_else(|cause| Err(StartError(cause.to_string())))
}

/// The state folders that were made for hooks, because a confined hook cannot make them. Those that stay empty
/// are removed at the end.
#[derive(Debug, Default)]
struct StateFolders(Mutex<BTreeSet<PathBuf>>);

impl StateFolders {
    /// Makes the missing state folders of a source. A hook that needs one that cannot be made will say so.
    fn make(&self, source: Option<&Path>) {
        let Some(source) = source.filter(|source| source.is_dir()) else { return };
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = state::FOLDERS.map(|name| source.join(name)).into_iter();
        made.extend(missing.filter(|folder| fs::create_dir(folder).is_ok()));
    }
}

impl Drop for StateFolders {
    fn drop(&mut self) {
        let made = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Counts a running hook.
struct RunningCount<'a> {
    count: &'a AtomicUsize,
    /// The number of hooks that ran when it began.
    others: usize,
}

impl<'a> RunningCount<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        RunningCount { count, others: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for RunningCount<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A text as a file in memory: the program may read it at any time or not at all, without blocking
/// us.
#[cfg(target_os = "linux")]
fn input_file(text: &[u8], _: &Runner) -> std::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
    let mut file = std::fs::File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}

/// On other systems, an unlinked file in the private folder.
#[cfg(not(target_os = "linux"))]
fn input_file(text: &[u8], runner: &Runner) -> std::io::Result<OwnedFd> {
    use std::{
        io::Seek,
        sync::atomic::{AtomicU64, Ordering},
    };
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("input-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let path = runner.logs()?.join(name);
    let mut file = std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(text)?;
    file.rewind()?;
    Ok(file.into())
}

/// The output of a program up to the limits, and its exit. What is longer is read and dropped, so that the
/// program can end by itself: its exit code may refuse.
async fn collect(
    mut running: RunningProcess,
    remarks: &StderrBuffer,
) -> Result<ProcessOutput, String> {
    let (mut stdout, mut stderr) = (vec![], vec![]);
    while let Some(chunk) = running.next().await {
        match chunk.stream {
            Stream::Stderr => {
                remarks.add(&chunk.bytes);
                add_stderr(&mut stderr, &chunk.bytes);
            }
            Stream::Stdout => {
                let left = (MAX_OUTPUT + 1).saturating_sub(stdout.len()).min(chunk.bytes.len());
                stdout.extend_from_slice(&chunk.bytes[..left]);
            }
        }
    }
    let end = running.wait_for_end().await.map_err(|cause| cause.to_string())?;
    let exit = hook_exit(end.exit);
    Ok(ProcessOutput { exit, stdout, stderr, remarks: end.remarks, blocked_accesses: vec![] })
}

/// Adds to a standard error, of which the beginning and the end are kept.
fn add_stderr(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    if kept.len() > 2 * MAX_STDERR {
        kept.drain(MAX_STDERR..kept.len() - MAX_STDERR);
    }
}

/// A hook that stays running. It is started at the first event.
struct ResidentHook {
    hooks: HookRunner,
    job: command_hook::ProcessSpec,
    running: Option<ResidentExchange>,
}

struct ResidentExchange {
    running: RunningProcess,
    sandbox: HookSandbox,
    input: Sender,
    /// Output that is not a complete line yet.
    line_buffer: Vec<u8>,
    stderr_bytes: Vec<u8>,
}

impl ResidentProcess for ResidentHook {
    fn exchange<'a>(&'a mut self, line: &'a [u8]) -> ExchangeFuture<'a> {
        Box::pin(async move {
            let exchange = match &mut self.running {
                Some(exchange) => exchange,
                None => {
                    let started = ResidentExchange::begin(&self.hooks, &self.job).await;
                    self.running.insert(started.map_err(HookFailure::Host)?)
                }
            };
            exchange.exchange(line).await
        })
    }

    fn take_stderr(&mut self) -> Vec<u8> {
        self.running
            .as_mut()
            .map(|exchange| std::mem::take(&mut exchange.stderr_bytes))
            .unwrap_or_default()
    }
}

impl ResidentExchange {
    async fn begin(hooks: &HookRunner, job: &command_hook::ProcessSpec) -> Result<Self, String> {
        let to_message = |cause: std::io::Error| cause.to_string();
        let (child_end, our_end) = std::io::pipe().map_err(to_message)?;
        let workspace = job.workspace.clone().with_cwd(&job.cwd);
        let (runner, job) = hooks.job(job, child_end.into(), HookLifetime::Stays)?;
        let sandbox = HookSandbox::of(&job, workspace);
        let running = runner.start(job).await.map_err(|cause| cause.to_string())?;
        let input = Sender::from_owned_fd(our_end.into()).map_err(to_message)?;
        let (line_buffer, stderr_bytes) = (vec![], vec![]);
        Ok(ResidentExchange { running, sandbox, input, line_buffer, stderr_bytes })
    }

    /// Sends a line and returns the answer. Writes and reads at the same time: a hook may answer
    /// before it has read all of a long line.
    async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, HookFailure> {
        let ResidentExchange { running, sandbox, input, line_buffer, stderr_bytes } = self;
        if !line_buffer.is_empty() {
            return Err("it wrote output without a request".to_owned().into());
        }
        let send = async {
            input.write_all(line).await?;
            input.write_all(b"\n").await
        };
        let (sent, answer) = tokio::join!(send, answer(running, line_buffer, stderr_bytes));
        let Some(answer) = answer? else {
            let end = running.take_end().map_err(|cause| HookFailure::Host(cause.to_string()))?;
            return Err(sandbox
                .output_at_end(hook_exit(end.exit), stderr_bytes.clone())
                .end_failure());
        };
        sent.map_err(|cause| format!("it does not read its input: {cause}"))?;
        // What it said before its answer may still be in the pipe.
        add_stderr(stderr_bytes, &running.stderr_so_far());
        sandbox.check_answer(stderr_bytes)?;
        Ok(answer)
    }
}

/// The next line of output. `None` if the program has ended.
async fn answer(
    running: &mut RunningProcess,
    line_buffer: &mut Vec<u8>,
    stderr_bytes: &mut Vec<u8>,
) -> Result<Option<Vec<u8>>, HookFailure> {
    loop {
        if let Some(end) = line_buffer.iter().position(|byte| *byte == b'\n') {
            let mut line = line_buffer.split_off(end + 1);
            std::mem::swap(line_buffer, &mut line);
            line.pop();
            return Ok(Some(line));
        }
        if line_buffer.len() > MAX_OUTPUT {
            let why = format!("it wrote more than {MAX_OUTPUT} bytes");
            return Err(HookFailure::Host(why));
        }
        let Some(chunk) = running.next().await else { return Ok(None) };
        match chunk.stream {
            Stream::Stdout => line_buffer.extend_from_slice(&chunk.bytes),
            Stream::Stderr => add_stderr(stderr_bytes, &chunk.bytes),
        }
    }
}
