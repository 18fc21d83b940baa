//! A provider on this machine. It speaks a real provider's format on a loopback port, gives
//! scripted answers and fails on demand. It checks requests as the real provider does, answers
//! wrong ones with its error messages, and keeps all requests for inspection.
//!
//! It runs on its own thread, so blocking tests and other processes can use it. It stops when
//! dropped.
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream};
//! use cotter_test::{Answer, Dialect, LocalProvider};
//!
//! let provider = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Hello there.")]);
//!
//! // Any client of the format works; usually it is a model with `provider.url()` as its address.
//! let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello?"}]}"#;
//! let mut stream = TcpStream::connect(provider.address())?;
//! write!(
//!     stream,
//!     "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer key\r\nconnection: close\r\n\
//!      content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
//!     body.len(),
//! )?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
//! assert!(answer.contains(r#""delta":{"content":"there."}"#));
//! assert!(answer.contains("data: [DONE]"));
//! assert_eq!(provider.requests()[0].json()["messages"][0]["content"], "Hello?");
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod serve;
mod check;
mod anthropic;
mod chat;
mod responses;

use std::{
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::watch;

pub use self::answer::{After, Answer, Cut};
use self::{
    answer::{Reply, Thought},
    check::RequestError,
};

/// The longest a blocking wait lasts before it panics.
const BLOCK_LIMIT: Duration = Duration::from_secs(60);

/// The API format of a local provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Chat Completions. Thinking is sent as `reasoning_content`, as compatible servers
    /// do.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Dialect; 3] =
        [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

    fn wire(self) -> &'static dyn Wire {
        match self {
            Dialect::AnthropicMessages => &anthropic::Messages,
            Dialect::OpenAiChat => &chat::Chat,
            Dialect::OpenAiResponses => &responses::Responses,
        }
    }
}

/// The format of one provider, in both directions.
trait Wire: Sync {
    /// The path at the end of the base address.
    fn base(&self) -> &'static str;

    /// The path after the base address.
    fn path(&self) -> &'static str;

    /// Checks the headers and the key of a request.
    fn check_head(&self, request: &ReceivedRequest, keys: &Keys) -> Result<(), RequestError>;

    /// Checks the body of a request, also against the replies sent before.
    fn check(
        &self,
        request: &ReceivedRequest,
        body: &Value,
        sent: &[SentReply],
    ) -> Result<(), RequestError>;

    /// A reply as events.
    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> ReplyEvents;

    /// The body of an error response.
    fn refusal(&self, error: &RequestError) -> Value;

    /// The error for a status that the script asks for.
    fn failure(&self, status: u16) -> RequestError;

    /// An event without content that keeps the connection alive.
    fn ping(&self) -> String;

    /// A list of models.
    fn models(&self, names: &[String]) -> Value;
}

/// The request that a reply answers.
struct Turn<'r> {
    /// The number of the answer, from 1.
    number: usize,
    request: &'r Value,
}

impl Turn<'_> {
    fn model(&self) -> &str {
        self.request["model"].as_str().unwrap_or_default()
    }
}

/// The events of a reply: its content, and the events that end it.
struct ReplyEvents {
    body: Vec<String>,
    end: Vec<String>,
}

/// An event with a name.
fn named_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// An event without a name.
fn plain_event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A stand-in for a provider's signature. It changes if the text changes.
fn fake_signature(kind: &str, text: &str) -> String {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{kind}{sum:016x}==")
}

/// A request as received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceivedRequest {
    /// The method, mostly `POST`.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// Names in lower case, in the order received.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The number of its connection, from 1.
    pub connection: usize,
    /// The reason if the request was refused, so that no answer was used.
    pub refused: Option<String>,
}

impl ReceivedRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The keys that are accepted.
#[derive(Clone, Debug, Default)]
enum Keys {
    /// Any key.
    #[default]
    Any,
    /// Any key or none.
    None,
    /// Only this key.
    Only(String),
}

impl Keys {
    fn accepts(&self, key: Option<&str>) -> bool {
        match self {
            Keys::None => true,
            Keys::Any => key.is_some_and(|key| !key.trim().is_empty()),
            Keys::Only(accepted) => key == Some(accepted),
        }
    }
}

/// The parts of a sent reply that must come back unchanged.
struct SentReply {
    model: String,
    calls: Vec<String>,
    thoughts: Vec<Thought>,
}

type Script = Box<dyn FnMut(&ReceivedRequest) -> Option<Answer> + Send>;

/// A provider on a loopback port.
pub struct LocalProvider {
    dialect: Dialect,
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    dialect: Dialect,
    state: Mutex<State>,
    script: Mutex<Script>,
    /// Wakes blocking waits.
    changed: Condvar,
    /// Wakes async waits.
    changes: watch::Sender<()>,
    is_released: watch::Sender<bool>,
    is_over: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    requests: Vec<ReceivedRequest>,
    /// The number of answers taken from the script.
    answers: usize,
    connections: usize,
    /// The number of connections closed by the client.
    closed: usize,
    sent: Vec<SentReply>,
    keys: Keys,
    skip_checks: bool,
    models: Vec<String>,
}

impl LocalProvider {
    /// Starts a provider that gives these answers, one per request, in order. A refused request
    /// uses none. A request beyond the last answer is refused.
    ///
    /// # Panics
    ///
    /// If no loopback port is free.
    pub fn start(dialect: Dialect, answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers = answers.into_iter().collect::<Vec<_>>().into_iter();
        Self::begin(dialect, Box::new(move |_| answers.next()))
    }

    /// Starts a provider whose answers depend on the request. The function runs on the provider's
    /// thread, for valid requests only.
    ///
    /// # Panics
    ///
    /// If no loopback port is free.
    pub fn start_with(
        dialect: Dialect,
        mut answer: impl FnMut(&ReceivedRequest) -> Answer + Send + 'static,
    ) -> Self {
        Self::begin(dialect, Box::new(move |request| Some(answer(request))))
    }

    fn begin(dialect: Dialect, script: Script) -> Self {
        let shared = Arc::new(Shared {
            dialect,
            state: Mutex::new(State { models: vec!["local".into()], ..State::default() }),
            script: Mutex::new(script),
            changed: Condvar::new(),
            changes: watch::Sender::default(),
            is_released: watch::Sender::new(false),
            is_over: watch::Sender::new(false),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let thread_shared = shared.clone();
        let thread = std::thread::spawn(move || serve::run(listener, thread_shared));
        LocalProvider { dialect, address, shared, thread: Some(thread) }
    }

    /// Accepts only this key. The default is any key.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        self.shared.state().keys = Keys::Only(key.into());
        self
    }

    /// Accepts requests with any key or none.
    pub fn without_key(self) -> Self {
        self.shared.state().keys = Keys::None;
        self
    }

    /// Skips the checks of the body: compatible providers have extra fields.
    pub fn unchecked(self) -> Self {
        self.shared.state().skip_checks = true;
        self
    }

    /// Sets the models of its list.
    pub fn with_models(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.shared.state().models = names.into_iter().map(Into::into).collect();
        self
    }

    /// Its dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The base address for clients.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.dialect.wire().base())
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far whose body is complete.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.state().requests.clone()
    }

    /// The reasons of all refused requests, in order. Empty if all requests were valid.
    pub fn refusals(&self) -> Vec<String> {
        let state = self.shared.state();
        state.requests.iter().filter_map(|request| request.refused.clone()).collect()
    }

    /// The number of connections made.
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Releases every hanging answer, and all later ones.
    pub fn release(&self) {
        self.shared.is_released.send_replace(true);
    }

    /// Waits until that many requests were received.
    pub async fn received(&self, requests: usize) {
        self.shared.wait_until(|state| state.requests.len() >= requests).await;
    }

    /// Blocks until that many requests were received.
    ///
    /// # Panics
    ///
    /// After one minute.
    pub fn wait_received(&self, requests: usize) {
        self.shared.block_until("requests", |state| state.requests.len() >= requests);
    }

    /// Waits until clients closed that many connections.
    pub async fn closed(&self, connections: usize) {
        self.shared.wait_until(|state| state.closed >= connections).await;
    }

    /// Blocks until clients closed that many connections.
    ///
    /// # Panics
    ///
    /// After one minute.
    pub fn wait_closed(&self, connections: usize) {
        self.shared.block_until("closed connections", |state| state.closed >= connections);
    }
}

impl Drop for LocalProvider {
    fn drop(&mut self) {
        self.shared.is_over.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        self.changes.send_replace(());
        result
    }

    async fn wait_until(&self, is_met: impl Fn(&State) -> bool) {
        let mut changes = self.changes.subscribe();
        while !is_met(&self.state()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn block_until(&self, what: &str, is_met: impl Fn(&State) -> bool) {
        let since = Instant::now();
        let mut state = self.state();
        while !is_met(&state) {
            let remaining = BLOCK_LIMIT.saturating_sub(since.elapsed());
            assert!(!remaining.is_zero(), "the provider waited one minute for {what}");
            let guard = self.changed.wait_timeout(state, remaining);
            state = guard.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
