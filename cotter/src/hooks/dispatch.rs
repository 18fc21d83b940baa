//! The one way handlers run, at every point: transforms in a chain, then gates on what they made,
//! then answers, then observers. After a block the rest does not run.

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

use crate::hooks::{
    chain::{Answering, Bound, Chain, Func, Meta},
    handler::{Aside, AsideKind, At, Clocks, Failure, HandlerId},
};
use crate::{
    agent::cx::Cx,
    hooks::{
        notes::Speaker,
        points::{Applied, Fold, Point, Stop},
    },
    text,
};

/// What the handlers of a point made of an event.
pub(crate) struct Decided<P: Point> {
    /// The event after the transforms.
    pub(crate) event: Arc<P::Event>,
    /// Who replaced the event, and what stood before, in order.
    pub(crate) replaced: Vec<(Arc<Meta>, Arc<P::Event>)>,
    /// Who ended the chain of transforms, and how.
    pub(crate) stop: Option<(Arc<Meta>, Stop)>,
    /// What gates had to say: passes are left out.
    pub(crate) verdicts: Vec<(Arc<Meta>, P::Verdict)>,
    /// What answering handlers had to say.
    pub(crate) answers: Vec<(Arc<Meta>, P::Answer)>,
    /// Every handler that ran.
    pub(crate) ran: Vec<Ran>,
}

/// One handler that ran: what the ledger keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) handler: HandlerId,
    pub(crate) nanos: u64,
    pub(crate) word: &'static str,
    pub(crate) reason: Option<Box<str>>,
    /// What it remarked besides, for whoever looks after hooks.
    pub(crate) remark: Option<Box<str>>,
    /// Whether it is outside the program.
    outside: bool,
}

impl Ran {
    /// Whether it is kept also where no row of a call tells of it: what was done outside the program, and
    /// failures.
    pub(crate) fn is_worth_a_record(&self) -> bool {
        self.outside || matches!(self.word, "failed" | "panicked" | "timed_out")
    }
}

/// What is known of a handler's work besides its answer.
#[derive(Debug, Default)]
struct Worked {
    time: Duration,
    remark: Option<Box<str>>,
    aside: Option<Aside>,
}

impl Worked {
    /// All that is known of one that answered.
    fn of(time: Duration, clock: &Clocks) -> Self {
        Worked { time, remark: clock.take_remark(), aside: clock.take_aside() }
    }

    /// Whether it failed, whatever it seems to say.
    fn failed(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.kind == AsideKind::Failed)
    }

    /// The same after it was asked once more.
    fn and(self, again: Worked) -> Self {
        Worked {
            time: self.time + again.time,
            remark: again.remark.or(self.remark),
            aside: again.aside.or(self.aside),
        }
    }
}

impl<P: Point> Decided<P> {
    /// An event nobody has seen.
    pub(crate) fn untouched(event: Arc<P::Event>) -> Self {
        Decided {
            event,
            replaced: vec![],
            stop: None,
            verdicts: vec![],
            answers: vec![],
            ran: vec![],
        }
    }

    /// Carries out what a transform answered.
    fn take(
        &mut self,
        bound: &Bound<P, P::Change>,
        failure: Option<Failure>,
        applied: Applied<P>,
        worked: Worked,
    ) -> ControlFlow<()> {
        let word = match (&failure, &applied) {
            (Some(failure), _) => failure.word(),
            (None, Applied::Kept) => "keep",
            (None, Applied::Replaced(_)) => "replace",
            (None, Applied::Stopped(Stop::Block(_))) => "block",
            (None, Applied::Stopped(Stop::Answer(_))) => "answer",
        };
        if word != "keep" || !bound.meta.quiet {
            let reason = match (&failure, &applied) {
                (Some(failure), _) => Some(failure.to_string()),
                (None, Applied::Stopped(Stop::Block(reason))) => Some(reason.clone()),
                _ => None,
            };
            self.ran.push(Ran::new(&bound.meta, worked, word, reason));
        }
        match applied {
            Applied::Kept => {}
            Applied::Replaced(next) => {
                let before = std::mem::replace(&mut self.event, Arc::new(next));
                self.replaced.push((bound.meta.clone(), before));
            }
            Applied::Stopped(stop) => {
                self.stop = Some((bound.meta.clone(), stop));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// The strictest verdict and who gave it first; `None` where all passed.
    pub(crate) fn strictest(&self) -> Option<&(Arc<Meta>, P::Verdict)> {
        strictest(&self.verdicts)
    }
}

/// The strictest of several answers, the first among equals.
pub(crate) fn strictest<V: Fold>(answers: &[(Arc<Meta>, V)]) -> Option<&(Arc<Meta>, V)> {
    answers.iter().rev().max_by_key(|(_, answer)| answer.rank())
}

/// Runs the handlers of one point over one event. Never fails: a handler that fails has decided.
///
/// With `cancel`, a handler that has not answered when it fires counts as failed, and none is
/// started after it.
pub(crate) async fn dispatch<P: Point>(
    chain: &Chain<P>,
    event: Arc<P::Event>,
    cx: &Cx,
    cancel: Option<&CancellationToken>,
) -> Decided<P> {
    let mut decided = Decided::untouched(event);
    decided.ran.reserve_exact(chain.len());
    let mut asking = Asking { cx: cx.clone(), cancel };

    for group in chain.transforms.chunk_by(|a, b| a.meta.beside && b.meta.beside) {
        if asking.transform(group, &mut decided).await.is_break() {
            return decided;
        }
    }
    let Decided { event, verdicts, answers, ran, .. } = &mut decided;
    if asking.fold(&chain.gates, event, verdicts, ran).await.is_break()
        || asking.fold(&chain.answers, event, answers, ran).await.is_break()
    {
        return decided;
    }
    let _ = asking
        .all(&chain.observers, event, |meta, answer, worked| {
            let failure = answer.as_ref().err();
            if failure.is_some() || !meta.quiet {
                ran.push(Ran::new(meta, worked, failure.map_or("seen", Failure::word), failure));
            }
            ControlFlow::Continue(())
        })
        .await;
    decided
}

/// One dispatch under way.
struct Asking<'a> {
    cx: Cx,
    cancel: Option<&'a CancellationToken>,
}

impl Asking<'_> {
    /// Asks those of a group at the same time and carries their answers out in order. What one made of
    /// the event the others have not seen: who would replace it after that is asked once more, on what
    /// there is by then.
    async fn transform<P: Point>(
        &mut self,
        group: &[Arc<Bound<P, P::Change>>],
        decided: &mut Decided<P>,
    ) -> ControlFlow<()> {
        let seen = decided.event.clone();
        for (index, (answer, mut worked)) in self.heard(group, &seen).await.into_iter().enumerate()
        {
            let bound = &group[index];
            let (mut failure, mut applied) = carried_out::<P>(&seen, answer);
            let changed_since = !Arc::ptr_eq(&seen, &decided.event);
            if changed_since && matches!(applied, Applied::Replaced(_)) {
                let event = decided.event.clone();
                let again = self.heard(std::slice::from_ref(bound), &event).await;
                for (answer, more) in again {
                    worked = worked.and(more);
                    (failure, applied) = carried_out::<P>(&event, answer);
                }
            }
            decided.take(bound, failure, applied, worked)?;
        }
        ControlFlow::Continue(())
    }

    /// What each of them answers, in their order.
    async fn heard<P: Point>(
        &mut self,
        group: &[Arc<Bound<P, P::Change>>],
        event: &Arc<P::Event>,
    ) -> Vec<(Result<P::Change, Failure>, Worked)> {
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

    async fn fold<P: Point, V: Fold>(
        &mut self,
        bounds: &[Arc<Bound<P, V>>],
        event: &Arc<P::Event>,
        said: &mut Vec<(Arc<Meta>, V)>,
        ran: &mut Vec<Ran>,
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
                ran.push(Ran::new(meta, worked, word, reason));
            }
            let ends = verdict.as_ref().is_some_and(V::ends);
            if let Some(verdict) = verdict.filter(|verdict| verdict.rank() > 0) {
                said.push((meta.clone(), verdict));
            }
            if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await
    }

    /// Starts each handler in order, polling it once; those that must wait are waited for together.
    async fn all<P: Point, R: Send + 'static>(
        &mut self,
        bounds: &[Arc<Bound<P, R>>],
        event: &Arc<P::Event>,
        mut heard: impl FnMut(&Arc<Meta>, Result<R, Failure>, Worked) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut waiting = Vec::new();
        if bounds.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut started = Instant::now();
        let mut shared = None;
        for (index, bound) in bounds.iter().enumerate() {
            if self.cancel.is_some_and(CancellationToken::is_cancelled) {
                heard(&bound.meta, Err(Failure::Cancelled), Worked::default())?;
                continue;
            }
            self.cx.speaker = Speaker::Hook(bound.meta.id);
            let (answer, clock) = match &*bound.func {
                Func::Ready(function) => (guarded(|| function(event, &self.cx)), None),
                Func::Later(function) => {
                    let (clocks, waker) = match &mut shared {
                        Some(shared) => shared,
                        None => shared.insert((Clocks::new(bounds.len(), started), waker().await)),
                    };
                    let cx = self.cx.for_waiting(clocks.at(index));
                    let at = At { event: event.clone(), cx };
                    let clock = || clocks.at(index);
                    let future = guarded(|| Ok(function(at)));
                    let alone = bound.meta.detached && !self.cx.is_dry_run();
                    let alone = alone.then(|| self.cx.clone());
                    match begin(bound, alone, started, clock, future, waker) {
                        Begun::Answered(answer) => (answer, Some(clocks.at(index))),
                        Begun::Waits(wait) => {
                            waiting.push(wait);
                            continue;
                        }
                        Begun::Detached => continue,
                    }
                }
            };
            let now = Instant::now();
            let time = now - started;
            let worked = clock.map(|clock| Worked::of(time, &clock));
            let worked = worked.unwrap_or(Worked { time, ..Worked::default() });
            heard(&bound.meta, answer, worked)?;
            started = now;
        }
        if waiting.is_empty() {
            return ControlFlow::Continue(());
        }
        together(waiting, self.cancel, heard).await
    }
}

fn carried_out<P: Point>(
    event: &P::Event,
    answer: Result<P::Change, Failure>,
) -> (Option<Failure>, Applied<P>) {
    match answer {
        Ok(change) => (None, P::apply(event, change)),
        Err(failure) => {
            let applied = P::transform_failed(event, &failure);
            (Some(failure), applied)
        }
    }
}

enum Begun<R> {
    Answered(Result<R, Failure>),
    Waits(Wait<R>),
    Detached,
}

/// The waker of the task that waits for all.
async fn waker() -> Waker {
    poll_fn(|task| Poll::Ready(task.waker().clone())).await
}

/// Polls a handler once; most have their answer then. One that works alone nobody waits for.
fn begin<P: Point, R: Send + 'static>(
    bound: &Bound<P, R>,
    alone: Option<Cx>,
    started: Instant,
    clock: impl Fn() -> Clocks,
    future: Result<Answering<R>, Failure>,
    waker: &Waker,
) -> Begun<R> {
    let mut future = match future {
        Ok(future) => future,
        Err(failure) => return Begun::Answered(Err(failure)),
    };
    let wait = |future| Wait { meta: bound.meta.clone(), started, clock: clock(), future };
    if let Some(cx) = alone {
        tokio::spawn(wait(future).off_the_path(cx));
        return Begun::Detached;
    }
    match poll_guarded(&mut future, &mut Context::from_waker(waker)) {
        Poll::Ready(answer) => Begun::Answered(answer),
        Poll::Pending => Begun::Waits(wait(future)),
    }
}

fn poll_guarded<R>(future: &mut Answering<R>, task: &mut Context<'_>) -> Poll<Result<R, Failure>> {
    match guarded(|| Ok(future.as_mut().poll(task))) {
        Ok(poll) => poll,
        Err(failure) => Poll::Ready(Err(failure)),
    }
}

/// Waits for several handlers under one timer.
async fn together<R>(
    mut waiting: Vec<Wait<R>>,
    cancel: Option<&CancellationToken>,
    mut heard: impl FnMut(&Arc<Meta>, Result<R, Failure>, Worked) -> ControlFlow<()>,
) -> ControlFlow<()> {
    while !waiting.is_empty() {
        let now = Instant::now();
        let next = waiting.iter().map(|wait| wait.left(now)).min().unwrap_or_default();
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
                    heard(&wait.meta, Err(Failure::Cancelled), wait.worked())?;
                }
            }
            (index, answer) = first(&mut waiting) => {
                let wait = waiting.remove(index);
                // Late is late, also when nobody looked in between.
                match wait.left(Instant::now()).is_zero() {
                    true => wait.late(&mut heard)?,
                    false => heard(&wait.meta, answer, wait.worked())?,
                }
            }
            () = sleep(next) => {
                let now = Instant::now();
                let (late, still): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|wait| wait.left(now).is_zero());
                waiting = still;
                for wait in late {
                    wait.late(&mut heard)?;
                }
            }
        }
    }
    ControlFlow::Continue(())
}

async fn first<R>(waiting: &mut [Wait<R>]) -> (usize, Result<R, Failure>) {
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
struct Wait<R> {
    meta: Arc<Meta>,
    started: Instant,
    clock: Clocks,
    future: Answering<R>,
}

impl<R> Wait<R> {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<R, Failure>> {
        poll_guarded(&mut self.future, task)
    }

    fn left(&self, now: Instant) -> Duration {
        self.meta.limit.saturating_sub(self.clock.clock().worked(self.started, now))
    }

    fn worked(&self) -> Worked {
        let time = self.clock.clock().worked(self.started, Instant::now());
        Worked::of(time, &self.clock)
    }

    async fn off_the_path(mut self, cx: Cx)
    where
        R: Send,
    {
        let point = self.meta.point;
        let mut store = |meta: &Arc<Meta>, answer: Result<R, Failure>, worked| {
            let failure = answer.err();
            let word = failure.as_ref().map_or("seen", Failure::word);
            cx.ran_alone(point, Ran::new(meta, worked, word, failure));
            ControlFlow::Continue(())
        };
        let limit = self.meta.limit;
        let answer = tokio::time::timeout(limit, poll_fn(|task| self.poll(task))).await;
        let _ = match answer {
            Ok(answer) => store(&self.meta, answer, self.worked()),
            Err(_) => self.late(&mut store),
        };
    }

    /// Ends it. What it remarked until then counts, of one outside the program as its last words.
    fn late(
        self,
        heard: &mut impl FnMut(&Arc<Meta>, Result<R, Failure>, Worked) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Wait { meta, started, clock, future } = self;
        let time = clock.clock().worked(started, Instant::now());
        // Whoever is dropped half-way remarks what there is.
        drop(future);
        let remark = clock.take_remark();
        let words = remark.as_deref().filter(|_| meta.outside);
        let said = words.map(text::last_words);
        let failure = Failure::TimedOut { limit: meta.limit, said };
        heard(&meta, Err(failure), Worked { time, remark, aside: None })
    }
}

impl Ran {
    fn new(meta: &Meta, worked: Worked, word: &'static str, reason: Option<impl ToString>) -> Self {
        let mut reason = reason.map(|reason| reason.to_string().into_boxed_str());
        let mut word = word;
        if let Some(Aside { kind, words }) = worked.aside {
            // Who had nothing to say has another word for why; who refused or changed something has not.
            let had_nothing_to_say = matches!(word, "pass" | "keep" | "seen" | "stop");
            word = kind.word().filter(|_| had_nothing_to_say).unwrap_or(word);
            reason.get_or_insert(words);
        }
        let nanos = u64::try_from(worked.time.as_nanos()).unwrap_or(u64::MAX);
        // What a command refuses with is its reason already.
        let remark = worked.remark.filter(|remark| reason.as_ref() != Some(remark));
        Ran { handler: meta.id, nanos, word, reason, remark, outside: meta.outside }
    }
}

/// A panic is the handler's failure, nothing more.
fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Failure::Panicked(panic_words(&*panic))))
}

/// The words of a panic, where it had any.
pub(crate) fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a word".into())
}
