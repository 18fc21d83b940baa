//! Tests of the tools, by topic. `kit` is what they share.

mod kit;

mod files;
mod races;
mod fetch;
