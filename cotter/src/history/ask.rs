//! ask

use crate::hooks::handler::HandlerId;
use serde::Serialize;
use smol_str::SmolStr;

/// Somebody who wants a call asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AskReason {
    /// A hook, a rule, the zone or the mode.
    pub by: SmolStr,
    /// Why.
    pub reason: String,
    /// The hook, where it is one: two may share a name.
    #[serde(skip)]
    pub(crate) hook: Option<HandlerId>,
}
