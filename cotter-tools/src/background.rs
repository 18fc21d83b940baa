//! `bash_background`: commands that outlive their call, each with a name, a log and an end.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cotter::{
    Cx, Place, Registry, Tool, ToolError, ToolSpec, named,
    permission::Zone,
    points::{SessionClose, SessionClosed},
    tool::{ErrorKind, Facts, Output, Permit, Working},
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    bash,
    process::{Ended, Runner, Running},
};

/// The most that run at a time.
const MOST: usize = 8;
/// The most of a log.
const MOST_LOG: u64 = 64 * 1024 * 1024;
/// The most of a log that one call shows.
const SHOWN: u64 = 16 * 1024;
/// How long a start waits for a command that fails at once.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// Registers `bash_background`. Processes end with their session, with the agent, or by `stop`.
pub fn background(runner: Runner) -> impl FnOnce(&mut Registry) {
    move |registry| {
        let processes = Processes::default();
        let ending = processes.clone();
        let close = named("background", move |_: &SessionClosed, cx: &Cx| {
            ending.lock().retain(|(session, _), _| session != cx.session_id());
        });
        registry.observe(
            SessionClose,
            close.description("Ends background processes with their session."),
        );
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
struct Processes(Arc<Mutex<BTreeMap<(String, String), Process>>>);

impl Processes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One process. Dropped, it is ended.
struct Process {
    command: String,
    log: PathBuf,
    stop: mpsc::Sender<()>,
    ended: watch::Receiver<Option<String>>,
    listening: JoinHandle<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn spec() -> ToolSpec {
    ToolSpec::new(
        "bash_background",
        "Start a bash command line that goes on after the call, such as a server or a watcher, and look \
         after it. `start` needs `command` (and may have `name` and `cwd`), `log` shows the end of what \
         it said, `stop` ends it with all it started, `list` shows all. At most 8 run at a time; they \
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

    fn effects(&self, input: &Value, place: &Place) -> Facts {
        match input["action"].as_str() {
            // One that is started changes something, whatever it does: it stays.
            Some("start") => {
                let facts = bash::effects(input, place, &self.runner);
                Facts { zone: facts.zone.max(Zone::Workspace), ..facts }
            }
            _ => Facts::zone(Zone::Safe),
        }
    }

    fn run(&self, permit: Permit) -> Working<'_> {
        Box::pin(async move {
            let session = permit.cx().session_id().to_owned();
            let name = permit.input()["name"].as_str().map(str::to_owned);
            let needed = || {
                let words = "`name` is needed: `list` shows the names";
                name.clone().ok_or_else(|| ToolError::new(ErrorKind::InvalidArgs, words))
            };
            match permit.input()["action"].as_str().unwrap_or_default() {
                "start" => self.start(&permit, (session, name)).await,
                "log" => self.log((session, needed()?)),
                "stop" => self.stop((session, needed()?)).await,
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
    ) -> Result<Output, ToolError> {
        let Some(command) = permit.input()["command"].as_str() else {
            return Err(ToolError::new(ErrorKind::InvalidArgs, "`command` is needed to start one"));
        };
        let name = self.free_name(&session, name)?;
        let mut job = bash::job(permit, &self.runner)?;
        if let Some(confinement) = &mut job.confinement {
            confinement.aside = None;
        }
        let log =
            self.new_log(&session, &name).map_err(|cause| ToolError::failed(cause.to_string()))?;
        let running = self.runner.start(job).await.map_err(bash::not_started)?;
        let (process, mut ended) = Process::new(command, log, running)?;
        let path = process.log.clone();
        self.processes.lock().insert((session, name.clone()), process);
        // What fails at once is worth a moment.
        let early = tokio::time::timeout(FIRST_LOOK, ended.wait_for(Option::is_some)).await;
        let status = match early {
            Ok(Ok(end)) => {
                format!("`{name}` was started and has ended: {}", end.clone().unwrap_or_default())
            }
            _ => format!("`{name}` is running; its log is {}", path.display()),
        };
        Ok(format!("{status}\n{}", tail(&path)).trim_end().to_owned().into())
    }

    /// The name asked for, or the first that is free.
    fn free_name(&self, session: &str, name: Option<String>) -> Result<String, ToolError> {
        let processes = self.processes.lock();
        let running = |process: &Process| process.ended.borrow().is_none();
        if processes.values().filter(|process| running(process)).count() >= MOST {
            let message = format!("{MOST} processes are running already; stop one first");
            return Err(ToolError::new(ErrorKind::Unavailable, message));
        }
        let taken = |name: &str| {
            let key = (session.to_owned(), name.to_owned());
            processes.get(&key).is_some_and(running)
        };
        match name {
            Some(name) if taken(&name) => {
                let message =
                    format!("`{name}` is running already; stop it first, or take another name");
                Err(ToolError::new(ErrorKind::InvalidArgs, message))
            }
            Some(name) => Ok(name),
            None => {
                let known =
                    |name: &String| processes.contains_key(&(session.to_owned(), name.clone()));
                let mut names = (1..).map(|number| format!("p{number}"));
                Ok(names.find(|name| !known(name)).unwrap_or_default())
            }
        }
    }

    fn new_log(&self, session: &str, name: &str) -> io::Result<(PathBuf, File)> {
        let folder = self.runner.logs()?;
        let plain: String = session.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut names = (1..).map(|number| folder.join(format!("{plain}-{name}-{number}.log")));
        let path = names.find(|path| !path.exists()).unwrap_or_default();
        let file = File::create_new(&path)?;
        Ok((path, file))
    }

    fn log(&self, key: (String, String)) -> Result<Output, ToolError> {
        let processes = self.processes.lock();
        let process = processes.get(&key).ok_or_else(|| unknown(&key.1))?;
        Ok(format!("{}\n{}", process.status(&key.1), tail(&process.log))
            .trim_end()
            .to_owned()
            .into())
    }

    async fn stop(&self, key: (String, String)) -> Result<Output, ToolError> {
        let (stop, mut ended) = {
            let processes = self.processes.lock();
            let process = processes.get(&key).ok_or_else(|| unknown(&key.1))?;
            (process.stop.clone(), process.ended.clone())
        };
        let _ = stop.try_send(());
        let _ = ended.wait_for(Option::is_some).await;
        let said = self.log(key.clone());
        self.processes.lock().remove(&key);
        said
    }

    fn list(&self, session: &str) -> String {
        let processes = self.processes.lock();
        let own = processes.iter().filter(|((of, _), _)| of == session);
        let lines: Vec<_> = own
            .map(|((_, name), process)| format!("{} — {}", process.status(name), process.command))
            .collect();
        if lines.is_empty() { "no background process".into() } else { lines.join("\n") }
    }
}

fn unknown(name: &str) -> ToolError {
    let message = format!("there is no background process `{name}`; `list` shows the names");
    ToolError::new(ErrorKind::NotFound, message)
}

type Ending = watch::Receiver<Option<String>>;

impl Process {
    fn new(
        command: &str,
        (log, file): (PathBuf, File),
        running: Running,
    ) -> Result<(Self, Ending), ToolError> {
        let (stop, stopped) = mpsc::channel(1);
        let (tell, ended) = watch::channel(None);
        let listening = tokio::spawn(async move {
            let end = listen(running, file, stopped).await;
            tell.send_replace(Some(end));
        });
        let process =
            Process { command: command.into(), log, stop, ended: ended.clone(), listening };
        Ok((process, ended))
    }

    fn status(&self, name: &str) -> String {
        match &*self.ended.borrow() {
            None => format!("`{name}` is running"),
            Some(end) => format!("`{name}` has ended: {end}"),
        }
    }
}

/// Writes what a process says to its log until it ends, and says how that was.
async fn listen(mut running: Running, mut log: File, mut stopped: mpsc::Receiver<()>) -> String {
    let mut room = MOST_LOG;
    loop {
        let chunk = tokio::select! {
            Some(()) = stopped.recv() => {
                running.end();
                continue;
            }
            chunk = running.next() => chunk,
        };
        let Some(chunk) = chunk else { break };
        let length = chunk.bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let _ = log.write_all(&chunk.bytes[..length]);
        if room > 0 && length < chunk.bytes.len() {
            let _ = log.write_all(b"\n[the log is full; what follows is left out]\n");
        }
        room -= length as u64;
    }
    match running.ended().await {
        Err(cause) => cause.to_string(),
        Ok(Ended { exit, remarks }) => {
            let ending = bash::ending(exit).unwrap_or_else(|| "exit code 0".into());
            std::iter::once(ending).chain(remarks).collect::<Vec<_>>().join("; ")
        }
    }
}

/// The end of a log.
fn tail(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
        let mut bytes = vec![];
        file.take(SHOWN).read_to_end(&mut bytes)?;
        let cut = if length > SHOWN {
            format!("… [{} bytes before]\n", length - SHOWN)
        } else {
            String::new()
        };
        Ok(cut + &bash::shown(&bytes))
    };
    read().unwrap_or_else(|cause| format!("(its log cannot be read: {cause})"))
}
