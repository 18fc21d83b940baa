//! The dispatch: it runs the handlers of every point. Transforms run in a chain; then gates run on the
//! transformed event; then answers; then observers. After a block, no further handler runs.

use std::{
    future::poll_fn,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::cx::Cx,
    history::ledger::HandlerRun,
    hooks::{
        chain::{BoundHandler, Chain, HandlerFn, HandlerFuture, HandlerMeta},
        clock::HandlerClocks,
        handler::{AnswerCaveat, At, CaveatKind, HandlerFailure},
        notes::NoteAuthor,
        points::{ChainStop, Point, RankedAnswer, TransformEffect},
    },
    text,
};

/// The result of running the handlers of a point on an event.
pub(crate) struct PointOutcome<P: Point> {
    /// The event after the transforms.
    pub(crate) event: Arc<P::Event>,
    /// The handlers that replaced the event, in order, each with the event before it.
    pub(crate) replaced: Vec<(Arc<HandlerMeta>, Arc<P::Event>)>,
    /// The handler that ended the chain of transforms, and the way it did.
    pub(crate) stop: Option<(Arc<HandlerMeta>, ChainStop)>,
    /// The verdicts of the gates, without passes.
    pub(crate) verdicts: Vec<(Arc<HandlerMeta>, P::Verdict)>,
    /// The answers of answering handlers, without passes.
    pub(crate) answers: Vec<(Arc<HandlerMeta>, P::Answer)>,
    /// Every handler that ran.
    pub(crate) ran: Vec<HandlerRun>,
}

/// The report of a handler's work besides its answer.
#[derive(Debug, Default)]
struct HandlerReport {
    time: Duration,
    remark: Option<Box<str>>,
    caveat: Option<AnswerCaveat>,
}

impl HandlerReport {
    /// Makes the report of a handler that answered.
    fn of(time: Duration, clock: &HandlerClocks) -> Self {
        HandlerReport { time, remark: clock.take_remark(), caveat: clock.take_caveat() }
    }

    /// True if the handler failed, whatever its answer says.
    fn failed(&self) -> bool {
        self.caveat.as_ref().is_some_and(|aside| aside.kind == CaveatKind::Failed)
    }

    /// Adds the report of a second run of the handler.
    fn and(self, again: HandlerReport) -> Self {
        HandlerReport {
            time: self.time + again.time,
            remark: again.remark.or(self.remark),
            caveat: again.caveat.or(self.caveat),
        }
    }
}

impl<P: Point> PointOutcome<P> {
    /// Makes the outcome of an event that no handler has seen.
    pub(crate) fn untouched(event: Arc<P::Event>) -> Self {
        PointOutcome {
            event,
            replaced: vec![],
            stop: None,
            verdicts: vec![],
            answers: vec![],
            ran: vec![],
        }
    }

    /// Applies the answer of a transform.
    fn take(
        &mut self,
        bound: &BoundHandler<P, P::Change>,
        failure: Option<HandlerFailure>,
        applied: TransformEffect<P>,
        worked: HandlerReport,
    ) -> ControlFlow<()> {
        let word = match (&failure, &applied) {
            (Some(failure), _) => failure.word(),
            (None, TransformEffect::Kept) => "keep",
            (None, TransformEffect::Replaced(_)) => "replace",
            (None, TransformEffect::Stopped(ChainStop::Block(_))) => "block",
            (None, TransformEffect::Stopped(ChainStop::Answer(_))) => "answer",
        };
        if word != "keep" || !bound.meta.quiet {
            let reason = match (&failure, &applied) {
                (Some(failure), _) => Some(failure.to_string()),
                (None, TransformEffect::Stopped(ChainStop::Block(reason))) => Some(reason.clone()),
                _ => None,
            };
            self.ran.push(HandlerRun::new(&bound.meta, worked, word, reason));
        }
        match applied {
            TransformEffect::Kept => {}
            TransformEffect::Replaced(next) => {
                let before = std::mem::replace(&mut self.event, Arc::new(next));
                self.replaced.push((bound.meta.clone(), before));
            }
            TransformEffect::Stopped(stop) => {
                self.stop = Some((bound.meta.clone(), stop));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the strictest verdict and the first handler that gave it; `None` if all gates passed.
    pub(crate) fn strictest(&self) -> Option<&(Arc<HandlerMeta>, P::Verdict)> {
        strictest(&self.verdicts)
    }
}

/// Returns the strictest of several answers, the first among equals.
pub(crate) fn strictest<V: RankedAnswer>(
    answers: &[(Arc<HandlerMeta>, V)],
) -> Option<&(Arc<HandlerMeta>, V)> {
    answers.iter().rev().max_by_key(|(_, answer)| answer.rank())
}

/// Runs the handlers of one point on one event. Never fails: the failure of a handler counts as its answer.
///
/// When `cancel` fires, a handler that has not answered counts as failed, and no further handler is started.
pub(crate) async fn dispatch<P: Point>(
    chain: &Chain<P>,
    event: Arc<P::Event>,
    cx: &Cx,
    cancel: Option<&CancellationToken>,
) -> PointOutcome<P> {
    let mut decided = PointOutcome::untouched(event);
    decided.ran.reserve_exact(chain.len());
    let mut asking = Dispatcher { cx: cx.clone(), cancel };

    for group in chain.transforms.chunk_by(|a, b| a.meta.is_concurrent && b.meta.is_concurrent) {
        if asking.transform(group, &mut decided).await.is_break() {
            return decided;
        }
    }
    let PointOutcome { event, verdicts, answers, ran, .. } = &mut decided;
    if asking.fold(&chain.gates, event, verdicts, ran).await.is_break()
        || asking.fold(&chain.answers, event, answers, ran).await.is_break()
    {
        return decided;
    }
    let _ = asking
        .all(&chain.observers, event, |meta, answer, worked| {
            let failure = answer.as_ref().err();
            if failure.is_some() || !meta.quiet {
                ran.push(HandlerRun::new(
                    meta,
                    worked,
                    failure.map_or("seen", HandlerFailure::word),
                    failure,
                ));
            }
            ControlFlow::Continue(())
        })
        .await;
    decided
}

/// The state of one dispatch.
struct Dispatcher<'a> {
    cx: Cx,
    cancel: Option<&'a CancellationToken>,
}

impl Dispatcher<'_> {
    /// Runs the transforms of a group concurrently on the same event and applies their answers in order. A
    /// transform that would replace an event that changed meanwhile is asked again on the current event.
    async fn transform<P: Point>(
        &mut self,
        group: &[Arc<BoundHandler<P, P::Change>>],
        decided: &mut PointOutcome<P>,
    ) -> ControlFlow<()> {
        let seen = decided.event.clone();
        for (index, (answer, mut worked)) in
            self.collect_answers(group, &seen).await.into_iter().enumerate()
        {
            let bound = &group[index];
            let (mut failure, mut applied) = apply_change::<P>(&seen, answer);
            let changed_since = !Arc::ptr_eq(&seen, &decided.event);
            if changed_since && matches!(applied, TransformEffect::Replaced(_)) {
                let event = decided.event.clone();
                let again = self.collect_answers(std::slice::from_ref(bound), &event).await;
                for (answer, more) in again {
                    worked = worked.and(more);
                    (failure, applied) = apply_change::<P>(&event, answer);
                }
            }
            decided.take(bound, failure, applied, worked)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the answer of each transform, in the order of the group.
    async fn collect_answers<P: Point>(
        &mut self,
        group: &[Arc<BoundHandler<P, P::Change>>],
        event: &Arc<P::Event>,
    ) -> Vec<(Result<P::Change, HandlerFailure>, HandlerReport)> {
        let mut heard: Vec<_> = group.iter().map(|_| None).collect();
        let _ = self
            .all(group, event, |meta, answer, worked| {
                let index = group.iter().position(|bound| bound.meta.id == meta.id);
                if let Some(place) = index.and_then(|index| heard.get_mut(index)) {
                    *place = Some((answer, worked));
                }
                ControlFlow::Continue(())
            })
            .await;
        heard.into_iter().flatten().collect()
    }

    async fn fold<P: Point, V: RankedAnswer>(
        &mut self,
        bounds: &[Arc<BoundHandler<P, V>>],
        event: &Arc<P::Event>,
        said: &mut Vec<(Arc<HandlerMeta>, V)>,
        ran: &mut Vec<HandlerRun>,
    ) -> ControlFlow<()> {
        self.all(bounds, event, |meta, answer, worked| {
            let (verdict, word) = match answer {
                Ok(verdict) => {
                    let word = verdict.word();
                    (Some(verdict), word)
                }
                Err(failure) => (V::failed(&failure), failure.word()),
            };
            let reason = verdict.as_ref().and_then(|verdict| verdict.reason());
            if word != "pass" || !meta.quiet || worked.failed() {
                ran.push(HandlerRun::new(meta, worked, word, reason));
            }
            let ends = verdict.as_ref().is_some_and(V::ends);
            if let Some(verdict) = verdict.filter(|verdict| verdict.rank() > 0) {
                said.push((meta.clone(), verdict));
            }
            if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await
    }

    /// Starts the handlers in order and polls each once, then waits for all pending handlers together.
    async fn all<P: Point, R: Send + 'static>(
        &mut self,
        bounds: &[Arc<BoundHandler<P, R>>],
        event: &Arc<P::Event>,
        mut heard: impl FnMut(
            &Arc<HandlerMeta>,
            Result<R, HandlerFailure>,
            HandlerReport,
        ) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut waiting = Vec::new();
        if bounds.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut started = Instant::now();
        let mut shared = None;
        for (index, bound) in bounds.iter().enumerate() {
            if self.cancel.is_some_and(CancellationToken::is_cancelled) {
                heard(&bound.meta, Err(HandlerFailure::Cancelled), HandlerReport::default())?;
                continue;
            }
            self.cx.author = NoteAuthor::Hook(bound.meta.id);
            let (answer, clock) = match &*bound.func {
                HandlerFn::Ready(function) => (catch_panic(|| function(event, &self.cx)), None),
                HandlerFn::Later(function) => {
                    let (clocks, waker) = match &mut shared {
                        Some(shared) => shared,
                        None => shared
                            .insert((HandlerClocks::new(bounds.len(), started), waker().await)),
                    };
                    let cx = self.cx.with_clocks(clocks.at(index));
                    let at = At { event: event.clone(), cx };
                    let clock = || clocks.at(index);
                    let future = catch_panic(|| Ok(function(at)));
                    let alone = bound.meta.detached && !self.cx.is_dry_run();
                    let alone = alone.then(|| self.cx.clone());
                    match start_handler(bound, alone, started, clock, future, waker) {
                        FirstPoll::Answered(answer) => (answer, Some(clocks.at(index))),
                        FirstPoll::Waits(wait) => {
                            waiting.push(wait);
                            continue;
                        }
                        FirstPoll::Detached => continue,
                    }
                }
            };
            let now = Instant::now();
            let time = now - started;
            let worked = clock.map(|clock| HandlerReport::of(time, &clock));
            let worked = worked.unwrap_or(HandlerReport { time, ..HandlerReport::default() });
            heard(&bound.meta, answer, worked)?;
            started = now;
        }
        if waiting.is_empty() {
            return ControlFlow::Continue(());
        }
        wait_for_all(waiting, self.cancel, heard).await
    }
}

fn apply_change<P: Point>(
    event: &P::Event,
    answer: Result<P::Change, HandlerFailure>,
) -> (Option<HandlerFailure>, TransformEffect<P>) {
    match answer {
        Ok(change) => (None, P::apply(event, change)),
        Err(failure) => {
            let applied = P::transform_failed(event, &failure);
            (Some(failure), applied)
        }
    }
}

enum FirstPoll<R> {
    Answered(Result<R, HandlerFailure>),
    Waits(PendingHandler<R>),
    Detached,
}

/// Returns the waker of the current task.
async fn waker() -> Waker {
    poll_fn(|task| Poll::Ready(task.waker().clone())).await
}

/// Polls a handler once; most handlers answer then. A detached handler is spawned, and nobody waits for it.
fn start_handler<P: Point, R: Send + 'static>(
    bound: &BoundHandler<P, R>,
    alone: Option<Cx>,
    started: Instant,
    clock: impl Fn() -> HandlerClocks,
    future: Result<HandlerFuture<R>, HandlerFailure>,
    waker: &Waker,
) -> FirstPoll<R> {
    let mut future = match future {
        Ok(future) => future,
        Err(failure) => return FirstPoll::Answered(Err(failure)),
    };
    let wait =
        |future| PendingHandler { meta: bound.meta.clone(), started, clock: clock(), future };
    if let Some(cx) = alone {
        tokio::spawn(wait(future).run_detached(cx));
        return FirstPoll::Detached;
    }
    match poll_guarded(&mut future, &mut Context::from_waker(waker)) {
        Poll::Ready(answer) => FirstPoll::Answered(answer),
        Poll::Pending => FirstPoll::Waits(wait(future)),
    }
}

fn poll_guarded<R>(
    future: &mut HandlerFuture<R>,
    task: &mut Context<'_>,
) -> Poll<Result<R, HandlerFailure>> {
    match catch_panic(|| Ok(future.as_mut().poll(task))) {
        Ok(poll) => poll,
        Err(failure) => Poll::Ready(Err(failure)),
    }
}

/// Waits for several handlers with one timer.
async fn wait_for_all<R>(
    mut waiting: Vec<PendingHandler<R>>,
    cancel: Option<&CancellationToken>,
    mut heard: impl FnMut(
        &Arc<HandlerMeta>,
        Result<R, HandlerFailure>,
        HandlerReport,
    ) -> ControlFlow<()>,
) -> ControlFlow<()> {
    while !waiting.is_empty() {
        let now = Instant::now();
        let next = waiting.iter().map(|wait| wait.remaining_time(now)).min().unwrap_or_default();
        let cancelled = async {
            match cancel {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancelled => {
                for wait in waiting.drain(..) {
                    heard(&wait.meta, Err(HandlerFailure::Cancelled), wait.report())?;
                }
            }
            (index, answer) = wait_for_first(&mut waiting) => {
                let wait = waiting.remove(index);
                // An answer after the limit is late, even if no timer fired in between.
                match wait.remaining_time(Instant::now()).is_zero() {
                    true => wait.time_out(&mut heard)?,
                    false => heard(&wait.meta, answer, wait.report())?,
                }
            }
            () = sleep(next) => {
                let now = Instant::now();
                let (late, still): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|wait| wait.remaining_time(now).is_zero());
                waiting = still;
                for wait in late {
                    wait.time_out(&mut heard)?;
                }
            }
        }
    }
    ControlFlow::Continue(())
}

async fn wait_for_first<R>(
    waiting: &mut [PendingHandler<R>],
) -> (usize, Result<R, HandlerFailure>) {
    poll_fn(|task| {
        for (index, wait) in waiting.iter_mut().enumerate() {
            if let Poll::Ready(answer) = wait.poll(task) {
                return Poll::Ready((index, answer));
            }
        }
        Poll::Pending
    })
    .await
}

/// A handler that has not answered yet.
struct PendingHandler<R> {
    meta: Arc<HandlerMeta>,
    started: Instant,
    clock: HandlerClocks,
    future: HandlerFuture<R>,
}

impl<R> PendingHandler<R> {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<R, HandlerFailure>> {
        poll_guarded(&mut self.future, task)
    }

    fn remaining_time(&self, now: Instant) -> Duration {
        self.meta.limit.saturating_sub(self.clock.clock().working_time(self.started, now))
    }

    fn report(&self) -> HandlerReport {
        let time = self.clock.clock().working_time(self.started, Instant::now());
        HandlerReport::of(time, &self.clock)
    }

    async fn run_detached(mut self, cx: Cx)
    where
        R: Send,
    {
        let point = self.meta.point;
        let mut store = |meta: &Arc<HandlerMeta>, answer: Result<R, HandlerFailure>, worked| {
            let failure = answer.err();
            let word = failure.as_ref().map_or("seen", HandlerFailure::word);
            cx.record_detached_run(point, HandlerRun::new(meta, worked, word, failure));
            ControlFlow::Continue(())
        };
        let limit = self.meta.limit;
        let answer = tokio::time::timeout(limit, poll_fn(|task| self.poll(task))).await;
        let _ = match answer {
            Ok(answer) => store(&self.meta, answer, self.report()),
            Err(_) => self.time_out(&mut store),
        };
    }

    /// Ends the handler as timed out. Its remark counts; for an external hook, the remark is quoted in the
    /// failure.
    fn time_out(
        self,
        heard: &mut impl FnMut(
            &Arc<HandlerMeta>,
            Result<R, HandlerFailure>,
            HandlerReport,
        ) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let PendingHandler { meta, started, clock, future } = self;
        let time = clock.clock().working_time(started, Instant::now());
        // The future may store a remark when it is dropped.
        drop(future);
        let remark = clock.take_remark();
        let words = remark.as_deref().filter(|_| meta.is_external);
        let said = words.map(text::take_last_lines);
        let failure = HandlerFailure::TimedOut { limit: meta.limit, said };
        heard(&meta, Err(failure), HandlerReport { time, remark, caveat: None })
    }
}

impl HandlerRun {
    fn new(
        meta: &HandlerMeta,
        worked: HandlerReport,
        word: &'static str,
        reason: Option<impl ToString>,
    ) -> Self {
        let mut reason = reason.map(|reason| reason.to_string().into_boxed_str());
        let mut word = word;
        if let Some(AnswerCaveat { kind, words }) = worked.caveat {
            // The caveat replaces the word of an answer that says nothing. A refusal or a change keeps its
            // word.
            let had_nothing_to_say = matches!(word, "pass" | "keep" | "seen" | "stop");
            word = kind.word().filter(|_| had_nothing_to_say).unwrap_or(word);
            reason.get_or_insert(words);
        }
        let nanos = u64::try_from(worked.time.as_nanos()).unwrap_or(u64::MAX);
        // The remark of a command that refuses is already its reason.
        let remark = worked.remark.filter(|remark| reason.as_ref() != Some(remark));
        HandlerRun { handler: meta.id, nanos, word, reason, remark, is_external: meta.is_external }
    }
}

/// Runs `call`; a panic counts as the failure of the handler.
fn catch_panic<T>(call: impl FnOnce() -> Result<T, HandlerFailure>) -> Result<T, HandlerFailure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(HandlerFailure::Panicked(panic_message(&*panic))))
}

/// Returns the message of a panic, if it has one.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a word".into())
}
