//! Parts for testing agents and extensions without a network, a clock or a key: a model that says
//! what it was told to say, a person who answers what they were told to answer, a store that fails
//! when it should, and transcripts as text. With the feature `provider` also a provider on a loopback
//! port, for what speaks HTTP.

mod harness;
#[cfg(feature = "provider")]
mod provider;
mod recording;
mod script;
mod store;
mod transcript;
mod ui;

#[cfg(feature = "provider")]
pub use self::provider::{After, Answer, Cut, Dialect, LocalProvider, Received};
pub use self::{
    harness::not_tested,
    recording::Recording,
    script::{ScriptError, Scripted, Step},
    store::{Fault, FaultyStore},
    transcript::{shown_event, shown_events, transcript},
    ui::{Said, ScriptedUi},
};
