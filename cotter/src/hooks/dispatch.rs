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

/// The time, the remark and the caveat of a handler's run: everything but its answer.
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

    /// True if the handler failed and its failure counts as a pass.
    fn failed(&self) -> bool {
        self.caveat.as_ref().is_some_and(|caveat| caveat.kind == CaveatKind::Failed)
    }

    /// Adds the report of a second run of the handler.
    fn and(self, second: HandlerReport) -> Self {
        HandlerReport {
            time: self.time + second.time,
            remark: second.remark.or(self.remark),
            caveat: second.caveat.or(self.caveat),
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

    /// Records the answer of a transform and applies its effect. `Break` ends the chain.
    fn apply_effect(
        &mut self,
        bound: &BoundHandler<P, P::Change>,
        failure: Option<HandlerFailure>,
        effect: TransformEffect<P>,
        report: HandlerReport,
    ) -> ControlFlow<()> {
        let word = match (&failure, &effect) {
            (Some(failure), _) => failure.word(),
            (None, TransformEffect::Kept) => "keep",
            (None, TransformEffect::Replaced(_)) => "replace",
            (None, TransformEffect::Stopped(ChainStop::Block(_))) => "block",
            (None, TransformEffect::Stopped(ChainStop::Answer(_))) => "answer",
        };
        if word != "keep" || !bound.meta.quiet {
            let reason = match (&failure, &effect) {
                (Some(failure), _) => Some(failure.to_string()),
                (None, TransformEffect::Stopped(ChainStop::Block(reason))) => Some(reason.clone()),
                _ => None,
            };
            self.ran.push(HandlerRun::new(&bound.meta, report, word, reason));
        }
        match effect {
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
    let mut outcome = PointOutcome::untouched(event);
    outcome.ran.reserve_exact(chain.len());
    let mut dispatcher = Dispatcher { cx: cx.clone(), cancel };

    for group in chain.transforms.chunk_by(|a, b| a.meta.is_concurrent && b.meta.is_concurrent) {
        if dispatcher.transform(group, &mut outcome).await.is_break() {
            return outcome;
        }
    }
    let PointOutcome { event, verdicts, answers, ran, .. } = &mut outcome;
    if dispatcher.fold(&chain.gates, event, verdicts, ran).await.is_break()
        || dispatcher.fold(&chain.answers, event, answers, ran).await.is_break()
    {
        return outcome;
    }
    let _ = dispatcher
        .all(&chain.observers, event, |meta, answer, report| {
            let failure = answer.as_ref().err();
            if failure.is_some() || !meta.quiet {
                ran.push(HandlerRun::new(
                    meta,
                    report,
                    failure.map_or("seen", HandlerFailure::word),
                    failure,
                ));
            }
            ControlFlow::Continue(())
        })
        .await;
    outcome
}

/// The context and the cancellation of one dispatch.
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
        outcome: &mut PointOutcome<P>,
    ) -> ControlFlow<()> {
        let first_event = outcome.event.clone();
        for (index, (answer, mut report)) in
            self.collect_answers(group, &first_event).await.into_iter().enumerate()
        {
            let bound = &group[index];
            let (mut failure, mut effect) = apply_change::<P>(&first_event, answer);
            let changed_since = !Arc::ptr_eq(&first_event, &outcome.event);
            if changed_since && matches!(effect, TransformEffect::Replaced(_)) {
                let event = outcome.event.clone();
                let second = self.collect_answers(std::slice::from_ref(bound), &event).await;
                for (answer, second_report) in second {
                    report = report.and(second_report);
                    (failure, effect) = apply_change::<P>(&event, answer);
                }
            }
            outcome.apply_effect(bound, failure, effect, report)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the answer of each transform, in the order of the group.
    async fn collect_answers<P: Point>(
        &mut self,
        group: &[Arc<BoundHandler<P, P::Change>>],
        event: &Arc<P::Event>,
    ) -> Vec<(Result<P::Change, HandlerFailure>, HandlerReport)> {
        let mut answers: Vec<_> = group.iter().map(|_| None).collect();
        let _ = self
            .all(group, event, |meta, answer, report| {
                let index = group.iter().position(|bound| bound.meta.id == meta.id);
                if let Some(slot) = index.and_then(|index| answers.get_mut(index)) {
                    *slot = Some((answer, report));
                }
                ControlFlow::Continue(())
            })
            .await;
        answers.into_iter().flatten().collect()
    }

    /// Asks all gates, or all answering handlers, and collects every answer but a pass.
    async fn fold<P: Point, V: RankedAnswer>(
        &mut self,
        bounds: &[Arc<BoundHandler<P, V>>],
        event: &Arc<P::Event>,
        results: &mut Vec<(Arc<HandlerMeta>, V)>,
        ran: &mut Vec<HandlerRun>,
    ) -> ControlFlow<()> {
        self.all(bounds, event, |meta, answer, report| {
            let (verdict, word) = match answer {
                Ok(verdict) => {
                    let word = verdict.word();
                    (Some(verdict), word)
                }
                Err(failure) => (V::failed(&failure), failure.word()),
            };
            let reason = verdict.as_ref().and_then(|verdict| verdict.reason());
            if word != "pass" || !meta.quiet || report.failed() {
                ran.push(HandlerRun::new(meta, report, word, reason));
            }
            let ends = verdict.as_ref().is_some_and(V::ends);
            if let Some(verdict) = verdict.filter(|verdict| verdict.rank() > 0) {
                results.push((meta.clone(), verdict));
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
        mut on_answer: impl FnMut(
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
                on_answer(&bound.meta, Err(HandlerFailure::Cancelled), HandlerReport::default())?;
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
                    let is_detached = bound.meta.detached && !self.cx.is_dry_run();
                    let detached_cx = is_detached.then(|| self.cx.clone());
                    match start_handler(bound, detached_cx, started, clock, future, waker) {
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
            let report = clock.map(|clock| HandlerReport::of(time, &clock));
            let report = report.unwrap_or(HandlerReport { time, ..HandlerReport::default() });
            on_answer(&bound.meta, answer, report)?;
            started = now;
        }
        if waiting.is_empty() {
            return ControlFlow::Continue(());
        }
        wait_for_all(waiting, self.cancel, on_answer).await
    }
}

fn apply_change<P: Point>(
    event: &P::Event,
    answer: Result<P::Change, HandlerFailure>,
) -> (Option<HandlerFailure>, TransformEffect<P>) {
    match answer {
        Ok(change) => (None, P::apply(event, change)),
        Err(failure) => {
            let effect = P::transform_failed(event, &failure);
            (Some(failure), effect)
        }
    }
}

/// The result of starting a handler.
enum FirstPoll<R> {
    Answered(Result<R, HandlerFailure>),
    Waits(PendingHandler<R>),
    Detached,
}

/// Returns the waker of the current task.
async fn waker() -> Waker {
    poll_fn(|task| Poll::Ready(task.waker().clone())).await
}

/// Polls a handler once; most handlers answer then. A detached handler is spawned, and the run does not wait
/// for it.
fn start_handler<P: Point, R: Send + 'static>(
    bound: &BoundHandler<P, R>,
    detached_cx: Option<Cx>,
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
    if let Some(cx) = detached_cx {
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
    mut on_answer: impl FnMut(
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
                    on_answer(&wait.meta, Err(HandlerFailure::Cancelled), wait.report())?;
                }
            }
            (index, answer) = wait_for_first(&mut waiting) => {
                let wait = waiting.remove(index);
                // An answer after the limit is late, even if no timer fired in between.
                match wait.remaining_time(Instant::now()).is_zero() {
                    true => wait.time_out(&mut on_answer)?,
                    false => on_answer(&wait.meta, answer, wait.report())?,
                }
            }
            () = sleep(next) => {
                let now = Instant::now();
                let (late, in_time): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|wait| wait.remaining_time(now).is_zero());
                waiting = in_time;
                for wait in late {
                    wait.time_out(&mut on_answer)?;
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
        let mut store = |meta: &Arc<HandlerMeta>, answer: Result<R, HandlerFailure>, report| {
            let failure = answer.err();
            let word = failure.as_ref().map_or("seen", HandlerFailure::word);
            cx.record_detached_hook_run(point, HandlerRun::new(meta, report, word, failure));
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
        on_answer: &mut impl FnMut(
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
        let quoted = remark.as_deref().filter(|_| meta.is_external);
        let last_output = quoted.map(text::take_last_lines);
        let failure = HandlerFailure::TimedOut { limit: meta.limit, last_output };
        on_answer(&meta, Err(failure), HandlerReport { time, remark, caveat: None })
    }
}

impl HandlerRun {
    fn new(
        meta: &HandlerMeta,
        report: HandlerReport,
        word: &'static str,
        reason: Option<impl ToString>,
    ) -> Self {
        let mut reason = reason.map(|reason| reason.to_string().into_boxed_str());
        let mut word = word;
        if let Some(AnswerCaveat { kind, text }) = report.caveat {
            // The caveat replaces the word of an answer without effect. A refusal or a change keeps its word.
            let has_no_effect = matches!(word, "pass" | "keep" | "seen" | "stop");
            word = kind.word().filter(|_| has_no_effect).unwrap_or(word);
            reason.get_or_insert(text);
        }
        let nanos = u64::try_from(report.time.as_nanos()).unwrap_or(u64::MAX);
        // The remark of a command that refuses is already its reason.
        let remark = report.remark.filter(|remark| reason.as_ref() != Some(remark));
        HandlerRun { handler: meta.id, nanos, word, reason, remark, is_external: meta.is_external }
    }
}

/// Runs `call`; a panic counts as the failure of the handler.
fn catch_panic<T>(call: impl FnOnce() -> Result<T, HandlerFailure>) -> Result<T, HandlerFailure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(HandlerFailure::Panicked(panic_message(&*panic))))
}

/// Returns the message of a panic, or `no message`.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
    message
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}
