//! Models for an agent: providers over HTTP, cassettes of what was said, and [`Rehearsal`], which works
//! offline.

mod key;
mod http;
mod body;
mod pictures;
mod conversation;
mod adapter;
mod failure;
mod input;
mod count;
mod plain;
mod catalog;
mod anthropic;
mod chat;
mod responses;
mod providers;
mod cassette;
mod rehearsal;

pub use self::{
    adapter::HttpModel,
    cassette::{Player, Recorder, Tape},
    catalog::Known,
    http::Http,
    key::ApiKey,
    providers::{Override, Provider, Providers, READY, Ready, Speaks},
    rehearsal::Rehearsal,
};

/// The README's snippets, compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
