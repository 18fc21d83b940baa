//! One provider's model behind the trait: sends what its dialect writes and streams what its dialect
//! reads. Everything that is the same for all of them is here, once.

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
    catalog::Known,
    failure,
    http::{Http, HttpAnswer, HttpCall, header},
    key::ApiKey,
    plain,
    providers::Speaks,
};

/// How long the end of an answer is waited for once all of it was said, so that its connection can be
/// used again.
const LAST_WORD: Duration = Duration::from_millis(50);
/// The longest an answer may say nothing but that it is still there. Thinking that is not shown is
/// heard as no more than that.
const NO_WORD: Duration = Duration::from_secs(30 * 60);

/// A name that no model has.
const NOBODY: &str = "\0";

/// What one provider's format is: pure functions from a request to bytes and from events to pieces of
/// a reply.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// What follows the base address.
    fn path(&self) -> &'static str;

    /// What the provider wants in the head of a request besides the key.
    fn headers(&self, headers: &mut HeaderMap, request: &Request) {
        let _ = (headers, request);
    }

    /// The request.
    fn body(&self, request: &Request) -> Body;

    /// The request up to the end of its conversation, without cache marks: what the next one repeats.
    fn prefix(&self, request: &Request) -> Body;

    /// What reads the answer.
    fn reader(&self) -> Box<dyn Reader>;
}

/// Reads one answer, event by event.
pub(crate) trait Reader: Send {
    /// An event: its name, where it has one, and its data. Pieces go to `out`. `Done` ends the reply;
    /// nothing is read after it.
    fn event(&mut self, name: Option<&str>, data: &str, out: &mut Out) -> Result<(), ReadError>;

    /// The answer ended, and no event said so. A reader that has heard enough gives the end all the
    /// same.
    fn end(&mut self, out: &mut Out) -> Result<(), ReadError> {
        let _ = out;
        Ok(())
    }
}

/// Pieces of a reply on their way to the loop.
pub(crate) type Out = VecDeque<Delta>;

/// Why an answer cannot be read on.
pub(crate) enum ReadError {
    /// The provider says so.
    Said(failure::ProviderError),
    /// It is not what the provider's format is.
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
    speaks: Speaks,
    url: String,
    key: Option<ApiKey>,
    http: Http,
    known: Known,
    dialects: DialectPair,
    /// The provider refused what was thought before: a key of another account, a signature it does not
    /// know. From then on it is not sent.
    forgets: AtomicBool,
}

/// The dialect of a model, twice.
pub(crate) struct DialectPair {
    dialect: Box<dyn Dialect>,
    /// The one that takes every reply for another model's, so that it sends no thoughts.
    forgetful: Box<dyn Dialect>,
}

impl DialectPair {
    /// The dialects of a model of that name.
    pub(crate) fn of<D: Dialect>(name: &SmolStr, dialect: impl Fn(SmolStr) -> D) -> Self {
        let forgetful = Box::new(dialect(SmolStr::new_static(NOBODY)));
        DialectPair { dialect: Box::new(dialect(name.clone())), forgetful }
    }
}

impl HttpModel {
    pub(crate) fn new(
        name: SmolStr,
        speaks: Speaks,
        base_url: &str,
        key: Option<ApiKey>,
        http: Http,
        known: Known,
        dialects: DialectPair,
    ) -> Self {
        let url = format!("{}/{}", base_url.trim_end_matches('/'), dialects.dialect.path());
        HttpModel(Arc::new(Inner {
            name,
            speaks,
            url,
            key,
            http,
            known,
            dialects,
            forgets: AtomicBool::new(false),
        }))
    }

    /// The body of a request, as it would be sent.
    pub fn body(&self, request: &Request) -> Vec<u8> {
        self.dialect(self.memory()).body(request).joined()
    }

    /// How many bytes it has. Nothing is copied for it: what was written of a long conversation before
    /// is kept with its messages.
    pub fn body_length(&self, request: &Request) -> u64 {
        self.dialect(self.memory()).body(request).len()
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
                .map(|sent| match sent {
                    Ok(heard) => heard.left_stream(),
                    Err(error) => stream::iter([Err(error)]).right_stream(),
                })
                .flatten(),
        )
    }

    fn context_window(&self) -> Option<u64> {
        self.0.known.context_window
    }

    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        self.0.known.cost_usd(usage)
    }

    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        let dialect = self.dialect(self.memory());
        dialect.prefix(before).breaks_at(dialect.prefix(now))
    }
}

impl HttpModel {
    async fn send(
        self,
        request: Request,
    ) -> Result<impl Stream<Item = Result<Delta, ModelError>> + Send, ModelError> {
        let memory = self.memory();
        let dialect = self.dialect(memory);
        let Inner { speaks, url, key, http, .. } = &*self.0;
        let mut headers = speaks.authorized(key.as_ref())?;
        header(&mut headers, "content-type", HeaderValue::from_static("application/json"));
        header(&mut headers, "accept", HeaderValue::from_static("text/event-stream"));
        dialect.headers(&mut headers, &request);
        let body = dialect.body(&request);
        // The conversation is not kept alive by its answer.
        let tools = request.tools;
        drop(request.messages);
        let answer = http.post(HttpCall { url: url.clone(), headers, body }).await;
        let answer = answer.map_err(|error| self.unheard(error))?;
        if answer.status != 200 {
            return Err(self.refused(failure::of_answer(answer, key.as_ref()).await, memory));
        }
        check_is_stream(&answer, key.as_ref())?;
        let heard = ReplyReader {
            key: key.clone(),
            tools,
            reader: dialect.reader(),
            events: SseByteStream::new(answer.body),
            out: VecDeque::new(),
            is_over: false,
            last_word: Instant::now(),
        };
        Ok(heard.stream())
    }
}

/// Whether what was thought before is sent.
#[derive(Clone, Copy, PartialEq)]
enum ThoughtPolicy {
    Whole,
    WithoutThoughts,
}

impl HttpModel {
    fn memory(&self) -> ThoughtPolicy {
        match self.0.forgets.load(Ordering::Relaxed) {
            true => ThoughtPolicy::WithoutThoughts,
            false => ThoughtPolicy::Whole,
        }
    }

    fn dialect(&self, memory: ThoughtPolicy) -> &dyn Dialect {
        let DialectPair { dialect, forgetful } = &self.0.dialects;
        match memory {
            ThoughtPolicy::Whole => &**dialect,
            ThoughtPolicy::WithoutThoughts => &**forgetful,
        }
    }

    /// A failure on the way, with the name of who was asked and where.
    fn unheard(&self, error: ModelError) -> ModelError {
        if !matches!(error.kind, ModelErrorKind::Network | ModelErrorKind::Timeout) {
            return error;
        }
        let Inner { name, url, .. } = &*self.0;
        let whole = Url::parse(url).map(|url| url.origin().ascii_serialization());
        let place = whole.unwrap_or_else(|_| "its address".into());
        ModelError { message: format!("{name} at {place}: {}", error.message), ..error }
    }

    /// A failure, which passes when it is about thoughts that were sent and need not be.
    fn refused(&self, error: ModelError, sent: ThoughtPolicy) -> ModelError {
        if sent == ThoughtPolicy::WithoutThoughts || !failure::is_about_thoughts(&error.message) {
            return error;
        }
        self.0.forgets.store(true, Ordering::Relaxed);
        let (kind, retry_after) = (ModelErrorKind::Overloaded, Some(Duration::ZERO));
        ModelError { kind, retry_after, ..error }
    }
}

/// An answer that is something else was given by somebody else: a login page, a proxy.
fn check_is_stream(answer: &HttpAnswer, key: Option<&ApiKey>) -> Result<(), ModelError> {
    let kind = answer.header("content-type").unwrap_or("text/event-stream");
    let media_type = kind.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("text/event-stream") {
        return Ok(());
    }
    let kind = failure::shown(kind, key, "nothing");
    let message = format!("expected a stream of events, found `{kind}`; is the address right?");
    Err(ModelError::new(ModelErrorKind::BadRequest, message))
}

/// An answer as it comes.
struct ReplyReader<S: futures_util::TryStream> {
    key: Option<ApiKey>,
    /// What the model was shown.
    tools: Arc<ToolList>,
    reader: Box<dyn Reader>,
    events: SseByteStream<S>,
    out: Out,
    /// All was said, or nothing more can be.
    is_over: bool,
    /// When something was said last.
    last_word: Instant,
}

impl<S> ReplyReader<S>
where
    S: Stream<Item = Result<bytes::Bytes, ModelError>> + Send + Unpin + 'static,
{
    fn stream(self) -> impl Stream<Item = Result<Delta, ModelError>> + Send {
        stream::unfold(self, |mut heard| async move {
            loop {
                if let Some(delta) = heard.out.pop_front() {
                    heard.last_word = Instant::now();
                    let delta = heard.given(delta).await;
                    return Some((Ok(delta), heard));
                }
                if heard.is_over {
                    return None;
                }
                if let Err(error) = heard.hear().await {
                    heard.is_over = true;
                    return Some((Err(error), heard));
                }
            }
        })
    }

    /// A piece on its way out. After the end, what is left of the answer is heard out.
    async fn given(&mut self, delta: Delta) -> Delta {
        match delta {
            Delta::Call { id, name, input } => {
                let name = plain::own_name(name, &self.tools);
                Delta::Call { id, name, input }
            }
            done @ Delta::Done { .. } => {
                self.out.clear();
                self.is_over = true;
                let rest = async { while self.events.next().await.is_some() {} };
                let _ = timeout(LAST_WORD, rest).await;
                done
            }
            delta => delta,
        }
    }

    /// Takes the next event.
    async fn hear(&mut self) -> Result<(), ModelError> {
        let next = timeout_at(self.last_word + NO_WORD, self.events.next()).await;
        let next = next.map_err(|_| {
            let message = format!("nothing was said for {NO_WORD:?}");
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
        read.map_err(|broken| match broken {
            ReadError::Said(said) => said.within_stream(self.key.as_ref()),
            ReadError::Format(why) => {
                let why = failure::shown(&why, self.key.as_ref(), "");
                // Half a piece may be the line's fault: it may come whole the next time.
                ModelError::new(
                    ModelErrorKind::Network,
                    format!("the answer cannot be read: {why}"),
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Deaf;

    impl Reader for Deaf {
        fn event(&mut self, _: Option<&str>, _: &str, _: &mut Out) -> Result<(), ReadError> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_only_says_that_it_is_there_ends() {
        let pings = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Some((Ok(bytes::Bytes::from_static(b"event: ping\ndata: {}\n\n")), ()))
        });
        let heard = ReplyReader {
            key: None,
            tools: Arc::default(),
            reader: Box::new(Deaf),
            events: SseByteStream::new(pings.boxed()),
            out: VecDeque::new(),
            is_over: false,
            last_word: Instant::now(),
        };
        let all: Vec<_> = heard.stream().collect().await;
        let error = ModelError::new(ModelErrorKind::Timeout, "nothing was said for 1800s");
        assert_eq!(all, [Err(error)]);
    }
}
