//! Recognises pictures by their first bytes: a provider refuses other data marked as a picture, and
//! every later request with it. The size limit is the agent's own limit on results.

use cotter::history::message::ContentPart;

/// The first characters of pictures in base64.
const KINDS: [(&str, &str); 4] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
];

/// The kind of a picture in base64; `None` if models do not take it.
pub(crate) fn kind(data: &str) -> Option<&'static str> {
    let (_, kind) = KINDS.iter().find(|(begin, _)| data.starts_with(begin))?;
    // Audio uses the same container.
    let is_sound = *kind == "image/webp" && data.get(12..16) != Some("RUJQ");
    (!is_sound).then_some(*kind)
}

/// Bytes as a picture with its kind, if they are one.
pub(crate) fn of(bytes: &[u8]) -> Option<(ContentPart, &'static str)> {
    let ContentPart::Image { data, .. } = ContentPart::picture("", &bytes[..bytes.len().min(18)])
    else {
        return None;
    };
    let kind = kind(&data)?;
    Some((ContentPart::picture(kind, bytes), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_kind_is_found_by_its_first_bytes() {
        let kind = |bytes: &[u8]| of(bytes).map(|(_, kind)| kind);
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n...."), Some("image/png"));
        assert_eq!(kind(b"\xff\xd8\xff\xe0...."), Some("image/jpeg"));
        assert_eq!(kind(b"GIF89a...."), Some("image/gif"));
        assert_eq!(kind(b"RIFF\x01\x02\x03\x04WEBPVP8 "), Some("image/webp"));
        for none in [&b"RIFF\x01\x02\x03\x04WAVEfmt "[..], b"<html>", b"", b"\x89PNG", b"<svg/>"] {
            assert_eq!(kind(none), None, "{none:?}");
        }
    }
}
