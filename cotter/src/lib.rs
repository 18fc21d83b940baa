//! Cotter: an agent runtime built round one extension layer.
//!
//! An agent is a model in a loop with tools. Hooks at every moment of the loop can watch it, steer
//! it, ask before it acts and stop it; a permission floor stands under all of them; the ledger shows
//! afterwards what happened and why. The library prints nothing, reads no environment variable and
//! finds no home directory: callers pass things in.
//!
//! The modules stand in the order of a turn.

pub mod points;
pub mod ext;
mod cx;
mod agent;
pub mod session;
pub mod message;
mod messages;
mod run;
mod turn;
mod scene;
pub mod model;
pub mod tool;
pub mod permission;
pub mod builtin;
mod notes;
pub mod ledger;
pub mod events;
pub mod ui;
#[cfg(feature = "files")]
pub mod settings;
pub mod redact;
pub mod text;

pub use self::{
    agent::{Agent, AgentBuilder, Limits},
    cx::{Cx, Place},
    ext::{At, Origin, Owner, Registry, named},
    message::Message,
    messages::{Block, Messages},
    points::Verdict,
    run::{Reason, Reply, Run, RunError},
    session::Session,
    tool::{FnTool, Output, Permit, Tool, ToolError, ToolSpec},
};
