//! Classifies addresses: the open internet, or this machine and its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cotter::permission::{
    Zone,
    host::{host_address, host_name},
};
use reqwest::Url;

/// An address that may be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) url: Url,
    host: String,
}

impl Address {
    /// Parses an address; the error says why it cannot be fetched.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|cause| format!("`{text}`: {cause}"))?;
        Address::of(url)
    }

    /// Checks a parsed address, such as the target of a redirect.
    pub(crate) fn of(mut url: Url) -> Result<Self, String> {
        url.set_fragment(None);
        let host = host_name(url.host_str().unwrap_or_default());
        match () {
            () if !matches!(url.scheme(), "http" | "https") => {
                Err("only http and https addresses are fetched".into())
            }
            () if !url.username().is_empty() || url.password().is_some() => {
                Err("an address with a name or a password in it is not fetched".into())
            }
            () if host.is_empty() => Err("the address names no host".into()),
            () => Ok(Address { url, host }),
        }
    }

    /// The host for rules, with its port if one is given.
    pub(crate) fn host(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The host without its port.
    pub(crate) fn name(&self) -> String {
        self.host.clone()
    }

    /// True if another address has the same scheme, host and port.
    pub(crate) fn is_same_host(&self, other: &Address) -> bool {
        let origin = |address: &Address| {
            (
                address.url.scheme().to_owned(),
                address.host.clone(),
                address.url.port_or_known_default(),
            )
        };
        origin(self) == origin(other)
    }

    /// The zone of fetching, as far as the address itself tells.
    pub(crate) fn zone(&self) -> Zone {
        zone_of(&self.host)
    }

    /// The IP address, if the host is one.
    fn ip(&self) -> Option<IpAddr> {
        host_address(&self.host)
    }

    /// Resolves the name once.
    pub(crate) async fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let port = self.url.port_or_known_default().unwrap_or(80);
        if let Some(ip) = self.ip() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let addresses = tokio::net::lookup_host((self.host.as_str(), port)).await;
        let addresses: Vec<_> =
            addresses.map_err(|cause| format!("{} is not found: {cause}", self.host))?.collect();
        if addresses.is_empty() {
            Err(format!("{} is not found", self.host))
        } else {
            Ok(addresses)
        }
    }

    /// Checks the resolved addresses for a call of that zone. A name of the open internet must not
    /// resolve to this machine or its network: the call was not approved for that.
    pub(crate) fn check_resolved(
        &self,
        addresses: &[SocketAddr],
        zone: Zone,
    ) -> Result<(), String> {
        match addresses.iter().find(|address| is_inside(address.ip())) {
            Some(address) if zone < Zone::Machine => Err(format!(
                "{} resolves to {}, which is on this machine or its network; the call was not \
                 approved for that",
                self.host,
                address.ip()
            )),
            _ => Ok(()),
        }
    }
}

/// The zone of a host by its name: this machine and its network are `machine`, all else is
/// `network`.
pub(crate) fn zone_of(host: &str) -> Zone {
    let inside = match host_address(host) {
        Some(ip) => is_inside(ip),
        None => is_inside_by_name(host),
    };
    if inside { Zone::Machine } else { Zone::Network }
}

/// Names of this machine, of hosts near it, or of metadata services with keys.
fn is_inside_by_name(host: &str) -> bool {
    const INSIDE_SUFFIXES: [&str; 7] =
        [".localhost", ".local", ".internal", ".lan", ".home.arpa", ".intranet", ".localdomain"];
    let host = host.to_ascii_lowercase();
    !host.contains('.') || INSIDE_SUFFIXES.iter().any(|end| host.ends_with(end))
}

/// True if an address is not on the open internet.
fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_inside_v4(ip),
        IpAddr::V6(ip) => is_inside_v6(ip),
    }
}

fn is_inside_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        // This host, private networks, loopback, link-local.
        (0 | 10 | 127, ..) | (169, 254, _) | (172, 16..=31, _) | (192, 168, _) => true,
        // Networks of providers, protocols, documentation and benchmarks.
        (100, 64..=127, _) | (192, 0, 0 | 2) | (198, 18 | 19, _) => true,
        (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => true,
        // Multicast and reserved addresses.
        (224.., ..) => true,
        _ => false,
    }
}

fn is_inside_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, ..] = ip.segments();
    let octets = ip.octets();
    let v4 = |at: usize| {
        is_inside_v4(Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]))
    };
    match (a, b, c) {
        // An embedded IPv4 address: mapped, NAT64, 6to4.
        (0, 0, 0) if ip.to_ipv4_mapped().is_some() => v4(12),
        (0x64, 0xff9b, 0) if ip.segments()[2..6] == [0; 4] => v4(12),
        (0x2002, ..) => v4(2),
        // Tunnels, protocols and documentation.
        (0x2001, 0..=0x1ff | 0xdb8, _) | (0x3fff, 0..=0xfff, _) => true,
        // The other globally assigned addresses.
        (0x2000..=0x3fff, ..) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_are_recognised() {
        let inside = |text: &str| Address::parse(text).unwrap().zone() == Zone::Machine;
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1:8080/",
            "http://0177.0.0.1/",
            "http://0.0.0.0/",
            "http://localhost:3000/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://printer.local/",
            "http://metadata.google.internal/",
            "http://metadata/",
            "http://169.254.169.254/latest/meta-data",
            "http://10.1.2.3/",
            "http://172.16.0.1/",
            "http://192.168.1.1/",
            "http://100.64.0.1/",
            "http://100.100.100.200/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::a00:1]/",
            "http://[64:ff9b:1::a00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[2002:c0a8:101::1]/",
            "http://[2001:0:1::1]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://[ff02::1]/",
        ] {
            assert!(inside(text), "{text}");
        }
        for text in [
            "http://example.com/",
            "https://8.8.8.8/",
            "http://172.32.0.1/",
            "http://100.128.0.1/",
            "http://[2606:4700::1111]/",
            "http://[::ffff:8.8.8.8]/",
            "http://[64:ff9b::808:808]/",
            "http://[2002:808:808::1]/",
            "http://localhost.example.com/",
        ] {
            assert!(!inside(text), "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_a_reason() {
        let why = |text: &str| Address::parse(text).unwrap_err();
        assert_eq!(why("ftp://example.com/"), "only http and https addresses are fetched");
        assert_eq!(why("file:///etc/passwd"), "only http and https addresses are fetched");
        assert_eq!(why("javascript:alert(1)"), "only http and https addresses are fetched");
        let named = "an address with a name or a password in it is not fetched";
        assert_eq!(why("https://user@example.com/"), named);
        assert_eq!(why("https://user:pass@example.com/"), named);
        assert_eq!(why("https://example.com@evil.example/"), named);
        assert!(why("example.com").starts_with("`example.com`: "), "{}", why("example.com"));
        assert!(why("http://").starts_with("`http://`: "));
    }

    #[test]
    fn host_has_its_port() {
        let host = |text: &str| Address::parse(text).unwrap().host();
        assert_eq!(host("https://Example.COM:443/a?b#c"), "example.com");
        assert_eq!(host("http://example.com.:8080/"), "example.com:8080");
        assert_eq!(host("http://[::1]:80/"), "[::1]");
        assert_eq!(host("http://[::1]:81/"), "[::1]:81");
        assert_eq!(host("http://[::ffff:127.0.0.1]:81/"), "127.0.0.1:81");
        assert_eq!(host("https://Bücher.de/"), "xn--bcher-kva.de");
    }

    #[test]
    fn name_that_resolves_inside_is_refused() {
        let address = Address::parse("https://rebound.example/").unwrap();
        let addresses = |ips: &[&str]| -> Vec<SocketAddr> {
            ips.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 443)).collect()
        };
        assert!(
            address.check_resolved(&addresses(&["8.8.8.8", "2606:4700::1"]), Zone::Network).is_ok()
        );
        assert_eq!(
            address.check_resolved(&addresses(&["8.8.8.8", "10.0.0.7"]), Zone::Network),
            Err("rebound.example resolves to 10.0.0.7, which is on this machine or its network; the \
                 call was not approved for that"
                .into())
        );
        assert!(address.check_resolved(&addresses(&["10.0.0.7"]), Zone::Machine).is_ok());
    }
}
