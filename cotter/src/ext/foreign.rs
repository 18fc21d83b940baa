//! Hooks outside the program: what happens is told to them as JSON, and what they answer is JSON too.
//! A constructor for registrations and nothing more: who is asked ([`Outside`]) is a command or a script,
//! who asks is the one dispatch.
//!
//! A hook takes the strongest power its point and its owner allow, and no more than it is said to have.
//! One that may change something is registered twice under its name: as a transform, asked beside the
//! others of its kind, and as a gate on what all of them made. A verdict that was given on the very same
//! is not asked for again.

mod answer;
mod glue;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

#[cfg(feature = "files")]
pub(crate) use self::answer::is_yes;
pub use self::answer::{Answer, Change, Decision};
pub(crate) use self::glue::Foreign;
use super::{
    chain::Func,
    handler::{At, Failure, Options},
    registry::Registry,
};
use crate::{
    cx::Cx,
    points::{self, Point, PointId, Power},
};

/// A hook outside the program.
///
/// It is asked each time its point fires and its tools match, several at once where several calls run.
/// Its future is dropped when its limit is over or the run is aborted: whatever it started must end
/// with it. An error is its failure: a gate then blocks, an observer changes nothing.
pub trait Outside: Send + Sync + 'static {
    /// Asks it.
    fn ask(&self, asked: Asked) -> Asking;
}

/// The answer of a hook, on its way.
pub type Asking = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send>>;

/// What a hook is asked.
#[derive(Clone)]
#[non_exhaustive]
pub struct Asked {
    /// Where it happens.
    pub point: PointId,
    /// What happens, as `docs/FORMATS.md` has it for this point.
    pub payload: Value,
    /// The surroundings.
    pub cx: Cx,
}

/// What is said about a hook when it is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declared {
    /// Its name. Without one it is named after its point.
    pub name: Option<SmolStr>,
    /// What it is for.
    pub description: SmolStr,
    /// The tools it is limited to, as globs; `None` is all.
    pub tools: Option<Vec<String>>,
    /// How long it may take; `None` is what its point allows.
    pub limit: Option<Duration>,
    /// The most it may do; `None` is the most that its point and its owner allow.
    pub power: Option<Power>,
    /// Whether nobody waits for it, which makes an observer of it.
    pub detached: bool,
}

impl Declared {
    fn options(&self) -> Options {
        Options {
            name: self.name.clone(),
            description: self.description.clone(),
            tools: self.tools.clone(),
            limit: self.limit,
            ..Options::default()
        }
    }
}

impl Registry {
    /// Registers a hook outside the program at a point.
    pub fn outside(
        &mut self,
        point: PointId,
        declared: Declared,
        hook: Arc<dyn Outside>,
    ) -> &mut Self {
        points::visit(point, Register { unit: self, declared, hook });
        self
    }
}

struct Register<'a> {
    unit: &'a mut Registry,
    declared: Declared,
    hook: Arc<dyn Outside>,
}

impl points::Visit for Register<'_> {
    type Out = ();

    fn at<P: Foreign>(self) {
        let Register { unit, mut declared, hook } = self;
        let name = declared.name.clone().unwrap_or_else(|| P::ID.name().into());
        if P::ID == PointId::Context {
            let message = format!("hook `{name}`: `context` is for hooks in Rust and for scripts");
            return unit.fail(message, None);
        }
        // Both sides go by one name.
        declared.name = Some(name);
        let most = match declared.detached {
            true => Power::Observe,
            false => declared.power.unwrap_or(Power::Answer),
        };
        let owner = unit.owner.clone();
        let may =
            |power: Power| power <= most && P::ID.row().powers.contains(&power) && owner.may(power);
        let may_change = may(Power::Transform);
        let asker = Arc::new(Asker::<P> { hook, may_change, seen: Mutex::default() });
        let options = declared.options();
        if may(Power::Answer) {
            return unit.bind_answer::<P>(options, asker.answers());
        }
        if may_change {
            unit.bind_transform::<P>(Options { beside: true, ..options.clone() }, asker.changes());
            if may(Power::Gate) {
                let second = Options { second: true, quiet: true, ..options };
                unit.bind_gate::<P>(second, asker.judges());
            }
            return;
        }
        match may(Power::Gate) {
            true => unit.bind_gate::<P>(options, asker.judges()),
            false => unit.bind_observer::<P>(
                Options { detached: declared.detached, ..options },
                asker.observes(),
            ),
        }
    }
}

/// A hook at its point, with what it said while it could still change something.
struct Asker<P: Foreign> {
    hook: Arc<dyn Outside>,
    may_change: bool,
    seen: Mutex<Vec<Seen<P>>>,
}

/// An answer, and what it was given on.
struct Seen<P: Point> {
    event: Arc<P::Event>,
    answer: Answer,
}

/// The most answers that wait to be looked at again. What a chain ended before its gates leaves some.
const WAITING: usize = 64;

impl<P: Foreign> Asker<P> {
    fn answers(self: &Arc<Self>) -> Func<P, P::Answer> {
        self.asked(|_, answer, _| P::answer(answer).ok_or_else(senseless::<P>))
    }

    fn changes(self: &Arc<Self>) -> Func<P, P::Change> {
        self.asked(|asker, answer, at| {
            let change = P::change(answer).map_err(Failure::Error)?;
            P::warn(answer, at.cx());
            let mut seen = asker.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() >= WAITING {
                seen.remove(0);
            }
            seen.push(Seen { event: at.event.clone(), answer: answer.clone() });
            Ok(change)
        })
    }

    /// Judges what is about to happen: by what it said of the very same, else by asking.
    fn judges(self: &Arc<Self>) -> Func<P, P::Verdict> {
        let asker = self.clone();
        let asked = self.asked(|asker, answer, _| {
            let blocked = match &answer.change {
                Some(_) if asker.may_change => "it would change again what was changed after it",
                Some(_) => "it may not change anything: its owner was not granted `rewrite`",
                None => return P::verdict(answer).ok_or_else(senseless::<P>),
            };
            P::verdict(&Answer::blocked(blocked)).ok_or_else(senseless::<P>)
        });
        Func::Later(Box::new(move |at: At<P>| match (asker.said_before(&at), &asked) {
            (Some(answer), _) => {
                let verdict = P::verdict(&answer).ok_or_else(senseless::<P>);
                Box::pin(std::future::ready(verdict))
            }
            (None, Func::Later(ask)) => ask(at),
            (None, Func::Ready(_)) => Box::pin(std::future::ready(Err(senseless::<P>()))),
        }))
    }

    fn observes(self: &Arc<Self>) -> Func<P, ()> {
        self.asked(|_, answer, at| {
            if answer.change.is_some() {
                at.cx().note(format!(
                    "Its answer would change something, which it may not at `{}`.",
                    P::ID
                ));
            }
            P::warn(answer, at.cx());
            Ok(())
        })
    }

    /// What it said of an event like this one, or that this is what it made of it.
    fn said_before(&self, at: &At<P>) -> Option<Answer> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = seen.iter().position(|seen| match &seen.answer.change {
            Some(change) => P::is_made_of(&seen.event, change, &at.event),
            None => P::is_same(&seen.event, &at.event),
        })?;
        let mut answer = seen.remove(found).answer;
        answer.change = None;
        Some(answer)
    }

    /// Asks, passes its words on, and makes something of its answer.
    fn asked<R: Send + 'static>(
        self: &Arc<Self>,
        make: impl Fn(&Self, &Answer, &At<P>) -> Result<R, Failure> + Copy + Send + Sync + 'static,
    ) -> Func<P, R> {
        let asker = self.clone();
        Func::Later(Box::new(move |at: At<P>| {
            let asker = asker.clone();
            Box::pin(async move {
                let asked = Asked { point: P::ID, payload: payload(&at)?, cx: at.cx().clone() };
                let answer = asker.hook.ask(asked).await.map_err(Failure::Error)?;
                answer.speak(at.cx());
                make(&asker, &answer, &at)
            })
        }))
    }
}

fn senseless<P: Point>() -> Failure {
    Failure::Error(format!("its answer makes no sense at `{}`", P::ID))
}

/// What every payload has, and what its point adds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a, E> {
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

fn payload<P: Point>(at: &At<P>) -> Result<Value, Failure> {
    let cx = at.cx();
    let payload = Payload {
        v: 1,
        event: P::ID.name(),
        session_id: cx.session_id(),
        run_id: cx.run_id(),
        step: cx.step(),
        agent_id: cx.agent_id(),
        cwd: cx.place().cwd(),
        project_dir: cx.place().project(),
        dry_run: false,
        happens: &*at.event,
    };
    serde_json::to_value(payload).map_err(|cause| Failure::Error(cause.to_string()))
}
