//! Hosts in what commands are given: from addresses, and whether they lie outside at all. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cotter::permission::Zone;

/// Where an address leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// To a host.
    To(String),
    /// To a file of this machine.
    File(String),
    /// Nobody can tell from how it is written.
    Unclear,
}

/// Where an address leads, with a scheme or without: `https://a/b`, `user@host:path`, `host:80/x`.
pub(super) fn leads(address: &str) -> Leads {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    if scheme.eq_ignore_ascii_case("file") {
        return Leads::File(rest[rest.find('/').unwrap_or(rest.len())..].to_owned());
    }
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = rest[..end].rsplit('@').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Leads::Unclear;
    }
    Leads::To(host.trim_end_matches('.').to_ascii_lowercase())
}

/// How far a host is: this machine and its surroundings are the machine's own, all else is the network.
pub(super) fn zone_of(host: &str) -> Zone {
    let named =
        ["localhost", "metadata", "metadata.google.internal", "instance-data", "broadcasthost"];
    let below = [".localhost", ".local", ".internal", ".localdomain", ".home.arpa"];
    let near = named.contains(&host) || below.iter().any(|end| host.ends_with(end));
    if near || address(host).is_some_and(is_near) { Zone::Machine } else { Zone::Network }
}

/// A host as an address, in every way that libraries read one: `127.1`, `0x7f000001`, `2130706433`.
fn address(host: &str) -> Option<IpAddr> {
    let host = host.split('%').next().unwrap_or_default();
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(address));
    }
    let number = |part: &str| -> Option<u32> {
        let (digits, radix) = match part {
            _ if part.starts_with("0x") => (&part[2..], 16),
            _ if part.len() > 1 && part.starts_with('0') => (&part[1..], 8),
            _ => (part, 10),
        };
        u32::from_str_radix(digits, radix).ok()
    };
    let parts: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|&part| part > 255) {
        return None;
    }
    let high = first.iter().enumerate().fold(0u32, |sum, (at, part)| sum | part << (24 - 8 * at));
    Some(IpAddr::V4(Ipv4Addr::from(high | last)))
}

/// Whether an address is this machine's, a private network's, or has no place in the world.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                || a == 100 && (64..128).contains(&b)
        }
        IpAddr::V6(v6) => {
            let [first, ..] = v6.segments();
            let within = v6.to_ipv4_mapped().or_else(|| v6.to_ipv4().filter(|_| first == 0));
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || first & 0xfe00 == 0xfc00
                || first & 0xffc0 == 0xfe80
                || within.is_some_and(|v4| is_near(IpAddr::V4(v4)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_hosts() {
        let check = |address: &str, host: &str| {
            assert_eq!(leads(address), Leads::To(host.into()), "{address}")
        };
        check("https://example.com/a?b=c", "example.com");
        check("example.com:8080/x", "example.com");
        check("https://user:pass@Example.COM.:443", "example.com");
        check("https://good.com@evil.com/", "evil.com");
        check("https://evil.com\\@good.com/", "evil.com");
        check("git@github.com:a/b.git", "github.com");
        check("http://[::1]:80/", "::1");
        assert_eq!(leads("file:///etc/passwd"), Leads::File("/etc/passwd".into()));
        assert_eq!(leads("https://$host/"), Leads::Unclear);
        assert_eq!(leads("http://{a,b}.com/"), Leads::Unclear);
    }

    #[test]
    fn this_machine_and_its_surroundings_are_no_network() {
        let near = [
            "localhost",
            "a.localhost",
            "127.0.0.1",
            "127.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "0",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.5.5",
            "169.254.169.254",
            "100.64.0.1",
            "::1",
            "fe80::1%eth0",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "metadata.google.internal",
            "printer.local",
        ];
        for host in near {
            assert_eq!(zone_of(host), Zone::Machine, "{host}");
        }
        for host in
            ["example.com", "8.8.8.8", "2606:4700::1111", "localhost.example.com", "1.2.3.4.5"]
        {
            assert_eq!(zone_of(host), Zone::Network, "{host}");
        }
    }
}
