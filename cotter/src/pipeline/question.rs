//! One question per step, with every call that needs a yes. It is put to the hooks that may answer, then to
//! the person. No answer is a no.

use std::sync::Arc;

use smol_str::{SmolStr, format_smolstr};

use crate::{
    agent::step_cx::StepCx,
    history::{
        entry::Timestamp,
        ledger::{AnswerRow, AskReason, QuestionRow, Record, digest},
        outcome::ToolErrorKind,
        store::StoreError,
    },
    hooks::{
        chain::HandlerMeta,
        dispatch::PointOutcome,
        events::EventKind,
        points::{
            Admission, RankedAnswer,
            permission::{PermissionAnswer, PermissionAsk},
        },
        ui::{CallApproval, Question, QuestionAnswer, QuestionCall, RuleCheck},
    },
    permission::{
        PolicyInput,
        origin::{Origin, Owner},
        rule::{Rule, RuleKind},
        suggest,
    },
    pipeline::decide::{CallDecision, CallState, recheck},
    registry::{Registry, generation::Generation},
    text,
};

/// Asks about every call that needs a yes, and sets each of them to passed or refused.
pub(crate) async fn ask_about_step(
    step_cx: &StepCx,
    decisions: &mut [CallDecision],
    id: SmolStr,
) -> Result<(), StoreError> {
    let calls: Vec<_> =
        decisions.iter().filter_map(|decision| question_call(step_cx, decision)).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let limit = step_cx.agent().limits().question;
    let question = Arc::new(Question { id, agent: step_cx.agent().id().clone(), calls, limit });
    store_question(step_cx, &question)?;
    let mut answers = collect_answers(step_cx, &question, decisions).await?;
    let asked = decisions.iter().filter(|decision| matches!(decision.state, CallState::Ask { .. }));
    for (answer, decision) in answers.decisions.iter_mut().zip(asked) {
        remember_approval(step_cx, decision, answer);
    }
    store_answers(step_cx, &question, &answers)?;
    let step_cx = step_cx.with_newest_view();
    // Matched by order, not by id: each answer belongs to one call, even if call ids repeat.
    let mut call_answers = answers.decisions.iter();
    for decision in decisions.iter_mut() {
        let CallState::Ask { asks, .. } = &mut decision.state else { continue };
        let asks = std::mem::take(asks);
        match call_answers.next() {
            Some(CallAnswer { yes: true, .. }) => {
                decision.state = CallState::Pass;
                decision.approved_by = Some(answers.by.clone());
                decision.approved_asks = asks;
                recheck(decision, &step_cx).await;
            }
            answer => {
                let message = answer.and_then(|answer| answer.message.as_deref());
                refuse(decision, &asks, &answers.by, message);
            }
        }
    }
    Ok(())
}

/// The name in `by` if there was no answer.
const NOBODY: &str = "nobody";

/// The answers to a question, one per call.
struct StepAnswers {
    by: SmolStr,
    decisions: Vec<CallAnswer>,
}

/// The answer about one call.
struct CallAnswer {
    call_id: SmolStr,
    yes: bool,
    /// The message to the model, or the rules that were approved with a yes.
    message: Option<String>,
    remember: Option<(ApprovalScope, Vec<String>)>,
}

/// The time for which an approval holds.
#[derive(Clone, Copy)]
enum ApprovalScope {
    Session,
    Always,
}

impl CallAnswer {
    fn new(call: &QuestionCall, yes: bool, message: Option<String>) -> Self {
        CallAnswer { call_id: call.call_id.clone(), yes, message, remember: None }
    }
}

impl StepAnswers {
    fn all(question: &Question, by: impl Into<SmolStr>, yes: bool, message: Option<&str>) -> Self {
        let calls = question.calls.iter();
        let decision = |call: &QuestionCall| CallAnswer::new(call, yes, message.map(str::to_owned));
        StepAnswers { by: by.into(), decisions: calls.map(decision).collect() }
    }
}

async fn collect_answers(
    step_cx: &StepCx,
    question: &Arc<Question>,
    decisions: &[CallDecision],
) -> Result<StepAnswers, StoreError> {
    let outcome = step_cx.fire_stored::<PermissionAsk>(|| Question::clone(question)).await?;
    if let Some(outcome) = outcome {
        if let Some((meta, Admission::Block(reason))) = outcome.strictest() {
            return Ok(StepAnswers::all(question, meta.name.clone(), false, Some(reason)));
        }
        let hook_may_answer = decisions.iter().all(|decision| {
            !matches!(decision.state, CallState::Ask { hook_may_answer: false, .. })
        });
        if hook_may_answer
            && let Some(answers) = hook_answers(question, &outcome, &step_cx.agent().generation())
        {
            return Ok(answers);
        }
    }
    let ui = step_cx.agent().ui().clone();
    if !ui.present() {
        return Ok(StepAnswers::all(question, NOBODY, false, Some("no person can be asked")));
    }
    let cancel = step_cx.cx.run.cancel.clone();
    Ok(tokio::select! {
        biased;
        () = cancel.cancelled() => StepAnswers::all(question, NOBODY, false, Some("the run was aborted")),
        answer = ui.ask(question.clone()) => person_answers(question, answer),
        () = tokio::time::sleep(question.limit) => {
            StepAnswers::all(question, NOBODY, false, Some("no answer came in time"))
        }
    })
}

/// The strictest answer of the hooks that may still answer.
fn hook_answers(
    question: &Question,
    outcome: &PointOutcome<PermissionAsk>,
    newest: &Generation,
) -> Option<StepAnswers> {
    let current_answers = &newest.chain::<PermissionAsk>().answers;
    let may_still_answer =
        |meta: &HandlerMeta| current_answers.iter().any(|bound| bound.meta.id == meta.id);
    let answers = outcome.answers.iter().rev().filter(|(meta, _)| may_still_answer(meta));
    let (meta, answer) = answers.max_by_key(|(_, answer)| answer.rank())?;
    let by = format_smolstr!("hook {}", meta.name);
    match answer {
        PermissionAnswer::Yes => Some(StepAnswers::all(question, by, true, None)),
        PermissionAnswer::No(reason) => Some(StepAnswers::all(question, by, false, Some(reason))),
        PermissionAnswer::Pass => None,
    }
}

/// Reads a person's answer. It counts only for the question that it names, and for calls as they were
/// shown.
fn person_answers(question: &Question, answer: Option<QuestionAnswer>) -> StepAnswers {
    let Some(answer) = answer else {
        return StepAnswers::all(question, NOBODY, false, Some("there was no answer"));
    };
    if answer.question != question.id {
        let message = Some("the answer was to another question");
        return StepAnswers::all(question, answer.by, false, message);
    }
    let decision = |call: &QuestionCall| {
        let approval = answer.decisions.iter().find(|(digest, _)| *digest == call.digest);
        match approval {
            Some((_, CallApproval::Yes)) => CallAnswer::new(call, true, None),
            Some((_, CallApproval::YesForSession(rules))) => {
                let remember = Some((ApprovalScope::Session, rules.clone()));
                CallAnswer { remember, ..CallAnswer::new(call, true, None) }
            }
            Some((_, CallApproval::YesAlways(rules))) => {
                let remember = Some((ApprovalScope::Always, rules.clone()));
                CallAnswer { remember, ..CallAnswer::new(call, true, None) }
            }
            Some((_, CallApproval::No(message))) => CallAnswer::new(call, false, message.clone()),
            None => CallAnswer::new(call, false, None),
        }
    };
    let decisions = question.calls.iter().map(decision).collect();
    StepAnswers { by: answer.by.clone(), decisions }
}

/// Remembers an approval that holds for longer than its call. It counts only if its rules would have
/// answered this question: no rule replaces a gate, an ask rule or the kernel.
fn remember_approval(step_cx: &StepCx, decision: &CallDecision, answer: &mut CallAnswer) {
    let Some((scope, texts)) = answer.remember.take() else { return };
    let rules = texts.iter().map(|text| Rule::parse(RuleKind::Allow, text));
    let Ok(rules) = rules.collect::<Result<Vec<_>, _>>() else { return };
    let session = step_cx.cx.root_session();
    let approvals = session.approvals();
    let policy_input = policy_input(step_cx, decision, &approvals);
    if !hook_may_answer(decision)
        || !suggest::would_pass(&step_cx.generation().policy, &policy_input, &rules)
    {
        return;
    }
    let rule_list = texts.join(", ");
    let duration = match scope {
        ApprovalScope::Session => {
            session.approve(rules);
            "for this session"
        }
        ApprovalScope::Always => {
            let owner = Owner::new(Origin::User, "approvals");
            let fill = |unit: &mut Registry| rules.into_iter().for_each(|rule| _ = unit.rule(rule));
            if step_cx.agent().extend(owner, fill).is_err() {
                return;
            }
            "from now on"
        }
    };
    answer.message = Some(format!("and {rule_list} {duration}"));
}

fn policy_input<'a>(
    step_cx: &'a StepCx,
    decision: &'a CallDecision,
    approvals: &'a [Rule],
) -> PolicyInput<'a> {
    let (tool, workspace) = (decision.call.name.as_str(), &step_cx.cx.run.workspace);
    PolicyInput { tool, input: &decision.input, facts: &decision.facts, workspace, approvals }
}

/// True if only the mode or the zone asks, so that a hook or a rule may answer.
fn hook_may_answer(decision: &CallDecision) -> bool {
    matches!(decision.state, CallState::Ask { hook_may_answer: true, .. })
}

/// Refuses a call. If no person answered, the reason also contains the reasons for the question.
fn refuse(decision: &mut CallDecision, asks: &[AskReason], by: &SmolStr, message: Option<&str>) {
    let name = &decision.call.name;
    let reasons = asks.iter().map(|ask| ask.reason.as_str()).collect::<Vec<_>>().join("; ");
    let message = match message {
        Some(message) if by == NOBODY => Some(format!("{reasons}, and {message}")),
        message => message.map(str::to_owned),
    };
    let suffix = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    let result = format!("Permission denied for `{name}`{suffix}. Do not retry this exact call.");
    let reason = message.unwrap_or_else(|| "the answer was no".to_owned());
    decision.refuse(by.clone(), ToolErrorKind::Denied, reason, result);
}

fn question_call(step_cx: &StepCx, decision: &CallDecision) -> Option<QuestionCall> {
    let CallState::Ask { asks, .. } = &decision.state else { return None };
    let approvals = step_cx.cx.root_session().approvals();
    let offer = match hook_may_answer(decision) {
        true => suggest::suggest_rules(
            &step_cx.generation().policy,
            &policy_input(step_cx, decision, &approvals),
        ),
        false => vec![],
    };
    Some(QuestionCall {
        call_id: decision.call.id.clone(),
        name: decision.call.name.clone(),
        preview: preview(decision),
        input: decision.input.clone(),
        asks: asks.clone(),
        offer,
        own_rule: rule_check(step_cx, decision),
        digest: call_digest(step_cx, decision),
    })
}

/// A check of whether a rule would answer this question, under the current policy.
fn rule_check(step_cx: &StepCx, decision: &CallDecision) -> RuleCheck {
    if !hook_may_answer(decision) {
        return RuleCheck::default();
    }
    let (generation, workspace) = (step_cx.generation().clone(), step_cx.cx.run.workspace.clone());
    let (tool, input, facts) =
        (decision.call.name.clone(), decision.input.clone(), decision.facts.clone());
    let approvals = step_cx.cx.root_session().approvals();
    RuleCheck::new(move |rule| {
        let (input, facts, workspace) = (&input, &facts, &workspace);
        let policy_input =
            PolicyInput { tool: &tool, input, facts, workspace, approvals: &approvals };
        suggest::would_pass(&generation.policy, &policy_input, std::slice::from_ref(rule))
    })
}

fn preview(decision: &CallDecision) -> String {
    let input = serde_json::to_string(&decision.input).unwrap_or_default();
    text::cut_chars(&format!("{} {input}", decision.call.name), 2000).into_owned()
}

/// The digest that binds an answer to session, call, tool definition, input and working folder.
fn call_digest(step_cx: &StepCx, decision: &CallDecision) -> SmolStr {
    let run = &step_cx.cx.run;
    let spec = decision.row.as_ref().map(|row| &row.spec);
    let schema = spec.map(|spec| spec.schema.to_string()).unwrap_or_default();
    let description = spec.map_or("", |spec| spec.description.as_str());
    digest(&[
        run.session.id().as_bytes(),
        run.run_id.as_bytes(),
        decision.call.id.as_bytes(),
        decision.call.name.as_bytes(),
        description.as_bytes(),
        schema.as_bytes(),
        decision.input.to_string().as_bytes(),
        run.workspace.cwd().as_os_str().as_encoded_bytes(),
    ])
}

fn store_question(step_cx: &StepCx, question: &Arc<Question>) -> Result<(), StoreError> {
    let at = Timestamp::now();
    let millis = u64::try_from(question.limit.as_millis()).unwrap_or(u64::MAX);
    let ask = |call: &QuestionCall| (call.call_id.clone(), call.asks.clone());
    let row = QuestionRow {
        at,
        run: step_cx.run_id().clone(),
        step: step_cx.cx.step(),
        id: question.id.clone(),
        deadline: Timestamp(at.0.saturating_add(millis)),
        calls: question.calls.iter().map(ask).collect::<Vec<(SmolStr, Vec<AskReason>)>>(),
    };
    {
        let mut state = step_cx.state();
        state.record(Record::Question(row));
        state.commit_and_start_sync()?;
    }
    step_cx.commit_and_emit(|| EventKind::PermissionRequest { question: question.clone() })
}

fn store_answers(
    step_cx: &StepCx,
    question: &Question,
    answers: &StepAnswers,
) -> Result<(), StoreError> {
    let row = AnswerRow {
        at: Timestamp::now(),
        run: step_cx.run_id().clone(),
        question: question.id.clone(),
        by: answers.by.clone(),
        decisions: answer_rows(answers),
    };
    step_cx.state().record(Record::Answer(row));
    step_cx.commit_and_emit(|| EventKind::PermissionResponse {
        id: question.id.clone(),
        decisions: answer_rows(answers),
        by: answers.by.clone(),
    })
}

fn answer_rows(answers: &StepAnswers) -> Vec<(SmolStr, bool, Option<String>)> {
    let decisions = answers.decisions.iter();
    decisions.map(|answer| (answer.call_id.clone(), answer.yes, answer.message.clone())).collect()
}
