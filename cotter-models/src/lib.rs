//! Models for an agent: providers over HTTP, cassettes of recorded exchanges, and [`Rehearsal`],
//! which works offline.
//!
//! [`Providers`] finds a model by name. Pass it to [`AgentBuilder::models`], so that hooks,
//! commands and subagents can name models too; its `find` is a method of the trait
//! [`ModelDirectory`]. Nothing is sent before a model is asked. Nothing is read from the
//! environment: the caller passes keys and addresses in.
//!
//! ```
//! use cotter::{Agent, model::{Model, ModelDirectory}};
//! use cotter_models::{ApiKey, Provider, Providers, ApiFormat};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let providers = Providers::new()
//!     .with(Provider::built_in("anthropic").unwrap().with_key(ApiKey::new("a key")))
//!     .with(Provider::new("lab", ApiFormat::OpenAiChat, "http://10.0.0.7:8000/v1"));
//! let model = providers.find("anthropic/claude-sonnet-5-5")?;
//! assert_eq!(model.context_window(), Some(1_000_000));
//! let agent = Agent::builder(model)
//!     .fallback(providers.find("lab/qwen3")?)
//!     .models(providers)
//!     .limits(|limits| limits.max_tokens = Some(200_000))
//!     .build()?;
//! # drop(agent);
//! # Ok(())
//! # }
//! ```
//!
//! A single model needs no `Providers`: use [`Provider::model`]. [`Http`] holds the connections;
//! models with the same [`Http`] share them. With a [`Tape`] it records exchanges, or plays them
//! back.
//!
//! [`AgentBuilder::models`]: cotter::AgentBuilder::models
//! [`ModelDirectory`]: cotter::model::ModelDirectory

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
    catalog::ModelFacts,
    http::Http,
    key::ApiKey,
    providers::{ApiFormat, BUILT_IN_PROVIDERS, BuiltInProvider, Override, Provider, Providers},
    rehearsal::Rehearsal,
};

/// The README's snippets, compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
