//! External hooks: they get the event as JSON and answer with JSON.
//!
//! An [`ExternalHook`] is a command or a script. It is registered with
//! [`Registry::register_external`](crate::Registry::register_external) and runs in the same dispatch as every other handler. A
//! hook that changes something is asked once for its change and its verdict. The verdict is cached and reused
//! for an equal event.

pub(crate) mod answer;
pub(crate) mod refusal;
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
/// The hook is asked each time its point fires and its tools match; concurrent calls ask it concurrently. Its
/// future is dropped when its limit is over or the run is aborted: everything that the future started must
/// end with it. An error is a failure of the hook: a gate then blocks, an observer changes nothing.
pub trait ExternalHook: Send + Sync + 'static {
    /// Asks the hook.
    fn ask(&self, request: HookRequest) -> HookFuture;
}

/// The future of a hook's answer.
pub type HookFuture = Pin<Box<dyn Future<Output = Result<HookAnswer, String>> + Send>>;

/// The request to a hook.
#[derive(Clone)]
#[non_exhaustive]
pub struct HookRequest {
    /// The point that fires.
    pub point: PointId,
    /// The event as JSON, as `docs/FORMATS.md` describes it for this point.
    pub payload: Value,
    /// The context of the event.
    pub cx: Cx,
    /// The event as handlers in the program see it.
    event: Arc<dyn Any + Send + Sync>,
}

impl HookRequest {
    /// Returns the event as handlers in the program see it; `None` at a point other than `P`.
    pub(crate) fn event<P: Point>(&self) -> Option<&P::Event> {
        self.event.downcast_ref()
    }
}

/// The description of an external hook at its registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalHookSpec {
    /// The name of the hook. Without a name, the hook is named after its point.
    pub name: Option<SmolStr>,
    /// The purpose of the hook.
    pub description: SmolStr,
    /// The behaviour of the hook, as its entry declares it. A hook that is reloaded with another definition
    /// counts as a different hook, because it may be less strict.
    pub definition: SmolStr,
    /// The globs of the tools that the hook is limited to; `None` is all tools.
    pub tools: Option<Vec<String>>,
    /// The time limit of the hook; `None` is the limit of its point.
    pub limit: Option<Duration>,
    /// The highest power of the hook; `None` is the highest power that its point and its owner allow.
    pub power: Option<Power>,
    /// True if the run does not wait for the hook. The hook is then an observer.
    pub detached: bool,
}

impl ExternalHookSpec {
    /// Returns the options of a handler that asks this hook.
    pub(crate) fn options(&self) -> HandlerOptions {
        HandlerOptions {
            name: self.name.clone(),
            description: self.description.clone(),
            definition: self.definition.clone(),
            tools: self.tools.clone(),
            limit: self.limit,
            is_external: true,
            ..HandlerOptions::default()
        }
    }
}
