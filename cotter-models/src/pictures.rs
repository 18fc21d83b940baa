//! Pictures in formats that providers take. A provider refuses a request with any other picture, so
//! such a picture is replaced by a text; otherwise every later request of the session would fail.

use std::borrow::Cow;

use cotter::history::message::{Content, ContentPart};
use serde::{Serialize, Serializer};

const SUPPORTED: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const PLACEHOLDER: &str = "(A picture of a kind that models cannot see.)";

/// A picture as a `data:` URL, written without a copy.
pub(crate) struct DataUrl<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) data: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data:{};base64,{}", self.media_type, self.data))
    }
}

/// The content with unsupported pictures replaced by a text.
pub(crate) fn replace_unsupported(content: &Content) -> Cow<'_, Content> {
    let Content::Parts(parts) = content else { return Cow::Borrowed(content) };
    let is_supported = |part: &ContentPart| match part {
        ContentPart::Image { media_type, data } => {
            SUPPORTED.contains(&media_type.as_str()) && !data.is_empty()
        }
        _ => true,
    };
    if parts.iter().all(is_supported) {
        return Cow::Borrowed(content);
    }
    Cow::Owned(Content::Parts(parts.iter().cloned().map(replace_part).collect()))
}

fn replace_part(part: ContentPart) -> ContentPart {
    let ContentPart::Image { media_type, data } = part else { return part };
    let supported = match media_type.to_ascii_lowercase().as_str() {
        "image/jpg" => Some("image/jpeg"),
        other => SUPPORTED.into_iter().find(|name| *name == other),
    };
    match supported {
        Some(supported) if !data.is_empty() => {
            ContentPart::Image { media_type: supported.into(), data }
        }
        _ => ContentPart::Text(PLACEHOLDER.into()),
    }
}
