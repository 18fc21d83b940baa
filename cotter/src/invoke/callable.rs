//! A handler that is called by name: the function of a directive hook, a skill, a subagent or a command. It
//! has no time limit; it ends early only if the run is cancelled.

use std::{fmt, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::hooks::{dispatch::panic_message, handler::HandlerFailure};

/// The error type of handlers that are called by name.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type CallFn<C, R> =
    dyn Fn(C) -> Pin<Box<dyn Future<Output = Result<R, HandlerFailure>> + Send>> + Send + Sync;

/// A handler without its type.
pub(crate) struct Callable<C, R>(Arc<CallFn<C, R>>);

impl<C: 'static, R: 'static> Callable<C, R> {
    /// Makes a handler from a function; `convert` turns its output into a result.
    pub(crate) fn new<F, Fut, S>(function: F, convert: S) -> Self
    where
        F: Fn(C) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        S: Fn(Fut::Output) -> Result<R, HandlerFailure> + Copy + Send + Sync + 'static,
    {
        Callable(Arc::new(move |cx| Box::pin(function(cx).map(convert))))
    }

    /// Calls the handler. A panic or a cancel is a failure of the call only.
    pub(crate) async fn call(
        &self,
        cx: C,
        cancel: &CancellationToken,
    ) -> Result<R, HandlerFailure> {
        let call = AssertUnwindSafe(async { (self.0)(cx).await }).catch_unwind();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(HandlerFailure::Cancelled),
            result = call => {
                result.unwrap_or_else(|panic| Err(HandlerFailure::Panicked(panic_message(&*panic))))
            }
        }
    }
}

impl<C, R> Clone for Callable<C, R> {
    fn clone(&self) -> Self {
        Callable(self.0.clone())
    }
}

/// Turns an error into a handler failure.
pub(crate) fn failed(error: impl fmt::Display) -> HandlerFailure {
    HandlerFailure::Error(error.to_string())
}
