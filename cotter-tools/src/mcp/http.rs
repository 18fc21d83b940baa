//! HTTP connections to a server: no proxy, and no redirects.

use std::{collections::HashMap, ffi::OsString, io, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
    redirect::Policy,
};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
            StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream_of_rmcp::{Sse, SseStream};

use crate::mcp::{connection::MESSAGE_BYTES, launch};

/// The transport to a server. Nothing is sent yet. The error is a message.
pub(crate) fn transport(
    url: &Url,
    headers: &[(HeaderName, String)],
    variables: &[(OsString, OsString)],
) -> Result<StreamableHttpClientTransport<BoundedClient>, String> {
    let mut sent_headers = HashMap::new();
    for (name, value) in headers {
        let value = launch::expand(value, variables)
            .map_err(|cause| format!("header `{name}`: {cause}"))?;
        let value = HeaderValue::from_str(&value);
        let mut value =
            value.map_err(|_| format!("header `{name}` has characters that are not allowed"))?;
        value.set_sensitive(true);
        sent_headers.insert(name.clone(), value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(sent_headers)
        // A retry could repeat a call that had an effect.
        .reinit_on_expired_session(false);
    let client = client(url.scheme() == "https").map_err(|cause| cause.to_string())?;
    Ok(StreamableHttpClientTransport::with_client(BoundedClient(client), config))
}

/// A client that limits the size of a response to that of a message. The crate's own client has no
/// limit for plain JSON.
#[derive(Clone)]
pub(crate) struct BoundedClient(Client);

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

const SESSION: &str = "mcp-session-id";

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let has_session = session.is_some();
        let mut request = self.0.post(&*uri).header(ACCEPT, "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header(SESSION, &*session);
        }
        let response = request.headers(headers.into_iter().collect()).json(&message).send().await?;
        match response.status() {
            StatusCode::NOT_FOUND if has_session => Err(StreamableHttpError::SessionExpired),
            status if !status.is_success() => Err(status_error(response).await),
            _ if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            _ => answer(response).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        // The result does not matter: the session is over.
        let request = self.0.delete(&*uri).header(SESSION, &*session);
        request.headers(headers.into_iter().collect()).send().await?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let mut request = self.0.get(&*uri).header(ACCEPT, "text/event-stream");
        if let Some(session) = session {
            request = request.header(SESSION, &*session);
        }
        if let Some(last_event) = last_event {
            request = request.header("last-event-id", last_event);
        }
        let response = request.headers(headers.into_iter().collect()).send().await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(status_error(response).await),
            _ if has_content_type(&response, "text/event-stream") => Ok(events(response)),
            _ => Err(unexpected("not a stream of events".into())),
        }
    }
}

/// Reads the response to a request.
async fn answer(response: Response) -> Result<StreamableHttpPostResponse, HttpError> {
    let session =
        response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if has_content_type(&response, "text/event-stream") {
        return Ok(StreamableHttpPostResponse::Sse(events(response), session));
    }
    if !has_content_type(&response, "application/json") {
        return Err(unexpected("neither JSON nor a stream of events".into()));
    }
    let body = body(response, MESSAGE_BYTES).await?;
    let message: ServerJsonRpcMessage = serde_json::from_slice(&body)?;
    Ok(StreamableHttpPostResponse::Json(message, session))
}

/// The error for a status, with the beginning of the body.
async fn status_error(response: Response) -> HttpError {
    const MAX_BODY: usize = 2000;
    let status = response.status();
    let body = body(response, MAX_BODY).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    unexpected(match body.trim() {
        "" => status.to_string(),
        body => format!("{status}: {body}"),
    })
}

fn unexpected(message: String) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(message.into())
}

fn has_content_type(response: &Response, kind: &str) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    content_type.is_some_and(|content_type| {
        content_type
            .split(';')
            .next()
            .is_some_and(|content_type| content_type.trim().eq_ignore_ascii_case(kind))
    })
}

async fn body(response: Response, max_bytes: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = vec![];
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece?);
        if body.len() > max_bytes {
            return Err(unexpected(format!("more than {max_bytes} bytes at once")));
        }
    }
    Ok(body)
}

fn events(response: Response) -> Events {
    let pieces = response.bytes_stream().map_err(io::Error::other);
    SseStream::from_bytes_stream(limit_events(pieces)).boxed()
}

/// An event stream with a limit on the size of an event; an event ends at an empty line.
fn limit_events<B: AsRef<[u8]>>(
    pieces: impl Stream<Item = io::Result<B>> + Send,
) -> impl Stream<Item = io::Result<B>> + Send {
    let (mut event, mut line) = (0, 0);
    pieces.map(move |piece| {
        let piece = piece?;
        for byte in piece.as_ref() {
            (event, line) = match byte {
                b'\n' if line == 0 => (0, 0),
                b'\n' => (event + 1, 0),
                b'\r' => (event + 1, line),
                _ => (event + 1, line + 1),
            };
            if event > MESSAGE_BYTES {
                return Err(io::Error::other(format!("more than {MESSAGE_BYTES} bytes at once")));
            }
        }
        Ok(piece)
    })
}

fn client(with_roots: bool) -> Result<Client, Box<dyn std::error::Error>> {
    let client = Client::builder()
        .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .no_proxy()
        .tls_backend_preconfigured(tls(with_roots)?);
    Ok(client.build()?)
}

/// TLS with the roots this machine trusts; plain connections need none.
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
