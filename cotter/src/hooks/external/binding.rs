//! An external hook bound to its point: asks the hook and converts its answer to the type of the point.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    agent::cx::Cx,
    hooks::{
        chain::HandlerFn,
        external::{ExternalHook, HookAnswer, HookChange, HookRequest, per_point::ExternalPoint},
        handler::{At, HandlerFailure},
        notes::NoteAuthor,
        points::Point,
    },
};

/// An external hook bound to its point, with a cache of its answers as a transform.
pub(crate) struct ExternalBinding<P: ExternalPoint> {
    name: SmolStr,
    hook: Arc<dyn ExternalHook>,
    /// The reason why the hook may not change anything; `None` if it may.
    change_refusal: Option<&'static str>,
    /// True if the hook is registered as a gate too.
    is_gate: bool,
    /// The author of the hook's notes, shared by its transform and its gate, so that equal notes are sent
    /// once.
    speaker: OnceLock<NoteAuthor>,
    cached_answers: Mutex<Vec<CachedAnswer<P>>>,
}

/// A cached answer, and the event it was given for.
struct CachedAnswer<P: Point> {
    session: SmolStr,
    run: SmolStr,
    step: u32,
    event: Arc<P::Event>,
    answer: HookAnswer,
    /// True if the verdict was used. A cached verdict is used once.
    is_used: bool,
}

impl<P: Point> CachedAnswer<P> {
    fn is_from_step(&self, cx: &Cx) -> bool {
        self.session == cx.session_id() && self.run == cx.run_id() && self.step == cx.step()
    }
}

/// The limit of cached answers. A chain that ends before its gates leaves unused answers.
const MAX_CACHED_ANSWERS: usize = 64;

impl<P: ExternalPoint> ExternalBinding<P> {
    pub(crate) fn new(
        name: SmolStr,
        hook: Arc<dyn ExternalHook>,
        hindrance: Option<&'static str>,
        judges: bool,
    ) -> Arc<Self> {
        let (speaker, seen) = (OnceLock::new(), Mutex::default());
        Arc::new(ExternalBinding {
            name,
            hook,
            change_refusal: hindrance,
            is_gate: judges,
            speaker,
            cached_answers: seen,
        })
    }

    pub(crate) fn make_answer_handler(self: &Arc<Self>) -> HandlerFn<P, P::Answer> {
        self.make_handler(|_, answer, _| P::answer(answer).ok_or_else(meaningless_answer::<P>))
    }

    pub(crate) fn make_transform(self: &Arc<Self>) -> HandlerFn<P, P::Change> {
        self.make_handler(|asker, answer, at| {
            let change = P::change(answer).map_err(HandlerFailure::Error)?;
            P::warn(answer, at.cx());
            if asker.is_gate {
                asker.cache_answer(answer, at);
            }
            Ok(change)
        })
    }

    /// Caches an answer for the gate. Answers from other steps of the session are removed.
    fn cache_answer(&self, answer: &HookAnswer, at: &At<P>) {
        let cx = at.cx();
        let mut seen = self.cached_answers.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|seen| seen.session != cx.session_id() || seen.is_from_step(cx));
        if seen.len() >= MAX_CACHED_ANSWERS {
            seen.remove(0);
        }
        seen.push(CachedAnswer {
            session: cx.session_id().into(),
            run: cx.run_id().into(),
            step: cx.step(),
            event: at.event.clone(),
            answer: answer.clone(),
            is_used: false,
        });
    }

    /// Makes the gate. It uses the cached answer for an equal event, or asks the hook.
    pub(crate) fn judges(self: &Arc<Self>) -> HandlerFn<P, P::Verdict> {
        let asker = self.clone();
        let asked = self.make_handler(|asker, answer, at| {
            let blocked = match (&answer.change, asker.change_refusal) {
                (Some(change), _) if asker.changes_nothing(change, at) => None,
                (Some(_), None) => {
                    Some("it would change again what was changed after it".to_owned())
                }
                (Some(_), Some(why)) => Some(format!("it may not change anything: {why}")),
                (None, _) => None,
            };
            let blocked = blocked.map(HookAnswer::blocked);
            P::verdict(blocked.as_ref().unwrap_or(answer)).ok_or_else(meaningless_answer::<P>)
        });
        HandlerFn::Later(Box::new(move |at: At<P>| match (asker.take_cached_answer(&at), &asked) {
            (Some(answer), _) => {
                let verdict = P::verdict(&answer).ok_or_else(meaningless_answer::<P>);
                Box::pin(std::future::ready(verdict))
            }
            (None, HandlerFn::Later(ask)) => ask(at),
            (None, HandlerFn::Ready(_)) => {
                Box::pin(std::future::ready(Err(meaningless_answer::<P>())))
            }
        }))
    }

    pub(crate) fn make_observer(self: &Arc<Self>) -> HandlerFn<P, ()> {
        self.make_handler(|asker, answer, at| {
            if let (Some(_), Some(why)) = (&answer.change, asker.change_refusal) {
                let ExternalBinding { name, .. } = asker;
                at.cx().notify(&format!(
                    "hook `{name}` would change something at `{}`, which it may not: {why}",
                    P::ID
                ));
            }
            P::warn(answer, at.cx());
            Ok(())
        })
    }

    /// Takes the cached answer for an equal event, or for the event that this hook's own change produced.
    fn take_cached_answer(&self, at: &At<P>) -> Option<HookAnswer> {
        let mut seen = self.cached_answers.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest answer wins, because the hook may have been asked twice.
        let mut kept =
            seen.iter_mut().rev().filter(|seen| !seen.is_used && seen.is_from_step(at.cx()));
        let found = kept.find(|seen| match &seen.answer.change {
            Some(change) => P::is_result_of(&seen.event, change, &at.event),
            None => P::is_same(&seen.event, &at.event),
        })?;
        found.is_used = true;
        Some(HookAnswer { change: None, ..found.answer.clone() })
    }

    /// True if a change has no effect: the event already has the value, or this same change was already
    /// applied.
    fn changes_nothing(&self, change: &HookChange, at: &At<P>) -> bool {
        if P::has_no_effect(&at.event, change) {
            return true;
        }
        let seen = self.cached_answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = seen.iter().filter(|seen| seen.is_used && seen.is_from_step(at.cx()));
        kept.any(|seen| {
            seen.answer.change.as_ref() == Some(change)
                && P::is_result_of(&seen.event, change, &at.event)
        })
    }

    /// Makes a handler that asks the hook, sends its notes and converts its answer with `make`.
    fn make_handler<R: Send + 'static>(
        self: &Arc<Self>,
        make: impl Fn(&Self, &HookAnswer, &At<P>) -> Result<R, HandlerFailure>
        + Copy
        + Send
        + Sync
        + 'static,
    ) -> HandlerFn<P, R> {
        let asker = self.clone();
        HandlerFn::Later(Box::new(move |at: At<P>| {
            let asker = asker.clone();
            Box::pin(async move {
                let (payload, event) = (payload(&at)?, at.event.clone());
                let asked = HookRequest { point: P::ID, payload, cx: at.cx().clone(), event };
                let answer = asker.hook.ask(asked).await.map_err(HandlerFailure::Error)?;
                let speaker = asker.speaker.get_or_init(|| at.cx().author.clone());
                answer.send_notes(&at.cx().with_author(speaker.clone()));
                make(&asker, &answer, &at)
            })
        }))
    }
}

fn meaningless_answer<P: Point>() -> HandlerFailure {
    HandlerFailure::Error(format!("its answer makes no sense at `{}`", P::ID))
}

/// The payload of a hook: the common fields and the fields of its point.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookPayload<'a, E> {
    v: u32,
    event: &'static str,
    session_id: &'a str,
    run_id: &'a str,
    step: u32,
    agent_id: &'a str,
    cwd: &'a std::path::Path,
    project_dir: &'a std::path::Path,
    dry_run: bool,
    #[serde(flatten)]
    happens: &'a E,
}

fn payload<P: Point>(at: &At<P>) -> Result<Value, HandlerFailure> {
    let cx = at.cx();
    let payload = HookPayload {
        v: 1,
        event: P::ID.name(),
        session_id: cx.session_id(),
        run_id: cx.run_id(),
        step: cx.step(),
        agent_id: cx.agent_id(),
        cwd: cx.workspace().cwd(),
        project_dir: cx.workspace().project(),
        dry_run: cx.is_dry_run(),
        happens: &*at.event,
    };
    serde_json::to_value(payload).map_err(|cause| HandlerFailure::Error(cause.to_string()))
}
