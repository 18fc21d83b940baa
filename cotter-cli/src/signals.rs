//! The effect of SIGINT, SIGTERM and SIGHUP.
//!
//! Until the first [`SignalGuard`], signals have their default action: they end the process. From then on a
//! thread of its own receives them, so that no computation and no blocked write delays them:
//!
//! - While a guard exists, the first signal cancels its token. The second ends the process at once.
//! - While no guard exists, a signal ends the process at once, with the exit code of the default action.

use std::{
    io, process,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// The exit code of an aborted run.
pub(crate) const ABORTED: u8 = 130;

/// The time that work without a run has to end after the first signal.
const GRACE: Duration = Duration::from_secs(1);

/// The current guard.
static GUARDED: Mutex<Option<Guarded>> = Mutex::new(None);

/// The error of the thread's start, if it failed.
static STARTED: OnceLock<Result<(), CliError>> = OnceLock::new();

struct Guarded {
    cancel: CancellationToken,
    end: OrderlyEnd,
}

/// The time that guarded work has to end after the first signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderlyEnd {
    /// A run closes its session and ends its processes, which takes as long as its hooks do.
    Unlimited,
    /// Other work ends within [`GRACE`], or is cut off.
    Limited,
}

/// Lets the first signal cancel a token instead of ending the process, until the guard is dropped.
///
/// Guards do not nest: a new guard replaces the earlier one.
pub(crate) struct SignalGuard(());

impl SignalGuard {
    /// Guards a run. It may take any time to end after the first signal.
    pub(crate) fn of_run(cancel: CancellationToken) -> Result<Self, CliError> {
        SignalGuard::new(cancel, OrderlyEnd::Unlimited)
    }

    /// Guards work that has something to tidy up. It is cut off one second after the first signal.
    pub(crate) fn of_work(cancel: CancellationToken) -> Result<Self, CliError> {
        SignalGuard::new(cancel, OrderlyEnd::Limited)
    }

    fn new(cancel: CancellationToken, end: OrderlyEnd) -> Result<Self, CliError> {
        // The guard exists before signals lose their default action, so that none falls between.
        set_guarded(Some(Guarded { cancel, end }));
        let guard = SignalGuard(());
        STARTED.get_or_init(start_thread).clone().map(|()| guard)
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        set_guarded(None);
    }
}

/// Runs `work` until it ends or a signal aborts it. `message` is the error for an abort.
pub(crate) async fn or_abort_on_signal<T>(
    work: impl Future<Output = Result<T, CliError>>,
    message: &str,
) -> Result<T, CliError> {
    let cancel = CancellationToken::new();
    let _guard = SignalGuard::of_work(cancel.clone())?;
    tokio::select! {
        done = work => done,
        () = cancel.cancelled() => Err(CliError::aborted(message)),
    }
}

fn set_guarded(guarded: Option<Guarded>) {
    *GUARDED.lock().unwrap_or_else(PoisonError::into_inner) = guarded;
}

fn start_thread() -> Result<(), CliError> {
    let cannot = |cause: io::Error| CliError::new("cannot listen for signals").with_cause(cause);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let signals = listen(&runtime).map_err(cannot)?;
    let receive = move || runtime.block_on(receive_signals(signals));
    thread::Builder::new().name("signals".into()).spawn(receive).map_err(cannot)?;
    Ok(())
}

/// From here on, the signals have no default action.
fn listen(runtime: &Runtime) -> io::Result<[Signal; 3]> {
    let _context = runtime.enter();
    Ok([
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ])
}

async fn receive_signals([mut interrupt, mut terminate, mut hangup]: [Signal; 3]) {
    loop {
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        match &*GUARDED.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(guarded) if !guarded.cancel.is_cancelled() => {
                guarded.cancel.cancel();
                if guarded.end == OrderlyEnd::Limited {
                    tokio::spawn(end_after_grace());
                }
            }
            Some(_) => process::exit(ABORTED.into()),
            None => process::exit(128 + kind.as_raw_value()),
        }
    }
}

async fn end_after_grace() {
    tokio::time::sleep(GRACE).await;
    process::exit(ABORTED.into())
}
