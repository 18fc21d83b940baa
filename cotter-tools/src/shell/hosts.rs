//! Hosts in words of commands: from addresses, as far as all programs read them alike. Pure.

use std::net::Ipv6Addr;

use cotter::permission::host::host_name;

pub(crate) use crate::fetch::address::zone_of;

/// The target of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressTarget {
    /// A host.
    To(String),
    /// A host, if all programs read the characters alike.
    Perhaps(String),
    /// A file of this machine.
    File(String),
    /// Unclear from the spelling.
    Unclear,
}

/// Schemes of programs that fetch, also with a single slash.
const SCHEMES: [&str; 28] = [
    "dict", "file", "ftp", "ftps", "gopher", "gophers", "http", "https", "imap", "imaps", "ldap",
    "ldaps", "mqtt", "mqtts", "pop3", "pop3s", "rtmp", "rtmps", "rtsp", "scp", "sftp", "smb",
    "smbs", "smtp", "smtps", "telnet", "tftp", "ws",
];

/// Characters that make several addresses of one, for a program with its own globs.
const GLOBS: [char; 4] = ['{', '}', '[', ']'];

/// The target of an address, with or without a scheme: `https://a/b`, `user@host:path`,
/// `host:80/x`.
pub(crate) fn target_of(address: &str) -> AddressTarget {
    let (scheme, rest) = match address.split_once("://") {
        // Further on it is part of a path.
        Some((before, _)) if before.contains(['/', '?', '#']) => ("", address),
        Some((scheme, rest)) => (scheme, rest),
        None => ("", address),
    };
    if !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return AddressTarget::Unclear;
    }
    if scheme.eq_ignore_ascii_case("file") {
        let path = &rest[rest.find('/').unwrap_or(rest.len())..];
        let spelled = path.contains(GLOBS) || path.contains(['%', '?', '#']);
        return if spelled { AddressTarget::Unclear } else { AddressTarget::File(path.to_owned()) };
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (user, authority) = rest[..end].rsplit_once('@').unwrap_or(("", &rest[..end]));
    let plain_user = |c: char| c.is_alphanumeric() || "-._~:%+!".contains(c);
    match host(authority) {
        Some(host) if user.chars().all(plain_user) => {
            let is_scheme = SCHEMES.contains(&host.to_ascii_lowercase().as_str());
            if scheme.is_empty() && is_scheme && authority.contains(':') {
                return AddressTarget::Unclear;
            }
            let name = host_name(host);
            if host.is_ascii() { AddressTarget::To(name) } else { AddressTarget::Perhaps(name) }
        }
        _ => AddressTarget::Unclear,
    }
}

/// The host of `host`, `host:port`, `[::1]:port` or `host:path`.
fn host(authority: &str) -> Option<&str> {
    if authority.parse::<Ipv6Addr>().is_ok() {
        return Some(authority);
    }
    if let Some(inner) = authority.strip_prefix('[') {
        let (inner, after) = inner.split_once(']')?;
        let (address, zone) = inner.split_once('%').unwrap_or((inner, ""));
        let port = after.strip_prefix(':').unwrap_or(after);
        let is_valid = address.parse::<Ipv6Addr>().is_ok()
            && zone.chars().all(|c| c.is_ascii_alphanumeric())
            && (after.is_empty() || after.starts_with(':'))
            && port.chars().all(|c| c.is_ascii_digit());
        return is_valid.then_some(inner);
    }
    let host = authority.split(':').next().unwrap_or_default();
    let plain = |c: char| c.is_alphanumeric() || "-._".contains(c);
    let is_valid = !host.is_empty() && host.chars().all(plain) && !authority.contains(GLOBS);
    is_valid.then_some(host)
}

#[cfg(test)]
mod tests {
    use cotter::permission::Zone;

    use super::*;

    #[test]
    fn hosts_are_extracted_from_addresses() {
        let check = |address: &str, host: &str| {
            assert_eq!(target_of(address), AddressTarget::To(host.into()), "{address}")
        };
        check("https://example.com/a?b=c", "example.com");
        check("example.com:8080/x", "example.com");
        check("https://user:pass@Example.COM.:443", "example.com");
        check("https://good.com@evil.com/", "evil.com");
        check("git@github.com:a/b.git", "github.com");
        check("http://[::1]:80/", "[::1]");
        check("::1", "[::1]");
        check("http://127.1/", "127.0.0.1");
        check("http://0x7f000001", "127.0.0.1");
        check("http://[::ffff:127.0.0.1]/", "127.0.0.1");
        check("http://[fe80::1%eth0]/", "[fe80::1]");
        check("example.com/?u=http://127.0.0.1/", "example.com");
        check("https://user:p%40ss@example.com", "example.com");
        assert_eq!(
            target_of("https://bücher.de/"),
            AddressTarget::Perhaps("xn--bcher-kva.de".into())
        );
        assert_eq!(target_of("file:///etc/passwd"), AddressTarget::File("/etc/passwd".into()));
    }

    #[test]
    fn s14_ambiguous_addresses_have_an_unknown_host() {
        for address in [
            "https://$host/",
            "http://{a,b}.com/",
            "http://{example.com/a,127.0.0.1/b}",
            "{http://example.com/,http://127.0.0.1/}",
            "[h-h]ttp://127.0.0.1/",
            "http://example.com:{80/,@127.0.0.1/}",
            "http://example.com{/,@127.0.0.1/}",
            "http://[1-1]27.0.0.1/",
            "http://[l-l]ocalhost/",
            "http://[::1]x/",
            "http://[::1]:{80,81}/",
            "http://127.0.0.%31/",
            "http://loc%61lhost/",
            "http:/127.0.0.1:18999/x",
            "HTTPS:/localhost",
            "http:localhost",
            "http:///127.0.0.1/",
            "https://evil.com\\@good.com/",
            "http://a@b@c/",
            "http://a;@b/",
            "file:///p/.en[v-v]",
            "file:///p/%2eenv",
            "file:/etc/passwd",
        ] {
            assert_eq!(target_of(address), AddressTarget::Unclear, "{address}");
        }
    }

    #[test]
    fn local_hosts_are_not_in_zone_network() {
        let inside = [
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
            "router.lan",
            "wiki.intranet",
            "router",
            "[::1]",
            "[64:ff9b::a00:1]",
            "[2002:7f00:1::]",
        ];
        for host in inside {
            assert_eq!(zone_of(host), Zone::Machine, "{host}");
        }
        for host in
            ["example.com", "8.8.8.8", "2606:4700::1111", "localhost.example.com", "1.2.3.4.5"]
        {
            assert_eq!(zone_of(host), Zone::Network, "{host}");
        }
    }
}
