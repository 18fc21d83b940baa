//! The tool `bash_background`: commands that outlive their call, each with a name, a log and an
//! end.
//!
//! News about a process is reported without a call: with the next request to the model, and when a
//! run or the session ends.

pub(crate) mod process;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cotter::{
    At, Cx, Permit, Registry, Tool, ToolError, ToolOutput, ToolSpec, Workspace,
    builtin::is_protected,
    history::outcome::ToolErrorKind,
    hooks::points::{ModelPre, SessionClose, SessionEnd, SessionEndEvent, ToolPost, ToolPostEvent},
    named,
    permission::{Zone, facts::Facts},
    tool::ToolFuture,
};
use serde_json::{Value, json};

use crate::bash::background::process::{BackgroundProcess, tail};
use crate::{
    bash,
    confine::{index::EndCheck, made_repositories},
    process::Runner,
};

/// The most processes that run at a time.
const MAX_RUNNING: usize = 8;
/// The most ended processes that are remembered.
const MAX_ENDED: usize = 8;
/// How long `start` waits for a command that fails at once.
const START_WAIT: Duration = Duration::from_millis(300);

/// Registers `bash_background`. Processes end with their session, with the agent, or by `stop`.
pub fn background(runner: Runner) -> impl FnOnce(&mut Registry) {
    move |registry| {
        let processes = Processes::default();
        let ending = processes.clone();
        let close = named("background", move |at: At<SessionClose>| {
            let ending = ending.clone();
            async move { ending.end_session(at.cx()).await }
        });
        registry.observe(
            SessionClose,
            close.description("Ends background processes with their session."),
        );
        let reporting = processes.clone();
        let before = named("background-news", move |at: At<ModelPre>| {
            let reporting = reporting.clone();
            async move {
                reporting.wait_for_ending(at.cx()).await;
                reporting.report_news(at.cx(), true);
            }
        });
        let reporting = processes.clone();
        let after = named("background-end", move |_: &SessionEndEvent, cx: &Cx| {
            reporting.report_news(cx, true)
        });
        let description = "Reports unapproved changes by background processes.";
        registry.observe(ModelPre, before.description(description).quiet());
        registry.observe(SessionEnd, after.description(description).quiet());
        let approving = processes.clone();
        let approved = named("background-approvals", move |event: &ToolPostEvent, cx: &Cx| {
            approving.approve(event, cx)
        })
        .description("Records the protected paths that a call was approved to write.")
        .tools(["write", "edit", "bash", "bash_background"]);
        registry.observe(ToolPost, approved.quiet());
        registry.tool(Background { spec: spec(), runner, processes });
    }
}

struct Background {
    spec: ToolSpec,
    runner: Runner,
    processes: Processes,
}

/// Processes by session and name.
#[derive(Clone, Default)]
struct Processes(Arc<Mutex<BTreeMap<(String, String), BackgroundProcess>>>);

impl Processes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), BackgroundProcess>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one more ended process. One with unreported news stays.
    fn forget_oldest(&self) {
        let mut processes = self.lock();
        let ended = processes.iter().filter(|(_, process)| process.is_end_reported);
        let mut ended: Vec<_> =
            ended.map(|(key, process)| (process.started, key.clone())).collect();
        ended.sort_unstable();
        for (_, key) in ended.iter().rev().skip(MAX_ENDED - 1) {
            processes.remove(key);
        }
    }

    /// Reports the news of a session's processes to the person, and to the model if `model_too`.
    fn report_news(&self, cx: &Cx, model_too: bool) {
        let mut news = vec![];
        for ((session, name), process) in self.lock().iter_mut() {
            if session == cx.session_id() {
                news.extend(process.news(name));
            }
        }
        for text in news {
            cx.notify(&text);
            if model_too {
                cx.note(text);
            }
        }
    }

    /// Waits for processes that are being ended because a secret was read: the next model request
    /// runs without them.
    async fn wait_for_ending(&self, cx: &Cx) {
        let ending: Vec<_> = {
            let processes = self.lock();
            let own = processes.iter().filter(|((session, _), _)| session == cx.session_id());
            own.filter(|(_, process)| process.is_ending()).map(|(_, p)| p.ended.clone()).collect()
        };
        for mut ended in ending {
            let _ = ended.wait_for(Option::is_some).await;
        }
    }

    /// Ends the processes of a session and reports their news.
    async fn end_session(&self, cx: &Cx) {
        let own: Vec<_> = {
            let processes = self.lock();
            let own = processes.iter().filter(|((session, _), _)| session == cx.session_id());
            own.map(|(_, process)| process.stop()).collect()
        };
        for mut ended in own {
            let _ = ended.wait_for(Option::is_some).await;
        }
        self.report_news(cx, false);
        self.lock().retain(|(session, _), _| session != cx.session_id());
    }

    /// Records the protected paths that a call was approved to write: they stay when a process
    /// ends.
    fn approve(&self, event: &ToolPostEvent, cx: &Cx) {
        let mut processes = self.lock();
        if processes.is_empty() {
            return;
        }
        let workspace = cx.workspace();
        let protected = event.facts.writes.iter().filter(|path| is_protected(path, workspace));
        let mut paths: Vec<PathBuf> = protected.cloned().collect();
        paths.extend(made_repositories(&event.facts, workspace));
        if !paths.is_empty() {
            processes.values_mut().for_each(|process| process.approve(&paths));
        }
    }
}

fn spec() -> ToolSpec {
    ToolSpec::new(
        "bash_background",
        "Start a bash command line that keeps running after the call, such as a server or a watcher, and \
         look after it. `start` needs `command` (and may have `name` and `cwd`), `log` shows the end of \
         its output, `stop` ends it with all it started, `list` shows all. At most 8 run at a time; they \
         end with the session.",
        json!({
            "type": "object",
            "properties": {
                "action": {"enum": ["start", "log", "stop", "list"]},
                "command": {"type": "string", "minLength": 1},
                "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"},
                "cwd": {"type": "string", "minLength": 1}
            },
            "required": ["action"],
            "additionalProperties": false
        }),
    )
}

impl Tool for Background {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        match input["action"].as_str() {
            // Starting a process always changes something: it stays.
            Some("start") => {
                let facts = bash::effects(input, workspace, &self.runner);
                Facts { zone: facts.zone.max(Zone::Workspace), ..facts }
            }
            _ => Facts::zone(Zone::Safe),
        }
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let session = permit.cx().session_id().to_owned();
            let name = permit.input()["name"].as_str().map(str::to_owned);
            let require_name = || {
                let message = "`name` is needed: `list` shows the names";
                name.clone().ok_or_else(|| ToolError::new(ToolErrorKind::InvalidArgs, message))
            };
            match permit.input()["action"].as_str().unwrap_or_default() {
                "start" => self.start(&permit, (session, name)).await,
                "log" => self.log(permit.cx(), (session, require_name()?)),
                "stop" => self.stop(permit.cx(), (session, require_name()?)).await,
                _ => Ok(self.list(&session).into()),
            }
        })
    }
}

impl Background {
    async fn start(
        &self,
        permit: &Permit,
        (session, name): (String, Option<String>),
    ) -> Result<ToolOutput, ToolError> {
        let Some(command) = permit.input()["command"].as_str() else {
            return Err(ToolError::new(
                ToolErrorKind::InvalidArgs,
                "`command` is needed to start a process",
            ));
        };
        let name = self.free_name(&session, name)?;
        let (mut job, end_check) = bash::job(permit, &self.runner)?;
        let end_check = end_check.map(EndCheck::outlives);
        if let Some(confinement) = &mut job.confinement {
            confinement.outlives = true;
        }
        let log =
            self.new_log(&session, &name).map_err(|cause| ToolError::failed(cause.to_string()))?;
        // A process started after a secret was read was approved with this in mind.
        let secret = permit.cx().secret_read_token();
        let ends_on_secret = permit.facts().reaches_out() && !secret.is_cancelled();
        let secret = ends_on_secret.then(|| secret.clone());
        let job = (job, end_check);
        let process = BackgroundProcess::start(command, log, job, (&self.runner, secret)).await?;
        let (path, mut ended) = (process.log.clone(), process.ended.clone());
        self.processes.report_news(permit.cx(), false);
        self.processes.forget_oldest();
        self.processes.lock().insert((session, name.clone()), process);
        // Wait a moment for a command that fails at once.
        let early = tokio::time::timeout(START_WAIT, ended.wait_for(Option::is_some)).await;
        let status = match early {
            Ok(Ok(end)) => {
                let end = end.as_ref().map(|end| end.one_line()).unwrap_or_default();
                format!("`{name}` was started and has ended: {end}")
            }
            _ => format!("`{name}` is running; its log is {}", path.display()),
        };
        self.processes.report_news(permit.cx(), false);
        Ok(format!("{status}\n{}", tail(&path)).trim_end().to_owned().into())
    }

    /// The given name, or the first free one.
    fn free_name(&self, session: &str, name: Option<String>) -> Result<String, ToolError> {
        let processes = self.processes.lock();
        if processes.values().filter(|process| process.is_running()).count() >= MAX_RUNNING {
            let message = format!("{MAX_RUNNING} processes are running already; stop one first");
            return Err(ToolError::new(ToolErrorKind::Unavailable, message));
        }
        let is_running = |name: &str| {
            let key = (session.to_owned(), name.to_owned());
            processes.get(&key).is_some_and(BackgroundProcess::is_running)
        };
        match name {
            Some(name) if is_running(&name) => {
                let message =
                    format!("`{name}` is running already; stop it first, or take another name");
                Err(ToolError::new(ToolErrorKind::InvalidArgs, message))
            }
            Some(name) => Ok(name),
            None => {
                let is_taken =
                    |name: &String| processes.contains_key(&(session.to_owned(), name.clone()));
                let mut names = (1..).map(|number| format!("p{number}"));
                Ok(names.find(|name| !is_taken(name)).unwrap_or_default())
            }
        }
    }

    fn new_log(&self, session: &str, name: &str) -> io::Result<(PathBuf, File)> {
        let folder = self.runner.logs()?;
        let session: String = session.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut names = (1..).map(|number| folder.join(format!("{session}-{name}-{number}.log")));
        let path = names.find(|path| !path.exists()).unwrap_or_default();
        let file = File::create_new(&path)?;
        Ok((path, file))
    }

    fn log(&self, cx: &Cx, key: (String, String)) -> Result<ToolOutput, ToolError> {
        self.processes.report_news(cx, false);
        let processes = self.processes.lock();
        let process = processes.get(&key).ok_or_else(|| unknown(&key.1))?;
        Ok(format!("{}\n{}", process.status(&key.1), tail(&process.log))
            .trim_end()
            .to_owned()
            .into())
    }

    async fn stop(&self, cx: &Cx, key: (String, String)) -> Result<ToolOutput, ToolError> {
        let mut ended = {
            let processes = self.processes.lock();
            processes.get(&key).ok_or_else(|| unknown(&key.1))?.stop()
        };
        let _ = ended.wait_for(Option::is_some).await;
        let log = self.log(cx, key.clone());
        self.processes.lock().remove(&key);
        log
    }

    fn list(&self, session: &str) -> String {
        let processes = self.processes.lock();
        let own = processes.iter().filter(|((owner, _), _)| owner == session);
        let lines: Vec<_> = own
            .map(|((_, name), process)| format!("{} — {}", process.status(name), process.command))
            .collect();
        if lines.is_empty() { "no background process".into() } else { lines.join("\n") }
    }
}

fn unknown(name: &str) -> ToolError {
    let message = format!("there is no background process `{name}`; `list` shows the names");
    ToolError::new(ToolErrorKind::NotFound, message)
}
