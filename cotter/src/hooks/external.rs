//! Hooks outside the program: an event is shown to them as JSON, and their answer is JSON too.
//!
//! [`ExternalHook`] is a command or a script; it is registered with
//! [`Registry::outside`](crate::Registry::outside) and asked by the same dispatch as every other handler.
//! A hook that changes something is asked once for its change and its verdict: the verdict is cached, and
//! is not asked for again on an equal event.

pub(crate) mod answer;
pub(crate) mod per_point;
pub(crate) mod binding;
pub(crate) mod sample;

use std::{any::Any, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    hooks::{
        handler::HandlerOptions,
        points::{Point, PointId},
    },
    permission::verdict::Power,
};

pub use crate::hooks::external::answer::{HookAnswer, HookChange, HookDecision};

/// A hook outside the program.
///
/// It is asked each time its point fires and its tools match, several at once where several calls run.
/// Its future is dropped when its limit is over or the run is aborted: whatever it started must end
/// with it. An error is its failure: a gate then blocks, an observer changes nothing.
pub trait ExternalHook: Send + Sync + 'static {
    /// Asks it.
    fn ask(&self, asked: HookRequest) -> HookFuture;
}

/// The answer of a hook, on its way.
pub type HookFuture = Pin<Box<dyn Future<Output = Result<HookAnswer, String>> + Send>>;

/// What a hook is asked.
#[derive(Clone)]
#[non_exhaustive]
pub struct HookRequest {
    /// Where it happens.
    pub point: PointId,
    /// What happens, as `docs/FORMATS.md` has it for this point.
    pub payload: Value,
    /// The surroundings.
    pub cx: Cx,
    /// What happens, as handlers in the program know it.
    event: Arc<dyn Any + Send + Sync>,
}

impl HookRequest {
    /// What happens at a point, as handlers in the program know it; nothing at another point.
    pub(crate) fn event<P: Point>(&self) -> Option<&P::Event> {
        self.event.downcast_ref()
    }
}

/// What is said about a hook when it is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalHookSpec {
    /// Its name. Without one it is named after its point.
    pub name: Option<SmolStr>,
    /// What it is for.
    pub description: SmolStr,
    /// What it does, as far as its entry tells. One that is loaded again and does something else counts
    /// as another: nobody knows that it is as strict.
    pub definition: SmolStr,
    /// The tools it is limited to, as globs; `None` is all.
    pub tools: Option<Vec<String>>,
    /// How long it may take; `None` is what its point allows.
    pub limit: Option<Duration>,
    /// The most it may do; `None` is the most that its point and its owner allow.
    pub power: Option<Power>,
    /// Whether nobody waits for it, which makes an observer of it.
    pub detached: bool,
}

impl ExternalHookSpec {
    /// The options of a handler that asks this hook.
    pub(crate) fn options(&self) -> HandlerOptions {
        HandlerOptions {
            name: self.name.clone(),
            description: self.description.clone(),
            definition: self.definition.clone(),
            tools: self.tools.clone(),
            limit: self.limit,
            outside: true,
            ..HandlerOptions::default()
        }
    }
}
