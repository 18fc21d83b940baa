//! The decision about a call: scope, schema, transforms, schema again, floor and gates. Nothing runs here.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::future::join_all;
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    agent::step_cx::StepCx,
    history::{
        ledger::{AskReason, HandlerRun},
        message::ToolCall,
        outcome::ToolErrorKind,
        store::StoreError,
    },
    hooks::{
        chain::{Chain, HandlerMeta},
        dispatch::{PointOutcome, strictest},
        notes::block_message,
        points::{
            ChainStop,
            tool_pre::{ToolPre, ToolPreEvent},
        },
    },
    model::tools::ToolOutput,
    permission::{
        Decider, PolicyInput, Ruling, Zone, facts::Facts, mode::Mode, origin::Owner,
        verdict::Verdict,
    },
    registry::{
        generation::{Generation, ToolEntry},
        tool_set::ToolSet,
    },
    text,
};

/// A call and the decision about it.
pub(crate) struct CallDecision {
    pub(crate) call: ToolCall,
    /// The tool, if it exists.
    pub(crate) row: Option<Arc<ToolEntry>>,
    /// The input as it would run.
    pub(crate) input: Arc<Value>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) state: CallState,
    /// The stage, rule or hook that decided.
    pub(crate) decided_by: SmolStr,
    pub(crate) approved_by: Option<SmolStr>,
    /// The questions that were answered with yes.
    pub(crate) approved_asks: Vec<AskReason>,
    /// The changes of the input: the hook's name, the input before, the input after.
    pub(crate) rewrites: Vec<(SmolStr, Arc<Value>, Arc<Value>)>,
    /// A transform's answer in place of the tool.
    pub(crate) answer: Option<ToolOutput>,
    pub(crate) hook_runs: Vec<HandlerRun>,
    /// The generation that was asked last.
    pub(crate) generation: u64,
    /// True if a secret had been read by then.
    pub(crate) after_secret: bool,
    /// The caller, if it is not the model. Its own hooks are not asked.
    pub(crate) caller: Option<Owner>,
}

/// The state of a call.
pub(crate) enum CallState {
    Pass,
    /// A person must say yes first. A hook may do so in their place if only the mode or the zone asks.
    Ask {
        asks: Vec<AskReason>,
        hook_may_answer: bool,
    },
    /// The call does not run. `words` are for the model.
    Refused {
        kind: ToolErrorKind,
        reason: String,
        words: String,
    },
}

impl CallDecision {
    fn new(call: ToolCall) -> Self {
        CallDecision {
            input: call.input.clone(),
            call,
            row: None,
            facts: Arc::new(Facts::unknown()),
            state: CallState::Pass,
            decided_by: SmolStr::default(),
            approved_by: None,
            approved_asks: vec![],
            rewrites: vec![],
            answer: None,
            hook_runs: vec![],
            generation: 0,
            after_secret: false,
            caller: None,
        }
    }

    /// A call that was cancelled before a decision.
    pub(crate) fn cancelled(call: ToolCall) -> Self {
        let mut decision = CallDecision::new(call);
        decision.cancel();
        decision
    }

    fn cancel(&mut self) {
        let words = "Cancelled: the run ended before this call started.";
        self.refuse("run", ToolErrorKind::Cancelled, words, words);
    }

    pub(crate) fn refuse(
        &mut self,
        by: impl Into<SmolStr>,
        kind: ToolErrorKind,
        reason: impl Into<String>,
        words: impl Into<String>,
    ) {
        self.decided_by = by.into();
        self.state = CallState::Refused { kind, reason: reason.into(), words: words.into() };
    }

    fn deny(&mut self, by: impl Into<SmolStr>, reason: &str) {
        let words = format!("Denied: {reason}. Do not retry this exact call.");
        self.refuse(by, ToolErrorKind::Denied, reason, words);
    }

    /// Puts the call before a person, if there are reasons to ask. Mode `auto` refuses it instead.
    pub(crate) fn ask(&mut self, asks: Vec<AskReason>, hook_may_answer: bool, step_cx: &StepCx) {
        let Some(first) = asks.first() else { return };
        if step_cx.generation().policy.mode() == Mode::Auto {
            let reason = format!("{}, and mode `auto` asks nobody", first.reason);
            return self.deny(first.by.clone(), &reason);
        }
        self.state = CallState::Ask { asks, hook_may_answer };
    }

    fn refuse_by_hook(&mut self, meta: &HandlerMeta, reason: &str, step_cx: &StepCx) {
        if step_cx.is_cancelled() {
            return self.cancel();
        }
        let reason = if reason.trim().is_empty() { "it gave no reason" } else { reason };
        let words = block_message(&meta.name, reason);
        self.refuse(meta.name.clone(), ToolErrorKind::Denied, reason, words);
    }

    pub(crate) fn event(&self) -> Arc<ToolPreEvent> {
        Arc::new(ToolPreEvent {
            call_id: self.call.id.clone(),
            tool_name: self.call.name.clone(),
            tool_input: self.input.clone(),
            facts: self.facts.clone(),
        })
    }
}

/// Decides the calls of a step, all at once. In an interrupted step, calls that were not in the question
/// are cancelled.
pub(crate) async fn decide_calls(
    step_cx: &StepCx,
    calls: Vec<ToolCall>,
    resumed: Option<Vec<SmolStr>>,
) -> Result<Vec<CallDecision>, StoreError> {
    let tools = &step_cx.view.tools;
    let watched = |call: &ToolCall| tools.entry(&call.name).is_some_and(|row| row.has_pre_hooks);
    if calls.iter().any(watched) {
        step_cx.state().commit()?;
    }
    let each = |call: ToolCall| {
        let gone = resumed.as_ref().is_some_and(|asked: &Vec<SmolStr>| !asked.contains(&call.id));
        async move {
            if gone { CallDecision::cancelled(call) } else { prepare(step_cx, tools, call).await }
        }
    };
    let mut calls = calls;
    if calls.len() == 1 {
        let only = calls.remove(0);
        return Ok(vec![each(only).await]);
    }
    Ok(join_all(calls.into_iter().map(each)).await)
}

/// Takes a call through every stage of the decision.
pub(crate) async fn prepare(step_cx: &StepCx, tools: &ToolSet, call: ToolCall) -> CallDecision {
    let mut decision = begin(step_cx, tools, call);
    let Some(row) = decision.row.clone() else { return decision };
    if check_schema(&mut decision, &row) && compute_facts(&mut decision, &row, step_cx) {
        if !row.pre_transforms.is_empty() && !transform(&mut decision, &row, step_cx).await {
            return decision;
        }
        decide(&mut decision, &row, step_cx).await;
    }
    decision
}

/// Finds the tool of a call. A tool that is not shown to the model is refused.
pub(crate) fn begin(step_cx: &StepCx, tools: &ToolSet, call: ToolCall) -> CallDecision {
    let mut decision =
        CallDecision { generation: step_cx.generation().number, ..CallDecision::new(call) };
    decision.row = tools.entry(&decision.call.name).cloned();
    if decision.row.is_none() {
        refuse_out_of_scope(&mut decision, tools, step_cx.generation());
    }
    decision
}

/// Refuses a call of a tool that the model is not shown.
fn refuse_out_of_scope(decision: &mut CallDecision, tools: &ToolSet, generation: &Generation) {
    let name = text::cut_chars(&text::show_line(&decision.call.name), 80).into_owned();
    if generation.tools.entry(&decision.call.name).is_some() {
        let words = format!("The tool `{name}` is not available to this agent.");
        return decision.refuse("scope", ToolErrorKind::Denied, words.clone(), words);
    }
    let names = || tools.specs().map(|spec| spec.name.as_str());
    let hint = match text::nearest(&name, names()) {
        Some(near) => format!(" Did you mean `{near}`?"),
        None if tools.is_empty() => " There are no tools here.".into(),
        None => format!(" There are: {}.", names().collect::<Vec<_>>().join(", ")),
    };
    let words = format!("Unknown tool: {name}.{hint}");
    decision.refuse("scope", ToolErrorKind::NotFound, words.clone(), words);
}

pub(crate) fn check_schema(decision: &mut CallDecision, row: &ToolEntry) -> bool {
    let Err(faults) = row.schema.check(&decision.input) else { return true };
    let words = format!("Invalid arguments for `{}`: {faults}.", decision.call.name);
    decision.refuse("schema", ToolErrorKind::InvalidArgs, words.clone(), words);
    false
}

pub(crate) fn compute_facts(
    decision: &mut CallDecision,
    row: &ToolEntry,
    step_cx: &StepCx,
) -> bool {
    let workspace = &step_cx.cx.run.workspace;
    match catch_unwind(AssertUnwindSafe(|| row.tool.effects(&decision.input, workspace))) {
        Ok(Facts { invalid: Some(why), .. }) => {
            let words = format!("Invalid arguments for `{}`: {why}.", decision.call.name);
            decision.refuse("schema", ToolErrorKind::InvalidArgs, words.clone(), words);
            false
        }
        Ok(facts) => {
            decision.facts = Arc::new(facts);
            true
        }
        Err(_) => {
            let words = "Cannot determine what this call touches.";
            decision.refuse("effects", ToolErrorKind::Denied, words, words);
            false
        }
    }
}

/// Runs the transforms and checks their result like the model's own input.
pub(crate) async fn transform(
    decision: &mut CallDecision,
    row: &ToolEntry,
    step_cx: &StepCx,
) -> bool {
    let outcome = step_cx.fire_on(&row.pre_transforms, decision.event()).await;
    let PointOutcome { event, replaced, stop, ran, .. } = outcome;
    decision.hook_runs.extend(ran);
    let after = replaced.iter().skip(1).map(|(_, event)| event).chain([&event]);
    decision.rewrites = replaced
        .iter()
        .zip(after)
        .map(|((meta, before), after)| {
            (meta.name.clone(), before.tool_input.clone(), after.tool_input.clone())
        })
        .collect();
    decision.input = event.tool_input.clone();
    match stop {
        Some((meta, ChainStop::Block(reason))) => {
            decision.refuse_by_hook(&meta, &reason, step_cx);
            return false;
        }
        Some((_, ChainStop::Answer(output))) => decision.answer = Some(output),
        None => {}
    }
    decision.rewrites.is_empty()
        || (check_schema(decision, row) && compute_facts(decision, row, step_cx))
}

/// Asks the floor and the gates.
async fn decide(decision: &mut CallDecision, row: &ToolEntry, step_cx: &StepCx) {
    decision.after_secret = decision.facts.has_effects() && step_cx.cx.has_read_secret();
    let ruling = decide_floor(decision, step_cx);
    let verdicts = ask_gates(decision, &ruling, &row.pre_gates, step_cx).await;
    decision.decided_by = format_smolstr!("{}", ruling.by);
    let asks = fold(decision, &ruling, &verdicts, step_cx);
    let hook_may_answer = ruling.by.may_be_answered_by_hook() && verdicts.is_empty();
    decision.ask(asks, hook_may_answer, step_cx);
}

pub(crate) fn decide_floor(decision: &CallDecision, step_cx: &StepCx) -> Ruling {
    let (tool, workspace) = (decision.call.name.as_str(), &step_cx.cx.run.workspace);
    let approvals = &*step_cx.cx.root_session().approvals();
    let (input, facts) = (&decision.input, &decision.facts);
    let ruling = step_cx.generation().policy.decide(&PolicyInput {
        tool,
        input,
        facts,
        workspace,
        approvals,
    });
    let is_settled = facts.zone == Zone::Safe || matches!(ruling.verdict, Verdict::Block(_));
    match !is_settled && step_cx.session().agent.is_read_only() {
        true => Ruling { verdict: Verdict::block("this agent is read-only"), by: Decider::Mode },
        false => ruling,
    }
}

/// Asks the gates, unless the floor blocks. Returns the verdicts other than pass, in the order of the gates.
async fn ask_gates(
    decision: &mut CallDecision,
    ruling: &Ruling,
    gates: &Chain<ToolPre>,
    step_cx: &StepCx,
) -> Vec<(Arc<HandlerMeta>, Verdict)> {
    if matches!(ruling.verdict, Verdict::Block(_)) {
        return vec![];
    }
    let outcome = step_cx.fire_on(gates, decision.event()).await;
    decision.hook_runs.extend(outcome.ran);
    outcome.verdicts
}

/// Folds the floor's ruling and the gates' verdicts. The strictest wins; of equals the floor, then the gates
/// in their order. Refuses the call if one blocks. Otherwise returns the reasons to ask about it.
pub(crate) fn fold(
    decision: &mut CallDecision,
    ruling: &Ruling,
    verdicts: &[(Arc<HandlerMeta>, Verdict)],
    step_cx: &StepCx,
) -> Vec<AskReason> {
    let by = || format_smolstr!("{}", ruling.by);
    if let Verdict::Block(reason) = &ruling.verdict {
        decision.deny(by(), reason);
        return vec![];
    }
    if let Some((meta, Verdict::Block(reason))) = strictest(verdicts) {
        decision.refuse_by_hook(meta, reason, step_cx);
        return vec![];
    }
    let floor = [(by(), None, &ruling.verdict)];
    let gates = verdicts.iter().map(|(meta, verdict)| (meta.name.clone(), Some(meta.id), verdict));
    let asks = floor.into_iter().chain(gates).filter_map(|(by, hook, verdict)| match verdict {
        Verdict::Ask(reason) => Some(AskReason { by, reason: reason.clone(), hook }),
        _ => None,
    });
    asks.collect()
}

/// Asks gates and floor again, in the newest generation: before an approval counts, and before a permit if
/// the registry has changed. Answered questions are not asked again; anything new that is stricter refuses.
pub(crate) async fn recheck(decision: &mut CallDecision, step_cx: &StepCx) {
    decision.generation = step_cx.generation().number;
    decision.after_secret = step_cx.cx.has_read_secret();
    let Some(row) = step_cx.view.tools.entry(&decision.call.name).cloned() else {
        let words = "The tool no longer exists.";
        return decision.refuse("scope", ToolErrorKind::NotFound, words, words);
    };
    let decided_on = |decided: &Arc<ToolEntry>| decided.is_same_tool(&row);
    if !decision.row.as_ref().is_some_and(decided_on) {
        let words = "The tool has changed since this call was decided.";
        return decision.refuse("scope", ToolErrorKind::Unavailable, words, words);
    }
    let row = match &decision.caller {
        Some(caller) => Arc::new(row.without(caller)),
        None => row,
    };
    let ruling = decide_floor(decision, step_cx);
    let verdicts = ask_gates(decision, &ruling, &row.pre_gates.gates_only(), step_cx).await;
    let asks = fold(decision, &ruling, &verdicts, step_cx);
    let known = |ask: &&AskReason| {
        decision.approved_asks.iter().any(|known| known.by == ask.by && known.hook == ask.hook)
    };
    if let Some(ask) = asks.iter().find(|ask| !known(ask)) {
        let words = format!("Denied: {} asks for it only now: {}.", ask.by, ask.reason);
        decision.refuse(ask.by.clone(), ToolErrorKind::Denied, ask.reason.clone(), words);
    }
}
