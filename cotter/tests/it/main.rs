//! The core from outside, through its public API only.

mod conformance;
mod loops;
