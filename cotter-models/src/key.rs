//! Keys: values that are sent to their provider and shown to nobody.

use std::fmt;

/// A provider's key. It has no `Display`, and its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, without the white space that comes along when one is pasted.
    pub fn new(key: impl AsRef<str>) -> Self {
        ApiKey(key.as_ref().trim().to_owned())
    }

    /// The key itself, for whoever sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([redacted])")
    }
}
