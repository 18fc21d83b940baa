//! Servers of the Model Context Protocol: their tools become tools of the agent.
//!
//! [`Servers`] says which there are, from settings; [`Mcp::open`] makes a [`Hook`] of them. A tool `read`
//! of the server `notes` is called `mcp__notes__read`, goes through scope, schema, floor, gates and ledger
//! like every other, and is of zone `external` unless the person's settings say that it only reads.
//!
//! **When servers start.** What tools there are is settled when the hook is made and stays so: a tool that
//! came or went later would cost the prompt cache of every session. What a server offers is kept in a file,
//! so a server that was seen before starts when the first of its tools is called, and one that was not
//! (or whose entry is another now) starts when the hook is made, which waits for it.
//!
//! **What is trusted.** The first list of a server is taken as it comes, since the person named the server;
//! it is pinned. A definition (name, title, description, schema, annotations) that is new or another since
//! then waits until a person accepts it ([`Pins::accept`]): at the start its tool is left out, within a
//! session its calls fail with a word. A server may say at any time that its tools changed; it is asked
//! for them anew before its next call.
//!
//! **What a server gets.** A program gets a short list of variables and what its entry names, is alone in
//! its process group, and ends with the hook. Where there is a spawner it has no terminal, ends with
//! everything it started, and what is closed to every tool is closed to it by the kernel
//! ([`McpHost::with_runner`]). It may ask for
//! the project's folder and for nothing else: no replies of the model (sampling), no questions to the
//! person (elicitation). Its instructions for the system prompt are left out: they would speak with the
//! person's voice, and descriptions of tools say what is needed. What it logs is quoted when something
//! fails.

pub(crate) mod backlog;
pub(crate) mod connection;
pub mod definition;
pub(crate) mod http;
pub(crate) mod launch;
pub mod pins;
pub(crate) mod result;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use cotter::{
    AgentConfig, Hook, Permit, ToolError, ToolOutput, ToolSpec, Workspace,
    history::outcome::ToolErrorKind,
    permission::{Zone, facts::Facts, host::host_name},
    text,
    tool::ToolFuture,
};
use cotter_files::settings::mcp_servers::{McpServer, Servers, Transport};
use futures_util::future::join_all;
use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    confine::{Confinement, Sandbox},
    process::Runner,
};

use crate::mcp::{connection::Connection, definition::OfferedTools};
pub use crate::mcp::{
    definition::Definition,
    pins::{PinnedServer, Pins, PinsError},
};

/// How often in a row a server may fail before it is left alone.
const TRIES: u32 = 3;
/// How long it is waited before the second try; twice as long before the third.
const BACK_OFF: Duration = Duration::from_millis(250);
/// The most diagnostics that are kept.
const DIAGNOSTICS: usize = 256;

/// What is round the servers.
#[derive(Clone, Debug)]
pub struct McpHost {
    place: Workspace,
    variables: Vec<(OsString, OsString)>,
    definitions: Option<PathBuf>,
    runner: Runner,
}

impl McpHost {
    /// Servers of an agent that works there.
    pub fn new(place: Workspace) -> Self {
        McpHost {
            place,
            variables: vec![],
            definitions: None,
            runner: Runner::direct().with_sandbox(Sandbox::Off),
        }
    }

    /// The same with the person's variables. Servers get a few of them; entries may name others.
    #[must_use]
    pub fn with_variables(self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        McpHost { variables: variables.into_iter().collect(), ..self }
    }

    /// The same with a file for what servers offer. Without one nothing outlives the hook: every
    /// server starts with it, and what it offers is taken as it comes.
    #[must_use]
    pub fn with_definitions(self, file: impl Into<PathBuf>) -> Self {
        McpHost { definitions: Some(file.into()), ..self }
    }

    /// The same with whoever starts the servers, and so how they are confined and ended. A person chose
    /// them, so they may do what the person may, but for what is closed to every tool: the kernel keeps
    /// that from them, and with it the memory and the signals of processes that are not theirs, the
    /// terminal, and the sockets of this machine unless an entry says `localSockets`. Without one, a
    /// server has what this process has and is ended with its process group.
    ///
    /// Where a machine allows no view of the files of one's own, a server cannot make files directly in
    /// the folders that lead to what is closed.
    #[must_use]
    pub fn with_runner(self, runner: Runner) -> Self {
        McpHost { runner, ..self }
    }

    /// What keeps a server out of what is ours; `None` where nothing can.
    fn confinement(&self, local: bool) -> Option<Confinement> {
        let closed = || self.place.closed().map(PathBuf::from).collect();
        self.runner.confines().then(|| Confinement::of_server(closed(), local))
    }
}

/// Something a person should know about a server. Nothing ended because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The server's name.
    pub server: SmolStr,
    /// The tool's, where it is about one.
    pub tool: Option<SmolStr>,
    /// What is the matter.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MCP server `{}`", self.server)?;
        if let Some(tool) = &self.tool {
            write!(f, ", tool `{}`", text::show_line(tool))?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The tools of all servers, as a [`Hook`]. Cheap to clone; the servers end with the last clone.
#[derive(Clone)]
pub struct Mcp(Arc<McpInner>);

struct McpInner {
    servers: Vec<Server>,
    /// By the names the model calls them by.
    tools: BTreeMap<SmolStr, (usize, OfferedTools)>,
    diagnostics: Diagnostics,
}

#[derive(Clone, Default)]
struct Diagnostics(Arc<Mutex<Vec<Diagnostic>>>);

impl Diagnostics {
    fn add(&self, server: &SmolStr, tool: Option<&str>, message: impl Into<String>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (server, tool) = (server.clone(), tool.map(SmolStr::from));
        let new = Diagnostic { server, tool, message: message.into() };
        if kept.len() < DIAGNOSTICS && !kept.contains(&new) {
            kept.push(new);
        }
    }
}

impl Mcp {
    /// Makes a hook of these servers. Those that were not seen before are started now, side by side; one
    /// that fails is left out, with a diagnostic.
    pub async fn open(servers: Servers, around: McpHost) -> Result<Self, PinsError> {
        let pins = match &around.definitions {
            Some(file) => Pins::load(file)?,
            None => Pins::default(),
        };
        let (around, diagnostics) = (Arc::new(around), Diagnostics::default());
        let opening = servers.into_iter().map(|entry| {
            let pinned = pins.servers.get(entry.name().as_str()).cloned();
            Server::open(entry, pinned, around.clone(), diagnostics.clone())
        });
        let servers = join_all(opening).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Mcp::of(servers, diagnostics))
    }

    /// The same with those only that were seen before: for whoever wants to know what there is. No
    /// server is started unless one of its tools is called.
    pub fn seen(servers: Servers, around: McpHost) -> Result<Self, PinsError> {
        let pins = match &around.definitions {
            Some(file) => Pins::load(file)?,
            None => Pins::default(),
        };
        let (around, diagnostics) = (Arc::new(around), Diagnostics::default());
        let servers = servers.into_iter().filter_map(|entry| {
            let pinned = pins.servers.get(entry.name().as_str())?.clone();
            let known = pinned.identity == entry.identity();
            known.then(|| Server::new(entry, pinned, around.clone(), diagnostics.clone()))
        });
        Ok(Mcp::of(servers.collect(), diagnostics))
    }

    fn of(servers: Vec<Server>, diagnostics: Diagnostics) -> Self {
        let mut tools = BTreeMap::new();
        for (index, server) in servers.iter().enumerate() {
            let offered = server.offered().into_iter();
            tools.extend(offered.map(|offered| (offered.spec.name.clone(), (index, offered))));
        }
        Mcp(Arc::new(McpInner { servers, tools, diagnostics }))
    }

    /// What a person should know, since this was last asked.
    pub fn take_diagnostics(&self) -> Vec<Diagnostic> {
        std::mem::take(&mut *self.0.diagnostics.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server and the tool that a name stands for, if it is one of these.
    pub fn tool(&self, name: &str) -> Option<(&str, &str)> {
        let (index, offered) = self.0.tools.get(name)?;
        Some((self.0.servers[*index].entry.name(), &offered.name))
    }

    fn find(&self, name: &str) -> Option<(&Server, &OfferedTools)> {
        let (index, offered) = self.0.tools.get(name)?;
        Some((&self.0.servers[*index], offered))
    }
}

impl Hook for Mcp {
    fn schema(&self) -> Vec<ToolSpec> {
        self.0.tools.values().map(|(_, offered)| offered.spec.clone()).collect()
    }

    fn scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>) {
        let has = |server: &Server| {
            config.mcps.is_empty() || config.mcps.iter().any(|name| name == server.entry.name())
        };
        let tools = self.0.tools.iter().filter(|(_, (index, _))| has(&self.0.servers[*index]));
        (tools.map(|(name, _)| name.to_string()).collect(), None)
    }

    fn effects(&self, name: &str, _: &Value, _: &Workspace) -> Facts {
        let Some((server, offered)) = self.find(name) else { return Facts::unknown() };
        Facts {
            hosts: server.host().into_iter().collect(),
            doubts: offered.doubts.clone(),
            ..Facts::zone(offered.zone)
        }
    }

    fn parallel(&self, name: &str) -> bool {
        let harmless =
            |offered: &OfferedTools| offered.zone <= Zone::Network && offered.doubts.is_empty();
        self.find(name).is_some_and(|(_, offered)| harmless(offered))
    }

    fn dispatch<'a>(&'a self, name: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        let (server, offered) = self.find(name)?;
        Some(Box::pin(server.call(offered, call)))
    }
}

/// One server, connected or not.
struct Server {
    entry: Arc<McpServer>,
    around: Arc<McpHost>,
    /// What was pinned when the hook was made.
    pinned: PinnedServer,
    link: AsyncMutex<McpConnection>,
    diagnostics: Diagnostics,
}

#[derive(Default)]
struct McpConnection {
    up: Option<Arc<Connection>>,
    /// How often in a row it did not start, or ended without having answered a call.
    failures: u32,
    /// Why it failed last.
    why: String,
}

impl Server {
    fn new(
        entry: McpServer,
        pinned: PinnedServer,
        around: Arc<McpHost>,
        diagnostics: Diagnostics,
    ) -> Self {
        let (entry, link) = (Arc::new(entry), AsyncMutex::default());
        Server { entry, around, pinned, link, diagnostics }
    }

    async fn open(
        entry: McpServer,
        pinned: Option<PinnedServer>,
        around: Arc<McpHost>,
        diagnostics: Diagnostics,
    ) -> Result<Self, PinsError> {
        let is_known = pinned.as_ref().is_some_and(|pinned| pinned.identity == entry.identity());
        let mut server = Server::new(entry, pinned.unwrap_or_default(), around, diagnostics);
        if is_known {
            return Ok(server);
        }
        match Connection::open(server.entry.clone(), server.around.clone()).await {
            Ok(connection) => {
                server.pinned = server.see(&connection).await?;
                server.link.get_mut().up = Some(Arc::new(connection));
            }
            Err(why) => {
                server.tell(None, format!("its tools are left out: {why}"));
                // What another entry of that name offered is not this one's.
                server.pinned = PinnedServer::default();
            }
        }
        Ok(server)
    }

    fn tell(&self, tool: Option<&str>, message: impl Into<String>) {
        self.diagnostics.add(self.entry.name(), tool, message);
    }

    /// The host that calls go to.
    fn host(&self) -> Option<String> {
        match &self.entry.transport {
            Transport::Http { url, .. } => url.host_str().map(host_name),
            Transport::Stdio { .. } => None,
        }
    }

    /// The tools that may be shown; why others are not goes to the diagnostics.
    fn offered(&self) -> Vec<OfferedTools> {
        let PinnedServer { accepted, waiting, gone, .. } = &self.pinned;
        for (name, _) in waiting.iter().filter(|(name, _)| self.entry.has(name)) {
            let what =
                if accepted.contains_key(name) { "its definition changed" } else { "it is new" };
            self.tell(Some(name), held(what, self.entry.name()));
        }
        let here = accepted.iter().filter(|(name, _)| {
            self.entry.has(name) && !waiting.contains_key(*name) && !gone.contains(*name)
        });
        let offer = |(name, definition): (&String, &Definition)| {
            let offered = OfferedTools::new(&self.entry, definition);
            offered.map_err(|why| self.tell(Some(name), format!("it is left out: {why}"))).ok()
        };
        here.filter_map(offer).collect()
    }

    async fn call(&self, offered: &OfferedTools, permit: Permit) -> Result<ToolOutput, ToolError> {
        let connection = self.connection().await?;
        match connection.refresh(self.entry.start_timeout).await {
            Ok(false) => {}
            Ok(true) => {
                let seen = self.see(&connection).await;
                seen.map_err(|cause| self.unavailable(&cause.to_string()))?;
            }
            Err(why) => {
                self.give_up(&connection, &why).await;
                return Err(self.unavailable(&why));
            }
        }
        match connection.listed().tools.get(offered.name.as_str()) {
            Some(now) if now.digest() == offered.digest => {}
            Some(_) => {
                return Err(self.unavailable(&held("its definition changed", self.entry.name())));
            }
            None => return Err(self.unavailable("the server does not offer it any more")),
        }
        connection.call(&offered.name, &permit, self.entry.timeout).await
    }

    /// The connection is of no use any more: the next call makes another, a few times.
    async fn give_up(&self, connection: &Arc<Connection>, why: &str) {
        let mut link = self.link.lock().await;
        if link.up.as_ref().is_some_and(|up| Arc::ptr_eq(up, connection)) {
            link.up = None;
            link.failures += 1;
            link.why = why.to_owned();
        }
    }

    fn unavailable(&self, why: &str) -> ToolError {
        let message = format!("the MCP server `{}`: {why}", self.entry.name());
        ToolError::new(ToolErrorKind::Unavailable, message)
    }

    /// The connection as it stands, or a new one: a server that ended is started again, a few times.
    async fn connection(&self) -> Result<Arc<Connection>, ToolError> {
        let mut link = self.link.lock().await;
        if let Some(up) = &link.up {
            if !up.is_closed() {
                return Ok(up.clone());
            }
            let answered = up.answered.load(Ordering::Acquire);
            link.failures = if answered { 0 } else { link.failures + 1 };
            link.why = "it ends before it answers".into();
            link.up = None;
        }
        while link.failures < TRIES {
            if link.failures > 0 {
                tokio::time::sleep(BACK_OFF * link.failures).await;
            }
            match Connection::open(self.entry.clone(), self.around.clone()).await {
                Ok(connection) => {
                    let seen = self.see(&connection).await;
                    seen.map_err(|cause| self.unavailable(&cause.to_string()))?;
                    let connection = Arc::new(connection);
                    link.up = Some(connection.clone());
                    return Ok(connection);
                }
                Err(why) => {
                    link.failures += 1;
                    link.why = why;
                }
            }
        }
        let why = format!("it failed {TRIES} times and is left alone: {}", link.why);
        self.tell(None, why.clone());
        Err(self.unavailable(&why))
    }

    /// Takes in what the server lists: pins what is seen for the first time, and has the rest wait.
    async fn see(&self, connection: &Connection) -> Result<PinnedServer, PinsError> {
        let listed = connection.listed();
        for name in &listed.twice {
            self.tell(Some(name), "it is left out: the server has several of that name");
        }
        for name in &listed.too_large {
            self.tell(Some(name), "it is left out: its definition is too long");
        }
        if listed.too_many {
            self.tell(None, "it has more tools than are taken; the rest is left out");
        }
        let (name, identity) = (self.entry.name().to_string(), self.entry.identity());
        let see = move |pins: &mut Pins| {
            pins.see(&name, &identity, &listed.tools);
            pins.servers.get(&name).cloned().unwrap_or_default()
        };
        let pinned = match self.around.definitions.clone() {
            Some(file) => changed(&file, see).await?,
            None => {
                // Nothing is kept: what the hook goes by is what it saw first.
                let mut pins = Pins::default();
                if self.pinned != PinnedServer::default() {
                    pins.servers.insert(self.entry.name().to_string(), self.pinned.clone());
                }
                see(&mut pins)
            }
        };
        for name in pinned.waiting.keys().filter(|name| self.entry.has(name)) {
            let what = if pinned.accepted.contains_key(name) {
                "its definition changed"
            } else {
                "it is new"
            };
            self.tell(Some(name), held(what, self.entry.name()));
        }
        Ok(pinned)
    }
}

/// Why a tool cannot be had, and what to do about it.
fn held(what: &str, server: &str) -> String {
    format!(
        "{what} since its server was accepted; it is held until a person runs `cotter mcp accept {server}`"
    )
}

/// Changes the file of definitions without keeping others waiting.
async fn changed(
    file: &Path,
    change: impl FnOnce(&mut Pins) -> PinnedServer + Send + 'static,
) -> Result<PinnedServer, PinsError> {
    let file = file.to_owned();
    let done = tokio::task::spawn_blocking(move || Pins::change(&file, |pins| Ok(change(pins))));
    done.await.unwrap_or_else(|cause| std::panic::resume_unwind(cause.into_panic()))
}
