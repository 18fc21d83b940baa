//! Token counts as servers send them.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A token count. An invalid number counts as missing: a reply is worth more than its usage.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl Count {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    pub(crate) fn of(value: &Value) -> Self {
        let as_float =
            || value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
        Count(value.as_u64().or_else(as_float))
    }

    /// The number, or zero.
    pub(crate) fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Count::of(&Value::deserialize(deserializer)?))
    }
}
