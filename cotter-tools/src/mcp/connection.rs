//! A connection to one server: made, asked for its tools, called through, and given up.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use cotter::{Permit, ToolError, ToolOutput, history::outcome::ToolErrorKind, text};
use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities,
        ClientConfig, ClientRequest, Implementation, ListToolsRequest, PaginatedRequestParams,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, ServerResult,
    },
    service::{
        ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RunningService,
    },
    transport::{DynamicTransportError, IntoTransport},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::{Mutex as AsyncMutex, mpsc},
};

use crate::process::{Job, environment::find_program};
use cotter_files::settings::mcp_servers::{McpServer, Transport};

use crate::mcp::{
    McpHost,
    backlog::{self, Backlog, CountedBytes, CountingStream},
    definition::Definition,
    http,
    launch::{self, McpProcess, StderrTail},
    result,
};

/// The most of one message.
pub(crate) const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The most tools of one server, and the most pages they come in.
const TOOLS: usize = 512;
const PAGES: usize = 64;
/// The most that is kept of one definition, and of all of a server.
const DEFINITION_BYTES: usize = 128 * 1024;
const ALL_BYTES: usize = 2 * 1024 * 1024;
/// How much is told of the name of one that is not kept.
const NAME_CHARS: usize = 80;
/// How much of a failure's own words is repeated.
const WORDS_CHARS: usize = 500;
/// How many words on progress may wait.
const PROGRESS: usize = 64;

/// A connection to a server, with the tools it listed. Dropped, the server is ended with it.
pub(crate) struct Connection {
    service: RunningService<RoleClient, CountingStream<Client>>,
    tail: StderrTail,
    /// Too much was said at once: the connection was closed by us.
    too_long: Arc<AtomicBool>,
    /// How much of what it asked was answered and not read.
    backlog: Arc<Backlog>,
    tools: Mutex<Arc<ListedTools>>,
    /// Held by whoever asks for the tools anew: others wait for what comes of it.
    listing: AsyncMutex<()>,
    /// Whether it ever answered a call.
    pub(crate) answered: AtomicBool,
    _process: Option<McpProcess>,
}

/// A service on its way.
type ServerTask = Pin<
    Box<
        dyn Future<Output = Result<RunningService<RoleClient, CountingStream<Client>>, String>>
            + Send,
    >,
>;

/// A connection on its way.
type OpenFuture = Pin<Box<dyn Future<Output = Result<Connection, String>> + Send>>;

/// What a server listed, by name.
#[derive(Clone, Default)]
pub(crate) struct ListedTools {
    pub(crate) tools: BTreeMap<String, Definition>,
    /// Names that came more than once, and stand for none.
    pub(crate) twice: Vec<String>,
    /// Names of those that are larger than a definition may be.
    pub(crate) too_large: Vec<String>,
    /// Whether there was more than anybody needs.
    pub(crate) too_many: bool,
    /// How much is kept of it.
    bytes: usize,
}

impl Connection {
    /// Starts a server or reaches it, greets it and asks for its tools. The error is in words.
    pub(crate) fn open(server: Arc<McpServer>, around: Arc<McpHost>) -> OpenFuture {
        Box::pin(async move {
            let tail = StderrTail::default();
            let opening = Self::greet(server.clone(), around, tail.clone());
            let opened = match tokio::time::timeout(server.start_timeout, opening).await {
                Ok(opened) => opened,
                Err(_) => Err(format!("it did not answer within {:?}", server.start_timeout)),
            };
            match opened {
                Ok(connection) => Ok(connection),
                Err(words) => Err(format!("{words}{}", tail.settled().await.quoted())),
            }
        })
    }

    async fn greet(
        server: Arc<McpServer>,
        around: Arc<McpHost>,
        tail: StderrTail,
    ) -> Result<Self, String> {
        let client = Client {
            project: None,
            changed: Arc::default(),
            progress: Arc::default(),
            tail: tail.clone(),
        };
        let too_long = Arc::<AtomicBool>::default();
        let backlog = Arc::<Backlog>::default();
        let (service, process) = match &server.transport {
            Transport::Stdio { .. } => {
                let job = job(&server.transport, &around)?;
                let started = launch::start(&around.runner, job, &tail).await;
                let (process, pipes) = started.map_err(|cause| {
                    format!("it cannot be started: {}", text::show_line(&cause))
                })?;
                let output = BoundedLines {
                    from: pipes.output,
                    line: 0,
                    too_long: too_long.clone(),
                    backlog: backlog.clone(),
                };
                let input = CountedBytes { to: pipes.input, backlog: backlog.clone() };
                let client = Client { project: Some(around.place.project().into()), ..client };
                let client = CountingStream { client, backlog: Some(backlog.clone()) };
                (serve(client, (output, input)).await?, Some(process))
            }
            Transport::Http { url, headers } => {
                let transport = http::transport(url, headers, &around.variables)?;
                (serve(CountingStream { client, backlog: None }, transport).await?, None)
            }
        };
        let connection = Connection {
            service,
            tail,
            too_long,
            backlog,
            tools: Mutex::default(),
            listing: AsyncMutex::default(),
            answered: AtomicBool::new(false),
            _process: process,
        };
        // Some servers have their tools only after the greeting, and say so.
        for _ in 0..3 {
            connection.list().await?;
            if !connection.take_changed() {
                break;
            }
        }
        Ok(connection)
    }

    /// Whether it can be called no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_transport_closed()
    }

    /// What the server listed last.
    pub(crate) fn listed(&self) -> Arc<ListedTools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the server has said since it was last asked that its tools changed.
    fn take_changed(&self) -> bool {
        self.service.service().client.changed.swap(false, Ordering::AcqRel)
    }

    /// Asks for the tools anew, if the server has said that they changed; whether it had. One that does
    /// not answer in time is asked again by whoever comes next. The error is in words.
    pub(crate) async fn refresh(&self, limit: Duration) -> Result<bool, String> {
        let _alone = self.listing.lock().await;
        if !self.take_changed() {
            return Ok(false);
        }
        let listed = match tokio::time::timeout(limit, self.list()).await {
            Ok(listed) => listed,
            Err(_) => Err(format!("it did not say within {limit:?} which tools it has now")),
        };
        if listed.is_err() {
            self.service.service().client.changed.store(true, Ordering::Release);
        }
        listed.map(|()| true)
    }

    /// Asks for the tools. The error is in words.
    pub(crate) async fn list(&self) -> Result<(), String> {
        let mut listed = ListedTools::default();
        let mut cursor = None;
        for page in 0.. {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let asked = ListToolsRequest::with_param(params);
            let answer = self.service.send_request(ClientRequest::ListToolsRequest(asked)).await;
            let answer = answer.map_err(|cause| format!("its tools: {}", self.why(&cause)))?;
            let (tools, next) = page_of(answer)?;
            listed.take(&tools);
            listed.too_many |= next.is_some() && page + 1 == PAGES;
            cursor = next.filter(|_| !listed.too_many);
            if cursor.is_none() {
                break;
            }
        }
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
        Ok(())
    }

    /// Calls a tool. Dropped, the server is told that nobody waits any more.
    pub(crate) async fn call(
        &self,
        tool: &str,
        permit: &Permit,
        limit: Duration,
    ) -> Result<ToolOutput, ToolError> {
        let arguments = permit.input().as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let client = &self.service.service().client;
        let (said, mut saying) = mpsc::channel(PROGRESS);
        let sending = async {
            // Held while it is sent: words on its progress cannot come before somebody waits for them.
            let mut progress = client.progress.lock().await;
            let options = PeerRequestOptions::no_options();
            let sent = self.service.send_request_with_option(request, options).await?;
            progress.insert(sent.progress_token.clone(), said);
            Ok(sent)
        };
        let sent = match tokio::time::timeout(limit, sending).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(cause)) => return Err(self.failed(&cause).await),
            Err(_) => {
                let message = format!("the server did not take the call within {limit:?}");
                return Err(ToolError::new(ToolErrorKind::Timeout, message));
            }
        };
        let mut abandoned =
            AbandonGuard::of(self.service.peer(), &sent.id, client, &sent.progress_token);
        let mut answering = std::pin::pin!(tokio::time::timeout(limit, sent.await_response()));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answering => break answer,
                Some(words) = saying.recv() => permit.stream(&words),
            }
        };
        while let Ok(words) = saying.try_recv() {
            permit.stream(&words);
        }
        let Ok(answer) = answer else {
            let message =
                format!("the server did not answer within {limit:?}; it was told to stop");
            return Err(ToolError::new(ToolErrorKind::Timeout, message));
        };
        abandoned.id = None;
        let answer = match answer {
            Ok(answer) => answer,
            Err(cause) => return Err(self.failed(&cause).await),
        };
        self.answered.store(true, Ordering::Release);
        match answer {
            ServerResult::CallToolResult(answer) => result::output(answer),
            ServerResult::InputRequiredResult(_) => {
                Err(ToolError::failed("the server wants to ask something in return, which is off"))
            }
            _ => Err(ToolError::failed(
                "the server answered with something that is no result of a tool",
            )),
        }
    }

    async fn failed(&self, cause: &ServiceError) -> ToolError {
        match cause {
            ServiceError::McpError(error) => {
                let words = text::clip(&error.message, WORDS_CHARS);
                ToolError::failed(format!("the server refused: {}", text::show_line(&words)))
            }
            cause => ToolError::failed(format!(
                "{}. Whether the call had an effect is not known; it was not made again{}",
                self.why(cause),
                self.tail.settled().await.quoted(),
            )),
        }
    }

    fn why(&self, cause: &ServiceError) -> String {
        match cause {
            _ if self.too_long.load(Ordering::Acquire) => {
                format!("the server sent more than {MESSAGE_BYTES} bytes at once and was ended")
            }
            _ if self.backlog.is_over() => {
                let most = backlog::MOST;
                format!(
                    "the server asked more than {most} things without reading the answers and was ended"
                )
            }
            ServiceError::TransportClosed => "the server ended while it was asked".into(),
            ServiceError::TransportSend(error) if is_gone(error) => {
                "the server ended while it was asked".into()
            }
            ServiceError::TransportSend(error) => {
                format!("it failed on the way: {}", words(&*error.error))
            }
            cause => words(cause),
        }
    }
}

impl ListedTools {
    fn take(&mut self, tools: &[Value]) {
        for definition in tools.iter().filter_map(Definition::parse) {
            let bytes = definition.to_json().to_string().len();
            let several = self.tools.len() + self.twice.len() + self.too_large.len();
            if bytes > DEFINITION_BYTES && several < TOOLS {
                self.too_large.push(text::clip(&definition.name, NAME_CHARS).into_owned());
                continue;
            }
            self.bytes += bytes;
            if several >= TOOLS || self.bytes > ALL_BYTES {
                self.too_many = true;
                return;
            }
            let name = definition.name.clone();
            if self.twice.contains(&name) {
                continue;
            }
            if self.tools.insert(name.clone(), definition).is_some() {
                self.tools.remove(&name);
                self.twice.push(name);
            }
        }
    }
}

/// Greets a server. Boxed: the compiler cannot see through what is in it.
fn serve<T, E, A>(client: CountingStream<Client>, transport: T) -> ServerTask
where
    T: IntoTransport<RoleClient, E, A> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
    A: 'static,
{
    Box::pin(async {
        let served = rmcp::serve_client(client, transport).await;
        served.map_err(|cause| match &cause {
            ClientInitializeError::ConnectionClosed(_) => "it ended before it had answered".into(),
            ClientInitializeError::TransportError { error, .. } if is_gone(error) => {
                "it ended before it had answered".into()
            }
            ClientInitializeError::TransportError { error, .. } => words(&*error.error),
            cause => words(cause),
        })
    })
}

/// Whether a program that was written to is not there any more.
fn is_gone(error: &DynamicTransportError) -> bool {
    let cause = error.error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// The tools of a page, and where the next one begins. A list in which something is of a wrong kind is
/// taken as it is: one broken tool does not hide the others.
fn page_of(answer: ServerResult) -> Result<(Vec<Value>, Option<String>), String> {
    match answer {
        ServerResult::ListToolsResult(page) => {
            let tools = page.tools.iter().filter_map(|tool| serde_json::to_value(tool).ok());
            Ok((tools.collect(), page.next_cursor))
        }
        ServerResult::CustomResult(page) => {
            let tools = page.0["tools"].as_array().cloned();
            let next = page.0["nextCursor"].as_str().map(str::to_owned);
            Ok((tools.ok_or("its tools: that was no list")?, next))
        }
        _ => Err("its tools: that was no list".into()),
    }
}

/// What is started for an entry.
fn job(transport: &Transport, around: &McpHost) -> Result<Job, String> {
    let Transport::Stdio { command, args, env, cwd, local_sockets } = transport else {
        return Err("it is no program".into());
    };
    let expand = |text: &str| launch::expand(text, &around.variables);
    let mut named = vec![];
    for (name, value) in env {
        named.push((name.into(), expand(value)?.into()));
    }
    let environment = launch::environment(&around.variables, named, &around.place);
    let project = around.place.project();
    let cwd = cwd.as_deref().map_or_else(|| project.to_owned(), |cwd| project.join(cwd));
    Ok(Job {
        program: find_program(command, &cwd, &environment)?,
        args: args.iter().map(|arg| expand(arg).map(Into::into)).collect::<Result<_, _>>()?,
        environment,
        cwd,
        stdin: None,
        confinement: around.confinement(*local_sockets),
    })
}

/// A failure in words: on one line, and not too long.
fn words(cause: &dyn std::error::Error) -> String {
    let mut words = cause.to_string();
    let mut source = cause.source();
    while let Some(cause) = source {
        words.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text::show_line(&text::clip(&words, WORDS_CHARS)).into_owned()
}

/// What a server may ask of us: next to nothing. It gets no model's replies (sampling), puts no
/// questions to a person (elicitation), and a program is told the project's folder.
struct Client {
    /// The project, for a server on this machine.
    project: Option<PathBuf>,
    changed: Arc<AtomicBool>,
    progress: Arc<AsyncMutex<HashMap<ProgressToken, mpsc::Sender<String>>>>,
    tail: StderrTail,
}

#[expect(deprecated, reason = "the protocol deprecates roots and logging; servers still use them")]
impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = self.project.as_ref().map(|_| Default::default());
        let info = Implementation::new("cotter", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, info)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(
        &self,
        _: rmcp::service::RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, rmcp::ErrorData> {
        let uri =
            self.project.as_ref().and_then(|folder| reqwest::Url::from_file_path(folder).ok());
        let roots = uri.map(|uri| rmcp::model::Root::new(String::from(uri)));
        Ok(rmcp::model::ListRootsResult::new(roots.into_iter().collect()))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }

    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let words = match (&said.message, said.total) {
            (Some(message), _) => format!("{message}\n"),
            (None, Some(total)) => format!("{} of {total}\n", said.progress),
            (None, None) => format!("{}\n", said.progress),
        };
        if let Some(waiting) = self.progress.lock().await.get(&said.progress_token) {
            // Nobody needs every word of it.
            let _ = waiting.try_send(words);
        }
    }

    async fn on_logging_message(
        &self,
        said: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Kept with what it says on its standard error, to be quoted when something fails.
        self.tail.push(format!("{}\n", said.data).as_bytes());
    }
}

/// Tells the server of a call that nobody waits for any more.
struct AbandonGuard {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    progress: Arc<AsyncMutex<HashMap<ProgressToken, mpsc::Sender<String>>>>,
    token: ProgressToken,
}

impl AbandonGuard {
    fn of(peer: &Peer<RoleClient>, id: &RequestId, client: &Client, token: &ProgressToken) -> Self {
        let (peer, id, token) = (peer.clone(), Some(id.clone()), token.clone());
        AbandonGuard { peer, id, progress: client.progress.clone(), token }
    }
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (peer, progress) = (self.peer.clone(), self.progress.clone());
        let (id, token) = (self.id.take(), self.token.clone());
        runtime.spawn(async move {
            progress.lock().await.remove(&token);
            if let Some(id) = id {
                let reason = Some("nobody waits for it any more".to_owned());
                let _ =
                    peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason)).await;
            }
        });
    }
}

/// Output of a server in which no line is too long: one that is ends the connection, since whoever waits
/// for what it answers would wait in vain.
struct BoundedLines<R> {
    from: R,
    /// How much of the line under way has come.
    line: usize,
    too_long: Arc<AtomicBool>,
    backlog: Arc<Backlog>,
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.from).poll_read(cx, buffer))?;
        if this.backlog.is_over() {
            return Poll::Ready(Err(io::Error::other("the answers are not read")));
        }
        let new = &buffer.filled()[before..];
        let until_break = new.iter().position(|byte| *byte == b'\n').unwrap_or(new.len());
        if this.line + until_break >= MESSAGE_BYTES {
            this.too_long.store(true, Ordering::Release);
            return Poll::Ready(Err(io::Error::other("the line is too long")));
        }
        this.line = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => new.len() - end - 1,
            None => this.line + new.len(),
        };
        Poll::Ready(Ok(()))
    }
}
