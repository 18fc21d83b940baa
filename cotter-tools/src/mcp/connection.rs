//! A connection to one server: opening, listing tools, calling, closing.

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

use crate::{confine::program_path::find_program, process::Job};
use cotter_files::settings::mcp_servers::{McpServer, Transport};

use crate::mcp::{
    McpHost,
    backlog::{self, Backlog, CountingClient, CountingWriter},
    definition::Definition,
    http,
    launch::{self, McpProcess, StderrTail},
    result,
};

/// The longest message.
pub(crate) const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The most tools of a server, and the most pages of their list.
const MAX_TOOLS: usize = 512;
const MAX_PAGES: usize = 64;
/// The largest definition, and the most bytes of all definitions of a server.
const DEFINITION_BYTES: usize = 128 * 1024;
const ALL_BYTES: usize = 2 * 1024 * 1024;
/// The longest part of a skipped tool's name that is reported.
const NAME_CHARS: usize = 80;
/// The longest part of an error message that is repeated.
const ERROR_CHARS: usize = 500;
/// The most queued progress messages.
const PROGRESS_QUEUE: usize = 64;

/// A connection to a server, with its listed tools. Dropping it ends the server.
pub(crate) struct Connection {
    service: RunningService<RoleClient, CountingClient<Client>>,
    tail: StderrTail,
    /// Set when we closed the connection because a message was too long.
    too_long: Arc<AtomicBool>,
    /// Counts requests whose answers were not read.
    backlog: Arc<Backlog>,
    tools: Mutex<Arc<ListedTools>>,
    /// Held while the tools are listed again: other calls wait for the result.
    listing: AsyncMutex<()>,
    /// True once it answered a call.
    pub(crate) answered: AtomicBool,
    _process: Option<McpProcess>,
}

/// A service that is being started.
type ServerTask = Pin<
    Box<
        dyn Future<Output = Result<RunningService<RoleClient, CountingClient<Client>>, String>>
            + Send,
    >,
>;

/// A connection that is being opened.
type OpenFuture = Pin<Box<dyn Future<Output = Result<Connection, String>> + Send>>;

/// The tools a server listed, by name.
#[derive(Clone, Default)]
pub(crate) struct ListedTools {
    pub(crate) tools: BTreeMap<String, Definition>,
    /// Names that came more than once; these tools are left out.
    pub(crate) duplicates: Vec<String>,
    /// Names of tools with too large definitions.
    pub(crate) too_large: Vec<String>,
    /// True if there were more tools than the limit.
    pub(crate) too_many: bool,
    /// The size of the stored definitions.
    bytes: usize,
}

impl Connection {
    /// Starts or reaches a server, initializes it and lists its tools. The error is a message.
    pub(crate) fn open(server: Arc<McpServer>, host: Arc<McpHost>) -> OpenFuture {
        Box::pin(async move {
            let tail = StderrTail::default();
            let opening = Self::initialize(server.clone(), host, tail.clone());
            let opened = match tokio::time::timeout(server.start_timeout, opening).await {
                Ok(opened) => opened,
                Err(_) => Err(format!("it did not answer within {:?}", server.start_timeout)),
            };
            match opened {
                Ok(connection) => Ok(connection),
                Err(error) => Err(format!("{error}{}", tail.wait_for_end().await.quote())),
            }
        })
    }

    async fn initialize(
        server: Arc<McpServer>,
        host: Arc<McpHost>,
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
                let job = job(&server.transport, &host)?;
                let started = launch::start(&host.runner, job, &tail).await;
                let (process, pipes) = started.map_err(|cause| {
                    format!("it cannot be started: {}", text::show_line(&cause))
                })?;
                let output = BoundedLines {
                    from: pipes.output,
                    line: 0,
                    too_long: too_long.clone(),
                    backlog: backlog.clone(),
                };
                let input = CountingWriter { to: pipes.input, backlog: backlog.clone() };
                let client = Client { project: Some(host.workspace.project().into()), ..client };
                let client = CountingClient { client, backlog: Some(backlog.clone()) };
                (serve(client, (output, input)).await?, Some(process))
            }
            Transport::Http { url, headers } => {
                let transport = http::transport(url, headers, &host.variables)?;
                (serve(CountingClient { client, backlog: None }, transport).await?, None)
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
        // Some servers register their tools after the initialization and announce it.
        for _ in 0..3 {
            connection.list().await?;
            if !connection.take_changed() {
                break;
            }
        }
        Ok(connection)
    }

    /// True if the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_transport_closed()
    }

    /// The last list of tools.
    pub(crate) fn listed(&self) -> Arc<ListedTools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if the server announced a change since the last call. Resets the flag.
    fn take_changed(&self) -> bool {
        self.service.service().client.changed.swap(false, Ordering::AcqRel)
    }

    /// Lists the tools again if the server announced a change; returns if it had. After a timeout
    /// the next caller tries again. The error is a message.
    pub(crate) async fn refresh(&self, limit: Duration) -> Result<bool, String> {
        let _guard = self.listing.lock().await;
        if !self.take_changed() {
            return Ok(false);
        }
        let listed = match tokio::time::timeout(limit, self.list()).await {
            Ok(listed) => listed,
            Err(_) => Err(format!("it did not list its tools within {limit:?}")),
        };
        if listed.is_err() {
            self.service.service().client.changed.store(true, Ordering::Release);
        }
        listed.map(|()| true)
    }

    /// Lists the tools. The error is a message.
    pub(crate) async fn list(&self) -> Result<(), String> {
        let mut listed = ListedTools::default();
        let mut cursor = None;
        for page in 0.. {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest::with_param(params);
            let answer = self.service.send_request(ClientRequest::ListToolsRequest(request)).await;
            let answer =
                answer.map_err(|cause| format!("its tools: {}", self.describe_cause(&cause)))?;
            let (tools, next) = page_of(answer)?;
            listed.add(&tools);
            listed.too_many |= next.is_some() && page + 1 == MAX_PAGES;
            cursor = next.filter(|_| !listed.too_many);
            if cursor.is_none() {
                break;
            }
        }
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
        Ok(())
    }

    /// Calls a tool. If the future is dropped, the server is notified that the call is cancelled.
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
        let (sender, mut receiver) = mpsc::channel(PROGRESS_QUEUE);
        let sending = async {
            // Locked while sending: progress must not arrive before its receiver is registered.
            let mut progress = client.progress.lock().await;
            let options = PeerRequestOptions::no_options();
            let sent = self.service.send_request_with_option(request, options).await?;
            progress.insert(sent.progress_token.clone(), sender);
            Ok(sent)
        };
        let sent = match tokio::time::timeout(limit, sending).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(cause)) => return Err(self.call_error(&cause).await),
            Err(_) => {
                let message = format!("the server did not take the call within {limit:?}");
                return Err(ToolError::new(ToolErrorKind::Timeout, message));
            }
        };
        let mut guard =
            AbandonGuard::of(self.service.peer(), &sent.id, client, &sent.progress_token);
        let mut answering = std::pin::pin!(tokio::time::timeout(limit, sent.await_response()));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answering => break answer,
                Some(text) = receiver.recv() => permit.stream(&text),
            }
        };
        while let Ok(text) = receiver.try_recv() {
            permit.stream(&text);
        }
        let Ok(answer) = answer else {
            let message =
                format!("the server did not answer within {limit:?}; the call was cancelled");
            return Err(ToolError::new(ToolErrorKind::Timeout, message));
        };
        guard.id = None;
        let answer = match answer {
            Ok(answer) => answer,
            Err(cause) => return Err(self.call_error(&cause).await),
        };
        self.answered.store(true, Ordering::Release);
        match answer {
            ServerResult::CallToolResult(answer) => result::output(answer),
            ServerResult::InputRequiredResult(_) => {
                Err(ToolError::failed("the server asks for more input, which is not supported"))
            }
            _ => Err(ToolError::failed("the server's answer is not a tool result")),
        }
    }

    async fn call_error(&self, cause: &ServiceError) -> ToolError {
        match cause {
            ServiceError::McpError(error) => {
                let text = text::cut_chars(&error.message, ERROR_CHARS);
                ToolError::failed(format!("the server refused: {}", text::show_line(&text)))
            }
            cause => ToolError::failed(format!(
                "{}. Whether the call had an effect is not known; it was not made again{}",
                self.describe_cause(cause),
                self.tail.wait_for_end().await.quote(),
            )),
        }
    }

    fn describe_cause(&self, cause: &ServiceError) -> String {
        match cause {
            _ if self.too_long.load(Ordering::Acquire) => {
                format!("the server sent more than {MESSAGE_BYTES} bytes at once and was ended")
            }
            _ if self.backlog.is_exceeded() => {
                let max = backlog::MAX_UNREAD;
                format!(
                    "the server sent more than {max} requests without reading the answers and was ended"
                )
            }
            ServiceError::TransportClosed => "the server ended during the request".into(),
            ServiceError::TransportSend(error) if is_broken_pipe(error) => {
                "the server ended during the request".into()
            }
            ServiceError::TransportSend(error) => {
                format!("the connection failed: {}", describe(&*error.error))
            }
            cause => describe(cause),
        }
    }
}

impl ListedTools {
    fn add(&mut self, tools: &[Value]) {
        for definition in tools.iter().filter_map(Definition::parse) {
            let bytes = definition.to_json().to_string().len();
            let count = self.tools.len() + self.duplicates.len() + self.too_large.len();
            if bytes > DEFINITION_BYTES && count < MAX_TOOLS {
                self.too_large.push(text::cut_chars(&definition.name, NAME_CHARS).into_owned());
                continue;
            }
            self.bytes += bytes;
            if count >= MAX_TOOLS || self.bytes > ALL_BYTES {
                self.too_many = true;
                return;
            }
            let name = definition.name.clone();
            if self.duplicates.contains(&name) {
                continue;
            }
            if self.tools.insert(name.clone(), definition).is_some() {
                self.tools.remove(&name);
                self.duplicates.push(name);
            }
        }
    }
}

/// Initializes a server. Boxed to keep the future's type short for the compiler.
fn serve<T, E, A>(client: CountingClient<Client>, transport: T) -> ServerTask
where
    T: IntoTransport<RoleClient, E, A> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
    A: 'static,
{
    Box::pin(async {
        let service = rmcp::serve_client(client, transport).await;
        service.map_err(|cause| match &cause {
            ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".into(),
            ClientInitializeError::TransportError { error, .. } if is_broken_pipe(error) => {
                "it ended before it answered".into()
            }
            ClientInitializeError::TransportError { error, .. } => describe(&*error.error),
            cause => describe(cause),
        })
    })
}

/// True if the program we wrote to is gone.
fn is_broken_pipe(error: &DynamicTransportError) -> bool {
    let cause = error.error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// The tools of a page, and the cursor of the next. A list with an invalid tool is read as JSON, so
/// that one broken tool does not hide the others.
fn page_of(answer: ServerResult) -> Result<(Vec<Value>, Option<String>), String> {
    match answer {
        ServerResult::ListToolsResult(page) => {
            let tools = page.tools.iter().filter_map(|tool| serde_json::to_value(tool).ok());
            Ok((tools.collect(), page.next_cursor))
        }
        ServerResult::CustomResult(page) => {
            let tools = page.0["tools"].as_array().cloned();
            let next = page.0["nextCursor"].as_str().map(str::to_owned);
            Ok((tools.ok_or("its tools: the answer is not a list")?, next))
        }
        _ => Err("its tools: the answer is not a list".into()),
    }
}

/// The job of an entry.
fn job(transport: &Transport, host: &McpHost) -> Result<Job, String> {
    let Transport::Stdio { command, args, env, cwd, local_sockets } = transport else {
        return Err("it is not a program".into());
    };
    let expand = |text: &str| launch::expand(text, &host.variables);
    let mut named = vec![];
    for (name, value) in env {
        named.push((name.into(), expand(value)?.into()));
    }
    let environment = launch::environment(&host.variables, named, &host.workspace);
    let project = host.workspace.project();
    let cwd = cwd.as_deref().map_or_else(|| project.to_owned(), |cwd| project.join(cwd));
    Ok(Job {
        program: find_program(command, &cwd, &environment)?,
        args: args.iter().map(|arg| expand(arg).map(Into::into)).collect::<Result<_, _>>()?,
        environment,
        cwd,
        stdin: None,
        confinement: host.confinement(*local_sockets),
    })
}

/// An error and its causes on one line, clipped.
fn describe(cause: &dyn std::error::Error) -> String {
    let mut message = cause.to_string();
    let mut source = cause.source();
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text::show_line(&text::cut_chars(&message, ERROR_CHARS)).into_owned()
}

/// Our side of the protocol. A server gets no model replies (sampling) and may not ask the person
/// (elicitation); a program may ask for the project's folder.
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
        notification: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match (&notification.message, notification.total) {
            (Some(message), _) => format!("{message}\n"),
            (None, Some(total)) => format!("{} of {total}\n", notification.progress),
            (None, None) => format!("{}\n", notification.progress),
        };
        if let Some(sender) = self.progress.lock().await.get(&notification.progress_token) {
            // Progress may be dropped if the queue is full.
            let _ = sender.try_send(text);
        }
    }

    async fn on_logging_message(
        &self,
        notification: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Kept with its standard error, to be quoted when something fails.
        self.tail.push(format!("{}\n", notification.data).as_bytes());
    }
}

/// Notifies the server on drop that a call was cancelled, unless `id` is `None`.
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
                let reason = Some("the call was cancelled".to_owned());
                let _ =
                    peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason)).await;
            }
        });
    }
}

/// The output of a server with a limit on the length of a line. A longer line ends the connection,
/// since its answer could not be read.
struct BoundedLines<R> {
    from: R,
    /// The length of the current line so far.
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
        if this.backlog.is_exceeded() {
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
