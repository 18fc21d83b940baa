//! Handlers: plain functions over a shared event, or `async` functions over an owned one.
//!
//! A handler is called once each time its point fires and its tool filter matches. It cannot change
//! what it is shown; what it answers is carried out by the dispatch. When it returns `Err`, panics,
//! takes longer than its limit or is overtaken by a cancel, the failure counts as its power says:
//! a gate blocks, an observer changes nothing.

use std::{fmt, future::Future, marker::PhantomData, ops::Deref, sync::Arc, time::Duration};

use futures_util::FutureExt;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    hooks::{chain::HandlerFn, points::Point},
};

/// An event in the hands of an `async` handler: shared, read-only, cheap to clone.
pub struct At<P: Point> {
    pub(crate) event: Arc<P::Event>,
    pub(crate) cx: Cx,
}

impl<P: Point> At<P> {
    /// Where this happens: session, run, notes, cancel.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }
}

impl<P: Point> Clone for At<P> {
    fn clone(&self) -> Self {
        At { event: self.event.clone(), cx: self.cx.clone() }
    }
}

impl<P: Point> Deref for At<P> {
    type Target = P::Event;
    fn deref(&self) -> &P::Event {
        &self.event
    }
}

/// Why a handler gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerFailure {
    /// It said so itself.
    Error(String),
    /// It panicked.
    Panicked(String),
    /// It took longer than its limit.
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The last words of one outside the program, where it said any.
        said: Option<String>,
    },
    /// The run was cancelled before it answered.
    Cancelled,
}

impl HandlerFailure {
    /// The failure's word in events and the ledger.
    pub fn word(&self) -> &'static str {
        match self {
            HandlerFailure::Error(_) => "failed",
            HandlerFailure::Panicked(_) => "panicked",
            HandlerFailure::TimedOut { .. } => "timed_out",
            HandlerFailure::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for HandlerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandlerFailure::Error(message) => f.write_str(message),
            HandlerFailure::Panicked(message) => write!(f, "it panicked: {message}"),
            HandlerFailure::TimedOut { limit, said: None } => {
                write!(f, "the hook timed out after {limit:?}")
            }
            HandlerFailure::TimedOut { limit, said: Some(said) } => {
                write!(f, "the hook timed out after {limit:?}; its last words: {said}")
            }
            HandlerFailure::Cancelled => {
                f.write_str("the run was cancelled before the hook answered")
            }
        }
    }
}

/// What a handler may return: the answer itself, or a `Result` of it.
pub trait IntoAnswer<R> {
    /// The answer, or the failure it amounts to.
    fn settle(self) -> Result<R, HandlerFailure>;
}

impl<R> IntoAnswer<R> for R {
    fn settle(self) -> Result<R, HandlerFailure> {
        Ok(self)
    }
}

impl<R, E: fmt::Display> IntoAnswer<R> for Result<R, E> {
    fn settle(self) -> Result<R, HandlerFailure> {
        self.map_err(|error| HandlerFailure::Error(error.to_string()))
    }
}

/// Anything that can be registered at point `P` with answers of type `R`.
///
/// Implemented for `Fn(&P::Event, &Cx) -> R` and `Fn(&P::Event) -> R`, which answer at once, for
/// `Fn(At<P>) -> impl Future<Output = R>`, and for [`NamedFn`] ones. `R` may also be `Result<R, E>`.
#[diagnostic::on_unimplemented(
    message = "this function cannot be a handler here",
    label = "not a handler of this point with this power",
    note = "write `fn(&Event, &Cx) -> Answer`, `fn(&Event) -> Answer` or `async fn(At<Point>) -> Answer`, with the argument types spelled out in closures"
)]
pub trait IntoHandler<P: Point, R, M>: Sized {
    /// The handler and what was said about it.
    #[doc(hidden)]
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>);
}

/// Told by the type system: the handler takes the event and where it happens.
#[doc(hidden)]
pub struct SyncHandler<O>(PhantomData<O>);
/// Told by the type system: the handler takes the event alone.
#[doc(hidden)]
pub struct SyncEventHandler<O>(PhantomData<O>);
/// Told by the type system: the handler answers later.
#[doc(hidden)]
pub struct AsyncHandler<F, O>(PhantomData<(F, O)>);
/// Told by the type system: the handler has a name.
#[doc(hidden)]
pub struct NamedHandler<M>(PhantomData<M>);

impl<P, R, F, O> IntoHandler<P, R, SyncHandler<O>> for F
where
    P: Point,
    F: Fn(&P::Event, &Cx) -> O + Send + Sync + 'static,
    O: IntoAnswer<R>,
{
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>) {
        let func = HandlerFn::Ready(Box::new(move |event, cx| self(event, cx).settle()));
        (HandlerOptions::for_function::<F>(), func)
    }
}

impl<P, R, F, O> IntoHandler<P, R, SyncEventHandler<O>> for F
where
    P: Point,
    F: Fn(&P::Event) -> O + Send + Sync + 'static,
    O: IntoAnswer<R>,
{
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>) {
        let func = HandlerFn::Ready(Box::new(move |event, _| self(event).settle()));
        (HandlerOptions::for_function::<F>(), func)
    }
}

impl<P, R, F, O, Fut> IntoHandler<P, R, AsyncHandler<Fut, O>> for F
where
    P: Point,
    R: 'static,
    F: Fn(At<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: IntoAnswer<R> + 'static,
{
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>) {
        let func = HandlerFn::Later(Box::new(move |at| Box::pin(self(at).map(IntoAnswer::settle))));
        (HandlerOptions::for_function::<F>(), func)
    }
}

/// A handler with a name and, if wanted, a tool filter and a limit of its own.
#[derive(Clone, Debug)]
pub struct NamedFn<F> {
    function: F,
    options: HandlerOptions,
}

/// Names a handler, so that events, notes, the ledger and error messages can speak of it.
pub fn named<F>(name: impl Into<SmolStr>, function: F) -> NamedFn<F> {
    let options = HandlerOptions { name: Some(name.into()), ..HandlerOptions::default() };
    NamedFn { function, options }
}

impl<F> NamedFn<F> {
    /// Only for tools whose name matches one of these globs. Without it, for every tool.
    pub fn tools<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.options.tools = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// How long the handler may take, instead of the point's own limit.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// What the handler is for, in one sentence.
    pub fn description(mut self, description: impl Into<SmolStr>) -> Self {
        self.options.description = description.into();
        self
    }

    /// Says that it decides by what it is given and by nothing else, and changes nothing: it is asked
    /// too where a decision is only explained.
    pub fn pure(mut self) -> Self {
        self.options.pure = true;
        self
    }

    /// Leaves out of events and the ledger that it was asked, where it had nothing to say and did not
    /// fail.
    pub fn quiet(mut self) -> Self {
        self.options.quiet = true;
        self
    }

    /// Takes an observer off the path of the run: nobody waits for it, and its notes come later.
    pub fn detached(mut self) -> Self {
        self.options.detached = true;
        self
    }
}

impl<P: Point, R, M, F: IntoHandler<P, R, M>> IntoHandler<P, R, NamedHandler<M>> for NamedFn<F> {
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>) {
        (self.options, self.function.bind().1)
    }
}

/// What was said about a handler when it was registered.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(crate) name: Option<SmolStr>,
    pub(crate) suggested: Option<SmolStr>,
    pub(crate) description: SmolStr,
    /// What it does, as far as a file tells.
    pub(crate) definition: SmolStr,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) limit: Option<Duration>,
    pub(crate) detached: bool,
    pub(crate) pure: bool,
    pub(crate) quiet: bool,
    /// Whether it is outside the program: a command, a script.
    pub(crate) outside: bool,
    /// Whether it is asked together with those beside it, where it would change something.
    pub(crate) beside: bool,
    /// Whether it is another side of a handler that has the name already.
    pub(crate) second: bool,
}

impl HandlerOptions {
    /// A function item lends its own name; a closure has none.
    fn for_function<F>() -> Self {
        let path = std::any::type_name::<F>();
        let last = path.rsplit("::").next().unwrap_or(path);
        let is_name = last.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        HandlerOptions { suggested: is_name.then(|| last.into()), ..HandlerOptions::default() }
    }
}

/// What is to be said about an answer that does not tell by itself how it came about.
#[derive(Clone, Debug)]
pub(crate) struct AnswerCaveat {
    pub(crate) kind: CaveatKind,
    pub(crate) words: Box<str>,
}

/// What an answer does not say about itself. Used by `cotter-files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaveatKind {
    /// It failed, and its failure passes.
    Failed,
    /// It was not even started.
    NotRun,
    /// Some of what it said does not count.
    Unheard,
}

impl CaveatKind {
    /// The word for a handler that had nothing to say, where it needs another.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            CaveatKind::Failed => Some("failed_passed"),
            CaveatKind::NotRun => Some("not_run"),
            CaveatKind::Unheard => None,
        }
    }
}
