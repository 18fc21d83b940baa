//! HTTP connections to providers. They are shared, built when first needed, and use TLS only for
//! `https` addresses.
//!
//! Redirects are not followed, so a key never goes to another host. Nothing is read from the
//! environment; the caller passes a proxy in.

use std::{
    error::Error,
    fmt,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use cotter::model::{ModelError, ModelErrorKind};
use futures_util::{Stream, StreamExt, stream::BoxStream};
use reqwest::{
    Client, NoProxy, Proxy, RequestBuilder, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use tokio::time::{Instant, timeout};

use crate::{body::Body, cassette::Tape};

/// The longest silence of a stream. Models that think are silent for minutes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// The longest that a whole request lasts, far above any real one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Servers drop idle connections; drop them earlier than most servers do.
const POOL_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest reply that is read, far above any real one.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Connections to providers. Clones share them.
#[derive(Clone)]
pub struct Http(Arc<HttpInner>);

#[derive(Clone)]
struct HttpInner {
    idle: Duration,
    whole: Duration,
    proxy: Option<(String, String)>,
    tape: Option<Tape>,
    plain: OnceLock<Client>,
    secure: OnceLock<Result<Client, String>>,
}

impl Http {
    /// A client that connects when it is first used.
    pub fn new() -> Self {
        Http(Arc::new(HttpInner {
            idle: IDLE_TIMEOUT,
            whole: REQUEST_TIMEOUT,
            proxy: None,
            tape: None,
            plain: OnceLock::new(),
            secure: OnceLock::new(),
        }))
    }

    /// Sets the limit on silence, before a response begins and between its pieces.
    pub fn with_idle_timeout(self, idle: Duration) -> Self {
        self.change(|inner| inner.idle = idle)
    }

    /// Sets the limit on a whole request, from sending it to the end of the response.
    pub fn with_request_timeout(self, whole: Duration) -> Self {
        self.change(|inner| inner.whole = whole)
    }

    /// Uses a proxy, except for the hosts of a list like `NO_PROXY`. Loopback addresses are always
    /// reached directly.
    pub fn with_proxy(self, url: impl Into<String>, except: impl Into<String>) -> Self {
        let except = format!("localhost,127.0.0.0/8,::1,{}", except.into());
        self.change(|inner| inner.proxy = Some((url.into(), except)))
    }

    /// Checks that an address can be a provider's base address; the error says why not.
    pub fn check_address(url: &str) -> Result<(), String> {
        let expected = "expected an address that begins with `http://` or `https://`";
        let url = url.trim();
        if !url.contains("://") {
            return Err(expected.into());
        }
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        match () {
            () if !matches!(url.scheme(), "http" | "https") => Err(expected.into()),
            () if !url.username().is_empty() || url.password().is_some() => {
                Err("the address must not contain a name or password: set the key separately"
                    .into())
            }
            () if url.query().is_some() || url.fragment().is_some() => {
                Err("the address must not contain `?` or `#`: paths are appended to it".into())
            }
            () => Ok(()),
        }
    }

    /// True if the address is on this machine.
    pub fn is_local(url: &str) -> bool {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Records exchanges to a cassette, or plays them from one.
    pub fn with_tape(self, tape: Tape) -> Self {
        self.change(|inner| inner.tape = Some(tape))
    }

    fn change(self, edit: impl FnOnce(&mut HttpInner)) -> Self {
        let mut inner =
            HttpInner { plain: OnceLock::new(), secure: OnceLock::new(), ..(*self.0).clone() };
        edit(&mut inner);
        Http(Arc::new(inner))
    }

    /// Sends a request. Returns when the head of the response is there.
    pub(crate) async fn post(&self, call: HttpCall) -> Result<HttpAnswer, ModelError> {
        match &self.0.tape {
            None => self.send(call).await,
            Some(Tape::Play(player)) => player.answer(&call),
            Some(Tape::Record(recorder)) => {
                let recording = recorder.begin(&call);
                match self.send(call).await {
                    Ok(answer) => Ok(recording.follow(answer)),
                    Err(error) => {
                        recording.fail(&error);
                        Err(error)
                    }
                }
            }
        }
    }

    async fn send(&self, call: HttpCall) -> Result<HttpAnswer, ModelError> {
        let request = self.client(&call.url)?.post(&call.url).headers(call.headers);
        self.receive(request.body(reqwest::Body::wrap(call.body))).await
    }

    /// Sends a small GET request. Cassettes do not hold these.
    pub(crate) async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
    ) -> Result<HttpAnswer, ModelError> {
        if let Some(Tape::Play(_)) = &self.0.tape {
            return Err(ModelError::new(
                ModelErrorKind::Other,
                "cannot list models: a cassette is being played",
            ));
        }
        self.receive(self.client(url)?.get(url).headers(headers)).await
    }

    async fn receive(&self, request: RequestBuilder) -> Result<HttpAnswer, ModelError> {
        let start = Instant::now();
        let response = self.in_time(start, request.send()).await?;
        let response = response.map_err(|error| failure(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.clone().limit_body(response.bytes_stream(), start);
        Ok(HttpAnswer { status, headers, body })
    }

    /// The pieces of a body. A long silence, the request's limit or a body that is too long ends it with
    /// an error.
    fn limit_body(
        self,
        body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
        start: Instant,
    ) -> BoxStream<'static, Result<Bytes, ModelError>> {
        let state = (self, Box::pin(body), 0usize);
        futures_util::stream::unfold(Some(state), move |state| async move {
            let (http, mut body, so_far) = state?;
            let next = match http.in_time(start, body.next()).await {
                Ok(next) => next?.map_err(|error| failure(&error)),
                Err(error) => Err(error),
            };
            match next {
                Ok(bytes) if so_far + bytes.len() > MAX_BODY => {
                    let message = format!("the response has more than {MAX_BODY} bytes");
                    Some((Err(ModelError::new(ModelErrorKind::Other, message)), None))
                }
                Ok(bytes) => {
                    let so_far = so_far + bytes.len();
                    Some((Ok(bytes), Some((http, body, so_far))))
                }
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    /// Waits for the next part of a response: as long as silence may last, and as is left of the time for the
    /// whole request.
    async fn in_time<T>(
        &self,
        start: Instant,
        work: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let error = |message| ModelError::new(ModelErrorKind::Timeout, message);
        let left = self.0.whole.saturating_sub(start.elapsed());
        match timeout(left, timeout(self.0.idle, work)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(error(format!("no data for {:?}", self.0.idle))),
            Err(_) => Err(error(format!("the request took longer than {:?}", self.0.whole))),
        }
    }

    fn client(&self, url: &str) -> Result<&Client, ModelError> {
        let failed = |message: &String| ModelError::new(ModelErrorKind::Other, message.clone());
        // The connection to a proxy may itself need TLS.
        let is_https =
            |url: &str| url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        let proxy_is_https = self.0.proxy.as_ref().is_some_and(|(proxy, _)| is_https(proxy));
        if is_https(url) || proxy_is_https {
            let secure = self.0.secure.get_or_init(|| self.0.build(true));
            return secure.as_ref().map_err(failed);
        }
        if self.0.plain.get().is_none() {
            let plain = self.0.build(false).map_err(|message| failed(&message))?;
            let _ = self.0.plain.set(plain);
        }
        Ok(self.0.plain.get().expect("it was just set"))
    }
}

impl Default for Http {
    fn default() -> Self {
        Http::new()
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("idle", &self.0.idle)
            .field("whole", &self.0.whole)
            .finish_non_exhaustive()
    }
}

impl HttpInner {
    fn build(&self, with_roots: bool) -> Result<Client, String> {
        let mut builder = Client::builder()
            .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_TIMEOUT)
            .no_proxy()
            .tls_backend_preconfigured(tls(with_roots).map_err(|error| error.to_string())?);
        if let Some((url, except)) = &self.proxy {
            let proxy = Proxy::all(url).map_err(|error| format!("proxy: {}", describe(&error)))?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(except)));
        }
        builder.build().map_err(|error| describe(&error))
    }
}

/// TLS with the roots this machine trusts. Loading them takes milliseconds, so plain connections
/// skip it.
fn tls(with_roots: bool) -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    let mut config = match with_roots {
        true => config.with_platform_verifier()?.with_no_client_auth(),
        false => {
            config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A request to a provider.
pub(crate) struct HttpCall {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// The response to an `HttpCall`.
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: BoxStream<'static, Result<Bytes, ModelError>>,
}

impl HttpAnswer {
    /// The value of a header if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The first `max_bytes` of a small body, as text; less if `limit` has passed.
    pub(crate) async fn text(mut self, max_bytes: usize, limit: Duration) -> String {
        let mut bytes = vec![];
        let read = async {
            while let Some(Ok(piece)) = self.body.next().await {
                bytes.extend_from_slice(&piece);
                if bytes.len() >= max_bytes {
                    bytes.truncate(max_bytes);
                    break;
                }
            }
        };
        let _ = timeout(limit, read).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

pub(crate) fn header(headers: &mut HeaderMap, name: &'static str, value: HeaderValue) {
    headers.insert(HeaderName::from_static(name), value);
}

/// A transport error, without the address: it may contain secrets.
fn failure(error: &reqwest::Error) -> ModelError {
    let kind = match () {
        () if error.is_timeout() => ModelErrorKind::Timeout,
        () if error.is_builder() => ModelErrorKind::BadRequest,
        () => ModelErrorKind::Network,
    };
    ModelError::new(kind, describe(error))
}

/// An error and its causes on one line.
fn describe(error: &reqwest::Error) -> String {
    let mut message = match () {
        () if error.is_connect() => "the connection failed".to_owned(),
        () if error.is_body() || error.is_decode() => "the answer broke off".to_owned(),
        () if error.is_timeout() => "the request timed out".to_owned(),
        () if error.is_builder() => "the request cannot be sent".to_owned(),
        () => "the request failed".to_owned(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !message.contains(&more) {
            message = format!("{message}: {more}");
        }
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_http_without_password_or_query() {
        let check = |url: &str| Http::check_address(url).err().unwrap_or_default();
        for good in ["http://127.0.0.1:1/v1", "https://x.example", "HTTP://[::1]:8000/v1/"] {
            assert_eq!(check(good), "", "{good}");
        }
        let expected = "expected an address that begins with `http://` or `https://`";
        for wrong in ["", "localhost:8000", "x.example/v1", "ftp://x.example", "file:///etc"] {
            assert_eq!(check(wrong), expected, "{wrong}");
        }
        assert_eq!(check("http://"), "empty host");
        assert_eq!(check("http://x:port"), "invalid port number");
        assert!(
            check("http://me:hush@x.example").starts_with("the address must not contain a name")
        );
        assert!(check("http://me@x.example").starts_with("the address must not contain a name"));
        assert!(
            check("http://x.example/v1?key=hush").starts_with("the address must not contain `?`")
        );
        assert!(!check("http://x.example/v1#hush").contains("hush"));
    }

    #[test]
    fn loopback_addresses_are_local() {
        for local in
            ["http://localhost:1", "http://127.1.2.3/v1", "http://[::1]:8000", "HTTP://LOCALHOST"]
        {
            assert!(Http::is_local(local), "{local}");
        }
        for remote in
            ["http://10.0.0.7", "http://localhost.example", "http://[fe80::1]", "localhost", ""]
        {
            assert!(!Http::is_local(remote), "{remote}");
        }
    }
}
