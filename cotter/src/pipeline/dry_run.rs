//! Dry runs of hooks: a point is fired at the loaded hooks, and nothing else happens. The result is a
//! report of their answers ([`DryRunReport`]).
//!
//! There is no scope, no schema and no floor here, and kernel gates are not asked. For the decision about a
//! whole call use [`Agent::explain`](crate::agent::Agent::explain). Hooks run through the same dispatch as
//! in a run, with two differences. [`Cx::is_dry_run`](crate::agent::cx::Cx::is_dry_run) is true (`dryRun`
//! in a payload), and detached hooks are awaited.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Verdict, hooks::points::{PointId, ToolPreEvent, ToolPre}, named, pipeline::dry_run::DryRun};
//! use cotter_test::ScriptedModel;
//! use serde_json::json;
//!
//! let guard = |call: &ToolPreEvent| match call.tool_input["path"].as_str() {
//!     Some("prod.env") => Verdict::block("not in production"),
//!     _ => Verdict::Pass,
//! };
//! let guard = named("guard", guard).tools(["write"]);
//! let agent = Agent::builder(ScriptedModel::new([])).gate(ToolPre, guard).build()?;
//!
//! let write = DryRun::at(PointId::ToolPre).with_call("write", json!({"path": "prod.env"}));
//! let tried = agent.try_hooks(write).await;
//! assert_eq!((tried.verdict, &*tried.reason), ("block", "not in production"));
//!
//! let read = DryRun::at(PointId::ToolPre).with_call("read", json!({"path": "prod.env"}));
//! let tried = agent.try_hooks(read).await;
//! assert_eq!((tried.verdict, tried.hooks[0].matched), ("pass", false));
//! # Ok(())
//! # }
//! ```

use std::{future::Future, pin::Pin, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::{
    agent::{Agent, step_cx::StepCx},
    history::ledger::HandlerRun,
    hooks::{
        chain::{Chain, HandlerMeta},
        dispatch::{PointOutcome, strictest},
        events::{EventKind, EventStream},
        external::{per_point::ExternalPoint, sample::SampleSource},
        notes,
        points::{self, ChainStop, PointId, RankedAnswer},
    },
    permission::{facts::Facts, origin::Origin, verdict::Power},
};

/// A sample event at a point, to see how hooks answer it. Values that are not given are made up: a run that
/// just began, a reply without tools, a tool without output.
#[derive(Clone, Debug)]
pub struct DryRun {
    point: PointId,
    tool: SmolStr,
    input: Arc<Value>,
    prompt: String,
    result: String,
}

impl DryRun {
    /// A dry run at this point.
    pub fn at(point: PointId) -> Self {
        let input = Arc::new(Value::Object(Map::new()));
        DryRun {
            point,
            tool: SmolStr::default(),
            input,
            prompt: String::new(),
            result: String::new(),
        }
    }

    /// Sets the call, for the points about tools and for `permission.ask`. The tool need not exist; if it
    /// does, hooks get the call's facts.
    pub fn with_call(mut self, tool: impl Into<SmolStr>, input: Value) -> Self {
        (self.tool, self.input) = (tool.into(), Arc::new(input));
        self
    }

    /// Sets the typed text at `user.prompt.submit`, or the subagent's prompt at `subagent.start`.
    pub fn with_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Sets the tool's result at `tool.post`, or the last text at `turn.end` and `subagent.end`.
    pub fn with_result(mut self, result: impl Into<String>) -> Self {
        self.result = result.into();
        self
    }
}

/// The answers of the hooks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DryRunReport {
    /// `pass`, `ask` or `block`; `answer` if a hook would answer in place of the tool, `go_on` at
    /// `turn.end`, `yes` or `no` at `permission.ask`.
    pub verdict: &'static str,
    /// The reason, unless the verdict is a plain pass.
    pub reason: String,
    /// The hook that decided; empty if none did.
    pub decided_by: SmolStr,
    /// The input of the call after the hooks; `null` at points without a call.
    pub input: Value,
    /// The prompt, the result or the summary after the hooks, at points that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The notes that the model would get.
    pub notes: Vec<DryRunNote>,
    /// The messages that the person would get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Every hook at the point except kernel gates, in the order of origins and registration.
    pub hooks: Vec<DryRunRow>,
}

/// A note to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DryRunNote {
    /// The author of the note.
    pub owner: SmolStr,
    /// The text as it would be sent.
    pub text: String,
}

/// One hook and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DryRunRow {
    /// The hook's name.
    pub name: SmolStr,
    /// The origin of the hook's owner.
    pub origin: String,
    /// The greatest power of the hook. A hook that transforms is also a gate for the changes of others.
    #[serde(serialize_with = "as_word")]
    pub power: Power,
    /// True if the hook matches this tool. A hook that does not match is not asked.
    pub matched: bool,
    /// The answer or the failure, in one word; `not reached` if another hook ended the chain; `pass` if the
    /// hook does not match.
    pub verdict: &'static str,
    /// The time that the hook took, in milliseconds.
    pub ms: f64,
    /// The reason, if the hook gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The text that a command wrote to standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The tools that the hook is limited to.
    #[serde(skip)]
    pub tools: Option<Vec<String>>,
}

fn as_word<S: serde::Serializer>(power: &Power, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(power.as_str())
}

/// The verdict word of a hook that was not asked, because another hook ended the chain.
pub(crate) const NOT_REACHED: &str = "not reached";

impl Agent {
    /// Fires a point at the loaded hooks and reports their answers. Nothing happens except for the hooks'
    /// own actions. For them, [`Cx::is_dry_run`](crate::agent::cx::Cx::is_dry_run) is true.
    pub async fn try_hooks(&self, dry_run: DryRun) -> DryRunReport {
        try_hooks(self.dry_step_cx(), dry_run).await
    }
}

/// Fires a point at the loaded hooks.
async fn try_hooks(step_cx: StepCx, dry_run: DryRun) -> DryRunReport {
    let events = step_cx.session().events();
    let report =
        points::visit(dry_run.point, DryRunVisitor { step_cx: &step_cx, dry_run: &dry_run }).await;
    DryRunReport { notes: collect_notes(&step_cx), notices: notices(events), ..report }
}

struct DryRunVisitor<'a> {
    step_cx: &'a StepCx,
    dry_run: &'a DryRun,
}

impl<'a> points::PointVisitor for DryRunVisitor<'a> {
    type Out = Pin<Box<dyn Future<Output = DryRunReport> + Send + 'a>>;

    fn at<P: ExternalPoint>(self) -> Self::Out {
        Box::pin(fire::<P>(self.step_cx, self.dry_run))
    }
}

/// Runs the transforms, then the other hooks on the changed event, with its facts computed again.
async fn fire<P: ExternalPoint>(step_cx: &StepCx, dry_run: &DryRun) -> DryRunReport {
    let loaded = step_cx.generation().chain::<P>();
    let loaded = loaded.filtered(|meta| meta.owner.origin != Origin::Kernel);
    let about_tools = P::ID.row().is_about_tools();
    let matches = |meta: &HandlerMeta| !about_tools || meta.matches(&dry_run.tool);
    let matching = loaded.filtered(matches);
    let (model, facts) =
        (step_cx.agent().model(), |tool: &str, input: &Value| facts(step_cx, tool, input));
    let source = SampleSource {
        tool: &dry_run.tool,
        input: &dry_run.input,
        prompt: &dry_run.prompt,
        result: &dry_run.result,
        session: step_cx.session(),
        agent_id: step_cx.agent().id(),
        model: model.name(),
        question_limit: step_cx.agent().limits().question,
        facts: &facts,
    };
    let event = Arc::new(P::make(&source));
    let transforms = matching.filtered(|meta| meta.power == Power::Transform);
    let transformed = step_cx.fire_on(&transforms, event).await;
    let mut hook_runs = transformed.ran.clone();
    let outcome = match transformed.stop {
        Some(_) => transformed,
        None => {
            let event = match transformed.replaced.is_empty() {
                true => transformed.event,
                false => P::with_new_facts(&transformed.event, &source),
            };
            let others = matching.filtered(|meta| meta.power != Power::Transform);
            step_cx.fire_on(&others, event).await
        }
    };
    if outcome.stop.is_none() {
        hook_runs.extend(outcome.ran.iter().cloned());
    }
    let hooks = rows(&loaded, step_cx, &matches, &hook_runs);
    DryRunReport { hooks, ..build_report(&outcome) }
}

/// The facts of a call, as its tool returns them; unknown facts if the tool does not exist.
fn facts(step_cx: &StepCx, tool: &str, input: &Value) -> Arc<Facts> {
    let facts = step_cx.agent().facts(tool, input).filter(|facts| facts.invalid.is_none());
    Arc::new(facts.unwrap_or_else(Facts::unknown))
}

/// Folds the answers of all hooks into a report.
fn build_report<P: ExternalPoint>(outcome: &PointOutcome<P>) -> DryRunReport {
    let decision = match (&outcome.stop, outcome.strictest(), strictest(&outcome.answers)) {
        (Some((meta, ChainStop::Block(reason))), ..) => Some((meta, "block", reason.as_str())),
        (Some((meta, ChainStop::Answer(_))), ..) => Some((meta, "answer", "")),
        (None, Some((meta, verdict)), _) => {
            Some((meta, verdict.word(), verdict.reason().unwrap_or_default()))
        }
        (None, None, Some((meta, answer))) => {
            Some((meta, answer.word(), answer.reason().unwrap_or_default()))
        }
        (None, None, None) => None,
    };
    let (decided_by, verdict, reason) = match decision {
        Some((meta, verdict, reason)) => (meta.name.clone(), verdict, reason.to_owned()),
        None => (SmolStr::default(), "pass", String::new()),
    };
    let text = match &outcome.stop {
        Some((_, ChainStop::Answer(output))) => Some(output.content.text().into_owned()),
        _ => P::text(&outcome.event),
    };
    let input = P::input(&outcome.event).map_or(Value::Null, |input| Value::clone(&input));
    let (notes, notices, hooks) = (vec![], vec![], vec![]);
    DryRunReport { verdict, reason, decided_by, input, text, notes, notices, hooks }
}

/// The rows of the hooks, one per hook. A hook that is asked about everything and gave no answer has no
/// row.
fn rows<P: ExternalPoint>(
    loaded: &Chain<P>,
    step_cx: &StepCx,
    matches: &impl Fn(&HandlerMeta) -> bool,
    hook_runs: &[HandlerRun],
) -> Vec<DryRunRow> {
    let sides = group_sides(step_cx.generation().metas().filter(|meta| loaded.has(meta.id)));
    let rows = sides.iter().map(|sides| (sides, row(sides, matches(sides[0]), hook_runs)));
    rows.filter(|(sides, row)| !is_silent(sides, row)).map(|(_, row)| row).collect()
}

/// Groups the registrations of each hook: a hook that may transform is registered twice.
pub(crate) fn group_sides<'a>(
    metas: impl Iterator<Item = &'a Arc<HandlerMeta>>,
) -> Vec<Vec<&'a Arc<HandlerMeta>>> {
    let mut hooks: Vec<Vec<&Arc<HandlerMeta>>> = vec![];
    for meta in metas {
        match hooks.iter_mut().find(|sides| sides[0].is_same_hook(meta)) {
            Some(sides) => sides.push(meta),
            None => hooks.push(vec![meta]),
        }
    }
    hooks
}

/// True if a hook is asked about everything and gave no answer.
pub(crate) fn is_silent(sides: &[&Arc<HandlerMeta>], row: &DryRunRow) -> bool {
    row.matched && row.verdict == NOT_REACHED && sides.iter().all(|meta| meta.quiet)
}

/// The row of one hook, from all of its sides.
pub(crate) fn row(
    sides: &[&Arc<HandlerMeta>],
    matched: bool,
    hook_runs: &[HandlerRun],
) -> DryRunRow {
    let is_own = |run: &&HandlerRun| sides.iter().any(|meta| meta.id == run.handler);
    let own_runs: Vec<_> = hook_runs.iter().filter(is_own).collect();
    let is_gate = sides.iter().any(|meta| meta.power == Power::Gate);
    let verdict = match (matched, own_runs.last().map(|run| run.word)) {
        (false, _) => "pass",
        (true, None) => NOT_REACHED,
        // The hook is also a gate, and a verdict other than `pass` would be in the list.
        (true, Some("keep")) if is_gate => "pass",
        (true, Some(word)) => word,
    };
    #[expect(clippy::cast_precision_loss, reason = "a duration of a hook, for people")]
    let ms = own_runs.iter().map(|run| run.nanos).sum::<u64>() as f64 / 1e6;
    let last_text = |field: fn(&HandlerRun) -> Option<&str>| {
        own_runs.iter().rev().find_map(|run| field(run)).map(str::to_owned)
    };
    DryRunRow {
        name: sides[0].name.clone(),
        origin: sides[0].owner.origin.to_string(),
        power: sides.iter().map(|meta| meta.power).max().unwrap_or(Power::Observe),
        matched,
        verdict,
        ms,
        reason: last_text(|run| run.reason.as_deref()),
        stderr: last_text(|run| run.remark.as_deref()),
        tools: sides[0].tools.as_ref().map(|filter| filter.globs.clone()),
    }
}

fn collect_notes(step_cx: &StepCx) -> Vec<DryRunNote> {
    let pending = step_cx.session().shared.notes.pending_notes();
    let (_, sent) = notes::render(&pending, |id| step_cx.generation().meta(id));
    sent.into_iter().map(|sent| DryRunNote { owner: sent.owner, text: sent.text }).collect()
}

fn notices(mut events: EventStream) -> Vec<String> {
    std::iter::from_fn(|| events.try_next())
        .filter_map(|event| match &event.kind {
            EventKind::UiRequest { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect()
}
