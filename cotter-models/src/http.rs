//! The line to providers: shared connections, built when they are first needed, with TLS only where
//! an address asks for it.
//!
//! Redirects are not followed: a key goes where it was meant to go, or nowhere. Nothing is read from
//! the environment; whoever knows of a proxy says so.

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
use tokio::time::timeout;

use crate::{body::Body, cassette::Tape};

/// The longest a stream may say nothing. Models that think are silent for minutes.
const IDLE: Duration = Duration::from_secs(300);
const CONNECT: Duration = Duration::from_secs(30);
/// Servers drop connections that nobody uses; better to be the first.
const KEEP: Duration = Duration::from_secs(60);
/// The longest reply that is read. Nothing a model says comes near it.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Connections to providers. Clones share them.
#[derive(Clone)]
pub struct Http(Arc<CassetteEntry>);

#[derive(Clone)]
struct CassetteEntry {
    idle: Duration,
    proxy: Option<(String, String)>,
    tape: Option<Tape>,
    plain: OnceLock<Client>,
    secure: OnceLock<Result<Client, String>>,
}

impl Http {
    /// Connections made as they are needed.
    pub fn new() -> Self {
        Http(Arc::new(CassetteEntry {
            idle: IDLE,
            proxy: None,
            tape: None,
            plain: OnceLock::new(),
            secure: OnceLock::new(),
        }))
    }

    /// The same with another limit on silence: before an answer begins, and between its pieces.
    pub fn with_idle_timeout(self, idle: Duration) -> Self {
        self.changed(|line| line.idle = idle)
    }

    /// The same by way of a proxy, but for hosts of a list as in `NO_PROXY`. This machine is always
    /// reached directly.
    pub fn with_proxy(self, url: impl Into<String>, except: impl Into<String>) -> Self {
        let except = format!("localhost,127.0.0.0/8,::1,{}", except.into());
        self.changed(|line| line.proxy = Some((url.into(), except)))
    }

    /// Whether an address can be one of a provider, to which paths are added; why not.
    pub fn check_address(url: &str) -> Result<(), String> {
        let told = "expected an address that begins with `http://` or `https://`";
        let url = url.trim();
        if !url.contains("://") {
            return Err(told.into());
        }
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        match () {
            () if !matches!(url.scheme(), "http" | "https") => Err(told.into()),
            () if !url.username().is_empty() || url.password().is_some() => {
                Err("an address has no name or password in it: a key is given by itself".into())
            }
            () if url.query().is_some() || url.fragment().is_some() => {
                Err("an address has no `?` or `#` in it: paths are added to it".into())
            }
            () => Ok(()),
        }
    }

    /// Whether an address is of this machine.
    pub fn is_local(url: &str) -> bool {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// The same, and what is said is written to a file, or read from one instead.
    pub fn with_tape(self, tape: Tape) -> Self {
        self.changed(|line| line.tape = Some(tape))
    }

    fn changed(self, change: impl FnOnce(&mut CassetteEntry)) -> Self {
        let mut line =
            CassetteEntry { plain: OnceLock::new(), secure: OnceLock::new(), ..(*self.0).clone() };
        change(&mut line);
        Http(Arc::new(line))
    }

    /// Sends a request. Gives the head of the answer as soon as it is there.
    pub(crate) async fn post(&self, call: HttpCall) -> Result<HttpAnswer, ModelError> {
        match &self.0.tape {
            None => self.send(call).await,
            Some(Tape::Play(player)) => player.answer(&call),
            Some(Tape::Record(recorder)) => {
                let take = recorder.begin(&call);
                match self.send(call).await {
                    Ok(answer) => Ok(take.follow(answer)),
                    Err(error) => {
                        take.fail(&error);
                        Err(error)
                    }
                }
            }
        }
    }

    async fn send(&self, call: HttpCall) -> Result<HttpAnswer, ModelError> {
        let request = self.client(&call.url)?.post(&call.url).headers(call.headers);
        self.heard(request.body(reqwest::Body::wrap(call.body))).await
    }

    /// Gets something small. No cassette holds such things.
    pub(crate) async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
    ) -> Result<HttpAnswer, ModelError> {
        if let Some(Tape::Play(_)) = &self.0.tape {
            return Err(ModelError::new(ModelErrorKind::Other, "a cassette is played instead"));
        }
        self.heard(self.client(url)?.get(url).headers(headers)).await
    }

    async fn heard(&self, request: RequestBuilder) -> Result<HttpAnswer, ModelError> {
        let response = self.within_idle(request.send()).await?;
        let response = response.map_err(|error| failure(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.clone().watched(response.bytes_stream());
        Ok(HttpAnswer { status, headers, body })
    }

    /// The pieces of an answer; too long a silence, or too long an answer, ends it.
    fn watched(
        self,
        body: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    ) -> BoxStream<'static, Result<Bytes, ModelError>> {
        let state = (self, Box::pin(body), 0usize);
        futures_util::stream::unfold(Some(state), |state| async move {
            let (http, mut body, so_far) = state?;
            let next = match http.within_idle(body.next()).await {
                Ok(next) => next?.map_err(|error| failure(&error)),
                Err(silent) => Err(silent),
            };
            match next {
                Ok(bytes) if so_far + bytes.len() > MOST_BYTES => {
                    let message = format!("the answer has more than {MOST_BYTES} bytes");
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

    async fn within_idle<T>(&self, work: impl Future<Output = T>) -> Result<T, ModelError> {
        timeout(self.0.idle, work).await.map_err(|_| {
            let message = format!("nothing was heard for {:?}", self.0.idle);
            ModelError::new(ModelErrorKind::Timeout, message)
        })
    }

    fn client(&self, url: &str) -> Result<&Client, ModelError> {
        let failed = |message: &String| ModelError::new(ModelErrorKind::Other, message.clone());
        // The way to a proxy may itself need TLS.
        let starts =
            |url: &str| url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        let by_proxy = self.0.proxy.as_ref().is_some_and(|(proxy, _)| starts(proxy));
        if starts(url) || by_proxy {
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
        f.debug_struct("Http").field("idle", &self.0.idle).finish_non_exhaustive()
    }
}

impl CassetteEntry {
    fn build(&self, with_roots: bool) -> Result<Client, String> {
        let mut builder = Client::builder()
            .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(KEEP)
            .no_proxy()
            .tls_backend_preconfigured(tls(with_roots).map_err(|error| error.to_string())?);
        if let Some((url, except)) = &self.proxy {
            let proxy = Proxy::all(url).map_err(|error| format!("proxy: {}", words(&error)))?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(except)));
        }
        builder.build().map_err(|error| words(&error))
    }
}

/// TLS with the roots this machine trusts; loading them takes milliseconds, so plain connections go
/// without.
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

/// The answer to it.
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: BoxStream<'static, Result<Bytes, ModelError>>,
}

impl HttpAnswer {
    /// The value of a header, where it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The beginning of a small answer, as text: so many bytes of it, as far as they come in time.
    pub(crate) async fn text(mut self, most: usize, within: Duration) -> String {
        let mut bytes = vec![];
        let read = async {
            while let Some(Ok(piece)) = self.body.next().await {
                bytes.extend_from_slice(&piece);
                if bytes.len() >= most {
                    bytes.truncate(most);
                    break;
                }
            }
        };
        let _ = timeout(within, read).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

pub(crate) fn header(headers: &mut HeaderMap, name: &'static str, value: HeaderValue) {
    headers.insert(HeaderName::from_static(name), value);
}

/// What went wrong on the way, without the address: it may hold what nobody is to see.
fn failure(error: &reqwest::Error) -> ModelError {
    let kind = match () {
        () if error.is_timeout() => ModelErrorKind::Timeout,
        () if error.is_builder() => ModelErrorKind::BadRequest,
        () => ModelErrorKind::Network,
    };
    ModelError::new(kind, words(error))
}

/// An error and its causes in one line.
fn words(error: &reqwest::Error) -> String {
    let mut words = match () {
        () if error.is_connect() => "the connection failed".to_owned(),
        () if error.is_body() || error.is_decode() => "the answer broke off".to_owned(),
        () if error.is_timeout() => "it took too long".to_owned(),
        () if error.is_builder() => "the request cannot be sent".to_owned(),
        () => "the request failed".to_owned(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_and_nothing_but_an_address() {
        let check = |url: &str| Http::check_address(url).err().unwrap_or_default();
        for good in ["http://127.0.0.1:1/v1", "https://x.example", "HTTP://[::1]:8000/v1/"] {
            assert_eq!(check(good), "", "{good}");
        }
        let told = "expected an address that begins with `http://` or `https://`";
        for wrong in ["", "localhost:8000", "x.example/v1", "ftp://x.example", "file:///etc"] {
            assert_eq!(check(wrong), told, "{wrong}");
        }
        assert_eq!(check("http://"), "empty host");
        assert_eq!(check("http://x:port"), "invalid port number");
        assert!(
            check("http://me:hush@x.example").starts_with("an address has no name or password")
        );
        assert!(check("http://me@x.example").starts_with("an address has no name or password"));
        assert!(check("http://x.example/v1?key=hush").starts_with("an address has no `?`"));
        assert!(!check("http://x.example/v1#hush").contains("hush"));
    }

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for near in
            ["http://localhost:1", "http://127.1.2.3/v1", "http://[::1]:8000", "HTTP://LOCALHOST"]
        {
            assert!(Http::is_local(near), "{near}");
        }
        for far in
            ["http://10.0.0.7", "http://localhost.example", "http://[fe80::1]", "localhost", ""]
        {
            assert!(!Http::is_local(far), "{far}");
        }
    }
}
