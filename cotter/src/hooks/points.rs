//! The points: every named moment of the loop, in one table.
//!
//! A row gives a point's name, powers, time limit and moment, and the effect of a failed transform.
//! Everything else is derived from the row: the [`PointId`], the marker traits that make a gate on
//! `session.end` a compile error, the chains of a generation, the documentation. The types of a point are in
//! `points/`, one file per family.
//!
//! At one point, transforms run first, in the order of registration. Then gates run, on the event that the
//! transforms left; then answers; then observers. A point that reports what has happened
//! ([`PointSpec::after_the_fact`]) also fires after an abort.

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

        /// The chains of all points, to which a generation dispatches.
        #[doc(hidden)]
        #[derive(Default)]
        pub struct Chains { $( $field: Chain<$point>, )* }

        impl Chains {
            /// Returns the points that have a handler, as a bit mask by [`PointId`].
            pub(crate) fn mask(&self) -> u32 {
                0 $( | u32::from(!self.$field.is_empty()) << (PointId::$point as u8) )*
            }
        }

        $( impl ChainSlot for $point {
            fn chain(chains: &Chains) -> &Chain<Self> { &chains.$field }
            fn chain_mut(chains: &mut Chains) -> &mut Chain<Self> { &mut chains.$field }
        }
        $( points!(@marker $point $power); )* )*

        /// Calls `visitor` with the type of the point `point`.
        pub(crate) fn visit<V: PointVisitor>(point: PointId, visitor: V) -> V::Out {
            match point { $( PointId::$point => visitor.at::<$point>() ),* }
        }

        #[cfg(feature = "schema")]
        impl PointId {
            /// Returns the JSON Schema of the payload that an external hook gets at this point.
            pub fn payload_schema(
                self,
                generator: &mut schemars::SchemaGenerator,
            ) -> schemars::Schema {
                use schemars::JsonSchema;
                type Payload<P> =
                    crate::hooks::external::binding::HookPayload<'static, <P as Point>::Event>;
                match self { $( PointId::$point => Payload::<$point>::json_schema(generator) ),* }
            }
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
        fires "a run begins";
    UserPromptSubmit user_prompt_submit "user.prompt.submit" [observe gate transform] 5 s
        fires "after directives, before the message is stored"
        failed_transform "the turn is refused";
    Context context "context" [observe transform] 5 s
        fires "the messages of a request are built"
        failed_transform "the run ends with `error`, naming the handler";
    ModelPre model_pre "model.pre" [observe] 5 s
        fires "before each request to the model, retries included; notes are sent with this request";
    ModelPost model_post "model.post" [observe] 5 s [always]
        fires "after each successful reply is recorded";
    ToolPre tool_pre "tool.pre" [observe gate transform] 5 s
        fires "before a tool runs, with what the call touches"
        failed_transform "the call is refused";
    PermissionAsk permission_ask "permission.ask" [observe gate answer] 5 s
        fires "a person is about to be asked";
    ToolPost tool_post "tool.post" [observe transform] 60 s [always]
        fires "after a tool ran, with success or an error"
        failed_transform "the result is withheld, and the model gets an error";
    ToolRefused tool_refused "tool.refused" [observe] 5 s [always]
        fires "a call was refused and never ran";
    CompactPre compact_pre "compact.pre" [observe gate transform] 60 s
        fires "before a compaction; a transform may give the summary"
        failed_transform "the built-in summary is used";
    CompactPost compact_post "compact.post" [observe] 60 s [always]
        fires "after a compaction";
    SubagentStart subagent_start "subagent.start" [observe gate] 5 s
        fires "a subagent is about to start";
    SubagentEnd subagent_end "subagent.end" [observe] 5 s [always]
        fires "a subagent ended, with success or an error";
    TurnEnd turn_end "turn.end" [observe gate] 60 s
        fires "the model is about to stop";
    Error error "error" [observe] 5 s [always]
        fires "a run fails or reaches a limit, just before `session.end`";
    SessionEnd session_end "session.end" [observe] 5 s [always]
        fires "a run ended, for any reason";
    SessionClose session_close "session.close" [observe] 5 s [always]
        fires "a session is closed";
}

/// One row of the table of points.
#[derive(Debug)]
#[non_exhaustive]
pub struct PointSpec {
    /// The point.
    pub id: PointId,
    /// The name of the point on the wire and in files.
    pub name: &'static str,
    /// The powers that a handler at this point may have.
    pub powers: &'static [Power],
    /// The time limit of a handler, unless its registration sets another.
    pub limit: Duration,
    /// The moment when the point fires, for documentation.
    pub fires: &'static str,
    /// The effect of a failed transform, if the point takes transforms.
    pub failed_transform: Option<&'static str>,
    /// True if the point reports what has happened. Such a point also fires after an abort, because an audit
    /// trail must include aborted runs.
    pub after_the_fact: bool,
}

impl PointSpec {
    /// True if handlers at this point can be limited to some tools.
    pub fn is_about_tools(&self) -> bool {
        matches!(self.id, PointId::ToolPre | PointId::ToolPost | PointId::ToolRefused)
    }
}

impl PointId {
    /// Returns the row of the point.
    pub fn row(self) -> &'static PointSpec {
        &POINTS[self as usize]
    }

    /// Returns the name of the point on the wire and in files.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the point named `name`.
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

/// A named moment of the loop, as a type: its event and the possible answers.
///
/// The trait is sealed: only this crate defines points. `Verdict`, `Change` and `Answer` are [`NoAnswer`] if
/// the point does not take that power, so an answer without a meaning does not compile.
pub trait Point: ChainSlot + Sized + Send + Sync + 'static {
    /// The id of this point.
    const ID: PointId;
    /// The event that a handler is shown.
    type Event: serde::Serialize + Send + Sync + 'static;
    /// The answer of a gate.
    type Verdict: RankedAnswer;
    /// The answer of a transform.
    type Change: Send + 'static;
    /// The answer of an answering handler.
    type Answer: RankedAnswer;

    /// Applies a transform's answer to the event.
    fn apply(event: &Self::Event, change: Self::Change) -> TransformEffect<Self>;

    /// Returns the effect of a failed transform.
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

/// The field of a point's chain in [`Chains`]. Only the table implements this trait: `Chain` cannot be named
/// outside this crate, so `Point` is sealed.
#[doc(hidden)]
pub trait ChainSlot: Sized {
    fn chain(chains: &Chains) -> &Chain<Self>
    where
        Self: Point;
    fn chain_mut(chains: &mut Chains) -> &mut Chain<Self>
    where
        Self: Point;
}

/// A generic function over the type of a point.
pub(crate) trait PointVisitor {
    type Out;
    fn at<P: ExternalPoint>(self) -> Self::Out;
}

/// The effect of a transform's answer on an event.
#[derive(Debug)]
pub enum TransformEffect<P: Point> {
    /// The event is unchanged.
    Kept,
    /// This event replaces it.
    Replaced(P::Event),
    /// The chain ends here.
    Stopped(ChainStop),
}

/// The way a transform ended a chain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChainStop {
    /// The action does not happen, for this reason.
    Block(String),
    /// The tool does not run: this is its result.
    Answer(ToolOutput),
}

/// An answer that is folded with others: the strictest wins, in any order.
pub trait RankedAnswer: Clone + Send + Sync + fmt::Debug + 'static {
    /// Returns the rank. 0 is a pass; a higher rank wins over a lower one.
    fn rank(&self) -> u8;
    /// True if nothing stricter can follow, so that the remaining handlers are not asked.
    fn ends(&self) -> bool;
    /// Returns the reason, if the answer has one.
    fn reason(&self) -> Option<&str>;
    /// Returns the word for the answer in events and the ledger.
    fn word(&self) -> &'static str;
    /// Returns the answer that a failure counts as; `None` if a failure counts as a pass.
    fn failed(failure: &HandlerFailure) -> Option<Self>;
}

/// The answer type of a power that a point does not take. It has no values.
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

/// The verdict of a gate that cannot ask a person: pass or block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The gate has no objection.
    Pass,
    /// The action does not happen, for this reason.
    Block(String),
}

impl Admission {
    /// Returns a `Block` with a reason.
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
    let no_answer = TypeId::of::<NoAnswer>();
    let mut powers = vec![Power::Observe];
    if TypeId::of::<P::Verdict>() != no_answer {
        powers.push(Power::Gate);
    }
    if TypeId::of::<P::Change>() != no_answer {
        powers.push(Power::Transform);
    }
    if TypeId::of::<P::Answer>() != no_answer {
        powers.push(Power::Answer);
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_table_and_types_declare_equal_powers() {
        let by_table: Vec<_> = POINTS.iter().map(|row| (row.name, row.powers.to_vec())).collect();
        assert_eq!(by_table, declared_powers());
    }

    #[test]
    fn point_is_parsed_by_name_and_its_row_has_its_index() {
        for (index, row) in POINTS.iter().enumerate() {
            assert_eq!(PointId::parse(row.name), Some(row.id));
            assert_eq!(row.id as usize, index);
            assert_eq!(row.failed_transform.is_some(), row.powers.contains(&Power::Transform));
        }
        assert_eq!(PointId::parse("tool.before"), None);
    }
}
