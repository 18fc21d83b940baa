//! Parts for testing agents and extensions without a network, a clock or a key: a scripted model, a
//! scripted person, a store that fails on demand, a diary of events, and transcripts as text. The feature
//! `provider` adds a provider on a loopback port, for code that speaks HTTP.

mod diary;
mod dice;
mod files;
mod harness;
#[cfg(feature = "provider")]
mod provider;
mod recording;
mod script;
mod session;
mod store;
mod transcript;
mod ui;

#[cfg(feature = "provider")]
pub use self::provider::{After, Answer, Cut, Dialect, LocalProvider, ReceivedRequest};
pub use self::{
    diary::{Diary, DiaryUi, nap, probe, solo, spec, working_agent},
    dice::Dice,
    files::write_files,
    harness::not_tested,
    recording::RecordingModel,
    script::{ScriptError, ScriptedModel, Step},
    session::{ending, fresh},
    store::{Fault, FaultyStore},
    transcript::{shown_event, shown_events, transcript},
    ui::{PersonAnswer, ScriptedUi},
};
