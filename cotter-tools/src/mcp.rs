//! Servers of the Model Context Protocol: their tools become tools of the agent.
//!
//! [`Servers`] holds the servers of the settings; [`Mcp::open`] makes a [`Hook`] of them. A tool
//! `read` of the server `notes` is called `mcp__notes__read`. It passes scope, schema, floor, gates
//! and ledger like every other tool. Its zone is `external` unless the person's settings say that
//! it only reads.
//!
//! **When servers start.** The set of tools is fixed when the hook is made: a later change would
//! cost the prompt cache of every session. Tool definitions are stored in a file, so a known server
//! starts at the first call of one of its tools. An unknown server, or one whose entry changed,
//! starts when the hook is made, which waits for it.
//!
//! **What is trusted.** The first tool list of a server is accepted as it is, since the person
//! named the server; it is pinned. A definition (name, title, description, schema, annotations)
//! that is new or changed later must be accepted by a person ([`Pins::accept`]). Until then its
//! tool is left out at the start, and within a session its calls fail with a message. A server may
//! announce at any time that its tools changed; it is then asked for them before its next call.
//!
//! **What a server gets.** A program gets a short list of variables and those its entry names. It
//! has its own process group and ends with the hook. With a spawner it has no terminal, it ends
//! with all its processes, and the kernel closes to it the paths closed to every tool
//! ([`McpHost::with_runner`]). It may ask for the project's folder and for nothing else: no replies
//! of the model (sampling), no questions to the person (elicitation). Its instructions for the
//! system prompt are ignored: they would speak with the person's voice, and the descriptions of
//! tools are enough. Its log is quoted when something fails.

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

use crate::mcp::{connection::Connection, definition::OfferedTool};
pub use crate::mcp::{
    definition::Definition,
    pins::{PinnedServer, Pins, PinsError},
};

/// The most failures in a row before a server is given up.
const MAX_FAILURES: u32 = 3;
/// The wait before the second try; twice as long before the third.
const BACK_OFF: Duration = Duration::from_millis(250);
/// The most stored diagnostics.
const MAX_DIAGNOSTICS: usize = 256;

/// The environment of the servers: workspace, variables, definitions file and runner.
#[derive(Clone, Debug)]
pub struct McpHost {
    workspace: Workspace,
    variables: Vec<(OsString, OsString)>,
    definitions: Option<PathBuf>,
    runner: Runner,
}

impl McpHost {
    /// The host for servers of an agent in that workspace.
    pub fn new(workspace: Workspace) -> Self {
        McpHost {
            workspace,
            variables: vec![],
            definitions: None,
            runner: Runner::direct().with_sandbox(Sandbox::Off),
        }
    }

    /// Sets the person's variables. Servers get a few of them; entries may name others.
    #[must_use]
    pub fn with_variables(self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        McpHost { variables: variables.into_iter().collect(), ..self }
    }

    /// Sets the file of tool definitions. Without it nothing outlives the hook: every server starts
    /// with the hook, and its tools are accepted as they are.
    #[must_use]
    pub fn with_definitions(self, file: impl Into<PathBuf>) -> Self {
        McpHost { definitions: Some(file.into()), ..self }
    }

    /// Sets the runner, which decides how servers are confined and ended. A person chose the
    /// servers, so they may do what the person may, except touch the paths closed to every tool.
    /// The kernel also denies them the memory and signals of other processes, the terminal, and
    /// local sockets unless an entry says `localSockets`. Without a runner, a server has the rights
    /// of this process and is ended with its process group.
    ///
    /// If the machine allows no mount namespace, a server cannot create files directly in the
    /// folders above closed paths.
    #[must_use]
    pub fn with_runner(self, runner: Runner) -> Self {
        McpHost { runner, ..self }
    }

    /// The confinement of a server; `None` if this runner cannot confine.
    fn confinement(&self, local: bool) -> Option<Confinement> {
        let closed = || self.workspace.closed().map(PathBuf::from).collect();
        let has_view = || self.runner.why_no_view().is_none();
        self.runner.confines().then(|| Confinement::of_server(closed(), local, has_view()))
    }
}

/// A problem with a server that a person should know. Nothing was ended because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The server's name.
    pub server: SmolStr,
    /// The tool's name, if it is about one.
    pub tool: Option<SmolStr>,
    /// The description of the problem.
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

/// The tools of all servers, as a [`Hook`]. Cheap to clone. The servers end with the last clone.
#[derive(Clone)]
pub struct Mcp(Arc<McpInner>);

struct McpInner {
    servers: Vec<Server>,
    /// By the names the model uses.
    tools: BTreeMap<SmolStr, (usize, OfferedTool)>,
    diagnostics: Diagnostics,
}

#[derive(Clone, Default)]
struct Diagnostics(Arc<Mutex<Vec<Diagnostic>>>);

impl Diagnostics {
    fn add(&self, server: &SmolStr, tool: Option<&str>, message: impl Into<String>) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (server, tool) = (server.clone(), tool.map(SmolStr::from));
        let new = Diagnostic { server, tool, message: message.into() };
        if list.len() < MAX_DIAGNOSTICS && !list.contains(&new) {
            list.push(new);
        }
    }
}

impl Mcp {
    /// Makes a hook of these servers. Unknown servers are started now, in parallel; a server that
    /// fails is left out, with a diagnostic.
    pub async fn open(servers: Servers, host: McpHost) -> Result<Self, PinsError> {
        let pins = match &host.definitions {
            Some(file) => Pins::load(file)?,
            None => Pins::default(),
        };
        let (host, diagnostics) = (Arc::new(host), Diagnostics::default());
        let opening = servers.into_iter().map(|entry| {
            let pinned = pins.servers.get(entry.name().as_str()).cloned();
            Server::open(entry, pinned, host.clone(), diagnostics.clone())
        });
        let servers = join_all(opening).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Mcp::of(servers, diagnostics))
    }

    /// Makes a hook of the known servers only, to list their tools. No server is started until one
    /// of its tools is called.
    pub fn open_pinned(servers: Servers, host: McpHost) -> Result<Self, PinsError> {
        let pins = match &host.definitions {
            Some(file) => Pins::load(file)?,
            None => Pins::default(),
        };
        let (host, diagnostics) = (Arc::new(host), Diagnostics::default());
        let servers = servers.into_iter().filter_map(|entry| {
            let pinned = pins.servers.get(entry.name().as_str())?.clone();
            let is_current = pinned.identity == entry.identity();
            is_current.then(|| Server::new(entry, pinned, host.clone(), diagnostics.clone()))
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

    /// The diagnostics since the last call.
    pub fn take_diagnostics(&self) -> Vec<Diagnostic> {
        std::mem::take(&mut *self.0.diagnostics.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server and tool of a name, if it is one of these.
    pub fn tool(&self, name: &str) -> Option<(&str, &str)> {
        let (index, offered) = self.0.tools.get(name)?;
        Some((self.0.servers[*index].entry.name(), &offered.name))
    }

    fn find(&self, name: &str) -> Option<(&Server, &OfferedTool)> {
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
        let is_harmless =
            |offered: &OfferedTool| offered.zone <= Zone::Network && offered.doubts.is_empty();
        self.find(name).is_some_and(|(_, offered)| is_harmless(offered))
    }

    fn dispatch<'a>(&'a self, name: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        let (server, offered) = self.find(name)?;
        Some(Box::pin(server.call(offered, call)))
    }
}

/// One server, connected or not.
struct Server {
    entry: Arc<McpServer>,
    host: Arc<McpHost>,
    /// The definitions pinned when the hook was made.
    pinned: PinnedServer,
    state: AsyncMutex<ServerState>,
    diagnostics: Diagnostics,
}

#[derive(Default)]
struct ServerState {
    connection: Option<Arc<Connection>>,
    /// The failures in a row: it did not start, or ended without having answered a call.
    failures: u32,
    /// The last error.
    last_error: String,
}

impl Server {
    fn new(
        entry: McpServer,
        pinned: PinnedServer,
        host: Arc<McpHost>,
        diagnostics: Diagnostics,
    ) -> Self {
        let (entry, state) = (Arc::new(entry), AsyncMutex::default());
        Server { entry, host, pinned, state, diagnostics }
    }

    async fn open(
        entry: McpServer,
        pinned: Option<PinnedServer>,
        host: Arc<McpHost>,
        diagnostics: Diagnostics,
    ) -> Result<Self, PinsError> {
        let is_known = pinned.as_ref().is_some_and(|pinned| pinned.identity == entry.identity());
        let mut server = Server::new(entry, pinned.unwrap_or_default(), host, diagnostics);
        if is_known {
            return Ok(server);
        }
        match Connection::open(server.entry.clone(), server.host.clone()).await {
            Ok(connection) => {
                server.pinned = server.pin_list(&connection).await?;
                server.state.get_mut().connection = Some(Arc::new(connection));
            }
            Err(error) => {
                server.report(None, format!("its tools are left out: {error}"));
                // The definitions of another entry of that name do not count.
                server.pinned = PinnedServer::default();
            }
        }
        Ok(server)
    }

    fn report(&self, tool: Option<&str>, message: impl Into<String>) {
        self.diagnostics.add(self.entry.name(), tool, message);
    }

    /// The host that calls go to.
    fn host(&self) -> Option<String> {
        match &self.entry.transport {
            Transport::Http { url, .. } => url.host_str().map(host_name),
            Transport::Stdio { .. } => None,
        }
    }

    /// The tools that may be shown; reasons for leaving others out go to the diagnostics.
    fn offered(&self) -> Vec<OfferedTool> {
        let PinnedServer { accepted, waiting, gone, .. } = &self.pinned;
        for (name, _) in waiting.iter().filter(|(name, _)| self.entry.has(name)) {
            let what =
                if accepted.contains_key(name) { "its definition changed" } else { "it is new" };
            self.report(Some(name), needs_acceptance(what, self.entry.name()));
        }
        let current = accepted.iter().filter(|(name, _)| {
            self.entry.has(name) && !waiting.contains_key(*name) && !gone.contains(*name)
        });
        let offer = |(name, definition): (&String, &Definition)| {
            let offered = OfferedTool::new(&self.entry, definition);
            offered
                .map_err(|error| self.report(Some(name), format!("it is left out: {error}")))
                .ok()
        };
        current.filter_map(offer).collect()
    }

    async fn call(&self, offered: &OfferedTool, permit: Permit) -> Result<ToolOutput, ToolError> {
        let connection = self.connection().await?;
        match connection.refresh(self.entry.start_timeout).await {
            Ok(false) => {}
            Ok(true) => {
                let pinned = self.pin_list(&connection).await;
                pinned.map_err(|cause| self.unavailable(&cause.to_string()))?;
            }
            Err(error) => {
                self.drop_connection(&connection, &error).await;
                return Err(self.unavailable(&error));
            }
        }
        match connection.listed().tools.get(offered.name.as_str()) {
            Some(now) if now.digest() == offered.digest => {}
            Some(_) => {
                return Err(self
                    .unavailable(&needs_acceptance("its definition changed", self.entry.name())));
            }
            None => return Err(self.unavailable("the server no longer offers it")),
        }
        connection.call(&offered.name, &permit, self.entry.timeout).await
    }

    /// Drops a broken connection. The next call opens another, a few times.
    async fn drop_connection(&self, connection: &Arc<Connection>, error: &str) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
            state.failures += 1;
            state.last_error = error.to_owned();
        }
    }

    fn unavailable(&self, reason: &str) -> ToolError {
        let message = format!("the MCP server `{}`: {reason}", self.entry.name());
        ToolError::new(ToolErrorKind::Unavailable, message)
    }

    /// The current connection, or a new one: a server that ended is started again, a few times.
    async fn connection(&self) -> Result<Arc<Connection>, ToolError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            if !connection.is_closed() {
                return Ok(connection.clone());
            }
            let answered = connection.answered.load(Ordering::Acquire);
            state.failures = if answered { 0 } else { state.failures + 1 };
            state.last_error = "it ended before it answered".into();
            state.connection = None;
        }
        while state.failures < MAX_FAILURES {
            if state.failures > 0 {
                tokio::time::sleep(BACK_OFF * state.failures).await;
            }
            match Connection::open(self.entry.clone(), self.host.clone()).await {
                Ok(connection) => {
                    let pinned = self.pin_list(&connection).await;
                    pinned.map_err(|cause| self.unavailable(&cause.to_string()))?;
                    let connection = Arc::new(connection);
                    state.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Err(error) => {
                    state.failures += 1;
                    state.last_error = error;
                }
            }
        }
        let reason =
            format!("it failed {MAX_FAILURES} times and is not tried again: {}", state.last_error);
        self.report(None, reason.clone());
        Err(self.unavailable(&reason))
    }

    /// Records the server's tool list: pins a first list, and lets new or changed definitions wait.
    async fn pin_list(&self, connection: &Connection) -> Result<PinnedServer, PinsError> {
        let listed = connection.listed();
        for name in &listed.duplicates {
            self.report(Some(name), "it is left out: the server has several of that name");
        }
        for name in &listed.too_large {
            self.report(Some(name), "it is left out: its definition is too long");
        }
        if listed.too_many {
            self.report(None, "it has too many tools; the rest is left out");
        }
        let (name, identity) = (self.entry.name().to_string(), self.entry.identity());
        let pin_list = move |pins: &mut Pins| {
            pins.record_list(&name, &identity, &listed.tools);
            pins.servers.get(&name).cloned().unwrap_or_default()
        };
        let pinned = match self.host.definitions.clone() {
            Some(file) => change_pins(&file, pin_list).await?,
            None => {
                // Nothing is stored: the hook keeps the first list.
                let mut pins = Pins::default();
                if self.pinned != PinnedServer::default() {
                    pins.servers.insert(self.entry.name().to_string(), self.pinned.clone());
                }
                pin_list(&mut pins)
            }
        };
        for name in pinned.waiting.keys().filter(|name| self.entry.has(name)) {
            let what = if pinned.accepted.contains_key(name) {
                "its definition changed"
            } else {
                "it is new"
            };
            self.report(Some(name), needs_acceptance(what, self.entry.name()));
        }
        Ok(pinned)
    }
}

/// The message for a tool that must be accepted first.
fn needs_acceptance(what: &str, server: &str) -> String {
    format!(
        "{what} since its server was accepted; it is held until a person runs `cotter mcp accept {server}`"
    )
}

/// Changes the definitions file on a blocking thread.
async fn change_pins(
    file: &Path,
    change: impl FnOnce(&mut Pins) -> PinnedServer + Send + 'static,
) -> Result<PinnedServer, PinsError> {
    let file = file.to_owned();
    let done = tokio::task::spawn_blocking(move || Pins::change(&file, |pins| Ok(change(pins))));
    done.await.unwrap_or_else(|cause| std::panic::resume_unwind(cause.into_panic()))
}
