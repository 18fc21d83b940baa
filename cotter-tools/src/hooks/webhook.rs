//! Webhooks: post events of a run to an https address named in a profile.
//!
//! The name is resolved once per request. Every resolved address is checked, and the connection
//! uses only those. This machine and its network are closed, except for hosts on the operator's
//! list. Redirects are not followed, and no proxy, cookie or environment is used.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use cotter::{permission::Zone, text};
use cotter_files::{
    command_hook::failure::HookFailure,
    profile::{PostFuture, WebhookPoster},
};
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap},
    redirect::Policy,
};
use rustls::ClientConfig;

use crate::fetch::{PinnedResolver, address::Address, describe_error, tls};

/// Whether a request may be sent without TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlainHttp {
    Never,
    /// Only to hosts on the operator's list.
    Listed,
}

/// Posts to allowed hosts.
#[derive(Clone, Default)]
pub struct Webhooks {
    /// The operator's list; `None` allows every host of the open internet.
    listed: Option<Vec<String>>,
    /// The trusted certificates of this machine, loaded at the first request.
    roots: Arc<OnceLock<Result<ClientConfig, String>>>,
    resolver: Resolver,
}

/// Resolves names.
#[derive(Clone)]
struct Resolver(Arc<dyn Fn(Address) -> ResolveFuture + Send + Sync>);

type ResolveFuture = Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>, String>> + Send>>;

impl Default for Resolver {
    /// Resolves by this machine.
    fn default() -> Self {
        Resolver(Arc::new(|address| Box::pin(async move { address.resolve().await })))
    }
}

impl Webhooks {
    /// Allows every host of the open internet.
    pub fn new() -> Self {
        Webhooks::default()
    }

    /// Allows only these hosts, inside or outside: `hooks.example.com`, `localhost:8443`. An
    /// invalid host is an error that names it.
    pub fn only<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let listed = hosts.into_iter().map(parse_host).collect::<Result<_, _>>()?;
        Ok(Webhooks { listed: Some(listed), ..Webhooks::default() })
    }

    /// Checks an address for a hook, without resolving its name. Posting to a refused address
    /// always fails. The error says why.
    pub fn may_ask(&self, url: &str) -> Result<(), String> {
        self.check_address(&Address::parse(url)?, PlainHttp::Listed).map(drop)
    }

    /// The widest zone that an address may resolve to. An error says why it is refused.
    fn check_address(&self, address: &Address, plain: PlainHttp) -> Result<Zone, String> {
        let is_open = plain == PlainHttp::Listed && self.listed.is_some();
        match address.url.scheme() {
            "https" => {}
            "http" if is_open => {}
            _ if plain == PlainHttp::Listed => {
                return Err("the address must be https, or on the operator's list".into());
            }
            _ => return Err("the address must be https".into()),
        }
        let Some(listed) = &self.listed else {
            return match address.zone() {
                Zone::Network => Ok(Zone::Network),
                _ => Err("it is on this machine or its network".into()),
            };
        };
        let (host, port) = (address.name(), address.url.port_or_known_default().unwrap_or(443));
        match listed.iter().any(|entry| *entry == host || *entry == format!("{host}:{port}")) {
            true => Ok(Zone::Machine),
            false => Err("it is not on the operator's list".into()),
        }
    }

    async fn send(self, url: String, body: Arc<[u8]>) -> Result<(), String> {
        let (address, response) = self
            .send_request(&url, HeaderMap::new(), body, PlainHttp::Never)
            .await
            .map_err(|why| why.to_string())?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("{} answered {status}", address.host())),
        }
    }

    /// Posts to an address and returns the status and the first bytes of the body. For hooks: their
    /// addresses may be without TLS if the operator lists them.
    pub(crate) async fn ask(
        self,
        url: String,
        headers: HeaderMap,
        body: Arc<[u8]>,
        max_bytes: usize,
    ) -> Result<(u16, Vec<u8>), HookFailure> {
        let (_, mut response) = self.send_request(&url, headers, body, PlainHttp::Listed).await?;
        let mut received = vec![];
        while received.len() <= max_bytes
            && let Some(chunk) = response.chunk().await.map_err(request_failure)?
        {
            received.extend_from_slice(&chunk);
        }
        received.truncate(max_bytes + 1);
        Ok((response.status().as_u16(), received))
    }

    async fn send_request(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Arc<[u8]>,
        plain: PlainHttp,
    ) -> Result<(Address, Response), HookFailure> {
        let address = Address::parse(url)?;
        // What our own rules refuse, or this machine cannot do, is no answer of the hook.
        let zone = self.check_address(&address, plain).map_err(HookFailure::Host)?;
        let addresses =
            (self.resolver.0)(address.clone()).await.map_err(HookFailure::of_request)?;
        address.check_resolved(&addresses, zone).map_err(HookFailure::Host)?;
        let tls = self.roots.get_or_init(|| tls(true)).clone().map_err(HookFailure::Host)?;
        let client = Client::builder()
            .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .https_only(plain == PlainHttp::Never || address.url.scheme() == "https")
            .dns_resolver(Arc::new(PinnedResolver(addresses)))
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|cause| HookFailure::Host(describe_error(&cause)))?;
        let sent = client
            .post(address.url.clone())
            .headers(headers)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_vec())
            .send();
        let answer = sent.await.map_err(request_failure)?;
        Ok((address, answer))
    }
}

/// The failure of a request that was sent, without its address.
fn request_failure(cause: reqwest::Error) -> HookFailure {
    HookFailure::of_request(describe_error(&cause.without_url()))
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("listed", &self.listed).finish_non_exhaustive()
    }
}

impl WebhookPoster for Webhooks {
    fn admits(&self, url: &str) -> Result<(), String> {
        self.check_address(&Address::parse(url)?, PlainHttp::Never).map(drop)
    }

    fn post(&self, url: &str, body: Arc<[u8]>) -> PostFuture {
        Box::pin(self.clone().send(url.to_owned(), body))
    }
}

/// A host in the form of parsed addresses, with a port if it has one.
fn parse_host(host: &str) -> Result<String, String> {
    let invalid = || format!("`{}` is not a host", text::show_line(host));
    let address = Address::parse(&format!("https://{host}/")).map_err(|_| invalid())?;
    let has_only_host = address.url.path() == "/" && address.url.query().is_none();
    if !has_only_host || host.contains(['/', '#', '?', '*', ' ']) {
        return Err(invalid());
    }
    // The default port, if written, is kept.
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(match port {
        Some(port) => format!("{}:{port}", address.name()),
        None => address.name(),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
    };

    use super::*;

    /// A resolver that returns the next of these results at each call and then repeats the last,
    /// with a counter of its calls.
    fn changing_resolver(all: Vec<Vec<SocketAddr>>) -> (Resolver, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let resolver = Resolver(Arc::new(move |_| {
            let at = count.fetch_add(1, Ordering::Relaxed).min(all.len() - 1);
            Box::pin(std::future::ready(Ok(all[at].clone())))
        }));
        (resolver, calls)
    }

    /// Answers requests on this machine with a status, and passes them to the receiver.
    fn serve_status(listener: TcpListener, status: u16) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = vec![0; 4096];
                let size = stream.read(&mut request).unwrap_or_default();
                let _ = sender.send(String::from_utf8_lossy(&request[..size]).into_owned());
                let _ = write!(stream, "HTTP/1.1 {status} So\r\nconnection: close\r\n\r\n");
            }
        });
        receiver
    }

    /// A second, different resolution of the name must not redirect the request.
    #[tokio::test]
    async fn s34_request_goes_to_the_checked_addresses() {
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = there.local_addr().unwrap().port();
        let elsewhere = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let (there, elsewhere) = (serve_status(there, 204), serve_status(elsewhere, 500));
        let at = |ip: &str| vec![SocketAddr::new(ip.parse().unwrap(), port)];
        let url = format!("http://rebound.example:{port}/hook");
        let ask = |hooks: &Webhooks, url: &str| {
            hooks.clone().ask(url.to_owned(), HeaderMap::new(), Arc::from(*b"{}"), 10)
        };
        let (resolver, calls) = changing_resolver(vec![at("127.0.0.1"), at("127.0.0.2")]);
        let listed = Webhooks { resolver, ..Webhooks::only(["rebound.example"]).unwrap() };
        assert_eq!(ask(&listed, &url).await, Ok((204, vec![])));
        assert!(there.recv().unwrap().starts_with("POST /hook HTTP/1.1\r\n"));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        // On the open internet every inside address is refused, in any position.
        let both = [at("8.8.8.8"), at("127.0.0.2")].concat();
        for inside in [at("127.0.0.2"), both] {
            let (resolver, calls) = changing_resolver(vec![inside]);
            let open = Webhooks { resolver, ..Webhooks::new() };
            let url = url.replace("http:", "https:");
            let why = "rebound.example resolves to 127.0.0.2, which is on this machine or its network; \
                       the call was not approved for that";
            assert_eq!(ask(&open, &url).await, Err(HookFailure::Host(why.into())));
            assert_eq!(open.post(&url, Arc::from(*b"{}")).await, Err(why.into()));
            assert_eq!(calls.load(Ordering::Relaxed), 2, "once for each request");
        }
        assert!(elsewhere.try_recv().is_err());
    }

    fn check(hooks: &Webhooks, url: &str, expected: Result<(), &str>) {
        assert_eq!(hooks.admits(url), expected.map_err(str::to_owned), "{url}");
    }

    const INSIDE: &str = "it is on this machine or its network";

    #[test]
    fn s34_inside_hosts_need_the_operators_list() {
        let any = Webhooks::new();
        check(&any, "https://hooks.example.com/a", Ok(()));
        check(&any, "https://hooks.example.com:8443/a", Ok(()));
        check(&any, "http://hooks.example.com/", Err("the address must be https"));
        for url in [
            "https://localhost/",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:7f00:1]/",
            "https://[::ffff:a9fe:a9fe]/",
            "https://169.254.169.254/latest",
            "https://10.0.0.7/",
            "https://metadata.google.internal/",
            "https://printer/",
        ] {
            check(&any, url, Err(INSIDE));
        }
    }

    #[test]
    fn l18_only_listed_hosts_are_posted_to() {
        let some = Webhooks::only(["Hooks.example.com", "localhost:8443", "[::1]", "10.0.0.7"]);
        let some = some.unwrap();
        let unlisted = Err("it is not on the operator's list");
        check(&some, "https://hooks.example.com/a", Ok(()));
        check(&some, "https://HOOKS.example.com.:8443/a", Ok(()));
        check(&some, "https://localhost:8443/", Ok(()));
        check(&some, "https://localhost/", unlisted);
        check(&some, "https://[::1]:9/", Ok(()));
        check(&some, "https://10.7/", Ok(()));
        check(&some, "https://example.com/", unlisted);
        check(&some, "https://127.0.0.1:8443/", unlisted);
        check(&Webhooks::only([]).unwrap(), "https://hooks.example.com/", unlisted);
        check(&Webhooks::only(["a.example:443"]).unwrap(), "https://a.example/", Ok(()));
        for wrong in
            ["", "a b", "https://a.example", "a.example/x", "*", "*.a.example", "u@a.example"]
        {
            assert!(Webhooks::only([wrong]).is_err(), "{wrong}");
        }
    }

    /// The resolved addresses count, not the form of the name.
    #[tokio::test]
    async fn s34_name_that_resolves_inside_is_refused() {
        let address = Address::parse("https://rebound.example/").unwrap();
        for ip in ["127.0.0.1", "169.254.169.254", "10.1.2.3", "::1", "::ffff:127.0.0.1", "fd00::1"]
        {
            let found = [std::net::SocketAddr::new(ip.parse().unwrap(), 443)];
            assert!(address.check_resolved(&found, Zone::Network).is_err(), "{ip}");
        }
    }
}
