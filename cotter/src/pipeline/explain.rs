//! The whole decision about one call, without running it: the report of [`crate::agent::Agent::explain`].

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use smol_str::format_smolstr;

use crate::{
    agent::{Agent, step_cx::StepCx},
    history::message::ToolCall,
    hooks::{
        chain::HandlerMeta,
        points::{
            RankedAnswer,
            tool_pre::{ToolPre, ToolPreEvent},
        },
    },
    permission::{
        PolicyInput, Ruling,
        facts::Facts,
        origin::Origin,
        verdict::{Power, Verdict},
    },
    pipeline::{
        decide::{self, CallDecision, CallState},
        dry_run,
    },
    registry::generation::ToolEntry,
};

/// The decision about a call, with its reasons.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExplainReport {
    /// `pass`, `ask` or `block`.
    pub verdict: &'static str,
    /// The reason, unless the verdict is a plain pass.
    pub reason: String,
    /// The cause of the decision: a stage, a rule, a gate, the zone or the mode.
    pub decided_by: String,
    /// The facts of the call.
    pub facts: Facts,
    /// The input as it would run, if hooks were asked and changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Every stage, rule and hook that was checked, in order.
    pub considered: Vec<ExplainRow>,
}

/// One stage, rule or hook that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExplainRow {
    /// Its name, or the text of a rule.
    pub name: String,
    /// The origin of its owner.
    pub origin: String,
    /// `scope`, `schema`, `transform`, `kernel`, `gate`, `rule`, `zone`, `mode` or `approval`.
    pub kind: &'static str,
    /// True if it applies to this call.
    pub matched: bool,
    /// Its verdict: `pass`, `ask` or `block`; `would be asked` for a hook that is not asked here. For a
    /// hook that is asked, also `replace`, `answer` or the word of its failure; `not reached` if another
    /// hook ended the chain.
    pub verdict: &'static str,
    /// The reason.
    pub reason: String,
}

impl ExplainRow {
    fn new(
        kind: &'static str,
        name: impl Into<String>,
        origin: &Origin,
        verdict: &Verdict,
    ) -> Self {
        ExplainRow {
            name: name.into(),
            origin: origin.to_string(),
            kind,
            matched: true,
            verdict: verdict.word(),
            reason: verdict.reason().unwrap_or_default().to_owned(),
        }
    }
}

impl Agent {
    /// Explains the decision about a call. Nothing runs, no person is asked, nothing is stored.
    pub async fn explain(&self, tool: &str, input: Value) -> ExplainReport {
        let call = call(tool, input);
        explain(&self.dry_step_cx(), call, HookMode::Listed).await
    }

    /// Explains a call and really asks the hooks at `tool.pre`, except for observers. The hooks are told
    /// that it is a dry run.
    pub async fn explain_with_hooks(&self, tool: &str, input: Value) -> ExplainReport {
        let call = call(tool, input);
        explain(&self.dry_step_cx(), call, HookMode::Asked).await
    }
}

/// The handling of hooks that may do more than observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookMode {
    /// The hooks are listed.
    Listed,
    /// The hooks are asked, and told that it is a dry run.
    Asked,
}

/// Decides about a call without asking a person or running anything. Kernel gates and hooks that are marked
/// pure are asked; other hooks as `hooks` says.
async fn explain(step_cx: &StepCx, call: ToolCall, hooks: HookMode) -> ExplainReport {
    let tools = &step_cx.view.tools;
    let mut decision = decide::begin(step_cx, tools, call);
    let mut considered = vec![];
    let scope = stage_row(&decision, "scope", decision.row.is_some());
    considered.push(scope);
    let Some(row) = decision.row.clone() else { return build_report(decision, considered) };
    let fits = decide::check_schema(&mut decision, &row)
        && decide::compute_facts(&mut decision, &row, step_cx);
    considered.push(stage_row(&decision, "schema", fits));
    if !fits {
        return build_report(decision, considered);
    }
    if hooks == HookMode::Asked && !decide::transform(&mut decision, &row, step_cx).await {
        considered.extend(hook_rows(&decision, step_cx, hooks).map(|(_, row)| row));
        if decision.decided_by == "schema" {
            considered.push(stage_row(&decision, "schema", false));
        }
        return build_report(decision, considered);
    }
    let ruling = decide::decide_floor(&decision, step_cx);
    let mut gates = ask_pure_gates(&decision, &row, step_cx).await;
    let kernel = gates.iter().map(|(meta, verdict)| {
        ExplainRow::new(kind_of(meta), meta.name.as_str(), &meta.owner.origin, verdict)
    });
    let kernel: Vec<_> = kernel.collect();
    if hooks == HookMode::Asked {
        let others = row.pre_gates.gates_only().filtered(|meta| !is_pure(meta));
        let decided = step_cx.fire_on(&others, decision.event()).await;
        decision.hook_runs.extend(decided.ran);
        gates.extend(decided.verdicts);
    }
    let (shaping, judging): (Vec<_>, Vec<_>) =
        hook_rows(&decision, step_cx, hooks).partition(|(power, _)| *power == Power::Transform);
    considered.extend(shaping.into_iter().map(|(_, row)| row));
    considered.extend(kernel);
    considered.extend(judging.into_iter().map(|(_, row)| row));
    considered.extend(floor_rows(&decision, step_cx, &ruling));
    decision.decided_by = format_smolstr!("{}", ruling.by);
    let asks = decide::fold(&mut decision, &ruling, &gates, step_cx);
    if let Some(first) = asks.first() {
        decision.decided_by = first.by.clone();
    }
    decision.ask(asks, false, step_cx);
    build_report(decision, considered)
}

/// The hooks that may do more than observe, a row each, with the greatest power of each.
fn hook_rows<'a>(
    decision: &'a CallDecision,
    step_cx: &'a StepCx,
    hooks: HookMode,
) -> impl Iterator<Item = (Power, ExplainRow)> + 'a {
    let chain = step_cx.generation().chain::<ToolPre>();
    let decides = |meta: &HandlerMeta| matches!(meta.power, Power::Transform | Power::Gate);
    let metas = step_cx.generation().metas();
    let metas = metas.filter(move |meta| chain.has(meta.id) && decides(meta) && !is_pure(meta));
    dry_run::group_sides(metas).into_iter().filter_map(move |sides| {
        let matched = sides[0].matches(&decision.call.name);
        let hook_row = dry_run::row(&sides, matched, &decision.hook_runs);
        let verdict = match hooks {
            HookMode::Listed if matched => "would be asked",
            HookMode::Asked if dry_run::is_silent(&sides, &hook_row) => return None,
            _ => hook_row.verdict,
        };
        let kind = if hook_row.power == Power::Transform { "transform" } else { "gate" };
        let explain_row = ExplainRow {
            name: hook_row.name.to_string(),
            origin: hook_row.origin,
            kind,
            matched,
            verdict,
            reason: hook_row.reason.unwrap_or_default(),
        };
        Some((hook_row.power, explain_row))
    })
}

fn is_pure(meta: &HandlerMeta) -> bool {
    meta.pure || meta.owner.origin == Origin::Kernel
}

fn kind_of(meta: &HandlerMeta) -> &'static str {
    if meta.owner.origin == Origin::Kernel { "kernel" } else { "gate" }
}

async fn ask_pure_gates(
    decision: &CallDecision,
    row: &ToolEntry,
    step_cx: &StepCx,
) -> Vec<(Arc<HandlerMeta>, Verdict)> {
    let chain = row.pre_gates.gates_only().filtered(is_pure);
    let mut verdicts = vec![];
    for gate in &chain.gates {
        let gate_alone = chain.filtered(|meta| meta.id == gate.meta.id);
        let event: Arc<ToolPreEvent> = decision.event();
        let verdict = step_cx.fire_on(&gate_alone, event).await.verdicts.into_iter().next();
        verdicts.push((gate.meta.clone(), verdict.map_or(Verdict::Pass, |(_, verdict)| verdict)));
    }
    verdicts
}

/// The rows of rules, approvals, zone and mode.
fn floor_rows(decision: &CallDecision, step_cx: &StepCx, ruling: &Ruling) -> Vec<ExplainRow> {
    let (policy, workspace) = (&step_cx.generation().policy, &step_cx.cx.run.workspace);
    let approvals = step_cx.cx.root_session().approvals();
    let tool = decision.call.name.as_str();
    let (input, facts) = (&decision.input, &decision.facts);
    let asked = PolicyInput { tool, input, facts, workspace, approvals: &approvals };
    let rules = policy.list_applying(&asked).into_iter();
    let mut considered: Vec<_> = rules
        .map(|(text, origin, verdict)| ExplainRow::new("rule", text, origin, &verdict))
        .collect();
    let (zone, mode) = (facts.zone.as_str(), policy.mode());
    let by_zone = policy.decide_by_zone(facts).verdict;
    let confined = if facts.confined { ", confined" } else { "" };
    let zone = format!("{zone} at level {}{confined}", policy.level().as_str());
    considered.push(ExplainRow::new("zone", zone, &Origin::Kernel, &by_zone));
    let by_mode = if ruling.by.kind() == "mode" { &ruling.verdict } else { &Verdict::Pass };
    considered.push(ExplainRow::new("mode", mode.as_str(), &Origin::Kernel, by_mode));
    considered
}

fn stage_row(decision: &CallDecision, kind: &'static str, passed: bool) -> ExplainRow {
    let verdict = match &decision.state {
        CallState::Refused { reason, .. } if !passed => Verdict::block(reason.clone()),
        _ => Verdict::Pass,
    };
    ExplainRow::new(kind, kind, &Origin::Kernel, &verdict)
}

fn build_report(decision: CallDecision, considered: Vec<ExplainRow>) -> ExplainReport {
    let (verdict, reason) = match decision.state {
        CallState::Pass => ("pass", String::new()),
        CallState::Ask { asks, .. } => {
            let reasons: Vec<_> = asks.iter().map(|ask| ask.reason.as_str()).collect();
            ("ask", reasons.join("; "))
        }
        CallState::Refused { reason, .. } => ("block", reason),
    };
    let facts = Facts::clone(&decision.facts);
    let input = (!decision.rewrites.is_empty()).then(|| Value::clone(&decision.input));
    ExplainReport {
        verdict,
        reason,
        decided_by: decision.decided_by.to_string(),
        facts,
        input,
        considered,
    }
}

/// A call as the model would make it.
fn call(tool: &str, input: Value) -> ToolCall {
    ToolCall { id: "explain".into(), name: tool.into(), input: Arc::new(input) }
}
