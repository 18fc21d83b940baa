//! The tool `fetch`: the content of an http or https address, as text or as a picture.
//!
//! A name is resolved once. Every resolved address is checked, and the connection uses only those.
//! An address of this machine or its network has zone `machine`. A redirect is followed only on the
//! same host: another host needs another call with its own decision. No proxy, cookie or
//! environment is used.

pub(crate) mod address;
pub(crate) mod html;
pub(crate) mod picture;

use std::{
    error::Error,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use cotter::{
    Permit, Registry, Tool, ToolError, ToolOutput, ToolSpec, Workspace,
    history::{message::ContentPart, outcome::ToolErrorKind},
    permission::{Zone, facts::Facts},
    text,
    tool::ToolFuture,
};
use reqwest::{
    Client, Response, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION},
    redirect::Policy,
};
use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::fetch::address::Address;

const DEFAULT_BYTES: u64 = 1024 * 1024;
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_REDIRECTS: usize = 10;
/// The longest time of a call, with redirects.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The most characters of an error page in a result.
const ERROR_CHARS: usize = 2000;

/// An extension with the tool `fetch`.
pub fn tools(unit: &mut Registry) {
    unit.tool(Fetch::default());
}

/// The tool `fetch {url, max_bytes?}`.
pub struct Fetch {
    spec: ToolSpec,
    /// The trusted certificates of this machine, loaded at the first https address.
    roots: OnceLock<Result<ClientConfig, String>>,
}

impl Default for Fetch {
    fn default() -> Self {
        let spec = ToolSpec::new(
            "fetch",
            "Get what is at an http or https address. Pages come as text, with links as addresses; \
             pictures are shown. `max_bytes` is the most that is read, one megabyte unless given. A \
             redirect to another host is reported and not followed: fetch that address in another call.",
            json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string", "minLength": 1},
                    "max_bytes": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES}
                },
                "required": ["url"],
                "additionalProperties": false
            }),
        );
        Fetch { spec, roots: OnceLock::new() }
    }
}

impl Tool for Fetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// An invalid address is refused before anything is touched.
    fn effects(&self, input: &Value, _: &Workspace) -> Facts {
        match Address::parse(input["url"].as_str().unwrap_or_default()) {
            Ok(address) => Facts { hosts: vec![address.host()], ..Facts::zone(address.zone()) },
            Err(why) => Facts::invalid(why),
        }
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let invalid = |why: String| ToolError::new(ToolErrorKind::InvalidArgs, why);
            let url = permit.input()["url"].as_str().unwrap_or_default();
            let address = Address::parse(url).map_err(invalid)?;
            let max_bytes = permit.input()["max_bytes"].as_u64().unwrap_or(DEFAULT_BYTES);
            let request = self.get(address, permit.facts().zone, max_bytes.min(MAX_BYTES));
            tokio::time::timeout(CALL_TIMEOUT, request).await.unwrap_or_else(|_| {
                let message = format!("{url} took longer than {} seconds", CALL_TIMEOUT.as_secs());
                Err(ToolError::new(ToolErrorKind::Timeout, message))
            })
        })
    }
}

impl Fetch {
    async fn get(
        &self,
        start: Address,
        zone: Zone,
        max_bytes: u64,
    ) -> Result<ToolOutput, ToolError> {
        let failed = |why: String| ToolError::failed(format!("cannot fetch {}: {why}", start.url));
        let addresses = start.resolve().await.map_err(failed)?;
        start
            .check_resolved(&addresses, zone)
            .map_err(|why| ToolError::new(ToolErrorKind::Denied, why))?;
        let client = self.client(&start.url, addresses).map_err(failed)?;
        let mut address = start.clone();
        for _ in 0..=MAX_REDIRECTS {
            let result = client.get(address.url.clone()).send().await;
            let response = result.map_err(|cause| failed(describe_error(&cause.without_url())))?;
            match redirect(&response, &address) {
                None => return to_output(response, &address.url, max_bytes).await,
                Some(Err(why)) => return Err(failed(why)),
                Some(Ok(next)) if next.is_same_host(&address) => address = next,
                Some(Ok(next)) => return Ok(redirect_notice(&start, &next)),
            }
        }
        Err(failed(format!("it redirects more than {MAX_REDIRECTS} times")))
    }

    /// A client that connects only to these addresses, for any name.
    fn client(&self, url: &Url, addresses: Vec<SocketAddr>) -> Result<Client, String> {
        let tls = match url.scheme() {
            "https" => self.roots.get_or_init(|| tls(true)).clone()?,
            _ => tls(false)?,
        };
        let accept = "text/html, text/*;q=0.9, application/json;q=0.9, image/*;q=0.8, */*;q=0.5";
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().map_err(to_message)?)]);
        Client::builder()
            .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(PinnedResolver(addresses)))
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|cause| describe_error(&cause))
    }
}

/// A resolver that returns the checked addresses for any name.
pub(crate) struct PinnedResolver(pub(crate) Vec<SocketAddr>);

impl Resolve for PinnedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// TLS with the roots this machine trusts, or without roots for plain addresses.
pub(crate) fn tls(with_roots: bool) -> Result<ClientConfig, String> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(to_message)?;
    let mut config = if with_roots {
        config.with_platform_verifier().map_err(to_message)?.with_no_client_auth()
    } else {
        config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn to_message(cause: impl std::fmt::Display) -> String {
    cause.to_string()
}

/// The target of a redirect; `None` if the response is none.
fn redirect(response: &Response, from: &Address) -> Option<Result<Address, String>> {
    const STATUS: [StatusCode; 5] = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !STATUS.contains(&response.status()) {
        return None;
    }
    let location = header(response, &LOCATION)?;
    let next = from.url.join(&location).map_err(to_message).and_then(Address::of);
    Some(next.map_err(|why| format!("it redirects to `{location}`: {why}")))
}

fn redirect_notice(start: &Address, next: &Address) -> ToolOutput {
    let (from, to) = (&start.url, &next.url);
    format!("{from} redirects to another host, which was not fetched: fetch {to} in another call")
        .into()
}

fn header(response: &Response, name: &HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(response.headers().get(name)?.as_bytes()).into_owned())
}

/// A response as text for the model, or as a picture.
async fn to_output(response: Response, url: &Url, max_bytes: u64) -> Result<ToolOutput, ToolError> {
    let status = response.status();
    let kind = header(&response, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let (bytes, is_truncated) = body(response, max_bytes).await.map_err(|cause| {
        ToolError::failed(format!("cannot fetch {url}: {}", describe_error(&cause.without_url())))
    })?;
    let media = kind.split(';').next().unwrap_or_default().trim();
    if status.is_success()
        && !is_truncated
        && media.starts_with("image/")
        && let Some((picture, kind)) = picture::of(&bytes)
    {
        let caption = format!("{url}, {kind}, {} bytes", bytes.len());
        return Ok(vec![ContentPart::Text(caption), picture].into());
    }
    let what = if media.is_empty() { "binary data" } else { media }.to_owned();
    let size = match is_truncated {
        true => format!("more than {max_bytes} bytes; `max_bytes` gives more"),
        false => format!("{} bytes", bytes.len()),
    };
    let base = url.clone();
    let page = tokio::task::spawn_blocking(move || page(&bytes, &kind, &base)).await;
    let Some(page) = page.map_err(|cause| ToolError::failed(cause.to_string()))? else {
        return Ok(format!("{url} answered {status}, and that is not text: {what}, {size}").into());
    };
    if !status.is_success() {
        let page = text::cut_chars(&page, ERROR_CHARS);
        return Err(ToolError::failed(format!("{url} answered {status}\n{page}")));
    }
    let cut = match is_truncated {
        true => format!("\n… [cut after {max_bytes} bytes; `max_bytes` gives more]"),
        false => String::new(),
    };
    Ok(format!("{page}{cut}").into())
}

/// The first bytes of a body, and true if there were more.
async fn body(mut response: Response, max_bytes: u64) -> reqwest::Result<(Vec<u8>, bool)> {
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let mut bytes = vec![];
    while let Some(piece) = response.chunk().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > max_bytes {
            bytes.truncate(max_bytes);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// The text of a response; `None` if it is binary.
fn page(bytes: &[u8], kind: &str, url: &Url) -> Option<String> {
    const BINARY: [&str; 7] = [
        "image/",
        "audio/",
        "video/",
        "font/",
        "application/octet-stream",
        "application/zip",
        "application/pdf",
    ];
    let is_binary = BINARY.iter().any(|start| kind.starts_with(start)) && !kind.contains("svg");
    if is_binary || bytes.contains(&0) {
        return None;
    }
    let latin = ["iso-8859-1", "windows-1252", "latin1"].iter().any(|name| kind.contains(name));
    let text = match latin {
        true => bytes.iter().map(|byte| char::from(*byte)).collect(),
        false => String::from_utf8_lossy(bytes).into_owned(),
    };
    let start = text.trim_start().get(..15).unwrap_or_default().to_ascii_lowercase();
    let is_page = kind.contains("html")
        || kind.is_empty() && (start.starts_with("<!doctype html") || start.starts_with("<html"));
    Some(if is_page { crate::fetch::html::to_text(&text, url) } else { text })
}

/// A transport error with its innermost cause.
pub(crate) fn describe_error(error: &reqwest::Error) -> String {
    let what = match () {
        () if error.is_connect() => "no connection",
        () if error.is_body() || error.is_decode() => "the response broke off",
        () => "no readable response",
    };
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(Error::source) {
        cause = Some(deeper);
    }
    cause.map_or_else(|| what.to_owned(), |cause| format!("{what}: {cause}"))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// The name is never resolved again: a second result could differ.
    #[tokio::test]
    async fn connection_uses_the_checked_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let size = stream.read(&mut request).await.unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..size]).into_owned()
        });
        let url = Url::parse(&format!("http://no.such.name.example:{}/", address.port())).unwrap();
        let client = Fetch::default().client(&url, vec![address]).unwrap();
        let answer = client.get(url).send().await.unwrap();
        assert_eq!(answer.remote_addr(), Some(address));
        assert_eq!(answer.text().await.unwrap(), "hello");
        assert!(server.await.unwrap().contains("host: no.such.name.example:"));
    }
}
