//! The one extension layer: who registers, what is registered, and how it is run.

mod chain;
mod dispatch;
mod generation;
mod handler;
mod origin;
mod registry;
mod tool_hook;

pub(crate) use self::{
    chain::{Chain, Meta},
    dispatch::{Decided, Ran, dispatch, panic_words},
    generation::{Generation, Live, ToolRow},
    handler::Clock,
};
pub use self::{
    generation::HookInfo,
    handler::{At, Failure, HandlerId, IntoHandler, Named, Settled, named},
    origin::{Origin, Owner},
    registry::{RegisterError, Registry, Reload},
    tool_hook::{Checked, ToolHook},
};
