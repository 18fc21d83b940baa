//! Type-erased handlers of a point. This is the only file with `dyn` handlers.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use globset::GlobSet;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    history::ledger::HandlerId,
    hooks::{
        handler::{At, HandlerFailure},
        points::{Point, PointId},
    },
    permission::{origin::Owner, verdict::Power},
};

/// The future of a handler.
pub(crate) type HandlerFuture<R> = Pin<Box<dyn Future<Output = Result<R, HandlerFailure>> + Send>>;

type SyncHandlerFn<P, R> =
    dyn Fn(&<P as Point>::Event, &Cx) -> Result<R, HandlerFailure> + Send + Sync;
type AsyncHandlerFn<P, R> = dyn Fn(At<P>) -> HandlerFuture<R> + Send + Sync;

/// A handler without its concrete type.
#[doc(hidden)]
pub enum HandlerFn<P: Point, R> {
    /// Answers at once: no future, no allocation, no timer.
    Ready(Box<SyncHandlerFn<P, R>>),
    /// Answers through a future.
    Later(Box<AsyncHandlerFn<P, R>>),
}

/// The description of a handler: everything but its code.
#[derive(Clone, Debug)]
pub(crate) struct HandlerMeta {
    pub(crate) id: HandlerId,
    pub(crate) name: SmolStr,
    /// True if the name was given explicitly, not derived from the function.
    pub(crate) has_given_name: bool,
    pub(crate) description: SmolStr,
    /// The behaviour of the handler as its file declares it; empty if the handler is code of the program.
    pub(crate) definition: SmolStr,
    pub(crate) owner: Owner,
    pub(crate) point: PointId,
    pub(crate) power: Power,
    pub(crate) limit: Duration,
    pub(crate) tools: Option<ToolFilter>,
    pub(crate) detached: bool,
    /// True if a run of this handler is recorded only if it answers more than "pass" or fails.
    pub(crate) quiet: bool,
    /// True if the answer depends on the event alone and the handler changes nothing.
    pub(crate) pure: bool,
    /// True if the handler is an external hook. Each of its runs is recorded.
    pub(crate) is_external: bool,
    /// True if a transform runs concurrently with adjacent transforms that set this too.
    pub(crate) is_concurrent: bool,
}

impl HandlerMeta {
    pub(crate) fn matches(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|filter| filter.set.is_match(tool))
    }

    /// True if both handlers belong to one hook: its transform and its gate.
    pub(crate) fn is_same_hook(&self, other: &HandlerMeta) -> bool {
        self.point == other.point
            && self.name == other.name
            && self.owner.is_same_unit(&other.owner)
    }

    /// True if `other` guards at least as much as `self`, judged by the descriptions of both.
    pub(crate) fn is_covered_by(&self, other: &HandlerMeta) -> bool {
        let covers = |ours: &ToolFilter, theirs: &ToolFilter| {
            ours.globs.iter().all(|glob| theirs.globs.contains(glob))
        };
        let as_wide = match (&self.tools, &other.tools) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(ours), Some(theirs)) => covers(ours, theirs),
        };
        self.name == other.name
            && self.point == other.point
            && self.power == other.power
            && self.definition == other.definition
            && as_wide
    }
}

/// The globs that limit a handler to some tools, and their compiled set.
#[derive(Clone)]
pub(crate) struct ToolFilter {
    pub(crate) globs: Vec<String>,
    pub(crate) set: GlobSet,
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.globs.fmt(f)
    }
}

/// A handler bound to its point.
pub(crate) struct BoundHandler<P: Point, R> {
    pub(crate) meta: Arc<HandlerMeta>,
    pub(crate) func: Arc<HandlerFn<P, R>>,
}

/// The handlers of one point, grouped by power. Each list is ordered by origin, then by registration.
pub struct Chain<P: Point> {
    pub(crate) transforms: Vec<Arc<BoundHandler<P, P::Change>>>,
    pub(crate) gates: Vec<Arc<BoundHandler<P, P::Verdict>>>,
    pub(crate) answers: Vec<Arc<BoundHandler<P, P::Answer>>>,
    pub(crate) observers: Vec<Arc<BoundHandler<P, ()>>>,
}

impl<P: Point> Default for Chain<P> {
    fn default() -> Self {
        Chain { transforms: vec![], gates: vec![], answers: vec![], observers: vec![] }
    }
}

impl<P: Point> Chain<P> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the chain contains the handler `id`.
    pub(crate) fn has(&self, id: HandlerId) -> bool {
        fn any<P: Point, R>(bounds: &[Arc<BoundHandler<P, R>>], id: HandlerId) -> bool {
            bounds.iter().any(|bound| bound.meta.id == id)
        }
        any(&self.transforms, id)
            || any(&self.gates, id)
            || any(&self.answers, id)
            || any(&self.observers, id)
    }

    pub(crate) fn len(&self) -> usize {
        self.transforms.len() + self.gates.len() + self.answers.len() + self.observers.len()
    }

    /// Returns a chain with only the handlers for which `keep` is true.
    pub(crate) fn filtered(&self, keep: impl Fn(&HandlerMeta) -> bool) -> Self {
        fn select<P: Point, R>(
            from: &[Arc<BoundHandler<P, R>>],
            keep: &impl Fn(&HandlerMeta) -> bool,
        ) -> Vec<Arc<BoundHandler<P, R>>> {
            from.iter().filter(|bound| keep(&bound.meta)).cloned().collect()
        }
        Chain {
            transforms: select(&self.transforms, &keep),
            gates: select(&self.gates, &keep),
            answers: select(&self.answers, &keep),
            observers: select(&self.observers, &keep),
        }
    }

    /// Returns a chain with only the gates. They are asked again before a permit is made.
    pub(crate) fn gates_only(&self) -> Self {
        Chain { gates: self.gates.clone(), ..Chain::default() }
    }
}
