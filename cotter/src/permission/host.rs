//! Hosts in one spelling, for rules and facts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Normalizes a host to the spelling that facts use and rules compare: lower case, without a final dot,
/// non-ASCII labels in Punycode, numbers as an address. An IPv6 address gets brackets; an IPv4-mapped IPv6
/// address becomes the IPv4 address. The port is not part of the host.
///
/// ```
/// use cotter::permission::host::host_name;
///
/// assert_eq!(host_name("Example.COM."), "example.com");
/// assert_eq!(host_name("bücher.de"), "xn--bcher-kva.de");
/// assert_eq!(host_name("0x7f.1"), "127.0.0.1");
/// assert_eq!(host_name("::FFFF:127.0.0.1"), "127.0.0.1");
/// assert_eq!(host_name("::1"), "[::1]");
/// ```
pub fn host_name(host: &str) -> String {
    let host = host.trim_end_matches('.').to_lowercase();
    match host_address(&host) {
        Some(IpAddr::V4(v4)) => v4.to_string(),
        Some(IpAddr::V6(v6)) => format!("[{v6}]"),
        None => host.split('.').map(label).collect::<Vec<_>>().join("."),
    }
}

/// Parses a host as an address in every notation that libraries accept: `127.1`, `0x7f000001`,
/// `2130706433`, `[::ffff:127.0.0.1]`.
pub fn host_address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'))?;
    if let Ok(v6) = inner.split('%').next().unwrap_or_default().parse::<Ipv6Addr>() {
        return Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4));
    }
    let number = |part: &str| -> Option<u32> {
        let (digits, radix) = match part {
            _ if part.starts_with("0x") || part.starts_with("0X") => (&part[2..], 16),
            _ if part.len() > 1 && part.starts_with('0') => (&part[1..], 8),
            _ => (part, 10),
        };
        u32::from_str_radix(digits, radix).ok()
    };
    let parts: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    let room = 32u32.checked_sub(8 * u32::try_from(first.len()).ok()?).filter(|room| *room > 0)?;
    if first.iter().any(|&part| part > 255) || u64::from(*last) >> room != 0 {
        return None;
    }
    let high = first.iter().enumerate().fold(0u32, |sum, (at, part)| sum | part << (24 - 8 * at));
    Some(IpAddr::V4(Ipv4Addr::from(high | last)))
}

/// Converts a rule's host to a glob over [`host_name`]s, with a port if the rule has one. Stars stay.
pub(crate) fn host_glob(written: &str) -> String {
    let is_glob = |text: &str| text.contains(['*', '?', '{', '}']);
    let (host, port) = match written.rsplit_once(':') {
        Some((host, port))
            if !port.is_empty()
                && port.chars().all(|c| c.is_ascii_digit() || c == '*')
                && (host.ends_with(']') || !host.contains(':')) =>
        {
            (host, format!(":{port}"))
        }
        _ => (written, String::new()),
    };
    let host = match host_address(host) {
        Some(IpAddr::V6(_)) => globset::escape(&host_name(host)),
        Some(_) => host_name(host),
        None if is_glob(host) || host.contains('[') => {
            let labels = host.to_lowercase();
            let plain = |part: &str| !is_glob(part) && !part.contains(['[', ']']);
            let labels = labels.split('.').map(|part| match plain(part) {
                true => label(part),
                false => part.to_owned(),
            });
            labels.collect::<Vec<_>>().join(".")
        }
        None => globset::escape(&host_name(host)),
    };
    host + &port
}

/// Converts one label of a name to its ASCII form.
fn label(part: &str) -> String {
    if part.is_ascii() { part.to_owned() } else { format!("xn--{}", punycode(part)) }
}

/// Encodes a label in Punycode (RFC 3492).
fn punycode(part: &str) -> String {
    const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letters: Vec<u32> = part.chars().map(u32::from).collect();
    let mut out: String = part.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(out.len()).unwrap_or(u32::MAX);
    if basic > 0 {
        out.push('-');
    }
    let (mut at, mut delta, mut bias, mut done) = (128u32, 0u32, 72u32, basic);
    while let Some(next) = letters.iter().copied().filter(|&letter| letter >= at).min() {
        delta = delta.wrapping_add((next - at).wrapping_mul(done + 1));
        at = next;
        for &letter in &letters {
            delta = delta.wrapping_add(u32::from(letter < at));
            if letter != at {
                continue;
            }
            let (mut rest, mut step) = (delta, 36u32);
            loop {
                let least = step.saturating_sub(bias).clamp(1, 26);
                let digit = if rest < least { rest } else { least + (rest - least) % (36 - least) };
                out.push(char::from(DIGITS[digit as usize]));
                if rest < least {
                    break;
                }
                (rest, step) = ((rest - least) / (36 - least), step + 36);
            }
            bias = adapt(delta, done + 1, done == basic);
            (delta, done) = (0, done + 1);
        }
        (delta, at) = (delta.wrapping_add(1), at + 1);
    }
    out
}

fn adapt(delta: u32, done: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / done;
    let mut bias = 0;
    while delta > 455 {
        delta /= 35;
        bias += 36;
    }
    bias + 36 * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_host_spellings_are_normalised() {
        for (written, name) in [
            ("EXAMPLE.com.", "example.com"),
            ("Bücher.DE", "xn--bcher-kva.de"),
            ("münchen.de", "xn--mnchen-3ya.de"),
            ("例え.jp", "xn--r8jz45g.jp"),
            ("中国", "xn--fiqs8s"),
            ("пример.рф", "xn--e1afmkfd.xn--p1ai"),
            ("127.1", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0X7F000001", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("0:0:0:0:0:0:0:1", "[::1]"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
            ("fe80::1%eth0", "[fe80::1]"),
            ("1.2.3.400", "1.2.3.400"),
            ("1.2.3.4.5", "1.2.3.4.5"),
            ("", ""),
        ] {
            assert_eq!(host_name(written), name, "{written}");
        }
    }

    #[test]
    fn s14_host_rules_are_normalised() {
        for (written, expected) in [
            ("Example.com", "example.com"),
            ("example.com:8080", "example.com:8080"),
            ("*.bücher.de", "*.xn--bcher-kva.de"),
            ("127.1:*", "127.0.0.1:*"),
            ("::1", "[[]::1[]]"),
            ("[::1]:80", "[[]::1[]]:80"),
            ("[::ffff:10.0.0.1]", "10.0.0.1"),
            ("host[ef].com", "host[ef].com"),
        ] {
            assert_eq!(host_glob(written), expected, "{written}");
        }
    }
}
