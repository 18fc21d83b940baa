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
    author: OnceLock<NoteAuthor>,
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
        change_refusal: Option<&'static str>,
        is_gate: bool,
    ) -> Arc<Self> {
        let (author, cached_answers) = (OnceLock::new(), Mutex::default());
        Arc::new(ExternalBinding { name, hook, change_refusal, is_gate, author, cached_answers })
    }

    pub(crate) fn make_answer_handler(self: &Arc<Self>) -> HandlerFn<P, P::Answer> {
        self.make_handler(|_, answer, _| P::answer(answer).ok_or_else(invalid_answer::<P>))
    }

    pub(crate) fn make_transform(self: &Arc<Self>) -> HandlerFn<P, P::Change> {
        self.make_handler(|binding, answer, at| {
            let change = P::change(answer).map_err(HandlerFailure::Error)?;
            P::warn(answer, at.cx());
            if binding.is_gate {
                binding.cache_answer(answer, at);
            }
            Ok(change)
        })
    }

    /// Caches an answer for the gate. Answers from other steps of the session are removed.
    fn cache_answer(&self, answer: &HookAnswer, at: &At<P>) {
        let cx = at.cx();
        let mut answers = self.cached_answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|cached| cached.session != cx.session_id() || cached.is_from_step(cx));
        if answers.len() >= MAX_CACHED_ANSWERS {
            answers.remove(0);
        }
        answers.push(CachedAnswer {
            session: cx.session_id().into(),
            run: cx.run_id().into(),
            step: cx.step(),
            event: at.event.clone(),
            answer: answer.clone(),
            is_used: false,
        });
    }

    /// Makes the gate. It uses the cached answer for an equal event, or asks the hook.
    pub(crate) fn make_gate(self: &Arc<Self>) -> HandlerFn<P, P::Verdict> {
        let binding = self.clone();
        let ask_hook = self.make_handler(|binding, answer, at| {
            let blocked = match (&answer.change, binding.change_refusal) {
                (Some(change), _) if binding.changes_nothing(change, at) => None,
                (Some(_), None) => Some(
                    "it would change the event again, after another hook changed it".to_owned(),
                ),
                (Some(_), Some(why)) => Some(format!("it may not change anything: {why}")),
                (None, _) => None,
            };
            let blocked = blocked.map(HookAnswer::blocked);
            P::verdict(blocked.as_ref().unwrap_or(answer)).ok_or_else(invalid_answer::<P>)
        });
        HandlerFn::Later(Box::new(move |at: At<P>| {
            match (binding.take_cached_answer(&at), &ask_hook) {
                (Some(answer), _) => {
                    let verdict = P::verdict(&answer).ok_or_else(invalid_answer::<P>);
                    Box::pin(std::future::ready(verdict))
                }
                (None, HandlerFn::Later(ask)) => ask(at),
                (None, HandlerFn::Ready(_)) => {
                    Box::pin(std::future::ready(Err(invalid_answer::<P>())))
                }
            }
        }))
    }

    pub(crate) fn make_observer(self: &Arc<Self>) -> HandlerFn<P, ()> {
        self.make_handler(|binding, answer, at| {
            if let (Some(_), Some(why)) = (&answer.change, binding.change_refusal) {
                let (name, point) = (&binding.name, P::ID);
                at.cx().notify(&format!(
                    "hook `{name}` may not change anything at `{point}`: {why}; \
                     its change is ignored"
                ));
            }
            P::warn(answer, at.cx());
            Ok(())
        })
    }

    /// Takes the cached answer for an equal event, or for the event that this hook's own change produced.
    fn take_cached_answer(&self, at: &At<P>) -> Option<HookAnswer> {
        let mut answers = self.cached_answers.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest answer wins, because the hook may have been asked twice.
        let mut unused = answers
            .iter_mut()
            .rev()
            .filter(|cached| !cached.is_used && cached.is_from_step(at.cx()));
        let found = unused.find(|cached| match &cached.answer.change {
            Some(change) => P::is_result_of(&cached.event, change, &at.event),
            None => P::is_same(&cached.event, &at.event),
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
        let answers = self.cached_answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut used =
            answers.iter().filter(|cached| cached.is_used && cached.is_from_step(at.cx()));
        used.any(|cached| {
            cached.answer.change.as_ref() == Some(change)
                && P::is_result_of(&cached.event, change, &at.event)
        })
    }

    /// Makes a handler that asks the hook, sends its notes and converts its answer with `convert`.
    fn make_handler<R: Send + 'static>(
        self: &Arc<Self>,
        convert: impl Fn(&Self, &HookAnswer, &At<P>) -> Result<R, HandlerFailure>
        + Copy
        + Send
        + Sync
        + 'static,
    ) -> HandlerFn<P, R> {
        let binding = self.clone();
        HandlerFn::Later(Box::new(move |at: At<P>| {
            let binding = binding.clone();
            Box::pin(async move {
                let (payload, event) = (payload(&at)?, at.event.clone());
                let request = HookRequest { point: P::ID, payload, cx: at.cx().clone(), event };
                let answer = binding.hook.ask(request).await.map_err(HandlerFailure::Error)?;
                let author = binding.author.get_or_init(|| at.cx().author.clone());
                answer.send_notes(&at.cx().with_author(author.clone()));
                convert(&binding, &answer, &at)
            })
        }))
    }
}

fn invalid_answer<P: Point>() -> HandlerFailure {
    HandlerFailure::Error(format!("its answer is not valid at `{}`", P::ID))
}

/// The payload of a hook: the common fields and the fields of its point.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct HookPayload<'a, E> {
    /// The version of the format: 1.
    #[cfg_attr(feature = "schema", schemars(extend("const" = 1)))]
    v: u32,
    /// The name of the point.
    event: &'static str,
    /// The id of the session.
    session_id: &'a str,
    /// The id of the run; empty outside of a run.
    run_id: &'a str,
    /// The step of the run, from 1; 0 before the first request.
    step: u32,
    /// The id of the agent: `main`, or the id of a subagent.
    agent_id: &'a str,
    /// The folder that the session works in.
    cwd: &'a std::path::Path,
    /// The root folder of the project.
    project_dir: &'a std::path::Path,
    /// True if the answer is only shown to a person and has no effect.
    dry_run: bool,
    #[serde(flatten)]
    point_event: &'a E,
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
        point_event: &*at.event,
    };
    serde_json::to_value(payload).map_err(|cause| HandlerFailure::Error(cause.to_string()))
}
