//! Webhooks: posts what happened in a run to an https address, where a profile says so.
//!
//! The name is resolved once for each letter; every address it stands for is looked at, and the connection
//! goes to those and to no other. This machine and the network it is in are closed, but for hosts that the
//! operator lists. No redirect is followed, and nothing is read from the environment, no proxy and no cookie.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use cotter::{permission::Zone, text};
use cotter_files::profile::{PostFuture, WebhookPoster};
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap},
    redirect::Policy,
};
use rustls::ClientConfig;

use crate::fetch::{PinnedResolver, address::Address, tls, words};

/// Whether a letter may go without TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlainHttp {
    Never,
    /// Where the operator lists the host.
    Listed,
}

/// Posts to hosts that may be posted to.
#[derive(Clone, Default)]
pub struct Webhooks {
    /// The operator's list; `None` for every host of the open internet.
    listed: Option<Vec<String>>,
    /// Which certificates this machine trusts, read with the first letter.
    roots: Arc<OnceLock<Result<ClientConfig, String>>>,
    names: Resolver,
}

/// Who says what a name stands for.
#[derive(Clone)]
struct Resolver(Arc<dyn Fn(Address) -> ResolveFuture + Send + Sync>);

type ResolveFuture = Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>, String>> + Send>>;

impl Default for Resolver {
    /// This machine.
    fn default() -> Self {
        Resolver(Arc::new(|address| Box::pin(async move { address.resolve().await })))
    }
}

impl Webhooks {
    /// Posts to every host of the open internet.
    pub fn new() -> Self {
        Webhooks::default()
    }

    /// Posts to these hosts and to no other, wherever they are: `hooks.example.com`, `localhost:8443`. What
    /// is no host is an error that names it.
    pub fn only<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let listed = hosts.into_iter().map(listed).collect::<Result<_, _>>()?;
        Ok(Webhooks { listed: Some(listed), ..Webhooks::default() })
    }

    /// Whether a hook may ask this address, as far as that can be told without a name looked up: who asks one
    /// that it may not always fails. The error says why.
    pub fn may_ask(&self, url: &str) -> Result<(), String> {
        self.admitted(url, PlainHttp::Listed).map(|_| ())
    }

    /// The address, and how far a letter to it may reach.
    fn admitted(&self, url: &str, plain: PlainHttp) -> Result<(Address, Zone), String> {
        let address = Address::parse(url)?;
        let is_open = plain == PlainHttp::Listed && self.listed.is_some();
        match address.url.scheme() {
            "https" => {}
            "http" if is_open => {}
            _ if plain == PlainHttp::Listed => {
                return Err(
                    "only https addresses are asked, but for those on the operator's list".into()
                );
            }
            _ => return Err("only https addresses are posted to".into()),
        }
        let Some(listed) = &self.listed else {
            return match address.zone() {
                Zone::Network => Ok((address, Zone::Network)),
                _ => Err("it is this machine or the network it is in".into()),
            };
        };
        let (host, port) = (address.name(), address.url.port_or_known_default().unwrap_or(443));
        match listed.iter().any(|known| *known == host || *known == format!("{host}:{port}")) {
            true => Ok((address, Zone::Machine)),
            false => Err("it is not on the operator's list".into()),
        }
    }

    async fn send(self, url: String, body: Arc<[u8]>) -> Result<(), String> {
        let (address, sent) = self.sent(&url, HeaderMap::new(), body, PlainHttp::Never).await?;
        match sent.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("{} answered {status}", address.host())),
        }
    }

    /// Asks an address and gives the status and what was said, as much of it as counts: for hooks, whose
    /// addresses may be without TLS where the operator lists them.
    pub(crate) async fn ask(
        self,
        url: String,
        headers: HeaderMap,
        body: Arc<[u8]>,
        most: usize,
    ) -> Result<(u16, Vec<u8>), String> {
        let (_, mut sent) = self.sent(&url, headers, body, PlainHttp::Listed).await?;
        let mut said = vec![];
        while said.len() <= most
            && let Some(chunk) = sent.chunk().await.map_err(|cause| words(&cause.without_url()))?
        {
            said.extend_from_slice(&chunk);
        }
        said.truncate(most + 1);
        Ok((sent.status().as_u16(), said))
    }

    async fn sent(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Arc<[u8]>,
        plain: PlainHttp,
    ) -> Result<(Address, Response), String> {
        let (address, zone) = self.admitted(url, plain)?;
        let found = (self.names.0)(address.clone()).await?;
        address.admit(&found, zone)?;
        let tls = self.roots.get_or_init(|| tls(true)).clone()?;
        let client = Client::builder()
            .user_agent(concat!("cotter/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .https_only(plain == PlainHttp::Never || address.url.scheme() == "https")
            .dns_resolver(Arc::new(PinnedResolver(found)))
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|cause| words(&cause))?;
        let sent = client
            .post(address.url.clone())
            .headers(headers)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_vec())
            .send();
        let answer = sent.await.map_err(|cause| words(&cause.without_url()))?;
        Ok((address, answer))
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("listed", &self.listed).finish_non_exhaustive()
    }
}

impl WebhookPoster for Webhooks {
    fn admits(&self, url: &str) -> Result<(), String> {
        self.admitted(url, PlainHttp::Never).map(drop)
    }

    fn post(&self, url: &str, body: Arc<[u8]>) -> PostFuture {
        Box::pin(self.clone().send(url.to_owned(), body))
    }
}

/// A host as addresses have it, with a port where it has one.
fn listed(host: &str) -> Result<String, String> {
    let wrong = || format!("`{}` is no host", text::show_line(host));
    let address = Address::parse(&format!("https://{host}/")).map_err(|_| wrong())?;
    let is_all = address.url.path() == "/" && address.url.query().is_none();
    if !is_all || host.contains(['/', '#', '?', '*', ' ']) {
        return Err(wrong());
    }
    // A port that goes without saying is one all the same.
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

    /// A name that stands for another of these each time it is asked for, the last for ever; and how often it
    /// was.
    fn changing(all: Vec<Vec<SocketAddr>>) -> (Resolver, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let names = Resolver(Arc::new(move |_| {
            let at = count.fetch_add(1, Ordering::Relaxed).min(all.len() - 1);
            Box::pin(std::future::ready(Ok(all[at].clone())))
        }));
        (names, asked)
    }

    /// Answers requests on this machine with a status, and gives what they were.
    fn answering(listener: TcpListener, status: u16) -> mpsc::Receiver<String> {
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

    /// Whoever has a name answered once more, and otherwise, has it no letter sent elsewhere.
    #[tokio::test]
    async fn s34_a_letter_goes_where_its_name_led_when_it_was_looked_at() {
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = there.local_addr().unwrap().port();
        let elsewhere = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let (there, elsewhere) = (answering(there, 204), answering(elsewhere, 500));
        let at = |ip: &str| vec![SocketAddr::new(ip.parse().unwrap(), port)];
        let url = format!("http://rebound.example:{port}/hook");
        let ask = |hooks: &Webhooks, url: &str| {
            hooks.clone().ask(url.to_owned(), HeaderMap::new(), Arc::from(*b"{}"), 10)
        };
        let (names, asked) = changing(vec![at("127.0.0.1"), at("127.0.0.2")]);
        let listed = Webhooks { names, ..Webhooks::only(["rebound.example"]).unwrap() };
        assert_eq!(ask(&listed, &url).await, Ok((204, vec![])));
        assert!(there.recv().unwrap().starts_with("POST /hook HTTP/1.1\r\n"));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // On the open internet no address inside is one of them, whatever comes first.
        let both = [at("8.8.8.8"), at("127.0.0.2")].concat();
        for inside in [at("127.0.0.2"), both] {
            let (names, asked) = changing(vec![inside]);
            let open = Webhooks { names, ..Webhooks::new() };
            let url = url.replace("http:", "https:");
            let why = "rebound.example leads to 127.0.0.2, which is this machine or the network it is in; \
                       nobody was asked about that";
            assert_eq!(ask(&open, &url).await, Err(why.into()));
            assert_eq!(open.post(&url, Arc::from(*b"{}")).await, Err(why.into()));
            assert_eq!(asked.load(Ordering::Relaxed), 2, "once for each letter");
        }
        assert!(elsewhere.try_recv().is_err());
    }

    fn check(hooks: &Webhooks, url: &str, expected: Result<(), &str>) {
        assert_eq!(hooks.admits(url), expected.map_err(str::to_owned), "{url}");
    }

    const INSIDE: &str = "it is this machine or the network it is in";

    #[test]
    fn s34_hosts_inside_are_the_operators_to_list() {
        let any = Webhooks::new();
        check(&any, "https://hooks.example.com/a", Ok(()));
        check(&any, "https://hooks.example.com:8443/a", Ok(()));
        check(&any, "http://hooks.example.com/", Err("only https addresses are posted to"));
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
    fn l18_with_a_list_no_other_host_is_posted_to() {
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

    /// What a name stands for counts, and not how it looks.
    #[tokio::test]
    async fn s34_a_name_that_leads_inside_is_not_posted_to() {
        let address = Address::parse("https://rebound.example/").unwrap();
        for ip in ["127.0.0.1", "169.254.169.254", "10.1.2.3", "::1", "::ffff:127.0.0.1", "fd00::1"]
        {
            let found = [std::net::SocketAddr::new(ip.parse().unwrap(), 443)];
            assert!(address.admit(&found, Zone::Network).is_err(), "{ip}");
        }
    }
}
