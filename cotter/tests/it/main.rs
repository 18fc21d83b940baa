//! The core from outside, through its public API only.

mod kit;
mod loops;
mod gates;
mod crash;
