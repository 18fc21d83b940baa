//! Hooks outside the program: what happens is told to them as JSON, and what they answer is JSON too.
//! A constructor for registrations and nothing more: who is asked ([`ExternalHook`]) is a command or a script,
//! who asks is the one dispatch.
//!
//! A hook takes the strongest power its point and its owner allow, and no more than it is said to have.
//! One that may change something is registered twice under its name: as a transform, asked beside the
//! others of its kind, and as a gate on what all of them made. A verdict that was given on the very same
//! is not asked for again.

pub(crate) mod answer;
pub(crate) mod per_point;
pub(crate) mod sample;

use std::{
    any::Any,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

pub use crate::hooks::external::answer::{HookAnswer, HookChange, HookDecision};
pub(crate) use crate::hooks::external::per_point::ExternalPoint;
use crate::{
    agent::cx::Cx,
    hooks::{
        notes::NoteAuthor,
        points::{self, Point, PointId},
    },
    permission::verdict::Power,
};
use crate::{
    hooks::{
        chain::HandlerFn,
        handler::{At, HandlerFailure, HandlerOptions},
    },
    permission::origin::{Origin, Owner},
    registry::Registry,
};

/// A hook outside the program.
///
/// It is asked each time its point fires and its tools match, several at once where several calls run.
/// Its future is dropped when its limit is over or the run is aborted: whatever it started must end
/// with it. An error is its failure: a gate then blocks, an observer changes nothing.
pub trait ExternalHook: Send + Sync + 'static {
    /// Asks it.
    fn ask(&self, asked: HookRequest) -> HookFuture;
}

/// The answer of a hook, on its way.
pub type HookFuture = Pin<Box<dyn Future<Output = Result<HookAnswer, String>> + Send>>;

/// What a hook is asked.
#[derive(Clone)]
#[non_exhaustive]
pub struct HookRequest {
    /// Where it happens.
    pub point: PointId,
    /// What happens, as `docs/FORMATS.md` has it for this point.
    pub payload: Value,
    /// The surroundings.
    pub cx: Cx,
    /// What happens, as handlers in the program know it.
    event: Arc<dyn Any + Send + Sync>,
}

impl HookRequest {
    /// What happens at a point, as handlers in the program know it; nothing at another point.
    pub(crate) fn event<P: Point>(&self) -> Option<&P::Event> {
        self.event.downcast_ref()
    }
}

/// What is said about a hook when it is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalHookSpec {
    /// Its name. Without one it is named after its point.
    pub name: Option<SmolStr>,
    /// What it is for.
    pub description: SmolStr,
    /// What it does, as far as its entry tells. One that is loaded again and does something else counts
    /// as another: nobody knows that it is as strict.
    pub definition: SmolStr,
    /// The tools it is limited to, as globs; `None` is all.
    pub tools: Option<Vec<String>>,
    /// How long it may take; `None` is what its point allows.
    pub limit: Option<Duration>,
    /// The most it may do; `None` is the most that its point and its owner allow.
    pub power: Option<Power>,
    /// Whether nobody waits for it, which makes an observer of it.
    pub detached: bool,
}

impl ExternalHookSpec {
    fn options(&self) -> HandlerOptions {
        HandlerOptions {
            name: self.name.clone(),
            description: self.description.clone(),
            definition: self.definition.clone(),
            tools: self.tools.clone(),
            limit: self.limit,
            outside: true,
            ..HandlerOptions::default()
        }
    }
}

impl Registry {
    /// Registers a hook outside the program at a point.
    pub fn outside(
        &mut self,
        point: PointId,
        declared: ExternalHookSpec,
        hook: Arc<dyn ExternalHook>,
    ) -> &mut Self {
        points::visit(point, RegisterVisitor { unit: self, declared, hook, second: false });
        self
    }

    /// Registers another side of a hook that goes by the same name.
    pub(crate) fn outside_too(
        &mut self,
        point: PointId,
        declared: ExternalHookSpec,
        hook: Arc<dyn ExternalHook>,
    ) -> &mut Self {
        points::visit(point, RegisterVisitor { unit: self, declared, hook, second: true });
        self
    }
}

struct RegisterVisitor<'a> {
    unit: &'a mut Registry,
    declared: ExternalHookSpec,
    hook: Arc<dyn ExternalHook>,
    /// Whether its name is taken by another side of it.
    second: bool,
}

impl points::PointVisitor for RegisterVisitor<'_> {
    type Out = ();

    fn at<P: ExternalPoint>(self) {
        let RegisterVisitor { unit, mut declared, hook, second } = self;
        let name = declared.name.clone().unwrap_or_else(|| P::ID.name().into());
        if P::ID == PointId::Context {
            let message = format!("hook `{name}`: `context` is for hooks in Rust and for scripts");
            return unit.fail(message, None);
        }
        // Both sides go by one name.
        declared.name = Some(name.clone());
        let most = match declared.detached {
            true => Power::Observe,
            false => declared.power.unwrap_or(Power::Answer),
        };
        let owner = unit.owner.clone();
        let may =
            |power: Power| power <= most && P::ID.row().powers.contains(&power) && owner.may(power);
        let hindrance = (!may(Power::Transform)).then(|| why_no_transform(&owner, most));
        let may_change = hindrance.is_none();
        let judges = may(Power::Gate);
        let asker = Arc::new(ExternalBinding::<P> {
            name: name.clone(),
            hook,
            hindrance,
            judges,
            speaker: OnceLock::new(),
            seen: Mutex::default(),
        });
        let options = HandlerOptions { second, ..declared.options() };
        if may(Power::Answer) {
            return unit.bind_answer::<P>(options, asker.answers());
        }
        if may_change {
            unit.bind_transform::<P>(
                HandlerOptions { beside: true, ..options.clone() },
                asker.changes(),
            );
            if judges {
                let second = HandlerOptions { second: true, quiet: true, ..options };
                unit.bind_gate::<P>(second, asker.judges());
            }
            return;
        }
        match judges {
            true => unit.bind_gate::<P>(options, asker.judges()),
            false => unit.bind_observer::<P>(
                HandlerOptions { detached: declared.detached, ..options },
                asker.observes(),
            ),
        }
    }
}

/// Why a hook may not change anything.
fn why_no_transform(owner: &Owner, most: Power) -> &'static str {
    match &owner.origin {
        _ if most < Power::Transform => "its entry limits it to less",
        Origin::Profile(_) => "a profile's hooks never do",
        _ => "its owner was not granted `rewrite`",
    }
}

/// A hook at its point, with what it said while it could still change something.
struct ExternalBinding<P: ExternalPoint> {
    name: SmolStr,
    hook: Arc<dyn ExternalHook>,
    /// Why it may not change anything, where it may not.
    hindrance: Option<&'static str>,
    /// Whether it is heard as a gate.
    judges: bool,
    /// As whom it speaks, whichever of its sides is asked: the same words are told once.
    speaker: OnceLock<NoteAuthor>,
    seen: Mutex<Vec<CachedAnswer<P>>>,
}

/// An answer, and what it was given on.
struct CachedAnswer<P: Point> {
    session: SmolStr,
    run: SmolStr,
    step: u32,
    event: Arc<P::Event>,
    answer: HookAnswer,
    /// Whether its verdict was taken: it stands for one judgement.
    taken: bool,
}

impl<P: Point> CachedAnswer<P> {
    fn is_of(&self, cx: &Cx) -> bool {
        self.session == cx.session_id() && self.run == cx.run_id() && self.step == cx.step()
    }
}

/// The most answers that wait to be looked at again. What a chain ended before its gates leaves some.
const WAITING: usize = 64;

impl<P: ExternalPoint> ExternalBinding<P> {
    fn answers(self: &Arc<Self>) -> HandlerFn<P, P::Answer> {
        self.asked(|_, answer, _| P::answer(answer).ok_or_else(senseless::<P>))
    }

    fn changes(self: &Arc<Self>) -> HandlerFn<P, P::Change> {
        self.asked(|asker, answer, at| {
            let change = P::change(answer).map_err(HandlerFailure::Error)?;
            P::warn(answer, at.cx());
            if asker.judges {
                asker.keep(answer, at);
            }
            Ok(change)
        })
    }

    /// Keeps an answer for the judgement to come. What was said at another step of the session is over.
    fn keep(&self, answer: &HookAnswer, at: &At<P>) {
        let cx = at.cx();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|seen| seen.session != cx.session_id() || seen.is_of(cx));
        if seen.len() >= WAITING {
            seen.remove(0);
        }
        seen.push(CachedAnswer {
            session: cx.session_id().into(),
            run: cx.run_id().into(),
            step: cx.step(),
            event: at.event.clone(),
            answer: answer.clone(),
            taken: false,
        });
    }

    /// Judges what is about to happen: by what it said of the very same, else by asking.
    fn judges(self: &Arc<Self>) -> HandlerFn<P, P::Verdict> {
        let asker = self.clone();
        let asked = self.asked(|asker, answer, at| {
            let blocked = match (&answer.change, asker.hindrance) {
                (Some(change), _) if asker.changes_nothing(change, at) => None,
                (Some(_), None) => {
                    Some("it would change again what was changed after it".to_owned())
                }
                (Some(_), Some(why)) => Some(format!("it may not change anything: {why}")),
                (None, _) => None,
            };
            let blocked = blocked.map(HookAnswer::blocked);
            P::verdict(blocked.as_ref().unwrap_or(answer)).ok_or_else(senseless::<P>)
        });
        HandlerFn::Later(Box::new(move |at: At<P>| match (asker.take_cached_answer(&at), &asked) {
            (Some(answer), _) => {
                let verdict = P::verdict(&answer).ok_or_else(senseless::<P>);
                Box::pin(std::future::ready(verdict))
            }
            (None, HandlerFn::Later(ask)) => ask(at),
            (None, HandlerFn::Ready(_)) => Box::pin(std::future::ready(Err(senseless::<P>()))),
        }))
    }

    fn observes(self: &Arc<Self>) -> HandlerFn<P, ()> {
        self.asked(|asker, answer, at| {
            if let (Some(_), Some(why)) = (&answer.change, asker.hindrance) {
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

    /// What it said of an event like this one, or that this is what it made of it.
    fn take_cached_answer(&self, at: &At<P>) -> Option<HookAnswer> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest counts: it may have been asked twice.
        let mut kept = seen.iter_mut().rev().filter(|seen| !seen.taken && seen.is_of(at.cx()));
        let found = kept.find(|seen| match &seen.answer.change {
            Some(change) => P::is_made_of(&seen.event, change, &at.event),
            None => P::is_same(&seen.event, &at.event),
        })?;
        found.taken = true;
        Some(HookAnswer { change: None, ..found.answer.clone() })
    }

    /// Whether a change leaves things as they are: they are like that, or this very answer was carried
    /// out already.
    fn changes_nothing(&self, change: &HookChange, at: &At<P>) -> bool {
        if P::leaves(&at.event, change) {
            return true;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = seen.iter().filter(|seen| seen.taken && seen.is_of(at.cx()));
        kept.any(|seen| {
            seen.answer.change.as_ref() == Some(change)
                && P::is_made_of(&seen.event, change, &at.event)
        })
    }

    /// Asks, passes its words on, and makes something of its answer.
    fn asked<R: Send + 'static>(
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
                let speaker = asker.speaker.get_or_init(|| at.cx().speaker.clone());
                answer.speak(&at.cx().spoken_by(speaker.clone()));
                make(&asker, &answer, &at)
            })
        }))
    }
}

fn senseless<P: Point>() -> HandlerFailure {
    HandlerFailure::Error(format!("its answer makes no sense at `{}`", P::ID))
}

/// What every payload has, and what its point adds.
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
        cwd: cx.place().cwd(),
        project_dir: cx.place().project(),
        dry_run: cx.is_dry_run(),
        happens: &*at.event,
    };
    serde_json::to_value(payload).map_err(|cause| HandlerFailure::Error(cause.to_string()))
}
