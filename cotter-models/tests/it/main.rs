//! Integration tests of the public API.
#![expect(clippy::too_many_lines, reason = "whole requests stand in the tests")]

mod kit;

mod anthropic;
mod attacks;
mod dialects;
mod framing;
mod http;
mod pairing;
mod chat;
mod conversations;
mod rehearsal;
mod responses;
