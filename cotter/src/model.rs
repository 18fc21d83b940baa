//! The model behind one trait, and what a request shows it ([`tools`]). An adapter sends one request and
//! streams one reply; retries, fallback and recording are the loop's.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, history::message::{StopReason, Usage}};
//! use cotter::model::{Delta, Model, Request, ReplyStream};
//! use futures_util::stream;
//! use smol_str::SmolStr;
//!
//! /// Says again what it was told last.
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

/// The reply of a model as it comes.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// A model.
///
/// `stream` is called once per attempt and returns at once; work happens as the stream is polled.
/// Dropping the stream aborts the request. A reply ends with [`Delta::Done`]; a stream that ends
/// without it counts as a network failure. Adapters do not retry: they give error kinds.
pub trait Model: Send + Sync + 'static {
    /// `provider/model`.
    fn name(&self) -> &SmolStr;

    /// Sends a request.
    fn stream(&self, request: Request) -> ReplyStream;

    /// How many tokens a conversation with it may have, where that is known. Near the end of it the
    /// loop sums the conversation up.
    fn context_window(&self) -> Option<u64> {
        None
    }

    /// What a reply of that usage cost, where the price is known. A run with a budget in dollars sends
    /// nothing to a model that does not know its price.
    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        let _ = usage;
        None
    }

    /// The byte of the body of `now` at which it ceases to be what `before` was followed by more: from
    /// there on a provider's cache is of no use. Asked only where something differs; `None` where nobody
    /// knows.
    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        let _ = (before, now);
        None
    }
}

/// A shared model is a model.
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

/// The models there are, by name, and the keys to them: what `find_model`, `available_models` and
/// `resolve_api_key` ask, and models that are named rather than given.
///
/// Whoever builds an agent knows which there are; the library does not look. Everything here is asked
/// when somebody asks, answers at once and sends nothing.
pub trait ModelDirectory: Send + Sync + 'static {
    /// The model of that name, or why there is none.
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError>;

    /// The models that can be reached.
    fn available(&self) -> Vec<ModelInfo>;

    /// The key that requests to a provider carry, where there is one.
    fn api_key(&self, provider: &str) -> Option<String>;
}

/// Nobody but those an agent was given.
impl ModelDirectory for () {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let name = text::clip(&text::show_line(name), 80).into_owned();
        let message = format!("model `{name}` is not known here");
        Err(ModelError::new(ModelErrorKind::BadRequest, message))
    }

    fn available(&self) -> Vec<ModelInfo> {
        vec![]
    }

    fn api_key(&self, _: &str) -> Option<String> {
        None
    }
}

/// A model, as lists show it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// `provider/model`.
    pub name: SmolStr,
    /// How many tokens a conversation with it may have.
    pub context_window: Option<u64>,
    /// How many tokens a reply may have.
    pub max_output: Option<u64>,
    /// What a million tokens cost.
    pub price: Option<Price>,
}

impl ModelInfo {
    /// A model of which nothing more is known.
    pub fn new(name: impl Into<SmolStr>) -> Self {
        ModelInfo { name: name.into(), ..ModelInfo::default() }
    }
}

/// What a million tokens cost, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Tokens read.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
    /// Tokens read from the provider's cache.
    pub cache_read: f64,
    /// Tokens written to the provider's cache.
    pub cache_write: f64,
}

impl Price {
    /// What that usage costs, in dollars.
    #[expect(clippy::cast_precision_loss, reason = "tokens of a reply, for a sum of money")]
    pub fn of(&self, usage: &Usage) -> f64 {
        let Usage { input_tokens, output_tokens, cache_read, cache_write } = *usage;
        let dear = input_tokens as f64 * self.input + output_tokens as f64 * self.output;
        let kept = cache_read as f64 * self.cache_read + cache_write as f64 * self.cache_write;
        (dear + kept) / 1e6
    }
}

/// What is sent. Cloning it copies no message.
#[derive(Clone, Debug)]
pub struct Request {
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The conversation.
    pub messages: MessageList,
    /// How many messages at the end are this request's notes: a cache mark belongs before them.
    pub notes: usize,
    /// The tools that may be called.
    pub tools: Arc<ToolList>,
    /// How hard the model is to think.
    pub thinking: Thinking,
    /// The most tokens of the reply, where somebody set a limit.
    pub max_tokens: Option<u32>,
}

/// How hard a model is to think before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Thinking {
    /// Not at all.
    #[default]
    Off,
    /// As little as the model can.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
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

    /// The level of that word.
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
    /// The provider's signature over the thinking before it, which it ends. Without any before it, it
    /// stands for thinking that is not shown. An empty one says nothing. Only the adapter that gave it
    /// understands it.
    Signature(String),
    /// What was used so far, where a provider tells before the end. Each takes the place of the one
    /// before; what breaks off afterwards was paid for all the same.
    Counted(Usage),
    /// A whole tool call.
    Call {
        /// The provider's id, or empty where it gives none.
        id: SmolStr,
        /// The tool's name.
        name: SmolStr,
        /// The input; a text where it could not be parsed.
        input: Value,
    },
    /// The end.
    Done {
        /// Why.
        stop_reason: StopReason,
        /// What it used.
        usage: Usage,
    },
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// What kind of failure: what the loop goes by.
    pub kind: ModelErrorKind,
    /// The failure in words.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// A failure of some kind.
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

/// The kinds of failure of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing or wrong.
    Auth,
    /// Too many requests.
    RateLimited,
    /// The provider has too much to do.
    Overloaded,
    /// The conversation does not fit.
    ContextOverflow,
    /// The provider does not understand the request.
    BadRequest,
    /// The connection failed.
    Network,
    /// The provider took too long.
    Timeout,
    /// The request was aborted.
    Cancelled,
    /// Anything else.
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

    /// Every kind's word, for error messages.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().map(|(_, word)| *word)
    }

    /// The kind's word in files and events.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("other", |(_, word)| word)
    }

    /// The kind of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(self) -> bool {
        use ModelErrorKind::{Network, Overloaded, RateLimited, Timeout};
        matches!(self, RateLimited | Overloaded | Network | Timeout)
    }
}
