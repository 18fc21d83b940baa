//! Hosts in one spelling, for rules and facts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Normalizes a host to the spelling that facts use and rules compare. The result is in lower case, without
/// a final dot, with non-ASCII labels in Punycode and with numbers as an address. An IPv6 address gets
/// brackets; an IPv4-mapped IPv6 address becomes the IPv4 address. The port is not part of the host.
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
        None => host.split('.').map(to_ascii_label).collect::<Vec<_>>().join("."),
    }
}

/// Parses a host as an address in every notation that libraries accept: `127.1`, `0x7f000001`,
/// `2130706433`, `[::ffff:127.0.0.1]`.
pub fn host_address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'))?;
    if let Ok(v6) = inner.split('%').next().unwrap_or_default().parse::<Ipv6Addr>() {
        return Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4));
    }
    let parse_number = |part: &str| -> Option<u32> {
        let (digits, radix) = match part {
            _ if part.starts_with("0x") || part.starts_with("0X") => (&part[2..], 16),
            _ if part.len() > 1 && part.starts_with('0') => (&part[1..], 8),
            _ => (part, 10),
        };
        u32::from_str_radix(digits, radix).ok()
    };
    let parts: Vec<u32> = host.split('.').map(parse_number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    let bits_left = 32u32
        .checked_sub(8 * u32::try_from(first.len()).ok()?)
        .filter(|bits_left| *bits_left > 0)?;
    if first.iter().any(|&part| part > 255) || u64::from(*last) >> bits_left != 0 {
        return None;
    }
    let high =
        first.iter().enumerate().fold(0u32, |sum, (index, part)| sum | part << (24 - 8 * index));
    Some(IpAddr::V4(Ipv4Addr::from(high | last)))
}

/// Converts a rule's host to a glob over [`host_name`]s, with a port if the rule has one. Stars stay.
pub(crate) fn host_glob(pattern: &str) -> String {
    let is_glob = |text: &str| text.contains(['*', '?', '{', '}']);
    let (host, port) = match pattern.rsplit_once(':') {
        Some((host, port))
            if !port.is_empty()
                && port.chars().all(|c| c.is_ascii_digit() || c == '*')
                && (host.ends_with(']') || !host.contains(':')) =>
        {
            (host, format!(":{port}"))
        }
        _ => (pattern, String::new()),
    };
    let host = match host_address(host) {
        Some(IpAddr::V6(_)) => globset::escape(&host_name(host)),
        Some(_) => host_name(host),
        None if is_glob(host) || host.contains('[') => {
            let labels = host.to_lowercase();
            let is_label = |part: &str| !is_glob(part) && !part.contains(['[', ']']);
            let labels = labels.split('.').map(|part| match is_label(part) {
                true => to_ascii_label(part),
                false => part.to_owned(),
            });
            labels.collect::<Vec<_>>().join(".")
        }
        None => globset::escape(&host_name(host)),
    };
    host + &port
}

/// Converts one label of a name to its ASCII form.
fn to_ascii_label(part: &str) -> String {
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
    let (mut code_point, mut delta, mut bias, mut handled) = (128u32, 0u32, 72u32, basic);
    while let Some(next) = letters.iter().copied().filter(|&letter| letter >= code_point).min() {
        delta = delta.wrapping_add((next - code_point).wrapping_mul(handled + 1));
        code_point = next;
        for &letter in &letters {
            delta = delta.wrapping_add(u32::from(letter < code_point));
            if letter != code_point {
                continue;
            }
            let (mut rest, mut step) = (delta, 36u32);
            loop {
                let threshold = step.saturating_sub(bias).clamp(1, 26);
                let digit = if rest < threshold {
                    rest
                } else {
                    threshold + (rest - threshold) % (36 - threshold)
                };
                out.push(char::from(DIGITS[digit as usize]));
                if rest < threshold {
                    break;
                }
                (rest, step) = ((rest - threshold) / (36 - threshold), step + 36);
            }
            bias = adapt_bias(delta, handled + 1, handled == basic);
            (delta, handled) = (0, handled + 1);
        }
        (delta, code_point) = (delta.wrapping_add(1), code_point + 1);
    }
    out
}

fn adapt_bias(delta: u32, handled: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / 700 } else { delta / 2 };
    delta += delta / handled;
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
