//! One question per step: every call that needs a yes, put to hooks that may answer and to the
//! person. Nobody's answer is a no.

use std::sync::Arc;

use smol_str::{SmolStr, format_smolstr};

use crate::{
    agent::step_cx::StepCx,
    history::{
        entry::Timestamp,
        ledger::{AnsweredRow, AskReason, AskedRow, Record, digest},
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
        suggest as offer,
    },
    pipeline::decide::{CallDecision, CallState, recheck},
    registry::{Registry, generation::Generation},
    text,
};

/// Asks about every call that needs it, and settles each as passed or refused.
pub(crate) async fn ask_about_step(
    scene: &StepCx,
    judged: &mut [CallDecision],
    id: SmolStr,
) -> Result<(), StoreError> {
    let calls: Vec<_> = judged.iter().filter_map(|judged| asked_call(scene, judged)).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let limit = scene.agent().limits().question;
    let question = Arc::new(Question { id, agent: scene.agent().id().clone(), calls, limit });
    store_question(scene, &question)?;
    let mut answers = settle(scene, &question, judged).await?;
    let asking = judged.iter().filter(|judged| matches!(judged.stand, CallState::Ask { .. }));
    for (given, judged) in answers.decisions.iter_mut().zip(asking) {
        remember(scene, judged, given);
    }
    store_answers(scene, &question, &answers)?;
    let scene = scene.newest();
    // In the order in which they were asked: an answer is one call's, whatever the calls are named.
    let mut decisions = answers.decisions.iter();
    for judged in judged.iter_mut() {
        let CallState::Ask { asks, .. } = &mut judged.stand else { continue };
        let asks = std::mem::take(asks);
        match decisions.next() {
            Some(CallAnswer { yes: true, .. }) => {
                judged.stand = CallState::Pass;
                judged.approved_by = Some(answers.by.clone());
                judged.answered = asks;
                recheck(judged, &scene).await;
            }
            given => {
                let words = given.and_then(|given| given.words.as_deref());
                refuse(judged, &asks, &answers.by, words);
            }
        }
    }
    Ok(())
}

/// Who answered where nobody did.
const NOBODY: &str = "nobody";

/// What came back, a decision per call.
struct StepAnswers {
    by: SmolStr,
    decisions: Vec<CallAnswer>,
}

/// What was said about one call.
struct CallAnswer {
    call_id: SmolStr,
    yes: bool,
    /// Words for the model, or what else was said yes to.
    words: Option<String>,
    remember: Option<(ApprovalScope, Vec<String>)>,
}

/// How long a yes holds.
#[derive(Clone, Copy)]
enum ApprovalScope {
    Session,
    Always,
}

impl CallAnswer {
    fn new(call: &QuestionCall, yes: bool, words: Option<String>) -> Self {
        CallAnswer { call_id: call.call_id.clone(), yes, words, remember: None }
    }
}

impl StepAnswers {
    fn all(question: &Question, by: impl Into<SmolStr>, yes: bool, words: Option<&str>) -> Self {
        let calls = question.calls.iter();
        let decision = |call: &QuestionCall| CallAnswer::new(call, yes, words.map(str::to_owned));
        StepAnswers { by: by.into(), decisions: calls.map(decision).collect() }
    }
}

async fn settle(
    scene: &StepCx,
    question: &Arc<Question>,
    judged: &[CallDecision],
) -> Result<StepAnswers, StoreError> {
    let decided = scene.fire_stored::<PermissionAsk>(|| Question::clone(question)).await?;
    if let Some(decided) = decided {
        if let Some((meta, Admission::Block(reason))) = decided.strictest() {
            return Ok(StepAnswers::all(question, meta.name.clone(), false, Some(reason)));
        }
        let open =
            judged.iter().all(|judged| !matches!(judged.stand, CallState::Ask { open: false, .. }));
        if open && let Some(answers) = by_hook(question, &decided, &scene.agent().generation()) {
            return Ok(answers);
        }
    }
    let ui = scene.agent().ui().clone();
    if !ui.present() {
        return Ok(StepAnswers::all(question, NOBODY, false, Some("nobody is there to be asked")));
    }
    let cancel = scene.cx.run.cancel.clone();
    Ok(tokio::select! {
        biased;
        () = cancel.cancelled() => StepAnswers::all(question, NOBODY, false, Some("the run was aborted")),
        answered = ui.ask(question.clone()) => by_person(question, answered),
        () = tokio::time::sleep(question.limit) => {
            StepAnswers::all(question, NOBODY, false, Some("nobody answered in time"))
        }
    })
}

/// The strictest answer of the hooks that may still answer.
fn by_hook(
    question: &Question,
    decided: &PointOutcome<PermissionAsk>,
    newest: &Generation,
) -> Option<StepAnswers> {
    let may = &newest.chain::<PermissionAsk>().answers;
    let still = |meta: &HandlerMeta| may.iter().any(|bound| bound.meta.id == meta.id);
    let answers = decided.answers.iter().rev().filter(|(meta, _)| still(meta));
    let (meta, answer) = answers.max_by_key(|(_, answer)| answer.rank())?;
    let by = format_smolstr!("hook {}", meta.name);
    match answer {
        PermissionAnswer::Yes => Some(StepAnswers::all(question, by, true, None)),
        PermissionAnswer::No(reason) => Some(StepAnswers::all(question, by, false, Some(reason))),
        PermissionAnswer::Pass => None,
    }
}

/// An answer counts only for the question it names, and for calls as they were shown.
fn by_person(question: &Question, answered: Option<QuestionAnswer>) -> StepAnswers {
    let Some(answered) = answered else {
        return StepAnswers::all(question, NOBODY, false, Some("there was no answer"));
    };
    if answered.question != question.id {
        let words = Some("the answer was to another question");
        return StepAnswers::all(question, answered.by, false, words);
    }
    let decision = |call: &QuestionCall| {
        let said = answered.decisions.iter().find(|(digest, _)| *digest == call.digest);
        match said {
            Some((_, CallApproval::Yes)) => CallAnswer::new(call, true, None),
            Some((_, CallApproval::YesForSession(rules))) => {
                let remember = Some((ApprovalScope::Session, rules.clone()));
                CallAnswer { remember, ..CallAnswer::new(call, true, None) }
            }
            Some((_, CallApproval::YesAlways(rules))) => {
                let remember = Some((ApprovalScope::Always, rules.clone()));
                CallAnswer { remember, ..CallAnswer::new(call, true, None) }
            }
            Some((_, CallApproval::No(words))) => CallAnswer::new(call, false, words.clone()),
            None => CallAnswer::new(call, false, None),
        }
    };
    let decisions = question.calls.iter().map(decision).collect();
    StepAnswers { by: answered.by.clone(), decisions }
}

/// Remembers a yes that holds for longer than its call. Only what would have answered this very
/// question counts: no rule takes the place of a gate, an ask rule or the kernel.
fn remember(scene: &StepCx, judged: &CallDecision, given: &mut CallAnswer) {
    let Some((lasting, texts)) = given.remember.take() else { return };
    let rules = texts.iter().map(|text| Rule::parse(RuleKind::Allow, text));
    let Ok(rules) = rules.collect::<Result<Vec<_>, _>>() else { return };
    let session = scene.cx.root_session();
    let approvals = session.approvals();
    let asked = asked(scene, judged, &approvals);
    if !is_open(judged) || !offer::answers(&scene.generation().policy, &asked, &rules) {
        return;
    }
    let shown = texts.join(", ");
    let how = match lasting {
        ApprovalScope::Session => {
            session.approve(rules);
            "for this session"
        }
        ApprovalScope::Always => {
            let owner = Owner::new(Origin::User, "approvals");
            let fill = |unit: &mut Registry| rules.into_iter().for_each(|rule| _ = unit.rule(rule));
            if scene.agent().extend(owner, fill).is_err() {
                return;
            }
            "from now on"
        }
    };
    given.words = Some(format!("and {shown} {how}"));
}

fn asked<'a>(
    scene: &'a StepCx,
    judged: &'a CallDecision,
    approvals: &'a [Rule],
) -> PolicyInput<'a> {
    let (tool, place) = (judged.call.name.as_str(), &scene.cx.run.place);
    PolicyInput { tool, input: &judged.input, facts: &judged.facts, place, approvals }
}

/// Whether only mode or zone ask.
fn is_open(judged: &CallDecision) -> bool {
    matches!(judged.stand, CallState::Ask { open: true, .. })
}

/// Where nobody answered, it is told what there was to be asked about.
fn refuse(judged: &mut CallDecision, asks: &[AskReason], by: &SmolStr, words: Option<&str>) {
    let name = &judged.call.name;
    let reasons = asks.iter().map(|ask| ask.reason.as_str()).collect::<Vec<_>>().join("; ");
    let words = match words {
        Some(words) if by == NOBODY => Some(format!("{reasons}, and {words}")),
        words => words.map(str::to_owned),
    };
    let because = words.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
    let told = format!("Permission denied for `{name}`{because}. Do not retry this exact call.");
    let reason = words.unwrap_or_else(|| "the answer was no".to_owned());
    judged.refuse(by.clone(), ToolErrorKind::Denied, reason, told);
}

fn asked_call(scene: &StepCx, judged: &CallDecision) -> Option<QuestionCall> {
    let CallState::Ask { asks, .. } = &judged.stand else { return None };
    let approvals = scene.cx.root_session().approvals();
    let offer = match is_open(judged) {
        true => offer::offer(&scene.generation().policy, &asked(scene, judged, &approvals)),
        false => vec![],
    };
    Some(QuestionCall {
        call_id: judged.call.id.clone(),
        name: judged.call.name.clone(),
        preview: preview(judged),
        input: judged.input.clone(),
        asks: asks.clone(),
        offer,
        own_rule: own_rule(scene, judged),
        digest: call_digest(scene, judged),
    })
}

/// What tells of a rule whether it answers this question, as it stands now.
fn own_rule(scene: &StepCx, judged: &CallDecision) -> RuleCheck {
    if !is_open(judged) {
        return RuleCheck::default();
    }
    let (generation, place) = (scene.generation().clone(), scene.cx.run.place.clone());
    let (tool, input, facts) =
        (judged.call.name.clone(), judged.input.clone(), judged.facts.clone());
    let approvals = scene.cx.root_session().approvals();
    RuleCheck::new(move |rule| {
        let (input, facts, place) = (&input, &facts, &place);
        let asked = PolicyInput { tool: &tool, input, facts, place, approvals: &approvals };
        offer::answers(&generation.policy, &asked, std::slice::from_ref(rule))
    })
}

fn preview(judged: &CallDecision) -> String {
    let input = serde_json::to_string(&judged.input).unwrap_or_default();
    text::clip(&format!("{} {input}", judged.call.name), 2000).into_owned()
}

/// Binds an answer to session, call, tool definition, input and working folder.
fn call_digest(scene: &StepCx, judged: &CallDecision) -> SmolStr {
    let run = &scene.cx.run;
    let spec = judged.row.as_ref().map(|row| &row.spec);
    let schema = spec.map(|spec| spec.schema.to_string()).unwrap_or_default();
    let description = spec.map_or("", |spec| spec.description.as_str());
    digest(&[
        run.session.id().as_bytes(),
        run.run_id.as_bytes(),
        judged.call.id.as_bytes(),
        judged.call.name.as_bytes(),
        description.as_bytes(),
        schema.as_bytes(),
        judged.input.to_string().as_bytes(),
        run.place.cwd().as_os_str().as_encoded_bytes(),
    ])
}

fn store_question(scene: &StepCx, question: &Arc<Question>) -> Result<(), StoreError> {
    let at = Timestamp::now();
    let millis = u64::try_from(question.limit.as_millis()).unwrap_or(u64::MAX);
    let ask = |call: &QuestionCall| (call.call_id.clone(), call.asks.clone());
    let row = AskedRow {
        at,
        run: scene.run_id().clone(),
        step: scene.cx.step(),
        id: question.id.clone(),
        deadline: Timestamp(at.0.saturating_add(millis)),
        calls: question.calls.iter().map(ask).collect::<Vec<(SmolStr, Vec<AskReason>)>>(),
    };
    {
        let mut state = scene.state();
        state.record(Record::Question(row));
        state.commit_behind()?;
    }
    scene.tell(|| EventKind::PermissionRequest { question: question.clone() })
}

fn store_answers(
    scene: &StepCx,
    question: &Question,
    answers: &StepAnswers,
) -> Result<(), StoreError> {
    let row = AnsweredRow {
        at: Timestamp::now(),
        run: scene.run_id().clone(),
        question: question.id.clone(),
        by: answers.by.clone(),
        decisions: told(answers),
    };
    scene.state().record(Record::Answer(row));
    scene.tell(|| EventKind::PermissionResponse {
        id: question.id.clone(),
        decisions: told(answers),
        by: answers.by.clone(),
    })
}

fn told(answers: &StepAnswers) -> Vec<(SmolStr, bool, Option<String>)> {
    let given = answers.decisions.iter();
    given.map(|given| (given.call_id.clone(), given.yes, given.words.clone())).collect()
}
