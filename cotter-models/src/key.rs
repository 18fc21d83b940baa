//! API keys: values that are sent to their provider and never shown.

use std::fmt;

/// A provider's key. It has no `Display`, and its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, trimmed: pasted keys often carry white space.
    pub fn new(key: impl AsRef<str>) -> Self {
        ApiKey(key.as_ref().trim().to_owned())
    }

    /// The key itself. Only for sending it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([redacted])")
    }
}
