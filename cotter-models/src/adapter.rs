//! `HttpModel`: one provider's model behind the `Model` trait. It sends the bytes that its dialect
//! writes and streams the deltas that its dialect reads. Everything that all dialects share is
//! here.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cotter::{
    history::message::Usage,
    model::{Delta, Model, ModelError, ModelErrorKind, ReplyStream, Request, tools::ToolList},
};
use futures_util::{Stream, StreamExt, stream};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue},
};
use smol_str::SmolStr;
use sse_stream::SseByteStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    body::Body,
    catalog::ModelFacts,
    failure,
    http::{Http, HttpAnswer, HttpCall, header},
    key::ApiKey,
    plain,
    providers::ApiFormat,
};

/// After the last delta, how long to wait for the end of the response body. A body read to its end
/// lets the connection be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// The longest a reply may send no delta, only pings. Thinking that the provider does not show
/// arrives as pings.
const SILENCE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A name that no model has.
const NO_MODEL: &str = "\0";

/// The format of one provider: pure functions from a request to bytes and from events to deltas.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The path after the base address.
    fn path(&self) -> &'static str;

    /// Adds the headers that the provider needs besides the key.
    fn headers(&self, headers: &mut HeaderMap, request: &Request) {
        let _ = (headers, request);
    }

    /// The body of the request.
    fn body(&self, request: &Request) -> Body;

    /// The body up to the end of the conversation, without cache marks. The next request repeats
    /// these bytes.
    fn prefix(&self, request: &Request) -> Body;

    /// A reader for one reply.
    fn reader(&self) -> Box<dyn Reader>;
}

/// Reads one reply, event by event.
pub(crate) trait Reader: Send {
    /// Reads an event: its name, if it has one, and its data. Deltas go to `out`. `Done` ends the
    /// reply; nothing is read after it.
    fn event(&mut self, name: Option<&str>, data: &str, out: &mut Out) -> Result<(), ReadError>;

    /// The body ended without an event that ends the reply. A reader that has enough pushes `Done`
    /// itself.
    fn end(&mut self, out: &mut Out) -> Result<(), ReadError> {
        let _ = out;
        Ok(())
    }
}

/// Deltas that wait to be passed to the loop.
pub(crate) type Out = VecDeque<Delta>;

/// Why a reply cannot be read further.
pub(crate) enum ReadError {
    /// The provider reports an error.
    Provider(failure::ProviderError),
    /// The data does not match the provider's format.
    Format(String),
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        ReadError::Format(error.to_string())
    }
}

/// A model over HTTP.
#[derive(Clone)]
pub struct HttpModel(Arc<Inner>);

struct Inner {
    name: SmolStr,
    speaks: ApiFormat,
    url: String,
    key: Option<ApiKey>,
    http: Http,
    facts: ModelFacts,
    dialects: DialectPair,
    /// Set once the provider refused earlier thoughts: they are sealed for another account, or it
    /// does not know the signature. From then on thoughts are not sent.
    drop_thoughts: AtomicBool,
}

/// Two dialects of one model: with thoughts and without.
pub(crate) struct DialectPair {
    dialect: Box<dyn Dialect>,
    /// Treats every reply as another model's, so it sends no thoughts.
    without_thoughts: Box<dyn Dialect>,
}

impl DialectPair {
    /// Both dialects of the model `name`.
    pub(crate) fn of<D: Dialect>(name: &SmolStr, dialect: impl Fn(SmolStr) -> D) -> Self {
        let without_thoughts = Box::new(dialect(SmolStr::new_static(NO_MODEL)));
        DialectPair { dialect: Box::new(dialect(name.clone())), without_thoughts }
    }
}

impl HttpModel {
    pub(crate) fn new(
        name: SmolStr,
        speaks: ApiFormat,
        base_url: &str,
        key: Option<ApiKey>,
        http: Http,
        facts: ModelFacts,
        dialects: DialectPair,
    ) -> Self {
        let url = format!("{}/{}", base_url.trim_end_matches('/'), dialects.dialect.path());
        HttpModel(Arc::new(Inner {
            name,
            speaks,
            url,
            key,
            http,
            facts,
            dialects,
            drop_thoughts: AtomicBool::new(false),
        }))
    }

    /// The body of a request, byte for byte as it would be sent.
    pub fn body(&self, request: &Request) -> Vec<u8> {
        self.dialect(self.thought_policy()).body(request).joined()
    }

    /// The length of the body in bytes. Nothing is copied: the bytes of earlier messages are cached
    /// with the messages.
    pub fn body_length(&self, request: &Request) -> u64 {
        self.dialect(self.thought_policy()).body(request).len()
    }
}

impl Model for HttpModel {
    fn name(&self) -> &SmolStr {
        &self.0.name
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let sending = self.clone().send(request);
        Box::pin(
            stream::once(sending)
                .map(|result| match result {
                    Ok(reply) => reply.left_stream(),
                    Err(error) => stream::iter([Err(error)]).right_stream(),
                })
                .flatten(),
        )
    }

    fn context_window(&self) -> Option<u64> {
        self.0.facts.context_window
    }

    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        self.0.facts.cost_usd(usage)
    }

    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        let dialect = self.dialect(self.thought_policy());
        dialect.prefix(before).breaks_at(dialect.prefix(now))
    }
}

impl HttpModel {
    async fn send(
        self,
        request: Request,
    ) -> Result<impl Stream<Item = Result<Delta, ModelError>> + Send, ModelError> {
        let thought_policy = self.thought_policy();
        let dialect = self.dialect(thought_policy);
        let Inner { speaks, url, key, http, .. } = &*self.0;
        let mut headers = speaks.request_headers(key.as_ref())?;
        header(&mut headers, "content-type", HeaderValue::from_static("application/json"));
        header(&mut headers, "accept", HeaderValue::from_static("text/event-stream"));
        dialect.headers(&mut headers, &request);
        let body = dialect.body(&request);
        // Drop the messages now: the reply must not keep the conversation alive.
        let tools = request.tools;
        drop(request.messages);
        let answer = http.post(HttpCall { url: url.clone(), headers, body }).await;
        let answer = answer.map_err(|error| self.name_provider(error))?;
        if answer.status != 200 {
            return Err(self.retry_without_thoughts(
                failure::of_answer(answer, key.as_ref()).await,
                thought_policy,
            ));
        }
        check_is_stream(&answer, key.as_ref())?;
        let reply = ReplyReader {
            key: key.clone(),
            tools,
            reader: dialect.reader(),
            events: SseByteStream::new(answer.body),
            out: VecDeque::new(),
            is_over: false,
            last_delta: Instant::now(),
        };
        Ok(reply.stream())
    }
}

/// Whether the thoughts of earlier replies are sent.
#[derive(Clone, Copy, PartialEq)]
enum ThoughtPolicy {
    WithThoughts,
    WithoutThoughts,
}

impl HttpModel {
    fn thought_policy(&self) -> ThoughtPolicy {
        match self.0.drop_thoughts.load(Ordering::Relaxed) {
            true => ThoughtPolicy::WithoutThoughts,
            false => ThoughtPolicy::WithThoughts,
        }
    }

    fn dialect(&self, thought_policy: ThoughtPolicy) -> &dyn Dialect {
        let DialectPair { dialect, without_thoughts } = &self.0.dialects;
        match thought_policy {
            ThoughtPolicy::WithThoughts => &**dialect,
            ThoughtPolicy::WithoutThoughts => &**without_thoughts,
        }
    }

    /// Adds the model's name and address to a network error or timeout.
    fn name_provider(&self, error: ModelError) -> ModelError {
        if !matches!(error.kind, ModelErrorKind::Network | ModelErrorKind::Timeout) {
            return error;
        }
        let Inner { name, url, .. } = &*self.0;
        let origin = Url::parse(url).map(|url| url.origin().ascii_serialization());
        let address = origin.unwrap_or_else(|_| "its address".into());
        ModelError { message: format!("{name} at {address}: {}", error.message), ..error }
    }

    /// Makes an error about rejected thoughts retryable, and drops thoughts from the next request
    /// on. Other errors pass unchanged.
    fn retry_without_thoughts(&self, error: ModelError, sent: ThoughtPolicy) -> ModelError {
        if sent == ThoughtPolicy::WithoutThoughts || !failure::is_about_thoughts(&error.message) {
            return error;
        }
        self.0.drop_thoughts.store(true, Ordering::Relaxed);
        let (kind, retry_after) = (ModelErrorKind::Overloaded, Some(Duration::ZERO));
        ModelError { kind, retry_after, ..error }
    }
}

/// Fails if the response is not an event stream: it then comes from a login page or a proxy, not
/// from the provider.
fn check_is_stream(answer: &HttpAnswer, key: Option<&ApiKey>) -> Result<(), ModelError> {
    let kind = answer.header("content-type").unwrap_or("text/event-stream");
    let media_type = kind.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("text/event-stream") {
        return Ok(());
    }
    let kind = failure::clean_message(kind, key, "nothing");
    let message = format!("expected a stream of events, found `{kind}`; is the address right?");
    Err(ModelError::new(ModelErrorKind::BadRequest, message))
}

/// A reply while it is being read.
struct ReplyReader<S: futures_util::TryStream> {
    key: Option<ApiKey>,
    /// The tools the model was shown.
    tools: Arc<ToolList>,
    reader: Box<dyn Reader>,
    events: SseByteStream<S>,
    out: Out,
    /// The reply is complete, or it failed.
    is_over: bool,
    /// When the last delta was passed on.
    last_delta: Instant,
}

impl<S> ReplyReader<S>
where
    S: Stream<Item = Result<bytes::Bytes, ModelError>> + Send + Unpin + 'static,
{
    fn stream(self) -> impl Stream<Item = Result<Delta, ModelError>> + Send {
        stream::unfold(self, |mut reply| async move {
            loop {
                if let Some(delta) = reply.out.pop_front() {
                    reply.last_delta = Instant::now();
                    let delta = reply.pass_on(delta).await;
                    return Some((Ok(delta), reply));
                }
                if reply.is_over {
                    return None;
                }
                if let Err(error) = reply.read_event().await {
                    reply.is_over = true;
                    return Some((Err(error), reply));
                }
            }
        })
    }

    /// Prepares a delta for the loop: restores the tool's own name. At `Done` it also reads the
    /// rest of the body.
    async fn pass_on(&mut self, delta: Delta) -> Delta {
        match delta {
            Delta::Call { id, name, input } => {
                let name = plain::own_name(name, &self.tools);
                Delta::Call { id, name, input }
            }
            done @ Delta::Done { .. } => {
                self.out.clear();
                self.is_over = true;
                let rest = async { while self.events.next().await.is_some() {} };
                let _ = timeout(DRAIN_TIMEOUT, rest).await;
                done
            }
            delta => delta,
        }
    }

    /// Reads the next event.
    async fn read_event(&mut self) -> Result<(), ModelError> {
        let next = timeout_at(self.last_delta + SILENCE_LIMIT, self.events.next()).await;
        let next = next.map_err(|_| {
            let message = format!("the reply made no progress for {SILENCE_LIMIT:?}");
            ModelError::new(ModelErrorKind::Timeout, message)
        })?;
        let read = match next {
            Some(Ok(event)) => match event.data {
                Some(data) => self.reader.event(event.event.as_deref(), &data, &mut self.out),
                None => Ok(()),
            },
            Some(Err(sse_stream::Error::Body(cause))) => {
                return Err(match cause.downcast::<ModelError>() {
                    Ok(error) => *error,
                    Err(cause) => ModelError::new(ModelErrorKind::Network, cause.to_string()),
                });
            }
            Some(Err(cause)) => Err(ReadError::Format(cause.to_string())),
            None => {
                self.is_over = true;
                self.reader.end(&mut self.out)
            }
        };
        read.map_err(|error| match error {
            ReadError::Provider(error) => error.within_stream(self.key.as_ref()),
            ReadError::Format(why) => {
                let why = failure::clean_message(&why, self.key.as_ref(), "");
                // Invalid data may be a cut connection. Report a network error, so that the request
                // is tried again.
                ModelError::new(ModelErrorKind::Network, format!("cannot read the reply: {why}"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct IgnoreEvents;

    impl Reader for IgnoreEvents {
        fn event(&mut self, _: Option<&str>, _: &str, _: &mut Out) -> Result<(), ReadError> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reply_that_only_pings_times_out() {
        let pings = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Some((Ok(bytes::Bytes::from_static(b"event: ping\ndata: {}\n\n")), ()))
        });
        let reply = ReplyReader {
            key: None,
            tools: Arc::default(),
            reader: Box::new(IgnoreEvents),
            events: SseByteStream::new(pings.boxed()),
            out: VecDeque::new(),
            is_over: false,
            last_delta: Instant::now(),
        };
        let all: Vec<_> = reply.stream().collect().await;
        let error =
            ModelError::new(ModelErrorKind::Timeout, "the reply made no progress for 1800s");
        assert_eq!(all, [Err(error)]);
    }
}
