//! Handlers: plain functions over a shared event, or `async` functions over an owned event.
//!
//! A handler is called once each time its point fires and its tool filter matches. It cannot change the
//! event; the dispatch applies its answer. A handler fails if it returns `Err`, panics, exceeds its limit or
//! is cancelled. The effect of the failure depends on the power: a gate blocks, an observer changes nothing.

use std::{fmt, future::Future, marker::PhantomData, ops::Deref, sync::Arc, time::Duration};

use futures_util::FutureExt;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    hooks::{chain::HandlerFn, points::Point},
};

/// The event of an `async` handler: shared, read-only, cheap to clone.
pub struct At<P: Point> {
    pub(crate) event: Arc<P::Event>,
    pub(crate) cx: Cx,
}

impl<P: Point> At<P> {
    /// Returns the context: session, run, notes, cancellation.
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

/// The reason why a handler gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerFailure {
    /// The handler returned an error.
    Error(String),
    /// The handler panicked.
    Panicked(String),
    /// The handler exceeded its limit.
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The last output of an external hook, if any.
        last_output: Option<String>,
    },
    /// The run was cancelled before the handler answered.
    Cancelled,
}

impl HandlerFailure {
    /// Returns the failure's word in events and the ledger.
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
            HandlerFailure::TimedOut { limit, last_output: None } => {
                write!(f, "the hook timed out after {limit:?}")
            }
            HandlerFailure::TimedOut { limit, last_output: Some(output) } => {
                write!(f, "the hook timed out after {limit:?}; its last output: {output}")
            }
            HandlerFailure::Cancelled => {
                f.write_str("the run was cancelled before the hook answered")
            }
        }
    }
}

/// The return type of a handler: the answer itself, or a `Result` of it.
pub trait IntoAnswer<R> {
    /// Returns the answer, or the failure of the handler.
    fn into_answer(self) -> Result<R, HandlerFailure>;
}

impl<R> IntoAnswer<R> for R {
    fn into_answer(self) -> Result<R, HandlerFailure> {
        Ok(self)
    }
}

impl<R, E: fmt::Display> IntoAnswer<R> for Result<R, E> {
    fn into_answer(self) -> Result<R, HandlerFailure> {
        self.map_err(|error| HandlerFailure::Error(error.to_string()))
    }
}

/// A function that can be registered at point `P` with answers of type `R`.
///
/// Implemented for `Fn(&P::Event, &Cx) -> R` and `Fn(&P::Event) -> R`, which answer at once, for `Fn(At<P>)
/// -> impl Future<Output = R>`, and for [`NamedFn`]. `R` may also be `Result<R, E>`.
#[diagnostic::on_unimplemented(
    message = "this function cannot be a handler here",
    label = "not a handler of this point with this power",
    note = "write `fn(&Event, &Cx) -> Answer`, `fn(&Event) -> Answer` or `async fn(At<Point>) -> Answer`, with the argument types spelled out in closures"
)]
pub trait IntoHandler<P: Point, R, M>: Sized {
    /// Returns the options of the handler and its type-erased function.
    #[doc(hidden)]
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>);
}

/// Type marker: the handler takes the event and the context.
#[doc(hidden)]
pub struct SyncHandler<O>(PhantomData<O>);
/// Type marker: the handler takes the event alone.
#[doc(hidden)]
pub struct SyncEventHandler<O>(PhantomData<O>);
/// Type marker: the handler answers through a future.
#[doc(hidden)]
pub struct AsyncHandler<F, O>(PhantomData<(F, O)>);
/// Type marker: the handler has a name.
#[doc(hidden)]
pub struct NamedHandler<M>(PhantomData<M>);

impl<P, R, F, O> IntoHandler<P, R, SyncHandler<O>> for F
where
    P: Point,
    F: Fn(&P::Event, &Cx) -> O + Send + Sync + 'static,
    O: IntoAnswer<R>,
{
    fn bind(self) -> (HandlerOptions, HandlerFn<P, R>) {
        let func = HandlerFn::Ready(Box::new(move |event, cx| self(event, cx).into_answer()));
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
        let func = HandlerFn::Ready(Box::new(move |event, _| self(event).into_answer()));
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
        let func =
            HandlerFn::Later(Box::new(move |at| Box::pin(self(at).map(IntoAnswer::into_answer))));
        (HandlerOptions::for_function::<F>(), func)
    }
}

/// A handler with a name and optional settings, such as a tool filter and a limit.
#[derive(Clone, Debug)]
pub struct NamedFn<F> {
    function: F,
    options: HandlerOptions,
}

/// Names a handler for events, notes, the ledger and error messages.
pub fn named<F>(name: impl Into<SmolStr>, function: F) -> NamedFn<F> {
    let options = HandlerOptions { name: Some(name.into()), ..HandlerOptions::default() };
    NamedFn { function, options }
}

impl<F> NamedFn<F> {
    /// Limits the handler to tools whose name matches one of these globs. Without a filter it runs for every
    /// tool.
    pub fn tools<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.options.tools = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the time limit of the handler, instead of the limit of the point.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Sets the description: the purpose of the handler in one sentence.
    pub fn description(mut self, description: impl Into<SmolStr>) -> Self {
        self.options.description = description.into();
        self
    }

    /// Declares that the answer depends on the event alone and that the handler changes nothing. Such a
    /// handler also runs where a decision is only explained.
    pub fn pure(mut self) -> Self {
        self.options.pure = true;
        self
    }

    /// Omits the handler from events and the ledger, unless it answers more than "pass" or fails.
    pub fn quiet(mut self) -> Self {
        self.options.quiet = true;
        self
    }

    /// Detaches an observer from the run: the run does not wait for it, and its notes come later.
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

/// The options of a handler at its registration.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(crate) name: Option<SmolStr>,
    pub(crate) suggested_name: Option<SmolStr>,
    pub(crate) description: SmolStr,
    /// The behaviour of the handler as its file declares it.
    pub(crate) definition: SmolStr,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) limit: Option<Duration>,
    pub(crate) detached: bool,
    pub(crate) pure: bool,
    pub(crate) quiet: bool,
    /// True if the handler is an external hook: a command, a script.
    pub(crate) is_external: bool,
    /// True if a transform runs concurrently with adjacent transforms that set this too.
    pub(crate) is_concurrent: bool,
    /// True if the handler belongs to a hook whose name is already registered.
    pub(crate) is_second_handler: bool,
}

impl HandlerOptions {
    /// Takes the name from a function item; a closure has no name.
    fn for_function<F>() -> Self {
        let path = std::any::type_name::<F>();
        let last = path.rsplit("::").next().unwrap_or(path);
        let is_name = last.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        HandlerOptions { suggested_name: is_name.then(|| last.into()), ..HandlerOptions::default() }
    }
}

/// A caveat about an answer: a fact that the answer itself does not show.
#[derive(Clone, Debug)]
pub(crate) struct AnswerCaveat {
    pub(crate) kind: CaveatKind,
    pub(crate) text: Box<str>,
}

/// The kind of a caveat about an answer. Used by `cotter-files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaveatKind {
    /// The handler failed, and its failure counts as a pass.
    Failed,
    /// The handler was not started.
    NotRun,
    /// A part of the answer is ignored.
    PartIgnored,
}

impl CaveatKind {
    /// Returns the word for a handler that only passed, if this kind needs its own word.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            CaveatKind::Failed => Some("failed_passed"),
            CaveatKind::NotRun => Some("not_run"),
            CaveatKind::PartIgnored => None,
        }
    }
}
