//! The core from outside, through its public API only.

mod long_sessions;
mod conformance;
mod loops;
