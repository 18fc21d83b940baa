//! Pictures that providers can see. One that they cannot would have every further request of its
//! session refused, so words stand in its place.

use std::borrow::Cow;

use cotter::history::message::{Content, ContentPart};
use serde::{Serialize, Serializer};

const SEEN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const UNSEEN: &str = "(A picture of a kind that models cannot see.)";

/// A picture as an address that holds it, written without a copy.
pub(crate) struct DataUrl<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) data: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data:{};base64,{}", self.media_type, self.data))
    }
}

/// The content as it can be sent.
pub(crate) fn seen(content: &Content) -> Cow<'_, Content> {
    let Content::Parts(parts) = content else { return Cow::Borrowed(content) };
    let is_fine = |part: &ContentPart| match part {
        ContentPart::Image { media_type, data } => {
            SEEN.contains(&media_type.as_str()) && !data.is_empty()
        }
        _ => true,
    };
    if parts.iter().all(is_fine) {
        return Cow::Borrowed(content);
    }
    Cow::Owned(Content::Parts(parts.iter().cloned().map(as_seen).collect()))
}

fn as_seen(part: ContentPart) -> ContentPart {
    let ContentPart::Image { media_type, data } = part else { return part };
    let known = match media_type.to_ascii_lowercase().as_str() {
        "image/jpg" => Some("image/jpeg"),
        other => SEEN.into_iter().find(|known| *known == other),
    };
    match known {
        Some(known) if !data.is_empty() => ContentPart::Image { media_type: known.into(), data },
        _ => ContentPart::Text(UNSEEN.into()),
    }
}
