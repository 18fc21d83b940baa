//! From a call of the model to a decision: scope, schema, transforms, schema again, floor and gates.
//! Decides; nothing runs here.

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
        chain::HandlerMeta,
        dispatch::PointOutcome,
        notes::blocked_words,
        points::{
            ChainStop, RankedAnswer,
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

/// A call and what was decided about it.
pub(crate) struct CallDecision {
    pub(crate) call: ToolCall,
    /// The tool, where there is one.
    pub(crate) row: Option<Arc<ToolEntry>>,
    /// The input as it would run.
    pub(crate) input: Arc<Value>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) stand: CallState,
    /// Who decided.
    pub(crate) by: SmolStr,
    pub(crate) approved_by: Option<SmolStr>,
    /// The questions that were answered with yes.
    pub(crate) answered: Vec<AskReason>,
    /// Who changed the input: name, before, after.
    pub(crate) rewrites: Vec<(SmolStr, Arc<Value>, Arc<Value>)>,
    /// A transform's answer in the tool's stead.
    pub(crate) answer: Option<ToolOutput>,
    pub(crate) ran: Vec<HandlerRun>,
    /// The generation whose word was heard last.
    pub(crate) generation: u64,
    /// Whether a secret had been read by then.
    pub(crate) after_secret: bool,
    /// Who makes the call, where it is not the model: their own hooks are not asked.
    pub(crate) caller: Option<Owner>,
}

/// How things stand with a call.
pub(crate) enum CallState {
    Pass,
    /// A person must say yes first. `open` where a hook may answer for them.
    Ask {
        asks: Vec<AskReason>,
        open: bool,
    },
    /// It does not run. `words` are for the model.
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
            stand: CallState::Pass,
            by: SmolStr::default(),
            approved_by: None,
            answered: vec![],
            rewrites: vec![],
            answer: None,
            ran: vec![],
            generation: 0,
            after_secret: false,
            caller: None,
        }
    }

    /// A call that is not looked at any more.
    pub(crate) fn cancelled(call: ToolCall) -> Self {
        let mut judged = CallDecision::new(call);
        judged.cancel();
        judged
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
        self.by = by.into();
        self.stand = CallState::Refused { kind, reason: reason.into(), words: words.into() };
    }

    fn blocked_by(&mut self, meta: &HandlerMeta, reason: &str, scene: &StepCx) {
        if scene.is_cancelled() {
            return self.cancel();
        }
        let reason = if reason.trim().is_empty() { "it gave no reason" } else { reason };
        let words = blocked_words(&meta.name, reason);
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

/// Decides the calls of a step, all at once. Of an interrupted step, calls that were not asked about are
/// cancelled.
pub(crate) async fn decide_calls(
    scene: &StepCx,
    calls: Vec<ToolCall>,
    resumed: Option<Vec<SmolStr>>,
) -> Result<Vec<CallDecision>, StoreError> {
    let tools = &scene.face.tools;
    let watched = |call: &ToolCall| tools.row(&call.name).is_some_and(|row| row.watched);
    if calls.iter().any(watched) {
        scene.state().commit()?;
    }
    let each = |call: ToolCall| {
        let gone = resumed.as_ref().is_some_and(|asked: &Vec<SmolStr>| !asked.contains(&call.id));
        async move {
            if gone { CallDecision::cancelled(call) } else { prepare(scene, tools, call).await }
        }
    };
    let mut calls = calls;
    if calls.len() == 1 {
        let only = calls.remove(0);
        return Ok(vec![each(only).await]);
    }
    Ok(join_all(calls.into_iter().map(each)).await)
}

/// Takes a call through every stage that decides about it.
pub(crate) async fn prepare(scene: &StepCx, tools: &ToolSet, call: ToolCall) -> CallDecision {
    let mut judged = begin(scene, tools, call);
    let Some(row) = judged.row.clone() else { return judged };
    if check_schema(&mut judged, &row) && compute_facts(&mut judged, &row, scene) {
        if !row.shaping.is_empty() && !transform(&mut judged, &row, scene).await {
            return judged;
        }
        decide(&mut judged, &row, scene).await;
    }
    judged
}

/// Finds the tool of a call; one that is not shown is refused.
pub(crate) fn begin(scene: &StepCx, tools: &ToolSet, call: ToolCall) -> CallDecision {
    let mut judged =
        CallDecision { generation: scene.generation().number, ..CallDecision::new(call) };
    judged.row = tools.row(&judged.call.name).cloned();
    if judged.row.is_none() {
        out_of_scope(&mut judged, tools, scene.generation());
    }
    judged
}

/// What is shown to the model is what may be called.
fn out_of_scope(judged: &mut CallDecision, tools: &ToolSet, generation: &Generation) {
    let name = text::clip(&text::show_line(&judged.call.name), 80).into_owned();
    if generation.tools.row(&judged.call.name).is_some() {
        let words = format!("The tool `{name}` is not available to this agent.");
        return judged.refuse("scope", ToolErrorKind::Denied, words.clone(), words);
    }
    let names = || tools.specs().map(|spec| spec.name.as_str());
    let hint = match text::nearest(&name, names()) {
        Some(near) => format!(" Did you mean `{near}`?"),
        None if tools.is_empty() => " There are no tools here.".into(),
        None => format!(" There are: {}.", names().collect::<Vec<_>>().join(", ")),
    };
    let words = format!("Unknown tool: {name}.{hint}");
    judged.refuse("scope", ToolErrorKind::NotFound, words.clone(), words);
}

pub(crate) fn check_schema(judged: &mut CallDecision, row: &ToolEntry) -> bool {
    let Err(faults) = row.schema.check(&judged.input) else { return true };
    let words = format!("Invalid arguments for `{}`: {faults}.", judged.call.name);
    judged.refuse("schema", ToolErrorKind::InvalidArgs, words.clone(), words);
    false
}

pub(crate) fn compute_facts(judged: &mut CallDecision, row: &ToolEntry, scene: &StepCx) -> bool {
    let place = &scene.cx.run.place;
    match catch_unwind(AssertUnwindSafe(|| row.tool.effects(&judged.input, place))) {
        Ok(Facts { invalid: Some(why), .. }) => {
            let words = format!("Invalid arguments for `{}`: {why}.", judged.call.name);
            judged.refuse("schema", ToolErrorKind::InvalidArgs, words.clone(), words);
            false
        }
        Ok(facts) => {
            judged.facts = Arc::new(facts);
            true
        }
        Err(_) => {
            let words = "It could not be worked out what this call touches.";
            judged.refuse("effects", ToolErrorKind::Denied, words, words);
            false
        }
    }
}

/// Runs the transforms; what they made is checked like the model's own input.
pub(crate) async fn transform(judged: &mut CallDecision, row: &ToolEntry, scene: &StepCx) -> bool {
    let decided = scene.fire_on(&row.shaping, judged.event()).await;
    let PointOutcome { event, replaced, stop, ran, .. } = decided;
    judged.ran.extend(ran);
    let after = replaced.iter().skip(1).map(|(_, event)| event).chain([&event]);
    judged.rewrites = replaced
        .iter()
        .zip(after)
        .map(|((meta, before), after)| {
            (meta.name.clone(), before.tool_input.clone(), after.tool_input.clone())
        })
        .collect();
    judged.input = event.tool_input.clone();
    match stop {
        Some((meta, ChainStop::Block(reason))) => {
            judged.blocked_by(&meta, &reason, scene);
            return false;
        }
        Some((_, ChainStop::Answer(output))) => judged.answer = Some(output),
        None => {}
    }
    judged.rewrites.is_empty() || (check_schema(judged, row) && compute_facts(judged, row, scene))
}

/// The floor and the gates, side by side: the strictest stands.
async fn decide(judged: &mut CallDecision, row: &ToolEntry, scene: &StepCx) {
    judged.after_secret = judged.facts.has_effects() && scene.cx.has_read_secret();
    let ruling = rule(judged, scene);
    if let Verdict::Block(reason) = &ruling.verdict {
        let words = format!("Denied: {reason}. Do not retry this exact call.");
        return judged.refuse(
            format_smolstr!("{}", ruling.by),
            ToolErrorKind::Denied,
            reason,
            words,
        );
    }
    let decided: PointOutcome<ToolPre> = scene.fire_on(&row.judging, judged.event()).await;
    judged.ran.extend(decided.ran.iter().cloned());
    if let Some((meta, Verdict::Block(reason))) = decided.strictest() {
        return judged.blocked_by(meta, reason, scene);
    }
    judged.by = format_smolstr!("{}", ruling.by);
    let (asks, open) = questions(&ruling, &decided.verdicts);
    let Some(first) = asks.first() else { return };
    if scene.generation().policy.mode() == Mode::Auto {
        let reason = format!("{}, and mode `auto` asks nobody", first.reason);
        let words = format!("Denied: {reason}. Do not retry this exact call.");
        return judged.refuse(first.by.clone(), ToolErrorKind::Denied, reason, words);
    }
    judged.stand = CallState::Ask { asks, open };
}

pub(crate) fn rule(judged: &CallDecision, scene: &StepCx) -> Ruling {
    let (tool, place) = (judged.call.name.as_str(), &scene.cx.run.place);
    let approvals = &*scene.cx.root_session().approvals();
    let (input, facts) = (&judged.input, &judged.facts);
    let ruling =
        scene.generation().policy.decide(&PolicyInput { tool, input, facts, place, approvals });
    let may = facts.zone == Zone::Safe || matches!(ruling.verdict, Verdict::Block(_));
    match !may && scene.session().agent.only_looks() {
        true => Ruling { verdict: Verdict::block("this agent only looks"), by: Decider::Mode },
        false => ruling,
    }
}

/// Everybody who wants the call asked; whether only mode or zone do.
fn questions(ruling: &Ruling, verdicts: &[(Arc<HandlerMeta>, Verdict)]) -> (Vec<AskReason>, bool) {
    let floor = match &ruling.verdict {
        Verdict::Ask(reason) => {
            let by = format_smolstr!("{}", ruling.by);
            Some(AskReason { by, reason: reason.clone(), hook: None })
        }
        _ => None,
    };
    let open = ruling.by.leaves_the_answer_open() && verdicts.is_empty();
    let gates = verdicts.iter().map(|(meta, verdict)| AskReason {
        by: meta.name.clone(),
        reason: verdict.reason().unwrap_or_default().to_owned(),
        hook: Some(meta.id),
    });
    (floor.into_iter().chain(gates).collect(), open)
}

/// Somebody who asks, by name.
pub(crate) fn asks(by: &str, verdict: &Verdict) -> AskReason {
    let reason = verdict.reason().unwrap_or_default().to_owned();
    AskReason { by: by.into(), reason, hook: None }
}

/// Asks gates and floor once more, of the newest generation: before an approval counts, and before a
/// permit when the registry has changed. What was asked and answered is not asked again; anything
/// new that is stricter refuses.
pub(crate) async fn recheck(judged: &mut CallDecision, scene: &StepCx) {
    judged.generation = scene.generation().number;
    judged.after_secret = scene.cx.has_read_secret();
    let Some(row) = scene.face.tools.row(&judged.call.name).cloned() else {
        let words = "The tool is no longer there.";
        return judged.refuse("scope", ToolErrorKind::NotFound, words, words);
    };
    let decided_on = |decided: &Arc<ToolEntry>| decided.is_same_tool(&row);
    if !judged.row.as_ref().is_some_and(decided_on) {
        let words = "The tool is no longer the one this call was decided on.";
        return judged.refuse("scope", ToolErrorKind::Unavailable, words, words);
    }
    let row = match &judged.caller {
        Some(caller) => Arc::new(row.without(caller)),
        None => row,
    };
    let ruling = rule(judged, scene);
    if let Verdict::Block(reason) = &ruling.verdict {
        let words = format!("Denied: {reason}. Do not retry this exact call.");
        return judged.refuse(
            format_smolstr!("{}", ruling.by),
            ToolErrorKind::Denied,
            reason,
            words,
        );
    }
    let decided = scene.fire_on(&row.judging.gates_only(), judged.event()).await;
    judged.ran.extend(decided.ran.iter().cloned());
    if let Some((meta, Verdict::Block(reason))) = decided.strictest() {
        return judged.blocked_by(meta, reason, scene);
    }
    let (asks, _) = questions(&ruling, &decided.verdicts);
    let known = |ask: &&AskReason| {
        judged.answered.iter().any(|known| known.by == ask.by && known.hook == ask.hook)
    };
    if let Some(ask) = asks.iter().find(|ask| !known(ask)) {
        let words = format!("Denied: {} asks for it only now: {}.", ask.by, ask.reason);
        judged.refuse(ask.by.clone(), ToolErrorKind::Denied, ask.reason.clone(), words);
    }
}
