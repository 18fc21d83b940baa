//! message_change

use crate::history::message::Message;

/// What becomes of one message.
#[derive(Debug)]
#[non_exhaustive]
pub enum MessageChange {
    /// It stays.
    Keep,
    /// This goes in its place.
    Replace(Message),
    /// It is left out.
    Drop,
}
