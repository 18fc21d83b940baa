//! The model trait, requests and replies. [`tools`] holds the tool specs of a request. An adapter sends one
//! request and streams one reply; the loop does retries, fallback and recording.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, history::message::{StopReason, Usage}};
//! use cotter::model::{Delta, Model, Request, ReplyStream};
//! use futures_util::stream;
//! use smol_str::SmolStr;
//!
//! /// Repeats the last message.
//! struct Echo(SmolStr);
//!
//! impl Model for Echo {
//!     fn name(&self) -> &SmolStr {
//!         &self.0
//!     }
//!
//!     fn stream(&self, request: Request) -> ReplyStream {
//!         let last = request.messages.last().map(|message| message.text().into_owned());
//!         let done = Delta::Done { stop_reason: StopReason::EndTurn, usage: Usage::default() };
//!         Box::pin(stream::iter([Ok(Delta::Text(last.unwrap_or_default())), Ok(done)]))
//!     }
//! }
//!
//! let agent = Agent::builder(Echo("local/echo".into())).build()?;
//! assert_eq!(agent.process_request("Hello?").await?.text(), "Hello?");
//! # Ok(())
//! # }
//! ```

pub mod tools;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use futures_core::Stream;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    history::{
        message::{StopReason, Usage},
        message_list::MessageList,
    },
    model::tools::ToolList,
    text,
};

/// The stream of a model's reply.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// A model.
///
/// `stream` is called once per attempt and returns at once; the work happens while the stream is polled.
/// Dropping the stream aborts the request. A reply ends with [`Delta::Done`]; a stream that ends without it
/// is a network error. Adapters do not retry: they return error kinds.
pub trait Model: Send + Sync + 'static {
    /// `provider/model`.
    fn name(&self) -> &SmolStr;

    /// Sends a request.
    fn stream(&self, request: Request) -> ReplyStream;

    /// The number of tokens a conversation may have, if known. Near this limit the loop compacts the
    /// conversation.
    fn context_window(&self) -> Option<u64> {
        None
    }

    /// The cost of a reply with that usage, if the price is known. A run with a budget in dollars sends no
    /// request to a model without a price.
    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        let _ = usage;
        None
    }

    /// The offset of the first byte at which the body of `now` no longer continues the body of `before`.
    /// From that byte on the provider's cache is useless. Called only if the requests differ; `None` if the
    /// offset is not known.
    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        let _ = (before, now);
        None
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &SmolStr {
        (**self).name()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        (**self).stream(request)
    }

    fn context_window(&self) -> Option<u64> {
        (**self).context_window()
    }

    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        (**self).cost_usd(usage)
    }

    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        (**self).break_at(before, now)
    }
}

/// The available models by name, and their API keys. `find_model`, `available_models` and `resolve_api_key`
/// use it, and so does every model that is given by name.
///
/// The embedder supplies the directory; the library does not look for models. Every method is called on
/// demand, returns at once and sends nothing.
pub trait ModelDirectory: Send + Sync + 'static {
    /// Returns the model of that name, or an error.
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError>;

    /// Lists the models that can be used.
    fn available(&self) -> Vec<ModelInfo>;

    /// The API key for requests to a provider, if there is one.
    fn api_key(&self, provider: &str) -> Option<String>;
}

/// The empty directory: it knows no models.
impl ModelDirectory for () {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let name = text::cut_chars(&text::show_line(name), 80).into_owned();
        let message = format!("model `{name}` not found");
        Err(ModelError::new(ModelErrorKind::BadRequest, message))
    }

    fn available(&self) -> Vec<ModelInfo> {
        vec![]
    }

    fn api_key(&self, _: &str) -> Option<String> {
        None
    }
}

/// The description of a model for lists.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// `provider/model`.
    pub name: SmolStr,
    /// The number of tokens a conversation may have.
    pub context_window: Option<u64>,
    /// The number of tokens a reply may have.
    pub max_output: Option<u64>,
    /// The price per million tokens.
    pub price: Option<Price>,
}

impl ModelInfo {
    /// Creates the description of a model of which only the name is known.
    pub fn new(name: impl Into<SmolStr>) -> Self {
        ModelInfo { name: name.into(), ..ModelInfo::default() }
    }
}

/// The price per million tokens, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Tokens read from the provider's cache.
    pub cache_read: f64,
    /// Tokens written to the provider's cache.
    pub cache_write: f64,
}

impl Price {
    /// Returns the cost of that usage in dollars.
    #[expect(clippy::cast_precision_loss, reason = "tokens of a reply, for a sum of money")]
    pub fn of(&self, usage: &Usage) -> f64 {
        let Usage { input_tokens, output_tokens, cache_read, cache_write } = *usage;
        let base = input_tokens as f64 * self.input + output_tokens as f64 * self.output;
        let cached = cache_read as f64 * self.cache_read + cache_write as f64 * self.cache_write;
        (base + cached) / 1e6
    }
}

/// A request to a model. A clone copies no messages.
#[derive(Clone, Debug)]
pub struct Request {
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The conversation.
    pub messages: MessageList,
    /// The number of messages at the end that are notes of this request. A cache mark belongs before them.
    pub notes: usize,
    /// The tools that may be called.
    pub tools: Arc<ToolList>,
    /// The thinking level.
    pub thinking: Thinking,
    /// The most tokens of the reply, if there is a limit.
    pub max_tokens: Option<u32>,
}

/// The amount of thinking before the model replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Thinking {
    /// No thinking.
    #[default]
    Off,
    /// As little thinking as the model supports.
    Minimal,
    /// A little thinking.
    Low,
    /// Some thinking.
    Medium,
    /// A lot of thinking.
    High,
}

impl Thinking {
    const WORDS: [(Thinking, &'static str); 5] = [
        (Thinking::Off, "off"),
        (Thinking::Minimal, "minimal"),
        (Thinking::Low, "low"),
        (Thinking::Medium, "medium"),
        (Thinking::High, "high"),
    ];

    /// The level's word in files.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(level, _)| *level == self).map_or("off", |(_, word)| word)
    }

    /// Parses a level's word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(level, _)| *level)
    }
}

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// The provider's signature over the thinking before it; it ends that thinking. Without earlier
    /// thinking it represents thinking that is not shown. An empty signature is ignored. Only the adapter
    /// that produced a signature understands it.
    Signature(String),
    /// The usage so far, if a provider reports it before the end. Each report replaces the one before. The
    /// last report counts even if the reply breaks off.
    Usage(Usage),
    /// A complete tool call.
    Call {
        /// The provider's id; empty if the provider gives none.
        id: SmolStr,
        /// The tool's name.
        name: SmolStr,
        /// The input; a string if it could not be parsed.
        input: Value,
    },
    /// The end of the reply.
    Done {
        /// The reason.
        stop_reason: StopReason,
        /// The tokens used.
        usage: Usage,
    },
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The kind of error, which decides what the loop does next.
    pub kind: ModelErrorKind,
    /// The message.
    pub message: String,
    /// The time that the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// Creates an error without `retry_after`.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError { kind, message: message.into(), retry_after: None }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

impl std::error::Error for ModelError {}

/// The kinds of error of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing or wrong.
    Auth,
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded.
    Overloaded,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The provider rejects the request as invalid.
    BadRequest,
    /// The connection failed.
    Network,
    /// The provider did not answer in time.
    Timeout,
    /// The request was aborted.
    Cancelled,
    /// Any other error.
    Other,
}

impl ModelErrorKind {
    const WORDS: [(ModelErrorKind, &'static str); 9] = [
        (ModelErrorKind::Auth, "auth"),
        (ModelErrorKind::RateLimited, "rate_limited"),
        (ModelErrorKind::Overloaded, "overloaded"),
        (ModelErrorKind::ContextOverflow, "context_overflow"),
        (ModelErrorKind::BadRequest, "bad_request"),
        (ModelErrorKind::Network, "network"),
        (ModelErrorKind::Timeout, "timeout"),
        (ModelErrorKind::Cancelled, "cancelled"),
        (ModelErrorKind::Other, "other"),
    ];

    /// The words of all kinds, for error messages.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().map(|(_, word)| *word)
    }

    /// The kind's word in files and events.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("other", |(_, word)| word)
    }

    /// Parses a kind's word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }

    /// True if the same request may succeed later.
    pub fn is_temporary(self) -> bool {
        use ModelErrorKind::{Network, Overloaded, RateLimited, Timeout};
        matches!(self, RateLimited | Overloaded | Network | Timeout)
    }
}
