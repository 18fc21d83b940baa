//! The core from outside, through its public API only.

mod kit;
mod long_sessions;
mod conformance;
mod points;
mod loops;
mod attempts;
mod limits;
mod aborts;
mod gates;
mod folding;
mod pipeline;
mod questions;
mod registry;
mod ledger;
mod stores;
mod damage;
mod crash;
mod structure;
