//! The tools from outside, through their public API only.

#![expect(clippy::unwrap_used, reason = "what cannot be had fails the test, also in its helpers")]

mod machine;
mod bash;
mod processes;
mod confine;
mod background;
