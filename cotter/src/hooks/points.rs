//! The points: every named moment of the loop, in one table.
//!
//! A row gives a point's name, the powers it takes, how long one handler may take, when it fires and
//! what happens when a transform at it fails. Everything else is derived from the row: the
//! [`PointId`], the marker traits that make a gate on `session.end` a compile error, the chains of a
//! generation, the documentation. The types a point needs stand in `points/`, one file per family.
//!
//! At one point transforms run first, in the order of registration; then gates, on what the transforms
//! made; then answers; then observers. A point that tells what has happened
//! ([`PointSpec::after_the_fact`]) is told after an abort, too.

pub(crate) mod compact;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod model;
pub(crate) mod permission;
pub(crate) mod session;
pub(crate) mod subagent;
pub(crate) mod tool_post;
pub(crate) mod tool_pre;
pub(crate) mod tool_refused;
pub(crate) mod turn_end;
pub(crate) mod user_prompt_submit;

use std::{fmt, time::Duration};

use crate::{
    hooks::{chain::Chain, external::per_point::ExternalPoint, handler::HandlerFailure},
    model::tools::ToolOutput,
    permission::verdict::{Power, Verdict},
};

pub use crate::hooks::points::{
    compact::{CompactPost, CompactPostEvent, CompactPre, CompactPreChange, CompactPreEvent},
    context::{Context, ContextChange, ContextEvent, each_message},
    error::{Error, RunFailure},
    model::{CacheBreak, ModelPost, ModelPostEvent, ModelPre, ModelPreEvent},
    permission::{PermissionAnswer, PermissionAsk},
    session::{
        SessionClose, SessionCloseEvent, SessionEnd, SessionEndEvent, SessionOpen,
        SessionOpenEvent, SessionStart, SessionStartEvent,
    },
    subagent::{SubagentEnd, SubagentEndEvent, SubagentStart, SubagentStartEvent},
    tool_post::{ToolPost, ToolPostChange, ToolPostEvent},
    tool_pre::{ToolPre, ToolPreChange, ToolPreEvent},
    tool_refused::{ToolRefused, ToolRefusedEvent},
    turn_end::{TurnEnd, TurnEndEvent, TurnEndVerdict},
    user_prompt_submit::{UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent},
};

macro_rules! points {
    ($( $point:ident $field:ident $name:literal [$($power:ident)*] $seconds:literal s
        $([$always:ident])? fires $fires:literal
        $(failed_transform $failed:literal)? ; )*) => {
        /// The name of a point, as a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum PointId { $( #[doc = concat!("`", $name, "`: ", $fires, ".")] $point ),* }

        /// The table of points, in the order of a turn.
        pub const POINTS: &[PointSpec] = &[ $( PointSpec {
            id: PointId::$point,
            name: $name,
            powers: &[$(points!(@power $power)),*],
            limit: Duration::from_secs($seconds),
            fires: $fires,
            failed_transform: points!(@failed $($failed)?),
            after_the_fact: points!(@always $($always)?),
        } ),* ];

        /// One chain per point: what a generation dispatches to.
        #[doc(hidden)]
        #[derive(Default)]
        pub struct Chains { $( $field: Chain<$point>, )* }

        impl Chains {
            /// The points that have a handler, as a bit mask by [`PointId`].
            pub(crate) fn mask(&self) -> u32 {
                0 $( | u32::from(!self.$field.is_empty()) << (PointId::$point as u8) )*
            }
        }

        $( impl ChainSlot for $point {
            fn chain(chains: &Chains) -> &Chain<Self> { &chains.$field }
            fn chain_mut(chains: &mut Chains) -> &mut Chain<Self> { &mut chains.$field }
        }
        $( points!(@marker $point $power); )* )*

        /// Does something with the type of a point that is known by its name.
        pub(crate) fn visit<V: PointVisitor>(point: PointId, visitor: V) -> V::Out {
            match point { $( PointId::$point => visitor.at::<$point>() ),* }
        }

        #[cfg(test)]
        fn declared_powers() -> Vec<(&'static str, Vec<Power>)> {
            vec![ $( ($name, powers_by_type::<$point>()) ),* ]
        }
    };
    (@power observe) => { Power::Observe };
    (@power gate) => { Power::Gate };
    (@power transform) => { Power::Transform };
    (@power answer) => { Power::Answer };
    (@failed $failed:literal) => { Some($failed) };
    (@failed) => { None };
    (@always always) => { true };
    (@always) => { false };
    (@marker $point:ident observe) => {};
    (@marker $point:ident gate) => { impl TakesGates for $point {} };
    (@marker $point:ident transform) => { impl TakesTransforms for $point {} };
    (@marker $point:ident answer) => { impl TakesAnswers for $point {} };
}

points! {
    SessionOpen session_open "session.open" [observe] 5 s [always]
        fires "a session is created, resumed or forked";
    SessionStart session_start "session.start" [observe] 5 s [always]
        fires "top of the loop, once per run";
    UserPromptSubmit user_prompt_submit "user.prompt.submit" [observe gate transform] 5 s
        fires "after directives, before the message is stored"
        failed_transform "the turn is refused";
    Context context "context" [observe transform] 5 s
        fires "every time messages are built for the model"
        failed_transform "the run ends with `error`, naming the handler";
    ModelPre model_pre "model.pre" [observe] 5 s
        fires "before each provider attempt; its notes ride on this very request";
    ModelPost model_post "model.post" [observe] 5 s [always]
        fires "after each successful reply is recorded";
    ToolPre tool_pre "tool.pre" [observe gate transform] 5 s
        fires "before a tool runs, with what the call touches"
        failed_transform "the call is refused";
    PermissionAsk permission_ask "permission.ask" [observe gate answer] 5 s
        fires "a human is about to be asked";
    ToolPost tool_post "tool.post" [observe transform] 60 s [always]
        fires "after a tool that ran, however it ended"
        failed_transform "the result is withheld, with a word to the model";
    ToolRefused tool_refused "tool.refused" [observe] 5 s [always]
        fires "a call that never ran, with who refused it and why";
    CompactPre compact_pre "compact.pre" [observe gate transform] 60 s
        fires "the conversation is about to be summed up; a transform may supply the summary"
        failed_transform "the built-in summary is used";
    CompactPost compact_post "compact.post" [observe] 60 s [always]
        fires "the conversation was summed up";
    SubagentStart subagent_start "subagent.start" [observe gate] 5 s
        fires "a subagent is about to work";
    SubagentEnd subagent_end "subagent.end" [observe] 5 s [always]
        fires "a subagent is done, however it ended";
    TurnEnd turn_end "turn.end" [observe gate] 60 s
        fires "the model would stop";
    Error error "error" [observe] 5 s [always]
        fires "unrecoverable failure or limit reached, just before `session.end`";
    SessionEnd session_end "session.end" [observe] 5 s [always]
        fires "every exit of the loop, with the true reason";
    SessionClose session_close "session.close" [observe] 5 s [always]
        fires "a session is closed";
}

/// One row of the table of points.
#[derive(Debug)]
#[non_exhaustive]
pub struct PointSpec {
    /// The point.
    pub id: PointId,
    /// Its name on the wire and in files.
    pub name: &'static str,
    /// The powers a handler at it may have.
    pub powers: &'static [Power],
    /// How long a handler may take unless its registration says otherwise.
    pub limit: Duration,
    /// When it fires, for documentation.
    pub fires: &'static str,
    /// What happens when a transform at it fails, where there are transforms.
    pub failed_transform: Option<&'static str>,
    /// Whether it tells what has happened, abort or not: an audit trail that skips aborted runs is
    /// none.
    pub after_the_fact: bool,
}

impl PointSpec {
    /// Whether handlers here can be limited to some tools.
    pub fn is_about_tools(&self) -> bool {
        matches!(self.id, PointId::ToolPre | PointId::ToolPost | PointId::ToolRefused)
    }
}

impl PointId {
    /// The point's row.
    pub fn row(self) -> &'static PointSpec {
        &POINTS[self as usize]
    }

    /// The point's name on the wire and in files.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The point of that name.
    pub fn parse(name: &str) -> Option<PointId> {
        POINTS.iter().find(|row| row.name == name).map(|row| row.id)
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A named moment of the loop, as a type: what happens there and what may be decided.
///
/// Points are ours: the trait is sealed. `Verdict`, `Change` and `Answer` are [`NoAnswer`] where the
/// point does not take that power, so a decision that makes no sense cannot be written.
pub trait Point: ChainSlot + Sized + Send + Sync + 'static {
    /// The row of this point.
    const ID: PointId;
    /// What a handler is shown.
    type Event: serde::Serialize + Send + Sync + 'static;
    /// What a gate answers.
    type Verdict: RankedAnswer;
    /// What a transform answers.
    type Change: Send + 'static;
    /// What an answering handler answers.
    type Answer: RankedAnswer;

    /// Carries out a transform's answer.
    fn apply(event: &Self::Event, change: Self::Change) -> TransformEffect<Self>;

    /// What a failed transform amounts to.
    fn transform_failed(_event: &Self::Event, failure: &HandlerFailure) -> TransformEffect<Self> {
        TransformEffect::Stopped(ChainStop::Block(failure.to_string()))
    }
}

/// A point that takes gates.
pub trait TakesGates: Point {}
/// A point that takes transforms.
pub trait TakesTransforms: Point {}
/// A point that takes answers.
pub trait TakesAnswers: Point {}

/// Where a point's chain stands in a generation. Only the table implements it: `Chain` cannot be
/// named outside this crate, so `Point` is sealed.
#[doc(hidden)]
pub trait ChainSlot: Sized {
    fn chain(chains: &Chains) -> &Chain<Self>
    where
        Self: Point;
    fn chain_mut(chains: &mut Chains) -> &mut Chain<Self>
    where
        Self: Point;
}

/// Something to be done with a point's type.
pub(crate) trait PointVisitor {
    type Out;
    fn at<P: ExternalPoint>(self) -> Self::Out;
}

/// What became of an event that a transform answered.
#[derive(Debug)]
pub enum TransformEffect<P: Point> {
    /// As it was.
    Kept,
    /// Another event goes on in its place.
    Replaced(P::Event),
    /// The chain ends here.
    Stopped(ChainStop),
}

/// How a transform ended a chain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChainStop {
    /// What was about to happen does not, for this reason.
    Block(String),
    /// The tool need not run: this is its answer.
    Answer(ToolOutput),
}

/// An answer that folds with others: the strictest stands, whatever the order.
pub trait RankedAnswer: Clone + Send + Sync + fmt::Debug + 'static {
    /// 0 says nothing; a higher rank wins over a lower one.
    fn rank(&self) -> u8;
    /// Whether nothing stricter can follow, so that the rest need not be asked.
    fn ends(&self) -> bool;
    /// The reason given, where there is one.
    fn reason(&self) -> Option<&str>;
    /// The word for it in events and the ledger.
    fn word(&self) -> &'static str;
    /// What a failure counts as; `None` is silence.
    fn failed(failure: &HandlerFailure) -> Option<Self>;
}

/// The answer of a power a point does not have: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {}

impl RankedAnswer for NoAnswer {
    fn rank(&self) -> u8 {
        match *self {}
    }
    fn ends(&self) -> bool {
        match *self {}
    }
    fn reason(&self) -> Option<&str> {
        match *self {}
    }
    fn word(&self) -> &'static str {
        match *self {}
    }
    fn failed(_: &HandlerFailure) -> Option<Self> {
        None
    }
}

impl RankedAnswer for Verdict {
    fn rank(&self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::Ask(_) => 1,
            Verdict::Block(_) => 2,
        }
    }
    fn ends(&self) -> bool {
        matches!(self, Verdict::Block(_))
    }
    fn reason(&self) -> Option<&str> {
        match self {
            Verdict::Pass => None,
            Verdict::Ask(reason) | Verdict::Block(reason) => Some(reason),
        }
    }
    fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Ask(_) => "ask",
            Verdict::Block(_) => "block",
        }
    }
    fn failed(failure: &HandlerFailure) -> Option<Self> {
        Some(Verdict::Block(failure.to_string()))
    }
}

/// What a gate says where nobody can be asked: go on, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Nothing against it.
    Pass,
    /// It does not happen, for this reason.
    Block(String),
}

impl Admission {
    /// A refusal, with its reason.
    pub fn block(reason: impl Into<String>) -> Self {
        Admission::Block(reason.into())
    }
}

impl RankedAnswer for Admission {
    fn rank(&self) -> u8 {
        u8::from(matches!(self, Admission::Block(_)))
    }
    fn ends(&self) -> bool {
        matches!(self, Admission::Block(_))
    }
    fn reason(&self) -> Option<&str> {
        match self {
            Admission::Pass => None,
            Admission::Block(reason) => Some(reason),
        }
    }
    fn word(&self) -> &'static str {
        match self {
            Admission::Pass => "pass",
            Admission::Block(_) => "block",
        }
    }
    fn failed(failure: &HandlerFailure) -> Option<Self> {
        Some(Admission::Block(failure.to_string()))
    }
}

#[cfg(test)]
fn powers_by_type<P: Point>() -> Vec<Power> {
    use std::any::TypeId;
    let never = TypeId::of::<NoAnswer>();
    let mut powers = vec![Power::Observe];
    if TypeId::of::<P::Verdict>() != never {
        powers.push(Power::Gate);
    }
    if TypeId::of::<P::Change>() != never {
        powers.push(Power::Transform);
    }
    if TypeId::of::<P::Answer>() != never {
        powers.push(Power::Answer);
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_types_give_each_point_the_same_powers() {
        let by_table: Vec<_> = POINTS.iter().map(|row| (row.name, row.powers.to_vec())).collect();
        assert_eq!(by_table, declared_powers());
    }

    #[test]
    fn a_point_is_found_by_its_name_and_sits_at_its_own_index() {
        for (index, row) in POINTS.iter().enumerate() {
            assert_eq!(PointId::parse(row.name), Some(row.id));
            assert_eq!(row.id as usize, index);
            assert_eq!(row.failed_transform.is_some(), row.powers.contains(&Power::Transform));
        }
        assert_eq!(PointId::parse("tool.before"), None);
    }
}
