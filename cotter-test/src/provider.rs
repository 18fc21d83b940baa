//! A provider on this machine: it speaks a real provider's format on a loopback port, says what it was
//! told to say, and fails when it was told to fail. Requests are checked as the real one checks them,
//! answered in its words where they are wrong, and kept for whoever wants to look.
//!
//! It has a thread of its own, so blocking tests and other processes can use it. It ends when it is
//! dropped.
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream};
//! use cotter_test::{Answer, Dialect, LocalProvider};
//!
//! let provider = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Hello there.")]);
//!
//! // Whoever speaks the format may ask; mostly that is a model with `provider.url()` as its address.
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
    check::Refused,
};

/// How long somebody who blocks waits for what a test says must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a local provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Chat Completions. What a model thinks goes as `reasoning_content`, as others do who
    /// speak it.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
}

impl Dialect {
    /// All of them.
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

/// One provider's format, both ways.
trait Wire: Sync {
    /// What a base address ends with.
    fn base(&self) -> &'static str;

    /// What follows it.
    fn path(&self) -> &'static str;

    /// What is wrong with the head of a request, or with its key.
    fn check_head(&self, request: &Received, keys: &Keys) -> Result<(), Refused>;

    /// What is wrong with its body, as far as what was said before has to do with it.
    fn check(&self, request: &Received, body: &Value, told: &[Told]) -> Result<(), Refused>;

    /// A reply as events.
    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> Rendered;

    /// The body of a refusal.
    fn refusal(&self, refused: &Refused) -> Value;

    /// What goes with a status that a script asks for.
    fn failure(&self, status: u16) -> Refused;

    /// Something to say while there is nothing to say.
    fn ping(&self) -> String;

    /// A list of models.
    fn models(&self, names: &[String]) -> Value;
}

/// What a reply is an answer to.
struct Turn<'r> {
    /// Which answer it is, from 1.
    number: usize,
    request: &'r Value,
}

impl Turn<'_> {
    fn model(&self) -> &str {
        self.request["model"].as_str().unwrap_or_default()
    }
}

/// Events as text: what is said, and what says that this was all.
struct Rendered {
    said: Vec<String>,
    end: Vec<String>,
}

/// An event with a name.
fn named_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// An event without one.
fn plain_event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// What stands for a provider's signature: whoever changes the text has another one.
fn seal(kind: &str, text: &str) -> String {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{kind}{sum:016x}==")
}

/// A request as it came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received {
    /// `POST`, mostly.
    pub method: String,
    /// The path, with what follows a question mark.
    pub path: String,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// On which connection it came, counted from 1.
    pub connection: usize,
    /// Why it was not answered by the script, where it was not.
    pub refused: Option<String>,
}

impl Received {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Whose requests are answered.
#[derive(Clone, Debug, Default)]
enum Keys {
    /// Whoever has any key.
    #[default]
    Any,
    /// Everybody.
    None,
    /// Whoever has this one.
    Only(String),
}

impl Keys {
    fn admit(&self, key: Option<&str>) -> bool {
        match self {
            Keys::None => true,
            Keys::Any => key.is_some_and(|key| !key.trim().is_empty()),
            Keys::Only(known) => key == Some(known),
        }
    }
}

/// What a reply said that has to come back as it was.
struct Told {
    model: String,
    calls: Vec<String>,
    thoughts: Vec<Thought>,
}

type Script = Box<dyn FnMut(&Received) -> Option<Answer> + Send>;

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
    /// For those who block until something happens.
    changed: Condvar,
    /// For those who await it.
    news: watch::Sender<()>,
    is_released: watch::Sender<bool>,
    is_over: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    requests: Vec<Received>,
    /// Answers that were taken from the script.
    answers: usize,
    connections: usize,
    /// Connections that whoever made them has closed.
    closed: usize,
    told: Vec<Told>,
    keys: Keys,
    is_unchecked: bool,
    models: Vec<String>,
}

impl LocalProvider {
    /// A provider that gives these answers, one per request, in this order. A request that is refused
    /// takes none; one too many is refused.
    ///
    /// # Panics
    ///
    /// Where this machine has no loopback port to give.
    pub fn start(dialect: Dialect, answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers = answers.into_iter().collect::<Vec<_>>().into_iter();
        Self::begin(dialect, Box::new(move |_| answers.next()))
    }

    /// A provider whose answers depend on what it is asked. The function runs on the provider's own
    /// thread, for requests that are well made.
    ///
    /// # Panics
    ///
    /// Where this machine has no loopback port to give.
    pub fn start_with(
        dialect: Dialect,
        mut answer: impl FnMut(&Received) -> Answer + Send + 'static,
    ) -> Self {
        Self::begin(dialect, Box::new(move |request| Some(answer(request))))
    }

    fn begin(dialect: Dialect, script: Script) -> Self {
        let shared = Arc::new(Shared {
            dialect,
            state: Mutex::new(State { models: vec!["local".into()], ..State::default() }),
            script: Mutex::new(script),
            changed: Condvar::new(),
            news: watch::Sender::default(),
            is_released: watch::Sender::new(false),
            is_over: watch::Sender::new(false),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let serving = shared.clone();
        let thread = std::thread::spawn(move || serve::run(listener, serving));
        LocalProvider { dialect, address, shared, thread: Some(thread) }
    }

    /// The same for whoever has this key. Without, any key will do.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        self.shared.state().keys = Keys::Only(key.into());
        self
    }

    /// The same for everybody, with a key or without.
    pub fn without_key(self) -> Self {
        self.shared.state().keys = Keys::None;
        self
    }

    /// The same, taking whatever it is sent: there are compatible providers with fields of their own.
    pub fn unchecked(self) -> Self {
        self.shared.state().is_unchecked = true;
        self
    }

    /// The same with these models in its list.
    pub fn with_models(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.shared.state().models = names.into_iter().map(Into::into).collect();
        self
    }

    /// What it speaks.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The base address, as programs are given one.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.dialect.wire().base())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, once its body was there.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.state().requests.clone()
    }

    /// Why requests were refused, in order. Empty after a run in which all was well.
    pub fn refusals(&self) -> Vec<String> {
        let state = self.shared.state();
        state.requests.iter().filter_map(|request| request.refused.clone()).collect()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Lets every answer that hangs go on, those to come as well.
    pub fn release(&self) {
        self.shared.is_released.send_replace(true);
    }

    /// Waits until so many requests have come.
    pub async fn received(&self, requests: usize) {
        self.shared.until(|state| state.requests.len() >= requests).await;
    }

    /// Blocks until so many requests have come.
    ///
    /// # Panics
    ///
    /// After a minute in vain.
    pub fn wait_received(&self, requests: usize) {
        self.shared.block_until("requests", |state| state.requests.len() >= requests);
    }

    /// Waits until so many connections were closed by those who made them.
    pub async fn closed(&self, connections: usize) {
        self.shared.until(|state| state.closed >= connections).await;
    }

    /// Blocks until so many connections were closed by those who made them.
    ///
    /// # Panics
    ///
    /// After a minute in vain.
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
        let made = change(&mut self.state());
        self.changed.notify_all();
        self.news.send_replace(());
        made
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        let mut news = self.news.subscribe();
        while !is_so(&self.state()) {
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    fn block_until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let since = Instant::now();
        let mut state = self.state();
        while !is_so(&state) {
            let left = PATIENCE.saturating_sub(since.elapsed());
            assert!(!left.is_zero(), "the provider waited in vain for {what}");
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
