//! The address of the local provider, and the proxies to providers, from the usual environment variables.

use std::net::IpAddr;

use cotter_models::Http;

use crate::{error::CliError, paths};

/// Returns the address that `OLLAMA_HOST` means. The value may lack a scheme, a host or a port. It may be the
/// address that a server listens on.
pub(crate) fn parse_ollama_host(host: &str) -> Result<String, String> {
    let host = host.trim().trim_matches(['"', '\'']);
    let (scheme, rest) = host.split_once("://").unwrap_or(("", host));
    let (host_and_port, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, port) = match host_and_port.rsplit_once(':') {
        // Colons inside an IPv6 address do not separate a port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (host_and_port, None),
    };
    let ip = name.trim_matches(['[', ']']).parse::<IpAddr>();
    let name = match ip {
        _ if name.is_empty() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "[::1]".to_owned(),
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => name.to_owned(),
    };
    let port = match (port, scheme) {
        (Some(port), _) => format!(":{port}"),
        (None, "") => ":11434".to_owned(),
        (None, _) => String::new(),
    };
    let scheme = if scheme.is_empty() { "http" } else { scheme };
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("v1").unwrap_or(path).trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    let url = format!("{scheme}://{name}{port}{slash}{path}/v1");
    Http::check_address(&url).map(|()| url)
}

/// The proxies that variables name.
pub(crate) struct Proxies {
    secure: Option<Proxy>,
    plain: Option<Proxy>,
    exceptions: String,
}

/// A proxy, and the variable that names it.
#[derive(Clone)]
struct Proxy {
    url: String,
    variable: String,
}

impl Proxies {
    /// Reads the proxies from the variables of this process.
    pub(crate) fn of_variables() -> Self {
        Proxies::read(paths::text_variable)
    }

    fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        let named = |name: &str| {
            let url = get(name)?.trim().to_owned();
            let url = if url.contains("://") { url } else { format!("http://{url}") };
            Some(Proxy { url, variable: name.to_owned() })
        };
        let either = |lower: &str| named(lower).or_else(|| named(&lower.to_ascii_uppercase()));
        let all = either("all_proxy");
        // Under CGI, a request header sets `HTTP_PROXY`, so only the lower-case name is trusted.
        let plain = match get("REQUEST_METHOD") {
            None => either("http_proxy"),
            Some(_) => named("http_proxy"),
        };
        let exceptions = get("no_proxy").or_else(|| get("NO_PROXY")).unwrap_or_default();
        Proxies {
            secure: either("https_proxy").or_else(|| all.clone()),
            plain: plain.or(all),
            exceptions,
        }
    }

    /// Returns the proxy for an address.
    fn of(&self, url: &str) -> Option<&Proxy> {
        let is_secure = url.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"));
        let proxy = if is_secure { &self.secure } else { &self.plain };
        proxy.as_ref().filter(|_| !Http::is_local(url))
    }

    /// Describes in words the proxy for an address.
    pub(crate) fn describe_proxy(&self, url: &str) -> Option<String> {
        let Proxy { variable, .. } = self.of(url)?;
        let except =
            if self.exceptions.is_empty() { "" } else { ", unless `NO_PROXY` excludes it" };
        Some(format!("the proxy that `{variable}` names{except}"))
    }

    /// Adds the proxy for an address to `http`.
    pub(crate) fn add_proxy(&self, url: &str, http: Http) -> Result<Http, CliError> {
        let Some(Proxy { url: proxy, variable }) = self.of(url) else { return Ok(http) };
        let kind = proxy.split_once("://").map_or("", |(kind, _)| kind);
        if !["http", "https"].contains(&kind.to_ascii_lowercase().as_str()) {
            // The rest of the value may contain a password.
            return Err(CliError::usage(format!("`{variable}` names a proxy of an unknown kind"))
                .with_hint("use `http://HOST:PORT` or `https://HOST:PORT`"));
        }
        Ok(http.with_proxy(proxy, &self.exceptions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_host_gets_default_scheme_port_and_path() {
        let cases = [
            ("localhost", "http://localhost:11434/v1"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000/v1"),
            (":5000", "http://127.0.0.1:5000/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:5000", "http://127.0.0.1:5000/v1"),
            ("http://0.0.0.0:5000", "http://127.0.0.1:5000/v1"),
            ("[::]:5000", "http://[::1]:5000/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("https://models.example", "https://models.example/v1"),
            ("http://models.example/", "http://models.example/v1"),
            ("https://models.example/ollama/", "https://models.example/ollama/v1"),
            ("http://models.example:80/v1", "http://models.example:80/v1"),
            (" \"10.0.0.7\" ", "http://10.0.0.7:11434/v1"),
        ];
        for (host, url) in cases {
            assert_eq!(parse_ollama_host(host).as_deref(), Ok(url), "{host}");
        }
        for host in ["ftp://x", "localhost:port", "http://a b"] {
            assert!(parse_ollama_host(host).is_err(), "{host}");
        }
    }

    /// Returns the route to an address with these variables: the proxy's variable and the exceptions.
    fn route(variables: &[(&str, &str)], url: &str) -> String {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxies = Proxies::read(get);
        let https = url.starts_with("https:");
        let proxy = if https { &proxies.secure } else { &proxies.plain };
        match proxies.add_proxy(url, Http::new()) {
            Err(failure) => failure.message().to_owned(),
            Ok(_) if Http::is_local(url) => "direct".into(),
            Ok(_) => proxy.as_ref().map_or("direct".into(), |proxy| {
                format!("{} by {} but for {:?}", proxy.url, proxy.variable, proxies.exceptions)
            }),
        }
    }

    #[test]
    fn proxy_is_chosen_by_the_usual_variables() {
        let (far, plain) = ("https://x.example", "http://x.example");
        let check = |variables: &[(&str, &str)], url: &str, expected: &str| {
            assert_eq!(route(variables, url), expected, "{variables:?} {url}");
        };
        check(&[], far, "direct");
        let secure = [("HTTPS_PROXY", "http://p:1")];
        check(&secure, far, "http://p:1 by HTTPS_PROXY but for \"\"");
        check(&secure, plain, "direct");
        check(&secure, "https://127.0.0.1:1", "direct");
        check(
            &[("https_proxy", "p:1"), ("HTTPS_PROXY", "http://q"), ("NO_PROXY", "a,b")],
            far,
            "http://p:1 by https_proxy but for \"a,b\"",
        );
        check(&[("ALL_PROXY", "http://p")], plain, "http://p by ALL_PROXY but for \"\"");
        check(&[("HTTP_PROXY", "http://p")], plain, "http://p by HTTP_PROXY but for \"\"");
        check(&[("HTTP_PROXY", "http://p"), ("REQUEST_METHOD", "GET")], plain, "direct");
        let unknown = "`ALL_PROXY` names a proxy of an unknown kind";
        check(&[("ALL_PROXY", "socks5://me:hush@p")], far, unknown);
        check(&[("ALL_PROXY", "socks5://p")], "http://localhost:1", "direct");
    }
}
