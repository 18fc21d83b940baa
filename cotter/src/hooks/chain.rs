//! What a point's handlers look like once their types are gone. The only file with `dyn` handlers.

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

/// A handler's future.
pub(crate) type HandlerFuture<R> = Pin<Box<dyn Future<Output = Result<R, HandlerFailure>> + Send>>;

type SyncHandlerFn<P, R> =
    dyn Fn(&<P as Point>::Event, &Cx) -> Result<R, HandlerFailure> + Send + Sync;
type AsyncHandlerFn<P, R> = dyn Fn(At<P>) -> HandlerFuture<R> + Send + Sync;

/// A handler without its type.
#[doc(hidden)]
pub enum HandlerFn<P: Point, R> {
    /// Answers at once: no future, no allocation, no timer.
    Ready(Box<SyncHandlerFn<P, R>>),
    /// Answers later.
    Later(Box<AsyncHandlerFn<P, R>>),
}

/// What is known of a handler besides its code.
#[derive(Clone, Debug)]
pub(crate) struct HandlerMeta {
    pub(crate) id: HandlerId,
    pub(crate) name: SmolStr,
    /// Whether the name was given rather than derived.
    pub(crate) named: bool,
    pub(crate) description: SmolStr,
    /// What it does, as far as a file tells; empty where its code is the program's.
    pub(crate) definition: SmolStr,
    pub(crate) owner: Owner,
    pub(crate) point: PointId,
    pub(crate) power: Power,
    pub(crate) limit: Duration,
    pub(crate) tools: Option<ToolFilter>,
    pub(crate) detached: bool,
    /// Whether it is asked about everything, so that its having nothing to say goes without saying.
    pub(crate) quiet: bool,
    /// Whether it only looks at what it is given.
    pub(crate) pure: bool,
    /// Whether it is outside the program: what it does is put on record wherever it is asked.
    pub(crate) outside: bool,
    /// Whether, as a transform, it is asked at the same time as those of its kind next to it.
    pub(crate) beside: bool,
}

impl HandlerMeta {
    pub(crate) fn matches(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|filter| filter.set.is_match(tool))
    }

    /// Whether both are sides of one hook: what it may change, and what it says of what others changed.
    pub(crate) fn is_side_of(&self, other: &HandlerMeta) -> bool {
        self.point == other.point && self.name == other.name && self.owner.is(&other.owner)
    }

    /// Whether `other` guards at least what this one does, as far as a description tells.
    pub(crate) fn guards_as(&self, other: &HandlerMeta) -> bool {
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

/// The globs a handler is limited to, and the same compiled.
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

/// The handlers of one point, by power, each list by origin and then by registration.
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

    /// Whether it has that handler.
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

    /// The same chain with those handlers only whose description fits.
    pub(crate) fn filtered(&self, keep: impl Fn(&HandlerMeta) -> bool) -> Self {
        fn kept<P: Point, R>(
            from: &[Arc<BoundHandler<P, R>>],
            keep: &impl Fn(&HandlerMeta) -> bool,
        ) -> Vec<Arc<BoundHandler<P, R>>> {
            from.iter().filter(|bound| keep(&bound.meta)).cloned().collect()
        }
        Chain {
            transforms: kept(&self.transforms, &keep),
            gates: kept(&self.gates, &keep),
            answers: kept(&self.answers, &keep),
            observers: kept(&self.observers, &keep),
        }
    }

    /// Only the gates: what is asked again before a permit.
    pub(crate) fn gates_only(&self) -> Self {
        Chain { gates: self.gates.clone(), ..Chain::default() }
    }
}
